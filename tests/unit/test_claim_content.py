"""Which claims say the same, which only look alike, and which differ in a word that counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentmem.core.records import Fact
from agentmem.memory.semantic.equal_claims import contrast_signature, is_duplicate

LINES = Path(__file__).with_name("claim_pairs.txt").read_text(encoding="utf-8").splitlines()
PAIRS = [line.split(" | ") for line in LINES if not line.startswith("#")]


def fact(claim: str, **fields: object) -> Fact:
    return Fact.model_validate({"claim": claim, **fields})


@pytest.mark.parametrize("kind, one, other", PAIRS)
def test_only_equal_content_is_the_same_and_a_contrast_is_never_proposed(kind: str, one: str, other: str) -> None:
    first, second = fact(one), fact(other)
    found = "near" if contrast_signature(first) == contrast_signature(second) else "contrast"
    for new, known in ((first, second), (second, first)):
        assert ("same" if is_duplicate(new, known) else found) == kind


def test_entities_subject_and_time_must_agree() -> None:
    for other in ({"entity_ids": ("e1",)}, {"subject": "agent"}, {"temporal_context": "past"}):
        assert not is_duplicate(fact("Ann has a cat"), fact("Ann has the cat", **other))
    assert is_duplicate(fact("Ann has a cat"), fact("Ann has the cat"))
