"""Entities and the relations between them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from agentmem.errors import InvalidRecord
from agentmem.memory import Seat, first_of
from agentmem.model.changes import Change, Write, fingerprint
from agentmem.model.edges import related
from agentmem.model.records import RELATIONS, Edge, Entity, Fact, Key, Record, Status, build, fields_of
from agentmem.stores import Where
from agentmem.text.names import slug

Moment = datetime | None
MERGED = "merged into "  # how the reason of an entity or a relation begins that became another one
MERGES = 20  # in a row that are followed


@dataclass(frozen=True, slots=True)
class EntityGraph:
    """Entities reached from some others: `entities` nearest first, the facts about them, and the edges between."""

    entities: tuple[Entity, ...]
    facts: tuple[Fact, ...]
    edges: tuple[Edge, ...]


@dataclass
class Entities:
    """The verbs over entities and relations."""

    seat: Seat

    async def upsert_entity(self, entity: Entity | Mapping[str, Any], *, key: str | None = None) -> Entity:
        """Store an entity, or add names, description and properties to the one of the same type and name.

        Found by id, then by name, alias or slug among entities of its type in this channel.
        """
        fields = fields_of(Entity, entity)
        draft = build(Entity, **{**fields, "channel": self.seat.scope.channel})
        draft = draft.model_copy(update={"slug": slug(draft.name)})

        async def make(write: Write) -> Change | None:
            named = await self._with_stored_id(draft)
            known = await self._known(named)
            if known is None:
                stamp = {"id": named.id or self.seat.resources.ids.new(), "first_seen": named.first_seen or write.now}
                new = named.model_copy(update=stamp)
                return write.change(new, expects={new.key: None})
            merged = _merged(known, named)
            found.append(known)
            if (
                merged == known and key is None
            ):  # with a key, that it was used is noted by a version that changes nothing
                return None
            return write.change(merged, expects={known.key: known.seq})

        found: list[Entity] = []
        entry = await self.seat.resources.write(
            self.seat.scope, "upsert_entity", make, kind="Entity", key=key, payload=fingerprint(**fields)
        )
        return first_of(entry, Entity) if entry is not None else found[-1]

    async def _with_stored_id(self, draft: Entity) -> Entity:
        """Return the draft under the id to store it by: an alias where its own is taken in a channel not readable."""
        found = await self.seat.resources.log.get("Entity", [draft.id], self.seat.scope) if draft.id else []
        if all(record.channel in self.seat.scope.readable() for record in found):
            return draft
        return draft.model_copy(update={"id": self.seat.alias_id("Entity", draft.id), "given_id": draft.id})

    async def _known(self, draft: Entity) -> Entity | None:
        log, scope = self.seat.resources.log, self.seat.scope
        if draft.id:
            for record in await log.get("Entity", [draft.id], scope):
                if into := merged_into(record):
                    raise InvalidRecord(f"entity {draft.id!r} was merged into {into!r}; name that one", field="id")
                if record.superseded_at is not None:
                    raise InvalidRecord(f"entity {draft.id!r} was forgotten; restore it first", field="id")
                return record if isinstance(record, Entity) else None
        where = Where(kinds=("Entity",), channels=(draft.channel,), key=(f"{draft.type}:{draft.slug}",))
        for record in await log.find(scope, where, limit=1):
            return record if isinstance(record, Entity) else None
        names = {slug(name) for name in (draft.name, *draft.aliases)}
        for record in await self.seat.all("Entity", channels=[draft.channel]):
            if not isinstance(record, Entity) or record.type != draft.type or record.superseded_at is not None:
                continue
            if names & {slug(name) for name in record.aliases}:
                return record
        return None

    async def entities(self, name: str | None = None, *, type: str | None = None, limit: int = 1000) -> list[Entity]:
        """Entities of the readable channels; `name` matches name, alias or slug."""
        wanted = slug(name) if name else None
        out = []
        for record in await self.seat.all("Entity"):
            if not isinstance(record, Entity) or record.superseded_at is not None or type not in (None, record.type):
                continue
            if wanted is None or wanted in {slug(one) for one in (record.name, *record.aliases)}:
                out.append(record)
        return out[:limit]

    async def relate(
        self, source: str, kind: str, target: str, properties: Mapping[str, Any] | None = None, *,
        confidence: float = 1.0, fact_id: str | None = None, valid_from: Moment = None, valid_to: Moment = None,
        idempotency_key: str | None = None,
    ) -> Edge:  # fmt: skip
        """State a relation between two entities. A name that is no known kind is kept as the `name` of a RELATED_TO.

        In place of an entity that was merged into another one, that one is related.
        """
        if properties is not None and not isinstance(properties, Mapping):
            raise InvalidRecord(f"properties must be a mapping, got {type(properties).__name__}", field="properties")
        scope = self.seat.scope
        said: dict[str, Any] = {
            "confidence": confidence, "fact_id": fact_id, "valid_from": valid_from, "valid_to": valid_to,
            "properties": properties,
        }  # fmt: skip
        said["properties"] = related(scope.user_id, scope.channel, (source, target), kind, **said).properties

        async def make(write: Write) -> Change:
            stored_source, seen = await self.seat.locate("source", "Entity", [source])
            stored_target, seen_target = await self.seat.locate("target", "Entity", [target])
            seen |= seen_target | await self.seat.must_exist("fact_id", "Fact", [fact_id] if fact_id else [])
            (at, to), passed = await ends(self.seat, [*stored_source, *stored_target])
            edge = related(scope.user_id, scope.channel, (at, to), kind, **said)
            before = await self.seat.resources.log.get("Edge", [edge.id], scope)
            return write.change(edge, expects={edge.key: before[0].seq if before else None, **passed, **seen})

        entry = await self.seat.resources.write(
            scope, "relate", make, kind="Edge", key=idempotency_key,
            payload=fingerprint(source=source, kind=kind, target=target, **said),
        )  # fmt: skip
        return first_of(entry, Edge)

    async def get_entity_graph(self, ids: Collection[str], depth: int = 2, *, limit: int = 50) -> EntityGraph:
        """Entities, facts and relations around some entities, within `depth` steps (1 to 3), nearest first."""
        if not 1 <= depth <= 3:
            raise InvalidRecord(f"depth must be 1, 2 or 3, got {depth}", field="depth")
        if isinstance(ids, str):
            raise InvalidRecord("ids must be a list of strings, got a string", field="ids")
        log, scope = self.seat.resources.log, self.seat.scope
        ids = await self.seat.resolve_ids("Entity", list(ids))
        start = [("Entity", name) for name in ids]
        near = await self.seat.resources.graph.neighbours(start, scope, None, depth, limit)
        entities = [*ids, *(key[1] for key, _, _ in near if key[0] == "Entity")]
        facts = [key[1] for key, _, _ in near if key[0] == "Fact"]
        edges = await self.seat.resources.graph.edges([("Entity", name) for name in entities], scope, RELATIONS)
        found = await log.get("Entity", list(dict.fromkeys(entities)), scope)
        return EntityGraph(
            tuple(
                r for r in found if isinstance(r, Entity) and r.superseded_at is None and r.channel in scope.readable()
            ),
            tuple(r for r in await log.get("Fact", facts, scope) if isinstance(r, Fact)),
            tuple(edges),
        )


def merged_into(record: Record) -> str:
    """The id of the entity, or fact, that this one was merged into; "" where it stands for itself."""
    gone = record.status is Status.SUPERSEDED and record.reason.startswith(MERGED)
    return record.reason.removeprefix(MERGED) if gone else ""


async def followed(seat: Seat, ids: Sequence[str]) -> list[str]:
    """These ids of entities, each replaced by that of the entity which it became by merging, however often."""
    return (await ends(seat, ids))[0]


async def ends(seat: Seat, ids: Sequence[str]) -> tuple[list[str], dict[Key, int]]:
    """What `followed` gives, and where the entities stand that it went by: a write expects them there.

    Otherwise one of them could be merged, or erased, between this look and the write.
    """
    out, passed = list(ids), dict[Key, int]()
    for _ in range(MERGES if out else 0):
        found = await seat.resources.log.get("Entity", list(dict.fromkeys(out)), seat.scope)
        passed = {**{record.key: record.seq for record in found}, **passed}
        into = {record.id: merged_into(record) for record in found}
        if not any(into.values()):
            break
        out = [into.get(name) or name for name in out]
    return out, passed


def _merged(known: Entity, draft: Entity) -> Entity:
    names = [name for name in (draft.name, *draft.aliases) if name != known.name]
    return known.model_copy(
        update={
            "aliases": tuple(dict.fromkeys((*known.aliases, *names))),
            "description": draft.description or known.description,
            "properties": {**known.properties, **draft.properties},
            "salience": max(known.salience, draft.salience),
        }
    )
