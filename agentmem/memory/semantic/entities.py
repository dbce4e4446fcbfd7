"""Entities and the relations between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from agentmem.core.arguments import check_arguments
from agentmem.core.changes import Change, WriteAttempt
from agentmem.core.edges import build_relation, edge_triple
from agentmem.core.record import Key, Record, Status
from agentmem.core.records import RELATION_KINDS, Edge, Entity, Fact, build_record, extract_fields
from agentmem.errors import InvalidRecord
from agentmem.memory.context import MemoryContext
from agentmem.memory.read_audit import audit_read
from agentmem.stores.values import Where
from agentmem.text.normalization import slugify

OptionalDatetime = datetime | None
MERGED_INTO_PREFIX = "merged into "  # how the reason of an entity or a relation begins that became another one
MAX_MERGE_HOPS = 20  # in a row that are followed


@dataclass(frozen=True, slots=True)
class EntityGraph:
    """Entities reached from some others: `entities` nearest first, the facts about them, and the edges between."""

    entities: tuple[Entity, ...]
    facts: tuple[Fact, ...]
    edges: tuple[Edge, ...]


@check_arguments
@dataclass
class Entities:
    """The verbs over entities and relations."""

    _context: MemoryContext

    async def upsert_entity(self, entity: Entity | Mapping[str, Any], *, idempotency_key: str | None = None) -> Entity:
        """Store an entity, or add names, description and properties to the one of the same type and name.

        Found by id, then by name, alias or slug among entities of its type in this channel.
        """
        fields = extract_fields(Entity, entity)
        draft = build_record(Entity, **{**fields, "channel": self._context.scope.channel})
        draft = draft.model_copy(update={"slug": slugify(draft.name)})

        async def make(write: WriteAttempt) -> Change | Entity:
            named = await self._context.with_own_id(draft)
            known = await self._find_existing(named)
            if known is None:
                stamp = {
                    "id": named.id or self._context.engine.ids.new_id(),
                    "first_seen": named.first_seen or write.now,
                }
                new = named.model_copy(update=stamp)
                return write.build_change(new, expected_versions={new.key: None})
            merged = _merge_draft(known, named)
            if merged == known:
                return known
            return write.build_change(merged, expected_versions={known.key: known.seq})

        return await self._context.write(Entity, "upsert_entity", make, idempotency_key=idempotency_key, given=fields)

    async def _find_existing(self, draft: Entity) -> Entity | None:
        log, scope = self._context.engine.log, self._context.scope
        if draft.id:
            for record in await log.read_records("Entity", [draft.id], scope):
                if into := merge_target_id(record):
                    raise InvalidRecord(f"entity {draft.id!r} was merged into {into!r}; name that one", field="id")
                if record.superseded_at is not None:
                    raise InvalidRecord(f"entity {draft.id!r} was forgotten; restore it first", field="id")
                return record if isinstance(record, Entity) else None
        where = Where(kinds=("Entity",), channels=(draft.channel,), dedup_keys=(f"{draft.type}:{draft.slug}",))
        for record in await log.find(scope, where, limit=1):
            return record if isinstance(record, Entity) else None
        names = {slugify(name) for name in (draft.name, *draft.aliases)}
        for record in await self._context.list_readable("Entity", channels=[draft.channel]):
            if not isinstance(record, Entity) or record.type != draft.type or record.superseded_at is not None:
                continue
            if names & {slugify(name) for name in record.aliases}:
                return record
        return None

    @audit_read
    async def entities(
        self, name: Annotated[str | None, "A name or an alias."] = None, *, type: str | None = None, limit: int = 1000
    ) -> list[Entity]:
        """Entities of the readable channels, oldest first; `name` matches name, alias or slug."""
        wanted = slugify(name) if name else None
        out = []
        for record in await self._context.list_readable("Entity"):
            if not isinstance(record, Entity) or record.superseded_at is not None or type not in (None, record.type):
                continue
            if wanted is None or wanted in {slugify(one) for one in (record.name, *record.aliases)}:
                out.append(record)
        return out[:limit]

    async def relate(
        self,
        source: str,
        kind: Annotated[str, "KNOWS, WORKS_FOR, …; another name is kept as the name of a RELATED_TO."],
        target: str,
        properties: Mapping[str, Any] | None = None,
        *,
        confidence: Annotated[float, "0 to 1."] = 1.0,
        fact_id: str | None = None,
        valid_from: OptionalDatetime = None,
        valid_to: OptionalDatetime = None,
        idempotency_key: str | None = None,
    ) -> Edge:
        """State a relation between two entities. An unknown kind is kept as the `name` of a RELATED_TO.

        A merged entity is replaced by the one that it was merged into.
        """
        if properties is not None and not isinstance(properties, Mapping):
            raise InvalidRecord(f"properties must be a mapping, got {type(properties).__name__}", field="properties")
        scope = self._context.scope
        said: dict[str, Any] = {
            "confidence": confidence,
            "fact_id": fact_id,
            "valid_from": valid_from,
            "valid_to": valid_to,
            "properties": properties,
        }
        said["properties"] = build_relation(scope.user_id, scope.channel, (source, target), kind, **said).properties

        async def make(write: WriteAttempt) -> Change:
            stored_source, seen = await self._context.resolve_existing_ids("source", "Entity", [source])
            stored_target, seen_target = await self._context.resolve_existing_ids("target", "Entity", [target])
            seen |= seen_target | await self._context.require_existing("fact_id", "Fact", [fact_id] if fact_id else [])
            (at, to), passed = await follow_merges(self._context, [*stored_source, *stored_target])
            edge = build_relation(scope.user_id, scope.channel, (at, to), kind, **said)
            before = await self._context.engine.log.read_records("Edge", [edge.id], scope)
            return write.build_change(
                edge, expected_versions={edge.key: before[0].seq if before else None, **passed, **seen}
            )

        given = {"source": source, "kind": kind, "target": target, **said}
        return await self._context.write(Edge, "relate", make, idempotency_key=idempotency_key, given=given)

    @audit_read
    async def get_entity_graph(self, ids: Sequence[str], depth: int = 2, *, limit: int = 50) -> EntityGraph:
        """Entities, facts and relations around some entities, within `depth` steps (1 to 3), nearest first."""
        if not 1 <= depth <= 3:
            raise InvalidRecord(f"depth must be 1, 2 or 3, got {depth}", field="depth")
        if isinstance(ids, str):
            raise InvalidRecord("ids must be a list of strings, got a string", field="ids")
        log, scope = self._context.engine.log, self._context.scope
        ids = await self._context.resolve_ids("Entity", list(ids))
        start = [("Entity", name) for name in ids]
        near = await self._context.engine.graph.neighbors(start, scope, None, depth, limit)
        entities = [*ids, *(key[1] for key, _, _ in near if key[0] == "Entity")]
        facts = [key[1] for key, _, _ in near if key[0] == "Fact"]
        edges = await self._context.engine.graph.edges([("Entity", name) for name in entities], scope, RELATION_KINDS)
        found = await log.read_records("Entity", list(dict.fromkeys(entities)), scope)
        return EntityGraph(
            tuple(
                r
                for r in found
                if isinstance(r, Entity) and r.superseded_at is None and r.channel in scope.readable_channels()
            ),
            tuple(r for r in await log.read_records("Fact", facts, scope) if isinstance(r, Fact)),
            tuple(_drop_restated(edges)),
        )


def _drop_restated(edges: Sequence[Edge]) -> list[Edge]:
    """Without relations that a fact states as well; the fact says from when and why."""
    stated = {edge_triple(edge) for edge in edges if edge.fact_id}
    return [edge for edge in edges if edge.fact_id or edge_triple(edge) not in stated]


def merge_target_id(record: Record) -> str:
    """The id of the entity, or fact, that this one was merged into; "" if it was not merged."""
    gone = record.status is Status.SUPERSEDED and record.reason.startswith(MERGED_INTO_PREFIX)
    return record.reason.removeprefix(MERGED_INTO_PREFIX) if gone else ""


async def resolve_merged_ids(context: MemoryContext, ids: Sequence[str]) -> list[str]:
    """These ids of entities, each replaced by that of the entity which it became by merging, however often."""
    return (await follow_merges(context, ids))[0]


async def follow_merges(context: MemoryContext, ids: Sequence[str]) -> tuple[list[str], dict[Key, int]]:
    """The result of `resolve_merged_ids`, and the state of the entities on the way: a write expects it.

    Otherwise one of them could be merged, or erased, between this read and the write.
    """
    out, passed = list(ids), dict[Key, int]()
    for _ in range(MAX_MERGE_HOPS if out else 0):
        found = await context.engine.log.read_records("Entity", list(dict.fromkeys(out)), context.scope)
        passed = {**{record.key: record.seq for record in found}, **passed}
        into = {record.id: merge_target_id(record) for record in found}
        if not any(into.values()):
            break
        out = [into.get(name) or name for name in out]
    return out, passed


def _merge_draft(known: Entity, draft: Entity) -> Entity:
    names = [name for name in (draft.name, *draft.aliases) if name != known.name]
    given = {draft.name, *draft.aliases, draft.description}
    return known.model_copy(
        update={
            "aliases": tuple(dict.fromkeys((*known.aliases, *names))),
            "description": draft.description or known.description,
            "properties": {**known.properties, **draft.properties},
            "salience": max(known.salience, draft.salience),
            "extracted": tuple(text for text in known.extracted if text not in given),
        }
    )
