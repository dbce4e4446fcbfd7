"""Checked reading of single values of foreign data, from a file or a caller; every error names place and field."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, NotRequired, Required, TypedDict, cast

from agentmem.core.clock import to_own_offset
from agentmem.core.plain_values import copy_json, describe_value, has_visible, replace_surrogates
from agentmem.core.record import MAX_TEXT_CHARS
from agentmem.core.records import parse_role
from agentmem.core.scope import check_identifier
from agentmem.errors import InvalidRecord

MAX_EPOCH_SECONDS = 100_000_000_000
MAX_EPOCH_NANOSECONDS = 10**20
MAX_TITLE_CHARS = 200  # of a conversation: a line in a list
_NOT_ON_A_LINE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_NUMBER = re.compile(r"-?\d{9,19}(?:\.\d+)?")  # not a year, nor a day without hyphens


class TurnInput(TypedDict, total=False):
    """What `store_turns` takes for one turn."""

    role: Required[str]
    content: Required[str]
    turn_id: NotRequired[str]
    speaker: NotRequired[str]
    timestamp: NotRequired[datetime]
    conversation_id: NotRequired[str]
    conversation_title: NotRequired[str]  # names the conversation that the turn begins
    metadata: NotRequired[dict[str, Any]]
    owner: NotRequired[str]  # whose memory a file says that it is; no field of what is stored


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """The place of a value: the file or argument, the line (0 when there is none), and the path inside it."""

    file: str
    line: int = 0
    path: str = ""

    def child(self, step: str | int) -> SourceLocation:
        """The place of a field (`qa`) or of an item (`3`) of the value here."""
        if isinstance(step, int):
            return replace(self, path=f"{self.path}[{step}]")
        return replace(self, path=f"{self.path}.{step}" if self.path else step)

    def build_error(self, field: str, message: str) -> InvalidRecord:
        """The error to raise for a field of the value here."""
        where = self.file + (f":{self.line}" if self.line else "") + (f": {self.path}" if self.path else "")
        return InvalidRecord(f"{where}: {field} {message}", field=field)


def parse_mapping(value: object, field: str, location: SourceLocation) -> Mapping[str, Any]:
    """The value as a JSON object."""
    if not isinstance(value, Mapping):
        raise location.build_error(field, f"must be an object, got {describe_value(value)}")
    return cast(Mapping[str, Any], value)


def get_mapping(source: Mapping[str, Any], field: str) -> Mapping[str, Any]:
    """A field that may hold an object, and may be left out; empty for anything else."""
    value = source.get(field)
    return cast(Mapping[str, Any], value) if isinstance(value, Mapping) else {}


def parse_metadata(value: object, location: SourceLocation) -> dict[str, Any]:
    """The metadata of a turn: a JSON object at most 50 levels deep."""
    given = parse_mapping(value, "metadata", location)
    try:
        return dict(copy_json(given, "metadata"))
    except InvalidRecord as error:
        raise location.build_error("metadata", str(error).removeprefix("metadata").strip()) from None


def parse_list_field(source: Mapping[str, Any], field: str, location: SourceLocation) -> list[Any]:
    """A field that must hold a list."""
    value = source.get(field)
    if not isinstance(value, list):
        raise location.build_error(field, f"must be a list, got {describe_value(value)}")
    return value


def parse_text_field(source: Mapping[str, Any], field: str, location: SourceLocation) -> str:
    """A field that must hold text; it may be empty."""
    return parse_text(source.get(field), field, location)


def parse_text(value: object, field: str, location: SourceLocation) -> str:
    """Text of at most a million characters. Half of a surrogate pair becomes U+FFFD."""
    if not isinstance(value, str):
        raise location.build_error(field, f"must be text, got {describe_value(value)}")
    if len(value) > MAX_TEXT_CHARS:
        raise location.build_error(field, f"must have at most {MAX_TEXT_CHARS:,} characters, got {len(value):,}")
    return replace_surrogates(value)


def parse_nonempty_text(value: object, field: str, location: SourceLocation) -> str:
    """Text that must not be empty."""
    written = parse_text(value, field, location)
    if not has_visible(written):
        raise location.build_error(field, "must not be empty")
    return written


def parse_identifier(value: object, field: str, location: SourceLocation) -> str:
    """An id or a name: 1 to 200 characters without control characters; a whole number is taken as its digits."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    try:
        return check_identifier(value, field)
    except InvalidRecord as error:
        raise location.build_error(field, str(error).removeprefix(field).strip()) from None


def check_title(value: object, field: str) -> str:
    """The title of a conversation on one line, cut at 200 characters; empty where it has nothing visible."""
    if not isinstance(value, str):
        raise InvalidRecord(f"{field} must be text, got {describe_value(value)}", field=field)
    line = " ".join(_NOT_ON_A_LINE.sub(" ", replace_surrogates(value)).split())
    return line[:MAX_TITLE_CHARS].rstrip() if has_visible(line) else ""


def parse_title(value: object, field: str, location: SourceLocation) -> str:
    """A title as `check_title` reads it, with the place in the file in its error."""
    try:
        return check_title(value, field)
    except InvalidRecord as error:
        raise location.build_error(field, str(error).removeprefix(field).strip()) from None


def read_role(value: object, field: str, location: SourceLocation) -> str:
    """A role as `parse_role` reads it, with the place in the file in its error."""
    try:
        return parse_role(value)
    except InvalidRecord:
        known = "must be user, assistant, system or tool"
        raise location.build_error(field, f"{known}, got {describe_value(value)}") from None


def parse_datetime(value: object, field: str, location: SourceLocation) -> datetime:
    """A moment with its offset: an ISO 8601 text (UTC without an offset), or a number since 1970, also as text.

    A number is in seconds, or in milliseconds, microseconds or nanoseconds where seconds would lie past the year 5138.
    """
    try:
        if isinstance(value, str):
            if _NUMBER.fullmatch(value.strip()) is None:
                return to_own_offset(datetime.fromisoformat(value.strip()))
            value = float(value)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            while abs(value) >= MAX_EPOCH_SECONDS and abs(value) < MAX_EPOCH_NANOSECONDS:
                value /= 1000
            return datetime.fromtimestamp(value, UTC)
    except (ValueError, OverflowError, OSError):
        pass  # the message below covers text that cannot be parsed and values that are not a time
    raise location.build_error(field, f"must be an ISO 8601 time or seconds since 1970, got {describe_value(value)}")
