"""Two entities become one without losing anything, and two again, whatever was said in between."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentmem import AgentMemory, Conflict, InvalidRecord, NotFound
from agentmem.core.edges import build_mention
from agentmem.core.records import Edge
from agentmem.memory.semantic import merge_entities
from tests.flows.given import (
    ManualClock,
    context_of,
    engine_of,
    last_operation_id,
    open_memory,
    read_head,
    read_state,
    run,
)
from tests.flows.test_reviews import put
from tests.scale import scaled

KEY = "the key"


@dataclass
class Two:
    """Two entities that are one person, what is said of them, and others around them."""

    memory: AgentMemory

    def __post_init__(self) -> None:
        memory = self.memory
        said = {"type": "person", "description": "a nurse", "properties": {"eyes": "green", "born": 1990}}
        more = {"type": "person", "description": "lives in Oslo", "properties": {"eyes": "blue", "pet": "cat"}}
        self.ann = memory.upsert_entity({"name": "Ann", "aliases": ["Annie"], "salience": 0.4, **said}).id
        self.anna = memory.upsert_entity({"name": "Anna Lee", "aliases": ["Lee"], "salience": 0.9, **more}).id
        self.ben, self.cleo = (memory.upsert_entity({"name": name, "type": "person"}).id for name in ("Ben", "Cleo"))
        self.both = memory.learn_fact("Ann and Anna sing", entity_ids=[self.anna, self.ben, self.ann]).id
        self.hers = memory.learn_fact("Anna sings", entity_ids=[self.anna, self.ben]).id
        self.mine = memory.learn_fact("Ann dances", entity_ids=[self.ann]).id
        self.roof = memory.scoped(channel="roof")
        self.project = self.roof.learn_fact("Anna leads", entity_ids=[self.anna]).id
        self.secret = memory.scoped(channel="_self_bot", agent_id="bot").learn_fact("x", entity_ids=[self.anna]).id
        relate = memory.semantic.relate
        relate(self.anna, "KNOWS", self.ben)
        relate(self.ann, "KNOWS", self.ben, confidence=0.5)
        relate(self.anna, "KNOWS", self.ann)
        relate(self.cleo, "is aunt of", self.anna)
        self.roof.semantic.relate(self.anna, "WORKS_FOR", self.cleo)

    def merge(self, **more: Any) -> Any:
        return self.memory.semantic.merge_entities(self.ann, self.anna, **more)

    def about(self, fact_id: str) -> tuple[str, ...]:
        (fact,) = run(engine_of(self.memory).log.read_records("Fact", [fact_id], context_of(self.memory).scope))
        return tuple(fact.entity_ids)

    def relations(self) -> list[tuple[str, str, str, str]]:
        """Every relation that stands, in every channel."""
        found = [read_state(self.memory)[key] for key in read_state(self.memory) if key[0] == "Edge"]
        standing = [edge for edge in found if edge["superseded_at"] is None]
        return sorted((e["channel"], e["source"], str(e["edge_kind"]), e["target"]) for e in standing)


@pytest.fixture
def two(memory: AgentMemory) -> Two:
    return Two(memory)


def test_the_kept_entity_has_what_both_had(two: Two, clock: ManualClock) -> None:
    began = clock.time
    now = clock.advance(days=1)
    kept = two.merge()
    assert (kept.id, kept.name, kept.aliases) == (two.ann, "Ann", ("Annie", "Anna Lee", "Lee"))
    assert (kept.description, kept.salience, kept.first_seen) == ("a nurse; lives in Oslo", 0.9, began)
    assert kept.properties == {"eyes": "green", "born": 1990, "pet": "cat"}
    assert {entity.id for entity in two.memory.semantic.entities()} == {two.ann, two.ben, two.cleo}
    assert [entity.id for entity in two.memory.semantic.entities("anna lee")] == [two.ann]
    (gone,) = run(engine_of(two.memory).log.read_records("Entity", [two.anna], context_of(two.memory).scope))
    assert (gone.status, gone.superseded_at, gone.reason) == ("superseded", now, f"merged into {two.ann}")


def test_facts_and_relations_in_every_channel_are_the_kept_ones_each_once(two: Two) -> None:
    two.merge()
    assert [two.about(fact) for fact in (two.both, two.hers, two.mine, two.project, two.secret)] == [
        (two.ann, two.ben),
        (two.ann, two.ben),
        (two.ann,),
        (two.ann,),
        (two.ann,),
    ]
    assert two.relations() == sorted(
        [
            ("_global", two.ann, "KNOWS", two.ben),
            ("_global", two.cleo, "RELATED_TO", two.ann),
            ("roof", two.ann, "WORKS_FOR", two.cleo),
        ]
    )
    graph = two.memory.semantic.get_entity_graph([two.ann], 1)
    assert {fact.id for fact in graph.facts} == {two.both, two.hers, two.mine}
    confidences = [edge.confidence for edge in graph.edges if edge.edge_kind == "KNOWS"]
    assert confidences == [0.5], "what the kept one's own relation said stands"
    again = two.memory.semantic.relate(two.cleo, "is aunt of", two.ann)
    assert len(two.relations()) == 3, "a relation has the id that it would have got from the start"
    assert again.properties == {"name": "is aunt of"}


def test_turns_that_mention_the_other_one_mention_the_kept_one(two: Two) -> None:
    turn = two.memory.store_turn({"content": "Anna and Ann came.", "turn_id": two.anna})  # an id that both have
    put(two.memory, build_mention("alice", "_global", turn.id, two.anna))
    before = read_state(two.memory)
    two.merge()
    (edge,) = run(engine_of(two.memory).graph.edges([turn.key], context_of(two.memory).scope, ["MENTIONS"]))
    assert edge.id == build_mention("alice", "_global", turn.id, two.ann).id
    assert (edge.source, edge.target) == (turn.id, two.ann)
    two.memory.semantic.split_entity(two.anna)
    assert read_state(two.memory) == before


def test_recall_finds_the_one_by_the_others_name(two: Two) -> None:
    two.merge()
    bundle = two.memory.remember("What does Anna Lee do?")
    assert {entity.id for entity in bundle.entities} & {two.ann, two.anna} == {two.ann}
    assert two.mine in {fact.id for fact in bundle.facts}


def test_what_names_the_other_one_later_means_the_kept_one(two: Two) -> None:
    memory = two.memory
    two.merge()
    memory.semantic.merge_entities(two.ben, two.ann)
    assert memory.learn_fact("Anna paints", entity_ids=[two.anna, two.ben]).entity_ids == (two.ben,)
    assert memory.semantic.update_fact(two.mine, entity_ids=[two.anna]).entity_ids == (two.ben,)
    edge = memory.semantic.relate(two.cleo, "KNOWS", two.anna)
    assert (edge.source, edge.target) == (two.cleo, two.ben)
    assert memory.upsert_entity({"name": "Anna Lee", "type": "person"}).id == two.ben
    with pytest.raises(InvalidRecord, match=two.ben):
        memory.upsert_entity({"id": two.ann, "name": "Ann", "type": "person"})


REFUSED: dict[str, Callable[[Two], Any]] = {
    "itself": lambda t: t.memory.semantic.merge_entities(t.ann, t.ann),
    "another type": lambda t: t.memory.semantic.merge_entities(t.ann, t.memory.upsert_entity({"name": "Ann"}).id),
    "another channel": lambda t: t.roof.semantic.merge_entities(
        t.ann, t.roof.upsert_entity({"name": "Ann", "type": "person"}).id
    ),
    "the user": lambda t: t.memory.semantic.merge_entities(
        *(t.memory.upsert_entity({"name": name, "type": "user"}).id for name in ("Ann", "Me"))
    ),
    "a forgotten one": lambda t: (t.memory.forget(t.anna), t.memory.semantic.merge_entities(t.ann, t.anna)),
    "into a forgotten one": lambda t: (t.memory.forget(t.ann), t.memory.semantic.merge_entities(t.ann, t.anna)),
    "a merged one": lambda t: (t.merge(), t.memory.semantic.merge_entities(t.ben, t.anna)),
    "into a merged one": lambda t: (t.merge(), t.memory.semantic.merge_entities(t.anna, t.ben)),
    "split what is one": lambda t: t.memory.semantic.split_entity(t.ann),
    "split twice": lambda t: (t.merge(), *(t.memory.semantic.split_entity(t.anna) for _ in range(2))),
    "split in the middle": lambda t: (
        t.merge(),
        t.memory.semantic.merge_entities(t.ben, t.ann),
        t.memory.semantic.split_entity(t.anna),
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_one_stays_two(two: Two, case: str) -> None:
    with pytest.raises(InvalidRecord):
        REFUSED[case](two)
    assert run(engine_of(two.memory).log.audit_rows(context_of(two.memory).scope, limit=1))[0]["success"] in (0, False)


def test_entities_of_others_and_none_are_not_found(two: Two) -> None:
    for face in (two.memory.scoped(user_id="bob"), two.memory):
        for call in (face.semantic.merge_entities, lambda first, _, face=face: face.semantic.split_entity(first)):
            with pytest.raises(NotFound):
                call("nobody", two.anna)


def test_a_merge_of_too_many_records_is_refused(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_entities, "MAX_MOVED_RECORDS", 7)
    at = read_head(two.memory)
    with pytest.raises(InvalidRecord, match="would move 8 records, 7 is the most"):
        two.merge()
    assert read_head(two.memory) == at


def test_merging_again_changes_nothing_and_a_key_gives_the_first_result(two: Two, clock: ManualClock) -> None:
    kept = two.merge(idempotency_key=KEY)
    at = read_head(two.memory)
    clock.advance(hours=1)
    assert two.merge() == two.merge(idempotency_key=KEY) == kept
    with pytest.raises(Conflict):
        two.memory.semantic.merge_entities(two.ben, two.cleo, idempotency_key=KEY)
    assert read_head(two.memory) == at
    parted = two.memory.semantic.split_entity(two.anna, idempotency_key=KEY)
    at = read_head(two.memory)
    assert two.memory.semantic.split_entity(two.anna, idempotency_key=KEY) == parted
    assert read_head(two.memory) == at


def test_merging_again_moves_what_has_come_to_name_the_other(two: Two) -> None:
    kept = two.merge()
    (edge,) = (edge for edge in two.memory.semantic.get_entity_graph([two.ann], 1).edges if edge.edge_kind == "KNOWS")
    late = Edge(id="late", edge_kind="KNOWS", source=two.cleo, target=two.anna)

    async def make(write: Any) -> Any:
        (fact,) = await engine_of(two.memory).log.read_records("Fact", [two.mine], context_of(two.memory).scope)
        return write.build_change(late, fact.model_copy(update={"entity_ids": (two.anna,)}))

    run(engine_of(two.memory).write(context_of(two.memory).scope, "late", make, kind="Fact"))
    assert two.merge().aliases == kept.aliases
    assert two.about(two.mine) == (two.ann,)
    assert ("_global", two.cleo, "KNOWS", two.ann) in two.relations()
    assert edge.id in {edge.id for edge in two.memory.semantic.get_entity_graph([two.ann], 1).edges}


def test_what_is_written_while_a_merge_reads_is_moved_too(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    every, late = merge_entities.list_across_channels, []

    async def slowly(*arguments: Any) -> Any:
        found = await every(*arguments)
        if not late:
            late.append(await two.memory._inner.learn_fact("Anna paints", entity_ids=[two.anna]))
        return found

    monkeypatch.setattr(merge_entities, "list_across_channels", slowly)
    two.merge()
    assert two.about(late[0].id) == (two.ann,)


# -- and two again


def test_a_merge_across_channels_can_be_undone_by_who_sees_its_entities(two: Two) -> None:
    before = read_state(two.memory)
    two.merge()
    undone = two.memory.undo(last_operation_id(two.memory))
    assert read_state(two.memory) == before
    two.memory.undo(undone)
    assert two.about(two.secret) == (two.ann,)


def test_what_is_split_at_once_is_as_it_was(two: Two, clock: ManualClock) -> None:
    before = read_state(two.memory)
    two.merge()
    clock.advance(hours=1)
    kept, restored = two.memory.semantic.split_entity(two.ann)
    assert (kept.id, restored.id) == (two.ann, two.anna)
    assert read_state(two.memory) == before


def test_what_was_learned_since_stays_with_the_kept_one(two: Two, clock: ManualClock) -> None:
    memory = two.memory
    two.merge()
    clock.advance(hours=1)
    since = memory.learn_fact("Ann paints", entity_ids=[two.ann]).id
    memory.semantic.update_fact(two.both, tags=["song"])
    memory.semantic.update_fact(two.hers, entity_ids=[two.cleo, two.ann])
    two.roof.semantic.update_fact(two.project, entity_ids=[two.cleo])
    details = {"description": "a doctor", "aliases": ["Doc"], "properties": {"pet": "dog", "car": "red"}}
    memory.upsert_entity({"id": two.ann, "name": "Ann", "type": "person", **details})
    memory.semantic.relate(two.ann, "LOCATED_IN", two.cleo)
    memory.semantic.relate(two.cleo, "is aunt of", two.ann, confidence=0.3)
    kept, restored = memory.semantic.split_entity(two.anna)
    assert (kept.aliases, kept.description) == (("Annie", "Doc"), "a doctor")
    assert kept.properties == {"eyes": "green", "born": 1990, "pet": "dog", "car": "red"}
    assert kept.salience == 0.4
    assert (restored.status, restored.superseded_at, restored.reason) == ("active", None, "")
    assert [two.about(fact) for fact in (two.both, two.hers, two.mine, two.project, two.secret, since)] == [
        (two.anna, two.ben, two.ann),
        (two.cleo, two.anna),
        (two.ann,),
        (two.cleo,),
        (two.anna,),
        (two.ann,),
    ]
    assert memory.semantic.get_fact(two.both).tags == ("song",)
    relations = {
        ("_global", two.anna, "KNOWS", two.ben),
        ("_global", two.ann, "KNOWS", two.ben),
        ("_global", two.anna, "KNOWS", two.ann),
        ("_global", two.cleo, "RELATED_TO", two.anna),
        ("_global", two.cleo, "RELATED_TO", two.ann),
        ("_global", two.ann, "LOCATED_IN", two.cleo),
        ("roof", two.anna, "WORKS_FOR", two.cleo),
    }
    assert two.relations() == sorted(relations)


def test_of_two_that_were_merged_in_the_last_is_split_first_unless_one_is_named(two: Two) -> None:
    split = two.memory.semantic.split_entity
    two.memory.semantic.merge_entities(two.cleo, two.ben)
    two.memory.semantic.merge_entities(two.cleo, two.ann)
    assert split(two.cleo)[1].id == two.ann
    two.memory.semantic.merge_entities(two.cleo, two.ann)
    kept, restored = split(two.ben)
    assert (kept.aliases, restored.id) == (("Ann", "Annie"), two.ben)
    assert split(two.cleo)[0].aliases == ()


def test_a_name_that_another_merged_one_has_too_is_kept(two: Two) -> None:
    memory = two.memory
    memory.upsert_entity({"id": two.ben, "name": "Lee", "type": "person"})
    two.merge()
    memory.semantic.merge_entities(two.ann, two.ben)
    assert memory.semantic.split_entity(two.anna)[0].aliases == ("Annie", "Lee", "Ben")


def test_erasing_the_kept_one_takes_what_was_merged_into_it(two: Two) -> None:
    two.merge()
    receipt = two.memory.forget(two.ann, hard=True)
    assert two.anna in receipt.derived
    with pytest.raises(NotFound):
        two.memory.semantic.split_entity(two.anna)
    assert two.about(two.hers) == (two.ben,)


def test_forgetting_and_restoring_leaves_a_merge_as_it_was(two: Two) -> None:
    before = read_state(two.memory)
    two.merge()
    merged = read_state(two.memory)
    for name in (two.anna, two.ann):
        two.memory.forget(name)
        two.memory.restore(name)
        assert read_state(two.memory) == merged
    two.memory.semantic.split_entity(two.anna)
    assert read_state(two.memory) == before


NAMES = st.integers(0, 3)
FACTS = st.lists(st.lists(NAMES, max_size=3, unique=True), max_size=5)
EDGES = st.lists(st.tuples(NAMES, st.sampled_from(["KNOWS", "likes"]), NAMES, st.booleans()), max_size=6)


@pytest.mark.long
def test_any_merge_is_split_into_what_was_before(home: Path, clock: ManualClock) -> None:
    users = iter(range(10_000))
    with open_memory(home, clock=clock, seed=3, audit_level="off") as shared:

        @settings(max_examples=scaled(60))
        @given(facts=FACTS, edges=EDGES, twice=st.booleans())
        def split(facts: list[list[int]], edges: list[tuple[int, str, int, bool]], twice: bool) -> None:
            memory = shared.scoped(user_id=f"user {next(users)}")
            names = [memory.upsert_entity({"name": f"Entity {n}", "properties": {f"p{n % 2}": n}}).id for n in range(4)]
            for n, name in enumerate(names):
                memory.upsert_entity({"id": name, "name": f"Entity {n % 2}"})  # two of them have each name
            for number, about in enumerate(facts):
                memory.learn_fact(f"Fact {number}", entity_ids=[names[n] for n in about])
            for source, kind, target, forgotten in edges:
                edge = memory.semantic.relate(names[source], kind, names[target])
                if forgotten:
                    memory.forget(edge.id)
            before = read_state(memory)
            merges = [(names[0], names[1]), (names[2], names[0])][: 1 + twice]
            for kept, other in merges:
                memory.semantic.merge_entities(kept, other)
                clock.advance(minutes=1)
                loops = [
                    edge for key, edge in read_state(memory).items() if key[0] == "Edge" and other in edge.values()
                ]
                assert all(edge["superseded_at"] is not None for edge in loops)
            for _, other in reversed(merges):
                memory.semantic.split_entity(other)
            assert read_state(memory) == before

        split()
