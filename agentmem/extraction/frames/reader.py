"""Reads plain claims about slots from what a user says: frames for the words, the verb group for tense and polarity.

Nothing is read from questions, conditions, jokes, reports of what others said, quotes, code, pastes and texts that are
handed over for work. Where a frame is not sure it gives nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from types import MappingProxyType

from agentmem.beliefs.belief import Need
from agentmem.beliefs.slots import USER_SUBJECT, find_slot
from agentmem.extraction.frames.answers import complete_answer, find_question, find_topic
from agentmem.extraction.frames.dates import SaidDate, find_dates, parse_date
from agentmem.extraction.frames.fragments import complete_fragment
from agentmem.extraction.frames.frame_set import LANGUAGES, Fill, Frame, FrameSet, load_frames
from agentmem.extraction.frames.glosses import gloss_sentence
from agentmem.extraction.frames.known_values import KnownValue, KnownValueReader
from agentmem.extraction.frames.people import PeopleReader, skip_space
from agentmem.extraction.frames.phrases import PhraseReader, get_typed_value, split_values
from agentmem.extraction.frames.plain_text import PlainSentence, split_plain_sentences
from agentmem.extraction.frames.relations import complete_values, is_statement_list, read_relation
from agentmem.extraction.frames.slot_claim import SlotClaim
from agentmem.extraction.frames.verb_group import IRREGULAR_PAST, VerbKind, VerbReading, read_verb_group
from agentmem.extraction.frames.words import (
    BE_LIKE,
    CHANGE,
    CLAUSE_END,
    CORRECTION,
    DATE_ALONE,
    ELIDED_VERB,
    EXPLICIT_CORRECTION,
    INSTITUTION,
    JOINT,
    LEAD,
    NAMED_SLOTS,
    NAMING,
    NEGATED_REST,
    NOTED,
    OTHERS_BEFORE,
    OWN_SLOTS,
    PENDING_EVENT,
    PLANNED_WORDS,
    PRONOUN_INSIDE,
    REPORTED,
    SKIP_SENTENCE,
    SKIP_TURN,
    TASTE_SLOTS,
    THIRD_PERSON,
)

MAX_FRAGMENT_TURN_CHARS = 1_000  # people do not type longer turns in fragments; what is pasted has them
MAX_STRANGER_TURN_CHARS = 1_000  # of turns whose unknown names are read as people of the user
MAX_MOVE_AGE_DAYS = 366  # a change longer ago tells what holds today only where nothing else is known


class FrameReader:
    """Reads the turns of one conversation in their order."""

    def __init__(
        self,
        people: Iterable[str] = (),
        kin: Mapping[str, str] = MappingProxyType({}),
        known: Iterable[KnownValue] = (),
        day_first: bool | None = None,
    ) -> None:
        """`people` are names that are known, `kin` those of the user's people by what they are: "mum", "boss".

        `known` are values that are held or planned, which a turn may change by their own words. `day_first` tells how
        05/07/2026 is read, None for the language of the text.
        """
        self.known_values = KnownValueReader(tuple(known))
        self.frames: FrameSet = load_frames(LANGUAGES[0])
        self.people = PeopleReader(self.frames, people, kin)
        self.phrases = PhraseReader(self.frames, self.people, day_first)
        self.day_first = day_first
        self.talk = self.people.talk

    def read(self, text: str, now: datetime, asked: str = "") -> list[SlotClaim]:
        """The claims of a user's turn. `asked` is what the assistant said just before, for short answers."""
        now = now.astimezone(UTC) if now.tzinfo else now.replace(tzinfo=UTC)
        self.talk.named_before, self.talk.named = self.talk.named, ()
        self.talk.question = find_question(asked, self.talk.question)
        topic = find_topic(self.talk.question) if asked else ""
        self.talk.topic = topic
        self.talk.elided = self.people.find_topic(topic)
        answer = complete_answer(text, self.talk.question)
        if answer is None:
            return self._read_text(text, now)
        # the question and the answer are one statement; the turn is what was said
        if answer.slot:
            whole = SlotClaim(subject=USER_SUBJECT, slot=answer.slot, value=answer.statement, span=(0, answer.end))
            claims = [*split_values(whole)]
        else:
            claims = [replace(claim, span=(0, answer.end)) for claim in self._read_text(answer.statement, now)]
        if answer.who[:1].isupper() and " " not in answer.who:
            self.people.note(answer.who)  # "Who is Alfie?" is answered about Alfie
        self.talk.elided = self.people.find_named_last(answer.who) or self.talk.elided
        rest = " " * answer.end + text[answer.end :]
        return [*claims, *self._read_text(rest, now)] if claims else self._read_text(text, now)

    def _read_text(self, text: str, now: datetime) -> list[SlotClaim]:
        sentences = [_drop_request(each) for each in _drop_echoes(split_plain_sentences(text))]
        whole = " ".join(sentence.plain for sentence in sentences)
        if SKIP_TURN.search(whole):
            return []
        is_list = is_statement_list(sentences)
        out: list[SlotClaim] = []
        for number, typed in enumerate(sentences):
            is_short = len(text) <= MAX_FRAGMENT_TURN_CHARS  # who was named by now counts: "two bairns. beths a nurse"
            sentence = complete_fragment(typed, self.talk.people, self.talk.topic) if is_short else typed
            sentences[number] = sentence
            self.people.note_people(sentence)
            if not sentence.is_question:
                sure = _drop_hypothetical(sentence)
                claims = [*self._read_sentence(sure, now)]
                claims += self._read_glossed(sure, now, claims)
                claims += self.known_values.read(sure, claims)
                claims = claims or self._read_date(sentence, now)
                out += complete_values(claims, read_relation(sentence)) if is_list else claims
        changed = self.known_values.read_turn([each for each in sentences if not each.is_question], out, now)
        dates = {claim.value for claim in changed if claim.tense == "planned"}  # one date is of one event
        out = [*(each for each in out if each.tense != "planned" or each.value not in dates), *changed]
        self.known_values.note(out)
        return list(dict.fromkeys(out))

    def _read_glossed(self, sentence: PlainSentence, now: datetime, claims: list[SlotClaim]) -> list[SlotClaim]:
        """What a sentence in another language says by its gloss, beyond the claims that its own frames read."""
        glossed = gloss_sentence(sentence)
        if glossed is None:
            return []
        self.people.note_people(glossed)
        taken = {(claim.subject, claim.slot) for claim in claims}
        if not NAMING.search(glossed.plain):
            taken.add((USER_SUBJECT, "name"))  # "Ich bin Vegetarier": nouns of German have capitals, too
        events = {slot for _, slot in taken if slot.startswith(("date:", "flight:"))}
        found = self._read_sentence(glossed, now)
        return [claim for claim in found if (claim.subject, claim.slot) not in taken and claim.slot not in events]

    def _read_date(self, sentence: PlainSentence, now: datetime) -> list[SlotClaim]:
        """The date of the event that the sentence before named, where this one is a date alone."""
        pending, self.talk.pending_event = self.talk.pending_event, ""
        event = PENDING_EVENT.search(sentence.plain)
        dated = DATE_ALONE.fullmatch(sentence.plain)
        if dated and pending:
            when = parse_date(dated["when"], now)
            span = sentence.span(*dated.span("when"))
            value = sentence.get_typed(*dated.span("when"))
            if pending == "birthday":
                return [SlotClaim(subject=USER_SUBJECT, slot="birthday", value=value, span=span)]
            slot = f"date:{pending}"
            return [SlotClaim(subject=USER_SUBJECT, slot=slot, value=value, tense="planned", since=when, span=span)]
        before = sentence.plain[: event.start()] if event else ""
        if event and not OTHERS_BEFORE.search(before) and not REPORTED.search(before):
            self.talk.pending_event = event["event"] or event["booked"]
        return []

    # -- a sentence

    def _read_sentence(self, sentence: PlainSentence, now: datetime) -> Iterator[SlotClaim]:
        found_dates = find_dates(sentence.plain, now, day_first=self.day_first)
        dates = [replace(each, text=sentence.get_typed(*each.core)) for each in found_dates]
        undated = _cut(sentence, [date.span for date in dates])
        corrects = CORRECTION.search(sentence.plain) is not None
        is_explicit = EXPLICIT_CORRECTION.search(sentence.plain) is not None
        found = [
            *self.phrases.read(sentence, now),
            *self.people.read_people(sentence),
            *self._read_clauses(undated, dates),
        ]
        denied = {claim.slot for claim in found if claim.operation == "deny"}
        for claim in _drop_corrected(found):
            marks = ("", "change") if is_explicit else ("",)
            is_open = (claim.operation, claim.tense) == ("is", "current") and claim.mark in marks
            # a correction of a set takes its sole element away, so the words must speak of the set
            is_meant = find_slot(claim.slot).kind != "set" or claim.slot in denied or is_explicit
            yield replace(claim, mark="correct") if corrects and is_open and is_meant else claim

    def _read_clauses(self, sentence: PlainSentence, dates: list[SaidDate]) -> Iterator[SlotClaim]:
        """Subject and verb at the beginning of each clause; a clause without a subject has that of the one before."""
        starts = [0, *(joint.end() for joint in JOINT.finditer(sentence.plain))]
        subject = self.talk.elided if ELIDED_VERB.match(sentence.plain) else ""
        for number, start in enumerate(starts):
            if start < 0 or REPORTED.search(sentence.plain, 0, start):
                continue
            lead = LEAD.match(sentence.plain, start)
            at = skip_space(sentence.plain, lead.end() if lead else start)
            end = starts[number + 1] if number + 1 < len(starts) else len(sentence.plain)
            found, after = self.people.find_subject(sentence, at)
            if found is None and self.people.is_other_subject(sentence, at):
                subject = ""
                continue
            subject = subject if found is None else found
            if subject:
                claims = list(self._read_verbs(sentence, subject, after, end, dates, is_named=found is not None))
                if claims and subject != USER_SUBJECT:
                    self.people.note(subject)
                yield from claims

    def _read_verbs(
        self,
        sentence: PlainSentence,
        subject: str,
        at: int,
        end: int,
        dates: list[SaidDate],
        *,
        is_named: bool,
    ) -> Iterator[SlotClaim]:
        """The claims of the first frame that fits. `is_named` tells that the clause has a subject of its own."""
        is_known = self.people.is_known(subject)
        for frame in self.frames.verbs:
            found = frame.pattern.match(sentence.plain, at)
            if found is None or not self._is_sure(frame, found, sentence, is_named=is_named, is_known=is_known):
                continue
            date = next(iter(dates), None)
            clause = sentence.plain[at : max(end, found.end())]
            reading = _read_verb(frame, found, clause, date)
            if reading is not None:
                claims = list(self._fill(frame, found, sentence, subject, reading, date))
                yield from claims
                if any(claim.value for claim in claims) or frame.kind == "end":
                    return

    def _is_sure(
        self, frame: Frame, found: re.Match[str], sentence: PlainSentence, *, is_named: bool, is_known: bool
    ) -> bool:
        """Whether a frame may be taken from these words.

        "Sounds like fun" and "they are like family" have no subject that likes. An unknown name needs a verb in the
        third person, and in a long turn it is somebody of a story or a report. Names of towns and employers have a
        capital, unless the whole turn is typed without.
        """
        slots = {fill.slot for fill in frame.fills}
        if slots & OWN_SLOTS and not (is_named and is_known):
            return False
        verb = f"{found['words']} {found['verb']}".strip()
        if slots & TASTE_SLOTS and BE_LIKE.search(verb):
            return False
        if not is_known and len(sentence.source) > MAX_STRANGER_TURN_CHARS:
            return False
        if not (is_known or THIRD_PERSON.search(verb) or found["verb"] in IRREGULAR_PAST):
            return False
        groups = [fill.group for fill in frame.fills if fill.group and fill.slot in NAMED_SLOTS]
        named = [found.start(group) for group in groups if found[group]]
        # who joined something in small letters joined a course
        has_capitals = sentence.has_capitals or ("employer" in slots and any(map(str.isupper, sentence.source)))
        return not has_capitals or all(self._is_proper(sentence, found, at) for at in named)

    def _is_proper(self, sentence: PlainSentence, found: re.Match[str], at: int) -> bool:
        """Whether a value is written like a name, or says itself what it is: "the city council"."""
        words = sentence.plain[at : found.end()]
        starts = [at + match.start() for match in re.finditer(r"[^\W\d_]+", words)]
        return any(map(sentence.is_capitalized, starts)) or INSTITUTION.search(words) is not None

    def _fill(
        self,
        frame: Frame,
        found: re.Match[str],
        sentence: PlainSentence,
        subject: str,
        reading: VerbReading,
        date: SaidDate | None,
    ) -> Iterator[SlotClaim]:
        if frame.fills[0].slot == "event":
            if date is not None and date.is_future:
                yield from self._read_appointment(found, sentence, subject, date)
            return
        since, until = _interval(reading, date)
        for fill in frame.fills:
            slot, value = _find_value(frame, fill, found, sentence, reading)
            if slot == "age" and reading.tense == "past":
                continue  # "when I was 16"
            if not slot or not _is_whole(slot, value, found, sentence, reading):
                continue
            is_opposite = bool(frame.negated_slot) and reading.operation == "deny"
            claim = SlotClaim(
                subject=subject,
                slot=frame.negated_slot if is_opposite else slot,
                value=value,
                tense=reading.tense,
                operation="is" if is_opposite else reading.operation,
                mark=reading.mark,
                since=since,
                until=until,
                is_unsure=reading.is_unsure,
                needs=_find_need(frame, fill, sentence, date),
                span=sentence.span(found.start(), found.end()),
            )
            yield from split_values(claim)
            other = NEGATED_REST.match(sentence.plain, found.end(fill.group) if fill.group else found.end())
            if other and find_slot(fill.slot).kind == "set":
                denied = sentence.get_typed(other.start("other"), other.end("other"))
                yield replace(claim, value=denied, operation="deny", mark="correct")

    def _read_appointment(
        self, found: re.Match[str], sentence: PlainSentence, subject: str, date: SaidDate
    ) -> Iterator[SlotClaim]:
        """What somebody has on a day to come: "Mum is having an operation on 12 March"."""
        self.talk.last_event = (subject, f"date:{found['g0']}")
        yield SlotClaim(
            subject=subject,
            slot=f"date:{found['g0']}",
            value=date.text,
            tense="planned",
            since=date.moment,
            span=sentence.span(*found.span()),
        )


