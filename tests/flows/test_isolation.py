"""Nobody sees, changes or outranks anything of anybody else: users, private agents, channels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentmem import AgentMemory, Fact, InvalidRecord, NotFound, Turn
from agentmem.core.changes import Change
from agentmem.core.scope import Scope
from agentmem.text.normalization import hash_claim
from tests.flows.given import ManualClock, bundle_ids, engine_of, open_memory, read_tables, run, visible_content
from tests.scale import NIGHTLY, scaled
from tests.servers.stack import Stack

QUERIES = ["Where does Ann keep the spare key?", "spare key under the mat", "Ann", "когда"]
OTHERS = 10_000 if NIGHTLY else 2_000  # many times as many as any technique finds


def fill(memory: AgentMemory) -> None:
    """Alice's own memory: turns, facts, an entity, a goal."""
    told = [
        "Ann keeps the spare key under the mat.",
        "Which mat?",
        "The blue one.",
        "Ann called about dinner.",
        "Когда ужин?",
    ]
    turns = memory.store_turns(
        [
            {"content": text, "turn_id": f"own {number}", "conversation_id": f"c{number % 2}"}
            for number, text in enumerate(told * 5)
        ]
    )
    ann = memory.upsert_entity({"name": "Ann", "type": "person"})
    memory.learn_fact("Ann has a spare key", entity_ids=[ann.id], source_turn_ids=[turns[0].id])
    memory.learn_fact("Dinner is at eight")
    memory.add_goal("Return the spare key to Ann")
    memory.update_profile(preferences={"tone": "short"})


def crowd(memory: AgentMemory, count: int, mark: str = "", *, linked: int | None = None) -> None:
    """Facts and turns of other users, each nearer to the queries than anything of Alice's.

    From `linked` on their graph is left behind, which on servers takes much longer than all the rest.
    """
    inside = engine_of(memory)
    for start in range(0, count, 500):
        user = f"other {start // 1000}{mark}"
        changes = []
        for number in range(start, min(start + 500, count)):
            text = f"{QUERIES[number % len(QUERIES)]} {number if number % 3 else ''}".strip()
            scope = Scope(user)
            record: Fact | Turn = Fact(id=f"f{number}", claim=text, claim_hash=hash_claim(text) + str(number))
            if number % 2:
                record = Turn(id=f"t{number}", content=text, conversation_id=f"c{start}", timestamp=inside.clock.now())
            changes.append(
                Change(scope=scope, operation="store", operation_id="crowd", change_id=f"{number}", upserts=(record,))
            )
        run(inside.log.append(changes))
        run(inside.flush(Scope(user)) if linked is None or start < linked else inside.sync_projections(Scope(user)))


def test_many_nearer_records_of_others_change_nothing(home: Path) -> None:
    with open_memory(home, seed=1) as memory:
        fill(memory)
        asked = [(query, techniques) for query in QUERIES for techniques in (None, ["vector"], ["keyword"])]
        before = [
            visible_content(memory.remember(query, techniques=techniques, reinforce=False))
            for query, techniques in asked
        ]
        contexts = [memory.context(query, reinforce=False) for query in QUERIES]
        crowd(memory, OTHERS)
        assert [
            visible_content(memory.remember(query, techniques=techniques, reinforce=False))
            for query, techniques in asked
        ] == before
        assert [memory.context(query, reinforce=False) for query in QUERIES] == contexts
        other = memory.scoped(user_id="other 0").remember(QUERIES[0])
        assert other.items, "they are there, and found by their owner"
        assert not bundle_ids(other) & bundle_ids(memory.remember(QUERIES[0], reinforce=False))
    with open_memory(home, seed=1) as again:
        assert [visible_content(again.remember(query, techniques=t, reinforce=False)) for query, t in asked] == before


TEXTS = st.lists(st.sampled_from(["Ann keeps the spare key", "a spare key", "the mat", "ужин", "?", "dinner at eight"]))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentMemory]:
    with open_memory(tmp_path_factory.mktemp("isolation") / "home", seed=1, audit_level="off") as memory:
        yield memory


USERS = iter(range(100_000))


