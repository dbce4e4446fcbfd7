"""Forgetting: softly, which can be restored, or for good, with a scan that proves that nothing is left."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from agentmem.errors import Conflict, NotFound, StoreUnavailable
from agentmem.memory import Seat
from agentmem.model.changes import Change, JournalEntry, Write, fingerprint
from agentmem.model.records import KINDS, Edge, Fact, Key, Record, Status
from agentmem.resources import RETRIES
from agentmem.stores import Scan, Where


@dataclass(frozen=True, slots=True)
class ForgetReceipt:
    """What was forgotten. `hard`: erased, with what rested on it alone (`derived`), and searched for (`scan`)."""

    operation_id: str
    ids: tuple[str, ...]
    hard: bool
    at: datetime
    derived: tuple[str, ...] = ()
    scan: Scan | None = None


@dataclass(frozen=True, slots=True)
class ErasureReceipt:
    """Everything of a user was erased. `scan.remnants` is empty, `scan.pending` says what waits, and for whom."""

    operation_id: str
    user_id: str
    at: datetime
    scan: Scan = field(default_factory=lambda: Scan(()))


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
        if hard:
            return await self._erase(record_id, kind, key, payload)

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

    async def restore(self, record_id: str, *, key: str | None = None) -> list[Record]:
        """Bring back what was softly forgotten under this id, as it was before; NotFound when there is no such thing.

        With a conversation come the turns that were forgotten with it.
        """
        log, scope = self.seat.resources.log, self.seat.scope

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
            scope, "restore", make, kind=await self._kind_of(record_id), key=key, payload=fingerprint(id=record_id)
        )
        assert entry is not None
        return [stored.record for stored in entry.puts]

    async def _named(self, record_id: str, kind: str | None = None) -> list[Record]:
        """The records of an id that the scope may read, a conversation with its turns."""
        found = [record for record in await self.seat.any(record_id) if kind in (None, record.kind)]
        if kind == "Conversation" or any(record.kind == "Conversation" for record in found):
            where = Where(kinds=("Turn",), channels=self.seat.scope.readable(), conversation_id=record_id)
            turns = await self._every(where)
            found += [turn for turn in turns if turn.key not in {record.key for record in found}]
        return found

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
        scan = await self._forget_graph(None, await self._forget_caches((), scan))
        await resources.follow(scope)
        await self._audit("erase", operation_id, ["*"])
        return ErasureReceipt(operation_id, scope.user_id, now, scan)

    async def _erase(self, record_id: str, kind: str | None, key: str | None, payload: str) -> ForgetReceipt:
        """Take a source from what has others, erase the rest, scan. The first step also notes the key, for a retry."""
        resources, scope = self.seat.resources, self.seat.scope

        async def make(write: Write) -> Change | None:
            keys[:] = await self._stored(record_id, kind)
            if not keys:
                raise NotFound(f"nothing to forget under id {record_id!r} in this scope")
            _, lighter = await self._rests_on(keys)
            stale = {"stale_since": write.now}
            changed = [record.model_copy(update=stale) for record in lighter]
            return write.change(*changed, expects={record.key: record.seq for record in lighter})

        keys: list[Key] = []
        entry = await resources.write(
            scope, "forget", make, kind=await self._kind_of(record_id), key=key, payload=payload,
            details={"forgotten": record_id},
        )  # fmt: skip
        assert entry is not None
        done = await resources.log.operation(entry.operation_id, scope) if entry.repeated else []
        before = [(item.kind, item.id) for one in done for item in one.gone if item.erased]
        now = done[-1].at if before else resources.clock.now()
        if before:  # what was made anew since, in any channel, is not what was meant
            where = Where(kinds=tuple(KINDS), ids=tuple(name for _, name in before))
            anew = {record.key for record in await self._every(where)}
            gone = [key for key in before if key not in anew]
            scan = await resources.log.erase(scope, gone, operation_id=entry.operation_id, at=now)
        else:
            keys = keys or await self._stored(record_id, kind)
            gone, scan = await self._take_out(keys, entry.operation_id, now)
        scan = await self._forget_graph(gone, await self._forget_caches([name for _, name in gone], scan))
        await resources.follow(scope)
        await self._audit("delete", entry.operation_id, [name for _, name in gone])
        asked = dict.fromkeys(name for _, name in keys or [("", record_id)])
        derived = tuple(name for _, name in gone if name not in asked)
        return ForgetReceipt(entry.operation_id, tuple(asked), True, now, derived, scan)

    async def _take_out(self, keys: Sequence[Key], operation_id: str, at: datetime) -> tuple[list[Key], Scan]:
        """Erase these and what rests on them alone; where something was built on them meanwhile, look again."""
        log, scope = self.seat.resources.log, self.seat.scope
        for left in reversed(range(RETRIES)):
            seen = (await log.head(scope)).seq
            gone, _ = await self._rests_on(keys)
            try:
                return gone, await log.erase(scope, gone, operation_id=operation_id, at=at, seen=seen)
            except Conflict as error:
                if not (error.stale and left):
                    raise
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def _rests_on(self, keys: Iterable[Key]) -> tuple[list[Key], list[Fact]]:
        """All that goes with the keys, and the records that stay but lose a source, an entity or a premise."""
        gone: dict[Key, None] = dict.fromkeys(keys)
        # Every channel of the user: what rests on erased text must go wherever it was put.
        facts = [record for record in await self._every(Where(kinds=("Fact",))) if isinstance(record, Fact)]
        edges = [record for record in await self._every(Where(kinds=("Edge",))) if isinstance(record, Edge)]
        grew = True
        while grew:  # a fact goes when its last source went; a promoted copy goes with its original
            more = [
                fact.key for fact in facts
                if fact.key not in gone and (
                    (fact.source_turn_ids and all(("Turn", turn) in gone for turn in fact.source_turn_ids))
                    or ("Fact", fact.promoted_from or "") in gone
                )
            ]  # fmt: skip
            gone |= dict.fromkeys(more)
            grew = bool(more)
        names = {name for _, name in gone}
        gone |= dict.fromkeys(edge.key for edge in edges if {edge.source, edge.target, edge.fact_id} & names)
        lighter: list[Fact] = []
        for fact in facts:
            if fact.key in gone:
                continue
            kept = {
                "source_turn_ids": tuple(n for n in fact.source_turn_ids if ("Turn", n) not in gone),
                "source_spans": tuple(span for span in fact.source_spans if ("Turn", span[0]) not in gone),
                "entity_ids": tuple(n for n in fact.entity_ids if ("Entity", n) not in gone),
                "depends_on": tuple(n for n in fact.depends_on if ("Fact", n) not in gone),
            }
            if any(getattr(fact, name) != value for name, value in kept.items()):
                lighter.append(fact.model_copy(update=kept))
        return list(gone), lighter

    async def _every(self, where: Where) -> list[Record]:
        out: list[Record] = []
        while page := await self.seat.resources.log.find(self.seat.scope, where, limit=1000, offset=len(out)):
            out.extend(page)
        return out

    async def _forget_caches(self, ids: Sequence[str], scan: Scan) -> Scan:
        """Drop what is cached, here and in the session store; the scan with what could not be reached."""
        resources, user = self.seat.resources, self.seat.scope.user_id
        await resources.settle()  # a turn on its way to the session cache must not arrive there later
        resources.erased(user)
        for name in ids:
            for projection in resources.vectors:
                projection.given.pop((user, name), None)
        try:
            await resources.session.clear(self.seat.scope)
        except StoreUnavailable as error:
            away = f"session cache, whose values end by themselves or with another erasure: {error}"
            return replace(scan, pending=(*scan.pending, away))
        return scan

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


def _names(entry: JournalEntry) -> tuple[str, ...]:
    return tuple(stored.record.id for stored in entry.puts)
