"""Bad input is refused with the field's name before anything is written."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from agentmem import (
    AgentMemError,
    AgentMemory,
    AsyncAgentMemory,
    Closed,
    ConfigError,
    Conflict,
    Entity,
    InvalidRecord,
    NotFound,
    ScopeError,
    Turn,
)
from tests.flows.given import bundle_texts, open_memory, read_head, read_tables

LATER, SOONER = datetime(2025, 1, 2, tzinfo=UTC), datetime(2025, 1, 1, tzinfo=UTC)
FIRST_DAY = datetime.min.replace(tzinfo=timezone(timedelta(hours=5)))

BAD: list[tuple[str, Callable[[Any], Any]]] = [
    ("content", lambda m: m.store_turn("")),
    ("content", lambda m: m.store_turn(" \n")),
    ("content", lambda m: m.store_turn({"role": "user"})),
    ("content", lambda m: m.store_turn({"content": 7})),
    ("content", lambda m: m.store_turn("x" * 1_000_001)),
    ("turn", lambda m: m.store_turn(7)),
    ("turn", lambda m: m.store_turn({"content": "x"}, speaker="Ann")),
    ("turns", lambda m: m.store_turns("text")),
    ("turns", lambda m: m.store_turns({"content": "x"})),
    ("turns", lambda m: m.store_turns(["x"] * 1001)),
    ("role", lambda m: m.store_turn("x", role="")),
    ("role", lambda m: m.store_turn("x", role="r" * 21)),
    ("mood", lambda m: m.store_turn({"content": "x", "mood": "calm"})),
    ("turn_id", lambda m: m.store_turn("x", turn_id="")),
    ("turn_id", lambda m: m.store_turn("x", turn_id="t" * 201)),
    ("turn_id", lambda m: m.store_turns([{"content": "x", "turn_id": "a"}, {"content": "y", "turn_id": "a"}])),
    ("timestamp", lambda m: m.store_turn("x", timestamp="yesterday")),
    ("timestamp", lambda m: m.store_turn("x", timestamp=FIRST_DAY)),
    ("metadata", lambda m: m.store_turn("x", metadata={"a": object()})),
    ("metadata", lambda m: m.store_turn("x", metadata="a")),
    ("conversation_id", lambda m: m.store_turn({"content": "x", "conversation_id": "a\x00b"})),
    ("conversation_id", lambda m: m.store_turn({"content": "x", "conversation_id": "  "})),
    ("index", lambda m: m.store_turn({"content": "x", "conversation_id": "taken", "index": 0})),
    ("index", lambda m: m.store_turn({"content": "x", "index": -2})),
    ("embedding", lambda m: m.store_turn({"content": "x", "embedding": [0.0] * 512})),
    ("embedding", lambda m: m.store_turn({"content": "x", "embedding": [float("nan")] * 512})),
    ("content", lambda m: m.store_turns(["fine", ""])),
    ("claim", lambda m: m.learn_fact("")),
    ("claim", lambda m: m.learn_fact(None)),
    ("confidence", lambda m: m.learn_fact("x", confidence=1.1)),
    ("confidence", lambda m: m.learn_fact("x", confidence=float("nan"))),
    ("salience", lambda m: m.learn_fact("x", salience=-0.1)),
    ("tier", lambda m: m.learn_fact("x", tier="medium")),
    ("memory_type", lambda m: m.learn_fact("x", memory_type="rumour")),
    ("temporal_context", lambda m: m.learn_fact("x", temporal_context="soon")),
    ("tags", lambda m: m.learn_fact("x", tags="home")),
    ("valid_to", lambda m: m.learn_fact("x", valid_from=LATER, valid_to=SOONER)),
    ("valid_from", lambda m: m.learn_fact("x", valid_from="once upon a time")),
    ("entity_ids", lambda m: m.learn_fact("x", entity_ids=["nobody"])),
    ("source_turn_ids", lambda m: m.learn_fact("x", source_turn_ids=["nothing"])),
    ("depends_on", lambda m: m.learn_fact("x", depends_on=["nothing"])),
    ("claim", lambda m: m.semantic.update_fact("f", claim=" ")),
    ("entity_ids", lambda m: m.semantic.update_fact("f", entity_ids=["nobody"])),
    ("valid_to", lambda m: m.semantic.update_fact("f", valid_from=LATER, valid_to=SOONER)),
    ("colour", lambda m: m.semantic.update_fact("f", colour="red")),
    ("claim", lambda m: m.semantic.supersede_fact("f", "")),
    ("colour", lambda m: m.semantic.supersede_fact("f", "y", colour="red")),
    ("by", lambda m: m.semantic.boost_salience("f", float("nan"))),
    ("by", lambda m: m.semantic.boost_salience("f", "a lot")),
    ("fact_id", lambda m: m.semantic.promote_to_global("f", "why not")),
    ("colour", lambda m: m.semantic.facts({"colour": "red"})),
    ("as_of", lambda m: m.semantic.facts({"as_of": "2020"})),
    ("limit", lambda m: m.semantic.facts(limit=-1)),
    ("name", lambda m: m.upsert_entity({"name": " "})),
    ("name", lambda m: m.upsert_entity({"type": "person"})),
    ("type", lambda m: m.upsert_entity({"name": "Ann", "type": ""})),
    ("age", lambda m: m.upsert_entity({"name": "Ann", "age": 7})),
    ("entity", lambda m: m.upsert_entity("Ann")),
    ("user_id", lambda m: m.upsert_entity(Entity(name="Ann", user_id="bob"))),
    ("properties", lambda m: m.upsert_entity({"name": "Ann", "properties": {"a": object()}})),
    ("source", lambda m: m.semantic.relate("nobody", "KNOWS", "e")),
    ("target", lambda m: m.semantic.relate("e", "KNOWS", "nobody")),
    ("kind", lambda m: m.semantic.relate("e", "", "e")),
    ("confidence", lambda m: m.semantic.relate("e", "KNOWS", "e", confidence=2)),
    ("fact_id", lambda m: m.semantic.relate("e", "KNOWS", "e", fact_id="nothing")),
    ("properties", lambda m: m.semantic.relate("e", "KNOWS", "e", "since 2019")),
    ("depth", lambda m: m.semantic.get_entity_graph(["e"], 4)),
    ("ids", lambda m: m.semantic.get_entity_graph("e")),
    ("depth", lambda m: m.graph.neighborhood("e", 4)),
    ("b", lambda m: m.graph.paths("e", "Eve")),
    ("max_steps", lambda m: m.graph.paths("e", "user", 7)),
    ("limit", lambda m: m.graph.paths("e", "user", limit=0)),
    ("kinds", lambda m: m.graph.paths("e", "user", kinds=["LIKES"])),
    ("min_size", lambda m: m.graph.communities(1)),
    ("limit", lambda m: m.graph.central_entities(limit=0)),
    ("description", lambda m: m.add_goal("")),
    ("priority", lambda m: m.add_goal({"description": "x", "priority": 6})),
    ("goal", lambda m: m.add_goal(7)),
    ("parent_id", lambda m: m.add_goal({"description": "x", "parent_id": "nothing"})),
    ("status", lambda m: m.complete_goal("g", "paused")),
    ("preferences", lambda m: m.update_profile(preferences=["short"])),
    ("expertise_areas", lambda m: m.update_profile(expertise_areas="law")),
    ("metadata", lambda m: m.update_profile(metadata={"a": object()})),
    ("ids", lambda m: m.observe_usage("f")),
    ("context_tags", lambda m: m.observe_usage(["f"], "chat")),
    ("query", lambda m: m.remember(7)),
    ("top_k", lambda m: m.remember("x", top_k=0)),
    ("top_k", lambda m: m.remember("x", top_k=101)),
    ("channels", lambda m: m.remember("x", channels=[])),
    ("channels", lambda m: m.remember("x", channels=[""])),
    ("as_of", lambda m: m.remember("x", as_of="2020-01-01")),
    ("known_at", lambda m: m.remember("x", known_at=2020)),
    ("since", lambda m: m.remember("x", since=LATER, until=SOONER)),
    ("time_window_hours", lambda m: m.remember("x", time_window_hours=0)),
    ("min_confidence", lambda m: m.remember("x", min_confidence=1.5)),
    ("include", lambda m: m.remember("x", include=["dreams"])),
    ("counter", lambda m: m.context("x", counter=lambda text: float("nan"))),
    ("counter", lambda m: m.context("x", counter=lambda text: "many")),
    ("counter", lambda m: m.synopsis(counter=lambda text: -1)),
    ("tool_input", lambda m: m.procedural.record_invocation("t", CYCLE)),
    ("tool_input", lambda m: m.procedural.record_invocation("t", {"a": 10**5000})),
    ("techniques", lambda m: m.remember("x", techniques=["clairvoyance"])),
    ("max_tokens", lambda m: m.context("x", 0)),
    ("earlier", lambda m: m.diff("2020", SOONER)),
    ("radius", lambda m: m.episodic.read_thread("taken", "t", -1)),
    ("hours", lambda m: m.episodic.recent_turns(hours=-1)),
    ("limit", lambda m: m.episodic.recent_turns(-1)),
    ("ttl", lambda m: m.working.set("k", 1, ttl=0)),
    ("key", lambda m: m.working.set("", 1)),
    ("value", lambda m: m.working.set("k", object())),
    ("thought", lambda m: m.working.push_thought(" ")),
    ("since", lambda m: m.audit.query(since="yesterday")),
    ("role", lambda m: m.store_turn("x", role="wizard")),
    ("role", lambda m: m.store_turn({"content": "x", "role": "Ann"})),
    ("timestamp", lambda m: m.store_turn("x", timestamp=1.5)),
    ("timestamp", lambda m: m.store_turn({"content": "x", "timestamp": 1.5})),
    ("timestamp", lambda m: m.store_turn({"content": "x", "timestamp": "1700000000"})),
    ("index", lambda m: m.store_turn({"content": "x", "index": "3"})),
    ("token_count", lambda m: m.store_turn({"content": "x", "token_count": True})),
    ("metadata", lambda m: m.store_turn("x", metadata={"a": float("nan")})),
    ("metadata", lambda m: m.store_turn("x", metadata={"a": {1, 2}})),
    ("metadata", lambda m: m.store_turn("x", metadata={"a": LATER})),
    ("metadata", lambda m: m.store_turn("x", metadata={1: "a"})),
    ("metadata", lambda m: m.store_turn("x", metadata={"a": 10**5000})),
    ("metadata", lambda m: m.store_turn("x", metadata=nest(60))),
    ("metadata", lambda m: m.store_turn("x", metadata=nest(100_000))),
    ("aliases", lambda m: m.upsert_entity({"name": "Ann", "aliases": {"Anna", "Nan"}})),
    ("preferences", lambda m: m.update_profile(preferences={"a": float("inf")})),
    ("confidence", lambda m: m.learn_fact("x", confidence="0.5")),
    ("priority", lambda m: m.add_goal({"description": "x", "priority": "5"})),
    ("idempotency_key", lambda m: m.store_turn("x", idempotency_key="\ud800")),
    ("ttl", lambda m: m.working.set("k", 1, ttl=1e300)),
    ("ttl", lambda m: m.working.set("k", 1, ttl=float("nan"))),
    ("value", lambda m: m.working.set("k", {"a": {1}})),
    ("tool_input", lambda m: m.procedural.record_invocation("t", {1: 2})),
    ("limit", lambda m: m.episodic.recent_turns(10**30)),
    ("limit", lambda m: m.episodic.recent_turns("5")),
    ("max_tokens", lambda m: m.context("x", float("nan"))),
    ("counter", lambda m: m.context("x", counter="words")),
    ("record_id", lambda m: m.forget(m.learn_fact)),
    ("ids", lambda m: m.observe_usage([7])),
    ("ids", lambda m: m.semantic.get_entity_graph({"e"})),
    ("hard", lambda m: m.forget("f", hard="no")),
    ("time_window_hours", lambda m: m.remember("x", time_window_hours=Decimal(1))),
    ("channels", lambda m: m.remember("x", channels="project")),
    ("channels", lambda m: m.remember("x", channels=["projcet"])),
]


CYCLE: dict[str, Any] = {}
CYCLE["self"] = CYCLE


def nest(levels: int) -> dict[str, Any]:
    """A mapping of so many levels."""
    found: dict[str, Any] = {}
    for _ in range(levels):
        found = {"a": found}
    return found


class Named:
    """Alice's memory, in which the letters e, f, g and t of the cases above stand for what is stored."""

    def __init__(self, memory: AgentMemory) -> None:
        self.memory = memory
        turn = memory.store_turn({"content": "taken", "conversation_id": "taken", "turn_id": "t"})
        self.names = {
            "e": memory.upsert_entity({"name": "Eve", "id": "e"}).id,
            "f": memory.learn_fact("Eve sings").id,
            "g": memory.add_goal({"description": "sing", "id": "g"}).id,
            "t": turn.id,
        }

    def face(self, inner: Any = None) -> Any:
        return _Face(self.memory if inner is None else inner, self.names)


