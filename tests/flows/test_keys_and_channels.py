"""Ids and keys that callers choose belong to the channels that the caller can read, on both stacks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentmem import AgentMemory, Conflict, InvalidRecord, NotFound
from agentmem.core.record import Record
from tests.flows.given import FILE_FIRST, STACKS, open_memory
from tests.scale import scaled
from tests.servers.stack import Stack

SECRET = "zyzzyva"  # what agent A keeps in its private channel
KEY = "the-key"


@dataclass
class Agents:
    """Two agents of one user, each in its private channel, and views of shared channels."""

    memory: AgentMemory

    def __post_init__(self) -> None:
        self.a = self.memory.scoped(agent_id="A", channel="_self_A", conversation_id="talk-a")
        self.b = self.memory.scoped(agent_id="B", channel="_self_B", conversation_id="talk-b")


@pytest.fixture(params=FILE_FIRST)
def agents(request: pytest.FixtureRequest, home: Path) -> Iterator[Agents]:
    more: dict[str, Any] = {}
    user = "alice"
    if request.param == "servers":
        stack: Stack = request.getfixturevalue("stack")
        more, user = dict(stack.urls), stack.user()
    with open_memory(home, user, audit_level="verbose", **more) as memory:
        yield Agents(memory)


def dumped(value: Any) -> str:
    """All that a caller can see of an answer."""
    if isinstance(value, Record):
        return value.model_dump_json()
    if isinstance(value, list | tuple):
        return " ".join(dumped(item) for item in value)
    return repr(value)


Call = Callable[[AgentMemory, str], Any]
WRITES: dict[str, Call] = {
    "store_turn id": lambda m, text: m.store_turn(text, turn_id=KEY),
    "store_turn key": lambda m, text: m.store_turn(text, idempotency_key=KEY),
    "store_turns": lambda m, text: m.store_turns([text, f"{text} again"], idempotency_key=KEY),
    "store_turns ids": lambda m, text: m.store_turns([{"content": text, "turn_id": KEY}]),
    "learn_fact": lambda m, text: m.learn_fact(text, idempotency_key=KEY),
    "upsert_entity": lambda m, text: m.upsert_entity({"name": text}, idempotency_key=KEY),
    "upsert_entity id": lambda m, text: m.upsert_entity({"name": text, "id": KEY}),
    "add_goal": lambda m, text: m.add_goal(text, idempotency_key=KEY),
    "add_goal id": lambda m, text: m.add_goal({"description": text, "id": KEY}),
    "record_invocation": lambda m, text: m.procedural.record_invocation("t", {"q": text}, idempotency_key=KEY),
    "learn_strategy": lambda m, text: m.procedural.learn_strategy(
        description=text, tool_sequence=["t"], idempotency_key=KEY
    ),
    "stage_candidate": lambda m, text: m.procedural.stage_candidate(f"Write {text}", idempotency_key=KEY),
    "schedules.add": lambda m, text: m.schedules.add("daily", "0 9 * * *", text),
    "schedules.add_heartbeat": lambda m, text: m.schedules.add_heartbeat("daily", 60, source=text, idempotency_key=KEY),
    "reflect": lambda m, text: m.reflect({"success": True, "feedback": text}, idempotency_key=KEY),
}


@pytest.mark.parametrize("verb", WRITES)
def test_a_key_of_another_agent_neither_shows_nor_blocks_anything(agents: Agents, verb: str) -> None:
    write = WRITES[verb]
    first = write(agents.a, f"{SECRET} of A")
    second = write(agents.b, "plain words of B")
    assert SECRET not in dumped(second)
    assert "plain words of B" in dumped(second)
    assert SECRET in dumped(first)


@pytest.mark.parametrize("verb", [name for name in WRITES if name not in ("schedules.add", "add_goal id")])
def test_a_retry_gives_each_agent_its_own_first_result(agents: Agents, verb: str) -> None:
    write = WRITES[verb]
    mine, theirs = write(agents.a, f"{SECRET} of A"), write(agents.b, "plain words of B")
    assert write(agents.b, "plain words of B") == theirs
    assert write(agents.a, f"{SECRET} of A") == mine


@pytest.mark.parametrize("verb", ["store_turn id", "store_turn key", "learn_fact", "upsert_entity", "add_goal"])
def test_another_payload_under_a_key_of_its_own_is_a_conflict(agents: Agents, verb: str) -> None:
    WRITES[verb](agents.a, f"{SECRET} of A")
    WRITES[verb](agents.b, "plain words of B")
    with pytest.raises(Conflict) as caught:
        WRITES[verb](agents.b, "other words of B")
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("agents", STACKS, indirect=True)
def test_a_turn_whose_id_another_agent_uses_is_found_read_and_forgotten_by_that_id(agents: Agents) -> None:
    agents.a.store_turn(f"{SECRET} opens the safe", turn_id=KEY)
    before = agents.b.store_turn("Where are the blueprints?")
    turn = agents.b.store_turn("The blueprints are in the attic", turn_id=KEY)
    assert turn.given_id == KEY
    found = agents.b.remember("blueprints attic")
    assert next(item.content for item in found.turns) == "The blueprints are in the attic"
    assert agents.b.audit.why_not(found.receipt.id, KEY).delivered
    assert [item.id for item in agents.b.episodic.read_thread("talk-b", KEY, 1)] == [before.id, turn.id]
    assert agents.b.observe_usage([KEY]) == 1
    fact = agents.b.learn_fact("The blueprints are upstairs", source_turn_ids=[KEY])
    assert agents.b.semantic.provenance(fact.id) == [turn]
    agents.b.forget(KEY)
    assert "attic" not in dumped(agents.b.remember("blueprints attic").turns)
    agents.b.restore(KEY)
    assert "attic" in dumped(agents.b.remember("blueprints attic").turns)
    receipt = agents.b.forget(KEY, hard=True)
    assert receipt.scan is not None
    assert receipt.scan.leftovers == {}
    with pytest.raises(NotFound):
        agents.b.forget(KEY)
    assert SECRET in dumped(agents.a.remember("safe").turns)


@pytest.mark.parametrize("agents", STACKS, indirect=True)
def test_entities_whose_ids_another_agent_uses_are_related_merged_and_walked_by_those_ids(agents: Agents) -> None:
    for name in ("one", "two"):
        agents.a.upsert_entity({"name": f"{SECRET} {name}", "id": name, "type": "person"})
        agents.b.upsert_entity({"name": f"Person {name}", "id": name, "type": "person"})
    edge = agents.b.semantic.relate("one", "KNOWS", "two")
    agents.b.flush()
    graph = agents.b.semantic.get_entity_graph(["one"])
    assert {entity.name for entity in graph.entities} == {"Person one", "Person two"}
    assert [item.id for item in graph.edges] == [edge.id]
    again = agents.b.upsert_entity({"name": "Person one", "id": "one", "type": "person", "description": "tall"})
    assert (again.given_id, again.description) == ("one", "tall")
    kept = agents.b.semantic.merge_entities("one", "two")
    assert kept.given_id == "one"
    assert "Person two" in kept.aliases
    assert SECRET not in dumped(agents.b.semantic.entities())
    assert {entity.name for entity in agents.a.semantic.entities()} == {f"{SECRET} one", f"{SECRET} two"}


def test_goals_whose_ids_another_agent_uses_are_worked_on_by_those_ids(agents: Agents) -> None:
    for name in ("whole", "part", "other"):
        agents.a.add_goal({"description": f"{SECRET} {name}", "id": name})
    agents.b.add_goal({"description": "the whole", "id": "whole"})
    agents.b.add_goal({"description": "a part", "id": "part", "parent_id": "whole"})
    agents.b.add_goal({"description": "another", "id": "other", "blocked_by": ["part"]})
    assert [tree.goal.description for tree in agents.b.goals.sub_goals("whole")] == ["a part"]
    assert agents.b.goals.record_progress("part", 0.5).progress == 0.5
    assert agents.b.working.set_active_goal("part").description == "a part"  # type: ignore[union-attr]
    assert agents.b.goals.block("whole", "other").goal_status == "blocked"
    assert agents.b.goals.unblock("whole", "other").goal_status == "active"
    agents.b.complete_goal("part")
    assert agents.b.get_goal("other").goal_status == "active"
    assert {goal.goal_status for goal in agents.a.goals.all()} == {"active"}
    assert agents.b.reflect({"success": True, "goal_id": "whole"}).goal_id == agents.b.get_goal("whole").id


def test_schedules_of_one_name_live_side_by_side(agents: Agents) -> None:
    agents.a.schedules.add("report", "0 9 * * *", f"report {SECRET}")
    agents.b.schedules.add("report", "0 10 * * *", "report the weather")
    with pytest.raises(InvalidRecord, match="exists"):
        agents.b.schedules.add("report", "0 11 * * *", "again")
    assert [item.prompt for item in agents.b.schedules.list()] == ["report the weather"]
    agents.b.schedules.pause("report")
    assert not agents.a.schedules.get("report").paused
    agents.b.schedules.remove("report")
    assert agents.a.schedules.get("report").prompt == f"report {SECRET}"
    agents.b.schedules.add("report", "0 12 * * *", "report again")
    shared = agents.memory.scoped(channel="garden")
    shared.schedules.add("report", "0 13 * * *", "report the garden")
    assert agents.memory.schedules.list() == []


@pytest.mark.parametrize("agents", STACKS, indirect=True)
def test_an_id_that_the_scope_can_read_is_one_record_in_every_channel(agents: Agents) -> None:
    shared = agents.memory.store_turn("Water the roses", turn_id=KEY)
    garden = agents.memory.scoped(channel="garden", conversation_id=shared.conversation_id)
    assert garden.store_turn("Water the roses", turn_id=KEY) == shared
    with pytest.raises(Conflict):
        garden.store_turn("Cut the roses", turn_id=KEY)
    stored = garden.store_turns([{"content": "Water the roses", "turn_id": KEY}, "And the lawn"])
    assert [turn.content for turn in stored] == ["Water the roses", "And the lawn"]
    assert stored[0] == shared


@pytest.mark.parametrize("agents", STACKS, indirect=True)
def test_an_erased_turn_stays_erased_under_its_id_for_its_own_agent_only(agents: Agents) -> None:
    agents.a.store_turn(f"{SECRET} of A", turn_id=KEY)
    agents.a.forget(KEY, hard=True)
    with pytest.raises(NotFound):
        agents.a.store_turn(f"{SECRET} of A", turn_id=KEY)
    assert agents.b.store_turn("plain words of B", turn_id=KEY).content == "plain words of B"
    assert "plain words" in dumped(agents.b.remember("plain words").turns)


def test_a_conversation_of_one_id_is_listed_for_each_agent(agents: Agents) -> None:
    a, b = (agent.scoped(conversation_id="shared-talk") for agent in (agents.a, agents.b))
    a.store_turn(f"{SECRET} of A")
    b.store_turn("plain words of B")
    (listed,) = b.episodic.conversations()
    assert (listed.id, listed.channel, listed.agent_id) == ("shared-talk", "_self_B", None)
    assert [turn.content for turn in b.episodic.get_conversation("shared-talk")] == ["plain words of B"]
    assert b.reflect({"success": True, "conversation_id": "shared-talk"}).conversation_id == "shared-talk"
    b.episodic.delete_conversation("shared-talk", hard=True)
    assert [turn.content for turn in a.episodic.get_conversation("shared-talk")] == [f"{SECRET} of A"]


def test_usage_keys_of_two_agents_count_apart(agents: Agents) -> None:
    fact = agents.memory.learn_fact("The gate is green")
    for agent in (agents.a, agents.b, agents.b):
        agent.observe_usage([fact.id], idempotency_key=KEY)
    for agent in (agents.a, agents.b, agents.b):
        agent.curation.touch(fact.id, idempotency_key="touched")
    from tests.flows.given import context_of, engine_of, run

    used = run(engine_of(agents.memory).log.usage([fact.key], context_of(agents.memory).scope))
    assert used[fact.key].use_count == 4


@pytest.mark.parametrize("agents", STACKS, indirect=True)
def test_audit_rows_of_a_private_channel_are_told_to_its_agent_only(agents: Agents) -> None:
    agents.a.store_turn(f"{SECRET} of A", turn_id="ident")
    agents.a.remember(f"{SECRET} again")
    assert SECRET in dumped(agents.a.audit.query())
    assert SECRET not in dumped(agents.b.audit.query())
    assert SECRET in dumped(agents.memory.audit.query()), "the user and the auditor see all rows"


CHANNELS = (("_self_A", "A"), ("_self_B", "B"), ("_global", None), ("garden", None))


@settings(max_examples=scaled(60, least=10))
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(CHANNELS), st.sampled_from(["k1", "k2"]), st.sampled_from(["x", "y"])), max_size=12
    )
)
def test_whatever_the_order_every_acknowledged_turn_is_the_callers_own(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[tuple[str, str | None], str, str]]
) -> None:
    """A write under an id either returns a readable turn of the same words, or is a Conflict about a readable one."""
    with open_memory(tmp_path_factory.mktemp("keys")) as memory:
        views = {
            channel: memory.scoped(channel=channel, agent_id=agent, conversation_id=f"in {channel}")
            for channel, agent in CHANNELS
        }
        for (channel, _), turn_id, text in steps:
            view = views[channel]
            try:
                stored = view.store_turn(text, turn_id=turn_id)
            except Conflict:
                (clash,) = [t for t in view.episodic.recent_turns(50) if turn_id in (t.id, t.given_id)][:1]
                assert clash.content != text or clash.channel != channel
                continue
            assert stored.content == text
            assert stored.channel in {channel, "_global", "_swarm"}
            assert stored in view.episodic.recent_turns(50)
