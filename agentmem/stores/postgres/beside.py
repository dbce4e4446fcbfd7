"""The vectors of one write, inside its transaction: where no model makes them, a second one would only cost time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from agentmem.errors import AgentMemError, Conflict, StoreError, StoreUnavailable
from agentmem.events import WARNING, tell
from agentmem.model.changes import JournalEntry
from agentmem.stores.instant import InstantVectors
from agentmem.stores.postgres.connection import Database
from agentmem.stores.postgres.vectors import PostgresVectors

if TYPE_CHECKING:
    from psycopg import AsyncCursor

    from agentmem.stores.postgres.connection import Connection


class Beside:
    """Sends the vectors that are `served`; none when there are none, or when they lie in another database.

    Nobody waits for another because of them. The user's lock, which the write has by then, keeps erasures and the
    user's other writes out. Those who change vectors without it (whoever follows, clears, or takes an embedder out)
    hold the user's watermark, and `put` passes over a watermark that is held: then these vectors follow. It comes last,
    so an append that holds a watermark waits for nothing any more, and closes no circle of such waits.
    """

    def __init__(self, database: Database, served: InstantVectors | None) -> None:
        index = None if served is None else served.index
        self._served = served
        self._index = index if isinstance(index, PostgresVectors) and index.lies_in(database) else None
        self._fresh: list[JournalEntry] = []
        self._sent: AsyncCursor[Any] | None = None

    async def write(
        self, db: Connection, work: Callable[[Connection], Awaitable[list[JournalEntry]]]
    ) -> list[JournalEntry]:
        """Do a write and send its vectors after it, last of all. The transaction may run again."""
        self._sent = None
        entries = await work(db)
        self._fresh = list({entry.seq: entry for entry in entries if not entry.repeated}.values())
        values = self._made()
        if values is not None and self._index is not None:
            self._sent = await self._index.put(db, values)
        return entries

    def _made(self) -> dict[str, Any] | None:
        """What `put` is given; None where there is nothing to put at once."""
        served, index, fresh = self._served, self._index, self._fresh
        if served is None or index is None or not fresh:
            return None
        try:
            batch = served.at_once(fresh)
            return None if batch is None else index.small(fresh[0].user_id, batch)
        except Exception as error:  # noqa: BLE001  whatever it is, it costs no write
            self._told(error)
            return None

    def may_have_failed(self, error: AgentMemError) -> bool:
        """Whether a write that the server refused might pass without its vectors."""
        refused = isinstance(error, StoreError | Conflict) and not isinstance(error, StoreUnavailable)
        if refused and self._sent is not None:
            self._told(error)
            return True
        return False

    def _told(self, error: Exception) -> None:
        tell(WARNING, "vectors_follow", user_id=self._fresh[0].user_id, error=type(error).__name__)

    async def committed(self) -> None:
        """Have it remembered, which nobody may before the commit; nothing when the vectors stood elsewhere."""
        if self._sent is not None and self._served is not None and await self._sent.fetchall():
            self._served.committed(self._fresh)
