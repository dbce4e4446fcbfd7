"""Random lives with all kinds of records: what is erased leaves no byte anywhere, and nothing else changes."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import neo4j
import psycopg
import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st

from agentmem import AgentMemory, Record
from tests.flows.given import context_of, engine_of, open_memory, run
from tests.scale import scaled_settings
from tests.servers.stack import Stack

PEOPLE = ["Zqanna", "Zqbertil", "Zqcarla", "Zqdmitri"]
CITIES = ["Zqgraz", "Zqoslo", "Zqporto", "Zqtallinn"]
KIN = ["sister", "brother", "boss", "friend"]


@dataclass
class Life:
    """A memory and what was told in it: each turn by its id, and what callers stored by hand, by the record's id."""

    memory: AgentMemory
    turns: dict[str, str] = field(default_factory=dict)
    given: dict[str, str] = field(default_factory=dict)
    conversations: dict[str, list[str]] = field(default_factory=dict)

    def say(self, draw: st.DrawFn, number: int) -> None:
        """A turn with a word of its own, a person and a place that other turns may name, too."""
        conversation = f"talk {draw(st.integers(0, 2))}"
        who, place = draw(st.sampled_from(PEOPLE)), draw(st.sampled_from(CITIES))
        content = f"My {draw(st.sampled_from(KIN))} {who} lives in {place} and keeps zqword{number}x."
        told = {"content": content, "turn_id": f"turn-{number}", "metadata": {"note": f"zqnote{number}x"}}
        if draw(st.booleans()):
            told["speaker"] = "Zqspeaker"
        turn = self.memory.scoped(conversation_id=conversation).store_turn(told)
        self.turns[turn.id] = f"{content} zqnote{number}x {told.get('speaker', '')}"
        self.conversations.setdefault(conversation, []).append(turn.id)

    def give(self, draw: st.DrawFn, number: int) -> None:
        """Something that a caller stores, some of it with turns as sources."""
        memory, word = self.memory, f"zqgiven{number}x"
        sources = draw(st.lists(st.sampled_from(sorted(self.turns)), max_size=2, unique=True))
        kind = draw(st.sampled_from(["fact", "goal", "strategy", "call", "entity", "instruction"]))
        made: Record
        if kind == "fact":
            made = memory.learn_fact(f"The garden has {word}", source_turn_ids=sources, tags=["garden"])
        elif kind == "goal":
            made = memory.add_goal(f"Buy {word}")
        elif kind == "strategy":
            made = memory.procedural.learn_strategy(f"Plant {word}", tool_sequence=["spade"], source_turn_ids=sources)
        elif kind == "call":
            made = memory.procedural.record_invocation("spade", {"what": word}, turn_id=next(iter(sources), None))
        elif kind == "entity":
            made = memory.upsert_entity({"name": draw(st.sampled_from(PEOPLE)), "type": "person", "description": word})
            word = f"{word} {made.name}"
        else:
            made = memory.procedural.stage_candidate(f"Always water {word}", source_turn_ids=sources)
        self.given[made.id] = word
        memory.observe_usage([made.id], ["garden"])

    def ask(self, draw: st.DrawFn) -> None:
        query = draw(st.sampled_from([*self.turns.values(), "november", "text", "fact", "Where does my sister live?"]))
        self.memory.remember(query)
        self.memory.context(query)

    def erase(self, target: str) -> set[str]:
        """Erase a turn, a conversation or something given; the ids of all that went."""
        receipt = self.memory.forget(target, hard=True)
        assert receipt.scan is not None
        assert (dict(receipt.scan.leftovers), receipt.hard) == ({}, True)
        gone = {*receipt.ids, *receipt.derived, *self.conversations.get(target, ())}
        for name in gone:
            self.turns.pop(name, None)
            self.given.pop(name, None)
        return gone

    def list_texts(self) -> str:
        """All that is still told by turns and callers."""
        return " ".join((*self.turns.values(), *self.given.values())).casefold()


def read_records(memory: AgentMemory) -> dict[str, Record]:
    return {f"{record.kind} {record.id}": record for record in memory.list_records(limit=1_000)}


def read_rows(memory: AgentMemory) -> dict[str, dict[str, Any]]:
    return {str(row["id"]): row for row in memory.audit.query(limit=1_000)}


def list_operations(memory: AgentMemory) -> dict[str, set[str]]:
    """The operations that wrote each record, by its id."""
    found: dict[str, set[str]] = {}
    for entry in run(engine_of(memory).log.changes(context_of(memory).scope, 0, 10_000)):
        for stored in entry.upserts:
            found.setdefault(stored.record.id, set()).add(entry.operation_id)
    return found


def live(draw: st.DrawFn, memory: AgentMemory) -> Life:
    life = Life(memory)
    for number in range(draw(st.integers(2, 7))):
        life.say(draw, number)
    for number in range(draw(st.integers(0, 5))):
        life.give(draw, number)
    memory.consolidate()
    life.ask(draw)
    if draw(st.booleans()):
        memory.forget(draw(st.sampled_from(sorted(life.turns))))
    life.ask(draw)
    memory.flush()
    return life