@settings(max_examples=scaled(25, least=6))
@given(mine=TEXTS, theirs=TEXTS, query=st.sampled_from(QUERIES))
def test_whatever_others_write_a_bundle_stays_as_it_was(
    shared: AgentMemory, mine: list[str], theirs: list[str], query: str
) -> None:
    memory, other = (shared.scoped(user_id=f"user {next(USERS)}") for _ in range(2))
    for face, told in ((memory, mine), (other, [])):
        face.store_turns([{"content": text, "conversation_id": "c"} for text in told])
    for text in mine:
        memory.learn_fact(text)
    before = visible_content(memory.remember(query, reinforce=False))
    for text in theirs:
        other.learn_fact(text)
        other.remember(text)
    other.store_turns([{"content": text, "conversation_id": "c"} for text in theirs])
    assert visible_content(memory.remember(query, reinforce=False)) == before
    other.erase()
    assert visible_content(memory.remember(query, reinforce=False)) == before


@settings(max_examples=scaled(25, least=6))
@given(private=TEXTS, asked=st.sets(st.sampled_from(["_global", "_swarm", "roof", "cellar"]), min_size=1))
def test_a_bundle_holds_nothing_from_a_channel_that_is_not_read(
    shared: AgentMemory, private: list[str], asked: set[str]
) -> None:
    user = shared.scoped(user_id=f"user {next(USERS)}")
    bot = user.scoped(agent_id="bot", channel="_self_bot")
    places = {name: user.scoped(channel=name) for name in ("_global", "_swarm", "roof", "cellar")}
    hidden = {bot.learn_fact(text).id for text in private} | {bot.store_turn("the spare key, privately").id}
    held = {name: {face.learn_fact(f"the spare key of {name}").id} for name, face in places.items()}
    for name, face in places.items():
        held[name].add(face.store_turn(f"the spare key in {name}").id)
    explicit = user.remember("spare key", channels=sorted(asked), top_k=100)
    assert bundle_ids(explicit) == set().union(*(held[name] for name in asked)), "exactly the list, every one of it"
    assert (
        bundle_ids(places["roof"].remember("spare key", top_k=100)) == held["roof"] | held["_swarm"] | held["_global"]
    )
    assert bundle_ids(bot.remember("spare key", top_k=100)) == hidden | held["_swarm"] | held["_global"]
    for bundle in (user.remember("spare key", top_k=100), places["cellar"].remember("spare key", top_k=100)):
        assert not bundle_ids(bundle) & hidden
    assert hidden <= bundle_ids(user.scoped(agent_id="bot").remember("spare key", top_k=100))


class Strangers:
    """Alice's records by letter, and somebody who must not reach them."""

    def __init__(self, owner: AgentMemory, stranger: AgentMemory) -> None:
        self.stranger = stranger
        self.turn = owner.store_turn("private words", turn_id="t").id
        self.conversation = owner.episodic.conversations()[0].id
        self.ann, self.ben = (owner.upsert_entity({"name": name}).id for name in ("Ann", "Ben"))
        fact = owner.learn_fact("Ann sings", entity_ids=[self.ann], source_turn_ids=["t"])
        self.fact, self.operation = fact.id, fact.operation_id
        self.gone = owner.learn_fact("Ben sings").id
        owner.forget(self.gone)
        self.goal = owner.add_goal("sing").id
        self.edge = owner.semantic.relate(self.ann, "KNOWS", self.ben).id
        self.receipt = owner.remember("Ann").receipt.id
        owner.working.remember_output("private words", source="tool")