class _Face:
    def __init__(self, inner: Any, names: dict[str, str]) -> None:
        self._inner, self._names = inner, names

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found):
            return _Face(found, self._names)
        return lambda *args, **kwargs: found(
            *(self._names.get(a, a) if isinstance(a, str) else a for a in args), **kwargs
        )


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Named]:
    with open_memory(tmp_path_factory.mktemp("bad") / "home", audit_level="off") as memory:
        yield Named(memory)


@pytest.mark.parametrize("field, call", BAD, ids=[f"{number}-{field}" for number, (field, _) in enumerate(BAD)])
def test_bad_input_names_its_field_and_writes_nothing(named: Named, field: str, call: Callable[[Any], Any]) -> None:
    before, journal = read_tables(named.memory), read_head(named.memory)
    with pytest.raises(InvalidRecord, match=field.removesuffix("s")) as error:
        call(named.face())
    assert error.value.field == field
    assert read_head(named.memory) == journal
    assert read_tables(named.memory) == before


@pytest.mark.parametrize("query, length", [("", "0"), ("   ", "3"), ("x" * 1_000_001, "1,000,001")])
def test_a_query_that_is_empty_or_too_long_is_a_value_error_with_both_lengths(
    named: Named, query: str, length: str
) -> None:
    for ask in (named.memory.remember, named.memory.context):
        with pytest.raises(ValueError, match="query") as error:
            ask(query)
        assert "1,000,000" in str(error.value)
        assert f"got {length}" in str(error.value)


