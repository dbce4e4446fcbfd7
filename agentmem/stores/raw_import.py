"""What restoring a journal and rebuilding projections share: read here, written by the backend."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentmem.core.changes import RemovedRecord, StoredRecord
from agentmem.core.columns import RecordRow
from agentmem.errors import Conflict, InvalidRecord, SchemaMismatch
from agentmem.stores.admin import JournalCounters, RawChange, RawVersion
from agentmem.stores.codec import NO_FEATURES, PAYLOAD_FORMAT, RecordMetadata, build_column_row, decode, encode
from agentmem.text.tokenizer import TextFeatures, extract_features_and_terms

TermCounts = Mapping[str, int]  # how often a text has each term


@dataclass(frozen=True, slots=True)
class AfterImage:
    """An after-image as it will be stored, with what was read of its text."""

    stored: StoredRecord
    text: str
    features: TextFeatures
    term_counts: TermCounts


class JournalSegment:
    """A piece of a user's journal to be put back: `parse` before anything is locked, the rest inside the
    transaction.
    """

    def __init__(self, user_id: str, changes: Sequence[RawChange]) -> None:
        self.user_id = user_id
        self.changes = changes
        self.version_rows: list[tuple[Any, ...]] = []  # rows of memory_versions as a Draft has them, and whether erased
        self.final_by_ordinal: dict[int, AfterImage | RemovedRecord] = {}  # what each ordinal holds in the end
        self.images_by_ordinal: dict[int, AfterImage] = {}  # the last after-image of each ordinal, whose words stay

    def parse(self) -> None:
        """Read every after-image; InvalidRecord for one that does not fit, Conflict where positions have gaps."""
        for expected, change in enumerate(self.changes, self.changes[0].seq if self.changes else 0):
            if change.seq != expected:
                raise Conflict(f"the journal has a gap: position {expected} is missing before {change.seq}")
            for version in change.versions:
                self._parse_version(change, version)

    def _parse_version(self, change: RawChange, version: RawVersion) -> None:
        ordinal, kind, record_id, channel, recorded_at, form, record, erased = version
        if form > PAYLOAD_FORMAT:
            raise InvalidRecord(
                f"{kind} {record_id!r} has format {form}, this version knows {PAYLOAD_FORMAT}", field="format"
            )
        text = None
        if record is None:
            self.final_by_ordinal[ordinal] = RemovedRecord(ordinal, kind, record_id, erased)
        else:
            stamp = RecordMetadata(self.user_id, record_id, channel, recorded_at, change.seq, change.operation_id)
            try:
                full = decode(kind, record, stamp)
            except SchemaMismatch as error:
                raise InvalidRecord(str(error), field="record") from error
            text = encode(full)
            features, counts = (
                extract_features_and_terms(full.search_text()) if full.search_text() else (NO_FEATURES, {})
            )
            self.final_by_ordinal[ordinal] = self.images_by_ordinal[ordinal] = AfterImage(
                StoredRecord(ordinal, full), full.search_text(), features, counts
            )
        row = (self.user_id, ordinal, change.seq, kind, record_id, channel, recorded_at, text, form, erased)
        self.version_rows.append(row)

    def check_continues(self, counters: JournalCounters) -> None:
        """Raise Conflict when the piece does not continue a journal that goes so far."""
        if (first := self.changes[0].seq) != counters.head + 1:
            raise Conflict(f"the journal of {self.user_id} ends at {counters.head}; position {first} does not follow")

    def counters_after(self, counters: JournalCounters) -> JournalCounters:
        """The last positions of the journal with this piece."""
        last, ordinals = self.changes[-1], max((ordinal + 1 for ordinal in self.final_by_ordinal), default=0)
        return JournalCounters(last.seq, ordinals, counters.erasures, last.at)

    def change_rows(self) -> list[tuple[Any, ...]]:
        """The rows of memory_changes."""
        return [(self.user_id, *change[:8]) for change in self.changes]

    def current_images(self) -> list[AfterImage]:
        """What is current in the end, of the ordinals that the piece names."""
        return [item for item in self.final_by_ordinal.values() if isinstance(item, AfterImage)]

    def removed_records(self) -> list[RemovedRecord]:
        """What left, of the ordinals that the piece names."""
        return [item for item in self.final_by_ordinal.values() if isinstance(item, RemovedRecord)]

    def record_rows(self) -> list[tuple[RecordRow, str]]:
        """The rows of memory_records, each with its unique value."""
        return [
            (
                build_column_row(image.stored.ordinal, image.stored.record, image.features),
                image.stored.record.dedup_key(),
            )
            for image in self.current_images()
        ]

    def diff_terms(self, texts_before: Mapping[int, str]) -> tuple[dict[int, str], dict[int, TermCounts]]:
        """The ordinals whose text is another now than `texts_before`: the texts that go, and the counts that come."""
        changed = {
            ordinal: image
            for ordinal, image in self.images_by_ordinal.items()
            if image.text != texts_before.get(ordinal, "")
        }
        counts = {ordinal: image.term_counts for ordinal, image in changed.items() if image.text}
        return {ordinal: texts_before.get(ordinal, "") for ordinal in changed}, counts


def check_counters(user_id: str, actual: JournalCounters, expected: JournalCounters) -> None:
    """Raise Conflict when a journal that was put back ends elsewhere."""
    if actual.head != expected.head:
        raise Conflict(
            f"the journal of {user_id} ends at {actual.head}, not at {expected.head}; import the whole file again"
        )


def build_raw_changes(changes: Sequence[Sequence[Any]], versions: Iterable[Sequence[Any]]) -> list[RawChange]:
    """Raw changes of their rows and those of their versions, which begin with `seq` and end with whether erased."""
    held: dict[int, list[RawVersion]] = {row[0]: [] for row in changes}
    for seq, *fields, erased in versions:
        held[seq].append(RawVersion._make([*fields, bool(erased)]))
    return [RawChange._make([*row, tuple(held[row[0]])]) for row in changes]


def decode_texts(user_id: str, rows: Iterable[Sequence[Any]]) -> dict[int, str]:
    """The searchable text of stored versions by ordinal; rows are ordinal, kind, payload, id, channel, recorded_at,
    seq.
    """
    return {
        ordinal: decode(kind, payload, RecordMetadata._make([user_id, *stamp, ""])).search_text()
        for ordinal, kind, payload, *stamp in rows
    }


def term_counts(user_id: str, rows: Iterable[Sequence[Any]]) -> dict[int, TermCounts | None]:
    """The term counts of stored versions by ordinal, None where there is no text; rows as for `decode_texts`."""
    return {
        ordinal: extract_features_and_terms(text)[1] if text else None
        for ordinal, text in decode_texts(user_id, rows).items()
    }


def build_index_rows(counts_by_ordinal: Mapping[int, TermCounts | None]) -> list[tuple[int, TermCounts]]:
    """What the word index is given of term counts by ordinal, in the order of ordinals."""
    found = ((ordinal, counts_by_ordinal[ordinal]) for ordinal in sorted(counts_by_ordinal))
    return [(ordinal, held) for ordinal, held in found if held is not None]


def is_switch_done(identity: str, current: str, building: str) -> bool:
    """Whether the switch to an embedder is done already. Raises Conflict when another one is being built."""
    if building == identity:
        return False
    if current == identity and not building:
        return True
    raise Conflict(f"the embedder {building or current} was chosen meanwhile; nothing was switched")
