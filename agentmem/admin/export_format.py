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

from agentmem.core.clock import next_record_time
from agentmem.core.plain_values import MAX_INTEGER, describe_value
from agentmem.core.record import Key, Record
from agentmem.core.records import KINDS, Turn, to_invalid_record
from agentmem.core.scope import MAX_IDENTIFIER_CHARS, check_stored_identifier
from agentmem.errors import InvalidRecord
from agentmem.stores.admin import JournalCounters, RawChange, RawUsage, RawVersion
from agentmem.stores.codec import PAYLOAD_FORMAT
from agentmem.stores.write_plan import MAX_TURN_INDEX
from agentmem.text.terminal_text import escape_json

FORMAT = "agentmem-export"

Count = Annotated[int, Field(ge=0, le=2**62)]
Micros = Annotated[int, Field(ge=-62_135_596_800_000_000, le=253_402_300_799_999_999)]  # years 1 to 9999
Name = Annotated[str, Field(max_length=MAX_IDENTIFIER_CHARS)]
Amount = Annotated[float, Field(allow_inf_nan=False)]
L = TypeVar("L", bound="ExportLine")


class ExportLine(BaseModel):
    """One line, exactly these fields."""

    model_config = ConfigDict(extra="forbid", strict=True, hide_input_in_errors=True)


class HeaderLine(ExportLine):
    """The first line."""

    format: Literal["agentmem-export"] = "agentmem-export"
    version: Literal[1] = 1
    user_id: Name
    head: Count
    slots: Count
    erasures: Count
    last_at: Micros

    def journal_counters(self) -> JournalCounters:
        """The counters of the user."""
        return JournalCounters(self.head, self.slots, self.erasures, self.last_at)


class RecordVersion(ExportLine):
    """A record as a change left it: its after-image, or null where it left."""

    slot: Count
    kind: Name
    id: Name
    channel: Name
    recorded_at: Micros
    format: Annotated[int, Field(ge=1)]
    record: dict[str, Any] | None
    erased: bool


class ChangeLine(ExportLine):
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
    versions: list[RecordVersion]

    def to_raw(self) -> RawChange:
        """As the store takes it."""
        versions = tuple(
            RawVersion(v.slot, v.kind, v.id, v.channel, v.recorded_at, v.format, to_json(v.record), v.erased)
            for v in self.versions
        )
        return RawChange(
            self.seq,
            self.change_id,
            self.operation_id,
            self.operation,
            self.actor,
            self.cause,
            self.payload,
            self.at,
            versions,
        )


class UsageLine(ExportLine):
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

    def to_raw(self) -> RawUsage:
        """As the store takes it."""
        row = self.model_dump(exclude={"type"})
        return RawUsage(**{**row, "conversations": tuple(self.conversations)})


class EndLine(ExportLine):
    """The last line."""

    type: Literal["end"] = "end"
    changes: Count
    usage: Count


def to_json(value: Any) -> str | None:
    """Compact JSON with sorted keys; None stays None."""
    if value is None:
        return None
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def render_line(line: ExportLine) -> str:
    """The line as in the file, which may be a terminal."""
    return f"{escape_json(str(to_json(line.model_dump())))}\n"


def build_change_line(change: RawChange) -> ChangeLine:
    """The line of a stored change."""
    listed = [
        RecordVersion.model_construct(**{**v._asdict(), "record": None if v.record is None else json.loads(v.record)})
        for v in change.versions
    ]
    return ChangeLine.model_construct(**{**change._asdict(), "versions": listed})


def build_usage_line(row: RawUsage) -> UsageLine:
    """The line of a stored usage row."""
    return UsageLine.model_construct(**{**row._asdict(), "conversations": list(row.conversations)})


def parse_line(number: int, line: str) -> ExportLine:
    """One line of a file, its shape checked. Raises InvalidRecord with the line's number and the field."""
    try:
        value = json.loads(line, object_pairs_hook=_reject_duplicate_keys, parse_constant=_reject_constant)
        to_json(value)  # refuses numbers beyond all bounds, such as 1e999
        line.encode()
        json.dumps(value, ensure_ascii=False).encode()  # lone surrogates written as \ud800
    except (ValueError, RecursionError) as error:
        raise InvalidRecord(f"line {number}: this is not a JSON object of an export: {error}", field="line") from error
    if not isinstance(value, dict):
        raise InvalidRecord(f"line {number}: an object was expected, got {type(value).__name__}", field="line")
    if number == 1:
        if value.get("format") != FORMAT:
            raise InvalidRecord(f"line 1: an export begins with a header of format {FORMAT!r}", field="format")
        return _validate(HeaderLine, number, value)
    kinds: dict[object, type[ExportLine]] = {"change": ChangeLine, "usage": UsageLine, "end": EndLine}
    named = value.get("type")
    kind = kinds.get(named) if isinstance(named, str) else None
    if kind is None:
        raise InvalidRecord(
            f"line {number}: type must be change, usage or end, got {describe_value(named)}", field="type"
        )
    return _validate(kind, number, value)


