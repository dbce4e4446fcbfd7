"""Reads the plain claims of all turns of a window, with the people who are known around it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime

from agentmem.beliefs.slots import PEOPLE_SLOTS, USER_SUBJECT
from agentmem.core.records import Fact
from agentmem.extraction.drafts import Window
from agentmem.extraction.plain.language import load_language
from agentmem.extraction.plain.reader import PlainReader
from agentmem.extraction.plain.slot_claim import SlotClaim

NON_HUMAN_ROLES = frozenset({"assistant", "tool", "system", "function", "developer"})
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)  # for turns without a time: their relative dates mean nothing


def read_slot_claims(window: Window) -> dict[str, list[SlotClaim]]:
    """The claims about slots by turn. Turns before the window tell what was asked and who was named."""
    people, kin = list_known_people(window), find_known_kin(window.known_facts)
    readers: dict[str, PlainReader] = {}
    out: dict[str, list[SlotClaim]] = {}
    asked = ""
    for turn in (*window.context_turns, *window.turns):
        if turn.role.lower() in NON_HUMAN_ROLES:
            asked = turn.content if turn.role.lower() == "assistant" else asked
            continue
        reader = readers.setdefault(turn.speaker or "", PlainReader(people, kin, window.day_first))
        out[turn.id] = reader.read(turn.content, turn.timestamp or turn.recorded_at or _EPOCH, asked)
        asked = ""
    return out


def list_known_people(window: Window) -> list[str]:
    """The names of people that are known around a window."""
    people = [entity.name for entity in window.known_entities if entity.type == "person"]
    return [*people, *(fact.value for fact in window.known_facts if fact.slot in PEOPLE_SLOTS)]


def find_known_kin(facts: Sequence[Fact]) -> dict[str, str]:
    """The user's people by the English word for what they are, where only one person is called so."""
    kin = load_language("english").kin
    named: dict[str, set[str]] = {}
    for fact in facts:
        if fact.slot in PEOPLE_SLOTS and fact.subject == USER_SUBJECT:
            for word in re.findall(r"[\w-]+", fact.claim.lower()):
                if word in kin and kin[word].slot == fact.slot:
                    named.setdefault(kin[word].noun, set()).add(fact.value)
    return {noun: next(iter(names)) for noun, names in named.items() if len(names) == 1}
