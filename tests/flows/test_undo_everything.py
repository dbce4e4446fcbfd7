"""Whatever was done, undoing it gives back the records and the edges from before; the same on both stacks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentmem import AgentMemError, AgentMemory, Record
from agentmem.core.records import KINDS, Gloss, Review
from agentmem.memory.context import ForgetReceipt
from agentmem.memory.semantic.reviews import ALLOWED_DECISIONS, same_entity_review_id
from agentmem.stores.values import Where
from tests.flows.given import (
    FILE_FIRST,
    STACKS,
    VOLATILE_FIELDS,
    ManualClock,
    context_of,
    engine_of,
    last_operation_id,
    open_memory,
    read_head,
    run,
)
from tests.flows.test_reviews import put
from tests.scale import scaled
from tests.servers.stack import Stack

CHANNELS = ("_global", "roof")
CLAIMS = [f"{name} {does}" for name in ("Ann", "Ben") for does in ("sings", "dances", "lives in Oslo")]


def standing(memory: AgentMemory) -> dict[Any, Any]:
    """Every current record, and every edge that the graph shows between them, without what a write stamps anew."""
    memory.flush()
    scope, inside = context_of(memory).scope.with_channels(CHANNELS), engine_of(memory)
    records: list[Record] = run(inside.log.find(scope, Where(kinds=tuple(KINDS)), limit=10_000))
    edges = run(inside.graph.edges([record.key for record in records], scope, limit=10_000))
    found: dict[Any, Any] = {record.key: record.model_dump(exclude=VOLATILE_FIELDS) for record in records}
    return found | {("edges",): sorted((edge.model_dump(exclude=VOLATILE_FIELDS) for edge in edges), key=repr)}


@dataclass
class World:
    """A user's memory in two channels, with something of each kind to work on."""

    memory: AgentMemory
    ids: dict[str, list[str]] = field(default_factory=dict)
    gone: list[str] = field(default_factory=list)
    operations: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.roof = self.memory.scoped(channel="roof")  # reads both channels
        memory = self.memory
        turns = self.note(memory.store_turns([{"content": f"turn {n}", "conversation_id": "c0"} for n in range(2)]))
        put(memory, Gloss(id=turns[0].id, standalone="Ann sings.", source_turn_ids=(turns[0].id,)))
        names = [self.note(memory.upsert_entity({"name": name})).id for name in ("Ann", "Anna", "Ben")]
        for number, claim in enumerate(CLAIMS[:3]):
            self.note(memory.learn_fact(claim, entity_ids=[names[number]], source_turn_ids=[turns[0].id]))
        self.note(self.roof.learn_fact("The roof is blue", entity_ids=names[1:], depends_on=[self.pick("Fact", 0)]))
        self.note(memory.semantic.relate(names[1], "KNOWS", names[2]))
        self.note(memory.add_goal("sing"))
        self.note(memory.forget(self.note(memory.learn_fact("Cleo sings")).id))
        for about in ALLOWED_DECISIONS:
            pair = (names[0], names[1])
            review = Review(
                id=same_entity_review_id("x", *pair) if about == "same_entity" else f"review {about}",
                about=about,
                question=f"Is it {about}?",
                proposed={"claim": f"Ann {about}", "source_turn_ids": [turns[1].id]},
                record_ids=pair if about == "same_entity" else (self.pick("Fact", len(about)),),
            )
            self.note(put(memory, review))

    def note(self, made: Any) -> Any:
        """Keep the ids of what a verb gave, for later steps."""
        for record in made if isinstance(made, list | tuple) else [made]:
            if isinstance(record, Record):
                known = self.ids.setdefault(record.kind, [])
                known += [record.id] if record.id not in known else []
            elif isinstance(record, ForgetReceipt):
                self.gone += record.ids
        return made

    def pick(self, kind: str, which: int) -> str:
        return self.ids[kind][which % len(self.ids[kind])]

    def decide(self, which: int, how: int) -> Any:
        about = list(ALLOWED_DECISIONS)[which % len(ALLOWED_DECISIONS)]
        choices = ALLOWED_DECISIONS[about]
        return self.roof.semantic.resolve_review(self.pick("Review", which), choices[how % len(choices)])

    def do(self, verb: str, a: int, b: int) -> bool:
        """Whether a step was done; what is refused writes nothing."""
        at = read_head(self.memory)
        try:
            self.note(STEPS[verb](self, a, b))
        except AgentMemError:
            assert read_head(self.memory) == at, verb
        if read_head(self.memory) > at:
            self.operations.append(last_operation_id(self.memory))
        return read_head(self.memory) > at


