"""Two entities that are one: merged so that nothing of either is lost, and split again by what the journal kept."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from agentmem.errors import InvalidRecord, NotFound
from agentmem.memory.entities import MERGED, Entities, merged_into
from agentmem.memory.erasure import every
from agentmem.memory.history import content, keys_of
from agentmem.model.changes import Change, Write, fingerprint
from agentmem.model.clock import derived_id
from agentmem.model.edges import stated_link
from agentmem.model.records import RELATIONS, Edge, EdgeKind, Entity, Fact, Key, Record, Status
from agentmem.stores import Where

MOST = 10_000  # records moved by one merge
SPEAKERS = frozenset({"user", "agent"})  # who they are is given, not found out

Standings = Mapping[Key, Record]


@dataclass
class Merging(Entities):
    """Merging entities, and taking it back."""

    async def merge_entities(self, keep_id: str, other_id: str, *, idempotency_key: str | None = None) -> Entity:
        """Make two entities one and return the one that is kept, with the names and properties of both.

        Facts and relations of the other one, in every channel, are then the kept one's; the other is retired and its
        `reason` says what it became. Both must stand in one channel and be of one type, which is neither user nor
        agent: InvalidRecord, also when more than 10,000 records would move. Merged before, only what has come to name
        the other since is moved. See `split_entity`.
        """

        async def make(write: Write) -> Change | None:
            change = await self._merging(write, keep_id, other_id)
            found.append(change.puts[0])
            return None if len(change.puts) == 1 and idempotency_key is None else change

        found: list[Record] = []
        entry = await self.seat.resources.write(
            self.seat.scope, "merge_entities", make, kind="Entity", key=idempotency_key,
            payload=fingerprint(keep_id=keep_id, other_id=other_id),
        )  # fmt: skip
        if entry is None:  # merged before
            return _entity(found[-1])
        return _entity(entry.puts[0].record if entry.puts else None)

    async def split_entity(self, entity_id: str, *, idempotency_key: str | None = None) -> tuple[Entity, Entity]:
        """Take a merge back by its meaning, whatever was written since; returns the kept and the restored entity.

        `entity_id` is the one that was merged away, or the kept one: then the last that was merged into it. It gets
        back its facts and relations as far as they still name the kept one; what was learned since stays there.
        InvalidRecord when nothing was merged.
        """

        async def make(write: Write) -> Change:
            return await self._splitting(write, await self._merged_away(entity_id))

        entry = await self.seat.resources.write(
            self.seat.scope, "split_entity", make, kind="Entity", key=idempotency_key,
            payload=fingerprint(entity_id=entity_id),
        )  # fmt: skip
        records = [] if entry is None else [stored.record for stored in entry.puts[:2]]
        kept, restored = [*records, None, None][:2]
        return _entity(kept), _entity(restored)

    # -- merging

    async def _merging(self, write: Write, keep_id: str, other_id: str) -> Change:
        """The Change of a merge; the kept entity comes first."""
        log, scope = self.seat.resources.log, self.seat.scope
        seen = (await log.head(scope)).seq
        keep, other = await self._pair(keep_id, other_id)
        facts = [fact for fact in await every(self.seat, Where(kinds=("Fact",))) if isinstance(fact, Fact)]
        edges = [edge for edge in await every(self.seat, Where(kinds=("Edge",))) if isinstance(edge, Edge)]
        about = [fact for fact in facts if other.id in fact.entity_ids]
        joined = [edge for edge in edges if other.key in stated_link(edge) and edge.superseded_at is None]
        if len(about) + len(joined) > MOST:
            raise InvalidRecord(
                f"other_id: merging {other.id!r} would move {len(about) + len(joined):,} records, {MOST:,} is the most",
                field="other_id",
            )
        gone = {"status": Status.SUPERSEDED, "superseded_at": write.now, "reason": f"{MERGED}{keep.id}"}
        puts: list[Record] = [keep]
        if not merged_into(other):
            puts = [_joined(keep, other), other.model_copy(update=gone)]
        puts += [fact.model_copy(update={"entity_ids": _renamed(fact.entity_ids, other.id, keep.id)}) for fact in about]
        puts += [edge.model_copy(update=gone) for edge in joined]
        old = {record.key: record.seq for record in (keep, other, *about, *joined)}
        moved = self._moved(joined, {edge.id: edge for edge in edges}, other.id, keep.id)
        expects = {edge.key: None if before is None else before.seq for edge, before in moved}
        puts += [edge for edge, before in moved if before is None or before.superseded_at is not None]
        return write.change(*puts, expects={**expects, **old}, since={"Fact": seen, "Edge": seen})

    async def _pair(self, keep_id: str, other_id: str) -> tuple[Entity, Entity]:
        """The two entities, if they may become one."""
        if keep_id == other_id:
            raise InvalidRecord(f"other_id: {other_id!r} cannot be merged with itself", field="other_id")
        keep = await self._standing("keep_id", keep_id)
        other = _entity(await self.seat.one("Entity", other_id))
        if merged_into(other) != keep.id:
            other = await self._standing("other_id", other_id)
        for name in ("type", "channel"):
            if getattr(keep, name) != getattr(other, name):
                raise InvalidRecord(
                    f"other_id: {other.id!r} has the {name} {getattr(other, name)!r}, "
                    f"{keep.id!r} has {getattr(keep, name)!r}",
                    field="other_id",
                )
        if keep.type.casefold() in SPEAKERS:
            raise InvalidRecord(f"keep_id: an entity of type {keep.type!r} is not merged", field="keep_id")
        return keep, other

    async def _standing(self, field: str, entity_id: str) -> Entity:
        found = _entity(await self.seat.one("Entity", entity_id))
        if into := merged_into(found):
            raise InvalidRecord(f"{field}: {entity_id!r} was merged into {into!r}; name that one", field=field)
        if found.superseded_at is not None:
            raise InvalidRecord(f"{field}: entity {entity_id!r} was forgotten; restore it first", field=field)
        return found

    def _moved(
        self, joined: Iterable[Edge], known: Mapping[str, Edge], other: str, keep: str
    ) -> list[tuple[Edge, Edge | None]]:
        """The relations as the kept entity's, each once, with what stands under their ids; none with itself."""
        out: dict[str, tuple[Edge, Edge | None]] = {}
        for edge in joined:
            kind, *ends = stated_link(edge)
            source, target = (keep if end == ("Entity", other) else end[1] for end in ends)
            name = str(edge.properties.get("name", "")) if kind is EdgeKind.RELATED_TO else ""
            parts = (source, kind, target, *((name,) if kind in RELATIONS else ()))
            moved_id = derived_id(self.seat.scope.user_id, edge.channel, *parts)  # as if it had been stated so
            if ends[0][0] != ends[1][0] or source != target:
                moved = edge.model_copy(update={"id": moved_id, "source": source, "target": target})
                out.setdefault(moved_id, (moved, known.get(moved_id)))
        return list(out.values())

    # -- splitting

    async def _merged_away(self, entity_id: str) -> Entity:
        """The retired entity that is meant."""
        named = _entity(await self.seat.one("Entity", entity_id))
        if merged_into(named):
            return named
        into = await self._merged_with(named)
        if not into:
            raise InvalidRecord(f"entity_id: {entity_id!r} was not merged with another one", field="entity_id")
        return max(into, key=lambda entity: entity.seq)

    async def _merged_with(self, kept: Entity) -> list[Entity]:
        found = await every(self.seat, Where(kinds=("Entity",), channels=(kept.channel,)))
        return [entity for entity in found if isinstance(entity, Entity) and merged_into(entity) == kept.id]

    async def _splitting(self, write: Write, other: Entity) -> Change:
        """The Change that takes a merge back; the kept entity comes first, the restored one second."""
        keep = _entity(await self.seat.one("Entity", merged_into(other)))
        if into := merged_into(keep):
            raise InvalidRecord(
                f"entity_id: {keep.id!r} was then merged into {into!r}; split {keep.id!r} first", field="entity_id"
            )
        before, after, now = await self._around(other)
        still = [entity for entity in await self._merged_with(keep) if entity.id != other.id]
        kept_names = {name for entity in still for name in (entity.name, *entity.aliases)}
        standing = before[other.key]
        back = {name: getattr(standing, name) for name in ("status", "superseded_at", "reason")}
        alone, joined = (_entity(records.get(keep.key, keep)) for records in (before, after))
        puts: list[Record] = [_parted(keep, alone, joined, kept_names), other.model_copy(update=back)]
        retracts: list[Key] = []
        for key, record in now.items():
            old = before.get(key)
            if isinstance(record, Fact) and isinstance(old, Fact):
                puts.append(_reattached(record, old, after.get(key), (other.id, keep.id)))
            elif isinstance(record, Edge) and content(record) == content(after.get(key)):
                if old is None:
                    retracts.append(key)
                else:  # a relation of the other one, or one that was retired and that the merge stated anew
                    puts.append(old)
        puts = puts[:2] + [record for record in puts[2:] if record != now[record.key]]
        expects = {key: record.seq for key, record in {**now, keep.key: keep, other.key: other}.items()}
        return write.change(*puts, retracts=retracts, expects=expects)

    async def _around(self, other: Entity) -> tuple[Standings, Standings, Standings]:
        """What the merge touched, as it stood before, right after, and as it stands now."""
        log, scope = self.seat.resources.log, self.seat.scope
        versions = await log.versions(other.key, scope)
        merges = [
            after.operation_id for before, after in pairwise(versions)
            if before.superseded_at is None and merged_into(after) == merged_into(other)
        ]  # fmt: skip
        entries = await log.operation(merges[-1], scope) if merges else []
        if not entries:
            raise NotFound(f"the journal no longer tells how entity {other.id!r} was merged")
        keys = list(dict.fromkeys(key for entry in entries for key in keys_of(entry)))
        moments = (entries[0].seq - 1, entries[-1].seq, (await log.head(scope)).seq)
        before, after, now = [await log.states(keys, scope, moment) for moment in moments]
        return before, after, now


def _entity(record: Record | None) -> Entity:
    if not isinstance(record, Entity):
        raise NotFound("this write was done before and its Entity erased since")
    return record


def _renamed(ids: Collection[str], old: str, new: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(new if name == old else name for name in ids))


def _joined(keep: Entity, other: Entity) -> Entity:
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
    }
    return keep.model_copy(update=more)


def _parted(now: Entity, before: Entity, after: Entity, kept_names: Collection[str]) -> Entity:
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


def _reattached(now: Fact, before: Fact, after: Record | None, ids: tuple[str, str]) -> Fact:
    """A fact about the other entity again, if it is still about the kept one; `ids` are theirs."""
    other, keep = ids
    if isinstance(after, Fact) and now.entity_ids == after.entity_ids:
        return now.model_copy(update={"entity_ids": before.entity_ids})
    if keep not in now.entity_ids:
        return now
    both = (other, keep) if keep in before.entity_ids else (other,)
    about = [name for known in now.entity_ids for name in (both if known == keep else (known,))]
    return now.model_copy(update={"entity_ids": tuple(dict.fromkeys(about))})
