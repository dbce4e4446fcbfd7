"""Facts, entities and relations of another program, stored as those that a caller states."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from agentmem.core.clock import derive_id
from agentmem.core.records import Entity, Fact
from agentmem.core.scope import Scope
from agentmem.engine.engine import Engine
from agentmem.importers.items import ImportedEntity, ImportedFact, ImportedRelation
from agentmem.memory.episodic import StoredTurns
from agentmem.memory.semantic.memory import SemanticMemory
from agentmem.text.normalization import slugify

SOURCE = "import"


class ImportTarget(Protocol):
    """What an import needs of the memory that it stores into: an `AsyncAgentMemory`, from a higher layer."""

    scope: Scope

    @property
    def engine(self) -> Engine:
        """What is open."""

    @property
    def semantic(self) -> SemanticMemory:
        """Facts, entities and relations."""

    @property
    def store_turns(self) -> Callable[..., Awaitable[StoredTurns]]:
        """Stores turns."""

    @property
    def learn_fact(self) -> Callable[..., Awaitable[Fact]]:
        """Stores a claim."""

    @property
    def upsert_entity(self) -> Callable[..., Awaitable[Entity]]:
        """Stores an entity, or adds to it."""

    @property
    def flush(self) -> Callable[[], Awaitable[Any]]:
        """Waits until all can be found."""


class KnowledgeWriter:
    """Stores what a file knows. Stored again, it gives the same records."""

    def __init__(self, memory: ImportTarget) -> None:
        self._memory = memory
        self._entities: dict[str, list[Entity]] | None = None  # by slugs of their names

    async def store(self, item: ImportedFact | ImportedEntity | ImportedRelation) -> Fact | None:
        """Store one item, and return it if it is a fact. Raises InvalidRecord for what cannot be stored."""
        if isinstance(item, ImportedFact):
            return await self._store_fact(item)
        if isinstance(item, ImportedEntity):
            await self._ensure_entity(item.name, item.type, item.description)
        else:
            await self._relate(item)
        return None

    async def _store_fact(self, item: ImportedFact) -> Fact:
        entities = [await self._ensure_entity(name) for name in item.about]
        times = (item.valid_from, item.valid_to)
        given: dict[str, Any] = {
            "subject": item.subject,
            "entity_ids": tuple(dict.fromkeys(entities)),
            "valid_from": item.valid_from,
            "valid_to": item.valid_to,
            "said_at": item.said_at,
            "tags": item.tags,
        }
        fields = {name: value for name, value in given.items() if value}
        if item.is_verbatim:
            fields["slot"] = ""
        key = derive_id("import", item.id, item.claim, item.subject, *map(str, times), *entities, *item.tags)
        return await self._memory.semantic.learn_fact(item.claim, source=SOURCE, idempotency_key=key, **fields)

    async def _ensure_entity(self, name: str, kind: str = "", description: str = "") -> str:
        """The id of the entity of this name, stored where it is new, or where the file says more of it.

        One that was first named by a fact or a relation is a thing, and stays one.
        """
        known = (await self._read_entities()).setdefault(slugify(name), [])
        same = next((each for each in known if kind in ("", each.type)), None)
        same = same or next((each for each in known if each.type == "thing"), None)
        if same is not None and description in ("", same.description):
            return same.id
        fields = {"name": name, "type": kind if same is None else same.type, "description": description}
        stored = await self._memory.upsert_entity({key: value for key, value in fields.items() if value})
        known[:] = [*(each for each in known if each.id != stored.id), stored]
        return stored.id

    async def _read_entities(self) -> dict[str, list[Entity]]:
        if self._entities is None:
            self._entities = {}
            for each in await self._memory.semantic.entities(limit=sys.maxsize):
                for slug in {slugify(name) for name in (each.name, *each.aliases)}:
                    self._entities.setdefault(slug, []).append(each)
        return self._entities

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
