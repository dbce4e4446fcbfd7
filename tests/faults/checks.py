"""What must hold of an opened memory once everything has settled."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from agentmem.admin.rebuild import rebuild
from agentmem.core.record import Record
from agentmem.core.scope import Operator, Scope
from agentmem.engine.engine import Engine
from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.stores.sqlite.connection import SqliteConnection
from agentmem.stores.values import Where


async def read_current(resources: Engine, scope: Scope, *kinds: str) -> list[Record]:
    """Every current record of these kinds, in any channel."""
    return await resources.log.find(scope, Where(kinds=kinds), limit=100_000)


async def check_journal(resources: Engine, scope: Scope) -> list[Any]:
    """The whole journal; its positions have no gap."""
    entries = await resources.log.changes(scope, 0, 1_000_000)
    assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1)), "the journal has gaps"
    times = [entry.recorded_at for entry in entries]
    assert times == sorted(times), "record time ran backwards"
    return entries


async def read_projections(resources: Engine, scope: Scope) -> dict[str, Any]:
    """Words, edges and vectors of a user in a form that can be compared."""
    database: Any = resources.log
    size = resources.vector_projections[0].embedder.dimensions

    def read(db: SqliteConnection) -> tuple[Any, ...]:
        edges = "SELECT source, kind, target, edge, owner FROM graph_edges WHERE user_id = ? ORDER BY 1, 2, 3, 4, 5"
        passages = (
            f'SELECT slot, kind, channel, grain, part, start, "end", asks, vector FROM passages_{size} '
            "WHERE user_id = ? ORDER BY slot, grain, part"
        )
        terms = (
            "SELECT t.key FROM word_tail w, json_each(w.terms) t WHERE w.user_id = ?1 "
            "UNION SELECT term FROM word_blocks WHERE user_id = ?1 AND term <> ''"
        )
        return tuple(list(db.execute(text, (scope.user_id,))) for text in (edges, passages, terms))

    edges, passages, terms = await database.database.read(read)
    found = await resources.log.match([term for (term,) in terms], scope)
    words = {
        term: (each.ordinals.tolist(), each.counts.tolist())
        for term, each in sorted(found.items())
        if len(each.ordinals)
    }
    return {"edges": edges, "passages": passages, "words": words}


async def check_settled(memory: AsyncAgentMemory) -> None:
    """Nothing is left to do for this user, and every searchable record that is current has its words and vectors."""
    await memory.flush()
    assert set((await memory.lag()).values()) == {0}, f"lag {await memory.lag()}"


async def check_healthy(resources: Engine) -> None:
    """The store finds nothing wrong with itself."""
    assert await resources.log.check(Operator("test")) == []


async def check_rebuild_equal(resources: Engine, scopes: Iterable[Scope]) -> None:
    """Words, vectors and edges made again from journal and records are the ones that were there."""
    scopes = list(scopes)
    before = [await read_projections(resources, scope) for scope in scopes]
    await rebuild(resources, [scope.user_id for scope in scopes])
    for scope, found in zip(scopes, before, strict=True):
        again = await read_projections(resources, scope)
        for name, rows in found.items():
            assert again[name] == rows, (
                f"{name} of {scope.user_id} differ from rebuilt ones: {_describe_difference(rows, again[name])}"
            )


def _describe_difference(left: Any, right: Any) -> str:
    if isinstance(left, dict):
        return json.dumps(
            {key: [left.get(key), right.get(key)] for key in {*left, *right} if left.get(key) != right.get(key)}
        )
    only_left, only_right = [row for row in left if row not in right], [row for row in right if row not in left]
    return f"only before {only_left[:5]}, only after {only_right[:5]}"
