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

from agentmem.interchange.fields import (
    ROLES,
    Place,
    TurnInput,
    as_text,
    filled,
    mapping,
    moment,
    name,
    sequence,
    shown,
    text,
)

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_SPOKEN = re.compile(
    r"(\d{1,2}):(\d{2})\s*([ap])\.?m\.?\s+on\s+(\d{1,2})\s+([a-z]{3})[a-z]*\.?,?\s+(\d{4})", re.IGNORECASE
)
_SESSION = re.compile(r"session_(\d+)")


@dataclass(frozen=True)
class Dialogue:
    """One dialogue: its turns in order, and its questions as the file holds them.

    `published` is true for the published shape, whose evidence lists hold typing errors.
    """

    id: str
    turns: tuple[TurnInput, ...]
    questions: tuple[Mapping[str, Any], ...]
    place: Place
    published: bool


def is_locomo(value: object) -> bool:
    """Whether a JSON document has one of the two shapes."""
    if isinstance(value, list):
        return bool(value) and is_locomo(value[0])
    if not isinstance(value, Mapping):
        return False
    return isinstance(value.get("conversations"), list) or isinstance(value.get("conversation"), Mapping)


def dialogues(document: object, place: Place) -> Iterator[Dialogue]:
    """Every dialogue of a document, in order.

    `turn_id` is the `dia_id`; each session is one conversation, `<dialogue>/session-<n>`.
    A caption goes behind the text as ` [shares CAPTION]`. A lower-case speaker such as `user` is a role, not a name.
    A time without an offset is taken as UTC. Raises InvalidRecord naming file, position and field.
    """
    if isinstance(document, Mapping) and "conversations" in document:
        for i, value in enumerate(sequence(document, "conversations", place)):
            at = place.inside("conversations").inside(i)
            yield _flat(mapping(value, f"conversations[{i}]", place), at)
        return
    samples = document if isinstance(document, list) else [document]
    for i, value in enumerate(samples):
        yield _published(mapping(value, f"[{i}]", place), place.inside(i), i)


def _flat(source: Mapping[str, Any], place: Place) -> Dialogue:
    dialogue = name(source.get("id"), "id", place)
    found = []
    for i, value in enumerate(sequence(source, "turns", place)):
        at = place.inside("turns").inside(i)
        turn = mapping(value, f"turns[{i}]", place)
        session, begun = name(turn.get("session"), "session", at), moment(turn.get("timestamp"), "timestamp", at)
        found.append(_turn(turn, at, f"{dialogue}/session-{session}", begun))
    return Dialogue(dialogue, _distinct(found, place), _questions(source, place), place, published=False)


def _published(source: Mapping[str, Any], place: Place, number: int) -> Dialogue:
    dialogue = name(source.get("sample_id", f"dialogue-{number + 1}"), "sample_id", place)
    at = place.inside("conversation")
    sessions = mapping(source.get("conversation"), "conversation", place)
    found = []
    for key in sorted((k for k in sessions if _SESSION.fullmatch(k)), key=lambda k: int(k[8:])):
        begun = _spoken_time(sessions.get(f"{key}_date_time"), f"{key}_date_time", at)
        for i, value in enumerate(sequence(sessions, key, at)):
            turn = mapping(value, f"{key}[{i}]", at)
            found.append(_turn(turn, at.inside(key).inside(i), f"{dialogue}/session-{int(key[8:])}", begun))
    return Dialogue(dialogue, _distinct(found, place), _questions(source, place), place, published=True)


def _turn(source: Mapping[str, Any], place: Place, conversation_id: str, begun: datetime) -> TurnInput:
    content = text(source, "text", place).strip()
    caption = source.get("caption", source.get("blip_caption"))
    if caption is not None and as_text(caption, "caption", place).strip():
        content = f"{content} [shares {caption.strip()}]".strip()
    turn = TurnInput(
        role="user",
        content=filled(content, "text", place),
        turn_id=name(source.get("dia_id"), "dia_id", place),
        timestamp=begun,
        conversation_id=name(conversation_id, "conversation_id", place),
    )
    speaker = name(source.get("speaker"), "speaker", place)
    if speaker in ROLES:
        turn["role"] = ROLES[speaker]
    else:
        turn["speaker"] = speaker
    return turn


def _distinct(turns: list[TurnInput], place: Place) -> tuple[TurnInput, ...]:
    seen: set[str] = set()
    for turn in turns:
        if turn["turn_id"] in seen:
            raise place.error("dia_id", f"must be unique in a dialogue, {shown(turn['turn_id'])} comes twice")
        seen.add(turn["turn_id"])
    if not turns:
        raise place.error("turns", "must not be empty")
    return tuple(turns)


def _questions(source: Mapping[str, Any], place: Place) -> tuple[Mapping[str, Any], ...]:
    if "qa" not in source:
        return ()
    found = sequence(source, "qa", place)
    return tuple(mapping(value, f"qa[{i}]", place) for i, value in enumerate(found))


def _spoken_time(value: object, field: str, place: Place) -> datetime:
    """`1:56 pm on 8 May, 2023`, or an ISO time. English months, whatever the locale."""
    match = _SPOKEN.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        return moment(value, field, place)
    hour, minute, half, day, month, year = match.groups()
    try:
        number = _MONTHS.index(month.lower()) + 1
        clock = int(hour) % 12 + (12 if half.lower() == "p" else 0)
        return datetime(int(year), number, int(day), clock, int(minute), tzinfo=UTC)
    except ValueError:
        raise place.error(field, f"must be a time such as '1:56 pm on 8 May, 2023', got {shown(value)}") from None