def _drop_corrected(claims: list[SlotClaim]) -> list[SlotClaim]:
    """Without denials that a claim of the same sentence puts right: "he isn't 3, he's 4" says 4."""
    said = {(each.subject, each.slot) for each in claims if each.operation == "is"}
    seen, out = set[tuple[str, str, str, str]](), []
    for each in claims:
        name = (each.subject, each.slot, each.value.casefold(), each.operation)
        is_replaced = (
            each.operation == "deny" and find_slot(each.slot).kind != "set" and (each.subject, each.slot) in said
        )
        if name not in seen and not is_replaced:
            seen.add(name)
            out.append(each)
    return out


def _find_value(
    frame: Frame, fill: Fill, found: re.Match[str], sentence: PlainSentence, reading: VerbReading
) -> tuple[str, str]:
    """The slot that a group fills and its value; "" for a group that is not there, or only helps another one."""
    is_missing = bool(fill.group) and not found[fill.group]
    if is_missing or fill.slot == "tool_for" or (fill.is_weak and fill.slot == "pet"):
        return "", ""
    value = fill.value or (get_typed_value(sentence, found, fill.group) if fill.group else "")
    if fill.slot == "pets" and reading.operation == "is":
        kinds = [found[each.group] for each in frame.fills if each.slot == "pet"]
        kind = (kinds or ["pet"])[0].rstrip("s")
        value = f"{value} ({load_frames('english').pets.get(kind, kind)})"
    if fill.slot == "tool":
        return f"tool:{get_typed_value(sentence, found, frame.fills[1].group)}", value
    return fill.slot, frame.template.format(value) if frame.template else value


