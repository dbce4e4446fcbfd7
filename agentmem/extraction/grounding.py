"""Whether a drafted fact rests on what was said. Whoever drafted it is not trusted: every check reads the words.

A fact is refused where it cannot count at all, and doubted where a person should look at it first: each check is a
function of its own that returns its reason, or "".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any, TypeVar

from agentmem.extraction import FactDraft, Window
from agentmem.extraction.clauses import (
    affirms,
    asked_parts,
    ceases,
    denies,
    hedges,
    imagines,
    may_deny,
    nearest_clauses,
    only_asks,
    plain_marks,
    says_used_to,
    speaks_of_others,
    tells_of_asking,
    widened,
)
from agentmem.extraction.echo import own_lines, within
from agentmem.extraction.figures import (
    MONTHS,
    WEEKDAYS,
    dates_claimed,
    dates_written,
    names_claimed,
    numbers_claimed,
    numbers_said,
    words_said,
)
from agentmem.extraction.moments import Range, is_said, resolve
from agentmem.extraction.quotes import find_quote
from agentmem.model.records import Turn
from agentmem.text.names import normalised_claim, slug
from agentmem.text.words import terms

__all__ = ["LONGEST_READ", "Ground", "doubt", "find_quote", "refusal", "settled", "speaks_of_itself", "turn_time"]

T = TypeVar("T")

LONGEST_READ = 24_000
"""Characters of a turn that are read; what comes after them is not sent and grounds nothing."""

_SUPPORTED = 3  # one in so many words of a claim was given; seldom has a true claim fewer
_OF_NOBODY = frozenset(terms("user agent assistant"))
_ALIKE = 4  # letters that two forms of a name share at least: Sweden, Swedish
_ORDERS = re.compile(
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
_DANGLING = re.compile(r"(?:i|i'm|i've|my|we|our|you|your|he|she|they|his|her|their)\b", re.IGNORECASE)
_FIRST_WORD = re.compile(r"['’]s\b|\s")
_POINTING = re.compile(r"(?:[Ii]t|[Ii]ts|[Tt]his|[Tt]hat|[Tt]hese|[Tt]hose)\b(?!.*(?:\b[Uu]ser\b|\s[A-Z]))", re.DOTALL)


def turn_time(turn: Turn) -> datetime | None:
    """When a turn was said, as far as is known."""
    return turn.timestamp or turn.recorded_at


def speaks_of_itself(turn: Turn) -> bool:
    """Whether a turn is the assistant's."""
    return turn.role == "assistant"


