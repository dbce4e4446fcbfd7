"""Readings: what the rules make of a statement in the first person once its pattern fits."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from agentmem.extraction.rules import verbs
from agentmem.extraction.rules.third_person import conjugate_third_person, is_standalone, to_third_person

NAME_PATTERN = r"\b[A-Z]\w{1,40}(?:[ '\u2019-][A-Z]\w{1,40}){0,3}"


@dataclass(frozen=True, slots=True)
class StatementReading:
    """What a rule made of a statement: the claim without its subject, and what is known of it besides.

    `slot` names what a subject has only one of, such as a home. `denied_predicate` is what a negated claim denies.
    `subject` is who is meant where that is not the speaker alone: "'s" for something of theirs, "+" and a name for them
    and another.
    """

    rule: str
    predicate: str
    tense: str
    slot: str = ""
    memory_type: str = "fact"
    negated: bool = False
    denied_predicate: str = ""
    subject: str = ""


ReadingParser = Callable[[re.Match[str]], StatementReading | None]

_VERB_CONJUNCTION = re.compile(
    r" and (?=(?:keep|train|use|go|do|make|try|get|take|read|write|play|love|like|have|enjoy)\b)"
)
_WEEKDAY = re.compile(r"(?:mon|tues|wednes|thurs|fri|satur|sun)days?\b", re.IGNORECASE)
_PLAIN_OBJECT = re.compile(
    r"(?:an?|my|our|some|two|three|four|five|[A-Z]\w|with|for|at|in|camping|hiking|to [A-Z]|\w+s)\b ?"
)
_NOT_ONGOING = re.compile(
    r"(?i:mostly|well|good|great|okay|ok|fine|better|my best|our best|hard|the best|alright|on the|sure|progress)\b"
)
_EMPTY_ACTIVITY = re.compile(r"(?:to (?:be|stay|keep|make|get|find|figure|stick)|the|sense|some)\b")
_LIGHT_VERBS = frozenset({"trying", "making", "doing", "seeing", "using", "taking"})
_NOT_HABITUAL = re.compile(
    r"(?:a (?:big |huge |major )?(?:role|part)|the|out|into|on|up|away|off|down|for|by|as|through|well|hard)\b"
)
_SIMPLE_PAST = {
    "seen": "saw",
    "done": "did",
    "taken": "took",
    "given": "gave",
    "become": "became",
    "gone": "went",
    "run": "ran",
}


def build_statement_parser(
    rule: str, tense: str, predicate: str, *, memory_type: str = "fact", excluded: str = "", required: str = ""
) -> ReadingParser:
    """A rule whose claim is `predicate` and the object, unless that begins with `excluded` or not with `required`.

    In `predicate`, `{said}` and `{verb}` are the pattern's groups of these names, the verb in the third person. A claim
    that begins with "has never" denies.
    """
    no, yes = re.compile(excluded or r"(?!)"), re.compile(required)

    def make(found: re.Match[str]) -> StatementReading | None:
        rest, groups = found["rest"].strip(), found.groupdict()
        if not is_standalone(rest) or no.match(rest) or not yes.match(rest):
            return None
        claim = predicate.format(verb=conjugate_third_person(groups.get("verb") or ""), said=groups.get("said") or "")
        return StatementReading(
            rule,
            f"{claim} {to_third_person(rest)}",
            tense,
            memory_type=memory_type,
            negated=claim.startswith("has never"),
        )

    return make


def build_slot_parser(rule: str, predicate: str, required: str = "") -> ReadingParser:
    """A rule for what a subject has only one of."""
    plain = build_statement_parser(rule, "current", predicate, required=required)

    def make(found: re.Match[str]) -> StatementReading | None:
        reading = plain(found)
        return None if reading is None else StatementReading(rule, reading.predicate, "current", slot=rule)

    return make


def build_past_parser(rule: str) -> ReadingParser:
    """A rule for what was done once; its verb decides which objects make a claim."""

    def make(found: re.Match[str]) -> StatementReading | None:
        verb, rest = found["verb"].lower(), found["rest"].strip()
        wanted = verbs.OBJECTS_BY_VERB.get(verb)
        if not rest and not (verb in verbs.INTRANSITIVE_VERBS or verb.endswith("ing")):
            return None
        if rest and ((wanted and not wanted.match(rest)) or rest.startswith("by ") or not is_standalone(rest)):
            return None
        return StatementReading(rule, f"{verb} {to_third_person(rest)}".strip(), "past")

    return make


def parse_perfect(match: re.Match[str]) -> StatementReading | None:
    """ "Have seen", with the objects that "saw" may have."""
    rest, verb = match["rest"].strip(), match["verb"]
    wanted = verbs.OBJECTS_BY_VERB.get(_SIMPLE_PAST.get(verb, verb)) or _PLAIN_OBJECT
    if not is_standalone(rest) or not wanted.match(rest):
        return None
    return StatementReading("perfect", f"has {verb} {to_third_person(rest)}", "past")


def parse_ongoing(match: re.Match[str]) -> StatementReading | None:
    """What goes on for a while."""
    rest, doing = match["rest"].strip(), match["doing"].lower()
    if not is_standalone(rest) or _NOT_ONGOING.match(rest) or (doing in _LIGHT_VERBS and _EMPTY_ACTIVITY.match(rest)):
        return None
    has = "has been" if match[0].lower().startswith("have been") else "is"
    return StatementReading("ongoing", f"{has} {doing} {to_third_person(rest)}", "current")


def parse_habit(match: re.Match[str]) -> StatementReading | None:
    """What is done as a rule, as often as is said."""
    rest, verb = match["rest"].strip(), match["verb"].lower()
    if (_NOT_HABITUAL.match(rest) and not (verb == "play" and re.fullmatch(r"the \w+", rest))) or not is_standalone(
        rest
    ):
        return None
    rest = _VERB_CONJUNCTION.split(rest)[0]
    if rest.startswith("and "):
        return None
    often = (match.groupdict().get("often") or "").strip()
    return StatementReading(
        "habit", f"{often} {conjugate_third_person(verb)} {to_third_person(rest)}".strip(), "current"
    )


def parse_favorite(match: re.Match[str]) -> StatementReading | None:
    """ "My favorite X is Y"; there is one Y for each X."""
    value, what = match["rest"].strip(), to_third_person(match["what"].strip())
    value = re.sub(r"^(?:definitely|probably|still|now) ", "", value)
    if not is_standalone(value) or not is_standalone(what) or re.match(r"(?:when|the way|to see|always|from)\b", value):
        return None
    says = f"favourite {what} is {to_third_person(value)}"
    return StatementReading("favourite", says, "current", f"favourite {what.lower()}", "preference", subject="'s")


def parse_dislike(match: re.Match[str]) -> StatementReading | None:
    """ "Don't like", "can't stand"."""
    rest, verb = match["rest"].strip(), match["verb"].lower().replace("\u2019", "'")
    if not is_standalone(rest) or re.match(r"(?:the|to|being)\b", rest):
        return None
    negation, _, plain = verb.rpartition(" ")
    habitual = negation in ("don't", "do not")
    says = f"{'does not' if habitual else 'cannot'} {plain} {to_third_person(rest)}"
    positive = f"{conjugate_third_person(plain)} {to_third_person(rest)}" if habitual else ""
    return StatementReading(
        "dislike", says, "current", memory_type="preference", negated=True, denied_predicate=positive
    )


def parse_no_longer(match: re.Match[str]) -> StatementReading | None:
    """What is over: the claim denies it, and the fact that stated it has come to its end."""
    says = _parse_ended(match)
    return (
        None
        if says is None
        else StatementReading("no_longer", f"no longer {says}", "current", negated=True, denied_predicate=says)
    )


def parse_used_to(match: re.Match[str]) -> StatementReading | None:
    """What was so once."""
    says, was = _parse_ended(match), f"{match['verb'].lower()} {to_third_person(match['rest'].strip())}".strip()
    return None if says is None else StatementReading("used_to", f"used to {was}", "past", denied_predicate=says)


def _parse_ended(match: re.Match[str]) -> str | None:
    rest, verb = match["rest"].strip(), match["verb"].lower()
    if not is_standalone(f"{verb} {rest}") or (verb == "be" and not rest):
        return None
    return f"{conjugate_third_person(verb)} {to_third_person(rest)}".strip()


def parse_stopped(match: re.Match[str]) -> StatementReading | None:
    """ "Stopped smoking": an end, and it was so before."""
    rest, verb = match["rest"].strip(), match["verb"].lower()
    if not is_standalone(rest) or rest.startswith(("by ", "at ", "to ")):
        return None
    return StatementReading(
        "stopped", f"{verb} {to_third_person(rest)}", "past", denied_predicate=to_third_person(rest)
    )


def parse_health(match: re.Match[str]) -> StatementReading | None:
    """Allergies and diets."""
    what, rest = match["what"].lower(), match["rest"].strip()
    if what.endswith((" to", " of")) != bool(rest) or (rest and not is_standalone(rest)) or _WEEKDAY.match(rest):
        return None
    return StatementReading("health", f"is {what} {to_third_person(rest)}".strip(), "current")


def parse_status(match: re.Match[str]) -> StatementReading | None:
    """Married, retired and the like."""
    who = match["who"]
    if who and not is_standalone(who):
        return None
    return StatementReading(
        "status", f"is {match['rest'].lower()}" + (f" to {to_third_person(who)}" if who else ""), "current"
    )
