"""What a new claim does to the facts that are known: takes the place of one, or ends it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agentmem.extraction.rules.readings import Reading
from agentmem.model.records import Fact
from agentmem.text.names import normalised_claim

_VERBS = frozenset({"lives", "lived", "moved", "works", "working", "has", "been", "to", "in", "at"})
_DENIES = re.compile(r"\b(?:no longer|not|never|used to|cannot|can't|stopped|quit|gave up)\b")


def replaced(reading: Reading, claim: str, subject: str, facts: Sequence[Fact]) -> str:
    """The id of the known fact whose one place of its kind the claim takes (a home, an employer); "" for none.

    One that says the same, and one whose words the new one has all in it (France, and then Paris, France), stay.
    """
    if not reading.slot or reading.tense != "current":
        return ""
    tag = f"rule:{reading.rule}"
    for fact in facts:
        known = normalised_claim(fact.claim)
        if tag not in fact.tags or not known.startswith(subject.lower() + ("'s " if reading.subject == "'s" else " ")):
            continue
        if reading.slot.startswith("favourite") and not known.startswith(f"{subject.lower()}'s {reading.slot} is "):
            continue
        if fact.temporal_context == "past" or _DENIES.search(known):
            continue
        words = set(re.findall(r"\w+", known)) - _VERBS
        if not words <= set(re.findall(r"\w+", normalised_claim(claim))):
            return fact.id
    return ""


def ended(reading: Reading, subject: str, facts: Sequence[Fact]) -> str:
    """The id of the known fact that the claim says is over; "" for none."""
    if not reading.positive:
        return ""
    wanted = _words(reading.positive)
    for fact in facts:
        known = normalised_claim(fact.claim)
        if not known.startswith(subject.lower() + " ") or fact.temporal_context == "past" or _DENIES.search(known):
            continue
        if wanted and wanted <= _words(known.removeprefix(subject.lower())):
            return fact.id
    return ""


def _words(text: str) -> set[str]:
    """Stems of the words that carry meaning, crude but the same for "works" and "working"."""
    words = set(re.findall(r"\w+", normalised_claim(text))) - {
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
