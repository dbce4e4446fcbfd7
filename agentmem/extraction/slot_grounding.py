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
    SOMEBODY,
    ValueReading,
    find_possessors,
    find_value,
    read_value_words,
)
from agentmem.text.normalization import claimed_numbers, quotable_numbers

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
        """The draft with its tense as the words have it, and why it does not count; "" when it does."""
        subject = USER_SUBJECT if _is_own(draft, turn) else draft.subject
        reason = ""
        for read in self._readings.get(turn.id, ()):
            if read.slot != slot.name or not _has_same_value(slot, read, draft):
                continue
            if not _is_same_subject(read.subject, subject):
                reason = "person: the words say it of somebody else"
            elif read.operation != draft.operation and not _is_end(read, draft):
                reason = "polarity: the words say the opposite"
            else:
                return replace(draft, temporal_context=_TENSES[read.tense], operation=read.operation), ""
        return (draft, reason) if reason else self._check_words(draft, slot, turn, subject)

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
            _check_cue(slot, reading),
            _check_polarity(draft, slot, reading),
        )
        if reason := next(filter(None, checks), ""):
            return draft, reason
        return _correct_tense(draft, slot, reading)

    def _check_end(self, draft: FactDraft, sentences: Sequence[PlainSentence], subject: str) -> tuple[FactDraft, str]:
        """A claim without a value says that whatever the slot holds is over: "I got laid off"."""
        for sentence in sentences:
            end = len(sentence.plain)
            reading = read_value_words(sentence, (end, end), self._people)
            if (reading.is_over or reading.is_denied) and not reading.is_hypothetical and not sentence.is_question:
                wrong = bool(reading.owners) and not _names(subject, reading.owners)
                return draft, "person: the words say it of somebody else" if wrong else ""
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
        wrong = "person: the words say it of somebody else"
        if slot.name in PEOPLE_SLOTS:
            return self._check_relation(draft, slot, sentence, reading, subject)
        if subject == THING_SUBJECT or slot.name.startswith(("the:", "version:", "about:", "date:")):
            return wrong if SOMEBODY in reading.owners and subject == USER_SUBJECT else ""
        if not reading.owners:
            return "" if subject == USER_SUBJECT or _stands_in(subject, sentence.plain) else wrong
        cue = _cues().get(slot.name)
        if reading.owned and cue is not None and not cue.search(reading.owned):
            return "person: the words say it of something of theirs"
        return "" if _names(subject, reading.owners) else wrong

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
    alike = is_same_value(one, other) or is_refinement(slot, one, other)
    return alike or is_same_value(re.sub(r"\s*\([^)]*\)", "", one), re.sub(r"\s*\([^)]*\)", "", other))


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


def _check_cue(slot: NamedSlot, reading: ValueReading) -> str:
    """English alone has cues: a town in a sentence is no home."""
    cue = _cues().get(slot.name)
    if cue is None or reading.language != "english" or cue.search(reading.clause):
        return ""
    return "relation: the words do not speak of this"


def _check_polarity(draft: FactDraft, slot: NamedSlot, reading: ValueReading) -> str:
    if not reading.language:
        return ""
    if draft.operation != "is":
        cue = reading.is_over or reading.is_denied if draft.operation == "over" else reading.is_denied
        return "" if cue else "polarity: the words do not deny it"
    if slot.name in ("likes", "dislikes"):
        return _check_taste(slot.name, reading)
    value = draft.value.casefold()
    denies_itself = _DENIAL_IN_VALUE.search(value) is not None or value in (*_NONE_VALUES, slot.none_value)
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
