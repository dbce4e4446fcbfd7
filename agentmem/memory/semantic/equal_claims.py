"""When two facts say the same, and when they only look alike."""

from __future__ import annotations

from collections.abc import Hashable

from agentmem.beliefs.values import normalize_value
from agentmem.core.records import Fact
from agentmem.text.claim_content import find_contrasts, normalize_content
from agentmem.text.normalization import normalize_claim


def is_duplicate(new: Fact, known: Fact) -> bool:
    """Whether a new fact adds nothing but a source to a known one: one differing word makes two facts."""
    is_equal = normalize_claim(new.claim) == normalize_claim(known.claim)
    return is_equal or content_signature(new) == content_signature(known)


def content_signature(fact: Fact) -> Hashable:
    """What two facts must share to say the same: equal content, entities, subject, time and what they fill."""
    return normalize_content(fact.claim), _describe_frame(fact)


def contrast_signature(fact: Fact) -> Hashable:
    """What two facts must share to be proposed as one: all but plain words. Facts that differ here are a contrast."""
    return find_contrasts(fact.claim), _describe_frame(fact)


def _describe_frame(fact: Fact) -> Hashable:
    fills = (fact.slot, normalize_value(fact.value), fact.is_denied)
    return frozenset(fact.entity_ids), fact.subject, *fills, fact.temporal_context, fact.valid_from, fact.valid_to
