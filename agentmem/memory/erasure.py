"""Forgetting: softly, which can be restored, or for good, with a scan that proves that nothing is left."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from agentmem.errors import Conflict, NotFound
from agentmem.memory import Seat
from agentmem.model.changes import Change, fingerprint
from agentmem.model.records import Edge, Fact, Key, Record, Status
from agentmem.resources import Write
from agentmem.stores import Scan, Where


@dataclass(frozen=True, slots=True)
class ForgetReceipt:
    """What was forgotten. `hard`: erased, with what rested on it alone (`derived`); `scan` says what was searched and found."""

    operation_id: str
    ids: tuple[str, ...]
    hard: bool
    at: datetime
    derived: tuple[str, ...] = ()
    scan: Scan | None = None


@dataclass(frozen=True, slots=True)
class ErasureReceipt:
    """Everything of a user was erased; `scan.remnants` is empty, `scan.pending` names what waits for a reader to finish."""

    operation_id: str
    user_id: str
    at: datetime
    scan: Scan = field(default_factory=lambda: Scan(()))


@dataclass
class Erasure:
    """Forget, restore, erase."""

    seat: Seat

    async def forget_id(
        self, record_id: str, *, hard: bool = False, reason: str = "", key: str | None = None
    ) -> ForgetReceipt:
        """Forget the records of this id; NotFound when the scope has none (erasing twice is not an error to repeat)."""
        found = [record for record in await self.seat.any(record_id) if hard or record.status is not Status.FORGOTTEN]
        if not found:
            raise NotFound(f"nothing to forget under id {record_id!r} in this scope")
        return await self.forget([record.key for record in found], hard=hard, reason=reason, key=key)

    async def forget(
        self, keys: Sequence[Key], *, hard: bool = False, reason: str = "", key: str | None = None
    ) -> ForgetReceipt:
        """Forget records. Softly: retired with a reason, restorable. Hard: erased everywhere, see `ForgetReceipt`."""
        if hard:
            return await self._erase(keys)

        async def make(write: Write) -> Change:
            records = await self._read(keys)
            retired = [
                record.model_copy(update={"status": Status.FORGOTTEN, "superseded_at": write.now, "reason": reason})
                for record in records
            ]
            return write.change(*retired, expects={record.key: record.seq for record in records})

        entry = await self.seat.resources.write(
            self.seat.scope, "forget", make, kind=keys[0][0], key=key, payload=fingerprint(keys=keys, reason=reason),
            details={"forgotten": [name for _, name in keys[:50]]},
        )  # fmt: skip
        assert entry is not None
        return ForgetReceipt(entry.operation_id, tuple(name for _, name in keys), False, entry.at)

    async def restore(self, record_id: str, *, key: str | None = None) -> list[Record]:
        """Bring back what was softly forgotten, as it was before; NotFound when nothing of this id is forgotten."""
        log, scope = self.seat.resources.log, self.seat.scope
        found = [record for record in await self.seat.any(record_id) if record.status is Status.FORGOTTEN]
        if not found:
            raise NotFound(f"nothing is forgotten under id {record_id!r} in this scope")

        async def make(write: Write) -> Change:
            before = []
            for record in found:
                versions = await log.versions(record.key, scope)
                known = [version for version in versions if version.status is not Status.FORGOTTEN]
                before.append(
                    known[-1] if known else record.model_copy(update={"status": Status.ACTIVE, "superseded_at": None})
                )
            return write.change(*before, expects={record.key: record.seq for record in found})

        entry = await self.seat.resources.write(
            self.seat.scope, "restore", make, kind=found[0].kind, key=key, payload=fingerprint(id=record_id)
        )
        assert entry is not None
        return [stored.record for stored in entry.puts]

    async def erase_user(self) -> ErasureReceipt:
        """Erase everything of the user, in every channel; payload-free tombstones stay in the journal."""
        resources, scope = self.seat.resources, self.seat.scope
        operation_id, now = resources.ids.new(), resources.clock.now()
        scan = await resources.log.erase(scope, None, operation_id=operation_id, at=now)
        await self._forget_caches(())
        await self._audit("erase", operation_id, ["*"])
        return ErasureReceipt(operation_id, scope.user_id, now, scan)

    async def _erase(self, keys: Sequence[Key]) -> ForgetReceipt:
        resources, scope = self.seat.resources, self.seat.scope
        gone, lighter = await self._rests_on(keys)
        if lighter:

            async def make(write: Write) -> Change:
                changed = [record.model_copy(update={"stale_since": write.now}) if isinstance(record, Fact) else record
                           for record in lighter]  # fmt: skip
                return write.change(*changed, expects={record.key: record.seq for record in lighter})

            await resources.write(scope, "forget_source", make, kind="Fact")
        operation_id, now = resources.ids.new(), resources.clock.now()
        scan = await resources.log.erase(scope, gone, operation_id=operation_id, at=now)
        await self._forget_caches([name for _, name in gone])
        await self._audit("delete", operation_id, [name for _, name in gone])
        asked = {key for key in keys}
        derived = tuple(name for kind, name in gone if (kind, name) not in asked)
        return ForgetReceipt(operation_id, tuple(name for _, name in keys), True, now, derived, scan)

    async def _rests_on(self, keys: Iterable[Key]) -> tuple[list[Key], list[Record]]:
        """All that goes with the keys, and the records that stay but lose a source, an entity or a premise."""
        gone: dict[Key, None] = dict.fromkeys(keys)
        facts = [record for record in await self._every("Fact") if isinstance(record, Fact)]
        edges = [record for record in await self._every("Edge") if isinstance(record, Edge)]
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
        lighter: list[Record] = []
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

    async def _every(self, kind: str) -> list[Record]:
        # Every channel of the user: what rests on erased text must go wherever it was put.
        out: list[Record] = []
        while page := await self.seat.resources.log.find(
            self.seat.scope, Where(kinds=(kind,)), limit=1000, offset=len(out)
        ):
            out.extend(page)
        return out

    async def _read(self, keys: Sequence[Key]) -> list[Record]:
        out: list[Record] = []
        for kind in dict.fromkeys(kind for kind, _ in keys):
            out.extend(
                await self.seat.resources.log.get(kind, [name for k, name in keys if k == kind], self.seat.scope)
            )
        if len(out) != len(keys):
            raise Conflict("some of these records are gone; read again", stale=False)
        return out

    async def _forget_caches(self, ids: Sequence[str]) -> None:
        resources, user = self.seat.resources, self.seat.scope.user_id
        await resources.session.clear(self.seat.scope)
        resources.erased(user)
        for name in ids:
            for projection in resources.vectors:
                projection.given.pop((user, name), None)

    async def _audit(self, operation: str, operation_id: str, ids: Sequence[str]) -> None:
        row = self.seat.resources.auditor.write(
            operation, self.seat.scope, memory_type="episodic", operation_id=operation_id, count=len(ids),
            metadata={"ids": list(ids[:50])},
        )  # fmt: skip
        if row is not None:
            await self.seat.resources.log.audit([row])
