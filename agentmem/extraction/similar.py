"""Whether two claims say the same, as far as words can tell: polarity, numbers and what they are about must agree."""

from __future__ import annotations

import re

from agentmem.model.records import Fact
from agentmem.text.names import normalised_claim

SAME = 0.92
"""Cosine from which two claims may say the same."""

RELATED = 0.5
"""Cosine from which a known fact may contradict a new one."""

_NEGATION = re.compile(
    r"\b(?:not|no|never|none|nobody|nothing|neither|nor|without|cannot|no longer|stopped|quit|refuses?)\b|n['’]t\b",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"\d+(?:[.,:/]\d+)*")
_NUMBER_WORD = re.compile(
    r"\b(?:zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|"
    r"seventeen|eighteen|nineteen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|hundred|thousand|million|"
    r"first|second|third|fourth|fifth|once|twice)\b",
    re.IGNORECASE,
)
_CAPITALISED = re.compile(r"(?<!^)(?<![.!?] )\b[A-Z][\w'’-]*")


def denies(claim: str) -> bool:
    """Whether a claim says that something is not so (English)."""
    return _NEGATION.search(claim) is not None


def numbers(claim: str) -> list[str]:
    """The numbers that a claim names, in digits or words, sorted."""
    return sorted([*_NUMBER.findall(claim), *(word.lower() for word in _NUMBER_WORD.findall(claim))])


def says_the_same(new: Fact, known: Fact, cosine: float) -> bool:
    """Whether a new fact adds nothing but a source to a known one.

    Equal claims do; else they must be alike (cosine .92) and agree in polarity, numbers, names, entities and time.
    """
    if normalised_claim(new.claim) == normalised_claim(known.claim):
        return True
    if cosine < SAME or denies(new.claim) != denies(known.claim) or numbers(new.claim) != numbers(known.claim):
        return False
    if sorted(_CAPITALISED.findall(new.claim)) != sorted(_CAPITALISED.findall(known.claim)):
        return False
    about = set(new.entity_ids) == set(known.entity_ids) and new.subject == known.subject
    when = (new.temporal_context, new.valid_from, new.valid_to)
    return about and when == (known.temporal_context, known.valid_from, known.valid_to)
