"""Forgetting: softly, which can be restored, or for good, with a scan that proves that nothing is left."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np

from agentmem.errors import Conflict, NotFound, StoreUnavailable
from agentmem.memory import Seat
from agentmem.memory.answers import ErasureReceipt, ForgetReceipt
from agentmem.memory.copies import copies_of
from agentmem.memory.current import remove_pages
from agentmem.memory.entities import merged_into
from agentmem.memory.synopsis import synopses_written
from agentmem.memory.vault import remove_notes
from agentmem.model.changes import Change, JournalEntry, Write, fingerprint
from agentmem.model.records import (
    KINDS,
    Edge,
    Fact,
    Gloss,
    Goal,
    Key,
    Outcome,
    Procedure,
    Record,
    Review,
    Status,
    Strategy,
    ToolInvocation,
)
from agentmem.resources import RETRIES
from agentmem.stores import Scan, Where

BUILT = ("Fact", "Edge", "Gloss", "Review", "Entity", "Strategy", "Procedure")  # kinds that may rest on other records
DONE = ("ToolInvocation", "Outcome")  # kinds that belong to a conversation
_NAMING = {"source_turn_ids": "Turn", "source_spans": "Turn", "entity_ids": "Entity", "depends_on": "Fact"}
_DOING = {"source_turn_ids": "Turn", "conversation_ids": "Conversation"}


@dataclass
class Erasure:
    """Forget, restore, erase."""

    seat: Seat

    async def forget_id(
        self, record_id: str, *, hard: bool = False, reason: str = "", key: str | None = None, kind: str | None = None
    ) -> ForgetReceipt:
        """Forget the records of this id (of one kind when given), a conversation with its turns; NotFound for none.

        Softly: retired with a reason, restorable. Hard: erased everywhere, see `ForgetReceipt`.
        """
        payload = fingerprint(id=record_id, hard=hard, reason=reason, kind=kind)
        record_id = await self.seat.resolve_id(record_id)
        if hard:
            return await self._erase(record_id, kind, key=key, payload=payload)

        async def make(write: Write) -> Change:
            records = [record for record in await self._named(record_id, kind) if record.status is not Status.FORGOTTEN]
            if not records:
                raise NotFound(f"nothing to forget under id {record_id!r} in this scope")
            gone = {"status": Status.FORGOTTEN, "superseded_at": write.now, "reason": reason}
            retired = [record.model_copy(update=gone) for record in records]
            return write.change(*retired, expects={record.key: record.seq for record in records})

        entry = await self.seat.resources.write(
            self.seat.scope, "forget", make, kind=await self._kind_of(record_id), key=key, payload=payload,
            details={"forgotten": record_id},
        )  # fmt: skip
        assert entry is not None
        return ForgetReceipt(entry.operation_id, _names(entry), False, entry.at)

    async def erase_as_read(self, record: Record, *, fence: int) -> ForgetReceipt:
        """Erase a record, under a lease: Conflict when it was changed since it was read, NotFound when it is gone."""
        return await self._erase(record.id, record.kind, as_read=[record], fence=fence)

    async def restore(self, record_id: str, *, key: str | None = None) -> list[Record]:
        """Bring back what was softly forgotten under this id, as it was before; NotFound when there is no such thing.

        With a conversation come the turns that were forgotten with it.
        """
        log, scope = self.seat.resources.log, self.seat.scope
        payload = fingerprint(id=record_id)
        record_id = await self.seat.resolve_id(record_id)

        async def make(write: Write) -> Change:
            found = await self._forgotten(record_id)
            if not found:
                raise NotFound(f"nothing is forgotten under id {record_id!r} in this scope")
            restored = []
            for record in found:
                versions = await log.versions(record.key, scope)
                before = [version for version in versions if version.status is not Status.FORGOTTEN][-1:]
                back = {"status": Status.ACTIVE, "superseded_at": None, "reason": ""}
                back |= {name: getattr(version, name) for version in before for name in back}
                restored.append(record.model_copy(update=back))  # sources that were erased meanwhile stay away
            return write.change(*restored, expects={record.key: record.seq for record in found})

        entry = await self.seat.resources.write(
            scope, "restore", make, kind=await self._kind_of(record_id), key=key, payload=payload
        )
        assert entry is not None
        return [stored.record for stored in entry.puts]

    async def _named(self, record_id: str, kind: str | None = None) -> list[Record]:
        """The records of an id that the scope may read, a conversation with its turns, a fact with its copy."""
        found = [record for record in await self.seat.any(record_id) if kind in (None, record.kind)]
        if kind == "Conversation" or any(record.kind == "Conversation" for record in found):
            where = Where(kinds=("Turn",), channels=self.seat.scope.readable(), conversation_id=record_id)
            turns = await every(self.seat, where)
            glosses = await self.seat.resources.log.get("Gloss", [turn.id for turn in turns], self.seat.scope)
            readable = self.seat.scope.readable()
            done = [record for record in await done_in(self.seat, [record_id]) if record.channel in readable]
            known = {record.key for record in found}
            found += [record for record in (*turns, *glosses, *done) if record.key not in known]
        return [*found, *await copies_of(self.seat, found)]

    async def _stored(self, record_id: str, kind: str | None) -> list[Key]:
        """The keys of `_named`, else of what was undone and is kept in the journal alone."""
        if found := [record.key for record in await self._named(record_id, kind)]:
            return found
        log, scope = self.seat.resources.log, self.seat.scope
        keys = [(name, record_id) for name in KINDS if kind in (None, name)]
        versions = {key: await log.versions(key, scope) for key in keys}
        return [key for key, past in versions.items() if past and past[-1].channel in scope.readable()]

    async def _forgotten(self, record_id: str) -> list[Record]:
        found = [record for record in await self._named(record_id) if record.status is Status.FORGOTTEN]
        together = {record.operation_id for record in found if record.id == record_id}
        return [record for record in found if record.id == record_id or record.operation_id in together]

    async def _kind_of(self, record_id: str) -> str:
        for record in await self.seat.any(record_id):
            return record.kind
        return "Fact"

    async def erase_user(self) -> ErasureReceipt:
        """Erase everything of the user, in every channel; payload-free tombstones stay in the journal."""
        resources, scope = self.seat.resources, self.seat.scope
        operation_id, now = resources.ids.new(), resources.clock.now()
        scan = await resources.log.erase(scope, None, operation_id=operation_id, at=now)
        scan = await self._forget_graph(None, await self._forget_notes(None, await self._forget_caches((), scan)))
        await resources.follow(scope)
        await self._audit("erase", operation_id, ["*"])
        return ErasureReceipt(operation_id, scope.user_id, now, scan)

    async def _erase(
        self, record_id: str, kind: str | None, *, key: str | None = None, payload: str = "",
        as_read: Sequence[Record] = (), fence: int | None = None,
    ) -> ForgetReceipt:  # fmt: skip
        """Take a source from what has others, erase the rest, scan. The first step also notes the key, for a retry."""
        resources, scope = self.seat.resources, self.seat.scope

        async def make(write: Write) -> Change | None:
            keys[:] = await self._stored(record_id, kind)
            if not keys:
                raise NotFound(f"nothing to forget under id {record_id!r} in this scope")
            await self._check_unchanged(as_read)
            _, lighter = await self._rests_on(keys)
            return _lightening(write, lighter, as_read)

        keys: list[Key] = []
        entry = await resources.write(
            scope, "forget", make, kind=await self._kind_of(record_id), key=key, payload=payload,
            details={"forgotten": record_id}, fence=fence,
        )  # fmt: skip
        assert entry is not None
        done = await resources.log.operation(entry.operation_id, scope) if entry.repeated else []
        before = [(item.kind, item.id) for one in done for item in one.gone if item.erased]
        now = done[-1].at if before else resources.clock.now()
        if before:  # what was made anew since, in any channel, is not what was meant
            where = Where(kinds=tuple(KINDS), ids=tuple(name for _, name in before))
            anew = {record.key for record in await every(self.seat, where)}
            gone = [key for key in before if key not in anew]
            scan = await resources.log.erase(scope, gone, operation_id=entry.operation_id, at=now)
        else:
            keys = keys or await self._stored(record_id, kind)
            gone, scan = await self._take_out(keys, entry.operation_id, now, as_read)
        names = [name for _, name in gone]
        scan = await self._forget_notes(names, await self._forget_caches(names, scan))
        scan = await self._forget_graph(gone, scan)
        await resources.follow(scope)
        await self._audit("delete", entry.operation_id, [name for _, name in gone])
        asked = dict.fromkeys(name for _, name in keys or [("", record_id)])
        derived = tuple(name for sort, name in gone if name not in asked and sort not in ("Gloss", "Synopsis"))
        return ForgetReceipt(entry.operation_id, tuple(asked), True, now, derived, scan)

    async def _take_out(
        self, keys: Sequence[Key], operation_id: str, at: datetime, as_read: Sequence[Record]
    ) -> tuple[list[Key], Scan]:
        """Erase these and what rests on them alone; where something was built on them meanwhile, look again."""
        resources, scope = self.seat.resources, self.seat.scope
        for left in reversed(range(RETRIES)):
            seen = (await resources.log.head(scope)).seq
            await self._check_unchanged(as_read)
            gone, lighter = await self._rests_on(keys)
            try:
                if not lighter:
                    return gone, await resources.log.erase(scope, gone, operation_id=operation_id, at=at, seen=seen)
                write = Write(scope, "forget", operation_id, resources.ids.new(), "", at)
                await resources.commit(scope, [_lightening(write, lighter)], None)
            except Conflict as error:
                if not (error.stale and left):
                    raise
        raise Conflict("facts or relations that rest on what is to go are written without a pause", stale=True)

    async def _check_unchanged(self, as_read: Sequence[Record]) -> None:
        for record in as_read:
            if await self.seat.resources.log.touched_since([record.key], self.seat.scope, record.seq):
                raise Conflict(f"{record.kind} {record.id!r} was changed after it was chosen to be erased")

    async def _rests_on(self, keys: Iterable[Key]) -> tuple[list[Key], list[Record]]:
        """All that goes with the keys, and the records that stay but lose a source, an entity or a premise."""
        # Every channel of the user: what rests on erased text must go wherever it was put.
        records = [record for kind in BUILT for record in await every(self.seat, Where(kinds=(kind,)))]
        gone: dict[Key, None] = dict.fromkeys((*keys, *await synopses_written(self.seat)))
        named = [name for kind, name in gone if kind == "Turn"]
        turns = await self.seat.resources.log.get("Turn", named, self.seat.scope)
        places = [name for kind, name in gone if kind == "Conversation"] + [turn.place()[0] for turn in turns]
        records += await done_in(self.seat, places)
        if any(kind == "Goal" for kind, _ in gone):  # others may wait for it, or be a part of it
            records += await every(self.seat, Where(kinds=("Goal", "Outcome")))
        records = list({record.key: record for record in records}.values())
        grew = True
        while grew:
            names = {name for kind, name in gone if kind != "Gloss"}  # its id is that of a turn, which may well stay
            more = [record.key for record in records if record.key not in gone and _goes(record, gone, names)]
            gone |= dict.fromkeys(more)
            grew = bool(more)
        pairs = ((record, _lighter(record, gone)) for record in records if record.key not in gone)
        return list(gone), [lighter for record, lighter in pairs if lighter != record]

    async def _forget_caches(self, ids: Sequence[str], scan: Scan) -> Scan:
        """Drop what is cached, here and in the session store; the scan with what could not be reached."""
        resources, user = self.seat.resources, self.seat.scope.user_id
        await resources.settle()  # a turn on its way to the session cache must not arrive there later
        resources.erased(user)
        for name in ids:
            for projection in resources.vectors:
                projection.given.pop((user, name), None)
        pending = list(scan.pending)
        try:
            await asyncio.to_thread(remove_pages, resources.settings.home, user)
        except OSError as error:
            pending.append(f"current.md of an agent, which the next turn or another erasure replaces: {error}")
        try:
            await resources.session.clear(self.seat.scope)
        except StoreUnavailable as error:
            pending.append(f"session cache, whose values end by themselves or with another erasure: {error}")
        return replace(scan, pending=tuple(pending))

    async def _forget_notes(self, ids: Sequence[str] | None, scan: Scan) -> Scan:
        """Take it out of the notes in the vault, edited ones too; the scan with what could not be reached."""
        vault = self.seat.resources.settings.vault
        if vault is None:
            return scan
        try:
            await asyncio.to_thread(remove_notes, vault, self.seat.scope.user_id, ids)
        except OSError as error:
            said = f"notes in the vault, which another erasure removes: {error.strerror or error}"
            return replace(scan, pending=(*scan.pending, said))
        return replace(scan, places=(*scan.places, "vault"))

    async def _forget_graph(self, keys: Sequence[Key] | None, scan: Scan) -> Scan:
        """Take it out of a graph that follows the log, and look there too; the scan with what that gave."""
        following = self.seat.resources.following
        if following is None:  # the log's own erasure was also the graph's
            return scan
        try:
            left = await following.erase(self.seat.scope, keys)
        except StoreUnavailable as error:
            return replace(scan, pending=(*scan.pending, f"graph, which follows the log when it is back: {error}"))
        remnants = {**scan.remnants, **({"graph": left} if left else {})}
        return replace(scan, places=(*scan.places, "graph"), remnants=remnants)

    async def _audit(self, operation: str, operation_id: str, ids: Sequence[str]) -> None:
        row = self.seat.resources.auditor.write(
            operation, self.seat.scope, memory_type="episodic", operation_id=operation_id, count=len(ids),
            metadata={"ids": list(ids[:50])},
        )  # fmt: skip
        if row is not None:
            await self.seat.resources.log.audit([row])


async def every(seat: Seat, where: Where) -> list[Record]:
    """Every current record that matches, in any channel of the user unless `where` names some; in order of `seq`."""
    return sorted([record async for page in seat.pages(where) for record in page], key=lambda record: record.seq)


async def done_in(seat: Seat, conversations: Collection[str]) -> list[Record]:
    """Calls of tools in these conversations, and how these ended, in any channel; read in pages."""
    if not conversations:
        return []
    outline = await seat.resources.outline(seat.scope)
    here = outline.conversations.among(conversations)[outline.conversation]  # those of none are -1, which is the last
    slots = np.flatnonzero(here & outline.kinds.among(DONE)[outline.kind])
    out: list[Record] = []
    for start in range(0, len(slots), 1000):
        page = [int(slot) for slot in slots[start : start + 1000]]
        out.extend(await seat.resources.log.by_slot(page, seat.scope))
    return out


def _lightening(write: Write, lighter: Sequence[Record], as_read: Sequence[Record] = ()) -> Change:
    """The Change that puts these without what goes, facts as stale; it expects them and others as they were read."""
    puts = (item.model_copy(update={"stale_since": write.now}) if isinstance(item, Fact) else item for item in lighter)
    return write.change(*puts, expects={record.key: record.seq for record in (*lighter, *as_read)})


def _goes(record: Record, gone: Collection[Key], names: Collection[str]) -> bool:
    """Whether a record rests on what goes, and on nothing else; `names` are the ids of what goes."""
    if isinstance(record, Fact | Review):
        sources = record.source_turn_ids
        alone = bool(sources) and all(("Turn", turn) in gone for turn in sources)
        if isinstance(record, Review):
            return alone or any(name in names for name in record.record_ids)
        # A promoted copy goes with its original, and what was merged away with the fact that says the same.
        return alone or any(("Fact", name) in gone for name in (record.promoted_from or "", merged_into(record)))
    if isinstance(record, Gloss):  # one sentence made of all of them
        return any(("Turn", turn) in gone for turn in (record.id, *record.source_turn_ids))
    if isinstance(record, ToolInvocation | Outcome):
        named = ("Turn", record.turn_id) if isinstance(record, ToolInvocation) else ("Goal", record.goal_id or "")
        return named in gone or ("Conversation", record.conversation_id) in gone
    if isinstance(record, Goal):
        return False
    if isinstance(record, Strategy | Procedure):
        return _unfounded(record, gone)
    if isinstance(record, Edge):
        return any(name in names for name in (record.source, record.target, record.fact_id))
    return ("Entity", merged_into(record)) in gone


def _unfounded(record: Strategy | Procedure, gone: Collection[Key]) -> bool:
    """Whether all the turns whose words it has go, or all the conversations in which it worked."""
    grounds = [[("Turn", name) for name in record.source_turn_ids]]
    if isinstance(record, Strategy):
        grounds.append([("Conversation", name) for name in record.conversation_ids])
    return any(ground and all(key in gone for key in ground) for ground in grounds)


def _lighter(record: Record, gone: Collection[Key]) -> Record:
    """The record without the sources, entities and premises that go."""
    if isinstance(record, Fact):
        return record.model_copy(update=_left({name: getattr(record, name) for name in _NAMING}, gone))
    if isinstance(record, Goal):
        parent = None if ("Goal", record.parent_id or "") in gone else record.parent_id
        blockers = tuple(name for name in record.blocked_by if ("Goal", name) not in gone)
        free = record.goal_status == "blocked" and blockers == () != record.blocked_by
        status = "active" if free else record.goal_status
        return record.model_copy(update={"parent_id": parent, "blocked_by": blockers, "goal_status": status})
    if isinstance(record, Strategy | Procedure):
        naming = {name: getattr(record, name) for name in _DOING if name in type(record).model_fields}
        return record.model_copy(update=_left(naming, gone, _DOING))
    if isinstance(record, Review):
        sources = _left({"source_turn_ids": record.source_turn_ids}, gone)
        return record.model_copy(update={**sources, "proposed": _left(record.proposed, gone)})
    return record


def _left(fields: Mapping[str, Any], gone: Collection[Key], naming: Mapping[str, str] = _NAMING) -> dict[str, Any]:
    """Fields of a record, its lists without the ids that go. Those of a proposal were never checked."""
    out = dict(fields)
    for name, kind in naming.items():
        given = out.get(name)
        if isinstance(given, list | tuple):
            out[name] = type(given)(item for item in given if not _named_in(item, kind, gone))
    return out


def _named_in(item: Any, kind: str, gone: Collection[Key]) -> bool:
    name = item[0] if isinstance(item, list | tuple) and item else item  # a span begins with its turn
    return isinstance(name, str) and (kind, name) in gone


def _names(entry: JournalEntry) -> tuple[str, ...]:
    return tuple(dict.fromkeys(stored.record.id for stored in entry.puts))  # a turn and its gloss have one id
