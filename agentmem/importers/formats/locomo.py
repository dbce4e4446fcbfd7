"""LoCoMo-shaped files: long dialogues in dated sessions, with questions (Maharana et al. 2024, arXiv:2402.17753).

Two shapes are read.
The flat one: `{"conversations": [{id, turns: [{dia_id, session, speaker, timestamp, text, caption?}], qa: [...]}]}`.
The published one: `[{sample_id, conversation: {session_1: [...], session_1_date_time: "..."}, qa: [...]}]`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from agentmem.core.input_fields import (
    SourceLocation,
    TurnInput,
    parse_datetime,
    parse_identifier,
    parse_list_field,
    parse_mapping,
    parse_nonempty_text,
    parse_text,
    parse_text_field,
)
from agentmem.core.plain_values import describe_value
from agentmem.core.records import ROLE_ALIASES
from agentmem.importers.format import Format, read_each
from agentmem.importers.items import ImportItem
from agentmem.importers.source import ErrorHandler, SourceFile

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_SESSION_TIME = re.compile(
    r"(\d{1,2}):(\d{2})\s*([ap])\.?m\.?\s+on\s+(\d{1,2})\s+([a-z]{3})[a-z]*\.?,?\s+(\d{4})", re.IGNORECASE
)
_SESSION_KEY = re.compile(r"session_(\d+)")


@dataclass(frozen=True)
class LocomoDialogue:
    """One dialogue: its turns in order, and its questions as the file holds them.

    `is_published_format` is true for the published shape, whose evidence lists hold typing errors.
    """

    id: str
    turns: tuple[TurnInput, ...]
    questions: tuple[Mapping[str, Any], ...]
    location: SourceLocation
    is_published_format: bool


def is_locomo(value: object) -> bool:
    """Whether a JSON document has one of the two shapes."""
    if isinstance(value, list):
        return bool(value) and is_locomo(value[0])
    if not isinstance(value, Mapping):
        return False
    return isinstance(value.get("conversations"), list) or isinstance(value.get("conversation"), Mapping)


def parse_dialogues(document: object, location: SourceLocation) -> Iterator[LocomoDialogue]:
    """Every dialogue of a document, in order.

    `turn_id` is the `dia_id`; each session is one conversation, `<dialogue>/session-<n>`.
    A caption goes behind the text as ` [shares CAPTION]`. A lower-case speaker such as `user` is a role, not a name.
    A time without an offset is taken as UTC. Raises InvalidRecord naming file, position and field.
    """
    if isinstance(document, Mapping) and "conversations" in document:
        for i, value in enumerate(parse_list_field(document, "conversations", location)):
            at = location.child("conversations").child(i)
            yield _parse_flat(parse_mapping(value, f"conversations[{i}]", location), at)
        return
    samples = document if isinstance(document, list) else [document]
    for i, value in enumerate(samples):
        yield _parse_published(parse_mapping(value, f"[{i}]", location), location.child(i), i)


def _parse_flat(source: Mapping[str, Any], location: SourceLocation) -> LocomoDialogue:
    dialogue = parse_identifier(source.get("id"), "id", location)
    found = []
    for i, value in enumerate(parse_list_field(source, "turns", location)):
        at = location.child("turns").child(i)
        turn = parse_mapping(value, f"turns[{i}]", location)
        session, begun = (
            parse_identifier(turn.get("session"), "session", at),
            parse_datetime(turn.get("timestamp"), "timestamp", at),
        )
        found.append(_parse_turn(turn, at, f"{dialogue}/session-{session}", begun))
    return LocomoDialogue(
        dialogue,
        _check_unique_ids(found, location),
        _parse_questions(source, location),
        location,
        is_published_format=False,
    )


def _parse_published(source: Mapping[str, Any], location: SourceLocation, number: int) -> LocomoDialogue:
    dialogue = parse_identifier(source.get("sample_id", f"dialogue-{number + 1}"), "sample_id", location)
    at = location.child("conversation")
    sessions = parse_mapping(source.get("conversation"), "conversation", location)
    found = []
    for key in sorted((k for k in sessions if _SESSION_KEY.fullmatch(k)), key=lambda k: int(k[8:])):
        begun = _parse_session_time(sessions.get(f"{key}_date_time"), f"{key}_date_time", at)
        for i, value in enumerate(parse_list_field(sessions, key, at)):
            turn = parse_mapping(value, f"{key}[{i}]", at)
            found.append(_parse_turn(turn, at.child(key).child(i), f"{dialogue}/session-{int(key[8:])}", begun))
    return LocomoDialogue(
        dialogue,
        _check_unique_ids(found, location),
        _parse_questions(source, location),
        location,
        is_published_format=True,
    )


def _parse_turn(
    source: Mapping[str, Any], location: SourceLocation, conversation_id: str, started_at: datetime
) -> TurnInput:
    content = parse_text_field(source, "text", location).strip()
    caption = source.get("caption", source.get("blip_caption"))
    if caption is not None and parse_text(caption, "caption", location).strip():
        content = f"{content} [shares {caption.strip()}]".strip()
    turn = TurnInput(
        role="user",
        content=parse_nonempty_text(content, "text", location),
        turn_id=parse_identifier(source.get("dia_id"), "dia_id", location),
        timestamp=started_at,
        conversation_id=parse_identifier(conversation_id, "conversation_id", location),
    )
    speaker = parse_identifier(source.get("speaker"), "speaker", location)
    if speaker in ROLE_ALIASES:
        turn["role"] = ROLE_ALIASES[speaker]
    else:
        turn["speaker"] = speaker
    return turn


def _check_unique_ids(turns: list[TurnInput], location: SourceLocation) -> tuple[TurnInput, ...]:
    seen: set[str] = set()
    for turn in turns:
        if turn["turn_id"] in seen:
            raise location.build_error(
                "dia_id", f"must be unique in a dialogue, {describe_value(turn['turn_id'])} comes twice"
            )
        seen.add(turn["turn_id"])
    if not turns:
        raise location.build_error("turns", "must not be empty")
    return tuple(turns)


def _parse_questions(source: Mapping[str, Any], location: SourceLocation) -> tuple[Mapping[str, Any], ...]:
    if "qa" not in source:
        return ()
    found = parse_list_field(source, "qa", location)
    return tuple(parse_mapping(value, f"qa[{i}]", location) for i, value in enumerate(found))


def _parse_session_time(value: object, field: str, location: SourceLocation) -> datetime:
    """`1:56 pm on 8 May, 2023`, or an ISO time. English months, whatever the locale."""
    match = _SESSION_TIME.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        return parse_datetime(value, field, location)
    hour, minute, half, day, month, year = match.groups()
    try:
        number = _MONTHS.index(month.lower()) + 1
        clock = int(hour) % 12 + (12 if half.lower() == "p" else 0)
        return datetime(int(year), number, int(day), clock, int(minute), tzinfo=UTC)
    except ValueError:
        raise location.build_error(
            field, f"must be a time such as '1:56 pm on 8 May, 2023', got {describe_value(value)}"
        ) from None


def detect_locomo(source: SourceFile) -> bool:
    """Whether a document, or the first line, has one of the two shapes."""
    values = source.sample if source.layout == "lines" else [source.sample]
    return source.layout != "text" and bool(values) and is_locomo(values[0])


def read_locomo(source: SourceFile, on_error: ErrorHandler) -> Iterator[ImportItem]:
    """The turns of all dialogues. A turn's id is `<dialogue>/<dia_id>`, unique over the whole file."""
    return read_each(source, ("",), _parse_turns, on_error)


def _parse_turns(value: object, location: SourceLocation) -> Iterator[TurnInput]:
    for dialogue in parse_dialogues(value, location):
        for turn in dialogue.turns:
            turn["turn_id"] = parse_identifier(f"{dialogue.id}/{turn['turn_id']}", "dia_id", location)
            yield turn


FORMAT = Format(
    name="locomo",
    title="long dialogues in the format of LoCoMo",
    detect=detect_locomo,
    read=read_locomo,
    is_strict=True,
    rank=8,
)