@pytest.mark.parametrize(
    "call",
    [
        lambda m: m.semantic.get_fact("none"),
        lambda m: m.semantic.update_fact("none", claim="x"),
        lambda m: m.semantic.supersede_fact("none", "x"),
        lambda m: m.semantic.boost_salience("none"),
        lambda m: m.semantic.provenance("none"),
        lambda m: m.semantic.history("none"),
        lambda m: m.get_goal("none"),
        lambda m: m.semantic.promote_to_global("none", "x"),
        lambda m: m.complete_goal("none"),
        lambda m: m.forget("none"),
        lambda m: m.forget("none", hard=True),
        lambda m: m.restore("none"),
        lambda m: m.undo("none"),
        lambda m: m.audit.receipt("none"),
        lambda m: m.audit.replay("none"),
        lambda m: m.audit.why_not("none", "none"),
        lambda m: m.episodic.get_conversation("none"),
        lambda m: m.episodic.read_thread("none", "none"),
        lambda m: m.episodic.delete_conversation("none"),
        lambda m: m.episodic.read_thread("taken", "none"),
    ],
)
def test_an_unknown_id_is_not_found_and_writes_nothing(named: Named, call: Callable[[AgentMemory], Any]) -> None:
    journal = read_head(named.memory)
    with pytest.raises(NotFound):
        call(named.memory)
    assert read_head(named.memory) == journal


