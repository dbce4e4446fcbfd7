"""What must hold of a user on servers once everything has caught up: log, words, vectors and graph hold the same."""

from __future__ import annotations

from collections import Counter
from typing import Any

from agentmem.agent_memory import AsyncAgentMemory
from agentmem.consolidation import lease
from agentmem.model.records import Record
from agentmem.model.scope import Scope
from agentmem.resources import Resources
from agentmem.stores.neo4j.connection import Transaction
from agentmem.stores.neo4j.connection import rows as graph_rows
from agentmem.stores.postgres import PostgresLog
from agentmem.stores.postgres.connection import rows as log_rows
from agentmem.text.words import terms
from tests.fakes.as_a_model import AsAModel
from tests.faults import checks
from tests.faults.victim import LEASE_SECONDS, Stepped

KINDS = ("Turn", "Conversation", "Gloss", "Fact", "Entity", "User")
SIZE = 64  # of the vectors
TWICE = (
    "MATCH (a:Record {user_id: $user_id})-[r]->(b) "
    "WITH a, b, type(r) AS kind, coalesce(r.owner, r.id) AS owner, count(*) AS many WHERE many > 1 "
    "RETURN a.key, kind, b.key, many LIMIT 5"
)
PASSAGES = (
    f"SELECT slot, kind, channel, grain, part, vector::text FROM passages_{SIZE} "
    "WHERE user_id = %(user_id)s ORDER BY slot, grain, part"
)


def opened(user: str, urls: dict[str, Any], home: Any, **more: Any) -> AsyncAgentMemory:
    """A memory on servers, not open yet."""
    lease.LEASE_SECONDS = LEASE_SECONDS
    given = {"embedder": "hash", "dimensions": SIZE, "conversation_id": "talk", **urls, **more}
    return AsyncAgentMemory(user, home=home, **given)


def watch(memory: AsyncAgentMemory, told: Any, *, at_once: bool) -> None:
    """Have every step of a write told to `told`, beside those of the log: before and after each other store's.

    Vectors follow as those of a model do, or come with the log: `at_once`.
    """
    resources: Any = memory.resources
    log = PostgresLog(resources.log.database, resources.clock, hook=told)
    resources.log = Stepped(log, "append", "append", told)
    resources.session = Stepped(resources.session, "session", "push", told)
    resources.following.log = resources.log
    resources.following.graph = Stepped(resources.following.graph, "graph", "apply", told)
    for projection in resources.vectors:
        projection.log = resources.log
        if not at_once:
            projection.embedder = AsAModel(projection.embedder)
            projection.index = Stepped(projection.index, "vectors", "apply", told)
    log.serve(lambda: resources.vectors[0] if at_once else None)


def comes_at_once(step: str) -> bool:
    """Whether vectors come with the log where this step is looked at: not where they must follow to take it."""
    return not step.startswith("vectors: ")


async def whole(resources: Resources, scope: Scope) -> None:
    """Each current record is in the graph and, with its text, in words and vectors, once."""
    await checks.journal(resources, scope)
    records = await checks.current(resources, scope, *KINDS)
    assert not await resources.log.parked(scope)
    await _graph_alike(resources, scope, records)
    await _found_by_words(resources, scope, records)
    wanted = Counter(record.key for record in records if record.searchable())
    assert max(wanted.values(), default=1) == 1, "a record is there twice"
    slots = {slot: key for key, slot in (await resources.log.outline(scope, 0))[0].slots().items()}
    rows = [row for row in await passages(resources, scope) if row[3] == "whole"]
    assert Counter(slots[row[0]] for row in rows if row[0] in slots) == wanted, "vectors are missing, or there twice"


async def _graph_alike(resources: Resources, scope: Scope, records: list[Record]) -> None:
    graph: Any = resources.graph
    for kind in KINDS:
        there = await graph.get(kind, scope, limit=100_000)
        assert there == {record.id: record.seq for record in records if record.kind == kind}, f"graph: {kind}"

    async def twice(tx: Transaction) -> list[Any]:
        return await graph_rows(tx, TWICE, user_id=scope.user_id)

    assert await graph.database.read(twice) == [], "relationships are there twice"


async def _found_by_words(resources: Resources, scope: Scope, records: list[Record]) -> None:
    slots = (await resources.log.outline(scope, 0))[0].slots()
    last = {record.key: words[-1] for record in records if (words := terms(record.searchable()))}
    found = await resources.log.match(sorted(set(last.values())), scope)
    for key, word in last.items():
        assert slots[key] in found[word].slots.tolist(), f"{key} is not found by {word!r}"


async def passages(resources: Resources, scope: Scope) -> list[Any]:
    """The user's vectors as rows."""
    database: Any = resources.log

    async def read(db: Any) -> list[Any]:
        return await log_rows(db, PASSAGES, {"user_id": scope.user_id})

    found: list[Any] = await database.database.read(scope, read)
    return found


async def portrait(memory: AsyncAgentMemory) -> dict[str, Any]:
    """Everything that is stored of a user, without names, ids and times."""
    resources, scope = memory.resources, memory.scope
    left = {"id", "user_id", "recorded_at", "operation_id", "superseded_at", "superseded_by", "supersedes", "timestamp"}
    left |= {"created_at", "updated_at", "valid_from", "valid_to", "started_at", "stale_since", "first_seen"}
    left |= {"consolidated", "entity_ids"}
    records = await checks.current(resources, scope, *KINDS)
    return {
        "journal": [
            (entry.operation, len(entry.puts), len(entry.gone)) for entry in await checks.journal(resources, scope)
        ],
        "records": sorted((record.kind, record.model_dump_json(exclude=left)) for record in records),
        "passages": await passages(resources, scope),
    }
