"""Records as they are stored: by kind and id, with their versions and their use, and the relations of entities.

For programs that present a memory in another product's shape; most programs need the other subsystems.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from agentmem.core.record import Record, Status
from agentmem.core.records import RELATION_KINDS, Edge, Entity, R
from agentmem.memory.context import ID_BATCH_SIZE, MemoryContext
from agentmem.memory.read_audit import audit_read
from agentmem.stores.values import RecordUsage, Where


@dataclass
class StoredRecords:
    """Reads of stored records, the retired ones included."""

    _context: MemoryContext

    @audit_read
    async def find(
        self,
        kind: type[R],
        ids: Sequence[str] | None = None,
        *,
        status: Status | None = None,
        conversation_id: str | None = None,
    ) -> list[R]:
        """Records of a kind in the readable channels, also retired ones unless a status is given, in order of id."""
        where = Where(
            kinds=(kind.__name__,),
            channels=self._context.scope.readable_channels(),
            conversation_id=conversation_id,
            status=None if status is None else (status,),
        )
        parts = [where]
        if ids is not None:
            names = list(dict.fromkeys(ids))
            starts = range(0, len(names), ID_BATCH_SIZE)
            parts = [replace(where, ids=tuple(names[start : start + ID_BATCH_SIZE])) for start in starts]
        pages = [page for part in parts async for page in self._context.iter_pages(part)]
        return [record for page in pages for record in page if isinstance(record, kind)]

    @audit_read
    async def versions(self, record: R) -> list[R]:
        """Every kept version of a record, oldest first."""
        found = await self._context.engine.log.versions(record.key, self._context.scope)
        return [each for each in found if isinstance(each, type(record))]

    async def usage(self, records: Sequence[Record]) -> list[RecordUsage]:
        """How records were used, in the same order."""
        found = await self._context.engine.log.usage([record.key for record in records], self._context.scope)
        return [found.get(record.key) or RecordUsage(*record.key) for record in records]

    @audit_read
    async def relations(self, entities: Sequence[Entity], *, limit: int = 1000) -> list[Edge]:
        """The relations that begin or end at these entities."""
        keys = [entity.key for entity in entities]
        return await self._context.engine.graph.edges(keys, self._context.scope, RELATION_KINDS, limit)

    async def channels(self, kinds: Sequence[str], ids: Sequence[str] | None = None) -> list[str]:
        """The channels that hold records of these kinds, or of these ids, also those that this scope cannot read."""
        where = Where(kinds=tuple(kinds), ids=None if ids is None else tuple(ids))
        return sorted({record.channel async for page in self._context.iter_pages(where) for record in page})
