"""Forgetting and restoring; erasing a record, a channel or a user for good, with a scan for what is left."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from agentmem.core.changes import Change, JournalEntry, WriteAttempt
from agentmem.core.procedural_records import Outcome, Procedure, Strategy, ToolInvocation
from agentmem.core.record import Key, Record, Status
from agentmem.core.records import (
    KINDS,
    RELATION_END_FIELDS,
    Conversation,
    Edge,
    EdgeKind,
    Entity,
    Fact,
    Gloss,
    Goal,
    Review,
)
from agentmem.engine.auditor import MAX_AUDITED_IDS
from agentmem.engine.engine import MAX_WRITE_ATTEMPTS
from agentmem.errors import Conflict, InvalidRecord, NotFound, StoreUnavailable
from agentmem.memory.context import ErasureReceipt, ForgetReceipt, MemoryContext
from agentmem.memory.graph.community_records import list_community_keys, retire_communities_of
from agentmem.memory.mentioned_entities import MentionedEntities, list_outdated
from agentmem.memory.semantic.beliefs import end_by_newer_word
from agentmem.memory.semantic.entities import merge_target_id
from agentmem.memory.semantic.facts import find_global_copies
from agentmem.memory.semantic.revive_beliefs import join_restated, revive_beliefs
from agentmem.memory.synopsis import list_synopsis_keys
from agentmem.memory.vault import remove_notes
from agentmem.memory.working.session_page import remove_pages
from agentmem.stores.values import ErasureScan, Where

# kinds that may rest on other records
DERIVED_KINDS = ("Fact", "Edge", "Gloss", "Review", "Entity", "Strategy", "Procedure")
_COMPUTED_KINDS = ("Gloss", "Synopsis", "Community")  # made of other records: no receipt names them
ACTION_KINDS = ("ToolInvocation", "Outcome")  # kinds that belong to a conversation
_REFERENCE_FIELDS = {
    "source_turn_ids": "Turn",
    "source_spans": "Turn",
    "doubt_spans": "Turn",
    "entity_ids": "Entity",
    "depends_on": "Fact",
}
_PROCEDURAL_REFERENCE_FIELDS = {"source_turn_ids": "Turn", "conversation_ids": "Conversation"}

MAX_CHANNEL_RECORDS = 10_000  # records


@dataclass
class Erasure:
    """Forget, restore, erase. A key of one channel or agent names records of its own; what rests on them goes, too."""

    _context: MemoryContext

    def __post_init__(self) -> None:
        self._asking_scope = self._context.scope
        self._context = replace(self._context, scope=replace(self._context.scope, own_channels=None))

    async def forget_id(
        self,
        record_id: str,
        *,
        hard: bool = False,
        reason: str = "",
        idempotency_key: str | None = None,
        kind: str | None = None,
    ) -> ForgetReceipt:
        """Forget the records of this id (of one kind when given), a conversation with its turns; NotFound for none.

        Softly: retired with a reason, restorable. Hard: erased everywhere, see `ForgetReceipt`.
        """
        given = {"id": record_id, "hard": hard, "reason": reason, "kind": kind}
        record_id = await self._context.resolve_id(record_id)
        if hard:
            return await self._erase(record_id, kind, idempotency_key=idempotency_key, given=given)

        async def make(write: WriteAttempt) -> Change:
            records = [
                record for record in await self._find_targets(record_id, kind) if record.status is not Status.FORGOTTEN
            ]
            if not records:
                raise NotFound(f"nothing to forget under id {record_id!r} in this scope")
            gone = {"status": Status.FORGOTTEN, "superseded_at": write.now, "reason": reason}
            retired = [record.model_copy(update=gone) for record in records]
            return write.build_change(*retired, expected_versions={record.key: record.seq for record in records})

        entry = await self._context.write_entry(
            await self._resolve_kind(record_id),
            "forget",
            make,
            idempotency_key,
            given,
            details={"forgotten": record_id},
        )
        assert entry is not None
        entities = [stored.record.id for stored in entry.upserts if isinstance(stored.record, Entity)]
        await retire_communities_of(self._context, entities)
        return ForgetReceipt(entry.operation_id, _written_ids(entry), False, entry.recorded_at)

    async def erase_if_unchanged(self, record: Record, *, fence: int) -> ForgetReceipt:
        """Erase a record, under a lease: Conflict when it was changed since it was read, NotFound when it is gone."""
        return await self._erase(record.id, record.kind, expected_records=[record], fence=fence)

    async def restore(self, record_id: str, *, idempotency_key: str | None = None) -> list[Record]:
        """Bring back what was softly forgotten or archived under this id, as it was before; NotFound for nothing such.

        No job puts it away again until it is used. An archived conversation loses its mark. With a conversation come
        the turns that were forgotten with it. Where another current fact says the same by now, that one gains the
        sources and is returned. A belief comes back as an older word: where its slot has another value by now, it is
        over since that value began.
        """
        log, scope = self._context.engine.log, self._context.scope
        given = {"id": record_id}
        record_id = await self._context.resolve_id(record_id)

        async def make(write: WriteAttempt) -> Change:
            found = await self._find_forgotten(record_id)
            if not found:
                raise NotFound(f"nothing is forgotten or archived under id {record_id!r} in this scope")
            restored = []
            for record in found:
                versions = await log.versions(record.key, scope)
                before = [version for version in versions if version.status not in _AWAY][-1:]
                back: dict[str, Any] = {"status": Status.ACTIVE, "superseded_at": None, "reason": ""}
                back |= {name: getattr(version, name) for version in before for name in back}
                if record.status not in _AWAY:  # a conversation that only bears the mark
                    back |= {"archived": False, "reason": ""}
                again = record.model_copy(update=back)  # sources that were erased meanwhile stay away
                if isinstance(again, Fact) and again.slot:
                    again = await end_by_newer_word(self._context, again)
                restored.append(again)
            restored = await join_restated(self._context, restored)
            expects = {record.key: record.seq for record in (*found, *restored)}
            return write.build_change(*restored, expected_versions=expects)

        entry = await self._context.write_entry(
            await self._resolve_kind(record_id), "restore", make, idempotency_key, given
        )
        assert entry is not None
        return [stored.record for stored in entry.upserts]

    async def _find_targets(self, record_id: str, kind: str | None = None) -> list[Record]:
        """The records of an id that the scope may read, a conversation with its turns, a fact with its copy."""
        found = [record for record in await self._context.find_by_id(record_id) if kind in (None, record.kind)]
        self._asking_scope.check_writable(record.channel for record in found)
        if kind == "Conversation" or any(record.kind == "Conversation" for record in found):
            own = self._asking_scope.own_channels or self._context.scope.readable_channels()
            where = Where(kinds=("Turn",), channels=own, conversation_id=record_id)
            turns = await list_across_channels(self._context, where)
            glosses = await self._context.engine.log.read_records(
                "Gloss", [turn.id for turn in turns], self._context.scope
            )
            done = [
                record
                for record in await list_conversation_actions(self._context, [record_id])
                if record.channel in own
            ]
            known = {record.key for record in found}
            found += [record for record in (*turns, *glosses, *done) if record.key not in known]
        return [*found, *await find_global_copies(self._context, found)]

    async def _find_target_keys(self, record_id: str, kind: str | None) -> list[Key]:
        """The keys of `_find_targets`, else of what was undone and is kept in the journal alone."""
        if found := [record.key for record in await self._find_targets(record_id, kind)]:
            return found
        log, scope = self._context.engine.log, self._context.scope
        keys = [(name, record_id) for name in KINDS if kind in (None, name)]
        versions = {key: await log.versions(key, scope) for key in keys}
        own = self._asking_scope.own_channels or scope.readable_channels()
        return [key for key, past in versions.items() if past and past[-1].channel in own]

    async def _find_forgotten(self, record_id: str) -> list[Record]:
        found = [record for record in await self._find_targets(record_id) if _is_away(record)]
        together = {record.operation_id for record in found if record.id == record_id}
        return [record for record in found if record.id == record_id or record.operation_id in together]

    async def _resolve_kind(self, record_id: str) -> str:
        for record in await self._context.find_by_id(record_id):
            return record.kind
        return "Fact"

    async def erase_user(self) -> ErasureReceipt:
        """Erase everything of the user, in every channel; payload-free tombstones stay in the journal."""
        engine, scope = self._context.engine, self._context.scope
        operation_id, now = engine.ids.new_id(), engine.clock.now()
        scan = await engine.log.erase(scope, None, operation_id=operation_id, erased_at=now)
        scan = await self._erase_from_graph(
            None, await self._erase_from_vault(None, await self._clear_caches((), scan))
        )
        await engine.sync_projections(scope)
        scan = await self._write_audit("erase", operation_id, ["*"], scan)
        return ErasureReceipt(operation_id, scope.user_id, now, scan)

    async def _erase(
        self,
        record_id: str,
        kind: str | None,
        *,
        idempotency_key: str | None = None,
        given: Mapping[str, Any] | None = None,
        expected_records: Sequence[Record] = (),
        fence: int | None = None,
    ) -> ForgetReceipt:
        """Take a source from what has others, erase the rest, scan. The first step also notes the key, for a retry."""
        engine, scope = self._context.engine, self._context.scope

        async def make(write: WriteAttempt) -> Change | None:
            keys[:] = await self._find_target_keys(record_id, kind)
            if not keys:
                raise NotFound(f"nothing to forget under id {record_id!r} in this scope")
            await self._check_unchanged(expected_records)
            _, lighter = await self._find_dependents(keys)
            return _build_detach_change(write, lighter, expected_records)

        keys: list[Key] = []
        sort, details = await self._resolve_kind(record_id), {"forgotten": record_id}
        entry = await self._context.write_entry(
            sort, "forget", make, idempotency_key, given or {}, details=details, fence=fence
        )
        assert entry is not None
        done = await engine.log.operation(entry.operation_id, scope) if entry.already_applied else []
        before = [(item.kind, item.id) for one in done for item in one.removals if item.erased]
        now = done[-1].recorded_at if before else engine.clock.now()
        if before:
            gone, scan = await self._erase_again(before, entry.operation_id, now)
        else:
            keys = keys or await self._find_target_keys(record_id, kind)
            gone, scan = await self._erase_with_dependents(keys, entry.operation_id, now, expected_records)
        names = [name for _, name in gone]
        scan = await self._erase_from_vault(names, await self._clear_caches(names, scan))
        scan = await self._erase_from_graph(gone, scan)
        await engine.sync_projections(scope)
        scan = await self._write_audit("delete", entry.operation_id, names, scan)
        asked = dict.fromkeys(name for _, name in keys or [("", record_id)])
        derived = tuple(name for sort, name in gone if name not in asked and sort not in _COMPUTED_KINDS)
        return ForgetReceipt(entry.operation_id, tuple(asked), True, now, derived, scan)

    async def _erase_again(
        self, erased_before: Sequence[Key], operation_id: str, erased_at: datetime
    ) -> tuple[list[Key], ErasureScan]:
        """Repeat an erasure that was interrupted; records stored since then, in any channel, are kept."""
        where = Where(kinds=tuple(KINDS), ids=tuple(record_id for _, record_id in erased_before))
        stored_anew = {record.key for record in await list_across_channels(self._context, where)}
        gone = [key for key in erased_before if key not in stored_anew]
        engine, scope = self._context.engine, self._context.scope
        return gone, await engine.log.erase(scope, gone, operation_id=operation_id, erased_at=erased_at)

    async def _erase_with_dependents(
        self, keys: Sequence[Key], operation_id: str, erased_at: datetime, expected_records: Sequence[Record]
    ) -> tuple[list[Key], ErasureScan]:
        """Erase these and what rests on them alone; where something was built on them meanwhile, look again."""
        engine, scope = self._context.engine, self._context.scope
        for left in reversed(range(MAX_WRITE_ATTEMPTS)):
            seen = (await engine.log.head(scope)).seq
            await self._check_unchanged(expected_records)
            gone, lighter = await self._find_dependents(keys)
            try:
                if not lighter:
                    pruned = await self._list_outdated_entities(gone)
                    return gone, await engine.log.erase(
                        scope, gone, operation_id=operation_id, erased_at=erased_at, seen_seq=seen, pruned=pruned
                    )
                write = WriteAttempt(scope, "forget", operation_id, engine.ids.new_id(), "", erased_at)
                await engine.commit(scope, [_build_detach_change(write, lighter)])
            except Conflict as error:
                if not (error.stale and left):
                    raise
        raise Conflict("facts or relations that rest on what is to go are written without a pause", stale=True)

    async def _list_outdated_entities(self, gone: Sequence[Key]) -> list[Key]:
        """Entities that these named, with older versions whose text no source supports any more."""
        log, scope = self._context.engine.log, self._context.scope
        named: set[str] = set()
        for kind in ("Edge", "Fact"):
            for record in await log.read_records(kind, [name for each, name in gone if each == kind], scope):
                if isinstance(record, Fact):
                    named.update(record.entity_ids)
                elif isinstance(record, Edge) and record.edge_kind is EdgeKind.MENTIONS:
                    named.add(record.target)
        keys = [("Entity", name) for name in sorted(named) if ("Entity", name) not in gone]
        return list_outdated(keys, {key: await log.versions(key, scope) for key in keys})

    async def _check_unchanged(self, expected_records: Sequence[Record]) -> None:
        for record in expected_records:
            if await self._context.engine.log.changed_keys_since([record.key], self._context.scope, record.seq):
                raise Conflict(f"{record.kind} {record.id!r} was changed after it was chosen to be erased")

    async def _find_dependents(self, keys: Iterable[Key]) -> tuple[list[Key], list[Record]]:
        """All that is erased with the keys, and the records that stay but lose a source, an entity or a premise."""
        # Every channel of the user: what rests on erased text must go wherever it was put.
        records = [
            record
            for kind in DERIVED_KINDS
            for record in await list_across_channels(self._context, Where(kinds=(kind,)))
        ]
        gone: dict[Key, None] = dict.fromkeys((*keys, *await list_synopsis_keys(self._context)))
        named = [name for kind, name in gone if kind == "Turn"]
        turns = await self._context.engine.log.read_records("Turn", named, self._context.scope)
        places = [name for kind, name in gone if kind == "Conversation"] + [turn.position_key()[0] for turn in turns]
        records += await list_conversation_actions(self._context, places)
        if any(kind == "Goal" for kind, _ in gone):  # others may wait for it, or be a part of it
            records += await list_across_channels(self._context, Where(kinds=("Goal", "Outcome")))
        records = list({record.key: record for record in records}.values())
        mentioned = MentionedEntities.collect(records)
        reduced: dict[Key, Entity | None] = {}
        grew = True
        while grew:
            names = {name for kind, name in gone if kind != "Gloss"}  # its id is that of a turn, which may well stay
            more = [
                record.key for record in records if record.key not in gone and _depends_only_on(record, gone, names)
            ]
            reduced = mentioned.reduce(gone)
            more += [key for key, left in reduced.items() if left is None]
            more += [each.key for each in records if each.key not in gone and _asks_about(each, reduced)]
            gone |= dict.fromkeys(more)
            grew = bool(more)
        if any(kind == "Entity" for kind, _ in gone):
            gone |= dict.fromkeys(await list_community_keys(self._context))
        facts, slots = [each for each in records if isinstance(each, Fact)], self._context.engine.settings.slots
        revived = {fact.key: fact for fact in revive_beliefs(facts, gone, slots)}
        left = [record for record in records if record.key not in gone]
        changed = {**revived, **{key: entity for key, entity in reduced.items() if entity is not None}}
        pairs = ((record, _detach_sources(changed.get(record.key, record), gone)) for record in left)
        return list(gone), [lighter for record, lighter in pairs if lighter != record]

    async def _clear_caches(self, ids: Sequence[str], scan: ErasureScan) -> ErasureScan:
        """Drop what is cached, here and in the session store; the scan with what could not be reached."""
        engine, user = self._context.engine, self._context.scope.user_id
        await engine.drain_background()  # a turn on its way to the session cache must not arrive there later
        engine.invalidate_user(user)
        for name in ids:
            for projection in engine.vector_projections:
                projection.precomputed.pop((user, name), None)
        pending = list(scan.deferred)
        try:
            await asyncio.to_thread(remove_pages, engine.settings.home, user)
        except OSError as error:
            pending.append(f"current.md of an agent, which the next turn or another erasure replaces: {error}")
        try:
            await engine.session.clear(self._context.scope)
        except StoreUnavailable as error:
            pending.append(f"session cache, whose values end by themselves or with another erasure: {error}")
        return replace(scan, deferred=tuple(pending))

    async def _erase_from_vault(self, ids: Sequence[str] | None, scan: ErasureScan) -> ErasureScan:
        """Take it out of the notes in the vault, edited ones too; the scan with what could not be reached."""
        vault = self._context.engine.settings.vault
        if vault is None:
            return scan
        try:
            await asyncio.to_thread(remove_notes, vault, self._context.scope.user_id, ids)
        except OSError as error:
            said = f"notes in the vault, which another erasure removes: {error.strerror or error}"
            return replace(scan, deferred=(*scan.deferred, said))
        return replace(scan, checked=(*scan.checked, "vault"))

    async def _erase_from_graph(self, keys: Sequence[Key] | None, scan: ErasureScan) -> ErasureScan:
        """Take it out of a graph that follows the log, and look there too; the scan with what that gave."""
        following = self._context.engine.graph_projection
        if following is None:  # the log's own erasure was also the graph's
            return scan
        try:
            left = await following.erase(self._context.scope, keys)
        except StoreUnavailable as error:
            return replace(scan, deferred=(*scan.deferred, f"graph, which follows the log when it is back: {error}"))
        remnants = {**scan.leftovers, **({"graph": left} if left else {})}
        return replace(scan, checked=(*scan.checked, "graph"), leftovers=remnants)

    async def _write_audit(
        self, operation: str, operation_id: str, ids: Sequence[str], scan: ErasureScan
    ) -> ErasureScan:
        """Note what was erased; the scan with what could not be noted, which undoes no erasure."""
        row = self._context.engine.auditor.build_write_entry(
            operation,
            self._context.scope,
            memory_type="episodic",
            operation_id=operation_id,
            count=len(ids),
            metadata={"ids": list(ids[:MAX_AUDITED_IDS])},
        )
        try:
            await self._context.engine.write_audit(row)
        except StoreUnavailable as error:
            return replace(scan, deferred=(*scan.deferred, f"the row of the audit log, which was not written: {error}"))
        return scan


async def list_across_channels(context: MemoryContext, where: Where) -> list[Record]:
    """Every current record that matches, in any channel of the user unless `where` names some; in order of `seq`."""
    return sorted(
        [record async for page in context.iter_pages(where) for record in page], key=lambda record: record.seq
    )


async def list_conversation_actions(context: MemoryContext, conversations: Collection[str]) -> list[Record]:
    """Calls of tools in these conversations, and how these ended, in any channel; read in pages."""
    if not conversations:
        return []
    columns = await context.engine.read_columns(context.scope)
    # those of none are -1, which is the last
    here = columns.conversations.mask_for(conversations)[columns.conversation]
    ordinals = np.flatnonzero(here & columns.kinds.mask_for(ACTION_KINDS)[columns.kind])
    out: list[Record] = []
    for start in range(0, len(ordinals), 1000):
        page = [int(ordinal) for ordinal in ordinals[start : start + 1000]]
        out.extend(await context.engine.log.read_by_ordinal(page, context.scope))
    return out


_AWAY = (Status.FORGOTTEN, Status.ARCHIVED)


def _is_away(record: Record) -> bool:
    """Whether a record was forgotten or archived. A procedure that is not in force yet is archived, too."""
    if isinstance(record, Conversation) and record.archived:
        return True
    return record.status is Status.FORGOTTEN or (record.status is Status.ARCHIVED and not isinstance(record, Procedure))


LOST = datetime.max.replace(tzinfo=UTC)  # replaced by the moment of the write in a fact that lost its ground


def _build_detach_change(
    write: WriteAttempt, detached: Sequence[Record], expected_records: Sequence[Record] = ()
) -> Change:
    """The Change that puts these without what goes; it expects them and others as they were read.

    Facts that lost a premise or their last source are stale from now on.
    """
    puts = (
        item.model_copy(update={"stale_since": write.now})
        if isinstance(item, Fact) and item.stale_since is LOST
        else item
        for item in detached
    )
    return write.build_change(
        *puts, expected_versions={record.key: record.seq for record in (*detached, *expected_records)}
    )


def _asks_about(record: Record, reduced: Mapping[Key, Entity | None]) -> bool:
    """Whether a question names an entity that loses a name: it quotes the old one."""
    return isinstance(record, Review) and any(("Entity", name) in reduced for name in record.record_ids)


def _depends_only_on(record: Record, erased_keys: Collection[Key], erased_ids: Collection[str]) -> bool:
    """Whether a record rests on what goes, and on nothing else; `erased_ids` are the ids of what goes."""
    if isinstance(record, Fact | Review):
        sources = record.source_turn_ids
        alone = bool(sources) and all(("Turn", turn) in erased_keys for turn in sources)
        if isinstance(record, Review):
            return alone or any(name in erased_ids for name in record.record_ids)
        # A promoted copy is erased with its original, and a merged fact with the fact that says the same.
        return alone or any(
            ("Fact", name) in erased_keys for name in (record.promoted_from or "", merge_target_id(record))
        )
    if isinstance(record, Gloss):  # one sentence made of all of them
        return any(("Turn", turn) in erased_keys for turn in (record.id, *record.source_turn_ids))
    if isinstance(record, ToolInvocation | Outcome):
        named = ("Turn", record.turn_id) if isinstance(record, ToolInvocation) else ("Goal", record.goal_id or "")
        return named in erased_keys or ("Conversation", record.conversation_id) in erased_keys
    if isinstance(record, Goal):
        return False
    if isinstance(record, Strategy | Procedure):
        return _has_lost_all_sources(record, erased_keys)
    if isinstance(record, Edge):
        sources = record.source_turn_ids
        alone = bool(sources) and all(("Turn", turn) in erased_keys for turn in sources)
        return alone or any(name in erased_ids for name in (record.source, record.target, record.fact_id))
    return ("Entity", merge_target_id(record)) in erased_keys


def _has_lost_all_sources(record: Strategy | Procedure, erased_keys: Collection[Key]) -> bool:
    """Whether all the turns whose words it has go, or all the conversations in which it worked."""
    grounds = [[("Turn", name) for name in record.source_turn_ids]]
    if isinstance(record, Strategy):
        grounds.append([("Conversation", name) for name in record.conversation_ids])
    return any(ground and all(key in erased_keys for key in ground) for ground in grounds)


def _detach_sources(record: Record, erased_keys: Collection[Key]) -> Record:
    """The record without the sources, entities and premises that go."""
    if isinstance(record, Fact):
        kept = _drop_references({name: getattr(record, name) for name in _REFERENCE_FIELDS}, erased_keys)
        kept |= {name: None for name in RELATION_END_FIELDS if ("Entity", getattr(record, name)) in erased_keys}
        has_source = not record.source_turn_ids or bool(kept["source_turn_ids"])
        is_founded = has_source and kept["depends_on"] == record.depends_on
        return record.model_copy(update=kept if is_founded else {**kept, "stale_since": LOST})
    if isinstance(record, Goal):
        parent = None if ("Goal", record.parent_id or "") in erased_keys else record.parent_id
        blockers = tuple(name for name in record.blocked_by if ("Goal", name) not in erased_keys)
        free = record.goal_status == "blocked" and blockers == () != record.blocked_by
        status = "active" if free else record.goal_status
        return record.model_copy(update={"parent_id": parent, "blocked_by": blockers, "goal_status": status})
    if isinstance(record, Strategy | Procedure):
        naming = {
            name: getattr(record, name) for name in _PROCEDURAL_REFERENCE_FIELDS if name in type(record).model_fields
        }
        return record.model_copy(update=_drop_references(naming, erased_keys, _PROCEDURAL_REFERENCE_FIELDS))
    if isinstance(record, Edge):
        return record.model_copy(update=_drop_references({"source_turn_ids": record.source_turn_ids}, erased_keys))
    if isinstance(record, Review):
        sources = _drop_references({"source_turn_ids": record.source_turn_ids}, erased_keys)
        return record.model_copy(update={**sources, "proposed": _drop_references(record.proposed, erased_keys)})
    return record


def _drop_references(
    fields: Mapping[str, Any], erased_keys: Collection[Key], reference_fields: Mapping[str, str] = _REFERENCE_FIELDS
) -> dict[str, Any]:
    """Fields of a record, its lists without the ids that go. Those of a proposal were never checked."""
    out = dict(fields)
    for name, kind in reference_fields.items():
        given = out.get(name)
        if isinstance(given, list | tuple):
            out[name] = type(given)(item for item in given if not _refers_to_erased(item, kind, erased_keys))
    return out


def _refers_to_erased(item: Any, kind: str, erased_keys: Collection[Key]) -> bool:
    name = item[0] if isinstance(item, list | tuple) and item else item  # a span begins with its turn
    return isinstance(name, str) and (kind, name) in erased_keys


def _written_ids(entry: JournalEntry) -> tuple[str, ...]:
    return tuple(dict.fromkeys(stored.record.id for stored in entry.upserts))  # a turn and its gloss have one id


@dataclass
class ChannelErasure(Erasure):
    """Takes the name of a channel for an id: every record in it is meant, but for the user's profile."""

    hard: bool = False

    async def _find_targets(self, record_id: str, kind: str | None = None) -> list[Record]:
        self._asking_scope.check_writable([record_id])
        live = tuple(status.value for status in Status if status is not Status.FORGOTTEN)
        where = Where(
            kinds=tuple(name for name in KINDS if name != "User"),
            channels=(record_id,),
            status=None if self.hard else live,
        )
        found = list[Record]()
        async for page in self._context.iter_pages(where):
            found += page
            if len(found) > MAX_CHANNEL_RECORDS:
                raise InvalidRecord(
                    f"channel {record_id!r} holds more than {MAX_CHANNEL_RECORDS:,} records, too many for one "
                    f"operation; "
                    "delete its conversations first",
                    field="channel",
                )
        return found

    async def _resolve_kind(self, record_id: str) -> str:
        return "Turn"
