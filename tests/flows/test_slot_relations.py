"""Relations that beliefs state between entities: as long as the belief holds, and no longer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentmem import AgentMemory
from agentmem.core.edges import RELATION_BY_SLOT
from tests.flows.given import FILE_FIRST, ManualClock, open_memory, stack_options

WORDS = {
    "home": "Ola LIVES_IN Lund",
    "employer": "Ola WORKS_FOR Lund",
    "boss": "Ola REPORTS_TO Lund",
    "school": "Ola STUDIES_AT Lund",
    "partner": "Ola PARTNER_OF Lund",
    "children": "Ola PARENT_OF Lund",
    "parents": "Lund PARENT_OF Ola",
    "siblings": "Ola SIBLING_OF Lund",
    "friends": "Ola KNOWS Lund",
    "pets": "Ola OWNS Lund",
}


@pytest.fixture(params=FILE_FIRST)
def memory(request: pytest.FixtureRequest, home: Path, clock: ManualClock) -> Iterator[AgentMemory]:
    with open_memory(home, clock=clock, **stack_options(request)) as made:
        yield made


def add(memory: AgentMemory, *names: str) -> list[str]:
    return [memory.upsert_entity({"name": name}).id for name in names]


def relations(memory: AgentMemory, depth: int = 1) -> list[str]:
    """The relations that hold, by name; the user is `profile`."""
    names = {entity.id: entity.name for entity in memory.semantic.entities()}
    graph = memory.semantic.get_entity_graph(list(names), depth)
    return [
        f"{names.get(edge.source, edge.source)} {edge.edge_kind} {names.get(edge.target, edge.target)}"
        for edge in graph.edges
    ]


@pytest.mark.parametrize("slot", RELATION_BY_SLOT)
def test_a_belief_states_the_relation_of_its_slot(memory: AgentMemory, slot: str) -> None:
    ids = add(memory, "Ola", "Lund")
    fact = memory.learn_fact("It is so.", slot=slot, value="Lund", subject="Ola", entity_ids=ids, confidence=0.7)
    assert relations(memory) == [WORDS[slot]]
    (edge,) = memory.semantic.get_entity_graph(ids).edges
    assert (edge.fact_id, edge.confidence, edge.properties) == (fact.id, 0.7, {"slot": slot})
    own = memory.learn_fact("It is so.", slot=slot, value="Lund", entity_ids=ids[1:])
    assert own.subject_entity_id == "profile"
    assert sorted(relations(memory)) == sorted([WORDS[slot], WORDS[slot].replace("Ola", "profile")])


def test_a_relation_holds_as_long_as_its_belief(memory: AgentMemory, clock: ManualClock) -> None:
    ola, acme, bosch = add(memory, "Ola", "Acme", "Bosch")
    memory.learn_fact("Ola works at Acme", slot="employer", value="Acme", subject="Ola", entity_ids=[ola, acme])
    began = clock.advance(days=3)
    new = memory.learn_fact(
        "Ola works at Bosch", slot="employer", value="Bosch", subject="Ola", entity_ids=[ola, bosch]
    )
    assert relations(memory) == ["Ola WORKS_FOR Bosch"]
    memory.undo(new.operation_id)
    assert relations(memory) == ["Ola WORKS_FOR Acme"]
    again = memory.learn_fact(
        "Ola works at Bosch", slot="employer", value="Bosch", subject="Ola", entity_ids=[ola, bosch], valid_from=began
    )
    (edge,) = memory.semantic.get_entity_graph([ola]).edges
    assert (edge.target, edge.valid_from, edge.valid_to) == (bosch, began, None)
    memory.forget(again.id)
    assert "Ola WORKS_FOR Bosch" not in relations(memory)
    memory.restore(again.id)
    assert relations(memory) == ["Ola WORKS_FOR Bosch"]
    memory.forget(again.id, hard=True)
    assert "Ola WORKS_FOR Bosch" not in relations(memory)


def test_plans_denials_and_other_slots_state_no_relation(memory: AgentMemory, clock: ManualClock) -> None:
    ola, acme = add(memory, "Ola", "Acme")
    about = {"subject": "Ola", "entity_ids": [ola, acme]}
    later = clock.time.replace(year=clock.time.year + 1)
    memory.learn_fact("1", slot="employer", value="Acme", temporal_context="future", valid_from=later, **about)
    memory.learn_fact("2", slot="likes", value="Acme", **about)
    memory.learn_fact("Ola does not live in Acme", **about)
    memory.learn_fact("3", slot="home", value="Lund", **about)  # no entity of that name
    memory.learn_fact("4", slot="home", value="Acme", subject="Eva", entity_ids=[acme])
    assert relations(memory) == []


def test_merging_moves_relations_and_splitting_moves_them_back(memory: AgentMemory) -> None:
    ola, olaf, acme = add(memory, "Ola", "Olaf", "Acme")
    memory.learn_fact("Olaf works at Acme", slot="employer", value="Acme", subject="Olaf", entity_ids=[olaf, acme])
    memory.semantic.merge_entities(ola, olaf)
    assert relations(memory) == ["Ola WORKS_FOR Acme"]
    memory.semantic.split_entity(olaf)
    assert relations(memory) == ["Olaf WORKS_FOR Acme"]


def test_an_erased_entity_leaves_its_id_nowhere(memory: AgentMemory) -> None:
    ola, acme = add(memory, "Ola", "Acme")
    fact = memory.learn_fact("Ola works at Acme", slot="employer", value="Acme", subject="Ola", entity_ids=[ola, acme])
    memory.forget(acme, hard=True)
    left = memory.semantic.get_fact(fact.id)
    assert (left.entity_ids, left.subject_entity_id, left.value_entity_id) == ((ola,), ola, None)


def test_a_fact_hangs_on_the_user_as_long_as_the_user_is_its_subject(memory: AgentMemory) -> None:
    fact = memory.learn_fact("Sings in a choir", subject="user", slot="")
    assert fact.subject_entity_id == "profile"
    assert memory.semantic.update_fact(fact.id, subject="Anna").subject_entity_id is None
    assert memory.semantic.update_fact(fact.id, subject="user").subject_entity_id == "profile"


def test_no_walk_goes_on_through_the_user(memory: AgentMemory) -> None:
    anna, acme = add(memory, "Anna", "Acme")
    memory.learn_fact("The user's partner is Anna", slot="partner", value="Anna", entity_ids=[anna])
    memory.learn_fact("The user works at Acme", slot="employer", value="Acme", entity_ids=[acme])
    graph = memory.semantic.get_entity_graph([anna], 3)
    assert [entity.name for entity in graph.entities] == ["Anna"]
    assert [(edge.source, edge.target) for edge in graph.edges] == [("profile", anna)]


def test_another_channel_sees_no_relation(memory: AgentMemory) -> None:
    work = memory.scoped(channel="work")
    ids = [work.upsert_entity({"name": name}).id for name in ("Ola", "Acme")]
    work.learn_fact("Ola works at Acme", slot="employer", value="Acme", subject="Ola", entity_ids=ids)
    assert relations(work) == ["Ola WORKS_FOR Acme"]
    assert relations(memory.scoped(channel="home")) == []


def test_reading_ties_the_people_and_places_that_turns_name(memory: AgentMemory) -> None:
    for said in ("My wife Anna works for Statoil.", "My sister Marta lives in Oslo.", "I work at Equinor."):
        memory.store_turn({"content": said, "role": "user"})
    memory.consolidate()
    assert sorted(relations(memory)) == [
        "Anna WORKS_FOR Statoil",
        "Marta LIVES_IN Oslo",
        "profile PARTNER_OF Anna",
        "profile SIBLING_OF Marta",
        "profile WORKS_FOR Equinor",
    ]