def _validate(kind: type[L], number: int, value: dict[str, Any]) -> L:
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        wrong = to_invalid_record(error, kind.__name__)
        raise InvalidRecord(f"line {number}: {wrong}", field=wrong.field) from error


def _reject_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is given twice")
    return found


def _reject_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a number")


@dataclass
class _OrdinalState:
    """What an ordinal holds: whose it is, and while it is current its unique value and its place in a conversation."""

    key: Key
    recorded_at: int
    has_record: bool = False
    unique_keys: tuple[tuple[str, ...], ...] = ()


@dataclass
class ExportValidator:
    """Reads a file from top to bottom and refuses what no journal can hold, before anything is written.

    Positions and ordinals without gaps, times that never run backwards, ids used once, one ordinal per record and one
    record per ordinal, after-images that are valid records, no two current records in one place. `check_line` returns
    the line with its records in the form in which they are stored.
    """

    header: HeaderLine | None = None
    seq: int = 0
    usage_count: int = 0
    record_count: int = 0
    is_ended: bool = False
    _last_at: int | None = None
    _change_ids: set[str] = field(default_factory=set)
    _states_by_ordinal: dict[int, _OrdinalState] = field(default_factory=dict)
    _ordinals_by_key: dict[Key, int] = field(default_factory=dict)
    _ordinals_by_unique_key: dict[tuple[str, ...], int] = field(default_factory=dict)
    _last_usage_key: tuple[str, str] = ("", "")

    def check_line(self, number: int, text: str) -> ExportLine:
        """Check one line. Raises InvalidRecord with its number and the field."""
        try:
            line = parse_line(number, text)
            if self.is_ended:
                _reject("nothing may follow the end line", "line")
            if self.header is None and not isinstance(line, HeaderLine):
                _reject("an export begins with its header", "format")
            if isinstance(line, ChangeLine):
                self._check_change(line)
            elif isinstance(line, UsageLine):
                self._check_usage(line)
            elif isinstance(line, EndLine):
                self._check_end(line)
            elif isinstance(line, HeaderLine):
                check_stored_identifier(line.user_id, "user_id")
                self.header = line
        except InvalidRecord as error:
            message = str(error) if str(error).startswith("line ") else f"line {number}: {error}"
            raise InvalidRecord(message, field=error.field) from error
        return line

    def finish(self) -> HeaderLine:
        """The header of a file that was read to its end. Raises InvalidRecord for one that was cut short."""
        if self.header is None:
            raise InvalidRecord("the file is empty; an export begins with a header", field="line")
        if not self.is_ended:
            message = f"the file was cut short after change {self.seq}: its end line is missing"
            raise InvalidRecord(message, field="line")
        return self.header

    def _check_change(self, line: ChangeLine) -> None:
        if self.usage_count:
            _reject("changes come before usage", "type")
        if line.seq != self.seq + 1:
            _reject(f"seq must be {self.seq + 1}, got {line.seq}", "seq")
        if self._last_at is not None and next_record_time(line.at, self._last_at) != line.at:
            _reject("at must not be before the change above", "at")
        if not line.change_id or line.change_id in self._change_ids:
            _reject(f"change_id must be new in this file, got {describe_value(line.change_id)}", "change_id")
        ordinals = [version.slot for version in line.versions]
        if len(set(ordinals)) != len(ordinals):
            _reject("a change holds each slot once", "slot")
        self.seq, self._last_at = line.seq, line.at
        self._change_ids.add(line.change_id)
        for ordinal in ordinals:
            self._release_unique_keys(ordinal)
        for version in line.versions:
            self._check_version(line, version)

    def _check_version(self, line: ChangeLine, version: RecordVersion) -> None:
        assert self.header is not None, "the first line is a header"
        key = (version.kind, check_stored_identifier(version.id, "id"))
        if version.kind not in KINDS:
            _reject(f"kind must be one of {', '.join(KINDS)}, got {describe_value(version.kind)}", "kind")
        if version.format > PAYLOAD_FORMAT:
            _reject(f"format must be at most {PAYLOAD_FORMAT}, got {version.format}", "format")
        if version.slot >= self.header.slots:
            _reject(f"slot must be below the header's {self.header.slots}, got {version.slot}", "slot")
        held = self._states_by_ordinal.get(version.slot) or _OrdinalState(key, version.recorded_at)
        if held.key != key or (self._ordinals_by_key.get(key, version.slot) != version.slot and not version.erased):
            _reject(f"slot {version.slot} and {key[0]} {key[1]!r} belong to others above", "slot")
        self._states_by_ordinal[version.slot] = held
        if version.record is None:
            if version.erased and self._ordinals_by_key.get(key) == version.slot:
                del self._ordinals_by_key[key]  # the same key given again is a new record
            return
        if version.erased:
            _reject("what was erased holds no record", "erased")
        if version.recorded_at > line.at or version.recorded_at != held.recorded_at:
            _reject("recorded_at must be when the record was first stored", "recorded_at")
        self._ordinals_by_key[key] = version.slot
        self.record_count, held.has_record = self.record_count + (not held.has_record), True
        record = _parse_record(version)
        version.record = json.loads(_encode_record(record))
        self._reserve_unique_keys(version, record)

    def _reserve_unique_keys(self, version: RecordVersion, record: Record) -> None:
        conversation, position = record.position_key()
        claims: list[tuple[str, ...]] = []
        if position >= 0 and isinstance(record, Turn):
            claims.append(("place", record.kind, conversation, str(position)))
        if unique := record.dedup_key():
            claims.append(("unique", record.kind, version.channel, unique))
        for claim in claims:
            if claim in self._ordinals_by_unique_key:
                _reject(f"{record.kind} {version.id!r} takes what another current record has: {claim[-1]!r}", "record")
            self._ordinals_by_unique_key[claim] = version.slot
        self._states_by_ordinal[version.slot].unique_keys = tuple(claims)

    def _release_unique_keys(self, ordinal: int) -> None:
        if (held := self._states_by_ordinal.get(ordinal)) is not None:
            for claim in held.unique_keys:
                self._ordinals_by_unique_key.pop(claim, None)
            held.unique_keys = ()

    def _check_usage(self, line: UsageLine) -> None:
        key = (line.kind, line.id)
        if key not in self._ordinals_by_key:
            _reject(f"usage of {line.kind} {line.id!r}, which the journal does not hold", "id")
        if key <= self._last_usage_key:
            _reject("usage rows are in order of kind and id, each once", "id")
        if len(line.conversations) != len(set(line.conversations)):
            _reject("conversations holds each id once", "conversations")
        self._last_usage_key, self.usage_count = key, self.usage_count + 1

    def _check_end(self, line: EndLine) -> None:
        assert self.header is not None, "the first line is a header"
        if (line.changes, line.usage) != (self.seq, self.usage_count) or self.header.head != self.seq:
            found = f"{self.seq} changes and {self.usage_count} usage rows"
            _reject(f"the file holds {found}, which is not what its header and end say", "changes")
        if self.header.slots != len(self._states_by_ordinal):  # readers have an array as long as the largest slot
            _reject(
                f"the header says {self.header.slots} slots, the changes fill {len(self._states_by_ordinal)}", "slots"
            )
        if self._last_at is not None and self.header.last_at < self._last_at:
            _reject("the header's last_at is before the last change", "last_at")
        self.is_ended = True


