"""Takes the JSON out of a reply, whatever a model puts around it and however it is damaged."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import json_repair
from pydantic_core import from_json

MAX_REPAIRED_CHARS = 32_000
"""A longer piece is not repaired: that takes seconds for some texts."""

_MAX_STARTS = 20  # places where JSON may begin that are looked at
_MAX_DEPTH = 50
_END_OF_THOUGHTS = re.compile(r"</(?:think|thinking|thought|reasoning)>", re.IGNORECASE)
_START = re.compile(r"[{\[]")
_BRACKETS = {"{": "}", "[": "]"}
# A quote ends a string only where JSON goes on after it, because models forget to escape quotes inside.
_TOKEN = re.compile(
    r"""(?P<string>"(?:\\.|[^"\\]|"(?!\s*(?:[,:}\]]|\Z)))*"|'(?:\\.|[^'\\]|'(?!\s*(?:[,:}\]]|\Z)))*')"""
    r"""|(?P<unfinished>["'])|[{}\[\],]""",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class ReadReply:
    """What a reply holds. `is_cut`: it was cut off, and this is what was whole before."""

    value: Any
    is_cut: bool = False


def read_reply(text: str, schema: Mapping[str, Any]) -> ReadReply:
    """The JSON of a reply that was asked for by a strict schema of an object. What was cut off ends with its last whole
    item. Raises ValueError for a reply without JSON.
    """
    text = text.strip().removeprefix("\ufeff").strip()
    try:
        return ReadReply(_to_object(from_json(text.encode()), schema))
    except ValueError:
        pass
    ends = [match.end() for match in _END_OF_THOUGHTS.finditer(text)]
    for part in [text[ends[-1] :], text] if ends else [text]:
        if (found := _find_reply(part, schema)) is not None:
            return found
    raise ValueError("no JSON in it")


def _find_reply(text: str, schema: Mapping[str, Any]) -> ReadReply | None:
    """The longest piece that has fields of the schema; without one the first whole JSON; None without any."""
    best, length, other = None, 0, None
    start = _START.search(text)
    for _ in range(_MAX_STARTS):
        if start is None:
            break
        piece, end = _take_piece(text, start.start())
        value = _parse(piece)
        found = ReadReply(_to_object(value, schema), is_cut=end is None)
        if _fits(found.value, schema):
            if len(piece) > length:
                best, length = found, len(piece)
            if end is None:
                break
        elif end is not None and isinstance(value, dict | list):
            other = other or found
        start = _START.search(text, end or start.end())
    return best or other


def _take_piece(text: str, start: int) -> tuple[str, int | None]:
    """The value that begins there and where it ends; None: it does not, so the piece ends with its last whole item."""
    stack, cut, closers = "", start, ""
    for token in _TOKEN.finditer(text, start):
        sign = token[0]
        if token["unfinished"] or len(stack) > _MAX_DEPTH:
            break
        if token["string"]:
            continue
        if sign in _BRACKETS:
            stack += sign
            continue
        if sign != ",":
            if _BRACKETS[stack[-1]] != sign:
                break
            stack = stack[:-1]
            if not stack:
                return text[start : token.end()], token.end()
        if "[{" not in stack:  # not inside of an item of a list
            cut, closers = (token.start() if sign == "," else token.end()), stack
    return text[start:cut] + "".join(_BRACKETS[each] for each in reversed(closers)), None


def _parse(piece: str) -> Any:
    """The value of a piece of text, None when there is none."""
    try:
        return json.loads(piece, strict=False)  # raw line breaks in strings are common
    except (ValueError, RecursionError):
        pass
    if not piece or len(piece) > MAX_REPAIRED_CHARS:
        return None
    try:
        return json_repair.loads(piece, skip_json_loads=True)
    except (ValueError, RecursionError):
        return None


def _fits(value: Any, schema: Mapping[str, Any]) -> bool:
    return isinstance(value, dict) and not schema["properties"].keys().isdisjoint(value)


def _to_object(value: Any, schema: Mapping[str, Any]) -> Any:
    """The object that is asked for: out of a wrapper, or around a list of the items of one field."""
    if _fits(value, schema):
        return value
    if isinstance(value, list) and value:
        name = _find_list(value[0], schema["properties"])
        return value if name is None else {name: value}
    if isinstance(value, dict):
        inside = [_to_object(each, schema) for each in value.values() if isinstance(each, dict | list)]
        fitting = [each for each in inside if _fits(each, schema)]
        return fitting[0] if len(fitting) == 1 else value
    return value


def _find_list(item: Any, properties: Mapping[str, Any]) -> str | None:
    """The field whose items look most like this one."""
    best, most = None, 0
    for name, field in properties.items():
        if field.get("type") != "array":
            continue
        known = field["items"].get("properties")
        alike = len(known.keys() & item.keys()) if known and isinstance(item, dict) else 0
        alike = alike or int(isinstance(item, str) and field["items"].get("type") == "string")
        if alike > most:
            best, most = name, alike
    return best