def test_an_id_that_is_taken_is_a_conflict(named: Named) -> None:
    with pytest.raises(Conflict, match="g"):
        named.memory.add_goal({"description": "another", "id": "g"})
    goal = named.memory.add_goal("short lived")
    named.memory.complete_goal(goal.id)
    with pytest.raises(InvalidRecord, match="ended"):
        named.memory.complete_goal(goal.id)


@pytest.mark.parametrize(
    "make, error",
    [
        (lambda home: AgentMemory("", home=home), InvalidRecord),
        (lambda home: AgentMemory("a" * 201, home=home), InvalidRecord),
        (lambda home: AgentMemory("_system", home=home), ScopeError),
        (lambda home: AgentMemory("alice", channel="_self_bot", home=home), ScopeError),
        (lambda home: AgentMemory("alice", hoem=home), ConfigError),
        (lambda home: AgentMemory("alice", home=home, embedder="nobody:x"), ConfigError),
        (lambda home: AgentMemory("alice", home=home, log_url="mysql://x"), ConfigError),
        (lambda home: AgentMemory("alice", home=home, recall={"vektor": {}}), ConfigError),
        (lambda home: AgentMemory("alice", home=home, recall={"vector": {"nearr": 1}}), ConfigError),
    ],
)
def test_what_cannot_work_stops_at_the_door(
    home: Path, make: Callable[[Path], Any], error: type[AgentMemError]
) -> None:
    with pytest.raises(error):
        make(home)


