"""From a statement with its subject ("We went to a zoo") to what it says, in the tense that its time asks for."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime, timedelta

from agentmem.extraction.rules import patterns
from agentmem.extraction.rules.readings import NAME_PATTERN, StatementReading
from agentmem.extraction.rules.times import StatedTime
from agentmem.extraction.rules.voice import is_standalone, to_third_person

_MAX_MOVE_AGE = timedelta(days=60)
"""After so long a move no longer tells where somebody lives now."""

_ADVERB = re.compile(
    r"(?:just|recently|also|even|actually|finally|totally|officially|already|honestly|personally|now|lately|proudly|"
    r"then|"
    r"all|both|first|once|eventually|accidentally|slowly|typically|really)\s+",
    re.IGNORECASE,
)
_COORDINATED_SUBJECT = re.compile(
    rf"(?:(?i:my|our) (?P<mine>(?:[a-z-]+ ){{0,2}}[a-z-]+(?: {NAME_PATTERN})?)|(?P<name>(?!My\b|Our\b|"
    rf"Me\b){NAME_PATTERN})) and I\s+"
)
_POSSESSIVE = re.compile(r"(?:my|our|call me)\b", re.IGNORECASE)
_FIRST_PERSON = re.compile(
    r"(?P<who>I|We)(?P<am>['\u2019](?:m|re))?(?P<have>['\u2019]ve)?\s+(?P<rest>.+)$", re.IGNORECASE | re.DOTALL
)
_AUXILIARY = re.compile(r"(am|are|have|was|were)\s+", re.IGNORECASE)
_PLANNED = re.compile(r"am (?P<doing>(?!planning|thinking|hoping|going|looking)\w+ing) (?P<rest>.+)$")
_LIVED = re.compile(r"have lived in (?P<rest>[A-Z].*)$")
_SINGULAR_RULES = frozenset({"status", "age", "name", "job"})  # what "we" are is not what each of us is


def parse_reading(text: str, time: StatedTime, now: datetime | None) -> StatementReading | None:
    """What a statement says, with the tense that its time asks for; None where no rule fits, or the two contradict."""
    reading = _match_reading(_restore_subject(text), time)
    return None if reading is None else _apply_tense(reading, time, now)


def _match_reading(text: str, time: StatedTime) -> StatementReading | None:
    if found := _COORDINATED_SUBJECT.match(text):
        reading = patterns.match_statement(_strip_adverbs(text[found.end() :]))
        other = f"their {found['mine']}" if found["mine"] else found["name"]
        done = reading and (reading.tense == "past" or reading.predicate.startswith("moved"))
        return replace(reading, subject=f"+{other}") if reading and done else None
    if _POSSESSIVE.match(text):
        return patterns.match_possessive(text)
    myself = _FIRST_PERSON.match(text)
    if not myself:
        return None
    statement = _strip_adverbs(("am " if myself["am"] else "have " if myself["have"] else "") + myself["rest"])
    if time.tense == "future" and (planned := _PLANNED.match(statement)):
        says = f"is {planned['doing']} {to_third_person(planned['rest'])}"
        return StatementReading("plan", says, "future") if is_standalone(planned["rest"]) else None
    if lived := _LIVED.match(statement):
        still = time.phrase.startswith(("for ", "since ")) and is_standalone(lived["rest"])
        return (
            StatementReading("home", f"has lived in {to_third_person(lived['rest'])}", "current", slot="home")
            if still
            else None
        )
    reading = patterns.match_statement(statement)
    together = myself["who"].lower() == "we"
    return None if reading and together and reading.rule in _SINGULAR_RULES else reading


def _restore_subject(text: str) -> str:
    """A statement that leaves its subject out, such as "Been reading a novel", with it."""
    if text.startswith("Been "):
        return f"I have b{text[1:]}"
    if text.startswith("Gonna "):
        return f"I am g{text[1:]}"
    first = text.split(" ", 1)[0]
    return f"I {first.lower()}{text[len(first) :]}" if patterns.is_past(first.lower()) else text


def _strip_adverbs(statement: str) -> str:
    """Without adverbs that change nothing, and with the verbs of "I" for those of "we"."""
    found, head = _AUXILIARY.match(statement), ""
    if found:
        verb = found[1].lower()
        head, statement = {"are": "am ", "were": "was "}.get(verb, f"{verb} "), statement[found.end() :]
    while adverb := _ADVERB.match(statement):
        statement = statement[adverb.end() :]
    return head + statement


def _apply_tense(reading: StatementReading, time: StatedTime, now: datetime | None) -> StatementReading | None:
    """The reading with the tense that the stated time asks for; None when the two contradict each other."""
    if reading.rule == "home" and reading.predicate.startswith("moved") and time.start and now:
        return replace(reading, tense="past", slot="") if now - time.start > _MAX_MOVE_AGE else reading
    if reading.tense == "current" and time.tense == "future" and reading.rule == "ongoing":
        return replace(reading, tense="future")
    if time.tense and reading.tense != time.tense and "past" in (reading.tense, time.tense):
        return None
    return None if (reading.tense, time.tense) == ("current", "future") else reading
