"""From a statement with its subject ("We went to a zoo") to what it says, in the tense that its time asks for."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime, timedelta

from agentmem.extraction.rules import patterns
from agentmem.extraction.rules.readings import NAME, Reading
from agentmem.extraction.rules.times import Time
from agentmem.extraction.rules.voice import stands_alone, third

_OLD_MOVE = timedelta(days=60)
"""After so long a move no longer tells where somebody lives now."""

_ADVERB = re.compile(
    r"(?:just|recently|also|even|actually|finally|totally|officially|already|honestly|personally|now|lately|proudly|"
    r"then|"
    r"all|both|first|once|eventually|accidentally|slowly|typically|really)\s+",
    re.IGNORECASE,
)
_WITH_OTHER = re.compile(
    rf"(?:(?i:my|our) (?P<mine>(?:[a-z-]+ ){{0,2}}[a-z-]+(?: {NAME})?)|(?P<name>(?!My\b|Our\b|Me\b){NAME})) and I\s+"
)
_MINE = re.compile(r"(?:my|our|call me)\b", re.IGNORECASE)
_MYSELF = re.compile(
    r"(?P<who>I|We)(?P<am>['\u2019](?:m|re))?(?P<have>['\u2019]ve)?\s+(?P<rest>.+)$", re.IGNORECASE | re.DOTALL
)
_AUXILIARY = re.compile(r"(am|are|have|was|were)\s+", re.IGNORECASE)
_PLANNED = re.compile(r"am (?P<doing>(?!planning|thinking|hoping|going|looking)\w+ing) (?P<rest>.+)$")
_LIVED = re.compile(r"have lived in (?P<rest>[A-Z].*)$")
_NOT_TOGETHER = frozenset({"status", "age", "name", "job"})  # what "we" are is not what each of us is


def reading_of(text: str, time: Time, now: datetime | None) -> Reading | None:
    """What a statement says, with the tense that its time asks for; None where no rule fits, or the two contradict."""
    reading = _reading(_with_subject(text), time)
    return None if reading is None else _in_time(reading, time, now)


def _reading(text: str, time: Time) -> Reading | None:
    if found := _WITH_OTHER.match(text):
        reading = patterns.read(_plain(text[found.end() :]))
        other = f"their {found['mine']}" if found["mine"] else found["name"]
        done = reading and (reading.tense == "past" or reading.says.startswith("moved"))
        return replace(reading, subject=f"+{other}") if reading and done else None
    if _MINE.match(text):
        return patterns.of_mine(text)
    myself = _MYSELF.match(text)
    if not myself:
        return None
    statement = _plain(("am " if myself["am"] else "have " if myself["have"] else "") + myself["rest"])
    if time.tense == "future" and (planned := _PLANNED.match(statement)):
        says = f"is {planned['doing']} {third(planned['rest'])}"
        return Reading("plan", says, "future") if stands_alone(planned["rest"]) else None
    if lived := _LIVED.match(statement):
        still = time.words.startswith(("for ", "since ")) and stands_alone(lived["rest"])
        return Reading("home", f"has lived in {third(lived['rest'])}", "current", slot="home") if still else None
    reading = patterns.read(statement)
    together = myself["who"].lower() == "we"
    return None if reading and together and reading.rule in _NOT_TOGETHER else reading


def _with_subject(text: str) -> str:
    """A statement that leaves its subject out, such as "Been reading a novel", with it."""
    if text.startswith("Been "):
        return f"I have b{text[1:]}"
    if text.startswith("Gonna "):
        return f"I am g{text[1:]}"
    first = text.split(" ", 1)[0]
    return f"I {first.lower()}{text[len(first) :]}" if patterns.is_past(first.lower()) else text


def _plain(statement: str) -> str:
    """Without adverbs that change nothing, and with the verbs of "I" for those of "we"."""
    found, head = _AUXILIARY.match(statement), ""
    if found:
        verb = found[1].lower()
        head, statement = {"are": "am ", "were": "was "}.get(verb, f"{verb} "), statement[found.end() :]
    while adverb := _ADVERB.match(statement):
        statement = statement[adverb.end() :]
    return head + statement


def _in_time(reading: Reading, time: Time, now: datetime | None) -> Reading | None:
    """The reading with the tense that the stated time asks for; None when the two contradict each other."""
    if reading.rule == "home" and reading.says.startswith("moved") and time.begins and now:
        return replace(reading, tense="past", slot="") if now - time.begins > _OLD_MOVE else reading
    if reading.tense == "current" and time.tense == "future" and reading.rule == "ongoing":
        return replace(reading, tense="future")
    if time.tense and reading.tense != time.tense and "past" in (reading.tense, time.tense):
        return None
    return None if (reading.tense, time.tense) == ("current", "future") else reading
