"""Two entities that are one: merged so that nothing of either is lost, and split again by what the journal kept."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from agentmem.core.arguments import check_arguments
from agentmem.core.changes import Change, WriteAttempt
from agentmem.core.clock import derive_id
from agentmem.core.edges import edge_triple
from agentmem.core.record import Key, Record, Status
from agentmem.core.records import RELATION_END_FIELDS, RELATION_KINDS, Edge, EdgeKind, Entity, Fact
from agentmem.errors import InvalidRecord, NotFound
from agentmem.memory.erasure import list_across_channels
from agentmem.memory.graph.community_records import retire_communities_of
from agentmem.memory.history import strip_log_fields, touched_keys
from agentmem.memory.semantic.beliefs import end_by_newer_word
from agentmem.memory.semantic.entities import MERGED_INTO_PREFIX, Entities, merge_target_id
from agentmem.memory.semantic.join_beliefs import join_beliefs
from agentmem.stores.values import Where

MAX_MOVED_RECORDS = 10_000
SPEAKER_TYPES = frozenset({"user", "agent"})  # who they are is given, not found out

RecordsByKey = Mapping[Key, Record]


@check_arguments
@dataclass
class EntityMerging(Entities):
    """Merging entities, and taking it back."""

    async def merge_entities(self, keep_id: str, other_id: str, *, idempotency_key: str | None = None) -> Entity:
        """Merge two entities and return the one that is kept, with the names and properties of both.

        Facts, relations and beliefs of the other one move to the kept one, in every channel: equal beliefs once, and in
        a slot of one value the newest. The other is retired and its `reason` names the kept one. Both must be in one
        channel and of one type, which is neither user nor agent: InvalidRecord, also when more than 10,000 records
        would move. A repeated merge moves only what has come to name the other since. See `split_entity`.
        """

        async def make(write: WriteAttempt) -> Change | Entity:
            change = await self._build_merge_change(write, keep_id, other_id)
            gone[:] = [each.id for each in change.upserts if isinstance(each, Entity) and merge_target_id(each)]
            # merged before
            return _require_entity(change.upserts[0]) if len(change.upserts) == 1 else change

        given = {"keep_id": keep_id, "other_id": other_id}
        gone: list[str] = []
        kept = await self._context.write(Entity, "merge_entities", make, idempotency_key=idempotency_key, given=given)
        await retire_communities_of(self._context, gone)
        return kept

    async def split_entity(self, entity_id: str, *, idempotency_key: str | None = None) -> tuple[Entity, Entity]:
        """Undo a merge in meaning, despite later writes; returns the kept and the restored entity.

        `entity_id` is the one that was merged, or the kept one: then the last one merged into it. It gets back its
        facts and relations if they still name the kept one; later ones stay there. InvalidRecord when nothing was
        merged.
        """

        async def make(write: WriteAttempt) -> Change:
            return await self._build_split_change(write, await self._get_merged_away(entity_id))

        entry = await self._context.write_entry(
            "Entity", "split_entity", make, idempotency_key, {"entity_id": entity_id}
        )
        records = [] if entry is None else [stored.record for stored in entry.upserts[:2]]
        kept, restored = [*records, None, None][:2]
        return _require_entity(kept), _require_entity(restored)

    # -- merging

    async def _build_merge_change(self, write: WriteAttempt, keep_id: str, other_id: str) -> Change:
        """The Change of a merge; the kept entity comes first."""
        log, scope = self._context.engine.log, self._context.scope
        seen = (await log.head(scope)).seq
        keep, other = await self._get_mergeable_pair(keep_id, other_id)
        facts = [
            fact for fact in await list_across_channels(self._context, Where(kinds=("Fact",))) if isinstance(fact, Fact)
        ]
        edges = [
            edge for edge in await list_across_channels(self._context, Where(kinds=("Edge",))) if isinstance(edge, Edge)
        ]
        about = [fact for fact in facts if other.id in fact.entity_ids]
        joined = [edge for edge in edges if other.key in edge_triple(edge) and edge.superseded_at is None]
        if len(about) + len(joined) > MAX_MOVED_RECORDS:
            raise InvalidRecord(
                f"other_id: merging {other.id!r} would move {len(about) + len(joined):,} records, "
                f"{MAX_MOVED_RECORDS:,} is the most",
                field="other_id",
            )
        gone = {"status": Status.SUPERSEDED, "superseded_at": write.now, "reason": f"{MERGED_INTO_PREFIX}{keep.id}"}
        puts: list[Record] = [keep]
        if not merge_target_id(other):
            puts = [_merge_entity(keep, other), other.model_copy(update=gone)]
        slots = self._context.engine.settings.slots
        joined_beliefs = {fact.id: fact for fact in join_beliefs(facts, keep, other, slots, write.now)}
        changed = [*about, *(fact for fact in facts if fact.id in joined_beliefs and fact not in about)]
        puts += [
            _replace_entity(fact, other.id, keep.id) for fact in (joined_beliefs.get(each.id, each) for each in changed)
        ]
        puts += [edge.model_copy(update=gone) for edge in joined]
        old = {record.key: record.seq for record in (keep, other, *changed, *joined)}
        moved = self._repoint_edges(joined, {edge.id: edge for edge in edges}, other.id, keep.id)
        expects = {edge.key: None if before is None else before.seq for edge, before in moved}
        puts += [edge for edge, before in moved if before is None or before.superseded_at is not None]
        return write.build_change(
            *puts, expected_versions={**expects, **old}, no_new_since={"Fact": seen, "Edge": seen}
        )

    async def _get_mergeable_pair(self, keep_id: str, other_id: str) -> tuple[Entity, Entity]:
        """The two entities, if they may become one."""
        if keep_id == other_id:
            raise InvalidRecord(f"other_id: {other_id!r} cannot be merged with itself", field="other_id")
        keep = await self._get_active_entity("keep_id", keep_id)
        other = await self._context.get_one(Entity, other_id)
        if merge_target_id(other) != keep.id:
            other = await self._get_active_entity("other_id", other_id)
        for name in ("type", "channel"):
            if getattr(keep, name) != getattr(other, name):
                raise InvalidRecord(
                    f"other_id: {other.id!r} has the {name} {getattr(other, name)!r}, "
                    f"{keep.id!r} has {getattr(keep, name)!r}",
                    field="other_id",
                )
        if keep.type.casefold() in SPEAKER_TYPES:
            raise InvalidRecord(f"keep_id: an entity of type {keep.type!r} is not merged", field="keep_id")
        return keep, other

    async def _get_active_entity(self, field: str, entity_id: str) -> Entity:
        found = await self._context.get_one(Entity, entity_id)
        if into := merge_target_id(found):
            raise InvalidRecord(f"{field}: {entity_id!r} was merged into {into!r}; name that one", field=field)
        if found.superseded_at is not None:
            raise InvalidRecord(f"{field}: entity {entity_id!r} was forgotten; restore it first", field=field)
        return found

    def _repoint_edges(
        self, edges: Iterable[Edge], known: Mapping[str, Edge], other: str, keep: str
    ) -> list[tuple[Edge, Edge | None]]:
        """The relations of the kept entity, each once, with the present records of their ids; none to itself."""
        out: dict[str, tuple[Edge, Edge | None]] = {}
        for edge in edges:
            kind, *ends = edge_triple(edge)
            source, target = (keep if end == ("Entity", other) else end[1] for end in ends)
            name = str(edge.properties.get("name", "")) if kind is EdgeKind.RELATED_TO else ""
            parts = (source, kind, target, *((name,) if kind in RELATION_KINDS else ()))
            moved_id = derive_id(self._context.scope.user_id, edge.channel, *parts)  # as if it had been stated so
            if ends[0][0] != ends[1][0] or source != target:
                moved = edge.model_copy(update={"id": moved_id, "source": source, "target": target})
                out.setdefault(moved_id, (moved, known.get(moved_id)))
        return list(out.values())

    # -- splitting

    async def _get_merged_away(self, entity_id: str) -> Entity:
        """The retired entity that is meant."""
        named = await self._context.get_one(Entity, entity_id)
        if merge_target_id(named):
            return named
        into = await self._list_merged_into(named)
        if not into:
            raise InvalidRecord(f"entity_id: {entity_id!r} was not merged with another one", field="entity_id")
        return max(into, key=lambda entity: entity.seq)

    async def _list_merged_into(self, kept: Entity) -> list[Entity]:
        found = await list_across_channels(self._context, Where(kinds=("Entity",), channels=(kept.channel,)))
        return [entity for entity in found if isinstance(entity, Entity) and merge_target_id(entity) == kept.id]

    async def _build_split_change(self, write: WriteAttempt, other: Entity) -> Change:
        """The Change that takes a merge back; the kept entity comes first, the restored one second."""
        keep = await self._context.get_one(Entity, merge_target_id(other))
        if into := merge_target_id(keep):
            raise InvalidRecord(
                f"entity_id: {keep.id!r} was then merged into {into!r}; split {keep.id!r} first", field="entity_id"
            )
        before, after, now = await self._read_merge_states(other)
        still = [entity for entity in await self._list_merged_into(keep) if entity.id != other.id]
        kept_names = {name for entity in still for name in (entity.name, *entity.aliases)}
        standing = before[other.key]
        back = {name: getattr(standing, name) for name in ("status", "superseded_at", "reason")}
        alone, joined = (_require_entity(records.get(keep.key, keep)) for records in (before, after))
        puts: list[Record] = [_unmerge_entity(keep, alone, joined, kept_names), other.model_copy(update=back)]
        retracts: list[Key] = []
        leaving = {each.id for each in before.values() if isinstance(each, Fact) and each.subject != keep.name}
        for key, record in now.items():
            old = before.get(key)
            if isinstance(old, Fact) and strip_log_fields(record) == strip_log_fields(after.get(key)):
                puts.append(await end_by_newer_word(self._context, old, leaving) if old.slot else old)
            elif isinstance(record, Fact) and isinstance(old, Fact):
                puts.append(_reattach_fact(record, old, after.get(key), (other.id, keep.id)))
            elif isinstance(record, Edge) and strip_log_fields(record) == strip_log_fields(after.get(key)):
                if old is None:
                    retracts.append(key)
                else:  # a relation of the other one, or a retired one that the merge stated again
                    puts.append(old)
        puts = puts[:2] + [record for record in puts[2:] if record != now[record.key]]
        expects = {key: record.seq for key, record in {**now, keep.key: keep, other.key: other}.items()}
        return write.build_change(*puts, deletes=retracts, expected_versions=expects)

    async def _read_merge_states(self, other: Entity) -> tuple[RecordsByKey, RecordsByKey, RecordsByKey]:
        """The records of the merge before it, right after it, and now."""
        log, scope = self._context.engine.log, self._context.scope
        versions = await log.versions(other.key, scope)
        merges = [
            after.operation_id
            for before, after in pairwise(versions)
            if before.superseded_at is None and merge_target_id(after) == merge_target_id(other)
        ]
        entries = await log.operation(merges[-1], scope) if merges else []
        if not entries:
            raise NotFound(f"the journal no longer shows how entity {other.id!r} was merged")
        keys = list(dict.fromkeys(key for entry in entries for key in touched_keys(entry)))
        moments = (entries[0].seq - 1, entries[-1].seq, (await log.head(scope)).seq)
        before, after, now = [await log.snapshot_at(keys, scope, moment) for moment in moments]
        return before, after, now


def _require_entity(record: Record | None) -> Entity:
    if not isinstance(record, Entity):
        raise NotFound("this write was done before and its Entity erased since")
    return record


def _replace_entity(fact: Fact, old: str, new: str) -> Fact:
    """The fact about another entity, which its subject and its value name, too."""
    about = tuple(dict.fromkeys(new if name == old else name for name in fact.entity_ids))
    ends = {field: new for field in RELATION_END_FIELDS if getattr(fact, field) == old}
    return fact.model_copy(update={"entity_ids": about, **ends})


def _merge_entity(keep: Entity, other: Entity) -> Entity:
    """The kept entity with all that the other one had; where they differ, its own comes first."""
    names = (name for name in (*keep.aliases, other.name, *other.aliases) if name != keep.name)
    said = [text for text in (keep.description, other.description) if text]
    seen = [moment for moment in (keep.first_seen, other.first_seen) if moment]
    more: dict[str, Any] = {
        "aliases": tuple(dict.fromkeys(names)),
        "description": said[0] if len(said) == 2 and said[1] in said[0] else "; ".join(said),
        "properties": {**other.properties, **keep.properties},
        "salience": max(keep.salience, other.salience),
        "first_seen": min(seen, default=None),
        "extracted": _join_extracted(keep, other),
    }
    return keep.model_copy(update=more)


def _join_extracted(keep: Entity, other: Entity) -> tuple[str, ...]:
    """What turns alone say of either; what a caller gave one of them stays given."""
    given: set[str] = set()
    for each in (keep, other):
        given |= {each.name, *each.aliases, each.description} - {*each.extracted}
    return tuple(text for text in dict.fromkeys((*keep.extracted, *other.extracted)) if text not in given)


def _unmerge_entity(now: Entity, before: Entity, after: Entity, kept_names: Collection[str]) -> Entity:
    """The kept entity without what the merge gave it, where that was not changed since."""
    gained = set(after.aliases) - set(before.aliases) - set(kept_names)
    properties = dict(now.properties)
    for name in after.properties.keys() - before.properties.keys():
        if name in properties and properties[name] == after.properties[name]:
            del properties[name]
    less: dict[str, Any] = {"aliases": tuple(name for name in now.aliases if name not in gained)}
    for field in ("description", "salience", "first_seen"):
        if getattr(now, field) == getattr(after, field):
            less[field] = getattr(before, field)
    return now.model_copy(update={**less, "properties": properties})


def _reattach_fact(now: Fact, before: Fact, after: Record | None, ids: tuple[str, str]) -> Fact:
    """A fact about the other entity again, if it is still about the kept one; `ids` are theirs."""
    other, keep = ids
    if isinstance(after, Fact) and now.subject == after.subject:
        now = now.model_copy(update={"subject": before.subject})
    ends = {field: getattr(before, field) for field in RELATION_END_FIELDS if getattr(now, field) == keep}
    if isinstance(after, Fact) and now.entity_ids == after.entity_ids:
        return now.model_copy(update={"entity_ids": before.entity_ids, **ends})
    if keep not in now.entity_ids:
        return now
    both = (other, keep) if keep in before.entity_ids else (other,)
    about = [name for known in now.entity_ids for name in (both if known == keep else (known,))]
    return now.model_copy(update={"entity_ids": tuple(dict.fromkeys(about)), **ends})
