"""Constraints and indexes of the graph, and its statements.

Every statement of a step can run again, so an interrupted migration is run again. Two at once get in each other's way,
which the server notices, and try again.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from agentmem.core.records import EdgeKind
from agentmem.errors import SchemaMismatch
from agentmem.stores.neo4j.database import Neo4jDatabase, Transaction, UnusableGraph, fetch_rows, parse_address
from agentmem.stores.neo4j.descriptions import DESCRIPTIVE_TYPES
from agentmem.text.templates import Migration, load_migrations, load_templates

_CYPHER = load_templates(__package__, "migrations.cypher")

MIGRATION_SECONDS = 600.0  # for one index over all that is there
COMMENT_LINE = re.compile(r"^\s*//.*$", re.MULTILINE)


@cache
def graph_query(name: str) -> str:
    """A statement of `graph.cypher`."""
    return _fill_statement("graph.cypher", name)


@cache
def graph_update(name: str) -> str:
    """A statement of `apply.cypher`."""
    return _fill_statement("write.cypher", name)


def _fill_statement(filename: str, name: str) -> str:
    blocks = load_templates(__package__, filename)
    branches: Iterable[str] = (blocks["stated"].replace("KIND", kind) for kind in EdgeKind)
    descriptive = ", ".join(f"'{name}'" for name in sorted(DESCRIPTIVE_TYPES))
    return blocks[name].replace("STATED", "\nUNION ALL\n".join(branches)).replace("DESCRIPTIVE", descriptive)


async def migrate(
    url: str, now: datetime, *, store_id: str, credentials: Mapping[str, str] | None = None, schema: Path | None = None
) -> int:
    """Apply the steps that the database lacks and return how many; 0 for a current one. The first call claims it.

    Raises ConfigError for a URL that cannot work, SchemaMismatch for a database of a newer version or of another store,
    StoreUnavailable when it cannot be reached.
    """
    steps = load_migrations("neo4j", schema)
    database = Neo4jDatabase(parse_address(url, credentials), retry_seconds=MIGRATION_SECONDS)
    try:
        await database.ensure_ready()
        version, owner = await database.read(_state)
        _check_owner_and_version(version, owner or store_id, steps, store_id)
        for step in steps[version:]:
            await _apply(database, step, now)
        # Written last: what has an owner is complete.
        await database.write(lambda tx: fetch_rows(tx, _CYPHER["claim"], store_id=store_id))
        _check_owner_and_version(*await database.read(_state), steps, store_id)
        return len(steps) - version
    finally:
        await database.close()


def build_schema_check(steps: Sequence[Migration], store_id: str) -> Callable[[Transaction], Awaitable[None]]:
    """What a connection does before it is used: UnusableGraph unless the graph is this store's and at this schema."""

    async def examine(tx: Transaction) -> None:
        version, owner = await _state(tx)
        _check_owner_and_version(version, owner or store_id, steps, store_id)
        if version < len(steps) or owner is None:
            raise UnusableGraph(
                f"the graph has schema {version}, this version needs {len(steps)}: run agentmem admin migrate"
            )

    return examine


async def _state(tx: Transaction) -> tuple[int, str | None]:
    ((version, owner),) = await fetch_rows(tx, _CYPHER["state"])
    return version, owner


async def _apply(database: Neo4jDatabase, step: Migration, now: datetime) -> None:
    for statement in filter(None, map(str.strip, COMMENT_LINE.sub("", step.text).split(";"))):
        try:
            await database.write(_build_work(statement), MIGRATION_SECONDS)
        except SchemaMismatch:  # perhaps another one made it since this one looked; then it is there now
            await database.write(_build_work(statement), MIGRATION_SECONDS)
    await wait_for_indexes(database)
    applied = {"version": step.version, "description": step.name, "at": now}
    await database.write(lambda tx: fetch_rows(tx, _CYPHER["applied"], **applied))


async def wait_for_indexes(database: Neo4jDatabase) -> None:
    """Wait until every index is built, looking again and again.

    The server's own `db.awaitIndexes` would keep its locks all the while: another migration that is about to commit the
    very index it waits for would wait for those. Raises SchemaMismatch for an index that cannot be built.
    """
    now = asyncio.get_running_loop().time
    until = now() + MIGRATION_SECONDS
    while found := await database.read(_build_work(_CYPHER["unfinished"])):
        if now() > until or any(state == "FAILED" for _, state in found):
            told = ", ".join(f"{name} is {state}" for name, state in found)
            raise SchemaMismatch(
                f"indexes of the graph are not built: {told}; see the server's log, then migrate again"
            )
        await asyncio.sleep(0.1)


def _build_work(statement: str) -> Callable[[Transaction], Awaitable[list[Any]]]:
    return lambda tx: fetch_rows(tx, statement)


def _check_owner_and_version(version: int, owner: str | None, steps: Sequence[Migration], store_id: str) -> None:
    if version > len(steps):
        raise UnusableGraph(
            f"the graph has schema {version}, written by a newer version; this one knows schema {len(steps)}. "
            "Upgrade with: pip install --upgrade agentmem-graph"
        )
    if owner != store_id:
        raise UnusableGraph(
            f"the graph belongs to another store ({owner}), this one is {store_id}; "
            "set graph_url to its own database, or empty this one and run: "
            "agentmem admin migrate, agentmem admin rebuild"
        )
