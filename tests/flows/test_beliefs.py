"""Beliefs: what is held of a slot, on both stacks, with undo, restore, review and both times."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from agentmem import AgentMemory, InvalidRecord
from agentmem.core.records import Edge
from agentmem.stores.values import Where
from tests.flows.given import (
    FILE_FIRST,
    STACKS,
    START,
    ManualClock,
    context_of,
    engine_of,
    open_memory,
    run,
    stack_options,
)


@pytest.fixture(params=FILE_FIRST)
def memory(request: pytest.FixtureRequest, home: Path, clock: ManualClock) -> Iterator[AgentMemory]:
    slots = {"shoe_size": {"kind": "one"}, "locker": {"kind": "one", "rests_on": ("employer",)}}
    with open_memory(home, clock=clock, slots=slots, **stack_options(request)) as made:
        yield made


def learn(memory: AgentMemory, slot: str, value: str, **more: Any) -> Any:
    return memory.learn_fact(f"{slot}: {value}", slot=slot, value=value, **more)


def told(memory: AgentMemory, slot: str, standing: str = "current", **more: Any) -> list[str]:
    found = memory.beliefs(slot=slot, **more)
    return [fact.value for beliefs in found for fact in getattr(beliefs, standing)]


def test_the_newest_word_takes_the_place_and_the_old_one_stays_as_past(memory: AgentMemory, clock: ManualClock) -> None:
    first = learn(memory, "employer", "Acme")
    moved = clock.advance(days=30)
    second = learn(memory, "employer", "Globex")
    assert (told(memory, "employer"), told(memory, "employer", "former")) == (["Globex"], ["Acme"])
    assert told(memory, "employer", as_of=START + timedelta(days=1)) == ["Acme"]
    assert told(memory, "employer", known_at=moved - timedelta(days=1)) == ["Acme"]
    assert (second.supersedes, memory.semantic.get_fact(first.id).superseded_by) == (first.id, second.id)
    assert [fact.claim for fact in memory.semantic.facts()] == ["employer: Globex"]
    clock.advance(days=1)
    memory.undo(second.operation_id)
    assert (told(memory, "employer"), told(memory, "employer", "former")) == (["Acme"], [])


def test_an_updated_value_puts_right_all_that_the_slot_held(memory: AgentMemory, clock: ManualClock) -> None:
    turn = memory.store_turn("I live in Graz")
    home = memory.learn_fact("The user lives in Graz", slot="home", value="Graz", source_turn_ids=[turn.id])
    learn(memory, "rent", "900 euros")
    clock.advance(days=1)
    linz = memory.semantic.update_fact(home.id, value="Linz", importance=0.9)
    assert (linz.claim, linz.source_turn_ids, linz.importance) == ("The user lives in Linz", (turn.id,), 0.9)
    assert (told(memory, "home"), told(memory, "home", "former")) == (["Linz"], [])
    assert told(memory, "home", known_at=START) == ["Graz"]
    again = memory.semantic.update_fact(home.id, value="Wels", claim="Home is Wels")
    assert (told(memory, "home"), again.claim) == (["Wels"], "Home is Wels")
    memory.undo(again.operation_id)
    assert told(memory, "home") == ["Linz"]


def test_an_open_fact_becomes_a_belief_by_an_update(memory: AgentMemory) -> None:
    learn(memory, "home", "Graz")
    claim = memory.learn_fact("Linz is where the user lives")
    memory.semantic.update_fact(claim.id, slot="home", value="Linz")
    assert told(memory, "home") == ["Linz"]
    assert [fact.claim for fact in memory.semantic.facts()] == ["Linz is where the user lives"]


def test_the_same_value_again_gains_its_source(memory: AgentMemory, clock: ManualClock) -> None:
    turn = memory.store_turn("I'm at Acme still")
    first = learn(memory, "employer", "Acme")
    clock.advance(days=2)
    again = learn(memory, "employer", "ACME", source_turn_ids=[turn.id])
    assert (again.id, again.source_turn_ids, again.value) == (first.id, (turn.id,), "Acme")
    assert again.said_at == START + timedelta(days=2)
    assert learn(memory, "employer", "Acme", idempotency_key="k").id == first.id


def test_the_users_own_names_are_the_user(memory: AgentMemory) -> None:
    learn(memory, "name", "Dan Moss")
    learn(memory, "home", "Lund", subject="Dan")
    learn(memory, "home", "Oslo", subject="dan moss")
    learn(memory, "home", "Rome", subject="Daniela")
    assert [(each.subject, [fact.value for fact in each.current]) for each in memory.beliefs(slot="home")] == [
        ("user", ["Oslo"]),
        ("Daniela", ["Rome"]),
    ]
    assert [each.slot for each in memory.beliefs("user")] == ["name", "home"]


def test_what_rests_on_another_slot_is_not_told_once_that_changed(memory: AgentMemory, clock: ManualClock) -> None:
    learn(memory, "employer", "Acme")
    learn(memory, "boss", "Priya")
    learn(memory, "locker", "12")
    clock.advance(days=1)
    globex = learn(memory, "employer", "Globex")
    assert (told(memory, "boss"), told(memory, "boss", "stale"), told(memory, "locker", "stale")) == (
        [],
        ["Priya"],
        ["12"],
    )
    clock.advance(days=1)
    memory.undo(globex.operation_id)
    assert (told(memory, "boss"), told(memory, "locker")) == (["Priya"], ["12"])


def test_a_plan_ends_nothing_and_comes_true(memory: AgentMemory, clock: ManualClock) -> None:
    learn(memory, "home", "Lund")
    learn(memory, "home", "Oslo", temporal_context="future", valid_from=START + timedelta(days=10))
    assert (told(memory, "home"), told(memory, "home", "planned")) == (["Lund"], ["Oslo"])
    clock.advance(days=11)
    learn(memory, "home", "Oslo")
    assert (told(memory, "home"), told(memory, "home", "planned"), told(memory, "home", "former")) == (
        ["Oslo"],
        [],
        ["Lund"],
    )
    assert memory.beliefs(slot="home")[0].current[0].valid_from == START + timedelta(days=10)


def test_hearsay_against_the_users_word_is_a_question_and_accepting_it_settles(memory: AgentMemory) -> None:
    learn(memory, "home", "Lund")
    learn(memory, "home", "Oslo", source="tool")
    learn(memory, "home", "Oslo", source="tool")
    (review,) = memory.semantic.reviews()
    assert (review.about, told(memory, "home")) == ("contradiction", ["Lund"])
    memory.semantic.resolve_review(review.id, "prefer_new")
    assert (told(memory, "home"), told(memory, "home", "former")) == (["Oslo"], ["Lund"])
    assert len([fact for fact in memory.semantic.facts() if fact.slot == "home"]) == 1


def test_one_value_at_a_time_cannot_be_kept_with_another(memory: AgentMemory) -> None:
    learn(memory, "home", "Lund")
    learn(memory, "home", "Oslo", source="tool")
    (review,) = memory.semantic.reviews()
    with pytest.raises(InvalidRecord, match="one value at a time"):
        memory.semantic.resolve_review(review.id, "keep_both")
    assert [each.id for each in memory.semantic.reviews()] == [review.id]


def test_an_accepted_belief_is_the_users_word_and_hearsay_no_longer_touches_it(memory: AgentMemory) -> None:
    learn(memory, "home", "Lund")
    learn(memory, "home", "Oslo", source="tool")
    memory.semantic.resolve_review(memory.semantic.reviews()[0].id, "prefer_new")
    learn(memory, "home", "Rome", source="tool")
    assert (told(memory, "home"), len(memory.semantic.reviews())) == (["Oslo"], 1)


@pytest.mark.parametrize("is_correction", [False, True])
def test_superseding_a_value_settles_its_slot(memory: AgentMemory, clock: ManualClock, is_correction: bool) -> None:
    old = learn(memory, "home", "Lund")
    rent = learn(memory, "rent", "900 euros")
    clock.advance(days=5)
    new = memory.semantic.supersede_fact(old.id, "I live in Oslo", value="Oslo", is_correction=is_correction)
    assert (new.slot, new.value, told(memory, "home")) == ("home", "Oslo", ["Oslo"])
    assert told(memory, "home", "former") == ([] if is_correction else ["Lund"])
    assert told(memory, "rent", "stale") == ([] if is_correction else [rent.value])
    memory.undo(new.operation_id)
    assert (told(memory, "home"), told(memory, "rent")) == (["Lund"], [rent.value])


def test_a_free_claim_that_becomes_a_belief_gives_way_to_it(memory: AgentMemory) -> None:
    learn(memory, "home", "Lund")
    free = memory.learn_fact("The user has a flat in Oslo")
    memory.semantic.supersede_fact(free.id, "I live in Oslo", slot="home", value="Oslo", subject="user")
    assert (told(memory, "home"), told(memory, "home", "former")) == (["Oslo"], ["Lund"])
    assert free.claim not in {fact.claim for fact in memory.semantic.facts()}


@pytest.mark.parametrize("memory", STACKS, indirect=True)
def test_forgotten_and_restored(memory: AgentMemory) -> None:
    fact = learn(memory, "shoe_size", "44")
    memory.forget(fact.id)
    assert told(memory, "shoe_size") == []
    memory.restore(fact.id)
    assert told(memory, "shoe_size") == ["44"]


@pytest.mark.parametrize("memory", STACKS, indirect=True)
def test_two_writers_of_one_slot_leave_one_value(memory: AgentMemory) -> None:
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda number: learn(memory, "car", f"Golf {number} GT"), range(6)))
    assert len(told(memory, "car")) == 1


@pytest.mark.parametrize("memory", STACKS, indirect=True)
def test_channels_do_not_mix(memory: AgentMemory) -> None:
    learn(memory, "the:staging server", "stg-1", subject="heron")
    project = memory.scoped(channel="other-project")
    learn(project, "the:staging server", "stg-9", subject="heron")
    assert told(memory, "the:staging server") == ["stg-1"]
    assert sorted(told(project, "the:staging server")) == ["stg-1", "stg-9"]


@pytest.mark.parametrize(
    "fields, named",
    [
        ({"slot": "hoem", "value": "x"}, "slot"),
        ({"slot": "home"}, "value"),
        ({"slot": "home", "value": " "}, "value"),
        ({"value": "x"}, "slot"),
        ({"slot": "home", "value": "x" * 2_000}, "value"),
    ],
)
def test_bad_input_is_refused_before_anything_is_written(
    memory: AgentMemory, fields: dict[str, str], named: str
) -> None:
    with pytest.raises(InvalidRecord) as refused:
        memory.learn_fact("A claim", **fields)
    assert refused.value.field == named
    assert memory.semantic.facts() == []
    with pytest.raises(InvalidRecord):
        memory.beliefs(slot="hoem")


def test_a_belief_that_is_restored_is_an_older_word(memory: AgentMemory, clock: ManualClock) -> None:
    old = learn(memory, "employer", "Acme")
    clock.advance(days=1)
    memory.forget(old.id)
    began = clock.advance(days=1)
    learn(memory, "employer", "Globex")
    clock.advance(days=1)
    (restored,) = memory.restore(old.id)
    assert (told(memory, "employer"), told(memory, "employer", "former")) == (["Globex"], ["Acme"])
    assert memory.semantic.get_fact(restored.id).valid_to == began


def test_what_was_archived_can_be_restored(memory: AgentMemory, clock: ManualClock) -> None:
    fact = memory.learn_fact("The gate code is in the blue folder", tier="short")
    clock.advance(days=400)
    memory.curation.gc(dry_run=False)
    assert memory.semantic.facts() == []
    memory.restore(fact.id)
    assert [each.id for each in memory.semantic.facts()] == [fact.id]


def test_the_end_of_a_habit_is_a_value(memory: AgentMemory) -> None:
    memory.store_turns(["I drink coffee every morning.", "I no longer drink coffee."])
    memory.consolidate()
    assert told(memory, "coffee") == ["drinks no coffee"]
    assert told(memory, "coffee", "former") == ["drinks coffee"]


def test_an_event_is_known_by_a_part_of_its_name(memory: AgentMemory) -> None:
    memory.store_turns(["My mum Eva is having a hip operation on 3 May.", "My biology exam is on 4 May.", "Noted?"])
    memory.consolidate()
    other = memory.scoped(conversation_id="other")
    other.store_turns(["My mum has an operation on 9 May.", "My exam is now on 6 May."])
    memory.consolidate()
    assert told(memory, "date:hip operation", "planned") == ["9 May"]
    assert told(memory, "date:biology exam", "planned") == ["6 May"]


def meet(memory: AgentMemory, clock: ManualClock) -> tuple[str, str]:
    """Two people of one name, as entities, with beliefs about both; the ids of the one with the full name first."""
    full, short = (memory.upsert_entity({"name": name, "type": "person"}).id for name in ("Tomas Vidal", "Tomas"))
    learn(memory, "home", "Lund", subject="Tomas Vidal", entity_ids=[full])
    learn(memory, "likes", "tea", subject="Tomas Vidal", entity_ids=[full])
    clock.advance(days=3)
    learn(memory, "home", "Oslo", subject="Tomas", entity_ids=[short])
    learn(memory, "likes", "tea", subject="Tomas", entity_ids=[short])
    learn(memory, "likes", "jazz", subject="Tomas", entity_ids=[short])
    learn(memory, "friends", "Tomas", entity_ids=[short])
    learn(memory, "friends", "Tomas Vidal", entity_ids=[full])
    return full, short


def standing(memory: AgentMemory) -> dict[tuple[str, str], tuple[list[str], list[str]]]:
    """Current and former values by subject and slot."""
    found = {
        (each.subject, each.slot): (
            sorted(fact.value for fact in each.current),
            sorted(fact.value for fact in each.former),
        )
        for each in memory.beliefs()
    }
    return {key: values for key, values in found.items() if values != ([], [])}


@pytest.mark.parametrize("memory", STACKS, indirect=True)
def test_two_people_who_become_one_hold_each_belief_once_and_the_newest_word(
    memory: AgentMemory, clock: ManualClock
) -> None:
    full, short = meet(memory, clock)
    memory.semantic.merge_entities(full, short)
    assert standing(memory) == {
        ("Tomas Vidal", "home"): (["Oslo"], ["Lund"]),
        ("Tomas Vidal", "likes"): (["jazz", "tea"], []),
        ("user", "friends"): (["Tomas Vidal"], []),
    }


@pytest.mark.parametrize("way", ["split", "undo"])
def test_two_people_who_are_split_again_hold_what_they_held(memory: AgentMemory, clock: ManualClock, way: str) -> None:
    full, short = meet(memory, clock)
    before = standing(memory)
    merged = memory.semantic.merge_entities(full, short)
    if way == "undo":
        memory.undo(merged.operation_id)
    else:
        memory.semantic.split_entity(short)
    assert standing(memory) == before


def test_what_was_learned_after_a_merge_stays_with_the_kept_one(memory: AgentMemory, clock: ManualClock) -> None:
    full, short = meet(memory, clock)
    memory.semantic.merge_entities(full, short)
    clock.advance(days=1)
    learn(memory, "home", "Rome", subject="Tomas Vidal", entity_ids=[full])
    memory.semantic.split_entity(short)
    found = standing(memory)
    assert found["Tomas Vidal", "home"][0] == ["Rome"]
    assert found["Tomas", "likes"] == (["jazz", "tea"], [])


@pytest.mark.parametrize(
    "slot, kind, value", [("employer", "WORKS_FOR", "Acme"), ("home", "LOCATED_IN", "Lund"), ("partner", "wife", "Ida")]
)
def test_a_relation_ends_with_the_belief_that_states_it(
    memory: AgentMemory, clock: ManualClock, slot: str, kind: str, value: str
) -> None:
    ann, other, third = (memory.upsert_entity({"name": name}).id for name in ("Ann", value, "Bosch"))
    memory.semantic.relate(ann, kind, other)
    memory.semantic.relate(ann, "KNOWS", other)
    learn(memory, slot, value, subject="Ann", entity_ids=[ann, other])
    clock.advance(days=4)
    new = learn(memory, slot, "Bosch", subject="Ann", entity_ids=[ann, third])
    ends = {edge.properties.get("name", edge.edge_kind): edge.valid_to for edge in edges_of(memory)}
    assert ends == {kind: clock.time, "KNOWS": None}
    memory.undo(new.operation_id)
    assert {edge.valid_to for edge in edges_of(memory)} == {None}


def edges_of(memory: AgentMemory) -> list[Edge]:
    """All relations between entities."""
    found = run(engine_of(memory).log.find(context_of(memory).scope, Where(kinds=("Edge",)), limit=100))
    return [edge for edge in found if isinstance(edge, Edge)]


@pytest.mark.parametrize("memory", STACKS, indirect=True)
def test_talk_ends_a_relation_and_states_it_again(memory: AgentMemory, clock: ManualClock) -> None:
    def say(text: str) -> list[str]:
        memory.store_turn({"content": text, "speaker": "Ann", "timestamp": clock.time})
        memory.consolidate("consolidate")
        clock.advance(days=10)
        names = {entity.id: entity.name for entity in memory.semantic.entities()}
        graph = memory.semantic.get_entity_graph(list(names))
        return [f"{names[edge.source]} {edge.edge_kind} {names[edge.target]}" for edge in graph.edges]

    assert say("I work at Siemens as a nurse.") == ["Ann WORKS_FOR Siemens"]
    assert say("I left Siemens and I work at Bosch now.") == ["Ann WORKS_FOR Bosch"]
    assert say("I left Bosch and I work at Siemens now.") == ["Ann WORKS_FOR Siemens"]
