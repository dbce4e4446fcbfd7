"""Phrases that say a slot whatever stands around them, and the things and events that are spoken of."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from agentmem.beliefs.belief import Mark, Need
from agentmem.beliefs.slots import THING_SUBJECT, USER_SUBJECT
from agentmem.extraction.frames.dates import SaidDate, find_dates, parse_date
from agentmem.extraction.frames.frame_set import Frame, FrameSet, load_frames, load_markers
from agentmem.extraction.frames.people import PeopleReader
from agentmem.extraction.frames.plain_text import PlainSentence
from agentmem.extraction.frames.slot_claim import SlotClaim
from agentmem.extraction.frames.words import HELPERS, NEGATED_BEFORE, NOW, REPORTED

_LIST_JOINT = re.compile(r",? (?:and|or|und|oder|et|ou|y|o|e) |,", re.IGNORECASE)
_PARTLY = re.compile(
    r"(?:some|a bit of|a little|etwas|ein bisschen|ein wenig|algo de|un poco de|un peu|um pouco de|las?|los?|el) ",
    re.IGNORECASE,
)


class PhraseReader:
    """Reads the phrases of every language; English alone has things of the user's ("my rent is")."""

    def __init__(self, frames: FrameSet, people: PeopleReader, day_first: bool | None = None) -> None:
        self.english, self.people, self.talk, self.day_first = frames, people, people.talk, day_first

    def read(self, sentence: PlainSentence, now: datetime) -> Iterator[SlotClaim]:
        """The claims of a sentence."""
        for frame in self.english.things:
            for found in frame.pattern.finditer(sentence.plain):
                (*keys, fill) = frame.fills
                slot = frame.kind.format(**{key.slot: found[key.group] for key in keys})
                is_new = " new " in found[0][:10]
                yield SlotClaim(
                    subject=USER_SUBJECT,
                    slot=slot,
                    value=get_typed_value(sentence, found, fill.group),
                    mark="change" if is_new else "",
                    span=sentence.span(*found.span()),
                )
        others = [name for name, words in load_markers().items() if words.search(sentence.plain)]
        events = list[tuple[int, int]]()
        for frames in (self.english, *map(load_frames, others)):
            for frame in frames.phrases:
                for found in frame.pattern.finditer(sentence.plain):
                    if self._is_said(frame, found, sentence, events):
                        yield from self._read_values(frames, frame, found, sentence, now)

    def _is_said(
        self, frame: Frame, found: re.Match[str], sentence: PlainSentence, events: list[tuple[int, int]]
    ) -> bool:
        """Whether the words before a phrase leave it standing, and no other frame took its event. Notes its event."""
        if frame.kind.startswith(("event", "flight")):
            if any(start < found.end() and found.start() < end for start, end in events):
                return False
            events.append(found.span())
        negated = frame.kind != "over" and NEGATED_BEFORE.search(sentence.plain, 0, found.start())
        return not negated and not REPORTED.search(sentence.plain, 0, found.start())

    def _read_values(
        self, frames: FrameSet, frame: Frame, found: re.Match[str], sentence: PlainSentence, now: datetime
    ) -> Iterator[SlotClaim]:
        for claim in self._read_phrase(frames, frame, found, sentence, now):
            for part in split_values(claim):
                yield replace(part, value=frames.language_names.get(part.value.casefold(), part.value))

    def _read_phrase(
        self, frames: FrameSet, frame: Frame, found: re.Match[str], sentence: PlainSentence, now: datetime
    ) -> Iterator[SlotClaim]:
        typed = {
            fill.slot: fill.value or (get_typed_value(sentence, found, fill.group) if fill.group else "")
            for fill in frame.fills
            if not fill.is_weak
        }
        typed = {
            name: value for name, value in typed.items() if value or (frame.kind == "over" and name not in HELPERS)
        }
        subject = self.people.find_who(sentence, found, frames)
        if not subject:
            return
        span = sentence.span(*found.span())
        named = next((fill.group for fill in frame.fills if fill.group and not fill.is_weak), "")
        is_proper = sentence.is_capitalized(found.start(named)) if named else True
        if not is_proper and (frame.kind == "capitalized" or (frame.kind == "proper" and sentence.has_capitals)):
            return
        if frame.kind == "theirs":
            owner = self.people.find_whose(found["whose"])
            values = self._read_own("", typed, found[0], ()) if owner else ()
            yield from (replace(claim, subject=owner, span=span) for claim in values)
        elif frame.kind == "kin":
            yield from self._read_kin(frames, frame, found, sentence)
        elif frame.kind in ("the", "thing", "tool", "version", "version-it", "version-own", "version-new"):
            yield from self._read_thing(frame.kind, typed, span)
        elif frame.kind.startswith(("event", "flight")):
            yield from self._read_event(frame.kind, typed, found.groupdict().get("whose") or "", span, now)
        elif frame.template:
            slot, _, pattern = frame.template.partition("=")
            value = pattern.format(*typed.values())
            yield SlotClaim(subject=subject, slot=slot, value=value, span=span)
        elif frame.kind != "skip":
            dates = find_dates(sentence.plain, now, day_first=self.day_first)
            for claim in self._read_own(frame.kind, typed, found[0], dates):
                needs: Need = "known" if any(fill.needs_known for fill in frame.fills) else ""
                yield replace(claim, subject=subject, needs=needs, span=span)
            if "birthday today" in found[0]:
                yield SlotClaim(subject=USER_SUBJECT, slot="birthday", value=f"{now.day} {now:%B}", span=span)

    def _read_kin(
        self, frames: FrameSet, frame: Frame, found: re.Match[str], sentence: PlainSentence
    ) -> Iterator[SlotClaim]:
        """ "Mi hermana (se llama) Ana": who is what to the user."""
        noun, name = (fill.group for fill in frame.fills)
        if self.people.is_name(sentence, found.start(name), found[name]):
            person, end = self.people.trim_name(sentence, found.start(name), found[name])
            yield from self.people.relate(frames, found[noun], person, sentence, (found.start(), end), is_new=False)

    def _read_own(
        self, kind: str, typed: Mapping[str, str], words: str, dates: Sequence[SaidDate]
    ) -> Iterator[SlotClaim]:
        """Values of slots. `kind` are the flags of the phrase."""
        future = next((date.moment for date in dates if date.is_future), None)
        is_over, is_planned = kind in ("over", "plan-over"), kind in ("plan", "plan-over")
        is_change = kind == "change" or (kind == "now" and NOW.search(words) is not None)
        if kind == "change" and future is not None:
            is_planned, is_change = True, False
        told = next((date for date in dates if date.is_since or (kind == "change" and not date.is_until)), None)
        since = future if is_planned else told.moment if told else None
        for slot, value in typed.items():
            yield SlotClaim(
                subject=USER_SUBJECT,
                slot=slot,
                value=value,
                operation="over" if is_over else "deny" if kind == "deny" else "is",
                tense="planned" if is_planned else "current",
                mark="change" if is_change else "",
                since=None if is_over else since,
                until=dates[0].moment if is_over and dates else None,
            )

    def _read_thing(self, kind: str, typed: Mapping[str, str], span: tuple[int, int]) -> Iterator[SlotClaim]:
        """What a thing is or which version it has: the one that is named, else the one spoken of last."""
        if kind == "thing":
            self.talk.last_thing = typed["thing"]
            return
        if kind == "tool":
            yield SlotClaim(subject=USER_SUBJECT, slot=f"tool:{typed['key']}", value=typed["tool"], span=span)
            return
        owner = THING_SUBJECT if kind in ("version-own", "version-new") else typed.get("thing") or self.talk.last_thing
        if kind == "the":
            slot, value = f"the:{typed['key']}", typed["the"]
            yield SlotClaim(subject=owner or THING_SUBJECT, slot=slot, value=value, span=span)
        elif owner:
            slot = f"version:{typed['product']}"
            mark: Mark = "change" if kind in ("version", "version-new") else ""
            yield SlotClaim(subject=owner, slot=slot, value=typed["version"], mark=mark, span=span)

    def _read_event(
        self, kind: str, typed: Mapping[str, str], owner: str, span: tuple[int, int], now: datetime
    ) -> Iterator[SlotClaim]:
        if kind.endswith("-over"):
            slot = f"flight:{typed['place']}" if "place" in typed else f"date:{typed['event'].lower()}"
            subject = USER_SUBJECT if kind in ("flight-over", "event-mine-over") else THING_SUBJECT
            yield SlotClaim(subject=subject, slot=slot, tense="planned", operation="over", span=span)
            return
        when = parse_date(typed["when"].lower(), now)
        if kind == "flight":
            subject, slot = USER_SUBJECT, f"flight:{typed['place']}"
            value = ", ".join(part for part in (typed["when"], typed.get("code", "").upper()) if part)
        elif kind == "flight-moved":
            is_last = self.talk.last_event is not None and self.talk.last_event[1].startswith("flight:")
            subject, slot = self.talk.last_event if is_last and self.talk.last_event else (USER_SUBJECT, "flight:?")
            value = typed["when"]
        elif kind in ("event-correct", "event-again"):
            if self.talk.last_event is None:
                return
            subject, slot = self.talk.last_event
            value = typed["when"]
        else:
            whose = self.people.find_whose(owner) if kind == "event-theirs" else ""
            if kind == "event-theirs" and not whose:
                return
            thing = (typed.get("thing") or self.talk.last_thing) if kind == "event-thing" else ""
            subject = USER_SUBJECT if kind == "event-mine" else whose or thing or THING_SUBJECT
            slot, value = f"date:{typed['event'].lower()}", typed["when"]
        self.talk.last_event = (subject, slot)
        mark: Mark = "correct" if kind == "event-correct" else ""  # one that moved was right before
        yield SlotClaim(subject=subject, slot=slot, value=value, tense="planned", mark=mark, since=when, span=span)


def get_typed_value(sentence: PlainSentence, found: re.Match[str], group: str) -> str:
    """The words of a group as they were typed, without an article before and stops around; "" where it is not there."""
    if not found[group]:
        return ""
    text = sentence.get_typed(*found.span(group)).strip(" ,.;:!")
    return re.sub(r"^(?:the|The) (?=\w)", "", text)


def split_values(claim: SlotClaim) -> Iterator[SlotClaim]:
    """One claim for each value of a list, in slots that take several."""
    if claim.slot not in ("allergies", "likes", "dislikes", "languages"):
        yield claim
        return
    for part in _LIST_JOINT.split(claim.value):
        if value := _PARTLY.sub("", part.strip()):
            yield replace(claim, value=value)