REACHING: dict[str, Callable[[Strangers, AgentMemory], Any]] = {
    "get_goal": lambda s, m: m.get_goal(s.goal),
    "complete_goal": lambda s, m: m.complete_goal(s.goal),
    "sub goal": lambda s, m: m.add_goal({"description": "x", "parent_id": s.goal}),
    "forget": lambda s, m: m.forget(s.fact),
    "forget turn": lambda s, m: m.forget(s.turn),
    "forget hard": lambda s, m: m.forget(s.turn, hard=True),
    "forget conversation": lambda s, m: m.forget(s.conversation, hard=True),
    "forget edge": lambda s, m: m.forget(s.edge),
    "restore": lambda s, m: m.restore(s.gone),
    "undo": lambda s, m: m.undo(s.operation),
    "get_conversation": lambda s, m: m.episodic.get_conversation(s.conversation),
    "read_thread": lambda s, m: m.episodic.read_thread(s.conversation, s.turn),
    "delete_conversation": lambda s, m: m.episodic.delete_conversation(s.conversation),
    "get_fact": lambda s, m: m.semantic.get_fact(s.fact),
    "update_fact": lambda s, m: m.semantic.update_fact(s.fact, claim="x"),
    "supersede_fact": lambda s, m: m.semantic.supersede_fact(s.fact, "x"),
    "boost_salience": lambda s, m: m.semantic.boost_salience(s.fact),
    "provenance": lambda s, m: m.semantic.provenance(s.fact),
    "history": lambda s, m: m.semantic.history(s.fact),
    "promote_to_global": lambda s, m: m.semantic.promote_to_global(s.fact, "x"),
    "promote": lambda s, m: m.curation.promote(s.fact),
    "touch": lambda s, m: m.curation.touch(s.fact),
    "merge": lambda s, m: m.curation.merge([s.fact, s.gone]),
    "relate": lambda s, m: m.semantic.relate(s.ann, "KNOWS", s.ben),
    "source": lambda s, m: m.learn_fact("x", source_turn_ids=[s.turn]),
    "entity": lambda s, m: m.learn_fact("x", entity_ids=[s.ann]),
    "neighborhood": lambda s, m: m.graph.neighborhood(s.ann),
    "neighborhood by name": lambda s, m: m.graph.neighborhood("Ann"),
    "paths": lambda s, m: m.graph.paths(s.ann, s.ben),
    "premise": lambda s, m: m.learn_fact("x", depends_on=[s.fact]),
}
LOOKING: dict[str, Callable[[Strangers, AgentMemory], Any]] = {
    "get_entity_graph": lambda s, m: m.semantic.get_entity_graph([s.ann, s.ben], 3).entities,
    "communities": lambda s, m: m.graph.communities().communities,
    "central_entities": lambda s, m: m.graph.central_entities().entities,
    "facts": lambda s, m: m.semantic.facts({"retired": True}),
    "entities": lambda s, m: m.semantic.entities(),
    "recent_turns": lambda s, m: m.episodic.recent_turns(),
    "conversations": lambda s, m: m.episodic.conversations(),
    "goals": lambda s, m: m.goals.active(),
    "remember": lambda s, m: m.remember("Ann Ben sings private words").items,
    "working": lambda s, m: m.scoped(conversation_id=s.conversation).working.turns(),
    "outputs": lambda s, m: m.scoped(conversation_id=s.conversation).working.search_outputs("private words"),
    "queue": lambda s, m: m.curation.queue(),
    "clusters": lambda s, m: m.curation.clusters(),
    "observe_usage": lambda s, m: list(range(m.observe_usage([s.fact, s.turn]))),
}
BY_USER = {
    "receipt": lambda s, m: m.audit.receipt(s.receipt),
    "replay": lambda s, m: m.audit.replay(s.receipt),
    "why_not": lambda s, m: m.audit.why_not(s.receipt, s.fact),
}


@dataclass(frozen=True)
class Held:
    """Alice's memory on a stack, the name that Bob has there, and all rows of all tables but those in SKIPPED."""

    memory: AgentMemory
    bob: str
    rows: Callable[[], dict[str, list[Any]]]


SKIPPED = {"memory_audit_log", "store_meta", "projection_watermarks"}  # hints of how far the graph is come late
SERVERS = pytest.param("servers", marks=pytest.mark.server("postgres", "neo4j", "redis"))


@pytest.fixture(params=["embedded", SERVERS])
def held(request: pytest.FixtureRequest, home: Path, clock: ManualClock) -> Iterator[Held]:
    if request.param == "embedded":
        with open_memory(home, clock=clock, seed=7) as memory:
            yield Held(memory, "bob", lambda: read_tables(memory, leave_out=SKIPPED))
        return
    stack: Stack = request.getfixturevalue("stack")
    with open_memory(home, stack.user(), clock=clock, seed=7, recall_rate=0, **stack.urls) as memory:
        yield Held(memory, stack.user("bob"), lambda: server_tables(stack.log_url))


