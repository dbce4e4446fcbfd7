"""Procedures: proposed, accepted, in every context while they are in force, retired; never a candidate in sight."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from agentmem import AgentMemory, Conflict, InvalidRecord, NotFound, Procedure
from tests.flows.given import ManualClock, bundle_ids, context_of, last_operation_id, open_memory, read_head, read_state

ASKED = "Which train goes to Oslo?"  # nothing that a procedure is about


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentMemory]:
    with open_memory(tmp_path_factory.mktemp("standing"), clock=ManualClock(), seed=3) as memory:
        yield memory


@pytest.fixture
def memory(shared: AgentMemory, request: pytest.FixtureRequest) -> AgentMemory:
    """A user of its own in the shared store."""
    return shared.scoped(user_id=request.node.name[:100])


def accepted(memory: AgentMemory, instruction: str, **more: Any) -> Procedure:
    return memory.procedural.accept_procedure(memory.procedural.stage_candidate(instruction, **more).id)


def known(memory: AgentMemory, status: str | None = None) -> list[str]:
    return [record.instruction for record in memory.procedural.procedures(status)]


def test_a_candidate_is_listed_and_found_by_no_recall(memory: AgentMemory) -> None:
    turn = memory.store_turn("The answers were in French.")
    staged = memory.procedural.stage_candidate("Always answer in French", source_turn_ids=[turn.id])
    assert (staged.procedure_status, staged.strength, staged.source_turn_ids) == ("candidate", 1, (turn.id,))
    assert known(memory) == known(memory, "candidate") == ["Always answer in French"]
    for query in ("Always answer in French", ASKED):
        found = memory.remember(query)
        assert bundle_ids(found) == {turn.id}
        assert found.procedures == ()
        assert "Always" not in memory.context(query).text


def test_staged_again_it_grows_stronger_and_stays_a_candidate(memory: AgentMemory) -> None:
    first = memory.procedural.stage_candidate("Always answer in French")
    again = memory.procedural.stage_candidate("From now on, please answer in French!")
    assert (again.id, again.strength, again.procedure_status) == (first.id, 2, "candidate")
    assert again.instruction == "Always answer in French"
    other = memory.procedural.stage_candidate("Answer in French", trigger="when I write in French")
    assert other.id != first.id


def test_in_force_it_stands_in_every_context(memory: AgentMemory) -> None:
    memory.store_turn("The train to Oslo leaves at nine.")
    french = accepted(memory, "Always answer in French")
    accepted(memory, "Add type hints", trigger="when I ask for code")
    text = memory.context(ASKED).text
    assert text.splitlines()[2:4] == ["## How to answer", "- Always answer in French"]
    assert f"[{french.id[-8:]}]" in memory.context(ASKED, ids=True)
    assert memory.context(ASKED).records.count(french.key) == 1
    assert {record.instruction for record in memory.remember(ASKED).procedures} == {
        "Always answer in French",
        "Add type hints",
    }
    assert "- Add type hints (when I ask for code)" in memory.context("I ask for code with type hints").text
    assert memory.remember(ASKED, include=("episodic", "semantic")).procedures == ()


def test_what_stands_in_every_context_is_bounded(memory: AgentMemory) -> None:
    for number in range(12):
        accepted(memory, f"Always mention the colour of house number {number} " + "x" * 60)
    strong = memory.procedural.stage_candidate("Always mention the colour of house number 11 " + "x" * 60)
    memory.store_turn("The train to Oslo leaves at nine.")
    roomy, tight = memory.context("train Oslo", max_tokens=4000), memory.context("train Oslo", max_tokens=300)
    lines = tight.text.splitlines()[2:]
    assert lines[0] == "## How to answer"
    assert lines[1] == f"- {strong.instruction}"
    assert sum("house number" in line for line in lines[: lines.index(next(x for x in lines if "train" in x))]) <= 5
    assert tight.tokens <= 300
    assert "The train to Oslo leaves at nine." in tight.text
    assert "The train to Oslo leaves at nine." in roomy.text


def test_retired_it_is_gone_from_recall_and_kept_in_the_list(memory: AgentMemory) -> None:
    french = accepted(memory, "Always answer in French")
    gone = memory.procedural.retire_procedure(french.id, "she speaks English")
    assert (gone.procedure_status, gone.reason) == ("retired", "she speaks English")
    assert known(memory) == []
    assert known(memory, "retired") == ["Always answer in French"]
    assert memory.remember("answer in French").procedures == ()
    assert memory.context("French").text == ""
    assert memory.procedural.retire_procedure(french.id) == gone
    with pytest.raises(InvalidRecord, match="stage it again"):
        memory.procedural.accept_procedure(french.id)
    anew = memory.procedural.stage_candidate("Always answer in French")
    assert (anew.id == french.id, anew.strength) == (False, 1)


def test_each_step_is_undone(memory: AgentMemory) -> None:
    states, operations = [read_state(memory)], []
    staged = memory.procedural.stage_candidate("Always answer in French")
    for step in (
        lambda: memory.procedural.stage_candidate("Answer in French"),
        lambda: memory.procedural.accept_procedure(staged.id),
        lambda: memory.procedural.retire_procedure(staged.id),
    ):
        operations.append(last_operation_id(memory))
        states.append(read_state(memory))
        step()
    operations.append(last_operation_id(memory))
    for operation, before in zip(reversed(operations), reversed(states), strict=True):
        memory.undo(operation)
        assert read_state(memory) == before


def test_forgotten_and_restored_it_is_what_it_was(memory: AgentMemory) -> None:
    french = accepted(memory, "Always answer in French")
    memory.forget(french.id)
    assert known(memory) == []
    assert known(memory, "retired") == []
    assert memory.remember("French").procedures == ()
    for verb in (memory.procedural.accept_procedure, memory.procedural.retire_procedure):
        with pytest.raises(InvalidRecord, match="restore it first"):
            verb(french.id)
    memory.restore(french.id)
    assert [record.id for record in memory.remember("French").procedures] == [french.id]


@pytest.mark.parametrize("verb", ["stage_candidate", "accept_procedure", "retire_procedure"])
def test_a_key_stands_for_one_write(memory: AgentMemory, verb: str) -> None:
    procedural = memory.procedural
    one, two = procedural.stage_candidate("Always answer in French"), procedural.stage_candidate("Never use emojis")
    first, second = ("Cite sources", "Use tables") if verb == "stage_candidate" else (one.id, two.id)
    done = getattr(procedural, verb)(first, idempotency_key="k")
    assert getattr(procedural, verb)(first, idempotency_key="k") == done
    with pytest.raises(Conflict):
        getattr(procedural, verb)(second, idempotency_key="k")


def test_others_see_nothing_of_it(memory: AgentMemory) -> None:
    bot, roof = memory.scoped(agent_id="bot", channel="_self_bot"), memory.scoped(channel="roof")
    secret, tiles = accepted(bot, "Always whisper"), accepted(roof, "Always count the tiles")
    for face in (
        memory,
        memory.scoped(agent_id="cat"),
        memory.scoped(user_id=context_of(memory).scope.user_id + " too"),
    ):
        assert known(face) == []
        assert face.remember("whisper and count the tiles").procedures == ()
        assert face.context("whisper and count the tiles").text == ""
        for record in (secret, tiles):
            with pytest.raises(NotFound):
                face.procedural.retire_procedure(record.id)
    assert "Always whisper" in bot.context(ASKED).text
    assert "whisper" not in roof.context(ASKED).text


@pytest.mark.parametrize(
    "given, field",
    [
        ({"instruction": " "}, "instruction"),
        ({"instruction": 7}, "instruction"),
        ({"instruction": "x" * 2001}, "instruction"),
        ({"trigger": "x" * 2001}, "trigger"),
        ({"source_turn_ids": "one"}, "source_turn_ids"),
        ({"source_turn_ids": ["nowhere"]}, "source_turn_ids"),
    ],
)
def test_a_wrong_candidate_is_refused(memory: AgentMemory, given: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRecord) as refused:
        memory.procedural.stage_candidate(**{"instruction": "Always answer in French", **given})
    assert (refused.value.field, read_head(memory)) == (field, 0)


def test_a_wrong_list_is_refused(memory: AgentMemory) -> None:
    for given, field in (({"status": "new"}, "status"), ({"limit": -1}, "limit")):
        with pytest.raises(InvalidRecord) as refused:
            memory.procedural.procedures(**given)  # type: ignore[arg-type]
        assert refused.value.field == field
