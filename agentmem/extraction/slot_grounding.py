"""Whether the words of a turn say a claim about a slot: its value, whose it is, whether it is so, and when.

A model reads; this checks. What the rules read of the same words counts first: where they agree with the claim, nothing
else is asked, and where they read another person or the opposite, the claim goes. A tense that the words say otherwise
is put right. Everything else that the words do not bear out is refused: the turn stays findable.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

from agentmem.beliefs.slots import PEOPLE_SLOTS, THING_SUBJECT, USER_SUBJECT, NamedSlot
from agentmem.beliefs.values import is_refinement, is_same_value
from agentmem.core.records import Turn
from agentmem.extraction.drafts import FactDraft, Window
from agentmem.extraction.frames.answers import complete_answer, find_question
from agentmem.extraction.frames.frame_set import LANGUAGES, load_frames
from agentmem.extraction.frames.people import PeopleReader
from agentmem.extraction.frames.plain_text import PlainSentence, split_plain_sentences
from agentmem.extraction.frames.slot_claim import SlotClaim
from agentmem.extraction.frames.window_claims import find_known_kin, list_known_people, read_slot_claims
from agentmem.extraction.person_grounding import check_owner, check_relation_words
from agentmem.extraction.value_words import (
    ADDRESSEE,
    PRONOUN_OWNERS,
    SOMEBODY,
    ValueReading,
    find_possessors,
    find_value,
    read_value_words,
)
from agentmem.text.normalization import claimed_numbers, quotable_numbers
from agentmem.text.tokenizer import tokenize

_WRONG_PERSON = "person: the words say it of somebody else"
_NAMED_TURNS = 6  # turns before in which somebody was named whom a pronoun may mean
_TENSES = {"current": "current", "past": "past", "planned": "future"}
# Slots whose values may deny something themselves: "does not eat meat", "no emojis", "cannot climb stairs".
_DENYING_SLOTS = frozenset({"diet", "restriction", "dislikes", "emoji", "answer_format", "tone", "smoking", "drinking"})
_NONE_VALUES = frozenset({"none", "no", "off", "never"})
_AVERSION = re.compile(
    r"\b(?:hat(?:e|es|ed)|dislik\w*|detest\w*|loath\w*|despis\w*|can not (?:stand|bear)|avoid\w*|worst|awful|disgust\w*"
    r"|sick of|gross)\b"
)
_FONDNESS = re.compile(r"\b(?:lik(?:e|es|ed)|lov(?:e|es|ed)|enjoy\w*|ador\w+|fond|favou?rite|prefer\w*)\b")
_DENIAL_IN_VALUE = re.compile(r"\b(?:no|not|never|none|without|n't|doesn't|don't|kein\w*|nicht|sin|sans|sem)\b|-free\b")
_MORE_RELATION_WORDS = {
    "partner": r"married|marry|marrying|dating|engaged|seeing|wedding",
    "boss": r"reports? to|reporting to|works? under",
    "pets": r"adopted|puppy|kitten|pets?|dogs|cats|rabbits|horses",
    "friends": r"friends|mates",
    "children": r"kids|children|sons|daughters|boys|girls|gave birth",
    "siblings": r"sisters|brothers|siblings|twins",
    "parents": r"parents",
    "landlord": r"rent(?:ing)? from",
}
_OWN_GROUP = re.compile(r"\b(?:i|we)\b[^.;]*\b(?:have|has|had|got|am|are|adopted|report|work|rent|gave)\b")


@cache
def _cues() -> Mapping[str, re.Pattern[str]]:
    """For a slot the English words of which one must stand beside its value."""
    data = json.loads(files(__package__).joinpath("slot_cues.json").read_text(encoding="utf-8"))
    return {slot: re.compile(rf"(?:^|\W)(?:{words})(?:\W|$)") for slot, words in data.items()}


@dataclass
class SlotGrounding:
    """Checks the claims of one window about slots. Rules read the window once, with the people who are known."""

    window: Window

    def __post_init__(self) -> None:
        self._readings = read_slot_claims(self.window)
        self._asked = _questions_before(self.window)
        people = [*list_known_people(self.window), *(turn.speaker for turn in self.window.turns if turn.speaker)]
        self._people = PeopleReader(load_frames(LANGUAGES[0]), people, find_known_kin(self.window.known_facts))
        self._sentences: dict[str, list[PlainSentence]] = {}

    def check(self, draft: FactDraft, slot: NamedSlot, turn: Turn) -> tuple[FactDraft, str]:
        """The draft with value and tense as the words have them, and why it does not count; "" when it does."""
        subject = USER_SUBJECT if _is_own(draft, turn) else draft.subject
        readings = [each for each in self._readings.get(turn.id, ()) if each.slot == slot.name]
        alike = [each for each in readings if _has_same_value(slot, each, draft)]
        own = [each for each in alike if _is_same_subject(each.subject, subject)]
        agreed = [each for each in own if each.operation == draft.operation or _is_end(each, draft)]
        agreed = [each for each in agreed if _is_quoted(each, draft)] or agreed
        if agreed:
            same_tense = [each for each in agreed if _TENSES[each.tense] == draft.temporal_context]
            return _adopt(draft, slot, (same_tense or agreed)[-1], turn), ""
        if own:
            return draft, "polarity: the words say the opposite"
        if alike:
            return draft, _WRONG_PERSON
        return self._check_words(draft, slot, turn, subject)

    def check_owner(self, draft: FactDraft, turn: Turn) -> str:
        """Why an open claim is about the wrong person; "" when it is not."""
        own = replace(draft, subject=USER_SUBJECT) if _is_own(draft, turn) else draft
        return check_owner(own, self._list_quoted_sentences(draft, turn), self._people)

    def check_relation(self, kind: str, ends: tuple[str, str], quote: FactDraft, turn: Turn) -> str:
        """Why a relation between two named is not said by a quote; "" when it is."""
        sentences = self._list_quoted_sentences(quote, turn)
        return check_relation_words(kind, ends, sentences, self._people, turn.speaker or "")

    def _check_words(self, draft: FactDraft, slot: NamedSlot, turn: Turn, subject: str) -> tuple[FactDraft, str]:
        """Check a claim by the sentence in which its value stands, where the rules read nothing of it."""
        sentences = self._list_quoted_sentences(draft, turn)
        if not sentences:
            return draft, "quote: the words are pasted, quoted or handed over for work"
        if not draft.value:
            return self._check_end(draft, sentences, subject)
        placed = [(each, span) for each in sentences if (span := _find_place(each, draft))]
        if not placed:
            return draft, "value: it does not stand in the quote"
        sentence, span = placed[-1]
        if sentence.is_question:
            return draft, "question: what it rests on is asked, not said"
        reading = read_value_words(sentence, span, self._people)
        checks = (
            _check_hypothetical(draft, reading),
            self._check_person(draft, slot, sentence, span, reading, subject),
            _check_cue(slot, reading, sentence if draft.operation == "deny" else None),
            _check_polarity(draft, slot, reading),
        )
        if reason := next(filter(None, checks), ""):
            return draft, reason
        return _correct_tense(_name_in_english(draft, slot), slot, reading)

    def _check_end(self, draft: FactDraft, sentences: Sequence[PlainSentence], subject: str) -> tuple[FactDraft, str]:
        """A claim without a value says that whatever the slot holds is over: "I got laid off"."""
        for sentence in sentences:
            end = len(sentence.plain)
            reading = read_value_words(sentence, (end, end), self._people)
            if (reading.is_over or reading.is_denied) and not reading.is_hypothetical and not sentence.is_question:
                wrong = bool(reading.owners) and not _names(subject, reading.owners)
                return draft, _WRONG_PERSON if wrong else ""
        return draft, "polarity: the words do not say that it is over"

    def _list_quoted_sentences(self, draft: FactDraft, turn: Turn) -> list[PlainSentence]:
        """The sentences of the turn that its author says and the quote touches; an answer comes with its question."""
        if turn.id not in self._sentences:
            answer = complete_answer(turn.content, find_question(self._asked.get(turn.id, "")))
            parts = (answer.statement, turn.content[answer.end :]) if answer else (turn.content,)
            self._sentences[turn.id] = [each for part in parts for each in split_plain_sentences(part)]
            for sentence in self._sentences[turn.id]:
                self._people.note_people(sentence)
        found = self._sentences[turn.id]
        if draft.span is None or (found and found[0].source != turn.content):
            return found
        begin, end = draft.span
        spans = [(each, each.span(0, len(each.plain))) for each in found if each.plain]
        return [each for each, (start, stop) in spans if start < end and begin < stop]

    def _check_person(
        self,
        draft: FactDraft,
        slot: NamedSlot,
        sentence: PlainSentence,
        span: tuple[int, int],
        reading: ValueReading,
        subject: str,
    ) -> str:
        if slot.name in PEOPLE_SLOTS:
            return self._check_relation(draft, slot, sentence, reading, subject)
        if subject == THING_SUBJECT or slot.name.startswith(("the:", "version:", "about:", "date:")):
            return _WRONG_PERSON if SOMEBODY in reading.owners and subject == USER_SUBJECT else ""
        if not reading.owners:
            return "" if subject == USER_SUBJECT or _stands_in(subject, sentence.plain) else _WRONG_PERSON
        if slot.is_instruction and subject == USER_SUBJECT and reading.owners == {ADDRESSEE}:
            return ""
        cue = _cues().get(slot.name)
        if reading.owned and cue is not None and not cue.search(reading.owned):
            return "person: the words say it of something of theirs"
        is_named = _names(subject, reading.owners) or self._is_meant(subject, reading.owners, sentence, draft)
        return "" if is_named else _WRONG_PERSON

    def _is_meant(self, subject: str, owners: frozenset[str], sentence: PlainSentence, draft: FactDraft) -> bool:
        """Whether a pronoun that is not resolved, or "a colleague", may be somebody who was named beside it.

        The name has to stand in the turns just before, or to be all that the next sentence says: "Nora Lind, I mean."
        """
        if subject == USER_SUBJECT:
            return False
        if owners == {SOMEBODY}:
            said = self._sentences[draft.turn_id]
            following = said[said.index(sentence) + 1 :][:1]
            return any(_is_name_alone(subject, each.plain) for each in following)
        if len(owners) != 1 or not owners <= set(PRONOUN_OWNERS.values()):
            return False
        gender = self._people.talk.gender.get(subject, "")
        if gender and owners != {"they?"} and owners != {"she?" if gender == "f" else "he?"}:
            return False
        turns = [*self.window.context_turns, *self.window.turns]
        at = next(n for n, each in enumerate(turns) if each.id == draft.turn_id)
        return any(_stands_in(subject, each.content.casefold()) for each in turns[max(0, at - _NAMED_TURNS) : at + 1])

    def _check_relation(
        self, draft: FactDraft, slot: NamedSlot, sentence: PlainSentence, reading: ValueReading, subject: str
    ) -> str:
        """Whether a word for this relation stands there, and belongs to the subject."""
        frames = load_frames(reading.language or LANGUAGES[0])
        nouns = [noun for noun, kind in frames.nouns.items() if kind == slot.name]
        for found in re.finditer(rf"\b(?:{'|'.join(map(re.escape, nouns)) or '(?!)'})\b(?!'s)", sentence.plain):
            owners = find_possessors(sentence.plain, found.start(), self._people, frames) or reading.owners
            if _names(subject, owners) or (not owners and subject == USER_SUBJECT):
                return ""
        more = _MORE_RELATION_WORDS.get(slot.name)
        if more and re.search(rf"\b(?:{more})\b", sentence.plain):
            is_own = _OWN_GROUP.search(sentence.plain) is not None
            if (subject == USER_SUBJECT and is_own) or _names(subject, reading.owners):
                return ""
        return "relation: the words do not say what they are to each other"


def _questions_before(window: Window) -> dict[str, str]:
    """For each turn of a person what the assistant said just before."""
    out, asked = {}, ""
    for turn in (*window.context_turns, *window.turns):
        if turn.role.lower() == "assistant":
            asked = turn.content
        else:
            out[turn.id] = asked
            asked = ""
    return out


def _is_own(draft: FactDraft, turn: Turn) -> bool:
    return draft.subject == USER_SUBJECT or bool(turn.speaker and draft.subject.casefold() == turn.speaker.casefold())


def _is_same_subject(read: str, subject: str) -> bool:
    if read == USER_SUBJECT or subject == USER_SUBJECT:
        return read == subject
    one, other = read.casefold().split(), subject.casefold().split()
    return one == other or one[:1] == other or one == other[:1] or THING_SUBJECT in (read, subject)


def _has_same_value(slot: NamedSlot, read: SlotClaim, draft: FactDraft) -> bool:
    if not (read.value and draft.value):
        return bool(read.value) == bool(draft.value)
    one, other = read.value, draft.value
    if slot.name in _DENYING_SLOTS and one in _NONE_VALUES:
        return _is_denial(other)
    alike = is_same_value(one, other) or is_refinement(slot, one, other) or _has_same_words(one, other)
    return alike or is_same_value(re.sub(r"\s*\([^)]*\)", "", one), re.sub(r"\s*\([^)]*\)", "", other))


def _is_quoted(read: SlotClaim, draft: FactDraft) -> bool:
    """Whether the rules read it in the words that are quoted, not elsewhere in the turn."""
    return draft.span is not None and read.span[0] < draft.span[1] and draft.span[0] < read.span[1]


def _has_same_words(one: str, other: str) -> bool:
    return set(tokenize(one)) == set(tokenize(other)) != set()


def _is_denial(value: str) -> bool:
    """Whether a value says that there is none: "no emojis", "none"."""
    return _DENIAL_IN_VALUE.search(value.casefold()) is not None or value.casefold() in _NONE_VALUES


def _adopt(draft: FactDraft, slot: NamedSlot, read: SlotClaim, turn: Turn) -> FactDraft:
    """The draft in the words of the rules, which know the form of a slot ("eats everything"), and with their tense.

    A day that lies ahead keeps a plan a plan: "we found a flat … from 1 April".
    """
    at = turn.timestamp or turn.recorded_at
    is_ahead = draft.valid_from is not None and at is not None and draft.valid_from > at
    tense = _TENSES[read.tense]
    if draft.temporal_context == "future" and tense == "current" and is_ahead and read.operation == "is":
        tense = "future"
    is_own = draft.operation == "is" and not is_refinement(slot, draft.value, read.value)
    value = read.value if read.value and (is_own or _has_same_words(draft.value, read.value)) else draft.value
    return replace(draft, value=value, temporal_context=tense, operation=read.operation)


def _is_name_alone(subject: str, plain: str) -> bool:
    """Whether a sentence only says who was meant: "Nora Lind, I mean", "my sister Nora, obviously"."""
    name = rf"(?:my )?(?:[\w-]+ )?{re.escape(subject.casefold())}"
    return re.fullmatch(rf"{name}(?:,? (?:i mean|i meant|that is|obviously|of course))?\W*", plain) is not None


def _is_end(read: SlotClaim, draft: FactDraft) -> bool:
    """Whether both say that it is over or not so, if in other words: "used to", "no longer"."""
    ends = {"over", "deny"}
    return read.operation in ends and (draft.operation in ends or draft.temporal_context == "past")


def _names(subject: str, owners: frozenset[str]) -> bool:
    wanted = subject.casefold()
    return wanted in owners or any(
        each.split()[:1] == wanted.split()[:1] for each in owners if each not in (USER_SUBJECT, SOMEBODY)
    )


def _stands_in(subject: str, plain: str) -> bool:
    return any(re.search(rf"\b{re.escape(word)}\b", plain) for word in subject.casefold().split())


def _name_in_english(draft: FactDraft, slot: NamedSlot) -> FactDraft:
    """The draft with what the slots write alike in every language: a language by its name, "none" for no such thing."""
    if slot.name in ("answer_language", "languages"):
        for language in LANGUAGES:
            if name := load_frames(language).language_names.get(draft.value.casefold()):
                return replace(draft, value=name)
    word = slot.name.partition("_")[0]
    if draft.operation == "is" and re.fullmatch(rf"(?:no|kein\w*|sin|sans|sem) {word}s?", draft.value.casefold()):
        return replace(draft, value=slot.none_value or "none")
    return draft


def _find_place(sentence: PlainSentence, draft: FactDraft) -> tuple[int, int] | None:
    """Where the value stands; a number may be written in words, a language by its own name, none by a denial."""
    if (span := find_value(sentence, draft.value)) is not None:
        return span
    plain, value = sentence.plain, draft.value.casefold()
    numbers = claimed_numbers(value)
    if numbers and numbers <= quotable_numbers(plain) and not re.sub(r"[\d\W]", "", value):
        return 0, len(plain)
    for language in LANGUAGES:
        for word, name in load_frames(language).language_names.items():
            if name.casefold() == value and (found := re.search(rf"\b{word}\b", plain)):
                return found.span()
    if draft.slot in _DENYING_SLOTS and value in _NONE_VALUES:
        found = re.search(rf"\b{re.escape(draft.slot.partition('_')[0])}", plain)
        return found.span() if found else None
    return None


def _check_hypothetical(draft: FactDraft, reading: ValueReading) -> str:
    if reading.language and reading.is_hypothetical:
        return "hypothetical: it was not said as something that is so"
    return ""


def _check_cue(slot: NamedSlot, reading: ValueReading, whole: PlainSentence | None) -> str:
    """English alone has cues: a town in a sentence is no home. `whole` is searched for what a contrast leaves out:
    "the rent is 1,360, not 1,380".
    """
    cue = _cues().get(slot.name)
    if cue is None or reading.language != "english" or cue.search(whole.plain if whole else reading.clause):
        return ""
    return "relation: the words do not speak of this"


def _check_polarity(draft: FactDraft, slot: NamedSlot, reading: ValueReading) -> str:
    if not reading.language:
        return ""
    if draft.operation == "over" and slot.kind == "event" and not (reading.is_planned or reading.is_present):
        return ""  # an event is over once it took place
    if draft.operation != "is":
        cue = reading.is_over or reading.is_denied if draft.operation == "over" else reading.is_denied
        return "" if cue else "polarity: the words do not deny it"
    if slot.name in ("likes", "dislikes"):
        return _check_taste(slot.name, reading)
    value = draft.value.casefold()
    denies_itself = _is_denial(value) or value == slot.none_value
    may_deny = denies_itself or slot.name == "restriction"
    if reading.is_denied and not may_deny:
        return "polarity: what was said is a denial, the claim is none"
    if denies_itself and not (reading.is_denied or reading.is_over):
        return "polarity: the claim is a denial, what was said is none"
    is_change = draft.mark == "change" and re.search(r"\b(?:join|start|move|switch|buy|bought|got)", reading.clause)
    if reading.is_over and not (may_deny or is_change or draft.temporal_context == "past"):
        return "polarity: what was said is over, the claim is current"
    return ""


def _check_taste(slot: str, reading: ValueReading) -> str:
    """Whether the words like or dislike, English alone; "can't stand" has a denial and an aversion that mean one."""
    if reading.language != "english":
        return "polarity: what was said is a denial, the claim is none" if slot == "likes" and reading.is_denied else ""
    is_fond = _FONDNESS.search(reading.clause) is not None
    averse = (
        _AVERSION.search(reading.clause) is not None
        or (reading.is_denied and is_fond)
        or (reading.is_denied and re.search(r"\b(?:fan|stand|bear|into|keen|fond)\b", reading.clause) is not None)
    )
    if slot == "likes":
        return "polarity: what was said is a dislike" if averse or reading.is_denied else ""
    return "" if averse else "polarity: what was said is no dislike"


def _correct_tense(draft: FactDraft, slot: NamedSlot, reading: ValueReading) -> tuple[FactDraft, str]:
    """The draft with the tense of the words; English and what has cues like it."""
    if reading.is_reported:
        draft = replace(draft, certainty="reported")
    if not reading.language or slot.kind == "event" or draft.operation != "is":
        return draft, ""
    if reading.is_planned and draft.temporal_context != "future":
        return replace(draft, temporal_context="future"), ""
    if draft.temporal_context == "future":
        is_dated = draft.valid_from is not None
        return draft, "" if reading.is_planned or is_dated else "tense: the words do not say that it is planned"
    if reading.is_past and draft.temporal_context != "past" and slot.name not in PEOPLE_SLOTS:
        return replace(draft, temporal_context="past"), ""
    if draft.temporal_context == "past" and reading.is_present and not (reading.is_past or reading.is_over):
        return draft, "tense: the words say that it is so now"
    return draft, ""
