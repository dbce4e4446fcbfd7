"""Reads plain claims about slots from what a user says: frames for the words, the verb group for tense and polarity.

Nothing is read from questions, conditions, jokes, reports of what others said, quotes, code, pastes and texts that are
handed over for work. Where a frame is not sure it gives nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from agentmem.beliefs.belief import Mark, Operation, Tense
from agentmem.beliefs.slots import THING_SUBJECT, USER_SUBJECT, find_slot
from agentmem.extraction.frames.answers import complete_answer
from agentmem.extraction.frames.dates import SaidDate, find_dates, parse_date
from agentmem.extraction.frames.frame_set import LANGUAGES, Frame, FrameSet, load_frames
from agentmem.extraction.frames.plain_text import PlainSentence, split_plain_sentences
from agentmem.extraction.frames.verb_group import IRREGULAR_PAST, VerbKind, VerbReading, read_verb_group
from agentmem.extraction.frames.words import (
    ADJECTIVES,
    CHANGE,
    CLAUSE_END,
    CORRECTION,
    EXPLICIT_CORRECTION,
    FEMALE,
    HELPERS,
    INSTITUTION,
    JOINT,
    LEAD,
    MALE,
    NAMED_SLOTS,
    NEGATED_BEFORE,
    NEGATED_REST,
    NOW,
    PRONOUN,
    PRONOUN_INSIDE,
    REPORTED,
    SELF,
    SKIP_SENTENCE,
    SKIP_TURN,
    TASTE_SLOTS,
    THIRD_PERSON,
)

MAX_MOVE_AGE_DAYS = 60  # a change longer ago does not tell what holds today


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotClaim:
    """A claim as it was read: see `agentmem.beliefs.belief.Claim`. `span` is the stretch of the turn it rests on.

    `needs_known` marks an end that only counts where this value is held: "left Leeds" may be a town or an employer.
    """

    subject: str
    slot: str
    value: str = ""
    tense: Tense = "current"
    operation: Operation = "is"
    mark: Mark = ""
    since: datetime | None = None
    until: datetime | None = None
    is_unsure: bool = False
    needs_known: bool = False
    span: tuple[int, int] = (0, 0)


@dataclass
class TalkState:
    """What a reader keeps from turn to turn: who was named, and which thing and event were spoken of last."""

    people: dict[str, str] = field(default_factory=dict)  # names in small letters, as they are written
    gender: dict[str, str] = field(default_factory=dict)
    named_before: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    last_event: tuple[str, str] | None = None
    last_thing: str = ""


class FrameReader:
    """Reads the turns of one conversation in their order."""

    def __init__(self, people: Iterable[str] = ()) -> None:
        self.frames: FrameSet = load_frames(LANGUAGES[0])
        self.others = [load_frames(language) for language in LANGUAGES[1:]]
        self.talk = TalkState(people={name.lower(): name for name in people if name})

    def read(self, text: str, now: datetime, asked: str = "") -> list[SlotClaim]:
        """The claims of a user's turn. `asked` is what the assistant said just before, for short answers."""
        now = now.astimezone(UTC) if now.tzinfo else now.replace(tzinfo=UTC)
        self.talk.named_before, self.talk.named = self.talk.named, ()
        answered = complete_answer(text, asked)
        if answered and answered != text:  # the question and the answer are one statement; the turn is what was said
            whole = (0, len(text))
            return [replace(claim, span=whole) for claim in self._read_text(answered, now)]
        return self._read_text(text, now)

    def _read_text(self, text: str, now: datetime) -> list[SlotClaim]:
        sentences = split_plain_sentences(text)
        whole = " ".join(sentence.plain for sentence in sentences)
        if SKIP_TURN.search(whole):
            return []
        out: list[SlotClaim] = []
        for sentence in sentences:
            self._note_people(sentence)
            if not sentence.is_question and not SKIP_SENTENCE.search(sentence.plain):
                out += self._read_sentence(sentence, now)
        return list(dict.fromkeys(out))

    # -- a sentence

    def _read_sentence(self, sentence: PlainSentence, now: datetime) -> Iterator[SlotClaim]:
        dates = find_dates(sentence.plain, now)
        undated = _cut(sentence, [date.span for date in dates])
        corrects = CORRECTION.search(sentence.plain) is not None
        is_explicit = EXPLICIT_CORRECTION.search(sentence.plain) is not None
        found = [*self._read_phrases(sentence, now), *self._read_people(sentence), *self._read_clauses(undated, dates)]
        denied = {claim.slot for claim in found if claim.operation == "deny"}
        for claim in _drop_corrected(found):
            is_open = (claim.operation, claim.tense, claim.mark) == ("is", "current", "")
            # a correction of a set takes its sole element away, so the words must speak of the set
            is_meant = find_slot(claim.slot).kind != "set" or claim.slot in denied or is_explicit
            yield replace(claim, mark="correct") if corrects and is_open and is_meant else claim

    def _read_clauses(self, sentence: PlainSentence, dates: list[SaidDate]) -> Iterator[SlotClaim]:
        """Subject and verb at the beginning of each clause; a clause without a subject has that of the one before."""
        starts = [0, *(joint.end() for joint in JOINT.finditer(sentence.plain))]
        subject = USER_SUBJECT
        for number, start in enumerate(starts):
            if start < 0 or REPORTED.search(sentence.plain, 0, start):
                continue
            lead = LEAD.match(sentence.plain, start)
            at = lead.end() if lead else start
            end = starts[number + 1] if number + 1 < len(starts) else len(sentence.plain)
            found, after = self._find_subject(sentence, at)
            if found is None and self._is_other_subject(sentence, at):
                subject = ""
                continue
            subject = subject if found is None else found
            if subject:
                claims = list(self._read_verbs(sentence, subject, after, end, dates, is_named=found is not None))
                if claims and subject != USER_SUBJECT:
                    self._note(subject)
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
        is_known = subject == USER_SUBJECT or subject.lower() in self.talk.people
        for frame in self.frames.verbs:
            found = frame.pattern.match(sentence.plain, at)
            if found is None or not self._is_sure(frame, found, sentence, is_named=is_named, is_known=is_known):
                continue
            date = next(iter(dates), None)
            clause = sentence.plain[at : max(end, found.end())]
            reading = _read_verb(frame, found, clause, date)
            is_old = date is not None and date.days_ago > MAX_MOVE_AGE_DAYS
            if reading is not None and not (is_old and frame.kind == "change" and frame.fills[0].slot == "home"):
                claims = list(self._fill(frame, found, sentence, subject, reading, date))
                yield from claims
                if any(claim.value for claim in claims) or frame.kind == "end":
                    return

    def _is_sure(
        self, frame: Frame, found: re.Match[str], sentence: PlainSentence, *, is_named: bool, is_known: bool
    ) -> bool:
        """Whether a frame may be taken from these words.

        "Sounds like fun" and "sports, like golf" have no subject that likes. An unknown name needs a verb in the third
        person. Names of towns and employers have a capital, unless the whole turn is typed without.
        """
        slots = {fill.slot for fill in frame.fills}
        if slots & TASTE_SLOTS and not (is_named and is_known):
            return False
        verb = f"{found['words']} {found['verb']}".strip()
        if not (is_known or THIRD_PERSON.search(verb) or found["verb"] in IRREGULAR_PAST):
            return False
        groups = [fill.group for fill in frame.fills if fill.group and fill.slot in NAMED_SLOTS]
        named = [found.start(group) for group in groups if found[group]]
        # an "I" and a first letter may be the telephone's; who joined something in small letters joined a course
        typed = sentence.source if "employer" in slots else sentence.source.replace("I", "")[1:]
        has_capitals = any(map(str.isupper, typed))
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
        helper = {fill.slot: found[fill.group] for fill in frame.fills if fill.is_weak and fill.group}
        for fill in frame.fills:
            value = fill.value or (_get_typed(sentence, found, fill.group) if fill.group else "")
            if (fill.group and not found[fill.group]) or (fill.is_weak and fill.slot == "pet"):
                continue
            if fill.slot == "pets":
                value = f"{value} ({helper.get('pet', 'pet').rstrip('s')})"
            value = frame.template.format(value) if frame.template else value
            slot, operation = fill.slot, reading.operation
            if frame.negated_slot and operation == "deny":
                slot, operation = frame.negated_slot, "is"
            if slot in TASTE_SLOTS and not _is_whole_taste(sentence.plain, found, value, reading):
                continue
            since, until = _interval(reading, date)
            claim = SlotClaim(
                subject=subject,
                slot=slot,
                value=value,
                tense=reading.tense,
                operation=operation,
                mark=reading.mark,
                since=since,
                until=until,
                is_unsure=reading.is_unsure,
                needs_known=fill.needs_known and not re.search(r"\b(?:join|start|new job)", sentence.plain),
                span=sentence.span(found.start(), found.end()),
            )
            yield from _split_values(claim)
            other = NEGATED_REST.match(sentence.plain, found.end(fill.group) if fill.group else found.end())
            if other and find_slot(fill.slot).kind == "set":
                denied = sentence.get_typed(other.start("other"), other.end("other"))
                yield replace(claim, value=denied, operation="deny", mark="correct")

    # -- subjects

    def _find_subject(self, sentence: PlainSentence, at: int) -> tuple[str | None, int]:
        """Who the clause is about, and where its verb begins; None where it names nobody."""
        plain = sentence.plain
        if found := SELF.match(plain, at):
            return USER_SUBJECT, _skip_space(plain, found.end())
        if found := PRONOUN.match(plain, at):
            return self._resolve_pronoun(found["pronoun"]) or "", _skip_space(plain, found.end())
        kin = re.compile(
            rf"(?:my|our|me) {ADJECTIVES}(?:{self.frames.noun_pattern}),? (?P<name>{self.frames.name_pattern}),?\s"
        )
        if (found := kin.match(plain, at)) and self._is_name(sentence, found.start("name"), found["name"]):
            name, end = self._trim_name(sentence, found.start("name"), found["name"])
            self._note(name)
            return name, _skip_space(plain, end)
        named = re.compile(rf"(?:our )?(?P<name>{self.frames.name_pattern})\s")
        if (found := named.match(plain, at)) and self._is_name(sentence, found.start("name"), found["name"]):
            name, end = self._trim_name(sentence, found.start("name"), found["name"])
            return name, _skip_space(plain, end)
        return None, at

    def _is_other_subject(self, sentence: PlainSentence, at: int) -> bool:
        """Whether a clause begins with a subject that is not read: "my neighbor", "the team", "her mother"."""
        return (
            re.match(
                r"(?:the|a|an|his|her|their|its|your|you|it|this|that|there|these|those|everyone|someone|nobody|people|who|which)\b"
                r"|(?:my|our|me) \w+",
                sentence.plain[at:],
            )
            is not None
        )

    def _is_name(self, sentence: PlainSentence, at: int, text: str) -> bool:
        first = text.split(maxsplit=1)[0]
        if first in self.frames.not_names or first in self.frames.nouns:
            return False
        return sentence.is_capitalized(at) or first in self.talk.people

    def _trim_name(self, sentence: PlainSentence, at: int, text: str) -> tuple[str, int]:
        """The words of a name that are written like one; where the first one is not, that word alone."""
        end, position = at, at
        for number, word in enumerate(text.split()):
            position = sentence.plain.index(word, position)
            if number and not sentence.is_capitalized(position):
                break
            end = position + len(word)
            position = end
        name = sentence.get_typed(at, end)
        name = name.removesuffix("'s").removesuffix("\u2019s")
        return self.talk.people.get(name.lower(), name), end

    def _note_people(self, sentence: PlainSentence) -> None:
        """Remember who is named anywhere in a sentence: people who are known, and full names that begin like theirs."""
        for found in re.finditer(r"[^\W\d_][\w-]+", sentence.plain):
            if found[0] in self.talk.people and sentence.is_capitalized(found.start()):
                after = re.match(r" ([^\W\d_][\w-]+)", sentence.plain[found.end() :])
                has_surname = after is not None and sentence.is_capitalized(found.end() + 1)
                end = found.end() + (len(after[0]) if after and has_surname else 0)
                name = sentence.get_typed(found.start(), end)
                self._note(self.talk.people.get(name.lower(), name))

    def _note(self, name: str) -> None:
        self.talk.people.setdefault(name.lower(), name)
        self.talk.named = tuple(dict.fromkeys((*self.talk.named, name)))

    def _resolve_pronoun(self, pronoun: str) -> str | None:
        """The only person named in this turn, else in the user's turn before, whom the pronoun may mean."""
        for named in (self.talk.named, self.talk.named_before):
            wanted = {"she": "f", "he": "m"}.get(pronoun, "")
            fitting = [name for name in named if self.talk.gender.get(name, wanted) == wanted]
            if len(fitting) == 1:
                self.talk.named = tuple(dict.fromkeys((*self.talk.named, fitting[0])))
                return fitting[0]
            if fitting:
                return None
        return None

    # -- people and things of the user's

    def _read_people(self, sentence: PlainSentence) -> Iterator[SlotClaim]:
        """ "my sister Nora", "my boss is called Ingrid", "Tomas is my boss now", "two kids, Elsa (6) and Nils (3)"."""
        plain, name = sentence.plain, self.frames.name_pattern
        mine = re.compile(
            rf"\b(?:my|our|me) (?P<adj>{ADJECTIVES})(?P<noun>{self.frames.noun_pattern})"
            rf"(?P<link>,? (?:is )?(?:called |named )?| is )(?P<name>{name})"
        )
        for found in mine.finditer(plain):
            called = "called" in found["link"] or "named" in found["link"]
            if re.search(r"\b(?:ex|late|former)\b", found["adj"]) or REPORTED.search(plain, 0, found.start()):
                continue
            if not (self._is_name(sentence, found.start("name"), found["name"]) or called):
                continue
            person, end = self._trim_name(sentence, found.start("name"), found["name"])
            yield self._relate(found["noun"], person, sentence, (found.start(), end), is_new="new" in found["adj"])
        theirs = re.compile(
            rf"(?:^|[,.] |and )(?P<name>{name}) is my (?P<new>new )?"
            rf"(?P<noun>{self.frames.noun_pattern})\b(?P<now> now)?"
        )
        for found in theirs.finditer(plain):
            if self._is_name(sentence, found.start("name"), found["name"]):
                person, _ = self._trim_name(sentence, found.start("name"), found["name"])
                yield self._relate(
                    found["noun"], person, sentence, found.span(), is_new=bool(found["now"] or found["new"])
                )
        yield from self._read_children(sentence)

    def _relate(
        self, noun: str, person: str, sentence: PlainSentence, span: tuple[int, int], *, is_new: bool
    ) -> SlotClaim:
        self._note(person)
        if noun in FEMALE | MALE:
            self.talk.gender[person] = "f" if noun in FEMALE else "m"
        slot = self.frames.nouns[noun]
        value = f"{person} ({noun})" if slot == "pets" else person
        return SlotClaim(
            subject=USER_SUBJECT, slot=slot, value=value, mark="change" if is_new else "", span=sentence.span(*span)
        )

    def _read_children(self, sentence: PlainSentence) -> Iterator[SlotClaim]:
        plain = sentence.plain
        intro = re.search(
            r"\b(?:have|got|has) (?:two|three|four|five|\d) (?:kids|children|sons|daughters|boys|girls)"
            r"(?: called| named)?,?:? ",
            plain,
        )
        if intro is None:
            return
        rest = re.compile(r"(?:,? ?(?:and )?)(?P<name>[^\W\d_][\w'-]+)(?: \((?P<age>\d{1,2})\)|,? (?P<years>\d{1,2}))?")
        at = intro.end()
        while (found := rest.match(plain, at)) and self._is_name(sentence, found.start("name"), found["name"]):
            person = sentence.get_typed(found.start("name"), found.end("name"))
            self._note(person)
            span = sentence.span(intro.start(), found.end())
            yield SlotClaim(subject=USER_SUBJECT, slot="children", value=person, span=span)
            if age := found["age"] or found["years"]:
                yield SlotClaim(subject=person, slot="age", value=age, span=span)
            at = found.end()

    def _read_phrases(self, sentence: PlainSentence, now: datetime) -> Iterator[SlotClaim]:
        for frame in self.frames.things:
            for found in frame.pattern.finditer(sentence.plain):
                (*keys, fill) = frame.fills
                slot = frame.kind.format(**{key.slot: found[key.group] for key in keys})
                is_new = " new " in found[0][:10]
                yield SlotClaim(
                    subject=USER_SUBJECT,
                    slot=slot,
                    value=_get_typed(sentence, found, fill.group),
                    mark="change" if is_new else "",
                    span=sentence.span(*found.span()),
                )
        for frames in (self.frames, *self.others):
            for frame in frames.phrases:
                for found in frame.pattern.finditer(sentence.plain):
                    negated = frame.kind != "over" and NEGATED_BEFORE.search(sentence.plain, 0, found.start())
                    if not negated and not REPORTED.search(sentence.plain, 0, found.start()):
                        for claim in self._read_phrase(frame, found, sentence, now):
                            named = frames.language_names.get(claim.value.casefold(), claim.value)
                            yield replace(claim, value=named)

    def _read_phrase(
        self, frame: Frame, found: re.Match[str], sentence: PlainSentence, now: datetime
    ) -> Iterator[SlotClaim]:
        typed = {
            fill.slot: fill.value or (_get_typed(sentence, found, fill.group) if fill.group else "")
            for fill in frame.fills
            if not fill.is_weak
        }
        typed = {
            name: value for name, value in typed.items() if value or (frame.kind == "over" and name not in HELPERS)
        }
        span = sentence.span(*found.span())
        named = next((fill.group for fill in frame.fills if fill.group and not fill.is_weak), "")
        if frame.kind == "capitalized" and not sentence.is_capitalized(found.start(named)):
            return
        if frame.kind in ("the", "thing", "version", "version-it"):
            yield from self._read_thing(frame.kind, typed, span)
        elif frame.kind.startswith(("event", "flight")):
            yield from self._read_event(frame.kind, typed, sentence, span, now)
        elif frame.template:
            slot, _, pattern = frame.template.partition("=")
            value = pattern.format(*typed.values())
            yield SlotClaim(subject=USER_SUBJECT, slot=slot, value=value, span=span)
        elif frame.kind != "skip":
            yield from self._read_own(frame.kind, typed, found[0], find_dates(sentence.plain, now), span)
            if "birthday today" in found[0]:
                yield SlotClaim(subject=USER_SUBJECT, slot="birthday", value=f"{now.day} {now:%B}", span=span)

    def _read_own(
        self, kind: str, typed: Mapping[str, str], words: str, dates: Sequence[SaidDate], span: tuple[int, int]
    ) -> Iterator[SlotClaim]:
        """Values of the user's own slots. `kind` are the flags of the phrase."""
        is_over, is_planned = kind in ("over", "plan-over"), kind in ("plan", "plan-over")
        is_change = kind == "change" or (kind == "now" and NOW.search(words) is not None)
        for slot, value in typed.items():
            yield SlotClaim(
                subject=USER_SUBJECT,
                slot=slot,
                value=value,
                operation="over" if is_over else "is",
                tense="planned" if is_planned else "current",
                mark="change" if is_change else "",
                until=dates[0].moment if is_over and dates else None,
                span=span,
            )

    def _read_thing(self, kind: str, typed: Mapping[str, str], span: tuple[int, int]) -> Iterator[SlotClaim]:
        """What a thing is or which version it has: the one that is named, else the one spoken of last."""
        if kind == "thing":
            self.talk.last_thing = typed["thing"]
            return
        owner = typed.get("thing") or self.talk.last_thing
        if kind == "the":
            slot, value = f"the:{typed['key']}", typed["the"]
            yield SlotClaim(subject=owner or THING_SUBJECT, slot=slot, value=value, span=span)
        elif owner:
            slot = f"version:{typed['product']}"
            mark: Mark = "change" if kind == "version" else ""
            yield SlotClaim(subject=owner, slot=slot, value=typed["version"], mark=mark, span=span)

    def _read_event(
        self, kind: str, typed: Mapping[str, str], sentence: PlainSentence, span: tuple[int, int], now: datetime
    ) -> Iterator[SlotClaim]:
        when = parse_date(typed["when"].lower(), now)
        if kind == "flight":
            subject, slot = USER_SUBJECT, f"flight:{typed['place']}"
            value = ", ".join(part for part in (typed["when"], typed.get("code", "").upper()) if part)
        elif kind == "event-correct":
            if self.talk.last_event is None:
                return
            subject, slot = self.talk.last_event
            value = typed["when"]
        else:
            is_mine = re.match(
                r"(?:my|our)\b", sentence.plain[max(0, sentence.plain.find(typed["event"].lower()) - 4) :].lstrip()
            )
            subject = USER_SUBJECT if is_mine else typed.get("thing") or self.talk.last_thing or THING_SUBJECT
            slot, value = f"date:{typed['event'].lower()}", typed["when"]
        self.talk.last_event = (subject, slot)
        mark: Mark = "correct" if kind == "event-correct" else ""
        yield SlotClaim(subject=subject, slot=slot, value=value, tense="planned", mark=mark, since=when, span=span)


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