def _is_whole(slot: str, value: str, found: re.Match[str], sentence: PlainSentence, reading: VerbReading) -> bool:
    """Whether a liking or a hobby is said as a whole: neither "films that make me laugh" nor "I can't play today"."""
    if slot == "hobbies":
        return reading.operation != "deny" and reading.tense != "planned"
    if slot not in TASTE_SLOTS:
        return True
    is_whole = CLAUSE_END.match(sentence.plain, found.end()) is not None
    return is_whole and reading.tense == "current" and PRONOUN_INSIDE.search(value.lower()) is None


def _read_verb(frame: Frame, found: re.Match[str], clause: str, date: SaidDate | None) -> VerbReading | None:
    words = f"{found['words']} {found['after'] or ''}".strip()
    if frame.kind == "plan":
        return VerbReading("planned")
    if frame.kind == "ended":
        return VerbReading(operation="over")
    has_future = date is not None and date.is_future and not date.is_until
    if frame.kind == "resumed":
        return VerbReading(mark="change")
    kind: VerbKind = "state" if frame.kind == "state" else "end" if frame.kind == "end" else "change"
    verb = found["verb"]
    if frame.kind == "change" and verb == "diagnosed":
        return VerbReading(mark="")
    reading = read_verb_group(words, verb, kind, clause, has_future_date=has_future)
    if reading is None or (reading.tense, reading.operation) != ("current", "is") or reading.mark:
        return reading
    return replace(reading, mark="change") if CHANGE.search(clause) else reading


