"""An erasure asked for again under its key is the one that was done: what was made since under an old id stays."""

from __future__ import annotations

import pytest

from agentmem import AgentMemory


@pytest.mark.parametrize("channel", ["_global", "roof"])
def test_what_is_made_anew_under_an_erased_id_outlives_the_retry(memory: AgentMemory, channel: str) -> None:
    memory.store_turn({"content": "the first talk", "conversation_id": "talk"})
    first = memory.episodic.delete_conversation("talk", hard=True, idempotency_key="once")
    anew = memory.scoped(channel=channel).store_turn({"content": "the second talk", "conversation_id": "talk"})
    again = memory.episodic.delete_conversation("talk", hard=True, idempotency_key="once")
    assert (again.operation_id, again.hard, again.at) == (first.operation_id, True, first.at)
    assert {*again.ids, *again.derived} == set(first.ids)
    assert again.scan is not None
    assert dict(again.scan.leftovers) == {}
    assert memory.scoped(channel=channel).episodic.get_conversation("talk") == [anew]
