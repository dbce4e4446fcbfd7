"""Matching in the word index of a file."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from agentmem.core.scope import Scope
from agentmem.stores.postings import DeltaSegmentCache
from agentmem.stores.sql.terms import read_delta_after
from agentmem.stores.sqlite.connection import SqliteConnection
from agentmem.stores.sqlite.database import SqliteDatabase
from agentmem.stores.values import Postings


class SqliteTermIndex:
    """The TermIndex over one file. Keeps the parsed deltas of the users seen last."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._deltas = DeltaSegmentCache()

    async def match(self, terms: Sequence[str], scope: Scope) -> dict[str, Postings]:
        """Postings of each term over the user's records, in the order asked; terms that no record has are left out."""
        wanted = [term for term in dict.fromkeys(terms) if term]
        if not wanted:
            return {}
        return await self._database.query(scope, lambda db: self._match(db, scope.user_id, wanted))

    async def _match(self, db: SqliteConnection, user_id: str, terms: Sequence[str]) -> dict[str, Postings]:
        blocks: dict[str, list[bytes]] = {}
        for term, block in await db.rows("terms.blocks", user_id=user_id, terms=list(terms)):
            blocks.setdefault(term, []).append(block)
        generation = await db.value("terms.generation", user_id=user_id)
        with self._lock:
            delta = self._deltas.get_or_create(user_id, generation or 0)
        with delta.lock:
            delta.add(await read_delta_after(db, user_id, delta.last_ordinal))
            return delta.match(terms, blocks)
