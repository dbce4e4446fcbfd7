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
from agentmem.bench.synthetic import Synthetic
from agentmem.model.scope import Scope
from agentmem.stores.neo4j.connection import rows
from agentmem.text.blocks import load_blocks

AT_ONCE = 500  # turns in one write
TABLES = (
    "memory_users", "memory_changes", "memory_versions", "memory_records", "memory_usage", "usage_receipts",
    "word_tail", "word_blocks", "word_state", "projection_watermarks", "passages",
)  # fmt: skip
# What `apply` would have left behind for a user whose graph has come to a journal position.
STANDING = """
UNWIND $users AS user
MERGE (p:Projection {user_id: user.user_id, name: 'graph'})
SET p.seq = user.seq
"""
Say = Callable[[str], None]


@dataclass
class Loader:
    """Writes users through an open memory, and copies them in the database at `log_url` (as its owner)."""

    memory: AsyncAgentMemory
    log_url: str
    say: Say

    async def store(self, user: str, turns: int, seed: int) -> float:
        """Store a user's turns in the log, with words and vectors; returns the seconds. The graph is not told."""
        view, made = self.memory.scoped(user_id=user), Synthetic(seed).turns(turns)
        begun = time.perf_counter()
        with log_only(self.memory):
            while batch := list(islice(made, AT_ONCE)):
                await view.store_turns(batch)
            await view.flush()
        seconds = time.perf_counter() - begun
        self.say(f"{user}: {turns:,} turns stored in {seconds:.1f} s")
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
        self.say(f"{copied:,} users copied in {seconds:.1f} s")
        return seconds

    async def stand(self, users: Iterable[str]) -> None:
        """Let the graph say that it has come as far as the log; links of turns are not needed by recall."""
        resources, names = self.memory.resources, list(users)
        assert resources.following is not None
        marks = {user: (await resources.log.head(Scope(user))).seq for user in names}
        standing = [{"user_id": user, "seq": seq} for user, seq in marks.items()]
        graph: Any = resources.following.graph
        await graph.database.write(lambda tx: rows(tx, STANDING, users=standing))
        await resources.log.note_reached("graph", marks)

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
        dimensions = str(self.memory.resources.vectors[0].embedder.dimensions)
        blocks = load_blocks(__package__, "load.sql")
        return {name: text.replace("{dimensions}", dimensions) for name, text in blocks.items()}


@contextmanager
def log_only(memory: AsyncAgentMemory) -> Iterator[None]:
    """Writes leave the graph behind meanwhile, as those of a process do that ends before it gets there."""
    resources = memory.resources
    following, resources.following = resources.following, None
    try:
        yield
    finally:
        resources.following = following