def play(draw: st.DrawFn, memory: AgentMemory) -> Iterator[set[str]]:
    """Live, then erase step by step; yields the words that must be nowhere after each step."""
    life = live(draw, memory)
    words = {word for text in (*life.turns.values(), *life.given.values()) for word in text.casefold().split()}
    words = {word.strip(".") for word in words if word.startswith("zq")}
    for _ in range(draw(st.integers(1, 3))):
        targets = sorted(
            {*life.turns, *life.given, *(name for name, ids in life.conversations.items() if {*ids} & {*life.turns})}
        )
        if not targets:
            return
        target = draw(st.sampled_from(targets))
        records, rows = read_records(memory), read_rows(memory)
        operations = list_operations(memory)
        gone = life.erase(target) | {
            each.id for each in records.values() if each.kind == "Synopsis"
        }  # it goes each time
        memory.flush()
        left = life.list_texts()
        yield {word for word in words if word not in left}
        check_the_rest(memory, records, rows, gone, {op for name in gone for op in operations.get(name, ())})


def list_told(record: Record) -> list[str]:
    """What a record says, as far as another row would quote it: no labels, no single words."""
    said = [record.search_text(), *(getattr(record, name, "") for name in ("claim", "standalone", "bare", "content"))]
    return [text for text in said if len(text) >= 12]


def check_the_rest(
    memory: AgentMemory,
    records: dict[str, Record],
    rows: dict[str, dict[str, Any]],
    gone: set[str],
    operations: set[str],
) -> None:
    """Records that name nothing of what went are as they were, and so are the rows that neither name nor quote it."""
    now = read_records(memory)
    for key, record in records.items():
        if record.kind in ("Turn", "Goal", "ToolInvocation") and record.id not in gone:
            assert now[key] == record
    erased_texts = {part for record in records.values() if record.id in gone for part in list_told(record)}
    after = read_rows(memory)
    for name, row in rows.items():
        said = json.dumps([row["metadata"], row["query_text"]], ensure_ascii=False)
        refers = row["operation_id"] in operations or any(json.dumps(each) in said for each in gone)
        if not refers and not any(text in said for text in erased_texts):
            assert after[name] == row


@pytest.mark.timeout(1200)  # of the nightly group
@scaled_settings(240, least=5)
@given(data=st.data())
def test_what_is_erased_leaves_no_byte_and_nothing_else_changes(data: st.DataObject) -> None:
    level = data.draw(st.sampled_from(["writes", "reads", "verbose"]))
    with tempfile.TemporaryDirectory() as folder, open_memory(Path(folder), audit_level=level) as memory:
        for words in play(data.draw, memory):
            for path in Path(folder).rglob("*"):
                held = path.read_bytes().lower() if path.is_file() else b""
                assert not [word for word in words if word.encode() in held], path.name


@contextmanager
def open_dumps(stack: Stack, user: str) -> Iterator[Any]:
    """What the three servers hold of a user, as text."""
    address = urlsplit(stack.graph_url)
    login = (address.username or "", address.password or "")
    with (
        psycopg.connect(stack.log_url, autocommit=True) as log,
        neo4j.GraphDatabase.driver(f"bolt://{address.hostname}:{address.port}", auth=login) as graph,
        redis.Redis.from_url(stack.session_url) as session,
    ):

        def dump() -> str:
            columns = "information_schema.columns WHERE column_name = 'user_id' AND table_schema = 'public'"
            tables = log.execute(f"SELECT table_name FROM {columns}").fetchall()
            parts = []
            for (table,) in tables:
                found = log.execute(f'SELECT t::text FROM "{table}" t WHERE user_id = %s', [user])
                parts += [text for (text,) in found]
            nodes = graph.execute_query(
                "MATCH (n:Record {user_id: $user}) OPTIONAL MATCH (n)-[r]->() RETURN n, r", user=user
            )
            parts += [str(dict(part)) for row in nodes.records for part in row.values() if part is not None]
            parts += [str(session.dump(key)) + str(key) for key in session.scan_iter(f"*{user}*")]
            return "\n".join(parts).casefold()

        yield dump


@pytest.mark.server("postgres", "neo4j", "redis")
@scaled_settings(24, least=1)
@given(data=st.data())
def test_what_is_erased_leaves_no_byte_on_servers(stack: Stack, data: st.DataObject) -> None:
    user = f"{stack.user()}-{uuid4()}"
    options = {"audit_level": "verbose", **stack.urls}
    with (
        tempfile.TemporaryDirectory() as folder,
        open_dumps(stack, user) as dump,
        open_memory(Path(folder), user, **options) as memory,
    ):
        for words in play(data.draw, memory):
            held = dump()
            assert not [word for word in words if word in held]


def test_an_entity_keeps_what_others_say_of_it(memory: AgentMemory) -> None:
    for number, text in enumerate(["My sister Zqanna lives in Zqgraz.", "My sister Zqanna works at Bosch."]):
        memory.store_turn({"content": text, "turn_id": f"t{number}"})
    memory.upsert_entity({"name": "Zqgraz", "type": "place"})
    memory.consolidate("consolidate")
    memory.forget("t0", hard=True)
    assert sorted(entity.name for entity in memory.semantic.entities()) == ["Bosch", "Zqanna", "Zqgraz"]
    memory.forget("t1", hard=True)
    assert [entity.name for entity in memory.semantic.entities()] == ["Zqgraz"]
