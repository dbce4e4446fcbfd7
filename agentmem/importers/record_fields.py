"""Fields that programs name differently, read from one record of theirs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from agentmem.core.input_fields import (
    SourceLocation,
    TurnInput,
    check_title,
    parse_datetime,
    parse_identifier,
    parse_nonempty_text,
)
from agentmem.core.plain_values import has_visible

# What programs call a conversation that has no title yet, in lower case: its day tells more.
_PLACEHOLDERS = frozenset({"new chat", "new conversation", "untitled"})


def name_conversation(turn: TurnInput, title: object) -> None:
    """Give a turn the title of its conversation, where the program has one. Anything but text is none."""
    named = check_title(title, "title") if isinstance(title, str) else ""
    if named and named.lower() not in _PLACEHOLDERS:
        turn["conversation_title"] = named


def find_text(record: Mapping[str, Any], names: tuple[str, ...], location: SourceLocation) -> str:
    """The first of the fields that is there, which must be text; the first name stands for all in an error."""
    name = next((name for name in names if record.get(name) is not None), names[0])
    return parse_nonempty_text(record.get(name), name, location).strip()


def find_time(record: Mapping[str, Any], names: tuple[str, ...], location: SourceLocation) -> datetime | None:
    """The first of the fields that is there, as a moment."""
    name = next((name for name in names if record.get(name) not in (None, "")), None)
    return None if name is None else parse_datetime(record[name], name, location)


def find_identifier(record: Mapping[str, Any], names: tuple[str, ...], location: SourceLocation) -> str:
    """The first of the fields that is there, as an identifier; empty for none."""
    name = next((name for name in names if record.get(name) not in (None, "")), None)
    return "" if name is None else parse_identifier(record[name], name, location)


def list_texts(value: object) -> tuple[str, ...]:
    """The texts of a list, or the one text in its place; nothing of anything else."""
    given = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    return tuple(dict.fromkeys(each.strip() for each in given if isinstance(each, str) and has_visible(each)))