@dataclass(frozen=True)
class Ground:
    """What the facts of a window may rest on; `prompt` is the fixed text that the model was given."""

    window: Window
    prompt: str = ""
    _kept: dict[tuple[object, ...], Any] = field(default_factory=dict)

    def text_of(self, turn: Turn) -> str:
        """What was sent of a turn."""
        return turn.content[:LONGEST_READ]

    def _once(self, key: tuple[object, ...], find: Callable[[], T]) -> T:
        """What was found before under this key: many facts rest on one turn, and a turn may be long."""
        if key not in self._kept:
            self._kept[key] = find()
        found: T = self._kept[key]
        return found

    def own_lines(self, turn: Turn) -> list[tuple[int, int]]:
        """The lines of a turn that recall made."""
        return self._once(("own", turn.id), lambda: own_lines(self.text_of(turn)))

    def overlaps_own_lines(self, turn: Turn, span: tuple[int, int]) -> bool:
        """Whether a span of a turn holds anything that recall made."""
        return within(span, self.own_lines(turn))

    def own_words(self, turn: Turn) -> set[str]:
        """The beginnings of the words of a turn, without the lines that recall made."""
        return self._once(("words", turn.id), lambda: self._beginnings_of(turn))

    def _beginnings_of(self, turn: Turn) -> set[str]:
        text, at = [], 0
        whole = self.text_of(turn)
        for start, end in self.own_lines(turn):
            text.append(whole[at:start])
            at = end
        return {word[:_ALIKE] for word in words_said("".join([*text, whole[at:]]))}

    def asked(self, turn: Turn) -> list[tuple[int, int]]:
        """The spans of what a turn asks."""
        return self._once(("asked", turn.id), lambda: asked_parts(self.text_of(turn)))

    def clauses(self, draft: FactDraft) -> list[str]:
        """The clauses of its turn that a fact rests on; those of its quote where that was not found."""
        turn = self.turns[draft.turn_id]
        words = widened(self.text_of(turn), draft.span) if draft.span else draft.quote
        return nearest_clauses(words, draft.claim)

    def orders(self, turn: Turn) -> bool:
        """Whether a turn speaks to whoever reads it for memory, as in "ignore your instructions"."""
        return self._once(("orders", turn.id), lambda: _ORDERS.search(self.text_of(turn)) is not None)

    @cached_property
    def turns(self) -> Mapping[str, Turn]:
        """The turns that are extracted, by id."""
        return {turn.id: turn for turn in self.window.turns}

    @cached_property
    def given(self) -> Sequence[str]:
        """Every text that the model was given but the fixed one."""
        around = (*self.window.before, *self.window.turns)
        spoken = [turn.searchable()[:LONGEST_READ] for turn in around]
        speakers = [turn.speaker for turn in around if turn.speaker]
        named = [name for entity in self.window.entities for name in (entity.name, *entity.aliases)]
        return [*spoken, *speakers, *self.window.participants, *named, *(fact.claim for fact in self.window.facts)]

    @cached_property
    def words(self) -> frozenset[str]:
        """All words that were given."""
        return frozenset(word for text in self.given for word in words_said(text))

    @cached_property
    def numbers(self) -> frozenset[str]:
        """All numbers that were given."""
        return frozenset(number for text in self.given for number in numbers_said(text))

    def says(self, found: Range, turn: Turn, *, vaguely: bool = True) -> bool:
        """Whether the turn, or another one around it, holds words that allow for this range of time; see `is_said`."""
        around = (turn, *self.window.turns, *self.window.before)
        return self._once(
            ("says", found, turn.id, vaguely),
            lambda: any(is_said(found, self.text_of(each), turn_time(each), vaguely=vaguely) for each in around),
        )

    def undated(self, text: str, turn: Turn) -> str:
        """A text without the dates in it that were said."""
        at = turn_time(turn)
        for written, iso in list(dates_written(text, at.year if at else 0)):
            found = resolve(iso)
            if found is not None and self.says(found, turn, vaguely=False):
                text = text.replace(written, " ", 1)
        return text

    def unsaid_numbers(self, text: str, turn: Turn) -> set[str]:
        """The numbers of a text that nobody said."""
        return numbers_claimed(self.undated(text, turn)) - self.numbers

    def unknown_names(self, text: str) -> list[str]:
        """The names in a text that nobody named."""
        return [name for name in names_claimed(text) if not self.knows(name)]

    @cached_property
    def claims(self) -> frozenset[str]:
        """The known claims, normalised."""
        return frozenset(normalised_claim(fact.claim) for fact in self.window.facts)

    @cached_property
    def fixed(self) -> str:
        """The fixed text, normalised."""
        return normalised_claim(self.prompt)

    @cached_property
    def people(self) -> frozenset[str]:
        """The slugs of who speaks."""
        spoken = (turn.speaker for turn in (*self.window.before, *self.window.turns))
        return frozenset(slug(name) for name in (*spoken, *self.window.participants) if name)

    @cached_property
    def speakers_terms(self) -> frozenset[str]:
        """The index terms of their names."""
        return frozenset(term for name in self.people for term in terms(name))

    def knows(self, name: str) -> bool:
        """Whether a name, or another form of it, was given."""
        if name.casefold() in self.words:
            return True
        found = terms(name)
        return all(term in self.words for term in found) or (len(name) >= _ALIKE + 2 and self._begins(name))

    def _begins(self, name: str) -> bool:
        return name[:_ALIKE].casefold() in self._beginnings

    @cached_property
    def _beginnings(self) -> frozenset[str]:
        return frozenset(word[:_ALIKE] for word in self.words if len(word) > _ALIKE)


def refusal(draft: FactDraft, ground: Ground) -> str:
    """Why a fact does not count at all; "" when it does."""
    turn = ground.turns[draft.turn_id]
    return _wrong_speaker(draft, turn, ground) or _echo(draft, turn, ground) or _question(draft, turn, ground)


def settled(draft: FactDraft, ground: Ground) -> FactDraft:
    """The fact with its label of time and its polarity as its words have them, and with the reasons to doubt it."""
    if draft.temporal_context == "current" and any(map(says_used_to, ground.clauses(draft))):
        draft = replace(draft, temporal_context="past")
    draft = replace(draft, negated=draft.negated or denies(draft.claim))
    return replace(draft, doubt=doubt(draft, ground))


def doubt(draft: FactDraft, ground: Ground) -> str:
    """Why a person should look at a fact first, reasons joined by "; "; "" when nobody need."""
    turn = ground.turns[draft.turn_id]
    reasons = [] if draft.span else ["ungrounded: its quote does not stand in its turn"]
    reasons += [
        _polarity(draft, ground), _imagined(draft, ground), _asked(draft, turn, ground),
        _number(draft, turn, ground), _date(draft, turn, ground),
        _name(draft, ground), _support(draft, turn, ground), _person(draft, turn, ground), _alone(draft),
        _order(turn, ground),
    ]  # fmt: skip
    return "; ".join(reason for reason in reasons if reason)


def _wrong_speaker(draft: FactDraft, turn: Turn, ground: Ground) -> str:
    if draft.private:
        if not speaks_of_itself(turn):
            return "it is no turn of the assistant"
        first = slug(_FIRST_WORD.split(draft.claim.removeprefix("The "), maxsplit=1)[0])
        of_others = draft.subject != "agent" or first == "user" or first in ground.people
        return "it is not about the assistant" if of_others else ""
    return "it rests on a turn of the assistant" if turn.role in ("assistant", "system") else ""


