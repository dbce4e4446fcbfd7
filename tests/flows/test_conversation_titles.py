"""Titles of conversations: given with the turn that begins one, and filled in by imports."""

from __future__ import annotations

from typing import Any

import pytest

from agentmem import AgentMemory, Conflict, InvalidRecord


def list_titles(memory: AgentMemory) -> dict[str, str]:
    """The titles of all conversations by id."""
    return {each.id: each.title for each in memory.episodic.conversations()}


def test_the_turn_that_begins_a_conversation_names_it(memory: AgentMemory) -> None:
    for title in ("Trip", "Another trip"):
        memory.store_turn({"content": title, "conversation_id": "c", "conversation_title": title})
    memory.store_turn({"role": "user", "content": [{"type": "text", "text": "Hi"}], "conversation_title": "Message"})
    assert sorted(list_titles(memory).values()) == ["Message", "Trip"]
    assert list_titles(memory)["c"] == "Trip"


@pytest.mark.parametrize(
    "given, title",
    [
        ("\tTrip\nto\x1b Turku\u2028now ", "Trip to Turku now"),
        ("t" * 250, "t" * 200),
        ("t" * 199 + " cut", "t" * 199),
        ("half \ud83d", "half \ufffd"),
        (" \u200b\n", ""),
        (None, ""),
    ],
)
def test_a_title_is_one_line_of_at_most_200_characters(memory: AgentMemory, given: str | None, title: str) -> None:
    memory.store_turn({"content": "Hi", "conversation_id": "c", "conversation_title": given})
    assert list_titles(memory) == {"c": title}


@pytest.mark.parametrize("value", [7, ["Trip"], {"title": "Trip"}, b"Trip"])
def test_a_title_that_is_no_text_is_refused_before_anything_is_written(memory: AgentMemory, value: Any) -> None:
    with pytest.raises(InvalidRecord, match=r"turns\[1\]: conversation_title must be text") as caught:
        memory.store_turns(["Hi", {"content": "Hi", "conversation_title": value}])
    assert caught.value.field == "conversation_title"
    with pytest.raises(InvalidRecord) as refused:
        memory.episodic.start_session("s", value)
    assert refused.value.field == "title"
    assert not memory.episodic.conversations()


def test_a_turn_sent_again_with_a_title_is_the_same_turn(memory: AgentMemory) -> None:
    turn = {"content": "Hi", "turn_id": "t", "conversation_id": "c"}
    assert memory.store_turn(turn) == memory.store_turn({**turn, "conversation_title": "Trip"})


def test_a_session_begins_with_its_title(memory: AgentMemory) -> None:
    begun = memory.episodic.start_session("s", "A\ntrip", idempotency_key="k")
    assert begun.title == "A trip"
    assert memory.episodic.start_session("s", "A trip", idempotency_key="k") == begun
    with pytest.raises(Conflict):
        memory.episodic.start_session("s", "Another", idempotency_key="k")
    memory.store_turn({"content": "Hi", "conversation_id": "s", "conversation_title": "Later"})
    assert list_titles(memory) == {"s": "A trip"}
