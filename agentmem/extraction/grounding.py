"""What the facts of a window may rest on: names and numbers that were given, whose turn it is, and our own words.

Whether the words say a claim is asked by `claim_checks`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, TypeVar

from agentmem.core.records import Turn
from agentmem.extraction.drafts import FactDraft, Window
from agentmem.extraction.recalled_text import overlaps_any, recalled_lines
from agentmem.text.normalization import (
    claimed_names,
    claimed_numbers,
    comparable_words,
    normalize_claim,
    quotable_numbers,
    slugify,
    written_dates,
)
from agentmem.text.temporal import TimeRange, is_range_stated, parse_date_range
from agentmem.text.tokenizer import tokenize

T = TypeVar("T")

MAX_TURN_CHARS = 24_000
"""Characters of a turn that are read; what comes after them is not sent and grounds nothing."""

_NAME_PREFIX_CHARS = 4  # letters that two forms of a name share at least: Sweden, Swedish
_PROMPT_INJECTION = re.compile(
    r"\b(?:ignore|disregard|forget|override|bypass)\s(?:\w+\s){0,3}?(?:instructions?|prompts?)\b"
    r"|\b(?:ignore|disregard|override|bypass)\s(?:all|any|your|previous|prior|these)\s(?:\w+\s){0,2}?(?:rules"
    r"|guidelines)\b"
    r"|\b(?:system|developer) (?:prompt|message|override)\b|\bnew instructions\b|\b(?:you are|act as"
    r"|you're) now (?:an?|the|in)\b"
    r"|^\W*(?:system|assistant|instructions?|developer)\s*:|<\W{0,3}(?:system|im_start|im_end|inst|turns?|data|json)\b"
    r"|\[/?inst\]|[\"'](?:claim|facts?|quote|certainty|standalone|replaces|why_replaced|ended|depends_on"
    r"|temporal)[\"']\s*:"
    r"|\b(?:delete|erase|remove|retire|supersede|overwrite|wipe|forget|drop|clear|mark)\s(?:\w+\s){0,3}?"
    r"(?:facts?|memory|records?|known_facts|F\d{1,3})\b|\b(?:forget|erase|delete|wipe) (?:all|everything)\b"
    r"|\b(?:replaces|ended|depends_on)\s?[:=]?\s?F\d",
    re.IGNORECASE | re.MULTILINE,
)
_FIRST_WORD_END = re.compile(r"['’]s\b|\s")


def turn_time(turn: Turn) -> datetime | None:
    """When a turn was said, if known."""
    return turn.timestamp or turn.recorded_at


def is_assistant_turn(turn: Turn) -> bool:
    """Whether a turn is the assistant's."""
    return turn.role == "assistant"


