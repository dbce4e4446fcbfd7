"""Reads plain statements about slots: main clauses in the present about the speaker or a named person.

A clause counts only where all of it is understood: it begins with a frame and ends where the frame ends, and nothing in
its sentence doubts, reports, conditions or dates it otherwise. What is left over is for a model.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from types import MappingProxyType

from agentmem.beliefs.belief import Mark, Operation, Tense
from agentmem.beliefs.slots import PEOPLE_SLOTS, USER_SUBJECT, find_slot
from agentmem.extraction.plain.dates import SaidDate, find_dates
from agentmem.extraction.plain.language import LANGUAGES, Kin, Language, PlainFrame, load_language
from agentmem.extraction.plain.numbered_statements import read_statements
from agentmem.extraction.plain.slot_claim import SlotClaim
from agentmem.extraction.plain.turn_text import TurnSentence, TurnText, read_turn

MAX_SENTENCE_CHARS = 240
MAX_ANSWER_WORDS = 6
MAX_ORDER_CHARS = 160  # an order in a longer turn is for that turn, unless it says "always"
_MIN_AGE, _MAX_AGE = 3, 110
_NAMED_SLOTS = frozenset({"home", "employer", "birthplace", "name", "call_me", *PEOPLE_SLOTS})
_TONGUE_SLOTS = frozenset({"languages", "answer_language"})
_PHRASE_SLOTS = frozenset({"work_mode", "commute"})  # of closed phrases, which may begin with any word
_TITLES = frozenset({"mr", "mrs", "ms", "dr", "herr", "frau"})  # before a name, and no name by themselves
_LIST_SLOTS = frozenset({"languages", "allergies", "conditions"})


@dataclass(frozen=True, slots=True)
class _Clause:
    """A clause with whom it is about; `start` is where the words about its subject begin."""

    language: Language
    sentence: TurnSentence
    subject: str
    begin: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class NamedKin:
    """Somebody whom the speaker names as theirs: "my aunt Ida", at `span` of the turn, in the word that was said."""

    name: str
    kin: Kin
    noun: str
    span: tuple[int, int]


class PlainReader:
    """Reads the turns of one speaker in their order.

    `people` are names that are known, `kin` those of the speaker's people by the English word for what they are.
    """

    def __init__(
        self,
        people: Iterable[str] = (),
        kin: Mapping[str, str] = MappingProxyType({}),
        day_first: bool | None = None,
    ) -> None:
        self.people: dict[str, set[str]] = {}  # by first name
        for name in people:
            self._note_name(name.partition(" (")[0])
        self.kin = dict(kin)
        self.day_first = day_first
        self.languages = [load_language(name) for name in LANGUAGES]
        self._named: dict[str, str] = {}  # who was named in this turn, in order, with "f", "m" or ""

    def read(self, text: str, now: datetime, asked: str = "") -> list[SlotClaim]:
        """The claims of a turn. `asked` is what was said to the speaker just before, for short answers."""
        if statements := read_statements(text):
            return statements
        turn = read_turn(text)
        if self.is_unreal(turn):
            return []
        now = now.astimezone(UTC) if now.tzinfo else now.replace(tzinfo=UTC)
        self._named = {}
        out: list[SlotClaim] = []
        for number, sentence in enumerate(turn.sentences):
            self._note_kin(sentence)
            if sentence.is_question:
                continue
            answers = self._read_answer(sentence, asked) if number == 0 and asked else []
            found = answers or self._read_sentence(sentence, turn, now)
            out += (
                replace(each, span=(each.span[0] + sentence.start, each.span[1] + sentence.start)) for each in found
            )
        return list(dict.fromkeys(out))

    def _read_sentence(self, sentence: TurnSentence, turn: TurnText, now: datetime) -> Iterator[SlotClaim]:
        for language in self.languages:
            if not language.words["marker"].search(sentence.text):
                continue
            if not language.words["fiction"].search(sentence.text):
                yield from self._read_people(language, sentence)
            if len(sentence.text) > MAX_SENTENCE_CHARS or language.words["unreal"].search(sentence.text):
                return
            setting = language.words["setting"].search(sentence.text)  # "when I am at home, I ..."
            for start, end in sentence.split_clauses(language.joint):
                if setting and setting.start() < start:
                    return
                lead = language.lead.match(sentence.text, start)
                begin = lead.end() if lead else start
                subject, at = self._find_subject(language, sentence, begin)
                yield from self._read_clause(_Clause(language, sentence, subject, begin, at, end), turn, now)

    # -- people

    def _find_subject(self, language: Language, sentence: TurnSentence, start: int) -> tuple[str, int]:
        """Whom a clause is about, and where the words about them begin; the user where nobody is named."""
        text = sentence.text
        if (found := language.kin_with_name.match(text, start)) and self._is_name(language, found["name"]):
            return found["name"], found.end()
        if found := language.kin_alone.match(text, start):
            known = self.kin.get(language.kin[found["noun"].lower()].noun, "")
            return (known, found.end()) if known else (USER_SUBJECT, start)
        word = re.compile(r"[^\W\d_]+(?:[-'][^\W\d_]{2,})*(?= |'s )").match(text, start)
        if word is None:
            return USER_SUBJECT, start
        after = word.end() + (text[word.end()] == " ")
        known_names = self.people.get(word[0].lower(), set())
        if len(known_names) == 1 and word[0][0].isupper():
            name = next(iter(known_names))
            self._named.setdefault(name, "")
            return name, after
        gender = (
            "f" if language.words["she"].fullmatch(word[0]) else "m" if language.words["he"].fullmatch(word[0]) else ""
        )
        if gender and (name := self._find_meant(gender)):
            return (name, after) if name[0].isupper() else (USER_SUBJECT, start)
        return USER_SUBJECT, start

    def is_unreal(self, turn: TurnText) -> bool:
        """Whether a turn is a joke, a game, or work on a text."""
        return any(each.words["unreal_turn"].search(turn.plain) for each in self.languages)

    def find_kin(self, turn: TurnText) -> Iterator[NamedKin]:
        """The people and animals that the speaker names as theirs, with a slot or without one."""
        for sentence in turn.sentences:
            for language in self.languages if not sentence.is_question else ():
                if not language.words["fiction"].search(sentence.text):
                    for kin, found in self._find_people(language, sentence):
                        span = (sentence.start + found.start(), sentence.start + found.end())
                        yield NamedKin(found["name"], kin, found["noun"].lower(), span)

    def _find_people(self, language: Language, sentence: TurnSentence) -> Iterator[tuple[Kin, re.Match[str]]]:
        for pattern in language.people:
            for found in pattern.finditer(sentence.text):
                kin = language.kin[found["noun"].lower()]
                is_trade = kin.noun == "partner" and language.words["trade"].search(sentence.text)
                if self._is_name(language, found["name"]) and not is_trade:  # of business or dance
                    yield kin, found

    def _read_people(self, language: Language, sentence: TurnSentence) -> Iterator[SlotClaim]:
        """Who is who: "my sister Anna", "my dog's name is Rex"."""
        for kin, found in self._find_people(language, sentence):
            name = found["name"]
            self._note_name(name)
            self._named.pop(kin.noun, None)
            self._named[name] = kin.gender
            self.kin[kin.noun] = name
            if kin.slot:
                value = f"{name} ({kin.noun})" if kin.slot == "pets" else name
                is_new = find_slot(kin.slot).kind == "one" and language.words["new"].search(found[0])
                mark: Mark = "change" if is_new else ""
                yield SlotClaim(
                    subject=USER_SUBJECT, slot=kin.slot, value=value, mark=mark, noun=kin.noun, span=found.span()
                )

    def _find_meant(self, gender: str) -> str:
        """Whom "she" or "he" means: the only one who may be, or the last one named where only they surely are."""
        sure = [name for name, own in self._named.items() if own == gender]
        may_be = [name for name, own in self._named.items() if own in (gender, "")]
        is_last = len(sure) == 1 and may_be[-1:] == sure
        return may_be[0] if len(self._named) == 1 and may_be else sure[0] if is_last else ""

    def _note_name(self, name: str) -> None:
        first = name.split(maxsplit=1)[0].lower() if name.strip() else ""
        if first and first not in _TITLES:
            self.people.setdefault(first, set()).add(name)

    def _note_kin(self, sentence: TurnSentence) -> None:
        """Whom "she" or "he" may be from now on, where nobody is named: "my sister"."""
        for language in self.languages:
            for found in language.kin_alone.finditer(sentence.text):
                kin = language.kin[found["noun"].lower()]
                self._named.setdefault(self.kin.get(kin.noun, kin.noun), kin.gender)

    def _is_name(self, language: Language, name: str) -> bool:
        words = name.lower().split()
        words = words[1:] if len(words) > 1 and words[0] in _TITLES else words
        return not any(word in language.stop_words or word in language.kin for word in words)

    # -- clauses

    def _read_clause(self, clause: _Clause, turn: TurnText, now: datetime) -> Iterator[SlotClaim]:
        language, text = clause.language, clause.sentence.text
        for frame in language.own if clause.subject == USER_SUBJECT else language.others:
            found = frame.pattern.match(text, clause.start)
            if found is None:
                continue
            date = self._find_date(clause, found, now)
            end = date.span[1] if date else found.end()
            rest = text[found.end() : max(end, clause.end)] if not date else ""
            if not language.words["goes_on"].match(text[end:]) or (
                "born" not in frame.flags and language.words["other_time"].search(found[0] + rest)
            ):
                continue
            operation = _find_operation(language, found, frame)
            if operation is None or ("dated" in frame.flags and not (date and date.is_since)):
                continue
            if "order" in frame.flags and not _is_standing(language, clause.sentence, turn):
                continue
            claims = list(self._fill(clause, frame, found, turn))
            if claims:
                since, until = _find_interval(date)
                other = language.words["instead"].match(text[found.end() :])
                mark: Mark = "change" if "change" in frame.flags else "correct" if other and operation == "is" else ""
                for claim in claims:
                    known = replace(
                        claim, operation=operation, mark=mark, since=since, until=until, span=(clause.begin, end)
                    )
                    yield from [known] if claim.tense == "current" else self._date_plan(known, now)
                    if mark == "correct" and other and find_slot(claim.slot).kind == "set":
                        yield replace(known, value=other["other"], operation="deny")
                return

    def _fill(self, clause: _Clause, frame: PlainFrame, found: re.Match[str], turn: TurnText) -> Iterator[SlotClaim]:
        """The values of a frame; none where one of them is not a value."""
        language = clause.language
        key = found.groupdict().get("key")
        tense: Tense = "planned" if "planned" in frame.flags else "current"
        out = [SlotClaim(subject=clause.subject, slot=slot, value=value, tense=tense) for slot, value in frame.meant]
        for group, slot in frame.fills:
            if found[group] is None:
                continue
            name = slot.replace("_key", f":{key.lower()}") if key else slot
            parts = language.separator.split(found[group]) if name in _LIST_SLOTS else [found[group]]
            if not all(_is_value(language, name, part, turn) for part in parts):
                return
            is_tongue = name in _TONGUE_SLOTS
            values = [language.tongues[part.lower()] if is_tongue else part.strip() for part in parts]
            out += (SlotClaim(subject=clause.subject, slot=name, value=value, tense=tense) for value in values)
        yield from out

    def _find_date(self, clause: _Clause, found: re.Match[str], now: datetime) -> SaidDate | None:
        """The date right behind a frame: "since March", "until Friday"."""
        text = clause.sentence.text
        if not clause.language.words["dated"].match(text[found.end() :].lstrip(" ,")):
            return None
        lower = "".join(low if len(low := char.lower()) == 1 else char for char in text)
        dates = [each for each in find_dates(lower, now, day_first=self.day_first) if each.span[0] <= found.end() + 2]
        date = next((each for each in dates if each.span[0] >= found.end()), None)
        return date if date and (date.is_since or date.is_until or date.end) else None

    def _date_plan(self, claim: SlotClaim, now: datetime) -> Iterator[SlotClaim]:
        """A plan with its day, where that lies ahead."""
        for date in find_dates(claim.value.lower(), now, "", day_first=self.day_first)[:1]:
            if date.is_future:
                yield replace(claim, since=date.moment, until=date.end)

    # -- answers

    def _read_answer(self, sentence: TurnSentence, asked: str) -> list[SlotClaim]:
        """A few words after a direct question are its value."""
        questions = re.findall(r"[^.!?\n]*\?", asked[-300:])
        text = sentence.text.rstrip(" .,!")
        if not questions or len(text.split()) > MAX_ANSWER_WORDS:
            return []
        for language in self.languages:
            for row in language.answers:
                found = row.answer.fullmatch(text) if row.question.search(questions[-1]) else None
                if found is None or language.words["unreal"].search(text):
                    continue
                parts = language.separator.split(found["value"]) if row.slot in _LIST_SLOTS else [found["value"]]
                if all(_is_value(language, row.slot, part, None) for part in parts):
                    values = [language.tongues.get(p.lower(), p) if row.slot in _TONGUE_SLOTS else p for p in parts]
                    span = found.span("value")
                    return [SlotClaim(subject=USER_SUBJECT, slot=row.slot, value=value, span=span) for value in values]
        return []


def _is_standing(language: Language, sentence: TurnSentence, turn: TurnText) -> bool:
    """Whether an order is for good, and not for one task."""
    if language.words["always"].search(sentence.text):
        return True
    is_alone = len(turn.sentences) == 1 or language.words["please"].search(sentence.text) is not None
    return is_alone and len(turn.source) <= MAX_ORDER_CHARS


def _find_operation(language: Language, found: re.Match[str], frame: PlainFrame) -> Operation | None:
    """Whether a clause affirms, denies or ends its values; None where a frame cannot be negated."""
    if "end" in frame.flags:
        return "over"
    values = [found.span(group) for group, _ in frame.fills if found[group] is not None]
    around, at = "", found.start()
    for start, end in values:
        around, at = around + found.string[at:start], max(at, end)
    around += found.string[at : found.end()]
    if "deny" in frame.flags:
        return "over" if language.words["over"].search(around) else "deny"
    if "no" in frame.flags:
        return "is"
    is_over, is_denied = language.words["over"].search(around), language.words["deny"].search(around)
    if not (is_over or is_denied):
        return "is"
    return None if "state" not in frame.flags else "over" if is_over else "deny"


def _find_interval(date: SaidDate | None) -> tuple[datetime | None, datetime | None]:
    if date is None:
        return None, None
    if date.end is not None:
        return date.moment, date.end
    return (None, date.moment) if date.is_until else (date.moment, None)


def _is_value(language: Language, slot: str, value: str, turn: TurnText | None) -> bool:
    words = re.findall(r"[^\s,;]+", value.lower())
    if not words or re.search(r"([^\W\d])\1\1", value):  # "sooo"
        return False
    if find_slot(slot).kind == "event" or slot in ("birthday", "birth_date", "the"):
        return True
    if slot not in _PHRASE_SLOTS and (words[0] in language.stop_words or words[-1] in language.stop_words):
        return False
    if slot in _NAMED_SLOTS and value.islower() and (turn is None or turn.has_capitals):
        return False
    return slot != "age" or not value.isdigit() or _MIN_AGE <= int(value) <= _MAX_AGE
