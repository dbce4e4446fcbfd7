"""What a caller's values may hold: text that is valid Unicode, finite numbers, JSON in free-form fields.

A value is refused before anything is written, never altered: NaN does not become None, a set no list.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Annotated, Any

from pydantic import BeforeValidator, ValidationInfo

from agentmem.errors import InvalidRecord

MAX_JSON_DEPTH = 50  # levels of lists and mappings: parsers of other programs stop at 64 to 128
MAX_JSON_VALUES = 100_000  # in one free-form field: what contains a value many times over is counted as often
MAX_JSON_DIGITS = 300  # of a whole number: the range of a float, which Postgres, Redis and Neo4j clients read
MAX_INTEGER = 2**63 - 1  # what the stores hold in a column
_DIGITS_BOUND = 10**MAX_JSON_DIGITS
# White space, controls, and what Unicode calls format characters, fillers, joiners and variation selectors.
_VISIBLE = re.compile(
    "[^\\s\x00-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_ID_ENDINGS = ("id", "ids", "key", "channel", "channels", "embedding")
# An escaped surrogate of JSON, with its other half where it has one. An even number of backslashes before it is text.
_SURROGATE_ESCAPES = re.compile(
    r"(?<!\\)((?:\\\\)*)\\u(?:[dD][89abAB][0-9a-fA-F]{2}(\\u[dD][c-fC-F][0-9a-fA-F]{2})?|[dD][c-fC-F][0-9a-fA-F]{2})"
)


def has_visible(text: str) -> bool:
    """Whether a text has a character that shows."""
    return _VISIBLE.search(text) is not None


def describe_value(value: object) -> str:
    """A value for an error message, cut at 60 characters; what may be long or deep is only named."""
    if value is None:
        return "nothing"
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, (list, tuple)):
        return f"a list of {len(value)}"
    if isinstance(value, int) and abs(value) > MAX_INTEGER:
        return "a whole number of more than 63 bits"
    if isinstance(value, (str, int, float, datetime)):
        written = repr(value[:61] if isinstance(value, str) else value)
        return written if len(written) <= 60 else written[:57] + "..."
    name = value.__name__ if isinstance(value, type) else type(value).__name__
    return f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}"


def replace_surrogates(text: str) -> str:
    """The text with U+FFFD in place of each half of a surrogate pair; two halves side by side become their character.

    Programs that cut text by UTF-16 units leave such halves, and no store can hold them.
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def replace_surrogate_escapes(written: str) -> str:
    """JSON text with `\\ufffd` in place of each escape of half of a surrogate pair, as `replace_surrogates` does."""
    return _SURROGATE_ESCAPES.sub(lambda found: found[0] if found[2] else f"{found[1]}\\ufffd", written)


def replace_surrogates_within(value: Any, depth: int = 0) -> Any:
    """A value with `replace_surrogates` done on every text in its lists, tuples and mappings; others as they are."""
    if isinstance(value, str):
        return replace_surrogates(value)
    if depth > MAX_JSON_DEPTH:
        return value  # the check of its depth refuses it
    if isinstance(value, Mapping):
        return {
            replace_surrogates_within(key, depth + 1): replace_surrogates_within(item, depth + 1)
            for key, item in value.items()
        }
    if type(value) in (list, tuple):
        return type(value)(replace_surrogates_within(item, depth + 1) for item in value)
    return value


def replace_in_field(name: str, value: Any) -> Any:
    """`replace_surrogates_within` for the value of a field, and of its own fields, but for those that are ids."""
    if name.endswith(_ID_ENDINGS):
        return value
    if isinstance(value, Mapping):
        return {key: replace_in_field(key, item) if isinstance(key, str) else item for key, item in value.items()}
    return replace_surrogates_within(value)


class HalfSurrogate(InvalidRecord):
    """A text holds half of a surrogate pair."""


def require_iso_text(value: Any) -> Any:
    """The value, unless it is a number or the text of one: those would be read as seconds since 1970."""
    if isinstance(value, int | float) or (isinstance(value, str) and value.lstrip("+-").replace(".", "", 1).isdigit()):
        raise ValueError("write a date or a date with a time as in ISO 8601, such as 2025-03-08T18:05:00Z")
    return value