def test_a_private_channel_is_read_by_its_agent_only(memory: AgentMemory) -> None:
    with pytest.raises(ScopeError, match="private"):
        memory.remember("x", channels=["_self_bot"])
    with pytest.raises(ScopeError, match="private"):
        memory.scoped(channel="_self_bot")
    assert memory.scoped(agent_id="bot").remember("x", channels=["_self_bot"]).items == ()


def test_what_is_returned_is_what_is_read_later(memory: AgentMemory) -> None:
    turn = memory.store_turn({"content": "x", "role": "Human", "metadata": {"a": (1, {"b": True})}})
    assert (turn.role, turn.metadata) == ("user", {"a": [1, {"b": True}]})
    assert memory.get_record(turn.id) == turn


def test_a_channel_is_read_once_something_was_stored_in_it(memory: AgentMemory) -> None:
    for channel in ("_global", "_swarm"):
        assert memory.remember("x", channels=[channel]).items == ()
    project = memory.scoped(channel="project")
    assert project.remember("x", channels=["project"]).items == ()
    project.store_turn("The tea is green.")
    assert bundle_texts(memory.remember("tea", channels=["project"])) == ["The tea is green."]


def test_a_refused_turn_starts_no_conversation(memory: AgentMemory) -> None:
    with pytest.raises(InvalidRecord):
        memory.store_turn("")
    assert memory.episodic.conversations() == []
    assert memory.working.turns() == []


def test_a_turn_object_of_another_user_is_stored_as_ones_own(memory: AgentMemory) -> None:
    theirs = Turn(content="hello", id="x", user_id="bob", channel="elsewhere", seq=9)
    mine = memory.store_turn(theirs)
    assert (mine.user_id, mine.channel, mine.seq, mine.id) == ("alice", "_global", 1, "x")


CLOSED: list[Callable[[AgentMemory], Any]] = [
    lambda m: m.store_turn("x"),
    lambda m: m.remember("x"),
    lambda m: m.context("x"),
    lambda m: m.learn_fact("x"),
    lambda m: m.semantic.facts(),
    lambda m: m.working.get("x"),
    lambda m: m.working.turns(),
    lambda m: m.get_goal("x"),
    lambda m: m.lag(),
    lambda m: m.flush(),
    lambda m: m.erase(),
    lambda m: m.forget("x"),
    lambda m: m.audit.query(),
    lambda m: m.profile(),
    lambda m: m.undo("x"),
    lambda m: m.scoped(user_id="bob").store_turn("x"),
]


def test_a_closed_memory_says_so_on_every_verb(home: Path) -> None:
    memory = open_memory(home)
    memory.store_turn("x", turn_id="x")
    memory.close()
    memory.close()
    for call in CLOSED:
        with pytest.raises(Closed):
            call(memory)


def test_a_memory_that_was_never_opened_says_so(home: Path) -> None:
    memory = AsyncAgentMemory("alice", home=home, embedder="hash")
    with pytest.raises(Closed, match="not open"):
        asyncio.run(memory.store_turn("x"))
    assert not home.exists()