def _find_need(frame: Frame, fill: Fill, sentence: PlainSentence, date: SaidDate | None) -> Need:
    """Whether a claim counts only for a known value, or only for an empty slot."""
    if fill.needs_known and not re.search(r"\b(?:join|start|new job)", sentence.plain):
        return "known"
    is_old = date is not None and date.days_ago > MAX_MOVE_AGE_DAYS
    return "empty" if is_old and frame.kind == "change" and fill.slot == "home" else ""


def _interval(reading: VerbReading, date: SaidDate | None) -> tuple[datetime | None, datetime | None]:
    if date is None:
        return None, None
    if reading.operation == "over":
        return None, date.moment
    if date.end is not None:
        return date.moment, date.end
    if reading.tense == "past":
        return (None, date.moment) if date.is_until else (None, None)
    return (None, date.moment) if date.is_until else (date.moment, None)


def _drop_echoes(sentences: list[PlainSentence]) -> list[PlainSentence]:
    """Without words that only say one of the sentence before again: "he went vegan. vegan. our Norman"."""
    before = ["", *(sentence.plain for sentence in sentences)]
    return [each for each, last in zip(sentences, before, strict=False) if each.plain.strip() not in last.split()]


def _drop_request(sentence: PlainSentence) -> PlainSentence:
    """What somebody is asked to note, as a statement."""
    found = NOTED.match(sentence.plain)
    if found is None:
        return sentence
    end = found.end()
    return replace(sentence, plain=sentence.plain[end:], offsets=sentence.offsets[end:], is_question=False)


