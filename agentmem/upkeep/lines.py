"""The lines of an export: one JSON object each, keys sorted, times in microseconds since 1970. Checked on the way in.

A header says whose memory it is and how far its journal goes. A line per change follows, in `seq` order, with the
after-images of its records, then a line per usage row, then an end line with counts, so that a file cut short is seen.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NoReturn, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agentmem.errors import InvalidRecord
from agentmem.model.records import KINDS, Key, Record, Turn, invalid
from agentmem.model.scope import LONGEST_NAME, checked_name
from agentmem.stores.upkeep import RawChange, RawUsage, RawVersion, Reach

FORMAT = "agentmem-export"
SLOTS = 2**31  # slots are 32-bit numbers in the word index

Count = Annotated[int, Field(ge=0, le=2**62)]
Slot = Annotated[int, Field(ge=0, lt=SLOTS)]
Micros = Annotated[int, Field(ge=-62_135_596_800_000_000, le=253_402_300_799_999_999)]  # years 1 to 9999
Name = Annotated[str, Field(max_length=LONGEST_NAME)]
Amount = Annotated[float, Field(allow_inf_nan=False)]
L = TypeVar("L", bound="Line")


class Line(BaseModel):
    """One line, exactly these fields."""

    model_config = ConfigDict(extra="forbid", strict=True, hide_input_in_errors=True)


class Header(Line):
    """The first line."""

    format: Literal["agentmem-export"] = "agentmem-export"
    version: Literal[1] = 1
    user_id: Name
    head: Count
    slots: Annotated[int, Field(ge=0, le=SLOTS)]
    erasures: Count
    last_at: Micros

    def reach(self) -> Reach:
        """The counters of the user."""
        return Reach(self.head, self.slots, self.erasures, self.last_at)


class Version(Line):
    """A record as a change left it: its after-image, or null where it left."""

    slot: Slot
    kind: Name
    id: Name
    channel: Name
    recorded_at: Micros
    format: Annotated[int, Field(ge=1)]
    record: dict[str, Any] | None
    erased: bool


class ChangeLine(Line):
    """One change of the journal."""

    type: Literal["change"] = "change"
    seq: Annotated[int, Field(ge=1, le=2**62)]
    change_id: Name
    operation_id: Name
    operation: Name
    actor: Name
    cause: str
    payload: Name
    at: Micros
    versions: list[Version]

    def raw(self) -> RawChange:
        """As the store takes it."""
        versions = tuple(
            RawVersion(v.slot, v.kind, v.id, v.channel, v.recorded_at, v.format, written(v.record), v.erased)
            for v in self.versions
        )
        return RawChange(
            self.seq, self.change_id, self.operation_id, self.operation, self.actor, self.cause, self.payload, self.at,
            versions,
        )  # fmt: skip


class UsageLine(Line):
    """One usage row."""

    type: Literal["usage"] = "usage"
    kind: Name
    id: Name
    access_count: Count
    use_count: Count
    last_accessed: Micros | None
    strength: Amount
    conversations: list[Name]
    review_priority: Amount
    last_review_at: Micros | None
    review_count: Count
    cross_domain_count: Count
    due_at: Micros | None
    due_for: Name = ""  # files of the first versions do not say

    def raw(self) -> RawUsage:
        """As the store takes it."""
        row = self.model_dump(exclude={"type"})
        return RawUsage(**{**row, "conversations": tuple(self.conversations)})


class EndLine(Line):
    """The last line."""

    type: Literal["end"] = "end"
    changes: Count
    usage: Count


def written(value: Any) -> str | None:
    """Compact JSON with sorted keys; None stays None."""
    if value is None:
        return None
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def text_of(line: Line) -> str:
    """The line as it stands in the file."""
    return f"{written(line.model_dump())}\n"


def change_line(change: RawChange) -> ChangeLine:
    """The line of a stored change."""
    listed = [
        Version.model_construct(**{**v._asdict(), "record": None if v.record is None else json.loads(v.record)})
        for v in change.versions
    ]
    return ChangeLine.model_construct(**{**change._asdict(), "versions": listed})


def usage_line(row: RawUsage) -> UsageLine:
    """The line of a stored usage row."""
    return UsageLine.model_construct(**{**row._asdict(), "conversations": list(row.conversations)})


def parse(number: int, line: str) -> Line:
    """One line of a file, its shape checked. Raises InvalidRecord with the line's number and the field."""
    try:
        value = json.loads(line, object_pairs_hook=_once, parse_constant=_refuse)
        written(value)  # refuses numbers beyond all bounds, such as 1e999
        line.encode()
        json.dumps(value, ensure_ascii=False).encode()  # lone surrogates written as \ud800
    except (ValueError, RecursionError) as error:
        raise InvalidRecord(f"line {number}: this is no JSON object of an export: {error}", field="line") from error
    if not isinstance(value, dict):
        raise InvalidRecord(f"line {number}: an object was expected, got {type(value).__name__}", field="line")
    if number == 1:
        if value.get("format") != FORMAT:
            raise InvalidRecord(f"line 1: an export begins with a header of format {FORMAT!r}", field="format")
        return _checked(Header, number, value)
    kinds: dict[object, type[Line]] = {"change": ChangeLine, "usage": UsageLine, "end": EndLine}
    named = value.get("type")
    kind = kinds.get(named) if isinstance(named, str) else None
    if kind is None:
        raise InvalidRecord(f"line {number}: type must be change, usage or end, got {named!r}", field="type")
    return _checked(kind, number, value)


