"""Fills the stores: one user of each size through the public verbs, the others copied by SQL from table to table."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

import psycopg

from agentmem import AsyncAgentMemory
from agentmem.core.scope import Scope
from agentmem.stores.neo4j.database import fetch_rows
from agentmem.text.templates import load_templates
from tests.benchmarks.synthetic import SyntheticConversations

BATCH_SIZE = 500  # turns in one write
TABLES = (
    "memory_users",
    "memory_changes",
    "memory_versions",
    "memory_records",
    "memory_usage",
    "usage_receipts",
    "word_tail",
    "word_blocks",
    "word_state",
    "projection_watermarks",
    "passages",
)
# What `apply` would have left behind for a user whose graph has come to a journal position.
SET_WATERMARK_CYPHER = """
UNWIND $users AS user
MERGE (p:Projection {user_id: user.user_id, name: 'graph'})
SET p.seq = user.seq
"""
OnStep = Callable[[str], None]


@dataclass
class UserLoader:
    """Writes users through an open memory, and copies them in the database at `log_url` (as its owner)."""

    memory: AsyncAgentMemory
    log_url: str
    on_step: OnStep

    async def store(self, user: str, turns: int, seed: int) -> float:
        """Store a user's turns in the log, with words and vectors; returns the seconds. The graph is not told."""
        view, made = self.memory.scoped(user_id=user), SyntheticConversations(seed).generate_turns(turns)
        begun = time.perf_counter()
        with suspend_graph(self.memory):
            while batch := list(islice(made, BATCH_SIZE)):
                await view.store_turns(batch)
            await view.flush()
        seconds = time.perf_counter() - begun
        self.on_step(f"{user}: {turns:,} turns stored in {seconds:.1f} s")
        return seconds

    def copy(self, pairs: Iterable[tuple[str, list[str]]]) -> float:
        """Copy each first user to the others, and let the server look at what it has; returns the seconds."""
        begun, sql, copied = time.perf_counter(), self._sql(), 0
        with psycopg.connect(self.log_url, autocommit=True) as connection:
            connection.execute(sql["quick"])
            for template, users in pairs:
                for table in TABLES:
                    connection.execute(sql[table], {"template": template, "users": users}, prepare=False)
                copied += len(users)
            connection.execute(sql["tidy"])
        seconds = time.perf_counter() - begun
        self.on_step(f"{copied:,} users copied in {seconds:.1f} s")
        return seconds

    async def mark_graph_current(self, users: Iterable[str]) -> None:
        """Let the graph say that it has come as far as the log; links of turns are not needed by recall."""
        engine, names = self.memory.engine, list(users)
        assert engine.graph_projection is not None
        marks = {user: (await engine.log.head(Scope(user))).seq for user in names}
        standing = [{"user_id": user, "seq": seq} for user, seq in marks.items()]
        graph: Any = engine.graph_projection.graph
        await graph.database.write(lambda tx: fetch_rows(tx, SET_WATERMARK_CYPHER, users=standing))
        await engine.log.write_watermark_hints("graph", marks)

    def passages(self) -> int:
        """How many there are of all users."""
        return int(self._one("count"))

    def megabytes(self) -> float:
        """The size of the database."""
        return float(self._one("size")) / 1024**2

    def vectors(self, user: str) -> list[tuple[int, bytes]]:
        """Slot and stored vector of each turn of a user."""
        with psycopg.connect(self.log_url) as connection:
            return connection.execute(self._sql()["vectors"], {"user": user}, binary=True).fetchall()

    def _one(self, name: str) -> Any:
        with psycopg.connect(self.log_url) as connection:
            found = connection.execute(self._sql()[name]).fetchone()
        return found[0] if found else 0

    def _sql(self) -> dict[str, str]:
        dimensions = str(self.memory.engine.vector_projections[0].embedder.dimensions)
        blocks = load_templates(__package__, "load.sql")
        return {name: text.replace("{dimensions}", dimensions) for name, text in blocks.items()}


@contextmanager
def suspend_graph(memory: AsyncAgentMemory) -> Iterator[None]:
    """Writes leave the graph behind meanwhile, as those of a process do that ends before it gets there."""
    engine = memory.engine
    following, engine.graph_projection = engine.graph_projection, None
    try:
        yield
    finally:
        engine.graph_projection = following
