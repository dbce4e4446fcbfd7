"""A claim of a model beside the words that it rests on: the turn, the question before it, and who and what is known."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import cached_property

from agentmem.beliefs.slots import OWN_NAME_SLOTS, PEOPLE_SLOTS, USER_SUBJECT, find_slot
from agentmem.core.records import Turn
from agentmem.extraction.drafts import FactDraft, Window
from agentmem.extraction.grounding import MAX_TURN_CHARS, is_assistant_turn
from agentmem.extraction.said_words import (
    LANGUAGES,
    WORD,
    WordLists,
    find_languages,
    find_quote,
    fold,
    has_words,
    is_said,
    list_content_words,
    list_words,
    load_words,
    mask_foreign,
    split_compounds,
)
from agentmem.text.normalization import MONTHS, claimed_numbers, quotable_numbers

MAX_TURNS_BEFORE = 6
MAX_TURNS_NEAR = 4  # before a turn, in which a name may stand for which it has a pronoun
MAX_SHORT_QUOTE_WORDS = 12  # of a quote that is looked at as a whole; in a longer one the clause of the value is
SHORT_SPAN = timedelta(days=1)  # around the day of a turn: "yesterday", and other time zones
LONG_SPAN = timedelta(days=8)  # beside words such as "Friday" or "this week"

_CLAUSE = re.compile(
    r"[.;!?\n:,()—–…](?=\s|$)|\b(?:but|and|aber|und|pero|mais|mas|because|so|while|although|weil|porque|parce)\b",
    re.IGNORECASE,
)
_WRITTEN_DATE = re.compile(rf"\b(?:{'|'.join(name[:3] for name in MONTHS)})|\d{{4}}|\d[./]\d", re.IGNORECASE)
_LAST_QUESTION = re.compile(r"[^.!?\n]*\?\s*\Z")
_SENTENCE = re.compile(r"(?:(?<!\d)\.|[;!?\n…。！？])(?=\s|$|[^\x00-\x7f])")
NEAR_DAY = (
    r"(?:mon|tues|wednes|thurs|fri|satur|sun)day|tomorrow|morgen|mañana|demain|amanhã|to(?:day|night)|yesterday|week"
    r"|heute|gestern|hoy|ayer|hier\b|aujourd|hoje|ontem|woche|seman|semaine|montag|dienstag|mittwoch|donnerstag|freitag"
    r"|samstag|sonntag|lunes|martes|miércoles|jueves|viernes|sábado|domingo|lundi|mardi|mercredi|jeudi|vendredi|samedi"
    r"|dimanche|segunda|terça|quarta|quinta|sexta"
)
_NEAR_DAY = re.compile(NEAR_DAY, re.IGNORECASE)


@dataclass(frozen=True)
class People:
    """Who is known around a window: names, and what some of them are to the user (a slot, by the folded name)."""

    names: Sequence[str] = ()
    kin: Mapping[str, str] = field(default_factory=dict)

    def find_relation(self, name: str) -> str:
        """The slot under which somebody is known to the user; "" for none."""
        return self.kin.get(fold(name), "")


@dataclass(frozen=True)
class ClaimView:
    """A claim, and where it was said.

    `text` is the turn without what others wrote, `shared` what was shared with it, `asked` the turn before it, `near`
    are the last turns up to it, `held` the known values of its slot and subject, `known` the names and facts around
    the window, `names` the names alone. `is_single` where
    the slot holds one value. `speaker` is who says it, `speakers` are all who take part.
    """

    draft: FactDraft
    text: str
    span: tuple[int, int]
    shared: str
    asked: str
    near: str
    day: date | None
    subject: str
    people: People
    held: Sequence[str]
    known: str
    names: str
    is_single: bool
    speaker: str
    speakers: Sequence[str]

    @property
    def key(self) -> str:
        """The slot, of an open one what stands before the colon; "" for an open claim."""
        return self.draft.slot.partition(":")[0]

    @property
    def tense(self) -> str:
        """As the claim has it; `current` where it does not say."""
        return self.draft.temporal_context or "current"

    @property
    def quote(self) -> str:
        """What stands in the turn where the quote was found."""
        return self.text[slice(*self.span)]

    @property
    def sources(self) -> str:
        """What the claim may rest on: the turn before, the turn, and what was shared with it."""
        return f"{self.asked} {self.text} {self.shared}"

    @cached_property
    def source_words(self) -> frozenset[str]:
        """The words that it may rest on."""
        return split_compounds(list_words(self.sources))

    @cached_property
    def question(self) -> str:
        """The question that the turn answers; "" for none."""
        found = _LAST_QUESTION.search(self.asked)
        return found[0] if found else ""

    @cached_property
    def answer_words(self) -> frozenset[str]:
        """The words of the turn, and of the question that it answers."""
        return split_compounds(list_words(f"{self.question} {self.text} {self.shared}"))

    @property
    def has_capitals(self) -> bool:
        """Whether its author writes capital letters, so that names can be told."""
        return self.text != self.text.lower()

    @cached_property
    def words(self) -> WordLists:
        """The cues of the languages of the turn."""
        found = find_languages(self.text)
        return load_words(find_languages(self.asked) if found == LANGUAGES else found)

    def has_cue(self, text: str, *names: str) -> bool:
        """Whether a stretch of the turn holds a cue of one of the lists, in its own language."""
        return has_words(text, *names, words=self.words)

    @cached_property
    def place(self) -> tuple[int, int] | None:
        """Where the value stands in the quote, else the first word of it that does; of an open claim likewise."""
        value = self.draft.value
        if value and (exact := find_quote(self.quote, value)):
            return self.span[0] + exact[0], self.span[0] + exact[1]
        names = () if value else (*list_words(f"{self.subject} {' '.join(self.people.names)}"), *load_words()["light"])
        sought = [word for word in list_content_words(value or self.draft.claim) if word not in names]
        for found in WORD.finditer(self.quote):
            word = fold(found[0])
            if word in load_words()["function"]:
                continue
            if any(is_said(each, frozenset({word})) for each in sought):
                return self.span[0] + found.start(), self.span[0] + found.end()
        return None

    @cached_property
    def focus(self) -> tuple[int, int]:
        """Where the claim is made: the place of its value, else the quote."""
        return self.place or self.span

    @cached_property
    def sentence(self) -> tuple[int, int]:
        """Where the sentence of the value begins and ends; its last mark stands at the end."""
        begin, end = self.focus
        stop = _SENTENCE.search(self.text, end)
        start = max((found.end() for found in _SENTENCE.finditer(self.text, 0, begin)), default=0)
        return start, stop.start() if stop else len(self.text)

    @cached_property
    def lead(self) -> str:
        """The clause of the value up to the value's end; the quote where the value does not stand in it."""
        begin, end = self.focus
        if self.place:
            begin = max((found.end() for found in _CLAUSE.finditer(self.text, 0, begin)), default=0)
        return self.text[begin:end]

    @cached_property
    def clause(self) -> str:
        """The clause of the value; the quote where the value does not stand in it."""
        if not self.place:
            return self.lead
        stop = _CLAUSE.search(self.text, self.focus[1])
        return self.lead + self.text[self.focus[1] : stop.start() if stop else len(self.text)]

    def find_clause(self, span: tuple[int, int]) -> str:
        """The clause, or the clauses, in which a stretch of the turn stands."""
        begin = max((found.end() for found in _CLAUSE.finditer(self.text, 0, span[0])), default=0)
        stop = _CLAUSE.search(self.text, span[1])
        return self.text[begin : stop.start() if stop else len(self.text)]

    @cached_property
    def surroundings(self) -> str:
        """A short quote, or the clause of the value in a long one, both without the value."""
        text = self.quote if len(self.quote.split()) <= MAX_SHORT_QUOTE_WORDS else self.clause
        return text.replace(self.text[slice(*self.focus)], " ", 1) if self.place and self.draft.value else text

    def find_unsaid(self, claimed: str, text: str) -> tuple[list[str], list[str]]:
        """The numbers and names of a claim that a text lacks, and the other words that it lacks.

        Days near the turn count as said, with their months, and the years around it: people say "yesterday".
        """
        said = split_compounds(list_words(text))
        is_german = find_languages(claimed) == ("german",)  # in which all nouns are written like names
        dated = {name for day in self._list_days(text) for name in (MONTHS[day.month - 1], f"{day:%A}".lower())}
        hard, soft = self.find_unsaid_numbers(claimed, text), list[str]()
        for found in WORD.finditer(claimed):
            word = list_words(found[0])[0]
            if (
                word in load_words()["function"]
                or word.isdigit()
                or (len(word) > 2 and any(name.startswith(word) for name in dated))
                or is_said(word, said)
            ):
                continue
            if all(is_said(part, said) for part in split_compounds([word]) - {word}) and not word.isalnum():
                continue
            is_hard = (found[0][0].isupper() and not is_german) or any(map(str.isdigit, word))
            (hard if is_hard else soft).append(word)
        return hard, soft

    def find_unsaid_numbers(self, claimed: str, text: str) -> list[str]:
        """The numbers of a claim, in digits or words, that a text lacks; dates near the turn count as said."""
        days = self._list_days(text) if _WRITTEN_DATE.search(claimed) else []
        numbers = quotable_numbers(text) | {str(day.day) for day in days}
        if days:
            numbers |= {str(days[0].year + more) for more in (-1, 0, 1)}
        return [number for number in claimed_numbers(claimed) if number not in numbers]

    def _list_days(self, text: str) -> list[date]:
        if self.day is None:
            return []
        reach = (LONG_SPAN if _NEAR_DAY.search(text) else SHORT_SPAN).days
        return [self.day + timedelta(days=more) for more in range(-reach, reach + 1)]