def _checked(kind: type[L], number: int, value: dict[str, Any]) -> L:
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        wrong = invalid(error, kind.__name__)
        raise InvalidRecord(f"line {number}: {wrong}", field=wrong.field) from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is given twice")
    return found


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number")


@dataclass
class _Held:
    """What a slot holds: whose it is, and while it is current its unique value and its place in a conversation."""

    key: Key
    recorded_at: int
    seen: bool = False
    claims: tuple[tuple[str, ...], ...] = ()


@dataclass
class Review:
    """Reads a file from top to bottom and refuses what no journal can hold, before anything is written.

    Positions without gaps, times that never run backwards, ids used once, one slot per record and one record per slot,
    after-images that are valid records, no two current records in one place. `take` returns the line with its records
    in the form in which they are stored.
    """

    header: Header | None = None
    seq: int = 0
    usage: int = 0
    records: int = 0
    ended: bool = False
    _at: int | None = None
    _change_ids: set[str] = field(default_factory=set)
    _slots: dict[int, _Held] = field(default_factory=dict)
    _keys: dict[Key, int] = field(default_factory=dict)
    _claims: dict[tuple[str, ...], int] = field(default_factory=dict)
    _used: tuple[str, str] = ("", "")

    def take(self, number: int, text: str) -> Line:
        """Check one line. Raises InvalidRecord with its number and the field."""
        try:
            line = parse(number, text)
            if self.ended:
                _wrong("nothing may follow the end line", "line")
            if self.header is None and not isinstance(line, Header):
                _wrong("an export begins with its header", "format")
            if isinstance(line, ChangeLine):
                self._change(line)
            elif isinstance(line, UsageLine):
                self._usage(line)
            elif isinstance(line, EndLine):
                self._end(line)
            elif isinstance(line, Header):
                checked_name(line.user_id, "user_id")
                self.header = line
        except InvalidRecord as error:
            message = str(error) if str(error).startswith("line ") else f"line {number}: {error}"
            raise InvalidRecord(message, field=error.field) from error
        return line

    def finish(self) -> Header:
        """The header of a file that was read to its end. Raises InvalidRecord for one that was cut short."""
        if self.header is None:
            raise InvalidRecord("the file is empty; an export begins with a header", field="line")
        if not self.ended:
            message = f"the file was cut short after change {self.seq}: its end line is missing"
            raise InvalidRecord(message, field="line")
        return self.header

    def _change(self, line: ChangeLine) -> None:
        if self.usage:
            _wrong("changes come before usage", "type")
        if line.seq != self.seq + 1:
            _wrong(f"seq must be {self.seq + 1}, got {line.seq}", "seq")
        if self._at is not None and line.at < self._at:
            _wrong("at must not be before the change above", "at")
        if not line.change_id or line.change_id in self._change_ids:
            _wrong(f"change_id must be new in this file, got {line.change_id!r}", "change_id")
        slots = [version.slot for version in line.versions]
        if len(set(slots)) != len(slots):
            _wrong("a change holds each slot once", "slot")
        self.seq, self._at = line.seq, line.at
        self._change_ids.add(line.change_id)
        for slot in slots:
            self._release(slot)
        for version in line.versions:
            self._version(line, version)

    def _version(self, line: ChangeLine, version: Version) -> None:
        assert self.header is not None, "the first line is a header"
        key = (version.kind, checked_name(version.id, "id"))
        if version.kind not in KINDS:
            _wrong(f"kind must be one of {', '.join(KINDS)}, got {version.kind!r}", "kind")
        if version.slot >= self.header.slots:
            _wrong(f"slot must be below the header's {self.header.slots}, got {version.slot}", "slot")
        held = self._slots.get(version.slot) or _Held(key, version.recorded_at)
        if held.key != key or (self._keys.get(key, version.slot) != version.slot and not version.erased):
            _wrong(f"slot {version.slot} and {key[0]} {key[1]!r} belong to others above", "slot")
        self._slots[version.slot] = held
        if version.record is None:
            if version.erased and self._keys.get(key) == version.slot:
                del self._keys[key]  # the same key given again is a new record
            return
        if version.erased:
            _wrong("what was erased holds no record", "erased")
        if version.recorded_at > line.at or version.recorded_at != held.recorded_at:
            _wrong("recorded_at must be when the record was first stored", "recorded_at")
        self._keys[key] = version.slot
        self.records, held.seen = self.records + (not held.seen), True
        record = _record(version)
        version.record = json.loads(_encoded(record))
        self._claim(version, record)

    def _claim(self, version: Version, record: Record) -> None:
        conversation, position = record.place()
        claims: list[tuple[str, ...]] = []
        if position >= 0 and isinstance(record, Turn):
            claims.append(("place", record.kind, conversation, str(position)))
        if unique := record.unique():
            claims.append(("unique", record.kind, version.channel, unique))
        for claim in claims:
            if claim in self._claims:
                _wrong(f"{record.kind} {version.id!r} takes what another current record has: {claim[-1]!r}", "record")
            self._claims[claim] = version.slot
        self._slots[version.slot].claims = tuple(claims)

    def _release(self, slot: int) -> None:
        if (held := self._slots.get(slot)) is not None:
            for claim in held.claims:
                self._claims.pop(claim, None)
            held.claims = ()

    def _usage(self, line: UsageLine) -> None:
        key = (line.kind, line.id)
        if key not in self._keys:
            _wrong(f"usage of {line.kind} {line.id!r}, which the journal does not hold", "id")
        if key <= self._used:
            _wrong("usage rows are in order of kind and id, each once", "id")
        if len(line.conversations) != len(set(line.conversations)):
            _wrong("conversations holds each id once", "conversations")
        self._used, self.usage = key, self.usage + 1

    def _end(self, line: EndLine) -> None:
        assert self.header is not None, "the first line is a header"
        if (line.changes, line.usage) != (self.seq, self.usage) or self.header.head != self.seq:
            found = f"{self.seq} changes and {self.usage} usage rows"
            _wrong(f"the file holds {found}, which is not what its header and end say", "changes")
        if self._at is not None and self.header.last_at < self._at:
            _wrong("the header's last_at is before the last change", "last_at")
        self.ended = True


