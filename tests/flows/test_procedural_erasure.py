"""What was done and learned goes with the turns it rests on; what has other ground stays, without the erased one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentmem import AgentMemory, Procedure, Record, Strategy
from tests.flows.given import ManualClock, context_of, engine_of, last_operation_id, open_memory, read_state, run
from tests.flows.test_erasure import MARK, traces

WAY = "Deploy the server"


@pytest.fixture
def memory(home: Path) -> Iterator[AgentMemory]:
    with open_memory(home, clock=ManualClock(), seed=3, audit_level="verbose") as opened_memory:
        yield opened_memory


def left(memory: AgentMemory, *records: Record) -> list[Record]:
    log, scope = engine_of(memory).log, context_of(memory).scope
    return [found for record in records for found in run(log.read_records(record.kind, [record.id], scope))]


def test_erasing_a_turn_takes_what_rests_on_it_alone(memory: AgentMemory, home: Path) -> None:
    talk = memory.scoped(conversation_id="c")
    turn, other = talk.store_turns([f"Always mention the {MARK}.", "Always answer in French."])
    call = talk.procedural.record_invocation("search", {"q": MARK}, MARK, error_message=MARK, turn_id=turn.id)
    kept = talk.procedural.record_invocation("search", "tea", turn_id=other.id)
    memory.consolidate("distill_procedures")
    marked, french = memory.procedural.procedures()
    way = talk.procedural.learn_strategy(f"Feed the {MARK}", source_turn_ids=[turn.id])
    both = talk.procedural.stage_candidate("Use plain words", source_turn_ids=[turn.id, other.id])
    memory.remember(MARK)
    receipt = memory.forget(turn.id, hard=True)
    assert receipt.scan is not None
    assert (receipt.scan.leftovers, receipt.scan.deferred) == ({}, ())
    assert set(receipt.derived) == {call.id, marked.id, way.id}
    assert left(memory, turn, call, marked, way) == []
    (lighter,) = left(memory, both)
    assert isinstance(lighter, Procedure)
    assert lighter.source_turn_ids == (other.id,)
    assert left(memory, kept, french) == [kept, french]
    assert traces(home) == []


def test_erasing_a_conversation_takes_its_calls_and_how_it_ended(memory: AgentMemory, home: Path) -> None:
    kept = memory.scoped(conversation_id="kept")
    kept.store_turn("Deploy it.")
    talk = memory.scoped(conversation_id="c")
    talk.store_turn(f"Deploy the {MARK}.")
    call = talk.procedural.record_invocation(f"{MARK}-tool", MARK)
    ended = talk.reflect(f"success: {MARK}")
    alone = talk.procedural.learn_strategy(f"Feed the {MARK}")
    for place in (talk, kept):
        way = place.procedural.learn_strategy(WAY)
    kept.reflect({"success": True, "strategy_ids": [alone.id, way.id]})
    receipt = memory.episodic.delete_conversation("c", hard=True)
    assert receipt.scan is not None
    assert receipt.scan.leftovers == {}
    assert left(memory, call, ended) == []
    assert [stats.calls for stats in memory.procedural.tool_stats()] == []
    (there,) = left(memory, way)
    assert isinstance(there, Strategy)
    assert there.conversation_ids == ("kept",)
    (still,) = left(memory, alone)  # it has worked in the other conversation, too
    assert isinstance(still, Strategy)
    assert still.conversation_ids == ("kept",)


def test_forgetting_a_conversation_hides_its_calls_until_it_comes_back(memory: AgentMemory) -> None:
    talk = memory.scoped(conversation_id="c")
    turns = talk.store_turns(["Deploy it.", "Done?"])
    for turn in (*turns, *turns):
        talk.procedural.record_invocation("build", turn_id=turn.id)
    talk.reflect(True)
    before = read_state(memory)
    memory.episodic.delete_conversation("c")
    assert memory.procedural.tool_stats() == []
    memory.undo(last_operation_id(memory))  # puts turns and calls back to where they stood
    assert read_state(memory) == before
    memory.episodic.delete_conversation("c")
    memory.restore("c")
    assert read_state(memory) == before


def test_erasing_the_user_leaves_no_word_of_it(memory: AgentMemory, home: Path) -> None:
    talk = memory.scoped(conversation_id="c")
    turn = talk.store_turn(f"Always mention the {MARK}.")
    talk.procedural.record_invocation(f"{MARK} tool", {MARK: MARK}, turn_id=turn.id, task_type=MARK)
    talk.procedural.learn_strategy(f"Feed the {MARK}", context_pattern=MARK, tool_sequence=[MARK])
    talk.reflect({"success": False, "feedback": MARK, "task_type": MARK})
    memory.consolidate("patterns")
    memory.consolidate("distill_procedures")
    talk.procedural.find_strategies(MARK)
    assert traces(home) != []
    receipt = memory.erase()
    assert receipt.scan.leftovers == {}
    assert traces(home) == []
    assert memory.procedural.procedures() == []
    assert memory.procedural.tool_stats() == []
    assert memory.procedural.find_strategies(MARK) == []
