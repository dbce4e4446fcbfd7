"""Changes to known values that no frame reads, found by the value's own words.

"transit went in part ex" ends a Transit that the user is known to drive, "were in. hoyland" makes a known plan come
true, "the resubmission is now 3 April" moves a known date. The words are in `changes.json`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from importlib.resources import files

from agentmem.beliefs.slots import THING_SUBJECT, USER_SUBJECT
from agentmem.extraction.frames.dates import SaidDate, find_dates, parse_date
from agentmem.extraction.frames.frame_set import load_frames
from agentmem.extraction.frames.plain_text import PlainSentence
from agentmem.extraction.frames.slot_claim import SlotClaim
from agentmem.extraction.frames.words import NEGATED_BEFORE, PLANNED_WORDS, REPORTED

MIN_WORD_CHARS = 4  # of a word of a value by which it is recognized
MIN_EVENT_CHARS = 3  # of a word of an event's name, which counts only beside a date: "dfg", "mot"
MAX_KNOWN_VALUES = 200  # that are looked for in a sentence
# Slots whose values are spoken of by name when they end; other slots have verbs of their own.
ENDING_SLOTS = frozenset({"car", "medications", "bank", "tool", "the", "hobbies", "allergies", "role", "diet"})
EVENT_SLOTS = frozenset({"date", "flight"})
_COMMON_WORDS = frozenset(
    ["with", "from", "this", "that", "have", "over", "under", "visit", "meeting", "appointment", "none"]
)


@dataclass(frozen=True, slots=True)
class KnownValue:
    """What is held, or with `is_planned` what is planned, of a slot."""

    subject: str
    slot: str
    value: str
    is_planned: bool = False


@dataclass(frozen=True, slots=True)
class _Changes:
    """The words before and after a value that ended, of a drug that took its place, and of plans come true by slot."""

    ended_before: re.Pattern[str]
    ended_after: re.Pattern[str]
    tolerated: re.Pattern[str]
    corrected: re.Pattern[str]
    put_on: re.Pattern[str]
    done: Mapping[str, re.Pattern[str]]
    moved: re.Pattern[str]
    upgraded: re.Pattern[str]
    successor: re.Pattern[str]
    birthday: re.Pattern[str]


@cache
def _load_changes() -> _Changes:
    data = json.loads(files(__package__).joinpath("changes.json").read_text(encoding="utf-8"))
    done = {slot: re.compile(pattern) for slots, pattern in data.pop("done").items() for slot in slots.split("|")}
    return _Changes(**{name: re.compile(pattern) for name, pattern in data.items()}, done=done)


class KnownValueReader:
    """The values that are known, and those that the turns so far have said."""

    def __init__(self, known: Sequence[KnownValue]) -> None:
        self.known = dict.fromkeys(known[:MAX_KNOWN_VALUES])

    def note(self, claims: Sequence[SlotClaim]) -> None:
        """Remember what claims say is so or is planned."""
        for claim in claims:
            if claim.operation == "is" and claim.tense != "past":
                self.known[KnownValue(claim.subject, claim.slot, claim.value, claim.tense == "planned")] = None

    def read(self, sentence: PlainSentence, claims: Sequence[SlotClaim]) -> list[SlotClaim]:
        """What a sentence changes beyond the claims that frames read from it."""
        if REPORTED.search(sentence.plain):
            return []
        if PLANNED_WORDS.search(sentence.plain):
            return []
        said = {claim.value.casefold() for claim in claims}
        ended = [claim for claim in self._read_ended(sentence) if claim.value.casefold() not in said]
        return [*ended, *_drop_taken((*self._read_upgrade(sentence), *self._read_successor(sentence)), claims)]

    def read_turn(
        self, sentences: Sequence[PlainSentence], claims: Sequence[SlotClaim], now: datetime
    ) -> list[SlotClaim]:
        """What a whole turn changes: "were in. hoyland", "me birthday today. 58"."""
        whole = ". ".join(sentence.plain for sentence in sentences)
        if REPORTED.search(whole):
            return []
        found = [*self._read_moved(sentences, whole, now)]
        if not PLANNED_WORDS.search(whole):
            found += [*self._read_done(sentences, whole), *self._read_birthday(sentences, whole)]
            found += self._read_corrected(sentences)
        return [*_drop_taken(found, claims)]

    def _read_ended(self, sentence: PlainSentence) -> Iterator[SlotClaim]:
        for one in self.known:
            slot = one.slot.partition(":")[0]
            is_own = one.subject == USER_SUBJECT or slot in ("the", "allergies")
            if one.is_planned or slot not in ENDING_SLOTS or not is_own:
                continue
            found = _find_words(sentence, one.value)
            if found and (_is_ended(sentence, found, slot) or _is_replaced(sentence, found, slot)):
                claim = SlotClaim(subject=one.subject, slot=one.slot, value=sentence.get_typed(*found.span()))
                span = sentence.span(0, len(sentence.plain))
                yield replace(claim, operation="over", needs="known", span=span)

    def _read_done(self, sentences: Sequence[PlainSentence], whole: str) -> Iterator[SlotClaim]:
        for one in self.known:
            done = _load_changes().done.get(one.slot)
            if not (one.is_planned and done and done.search(whole)):
                continue
            if one.subject != USER_SUBJECT and one.subject.casefold().split()[0] not in whole:
                continue
            for sentence in sentences:
                if found := _find_words(sentence, one.value):
                    value, span = sentence.get_typed(*found.span()), sentence.span(0, len(sentence.plain))
                    yield SlotClaim(subject=one.subject, slot=one.slot, value=value, mark="change", span=span)
                    break

    def _read_corrected(self, sentences: Sequence[PlainSentence]) -> Iterator[SlotClaim]:
        """Another allergy than the known one: "its not eggs, i was wrong. its cashews"."""
        for one in self.known:
            if one.slot != "allergies" or one.is_planned:
                continue
            for number, sentence in enumerate(sentences):
                old = _find_words(sentence, one.value)
                if not old or not re.search(r"\b(?:not|nicht|no) (?:the )?\Z", sentence.plain[: old.start()]):
                    continue
                rest = [(sentence, old.end()), *((each, 0) for each in sentences[number + 1 :])]
                found = [(each, _load_changes().corrected.search(each.plain, at)) for each, at in rest]
                for each, new in found:
                    if new:
                        claim = SlotClaim(subject=one.subject, slot=one.slot, value=each.get_typed(*new.span("new")))
                        yield replace(claim, mark="correct", span=each.span(*new.span()))
                        gone = replace(claim, value=sentence.get_typed(*old.span()), operation="deny", mark="correct")
                        yield replace(gone, span=sentence.span(0, len(sentence.plain)))
                        break

    def _read_moved(self, sentences: Sequence[PlainSentence], whole: str, now: datetime) -> Iterator[SlotClaim]:
        """A known date that a turn moves: its event's name, and the only date to come of the turn after it."""
        if not _load_changes().moved.search(whole):
            return
        dated = [(each, date) for each in sentences for date in find_dates(each.plain, now) if date.is_future]
        for one in self.known:
            kind, _, name = one.slot.partition(":")
            if not (one.is_planned and kind in EVENT_SLOTS and one.subject in (USER_SUBJECT, THING_SUBJECT)):
                continue
            known = parse_date(one.value.lower(), now)
            others = [(each, date) for each, date in dated if date.moment != known]  # "not the 9th any more"
            for sentence, date in others:
                if _names_before(sentences, sentence, date, name, is_only=len(others) == 1):
                    value, span = sentence.get_typed(*date.core), sentence.span(0, len(sentence.plain))
                    claim = SlotClaim(subject=one.subject, slot=one.slot, value=value, tense="planned", span=span)
                    yield replace(claim, since=date.moment)
                    break

    def _read_upgrade(self, sentence: PlainSentence) -> Iterator[SlotClaim]:
        """A new version without its product, where one alone is known with the same major number."""
        found = _load_changes().upgraded.search(sentence.plain)
        if found is None:
            return
        major = found["version"].lstrip("v").split(".")[0]
        known = [each for each in self.known if each.slot.startswith("version:")]
        alike = {(each.subject, each.slot) for each in known if each.value.lstrip("v").split(".")[0] == major}
        if len(alike) == 1:
            ((subject, slot),) = alike
            value, span = sentence.get_typed(*found.span("version")), sentence.span(*found.span())
            yield SlotClaim(subject=subject, slot=slot, value=value, mark="change", span=span)

    def _read_successor(self, sentence: PlainSentence) -> Iterator[SlotClaim]:
        """Another machine of the same series: "we now compute on karst07" after karst03."""
        if not _load_changes().successor.search(sentence.plain):
            return
        for one in self.known:
            series = re.fullmatch(r"([a-z][a-z-]{2,})\d+", one.value.casefold())
            if not (series and one.slot.startswith("the:")):
                continue
            for found in re.finditer(rf"(?<!\w){re.escape(series[1])}\d+(?!\w)", sentence.plain):
                if found[0] != one.value.casefold():
                    claim = SlotClaim(subject=one.subject, slot=one.slot, value=sentence.get_typed(*found.span()))
                    yield replace(claim, mark="change", span=sentence.span(*found.span()))

    def _read_birthday(self, sentences: Sequence[PlainSentence], whole: str) -> Iterator[SlotClaim]:
        ages = [one.value for one in self.known if one.slot == "age" and one.subject == USER_SUBJECT]
        if not (ages and ages[-1].isdigit() and _load_changes().birthday.search(whole)):
            return
        for sentence in sentences:
            if found := re.search(rf"(?<![\w.]){int(ages[-1]) + 1}(?![\w.]\w)", sentence.plain):
                value, span = sentence.get_typed(*found.span()), sentence.span(*found.span())
                yield SlotClaim(subject=USER_SUBJECT, slot="age", value=value, mark="change", span=span)
                return


