"""The short names by which a prompt calls turns, people and known facts. No reply can name what has none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeVar

from agentmem.beliefs.slots import THING_SUBJECT, USER_SUBJECT
from agentmem.core.records import Fact, Turn
from agentmem.core.scope import GLOBAL
from agentmem.extraction.drafts import Window
from agentmem.extraction.plain.window_claims import list_known_people
from agentmem.extraction.reply_schema import MAX_ITEMS
from agentmem.text.tokenizer import estimate_tokens

T = TypeVar("T")

MAX_CONTEXT_TURNS = 6
MAX_KNOWN_FACTS = 90
MIN_KNOWN_TOKENS = 120  # room for known facts in the prompt of a short window
TOKENS_PER_LABEL = 4
MAX_PEOPLE = 40
_USER_WORDS = frozenset({"user", "the user", "i", "me", "speaker", "the speaker"})
_AGENT_WORDS = frozenset({"agent", "the agent", "assistant", "the assistant", "ai"})
AGENT_SUBJECT = "agent"


@dataclass(frozen=True, slots=True)
class LabelMap:
    """T1, T2, … for the turns, C1, … for the last of those before, P1, … for people, F1, … for known facts.

    `people` are subjects of facts; the first ones are those who speak.
    """

    turns: Mapping[str, Turn]
    context_turns: Mapping[str, Turn]
    people: Mapping[str, str]
    facts: Mapping[str, Fact]

    @classmethod
    def from_window(cls, window: Window) -> LabelMap:
        """The labels of a window, the same for the prompt and for the reply."""
        return cls(
            _number("T", window.turns),
            _number("C", window.context_turns[-MAX_CONTEXT_TURNS:]),
            _number("P", _list_people(window)[:MAX_PEOPLE]),
            _number("F", _select_facts(window)),
        )

    def find_subject(self, about: str, turn: Turn, *, agent_private: bool) -> str:
        """Whom a fact is about, as subjects are written: `about` is a label or a name, "" for who speaks."""
        name = self.people.get(about.strip(), about.strip())
        if agent_private and not name:
            return AGENT_SUBJECT
        if name.casefold() in _AGENT_WORDS:
            return AGENT_SUBJECT
        if not name or name.casefold() in _USER_WORDS:
            return turn.speaker or USER_SUBJECT
        return name

    def list_choices(self) -> dict[str, list[str]]:
        """The labels that the fields of a reply may hold; new items of a reply are N1, N2, …"""
        facts, fresh = list(self.facts), [f"N{number}" for number in range(1, MAX_ITEMS["facts"] + 1)]
        turns = [*self.turns, *self.context_turns]
        return {"turn": list(self.turns), "leans_on": turns, "ends": facts, "rests_on": [*facts, *fresh]}

    def describe_people(self) -> dict[str, str]:
        """The people as a prompt shows them, by label: the name, and what they are to the user where that is known."""
        kin = {fact.value.casefold(): fact.slot for fact in self.facts.values() if fact.subject == USER_SUBJECT}
        out = {}
        for label, name in self.people.items():
            relation = kin.get(name.casefold())
            shown = "the user" if name == USER_SUBJECT else name
            out[label] = f"{shown} ({relation})" if relation else shown
        return out

    def describe_facts(self) -> dict[str, str]:
        """The known facts by label: those of slots as "P1.employer = Kestrel Labs", others as claims."""
        labels = {name.casefold(): label for label, name in self.people.items()}
        return {label: _describe(fact, labels) + self._describe_scope(fact) for label, fact in self.facts.items()}

    def _describe_scope(self, fact: Fact) -> str:
        """That a fact holds in every channel, where the turns are in one of them."""
        is_here = all(turn.channel == fact.channel for turn in self.turns.values())
        return " (everywhere)" if fact.channel == GLOBAL and not is_here else ""


def _select_facts(window: Window) -> list[Fact]:
    """The first known facts that fill at most a third of what the model is given of a window."""
    said = sum(estimate_tokens(turn.search_text()) for turn in window.turns)
    room = max(MIN_KNOWN_TOKENS, said // 2)
    sizes = accumulate(estimate_tokens(fact.claim) + TOKENS_PER_LABEL for fact in window.known_facts)
    return [fact for fact, size in zip(window.known_facts, sizes, strict=True) if size <= room][:MAX_KNOWN_FACTS]


def _number(letter: str, items: Iterable[T]) -> dict[str, T]:
    return {f"{letter}{n}": item for n, item in enumerate(items, 1)}


def _list_people(window: Window) -> list[str]:
    """Who speaks, whom known facts are about, and who is known otherwise, each once."""
    spoken = [turn.speaker or USER_SUBJECT for turn in window.turns if turn.role.lower() in ("user", "human")]
    known = [fact.subject for fact in window.known_facts if fact.slot and fact.subject not in (THING_SUBJECT, "other")]
    names = [*spoken, USER_SUBJECT, *known, *list_known_people(window)]
    first: dict[str, str] = {}
    for name in names:
        if name and name.casefold() not in _AGENT_WORDS:
            first.setdefault(name.casefold(), name)
    return list(first.values())


def _describe(fact: Fact, labels: Mapping[str, str]) -> str:
    if not fact.slot:
        return fact.claim
    owner = labels.get(fact.subject.casefold(), fact.subject)
    sign = "is not" if fact.is_denied else "="
    since = f" since {fact.valid_from.date().isoformat()}" if fact.valid_from else ""
    planned = " (planned)" if fact.temporal_context == "future" else ""
    return f"{owner}.{fact.slot} {sign} {fact.value}{since}{planned}"
