"""What must hold of a user on servers once everything has caught up: log, words, vectors and graph hold the same."""

from __future__ import annotations

from collections import Counter
from typing import Any

from agentmem.core.record import Record
from agentmem.core.scope import Scope
from agentmem.engine.engine import Engine
from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.jobs import runner
from agentmem.stores.neo4j.database import Transaction
from agentmem.stores.neo4j.database import fetch_rows as graph_rows
from agentmem.stores.postgres import PostgresLog
from agentmem.stores.postgres.database import fetch_rows as log_rows
from agentmem.stores.sql.graph import count_differences
from agentmem.text.tokenizer import tokenize
from tests.fakes.as_a_model import AsyncOnlyEmbedder
from tests.faults import checks
from tests.faults.victim import LEASE_SECONDS, StepProxy

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


def build_memory(user: str, urls: dict[str, Any], home: Any, **more: Any) -> AsyncAgentMemory:
    """A memory on servers, not open yet."""
    runner.LEASE_SECONDS = LEASE_SECONDS
    given = {"embedder": "hash", "dimensions": SIZE, "conversation_id": "talk", **urls, **more}
    return AsyncAgentMemory(user, home=home, **given)


def instrument(memory: AsyncAgentMemory, on_step: Any, *, inline_vectors: bool) -> None:
    """Have every step of a write told to `on_step`, beside those of the log: before and after each other store's.

    Vectors follow as those of a model do, or come with the log: `inline_vectors`.
    """
    engine: Any = memory.engine
    log = PostgresLog(engine.log.database, engine.clock, hook=on_step)
    engine.log = StepProxy(log, "append", "append", on_step)
    engine.session = StepProxy(engine.session, "session", "push", on_step)
    if engine.graph_projection is not None:
        engine.graph_projection.log = engine.log
        engine.graph_projection.graph = StepProxy(engine.graph_projection.graph, "graph", "apply", on_step)
    for projection in engine.vector_projections:
        projection.log = engine.log
        if not inline_vectors:
            projection.embedder = AsyncOnlyEmbedder(projection.embedder)
            projection.index = StepProxy(projection.index, "vectors", "apply", on_step)


def has_inline_vectors(step: str) -> bool:
    """Whether vectors come with the log where this step is looked at: not where they must follow to take it."""
    return not step.startswith("vectors: ")


async def check_complete(resources: Engine, scope: Scope) -> None:
    """Each current record is in the graph and, with its text, in words and vectors, once; links are those stated."""
    await checks.check_journal(resources, scope)
    records = await checks.read_current(resources, scope, *KINDS)
    assert not await resources.log.dead_letters(scope)
    await _check_graph(resources, scope, records)
    await _check_terms(resources, scope, records)
    wanted = Counter(record.key for record in records if record.search_text())
    assert max(wanted.values(), default=1) == 1, "a record is there twice"
    ordinals = {
        ordinal: key for key, ordinal in (await resources.log.read_columns(scope, 0))[0].ordinals_by_key().items()
    }
    rows = [row for row in await read_vector_rows(resources, scope) if row[3] == "whole"]
    assert Counter(ordinals[row[0]] for row in rows if row[0] in ordinals) == wanted, (
        "vectors are missing, or there twice"
    )


async def _check_graph(resources: Engine, scope: Scope, records: list[Record]) -> None:
    log: Any = resources.log
    assert await log.database.query(scope, lambda db: count_differences(db, scope.user_id)) == 0, "links differ"
    if resources.graph_projection is None:
        return
    graph: Any = resources.graph_projection.graph
    for kind in KINDS:
        there = await graph.record_seqs(kind, scope, limit=100_000)
        assert there == {record.id: record.seq for record in records if record.kind == kind}, f"graph: {kind}"

    async def twice(tx: Transaction) -> list[Any]:
        return await graph_rows(tx, TWICE, user_id=scope.user_id)

    assert await graph.database.read(twice) == [], "relationships are there twice"


async def _check_terms(resources: Engine, scope: Scope, records: list[Record]) -> None:
    ordinals = (await resources.log.read_columns(scope, 0))[0].ordinals_by_key()
    last = {record.key: words[-1] for record in records if (words := tokenize(record.search_text()))}
    found = await resources.log.match(sorted(set(last.values())), scope)
    for key, word in last.items():
        assert ordinals[key] in found[word].ordinals.tolist(), f"{key} is not found by {word!r}"


async def read_vector_rows(resources: Engine, scope: Scope) -> list[Any]:
    """The user's vectors as rows."""
    database: Any = resources.log

    async def read(db: Any) -> list[Any]:
        return await log_rows(db, PASSAGES, {"user_id": scope.user_id})

    found: list[Any] = await database.database.query(scope, read)
    return found


async def read_snapshot(memory: AsyncAgentMemory) -> dict[str, Any]:
    """Everything that is stored of a user, without names, ids and times."""
    engine, scope = memory.engine, memory.scope
    left = {"id", "user_id", "recorded_at", "operation_id", "superseded_at", "superseded_by", "supersedes", "timestamp"}
    left |= {"created_at", "updated_at", "valid_from", "valid_to", "started_at", "stale_since", "first_seen"}
    left |= {"consolidated", "said_at", "first_said_at", "entity_ids"}
    left |= {"subject_entity_id", "value_entity_id"}
    records = await checks.read_current(engine, scope, *KINDS)
    return {
        "journal": [
            (entry.operation, len(entry.upserts), len(entry.removals))
            for entry in await checks.check_journal(engine, scope)
        ],
        "records": sorted((record.kind, record.model_dump_json(exclude=left)) for record in records),
        "passages": await read_vector_rows(engine, scope),
    }
