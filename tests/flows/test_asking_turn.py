"""Who stores a question and then asks does not find the question."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentmem import InvalidRecord
from tests.flows.given import open_memory

QUESTION = "What must the chef avoid?"


def test_the_turn_that_asks_is_left_out_and_the_receipt_says_so(home: Path) -> None:
    with open_memory(home, embedder="hash", conversation_id="dinner") as memory:
        told = memory.store_turn("The chef must avoid peanuts.")
        asking = memory.store_turn(QUESTION)
        bundle = memory.remember(f"  {QUESTION} ")
        assert [turn.id for turn in bundle.turns] == [told.id]
        assert bundle.receipt.request.exclude == (asking.id,)
        assert "the turn that asked" in str(memory.audit.why_not(bundle.receipt.id, asking.id))
        assert [turn.id for turn in memory.audit.replay(bundle.receipt.id).turns] == [told.id]
        assert asking.id in {turn.id for turn in memory.remember(QUESTION, exclude=()).turns}


def test_only_the_newest_asking_turn_of_the_conversation_is_left_out(home: Path) -> None:
    with open_memory(home, embedder="hash", conversation_id="dinner") as memory:
        first = memory.store_turn(QUESTION)
        memory.store_turn("Peanuts.", role="assistant")
        second = memory.store_turn(QUESTION)
        memory.store_turn("Let me look.", role="assistant")
        assert {first.id, second.id} & {turn.id for turn in memory.remember(QUESTION).turns} == {first.id}
        elsewhere = memory.scoped(conversation_id="breakfast")
        assert {first.id, second.id} <= {turn.id for turn in elsewhere.remember(QUESTION).turns}


def test_records_that_are_named_are_left_out(home: Path) -> None:
    with open_memory(home, embedder="hash") as memory:
        fact = memory.learn_fact("The chef must avoid peanuts.")
        turn = memory.store_turn("The chef must avoid shellfish.")
        bundle = memory.remember(QUESTION, exclude=[fact.id, "nobody"])
        assert [item.record.id for item in bundle] == [turn.id]
        assert memory.remember(QUESTION, exclude=turn.id).turns == ()
        with pytest.raises(InvalidRecord, match="exclude"):
            memory.remember(QUESTION, exclude=[7])  # type: ignore[list-item]