Step = Callable[[World, int, int], Any]
STEPS: dict[str, Step] = {
    "store_turn": lambda w, a, b: w.memory.store_turn({"content": "one", "conversation_id": f"c{a % 2}"}),
    "store_turns": lambda w, a, b: w.roof.store_turns([{"content": "2", "conversation_id": f"c{a % 3}"}] * (b % 2 + 1)),
    "learn_fact": lambda w, a, b: w.memory.learn_fact(CLAIMS[a % 6], entity_ids=[w.pick("Entity", b)]),
    "learn_fact source": lambda w, a, b: w.memory.learn_fact(CLAIMS[a % 6], source_turn_ids=[w.pick("Turn", b)]),
    "learn_fact premise": lambda w, a, b: w.roof.learn_fact(CLAIMS[a % 6], depends_on=[w.pick("Fact", b)]),
    "update_fact": lambda w, a, b: w.roof.semantic.update_fact(w.pick("Fact", a), claim=CLAIMS[b % 6]),
    "update_fact tags": lambda w, a, b: w.roof.semantic.update_fact(w.pick("Fact", a), tags=[str(b)]),
    "supersede_fact": lambda w, a, b: w.roof.semantic.supersede_fact(w.pick("Fact", a), CLAIMS[b % 6]),
    "correct_fact": lambda w, a, b: w.roof.semantic.supersede_fact(
        w.pick("Fact", a), CLAIMS[b % 6], is_correction=True
    ),
    "boost_salience": lambda w, a, b: w.roof.semantic.boost_salience(w.pick("Fact", a), 0.1 * (1 + b % 3)),
    "promote_to_global": lambda w, a, b: w.roof.semantic.promote_to_global(w.pick("Fact", 3 + a % 2), "known"),
    "upsert_entity": lambda w, a, b: w.memory.upsert_entity({"name": f"Entity {a % 3}", "aliases": [f"E{b % 3}"]}),
    "relate": lambda w, a, b: (w.roof if a % 3 else w.memory).semantic.relate(
        w.pick("Entity", a), ("KNOWS", "likes")[b % 2], w.pick("Entity", b)
    ),
    "merge_entities": lambda w, a, b: w.memory.semantic.merge_entities(w.pick("Entity", a), w.pick("Entity", b)),
    "split_entity": lambda w, a, b: w.memory.semantic.split_entity(w.pick("Entity", a)),
    "add_goal": lambda w, a, b: w.memory.add_goal({"description": f"goal {a}", "parent_id": w.pick("Goal", b)}),
    "complete_goal": lambda w, a, b: w.memory.complete_goal(w.pick("Goal", a), ("completed", "abandoned")[b % 2]),
    "update_profile": lambda w, a, b: w.memory.update_profile(preferences={"tone": a}, expertise_areas=[str(b)]),
    "resolve_review": lambda w, a, b: w.decide(a, b),
    "forget": lambda w, a, b: w.roof.forget(w.pick(("Fact", "Entity", "Edge", "Turn", "Review", "Goal")[a % 6], b)),
    "restore": lambda w, a, b: w.roof.restore(w.gone[a % len(w.gone)]),
    "delete_conversation": lambda w, a, b: w.roof.episodic.delete_conversation(f"c{a % 3}"),
    "restore conversation": lambda w, a, b: w.roof.restore(f"c{a % 3}"),
    "undo": lambda w, a, b: w.roof.undo(w.operations[a % len(w.operations)]) if w.operations else None,
}

