"""Facts, entities and relations of another program, stored as those that a caller states."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentmem.core.clock import derive_id
from agentmem.importers.items import ImportedEntity, ImportedFact, ImportedRelation

if TYPE_CHECKING:
    from agentmem.facade.async_memory import AsyncAgentMemory

SOURCE = "import"


class KnowledgeWriter:
    """Stores what a file knows. Stored again, it gives the same records."""

    def __init__(self, memory: AsyncAgentMemory) -> None:
        self._memory = memory
        self._ids: dict[str, str] = {}  # of entities, by name

    async def store(self, item: ImportedFact | ImportedEntity | ImportedRelation) -> None:
        """Store one item. Raises InvalidRecord for what cannot be stored."""
        if isinstance(item, ImportedFact):
            await self._store_fact(item)
        elif isinstance(item, ImportedEntity):
            await self._ensure_entity(item.name, item.type, item.description)
        else:
            await self._relate(item)

    async def _store_fact(self, item: ImportedFact) -> None:
        entities = [await self._ensure_entity(name) for name in dict.fromkeys(item.about)]
        times = (item.valid_from, item.valid_to)
        key = derive_id("import", item.id, item.claim, item.subject, *map(str, times), *item.about, *item.tags)
        await self._memory.learn_fact(
            item.claim,
            source=SOURCE,
            subject=item.subject or None,
            entity_ids=entities or None,
            valid_from=item.valid_from,
            valid_to=item.valid_to,
            tags=item.tags or None,
            idempotency_key=key,
        )

    async def _ensure_entity(self, name: str, kind: str = "", description: str = "") -> str:
        if name in self._ids and not kind and not description:
            return self._ids[name]
        known = await self._memory.semantic.entities(name)
        if not known or kind or description:
            fields = {"name": name, "type": kind, "description": description}
            entity = await self._memory.upsert_entity({key: value for key, value in fields.items() if value})
            self._ids[name] = entity.id
        else:
            self._ids[name] = known[0].id
        return self._ids[name]

    async def _relate(self, item: ImportedRelation) -> None:
        source, target = await self._ensure_entity(item.source), await self._ensure_entity(item.target)
        times = (item.valid_from, item.valid_to)
        await self._memory.semantic.relate(
            source,
            item.kind,
            target,
            valid_from=item.valid_from,
            valid_to=item.valid_to,
            idempotency_key=derive_id("import", source, item.kind, target, *map(str, times)),
        )