def server_tables(url: str) -> dict[str, list[Any]]:
    """The content of every table of a database."""
    named = "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')"
    with psycopg.connect(url) as db:
        names = sorted(name for (name,) in db.execute(named) if not name.startswith("memory_audit_log"))
        rows = {name: db.execute(f'SELECT t::text FROM "{name}" t ORDER BY 1') for name in names if name not in SKIPPED}
        return {name: found.fetchall() for name, found in rows.items()}


@pytest.fixture(params=["user", "agent"])
def strangers(held: Held, request: pytest.FixtureRequest) -> Strangers:
    memory = held.memory
    if request.param == "user":
        return Strangers(memory, memory.scoped(user_id=held.bob))
    return Strangers(
        memory.scoped(agent_id="bot", channel="_self_bot"), memory.scoped(agent_id="spy", channel="_self_spy")
    )


def test_ids_of_others_reach_nothing_on_any_verb(held: Held, strangers: Strangers) -> None:
    held.memory.flush()
    before = held.rows()
    for name, call in REACHING.items():
        with pytest.raises((NotFound, InvalidRecord)):
            print(name, call(strangers, strangers.stranger))
    for name, call in LOOKING.items():
        assert list(call(strangers, strangers.stranger)) == [], name
    assert {name: rows for name, rows in held.rows().items() if rows != before[name]} == {}
    assert before["memory_versions"]


def test_receipts_and_audit_rows_are_shown_to_their_user_only(held: Held) -> None:
    bob = held.memory.scoped(user_id=held.bob)
    strangers = Strangers(held.memory, bob)
    for call in BY_USER.values():
        with pytest.raises(NotFound):
            call(strangers, bob)
    assert bob.audit.query() == []
    assert held.memory.audit.query()
    now = engine_of(bob).clock.now()
    assert bob.diff(now - timedelta(days=1), now + timedelta(days=1)).learned == ()


def test_diff_and_provenance_show_readable_channels_only(memory: AgentMemory) -> None:
    bot = memory.scoped(agent_id="bot", channel="_self_bot")
    turn = bot.store_turn("a private word")
    shared = memory.scoped(agent_id="bot").learn_fact("The bot knows a word", source_turn_ids=[turn.id])
    now = memory._inner.engine.clock.now()
    learned = memory.diff(now - timedelta(days=1), now).learned
    assert [record.id for record in learned] == [shared.id]
    assert memory.semantic.provenance(shared.id) == []
    assert bot.semantic.provenance(shared.id) == [turn]


def test_one_id_may_be_used_by_many_users(memory: AgentMemory) -> None:
    bob = memory.scoped(user_id="bob")
    for face, text in ((memory, "of Alice"), (bob, "of Bob")):
        face.store_turn({"content": text, "turn_id": "same", "conversation_id": "same"})
        face.upsert_entity({"name": text, "id": "same"})
        face.add_goal({"description": text, "id": "same"})
    assert memory.get_goal("same").description == "of Alice"
    assert bob.episodic.get_conversation("same")[0].content == "of Bob"
    memory.forget("same", hard=True)
    assert bob.get_goal("same").description == "of Bob"
    assert [turn.content for turn in bob.remember("of").turns] == ["of Bob"]


def test_an_entity_id_of_another_channel_is_not_written_over(memory: AgentMemory) -> None:
    bot = memory.scoped(agent_id="bot", channel="_self_bot")
    secret = bot.upsert_entity({"name": "Secret", "id": "e"})
    own = memory.upsert_entity({"name": "Open", "id": "e"})
    assert (own.name, own.aliases, own.given_id) == ("Open", (), "e")
    assert bot.semantic.entities("Secret") == [secret]
    assert memory.semantic.entities() == [own]


def test_a_relation_stated_twice_stays_in_both_channels(memory: AgentMemory) -> None:
    ann, ben = (memory.upsert_entity({"name": name}).id for name in ("Ann", "Ben"))
    public = memory.semantic.relate(ann, "KNOWS", ben)
    private = memory.scoped(agent_id="bot", channel="_self_bot").semantic.relate(ann, "KNOWS", ben, {"since": 2019})
    assert public.id != private.id
    assert [edge.properties for edge in memory.semantic.get_entity_graph([ann], 1).edges] == [{}]
