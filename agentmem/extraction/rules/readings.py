"""Readings: what the rules make of a statement in the first person once its pattern fits."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from agentmem.extraction.rules import verbs
from agentmem.extraction.rules.voice import stands_alone, third, third_verb

NAME = r"\b[A-Z]\w{1,40}(?:[ '\u2019-][A-Z]\w{1,40}){0,3}"


@dataclass(frozen=True, slots=True)
class Reading:
    """What a rule made of a statement: the claim without its subject, and what is known of it besides.

    `slot` names what a subject has only one of, such as a home. `positive` is what a negated claim denies. `subject` is
    who is meant where that is not the speaker alone: "'s" for something of theirs, "+" and a name for them and another.
    """

    rule: str
    says: str
    tense: str
    slot: str = ""
    kind: str = "fact"
    negated: bool = False
    positive: str = ""
    subject: str = ""


Maker = Callable[[re.Match[str]], Reading | None]

_VERBS_ON = re.compile(r" and (?=(?:keep|train|use|go|do|make|try|get|take|read|write|play|love|like|have|enjoy)\b)")
_WEEKDAY = re.compile(r"(?:mon|tues|wednes|thurs|fri|satur|sun)days?\b", re.IGNORECASE)
_PLAIN_OBJECT = re.compile(
    r"(?:an?|my|our|some|two|three|four|five|[A-Z]\w|with|for|at|in|camping|hiking|to [A-Z]|\w+s)\b ?"
)
_NOT_ONGOING = re.compile(
    r"(?i:mostly|well|good|great|okay|ok|fine|better|my best|our best|hard|the best|alright|on the|sure|progress)\b"
)
_NOT_DOING = re.compile(r"(?:to (?:be|stay|keep|make|get|find|figure|stick)|the|sense|some)\b")
_LIGHT = frozenset({"trying", "making", "doing", "seeing", "using", "taking"})
_NO_HABIT = re.compile(
    r"(?:a (?:big |huge |major )?(?:role|part)|the|out|into|on|up|away|off|down|for|by|as|through|well|hard)\b"
)
_SIMPLE_PAST = {
    "seen": "saw", "done": "did", "taken": "took", "given": "gave", "become": "became", "gone": "went", "run": "ran",
}  # fmt: skip


def stated(rule: str, tense: str, says: str, *, kind: str = "fact", refused: str = "", wanted: str = "") -> Maker:
    """A rule whose claim is `says` and the object, unless that begins with `refused` or not with `wanted`.

    In `says`, `{said}` and `{verb}` are the pattern's groups of these names, the verb in the third person. A claim that
    begins with "has never" denies.
    """
    no, yes = re.compile(refused or r"(?!)"), re.compile(wanted)

    def make(found: re.Match[str]) -> Reading | None:
        rest, groups = found["rest"].strip(), found.groupdict()
        if not stands_alone(rest) or no.match(rest) or not yes.match(rest):
            return None
        claim = says.format(verb=third_verb(groups.get("verb") or ""), said=groups.get("said") or "")
        return Reading(rule, f"{claim} {third(rest)}", tense, kind=kind, negated=claim.startswith("has never"))

    return make


def in_slot(rule: str, says: str, wanted: str = "") -> Maker:
    """A rule for what a subject has only one of."""
    plain = stated(rule, "current", says, wanted=wanted)

    def make(found: re.Match[str]) -> Reading | None:
        reading = plain(found)
        return None if reading is None else Reading(rule, reading.says, "current", slot=rule)

    return make


def past(rule: str) -> Maker:
    """A rule for what was done once; its verb decides which objects make a claim."""

    def make(found: re.Match[str]) -> Reading | None:
        verb, rest = found["verb"].lower(), found["rest"].strip()
        wanted = verbs.OBJECTS.get(verb)
        if not rest and not (verb in verbs.ALONE or verb.endswith("ing")):
            return None
        if rest and ((wanted and not wanted.match(rest)) or rest.startswith("by ") or not stands_alone(rest)):
            return None
        return Reading(rule, f"{verb} {third(rest)}".strip(), "past")

    return make


def perfect(found: re.Match[str]) -> Reading | None:
    """ "Have seen", with the objects that "saw" may have."""
    rest, verb = found["rest"].strip(), found["verb"]
    wanted = verbs.OBJECTS.get(_SIMPLE_PAST.get(verb, verb)) or _PLAIN_OBJECT
    if not stands_alone(rest) or not wanted.match(rest):
        return None
    return Reading("perfect", f"has {verb} {third(rest)}", "past")


def ongoing(found: re.Match[str]) -> Reading | None:
    """What goes on for a while."""
    rest, doing = found["rest"].strip(), found["doing"].lower()
    if not stands_alone(rest) or _NOT_ONGOING.match(rest) or (doing in _LIGHT and _NOT_DOING.match(rest)):
        return None
    has = "has been" if found[0].lower().startswith("have been") else "is"
    return Reading("ongoing", f"{has} {doing} {third(rest)}", "current")


def habit(found: re.Match[str]) -> Reading | None:
    """What is done as a rule, as often as is said."""
    rest, verb = found["rest"].strip(), found["verb"].lower()
    if (_NO_HABIT.match(rest) and not (verb == "play" and re.fullmatch(r"the \w+", rest))) or not stands_alone(rest):
        return None
    rest = _VERBS_ON.split(rest)[0]
    if rest.startswith("and "):
        return None
    often = (found.groupdict().get("often") or "").strip()
    return Reading("habit", f"{often} {third_verb(verb)} {third(rest)}".strip(), "current")


def favourite(found: re.Match[str]) -> Reading | None:
    """ "My favourite X is Y"; there is one Y for each X."""
    value, what = found["rest"].strip(), third(found["what"].strip())
    value = re.sub(r"^(?:definitely|probably|still|now) ", "", value)
    if not stands_alone(value) or not stands_alone(what) or re.match(r"(?:when|the way|to see|always|from)\b", value):
        return None
    says = f"favourite {what} is {third(value)}"
    return Reading("favourite", says, "current", f"favourite {what.lower()}", "preference", subject="'s")


def disliking(found: re.Match[str]) -> Reading | None:
    """ "Don't like", "can't stand"."""
    rest, verb = found["rest"].strip(), found["verb"].lower().replace("\u2019", "'")
    if not stands_alone(rest) or re.match(r"(?:the|to|being)\b", rest):
        return None
    negation, _, plain = verb.rpartition(" ")
    habitual = negation in ("don't", "do not")
    says = f"{'does not' if habitual else 'cannot'} {plain} {third(rest)}"
    positive = f"{third_verb(plain)} {third(rest)}" if habitual else ""
    return Reading("dislike", says, "current", kind="preference", negated=True, positive=positive)


def no_longer(found: re.Match[str]) -> Reading | None:
    """What is over: the claim denies it, and the fact that stated it has come to its end."""
    says = _over(found)
    return None if says is None else Reading("no_longer", f"no longer {says}", "current", negated=True, positive=says)


def used_to(found: re.Match[str]) -> Reading | None:
    """What was so once."""
    says, was = _over(found), f"{found['verb'].lower()} {third(found['rest'].strip())}".strip()
    return None if says is None else Reading("used_to", f"used to {was}", "past", positive=says)


def _over(found: re.Match[str]) -> str | None:
    rest, verb = found["rest"].strip(), found["verb"].lower()
    if not stands_alone(f"{verb} {rest}") or (verb == "be" and not rest):
        return None
    return f"{third_verb(verb)} {third(rest)}".strip()


def stopped(found: re.Match[str]) -> Reading | None:
    """ "Stopped smoking": an end, and it was so before."""
    rest, verb = found["rest"].strip(), found["verb"].lower()
    if not stands_alone(rest) or rest.startswith(("by ", "at ", "to ")):
        return None
    return Reading("stopped", f"{verb} {third(rest)}", "past", positive=third(rest))


def health(found: re.Match[str]) -> Reading | None:
    """Allergies and diets."""
    what, rest = found["what"].lower(), found["rest"].strip()
    if what.endswith((" to", " of")) != bool(rest) or (rest and not stands_alone(rest)) or _WEEKDAY.match(rest):
        return None
    return Reading("health", f"is {what} {third(rest)}".strip(), "current")


def status(found: re.Match[str]) -> Reading | None:
    """Married, retired and the like."""
    who = found["who"]
    if who and not stands_alone(who):
        return None
    return Reading("status", f"is {found['rest'].lower()}" + (f" to {third(who)}" if who else ""), "current")