# Each verb once, and those with several effects for each of them. Every one of these writes.
EACH = [
    ("store_turn", 0, 0),
    ("store_turns", 2, 1),
    ("learn_fact", 3, 2),
    ("learn_fact", 0, 1),
    ("learn_fact source", 4, 1),
    ("learn_fact premise", 5, 0),
    ("update_fact tags", 0, 1),
    ("update_fact", 1, 5),
    ("supersede_fact", 2, 4),
    ("correct_fact", 0, 3),
    ("boost_salience", 3, 0),
    ("promote_to_global", 0, 0),
    ("upsert_entity", 0, 0),
    ("upsert_entity", 0, 1),
    ("relate", 0, 1),
    ("relate", 1, 0),
    ("relate", 2, 0),
    ("merge_entities", 0, 1),
    ("relate", 2, 1),
    ("split_entity", 1, 0),
    ("merge_entities", 2, 0),
    ("split_entity", 2, 0),
    ("add_goal", 0, 0),
    ("complete_goal", 1, 0),
    ("update_profile", 0, 0),
    ("update_profile", 1, 1),
    ("resolve_review", 0, 0),
    ("resolve_review", 1, 1),
    ("resolve_review", 2, 0),
    ("resolve_review", 3, 0),
    ("resolve_review", 4, 0),
    ("forget", 0, 0),
    ("forget", 1, 2),
    ("forget", 2, 1),
    ("forget", 3, 0),
    ("forget", 4, 0),
    ("forget", 5, 0),
    ("restore", 0, 0),
    ("restore", 4, 0),
    ("delete_conversation", 0, 0),
    ("restore conversation", 0, 0),
    ("undo", 0, 0),
]


@contextmanager
def unwound(world: World) -> Iterator[Callable[[str, int, int], bool]]:
    """Takes steps; in the end all are undone, the last first, and everything is compared with what was before each."""
    states = [standing(world.roof)]

    def step(verb: str, a: int, b: int) -> bool:
        done = world.do(verb, a, b)
        if done:
            states.append(standing(world.roof))
        return done

    yield step
    done = world.operations[:]
    for operation, earlier in zip(reversed(done), reversed(states[:-1]), strict=True):
        world.roof.undo(operation)
        assert standing(world.roof) == earlier


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=STACKS)
def users(request: pytest.FixtureRequest, home: Path, clock: ManualClock) -> Iterator[Iterator[AgentMemory]]:
    """Memories of one user after the other, on one stack."""
    stack: Stack | None = request.getfixturevalue("stack") if request.param == "servers" else None
    more = {} if stack is None else {**stack.urls, "catch_up_ms": 60_000}
    name = str if stack is None else stack.user
    with open_memory(home, clock=clock, seed=5, audit_level="off", **more) as shared:
        yield (shared.scoped(user_id=name(f"user {number}")) for number in range(10_000))


@pytest.mark.parametrize("users", FILE_FIRST, indirect=True)
def test_every_kind_of_operation_is_undone(
    users: Iterator[AgentMemory], clock: ManualClock, request: pytest.FixtureRequest
) -> None:
    world = World(next(users))
    once = {verb: (verb, a, b) for verb, a, b in reversed(EACH)}  # a step on servers takes a third of a second
    assert set(once) == set(STEPS)
    with unwound(world) as step:
        for verb, a, b in EACH if "file" in request.node.name else reversed(once.values()):
            clock.advance(minutes=1)
            assert step(verb, a, b), f"{verb} {a} {b} wrote nothing"


STEP = st.tuples(st.sampled_from(list(STEPS)), st.integers(0, 7), st.integers(0, 7))


@pytest.mark.long
def test_any_history_of_every_verb_is_unwound(
    users: Iterator[AgentMemory], clock: ManualClock, request: pytest.FixtureRequest
) -> None:
    done: Counter[str] = Counter()
    on_file = "file" in request.node.name

    @settings(max_examples=scaled(25, least=9) if on_file else 1)
    @given(steps=st.lists(STEP, min_size=8, max_size=12))
    def unwind(steps: list[tuple[str, int, int]]) -> None:
        world = World(next(users))
        with unwound(world) as step:
            for verb, a, b in steps:
                clock.advance(minutes=1)
                done[verb] += step(verb, a, b)

    unwind()
    assert not on_file or len(+done) > len(STEPS) * 3 / 4, f"hardly ever done: {set(STEPS) - set(+done)}"
