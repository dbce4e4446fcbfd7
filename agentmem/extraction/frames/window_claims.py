"""Reads the claims about slots from all turns of a window, with the people who are known around it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime

from agentmem.beliefs.slots import PEOPLE_SLOTS, USER_SUBJECT
from agentmem.core.records import Fact
from agentmem.extraction.drafts import Window
from agentmem.extraction.frames.frame_set import load_frames
from agentmem.extraction.frames.known_values import KnownValue
from agentmem.extraction.frames.reader import FrameReader
from agentmem.extraction.frames.slot_claim import SlotClaim

NON_HUMAN_ROLES = frozenset({"assistant", "tool", "system", "function", "developer"})
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)  # for turns without a time: their relative dates mean nothing


def read_slot_claims(window: Window) -> dict[str, list[SlotClaim]]:
    """The claims about slots by turn. Turns before the window tell what was asked and who was named."""
    people = list_known_people(window)
    kin = find_known_kin(window.known_facts)
    known = list_known_values(window.known_facts)
    readers: dict[str, FrameReader] = {}
    out: dict[str, list[SlotClaim]] = {}
    asked = ""
    for turn in (*window.context_turns, *window.turns):
        if turn.role.lower() in NON_HUMAN_ROLES:
            asked = turn.content if turn.role.lower() == "assistant" else asked
            continue
        reader = readers.setdefault(turn.speaker or "", FrameReader(people, kin, known, window.day_first))
        out[turn.id] = reader.read(turn.content, turn.timestamp or turn.recorded_at or _EPOCH, asked)
        asked = ""
    return out


def list_known_values(facts: Sequence[Fact]) -> list[KnownValue]:
    """What is held or planned of slots by these facts."""
    slots = [fact for fact in facts if fact.slot and fact.temporal_context != "past" and not fact.is_denied]
    return [KnownValue(fact.subject, fact.slot, fact.value, fact.temporal_context == "future") for fact in slots]


def list_known_people(window: Window) -> list[str]:
    """The names of people that are known around a window."""
    people = [entity.name for entity in window.known_entities if entity.type == "person"]
    return [*people, *(fact.value for fact in window.known_facts if fact.slot in PEOPLE_SLOTS)]


def find_known_kin(facts: Sequence[Fact]) -> dict[str, str]:
    """The user's people by the word for what they are: the one in the claim, else the slot's own."""
    nouns = load_frames("english").nouns
    out = {}
    for fact in facts:
        if fact.slot in PEOPLE_SLOTS and fact.subject == USER_SUBJECT:
            words = re.findall(r"[\w-]+", fact.claim.lower())
            said = [word for word in words if nouns.get(word) == fact.slot]
            out.update(dict.fromkeys(said, fact.value))
    return out