def _is_whole_taste(plain: str, found: re.Match[str], value: str, reading: VerbReading) -> bool:
    """Whether a liking runs to the end of its clause: neither "films that make me laugh" nor "going on trips"."""
    is_whole = CLAUSE_END.match(plain, found.end()) is not None
    return is_whole and reading.tense == "current" and PRONOUN_INSIDE.search(value.lower()) is None


def _read_verb(frame: Frame, found: re.Match[str], clause: str, date: SaidDate | None) -> VerbReading | None:
    words = f"{found['words']} {found['after'] or ''}".strip()
    if frame.kind == "plan":
        return VerbReading("planned")
    if frame.kind == "ended":
        return VerbReading(operation="over")
    has_future = date is not None and date.is_future
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


def _interval(reading: VerbReading, date: SaidDate | None) -> tuple[datetime | None, datetime | None]:
    if date is None:
        return None, None
    if reading.operation == "over":
        return None, date.moment
    if reading.tense == "past":
        return (None, date.moment) if date.is_until else (None, None)
    return (None, date.moment) if date.is_until else (date.moment, None)


def _split_values(claim: SlotClaim) -> Iterator[SlotClaim]:
    """One claim for each value of a list, in slots that take several."""
    if claim.slot not in ("allergies", "likes", "dislikes", "languages"):
        yield claim
        return
    for part in re.split(r",| and | or ", claim.value):
        if part.strip():
            yield replace(claim, value=part.strip())


def _get_typed(sentence: PlainSentence, found: re.Match[str], group: str) -> str:
    if not found[group]:
        return ""
    text = sentence.get_typed(*found.span(group)).strip(" ,.;:!")
    return re.sub(r"^(?:the|The) (?=\w)", "", text)


def _skip_space(plain: str, at: int) -> int:
    while at < len(plain) and plain[at] in " ,":
        at += 1
    return at


def _cut(sentence: PlainSentence, spans: Iterable[tuple[int, int]]) -> PlainSentence:
    """The sentence without these stretches."""
    plain, offsets, at = "", list[tuple[int, int]](), 0
    for start, end in spans:
        plain += sentence.plain[at:start]
        offsets += sentence.offsets[at:start]
        at = end
    return replace(sentence, plain=plain + sentence.plain[at:], offsets=(*offsets, *sentence.offsets[at:]))