def check_text(value: str, field: str) -> None:
    """Raise HalfSurrogate, naming the field, for text with lone surrogates, which no store can hold."""
    if value.isascii():
        return
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise HalfSurrogate(
            f"{field} must be valid Unicode: it has half of a surrogate pair at character {error.start}", field=field
        ) from None


def check_plain(value: Any, field: str) -> None:
    """Raise InvalidRecord, naming the field, for an argument that cannot be stored or compared.

    Text must be valid Unicode, a number finite and at most 63 bits long, lists and mappings at most 50 levels deep with
    at most 100,000 values; one that contains itself is deeper than that. Other values are not looked at.
    """
    for item, path in _walk(value, field):
        if isinstance(item, int) and not isinstance(item, bool) and abs(item) > MAX_INTEGER:
            raise InvalidRecord(f"{path} must be a whole number of at most 63 bits", field=field)


def check_json(value: Any, field: str, *, max_depth: int = MAX_JSON_DEPTH) -> None:
    """Raise InvalidRecord, naming the field, for what JSON would not give back as it is.

    Allowed are text, finite numbers of at most 300 digits, True, False, None, lists, tuples and mappings with text
    keys, at most `max_depth` levels deep and 100,000 values.
    """
    for item, path in _walk(value, field, max_depth):
        if isinstance(item, int) and not isinstance(item, bool) and abs(item) >= _DIGITS_BOUND:
            raise InvalidRecord(f"{path} must have at most {MAX_JSON_DIGITS} digits", field=field)
        if isinstance(item, Mapping):
            for key in item:
                if not isinstance(key, str):
                    raise InvalidRecord(f"{path} must have text as keys, got {type(key).__name__}", field=field)
        elif item is not None and not isinstance(item, (str, int, float, list, tuple)):
            raise InvalidRecord(
                f"{path} must be text, a number, True, False, None, a list or a mapping, as in JSON; "
                f"got {type(item).__name__}",
                field=field,
            )


def copy_json(value: Any, field: str, *, max_depth: int = MAX_JSON_DEPTH) -> Any:
    """A copy of a value as JSON gives it back, so that what is returned is what is read later: tuples become lists.

    Raises InvalidRecord as `check_json` does.
    """
    check_json(value, field, max_depth=max_depth)
    return _copy(value)


def _copy(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _copy(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_copy(item) for item in value]
    return value


def _walk(value: Any, field: str, max_depth: int = MAX_JSON_DEPTH) -> Iterator[tuple[Any, str]]:
    """Every value inside of a value, with its path; checks text, floats, depth and number on the way."""
    rest: list[tuple[Any, str, int]] = [(value, field, 0)]
    count = 0
    while rest:
        item, path, depth = rest.pop()
        count += 1
        if isinstance(item, str):
            check_text(item, field)
        elif isinstance(item, float) and not math.isfinite(item):
            raise InvalidRecord(f"{path} must be a finite number, got {item}", field=field)
        yield item, path
        if isinstance(item, Mapping):
            rest += [(key, path, depth + 1) for key in item if isinstance(key, str)]
            rest += [(each, f"{path}[{str(key)[:40]!r}]", depth + 1) for key, each in item.items()]
        elif isinstance(item, (list, tuple)):
            rest += [(each, path, depth + 1) for each in item]
        if depth > max_depth:
            raise InvalidRecord(f"{field} must be at most {max_depth} levels deep", field=field)
        if count > MAX_JSON_VALUES:
            raise InvalidRecord(f"{field} must hold at most {MAX_JSON_VALUES:,} values", field=field)


def _read_json_object(value: Any, info: ValidationInfo) -> Any:
    """What a caller gives for a free-form field of a record; what comes from a store is taken as it is."""
    if info.mode == "json" or not isinstance(value, Mapping):
        return value
    return copy_json(value, info.field_name or "value")


JsonObject = Annotated[dict[str, Any], BeforeValidator(_read_json_object)]
"""A free-form field of a record: a mapping that JSON gives back as it is."""