def _drop_hypothetical(sentence: PlainSentence) -> PlainSentence:
    """The sentence without what is only thought: from "even if" on, from the clause of a "would" or a later "if" on.

    Other words of doubt, and an "if" without a comma before it, leave nothing.
    """
    found = SKIP_SENTENCE.search(sentence.plain)
    if found is None:
        return sentence
    end = found.start() if found[0] == "even if" else 0
    if found[0] == "would":
        end = max((joint.start() for joint in JOINT.finditer(sentence.plain, 0, found.start())), default=0)
    elif found[0] == "if" and sentence.plain[: found.start()].endswith(", "):
        before = sentence.plain[: found.start() - len(", ")]
        end = 0 if PLANNED_WORDS.search(before) else len(before)
    return replace(sentence, plain=sentence.plain[:end], offsets=sentence.offsets[:end])


def _cut(sentence: PlainSentence, spans: Iterable[tuple[int, int]]) -> PlainSentence:
    """The sentence without these stretches."""
    plain, offsets, at = "", list[tuple[int, int]](), 0
    for start, end in spans:
        plain += sentence.plain[at:start]
        offsets += sentence.offsets[at:start]
        at = end
    return replace(sentence, plain=plain + sentence.plain[at:], offsets=(*offsets, *sentence.offsets[at:]))