class ViewBuilder:
    """Builds the views of the claims of one window; what many claims need of a turn is read once."""

    def __init__(self, window: Window) -> None:
        self.window = window
        self._turns = [*window.context_turns[-MAX_TURNS_BEFORE:], *window.turns]
        self._places = {turn.id: place for place, turn in enumerate(self._turns)}
        self._texts: dict[str, str] = {}
        own = {
            fact.value for fact in window.known_facts if fact.slot in OWN_NAME_SLOTS and fact.subject == USER_SUBJECT
        }
        kin = {
            fact.value: fact.slot
            for fact in window.known_facts
            if fact.slot in PEOPLE_SLOTS and fact.subject == USER_SUBJECT
        }
        spoken = [turn.speaker for turn in self._turns if turn.speaker]
        persons = [entity.name for entity in window.known_entities if entity.type == "person"]
        subjects = [fact.subject for fact in window.known_facts if fact.slot and len(fact.subject) > 1]
        self._speakers = list(dict.fromkeys([*spoken, *window.participants]))
        names = dict.fromkeys([*spoken, *window.participants, *kin, *persons, *subjects])
        self._names = [name for name in names if name != USER_SUBJECT]
        self._kin = {fold(name.partition(" (")[0]): slot for name, slot in kin.items()}
        named = [name for entity in window.known_entities for name in (entity.name, *entity.aliases)]
        facts = [fact.claim for fact in window.known_facts]
        self._named = [*names, *named, *own]
        self._facts = facts

    def note_people(self, people: Iterable[tuple[str, str]]) -> None:
        """Remember names with the slots under which the same reply has them."""
        for name, slot in people:
            bare = name.partition(" (")[0].strip()
            self._named.append(bare)
            if slot not in OWN_NAME_SLOTS:
                self._kin.setdefault(fold(bare), slot)
                self._names += [bare] if bare and bare not in self._names else []

    def text_of(self, turn: Turn) -> str:
        """The turn without what others wrote."""
        if turn.id not in self._texts:
            self._texts[turn.id] = mask_foreign(turn.content[:MAX_TURN_CHARS])
        return self._texts[turn.id]

    def build(self, draft: FactDraft, turn: Turn, span: tuple[int, int], day: date | None) -> ClaimView:
        """The view of a claim whose quote stands at a span of its turn."""
        place = self._places[turn.id]
        before = self._turns[max(0, place - MAX_TURNS_NEAR) : place]
        is_own = draft.subject in (USER_SUBJECT, turn.speaker)
        subject = USER_SUBJECT if is_own else draft.subject
        same = [fact for fact in self.window.known_facts if fact.slot == draft.slot and not fact.is_denied]
        owners = {fold(draft.subject), fold(subject)}
        return ClaimView(
            draft=draft,
            text=self.text_of(turn),
            span=span,
            shared=turn.search_text()[len(turn.content) :],
            asked=_read_question(before[-1]) if before else "",
            near=" ".join(each.search_text()[:MAX_TURN_CHARS] for each in [*before, turn]),
            day=day,
            subject=subject,
            people=People([name for name in self._names if name != turn.speaker], self._kin),
            held=[fact.value for fact in same if draft.slot and fold(fact.subject) in owners],
            known=" ".join([*self._named, *self._facts]),
            names=" ".join(self._named),
            speaker=turn.speaker or "",
            speakers=self._speakers,
            is_single=bool(draft.slot) and find_slot(draft.slot, self.window.slots).kind in ("one", "fixed"),
        )


def _read_question(turn: Turn) -> str:
    """What was said before a turn that it may answer; "" for an assistant that asks nothing."""
    return turn.content if not is_assistant_turn(turn) or "?" in turn.content else ""