@dataclass(frozen=True)
class GroundingContext:
    """What the facts of a window may rest on; `prompt` is the fixed text that the model was given."""

    window: Window
    prompt: str = ""
    _cache: dict[tuple[object, ...], Any] = field(default_factory=dict)

    def text_of(self, turn: Turn) -> str:
        """What was sent of a turn."""
        return turn.content[:MAX_TURN_CHARS]

    def _get_or_compute(self, key: tuple[object, ...], compute: Callable[[], T]) -> T:
        """What was found before under this key: many facts rest on one turn, and a turn may be long."""
        if key not in self._cache:
            self._cache[key] = compute()
        found: T = self._cache[key]
        return found

    def overlaps_recalled_lines(self, turn: Turn, span: tuple[int, int]) -> bool:
        """Whether a span of a turn holds anything that recall made."""
        return overlaps_any(span, self._get_or_compute(("own", turn.id), lambda: recalled_lines(self.text_of(turn))))

    def has_prompt_injection(self, turn: Turn) -> bool:
        """Whether a turn addresses the reader of the memory, as in "ignore your instructions"."""
        return self._get_or_compute(
            ("orders", turn.id), lambda: _PROMPT_INJECTION.search(self.text_of(turn)) is not None
        )

    @cached_property
    def turns(self) -> Mapping[str, Turn]:
        """The turns that are extracted, by id."""
        return {turn.id: turn for turn in self.window.turns}

    @cached_property
    def input_texts(self) -> Sequence[str]:
        """Every text that the model was given but the fixed one."""
        around = (*self.window.context_turns, *self.window.turns)
        spoken = [turn.search_text()[:MAX_TURN_CHARS] for turn in around]
        speakers = [turn.speaker for turn in around if turn.speaker]
        named = [name for entity in self.window.known_entities for name in (entity.name, *entity.aliases)]
        return [
            *spoken,
            *speakers,
            *self.window.participants,
            *named,
            *(fact.claim for fact in self.window.known_facts),
        ]

    @cached_property
    def input_words(self) -> frozenset[str]:
        """All words that were given."""
        return frozenset(word for text in self.input_texts for word in comparable_words(text))

    @cached_property
    def input_numbers(self) -> frozenset[str]:
        """All numbers that were given."""
        return frozenset(number for text in self.input_texts for number in quotable_numbers(text))

    def is_time_stated(self, time_range: TimeRange, turn: Turn, *, allow_vague: bool = True) -> bool:
        """Whether the turn, or another one around it, holds words that allow for this range of time; see
        `is_range_stated`.
        """
        around = (turn, *self.window.turns, *self.window.context_turns)
        return self._get_or_compute(
            ("says", time_range, turn.id, allow_vague),
            lambda: any(
                is_range_stated(time_range, self.text_of(each), turn_time(each), allow_vague=allow_vague)
                for each in around
            ),
        )

    def strip_stated_dates(self, text: str, turn: Turn) -> str:
        """A text without the dates in it that were said."""
        at = turn_time(turn)
        for written, iso in list(written_dates(text, at.year if at else 0)):
            found = parse_date_range(iso)
            if found is not None and self.is_time_stated(found, turn, allow_vague=False):
                text = text.replace(written, " ", 1)
        return text

    def ungrounded_numbers(self, text: str, turn: Turn) -> set[str]:
        """The numbers of a text that were not said."""
        return claimed_numbers(self.strip_stated_dates(text, turn)) - self.input_numbers

    def ungrounded_names(self, text: str) -> list[str]:
        """The names in a text that were not said."""
        return [name for name in claimed_names(text) if not self.is_known_name(name)]

    @cached_property
    def known_claims(self) -> frozenset[str]:
        """The known claims, normalized."""
        return frozenset(normalize_claim(fact.claim) for fact in self.window.known_facts)

    @cached_property
    def normalized_prompt(self) -> str:
        """The fixed text, normalized."""
        return normalize_claim(self.prompt)

    @cached_property
    def speaker_slugs(self) -> frozenset[str]:
        """The slugs of who speaks."""
        spoken = (turn.speaker for turn in (*self.window.context_turns, *self.window.turns))
        return frozenset(slugify(name) for name in (*spoken, *self.window.participants) if name)

    def is_known_name(self, name: str) -> bool:
        """Whether a name, or another form of it, was given."""
        if name.casefold() in self.input_words:
            return True
        found = tokenize(name)
        return all(term in self.input_words for term in found) or (
            len(name) >= _NAME_PREFIX_CHARS + 2 and self._has_known_prefix(name)
        )

    def _has_known_prefix(self, name: str) -> bool:
        return name[:_NAME_PREFIX_CHARS].casefold() in self._input_word_prefixes

    @cached_property
    def _input_word_prefixes(self) -> frozenset[str]:
        return frozenset(word[:_NAME_PREFIX_CHARS] for word in self.input_words if len(word) > _NAME_PREFIX_CHARS)


def order_reason(turn: Turn, grounding: GroundingContext) -> str:
    """Why a person should review a turn before it changes anything; "" when no review is needed."""
    return "order: the turn speaks to whoever reads it for memory" if grounding.has_prompt_injection(turn) else ""


def role_reason(draft: FactDraft, turn: Turn, grounding: GroundingContext) -> str:
    """Why a turn of this role says nothing of the subject; "" when it may.

    People speak of people, the assistant speaks of itself.
    """
    if not draft.agent_private:
        return "it rests on a turn of the assistant" if turn.role in ("assistant", "system") else ""
    if not is_assistant_turn(turn):
        return "it is no turn of the assistant"
    first = slugify(_FIRST_WORD_END.split(draft.claim.removeprefix("The "), maxsplit=1)[0])
    of_others = draft.subject != "agent" or first == "user" or first in grounding.speaker_slugs
    return "it is not about the assistant" if of_others else ""


def echo_reason(draft: FactDraft, turn: Turn, grounding: GroundingContext) -> str:
    """Why a claim is our own words given back; "" when it is not."""
    claim, quote = normalize_claim(draft.claim), normalize_claim(draft.quote)
    if draft.span and grounding.overlaps_recalled_lines(turn, draft.span):
        return "it echoes what recall had put there"
    if claim in grounding.known_claims and (is_assistant_turn(turn) or draft.span is None or quote == claim):
        return "it echoes what was known"
    if any(len(text) >= least and text in grounding.normalized_prompt for text, least in ((claim, 12), (quote, 40))):
        return "it echoes the prompt"
    return ""
