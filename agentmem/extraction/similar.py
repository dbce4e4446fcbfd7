"""Whether two claims say the same, as far as words can tell: polarity, numbers and what they are about must agree."""

from __future__ import annotations

from collections.abc import Hashable

from agentmem.extraction.clauses import polarity
from agentmem.extraction.figures import claimed_calendar_words, comparable_names, comparable_numbers
from agentmem.model.records import Fact
from agentmem.text.names import normalize_claim
from agentmem.text.words import is_reordering

MIN_DUPLICATE_COSINE = 0.92
"""Cosine from which two claims may say the same."""

MIN_RELATED_COSINE = 0.5
"""Cosine from which a known fact may contradict a new one."""


def is_duplicate(new: Fact, known: Fact, cosine: float) -> bool:
    """Whether a new fact adds nothing but a source to a known one.

    Equal claims do; else they must be alike (cosine .92) and agree in polarity, entities and time, and in numbers,
    names, days and all words in their order: "Ann taught Ben" is not "Ben taught Ann".
    """
    if normalize_claim(new.claim) == normalize_claim(known.claim):
        return True
    return (
        cosine >= MIN_DUPLICATE_COSINE
        and dedup_signature(new) == dedup_signature(known)
        and not is_reordering(new.claim, known.claim)
    )


def dedup_signature(fact: Fact) -> Hashable:
    """What two facts must have in common to say the same: polarity, numbers, names, days, entities, subject, time."""
    claim = fact.claim
    figures = (tuple(named(claim)) for named in (comparable_numbers, comparable_names, claimed_calendar_words))
    when = (fact.temporal_context, fact.valid_from, fact.valid_to)
    return polarity(claim), *figures, frozenset(fact.entity_ids), fact.subject, *when