def _echo(draft: FactDraft, turn: Turn, ground: Ground) -> str:
    claim, quote = normalised_claim(draft.claim), normalised_claim(draft.quote)
    if draft.span and ground.overlaps_own_lines(turn, draft.span):
        return "it echoes what recall had put there"
    if claim in ground.claims and (speaks_of_itself(turn) or draft.span is None or quote == claim):
        return "it echoes what was known"
    if any(len(text) >= least and text in ground.fixed for text, least in ((claim, 12), (quote, 40))):
        return "it echoes the prompt"
    return ""


def _question(draft: FactDraft, turn: Turn, ground: Ground) -> str:
    asked = draft.span is not None and only_asks(ground.text_of(turn), draft.span, ground.asked(turn))
    return "it rests on a question" if asked else ""


def _polarity(draft: FactDraft, ground: Ground) -> str:
    clauses = ground.clauses(draft)
    over = draft.temporal_context == "past" and any(map(ceases, clauses))
    if affirms(draft.claim, clauses) and not over:
        return "polarity: what was said is a denial, the claim is none"
    if denies(draft.claim) and not (any(map(may_deny, clauses)) or denies(draft.quote)):
        return "polarity: the claim is a denial, what was said is none"
    return ""


def _imagined(draft: FactDraft, ground: Ground) -> str:
    if any(map(imagines, ground.clauses(draft))) and not hedges(draft.claim):
        return "hypothetical: it was not said as something that is so"
    return ""


def _asked(draft: FactDraft, turn: Turn, ground: Ground) -> str:
    """A long quote may hold statements and questions: it counts which of them the claim is nearest to."""
    text = ground.text_of(turn)
    asked = [plain_marks(text[start:end]) for start, end in ground.asked(turn)]
    nearest = ground.clauses(draft)
    near = bool(nearest) and all(any(clause.strip() in part for part in asked) for clause in nearest)
    return "question: what it rests on is asked, not said" if near and not tells_of_asking(draft.claim) else ""


def _number(draft: FactDraft, turn: Turn, ground: Ground) -> str:
    unsaid = ground.unsaid_numbers(draft.claim, turn)
    return f"number: {', '.join(sorted(unsaid))} was not said" if unsaid else ""


def _date(draft: FactDraft, turn: Turn, ground: Ground) -> str:
    days = [moment for moment in (turn_time(turn), draft.valid_from, draft.valid_to) if moment]
    dated = {MONTHS[day.month - 1] for day in days} | {WEEKDAYS[day.weekday()] for day in days}
    said = {word[:3] for word in ground.words}
    claimed = dates_claimed(ground.undated(draft.claim, turn))
    unsaid = [name for name in claimed if name not in dated and name[:3] not in said]
    return f"date: {', '.join(unsaid)} was not said" if unsaid else ""


def _name(draft: FactDraft, ground: Ground) -> str:
    unknown = ground.unknown_names(draft.claim)
    unknown += [name for name in draft.entities if not any(ground.knows(part) for part in name.split())]
    return f"name: {', '.join(dict.fromkeys(unknown))} was not named" if unknown else ""


def _support(draft: FactDraft, turn: Turn, ground: Ground) -> str:
    words = set(terms(ground.undated(draft.claim, turn))) - ground.speakers_terms - _OF_NOBODY
    given = sum(map(ground.knows, words))
    own = ground.own_words(turn)
    if words and (given * _SUPPORTED < len(words) or own.isdisjoint(word[:_ALIKE] for word in words)):
        return "support: hardly a word of the claim was said"
    return ""


def _person(draft: FactDraft, turn: Turn, ground: Ground) -> str:
    """Somebody's words about themselves, claimed of another who takes part."""
    if not turn.speaker or slug(turn.speaker) not in ground.people or not draft.span:
        return ""
    about = slug(_FIRST_WORD.split(draft.claim, maxsplit=1)[0])
    others = {part for person in ground.people for part in (person, person.split("-")[0])}
    others -= {slug(turn.speaker), slug(turn.speaker).split("-")[0]}
    if about not in others or not set(slug(turn.speaker).split("-")).isdisjoint(slug(draft.claim).split("-")):
        return ""
    addressed = any(speaks_of_others(clause) or about in slug(clause).split("-") for clause in ground.clauses(draft))
    return "" if addressed else "person: the speaker does not say it of them"


def _alone(draft: FactDraft) -> str:
    claim = draft.claim.replace("’", "'")
    dangling = _DANGLING.match(claim) or _POINTING.match(claim)
    return "alone: the claim does not say of whom or what" if dangling else ""


def _order(turn: Turn, ground: Ground) -> str:
    return "order: the turn speaks to whoever reads it for memory" if ground.orders(turn) else ""
