"""What a new claim does to the facts that are known: takes the place of one, or ends it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agentmem.extraction.rules.readings import StatementReading
from agentmem.model.records import Fact
from agentmem.text.names import normalize_claim

_STATE_VERBS = frozenset({"lives", "lived", "moved", "works", "working", "has", "been", "to", "in", "at"})
_NEGATION = re.compile(r"\b(?:no longer|not|never|used to|cannot|can't|stopped|quit|gave up)\b")


def find_superseded(reading: StatementReading, claim: str, subject: str, facts: Sequence[Fact]) -> str:
    """The id of the known fact whose one place of its kind the claim takes (a home, an employer); "" for none.

    One that says the same, and one whose words the new one has all in it (France, and then Paris, France), stay.
    """
    if not reading.slot or reading.tense != "current":
        return ""
    tag = f"rule:{reading.rule}"
    for fact in facts:
        known = normalize_claim(fact.claim)
        if tag not in fact.tags or not known.startswith(subject.lower() + ("'s " if reading.subject == "'s" else " ")):
            continue
        if reading.slot.startswith("favourite") and not known.startswith(f"{subject.lower()}'s {reading.slot} is "):
            continue
        if fact.temporal_context == "past" or _NEGATION.search(known):
            continue
        words = set(re.findall(r"\w+", known)) - _STATE_VERBS
        if not words <= set(re.findall(r"\w+", normalize_claim(claim))):
            return fact.id
    return ""


def find_ended(reading: StatementReading, subject: str, facts: Sequence[Fact]) -> str:
    """The id of the known fact that the claim says is over; "" for none."""
    if not reading.denied_predicate:
        return ""
    wanted = _stems(reading.denied_predicate)
    for fact in facts:
        known = normalize_claim(fact.claim)
        if not known.startswith(subject.lower() + " ") or fact.temporal_context == "past" or _NEGATION.search(known):
            continue
        if wanted and wanted <= _stems(known.removeprefix(subject.lower())):
            return fact.id
    return ""


def _stems(text: str) -> set[str]:
    """Stems of the words that carry meaning, crude but the same for "works" and "working"."""
    words = set(re.findall(r"\w+", normalize_claim(text))) - {
        "at",
        "for",
        "in",
        "to",
        "a",
        "an",
        "the",
        "as",
        "of",
        "their",
        "is",
    }
    return {re.sub(r"(?:ing|es|ed|s|e)$", "", word) for word in words}
