"""Matching in the word index of a server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from agentmem.core.scope import Scope
from agentmem.stores import postings
from agentmem.stores.postgres.database import PostgresDatabase
from agentmem.stores.values import Postings

if TYPE_CHECKING:
    from agentmem.stores.postgres.connection import PostgresConnection

_PACKED_PART, _DELTA_PART = 0, 1  # parts of the statement `matching`


class PostgresTermIndex:
    """The TermIndex of a database. The delta is searched by the server: to send it whole would take far longer."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    async def match(self, terms: Sequence[str], scope: Scope) -> dict[str, Postings]:
        """Postings of each term over the user's records, in the order asked; terms that no record has are left out."""
        wanted = [term for term in dict.fromkeys(terms) if term]
        if not wanted:
            return {}
        return await self._database.query(scope, lambda db: self._match(db, scope.user_id, wanted))

    async def _match(self, db: PostgresConnection, user_id: str, terms: Sequence[str]) -> dict[str, Postings]:
        cursor = await db.execute(db.text("terms.matching"), {"user_id": user_id, "terms": list(terms)}, binary=True)
        blocks: dict[str, list[bytes]] = {}
        recent, delta = {}, _decode_ints(b"")
        for part, term, _, first, second in await cursor.fetchall():
            if part == _PACKED_PART:
                blocks.setdefault(term, []).append(first)
            elif part == _DELTA_PART:
                recent[term] = (
                    _decode_ints(first),
                    np.minimum(_decode_ints(second), postings.MAX_TERM_COUNT).astype(np.uint16),
                )
            else:
                delta = _decode_ints(first or b"")
        return postings.match_postings(terms, blocks, recent, delta)


def _decode_ints(data: bytes) -> postings.Ordinals:
    return np.frombuffer(data, dtype=">i4").astype(np.int32)