def _names_before(
    sentences: Sequence[PlainSentence], dated: PlainSentence, date: SaidDate, name: str, *, is_only: bool
) -> bool:
    """Whether an event is named before a date, in its sentence or in one before the only date of a turn."""
    found = _find_words(dated, name, MIN_EVENT_CHARS)
    if found is not None:
        return is_only or found.end() <= date.core[0]
    return is_only and any(_find_words(each, name, MIN_EVENT_CHARS) for each in sentences[: sentences.index(dated)])


def _drop_taken(found: Iterable[SlotClaim], claims: Sequence[SlotClaim]) -> Iterator[SlotClaim]:
    """What was found of slots that no frame read."""
    taken = {(claim.subject, claim.slot) for claim in claims}
    return (claim for claim in found if (claim.subject, claim.slot) not in taken)


def _find_words(sentence: PlainSentence, value: str, least: int = MIN_WORD_CHARS) -> re.Match[str] | None:
    """Where a sentence names a value, by the first of its words that are long enough."""
    for word in re.findall(r"[^\W_][\w.-]*", value.casefold()):
        is_rare = len(word) >= least and not word[0].isdigit() and word not in _COMMON_WORDS
        if is_rare and (found := re.search(rf"(?<!\w){re.escape(word)}s?(?!\w)", sentence.plain)):
            return found
    return None


def _is_ended(sentence: PlainSentence, found: re.Match[str], slot: str) -> bool:
    changes = _load_changes()
    if slot == "allergies" and changes.tolerated.match(sentence.plain, found.end()):
        return True
    before = changes.ended_before.search(sentence.plain, 0, found.start())
    if before is not None:
        return NEGATED_BEFORE.search(sentence.plain, 0, before.start()) is None
    return changes.ended_after.match(sentence.plain, found.end()) is not None


def _is_replaced(sentence: PlainSentence, found: re.Match[str], slot: str) -> bool:
    """Whether somebody was put on another drug in the sentence that names the one before."""
    if slot != "medications" or not _load_changes().put_on.search(sentence.plain, found.end()):
        return False
    others = re.findall(load_frames("english").values["pill"], sentence.plain[found.end() :])
    return any(other != found[0] for other in others)
