"""The vectors of one write, inside its transaction: where no model makes them, a second one would only cost time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from agentmem.events import WARNING, tell
from agentmem.model.changes import JournalEntry
from agentmem.stores.instant import InstantVectors
from agentmem.stores.sqlite.connection import Connection, Database
from agentmem.stores.sqlite.vectors import SqliteVectors


class Beside:
    """Writes the vectors that are `served`; nothing when there are none, or when they lie in another database."""

    def __init__(self, database: Database, served: InstantVectors | None) -> None:
        index = None if served is None else served.index
        self._database, self._served = database, served
        self._index = index if isinstance(index, SqliteVectors) and index.lies_in(database) else None
        self._remember: list[Callable[[], None]] = []

    def write(self, db: Connection, entries: Sequence[JournalEntry]) -> None:
        """Put the vectors of what was just written beside it. When that fails they follow later, as a model's do."""
        served, index = self._served, self._index
        fresh = list({entry.seq: entry for entry in entries if not entry.repeated}.values())
        if served is None or index is None or not fresh:
            return

        def attempt(db: Connection) -> None:
            batch = served.at_once(fresh)
            removed = None if batch is None else index.put(db, fresh[0].user_id, batch)[1]
            if removed is not None:
                self._remember = [partial(index.hide, removed), partial(served.committed, fresh)]

        if (error := self._database.attempt(db, attempt)) is not None:
            tell(WARNING, "vectors_follow", user_id=fresh[0].user_id, error=type(error).__name__)

    def committed(self) -> None:
        """Have it remembered, which nobody may before the commit."""
        for remember in self._remember:
            remember()
