"""The vectors of one write, inside its transaction: where no model makes them, a second one would only cost time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from agentmem.events import WARNING, log_event
from agentmem.model.changes import JournalEntry
from agentmem.stores.instant import InlineVectors
from agentmem.stores.sqlite.connection import Connection, SqliteDatabase
from agentmem.stores.sqlite.vectors import SqliteVectors


class SqliteInlineVectorWriter:
    """Writes the vectors that are `served`; nothing when there are none, or when they lie in another database."""

    def __init__(self, database: SqliteDatabase, source: InlineVectors | None) -> None:
        index = None if source is None else source.index
        self._database, self._source = database, source
        self._index = index if isinstance(index, SqliteVectors) and index.shares_database(database) else None
        self._commit_callbacks: list[Callable[[], None]] = []

    def write(self, db: Connection, entries: Sequence[JournalEntry]) -> None:
        """Put the vectors of what was just written beside it. When that fails they follow later, as a model's do."""
        served, index = self._source, self._index
        fresh = list({entry.seq: entry for entry in entries if not entry.already_applied}.values())
        if served is None or index is None or not fresh:
            return

        def attempt(db: Connection) -> None:
            batch = served.embed_now(fresh)
            removed = None if batch is None else index.write_batch(db, fresh[0].user_id, batch)[1]
            if removed is not None:
                self._commit_callbacks = [partial(index.evict_removed, removed), partial(served.on_committed, fresh)]

        if (error := self._database.try_in_savepoint(db, attempt)) is not None:
            log_event(WARNING, "vectors_follow", user_id=fresh[0].user_id, error=type(error).__name__)

    def on_committed(self) -> None:
        """Have it remembered, which nobody may before the commit."""
        for remember in self._commit_callbacks:
            remember()
