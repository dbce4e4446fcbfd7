"""What putting a journal back and making things anew come to on every backend: read here, written by the backend."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentmem.errors import Conflict, InvalidRecord, SchemaMismatch
from agentmem.model.changes import Gone, Stored
from agentmem.model.outline import OutlineRow
from agentmem.stores.outlines import NO_FEATURES, outline_row
from agentmem.stores.payload import FORMAT, Stamp, decode, encode
from agentmem.stores.upkeep import RawChange, RawVersion, Reach
from agentmem.text.features import Features, read_words

Counts = Mapping[str, int]  # how often a text has each term


@dataclass(frozen=True, slots=True)
class Image:
    """An after-image as it will be stored, with what was read of its text."""

    stored: Stored
    text: str
    features: Features
    counts: Counts


class Piece:
    """A piece of a user's journal to be put back: `read` before anything is locked, the rest inside the transaction."""

    def __init__(self, user_id: str, changes: Sequence[RawChange]) -> None:
        self.user_id = user_id
        self.changes = changes
        self.versions: list[tuple[Any, ...]] = []  # rows of memory_versions as a Draft has them, and whether erased
        self.last: dict[int, Image | Gone] = {}  # what each slot holds in the end
        self.images: dict[int, Image] = {}  # the last after-image of each slot, whose words stay

    def read(self) -> None:
        """Read every after-image; InvalidRecord for one that does not fit, Conflict where positions have gaps."""
        for expected, change in enumerate(self.changes, self.changes[0].seq if self.changes else 0):
            if change.seq != expected:
                raise Conflict(f"the journal has a gap: position {expected} is missing before {change.seq}")
            for version in change.versions:
                self._take(change, version)

    def _take(self, change: RawChange, version: RawVersion) -> None:
        slot, kind, record_id, channel, recorded_at, form, record, erased = version
        if form > FORMAT:
            raise InvalidRecord(f"{kind} {record_id!r} has format {form}, this version knows {FORMAT}", field="format")
        text = None
        if record is None:
            self.last[slot] = Gone(slot, kind, record_id, erased)
        else:
            stamp = Stamp(self.user_id, record_id, channel, recorded_at, change.seq, change.operation_id)
            try:
                full = decode(kind, record, stamp)
            except SchemaMismatch as error:
                raise InvalidRecord(str(error), field="record") from error
            text = encode(full)
            features, counts = read_words(full.searchable()) if full.searchable() else (NO_FEATURES, {})
            self.last[slot] = self.images[slot] = Image(Stored(slot, full), full.searchable(), features, counts)
        row = (self.user_id, slot, change.seq, kind, record_id, channel, recorded_at, text, form, erased)
        self.versions.append(row)

    def check_follows(self, before: Reach) -> None:
        """Raise Conflict when the piece does not continue a journal that goes so far."""
        if (first := self.changes[0].seq) != before.head + 1:
            raise Conflict(f"the journal of {self.user_id} ends at {before.head}; position {first} does not follow")

    def reached(self, before: Reach) -> Reach:
        """How far the journal goes with this piece."""
        last, slots = self.changes[-1], max((slot + 1 for slot in self.last), default=0)
        return Reach(last.seq, slots, before.erasures, last.at)

    def rows(self) -> list[tuple[Any, ...]]:
        """The rows of memory_changes."""
        return [(self.user_id, *change[:8]) for change in self.changes]

    def current(self) -> list[Image]:
        """What is current in the end, of the slots that the piece names."""
        return [item for item in self.last.values() if isinstance(item, Image)]

    def left(self) -> list[Gone]:
        """What left, of the slots that the piece names."""
        return [item for item in self.last.values() if isinstance(item, Gone)]

    def records(self) -> list[tuple[OutlineRow, str]]:
        """The rows of memory_records, each with its unique value."""
        return [
            (outline_row(image.stored.slot, image.stored.record, image.features), image.stored.record.unique())
            for image in self.current()
        ]

    def words(self, before: Mapping[int, str]) -> tuple[dict[int, str], dict[int, Counts]]:
        """The slots whose text is another now than `before`: the texts that go, and the counts that come."""
        changed = {slot: image for slot, image in self.images.items() if image.text != before.get(slot, "")}
        counts = {slot: image.counts for slot, image in changed.items() if image.text}
        return {slot: before.get(slot, "") for slot in changed}, counts


def check_settled(user_id: str, found: Reach, wanted: Reach) -> None:
    """Raise Conflict when a journal that was put back ends elsewhere."""
    if found.head != wanted.head:
        raise Conflict(
            f"the journal of {user_id} ends at {found.head}, not at {wanted.head}; import the whole file again"
        )


def assembled(changes: Sequence[Sequence[Any]], versions: Iterable[Sequence[Any]]) -> list[RawChange]:
    """Raw changes of their rows and those of their versions, which begin with `seq` and end with whether erased."""
    held: dict[int, list[RawVersion]] = {row[0]: [] for row in changes}
    for seq, *fields, erased in versions:
        held[seq].append(RawVersion._make([*fields, bool(erased)]))
    return [RawChange._make([*row, tuple(held[row[0]])]) for row in changes]


def texts(user_id: str, rows: Iterable[Sequence[Any]]) -> dict[int, str]:
    """The searchable text of stored versions by slot; rows are slot, kind, payload, id, channel, recorded_at, seq."""
    return {
        slot: decode(kind, payload, Stamp._make([user_id, *stamp, ""])).searchable()
        for slot, kind, payload, *stamp in rows
    }


def term_counts(user_id: str, rows: Iterable[Sequence[Any]]) -> dict[int, Counts | None]:
    """The term counts of stored versions by slot, None where there is no text; rows as for `texts`."""
    return {slot: read_words(text)[1] if text else None for slot, text in texts(user_id, rows).items()}


def indexed(counts: Mapping[int, Counts | None]) -> list[tuple[int, Counts]]:
    """What the word index is given of term counts by slot, in the order of slots."""
    found = ((slot, counts[slot]) for slot in sorted(counts))
    return [(slot, held) for slot, held in found if held is not None]


def serves_already(identity: str, served: str, building: str) -> bool:
    """Whether the switch to an embedder is done already. Raises Conflict when another one is being built."""
    if building == identity:
        return False
    if served == identity and not building:
        return True
    raise Conflict(f"the embedder {building or served} was chosen meanwhile; nothing was switched")