def _parse_record(version: RecordVersion) -> Record:
    assert version.record is not None, "asked only where there is one"
    check_stored_identifier(version.channel, "channel")
    if stamped := Record.NON_PAYLOAD_FIELDS & version.record.keys():
        _reject(f"record holds {', '.join(sorted(stamped))}, which are beside it", "record")
    try:
        record = KINDS[version.kind].model_validate_json(json.dumps(version.record))
    except ValidationError as error:
        raise to_invalid_record(error, version.kind) from error
    if isinstance(record, Turn) and not (record.conversation_id and 0 <= record.index <= MAX_TURN_INDEX):
        _reject(f"a turn has a conversation_id and an index from 0 to {MAX_TURN_INDEX:,}", "conversation_id")
    for name, value in record:
        if isinstance(value, int) and value > MAX_INTEGER:
            _reject(f"{name} must be a whole number of at most 63 bits", name)
    return record.model_copy(update={"id": version.id, "channel": version.channel})


def _encode_record(record: Record) -> str:
    try:
        return record.model_dump_json(exclude_defaults=True, exclude=set(Record.NON_PAYLOAD_FIELDS))
    except ValueError as error:
        message = f"{record.kind} {record.id!r} holds what cannot be stored: {error}"
        raise InvalidRecord(message, field="record") from error


def _reject(message: str, field: str) -> NoReturn:
    raise InvalidRecord(message, field=field)


def number_lines(lines: Iterable[str]) -> Iterable[tuple[int, str]]:
    """Lines with their numbers from 1; empty ones at the end of a file are passed over."""
    return ((number, line) for number, line in enumerate(lines, 1) if line.strip())