def _record(version: Version) -> Record:
    assert version.record is not None, "asked only where there is one"
    checked_name(version.channel, "channel")
    if stamped := Record.STAMPED & version.record.keys():
        _wrong(f"record holds {', '.join(sorted(stamped))}, which stand beside it", "record")
    try:
        record = KINDS[version.kind].model_validate_json(json.dumps(version.record))
    except ValidationError as error:
        raise invalid(error, version.kind) from error
    if isinstance(record, Turn) and (not record.conversation_id or record.index < 0):
        _wrong("a turn has a conversation_id and an index", "conversation_id")
    return record.model_copy(update={"id": version.id, "channel": version.channel})


def _encoded(record: Record) -> str:
    try:
        return record.model_dump_json(exclude_defaults=True, exclude=set(Record.STAMPED))
    except ValueError as error:
        message = f"{record.kind} {record.id!r} holds what cannot be stored: {error}"
        raise InvalidRecord(message, field="record") from error


def _wrong(message: str, field: str) -> NoReturn:
    raise InvalidRecord(message, field=field)


def numbered(lines: Iterable[str]) -> Iterable[tuple[int, str]]:
    """Lines with their numbers from 1; empty ones at the end of a file are passed over."""
    return ((number, line) for number, line in enumerate(lines, 1) if line.strip())
