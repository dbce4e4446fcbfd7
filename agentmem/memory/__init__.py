"""What is remembered, seen through one scope: episodic, semantic, working memory, profile, history and erasure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from agentmem.errors import InvalidRecord, NotFound
from agentmem.model.records import KINDS, Key, Record
from agentmem.model.scope import Scope
from agentmem.resources import Resources
from agentmem.stores import Where


@dataclass
class Seat:
    """Where a subsystem sits: shared resources, and the scope it acts in. `conversation_id` is filled by the first turn."""

    resources: Resources
    scope: Scope
    conversation_id: str | None = field(default=None)

    def scope_of_session(self, session_id: str) -> Scope:
        """The same scope in another session, without a conversation yet."""
        return replace(self.scope, session_id=session_id, conversation_id=None)

    async def one(self, kind: str, record_id: str) -> Record:
        """The current record of this id that the scope may read; NotFound otherwise."""
        found = await self.resources.log.get(kind, [record_id], self.scope)
        if not found or found[0].channel not in self.scope.readable():
            raise NotFound(f"no {kind} {record_id!r} in the channels {', '.join(self.scope.readable())}")
        return found[0]

    async def any(self, record_id: str) -> list[Record]:
        """The current records of this id, of whatever kind, that the scope may read; [] when there is none."""
        where = Where(kinds=tuple(KINDS), ids=(record_id,), channels=self.scope.readable())
        return await self.resources.log.find(self.scope, where, limit=len(KINDS))

    async def all(self, kind: str, *, channels: Sequence[str] | None = None, limit: int = 100_000) -> list[Record]:
        """Every current record of a kind in the readable channels, read in pages."""
        where = Where(kinds=(kind,), channels=tuple(channels or self.scope.readable()))
        out: list[Record] = []
        while len(out) < limit:
            page = await self.resources.log.find(self.scope, where, limit=min(1000, limit - len(out)), offset=len(out))
            out.extend(page)
            if len(page) < 1000:
                break
        return out

    async def must_exist(self, field: str, kind: str, ids: Sequence[str]) -> None:
        """Raise InvalidRecord naming the field unless every id is stored for this user."""
        found = {record.id for record in await self.resources.log.get(kind, ids, self.scope)} if ids else set()
        missing = [name for name in ids if name not in found]
        if missing:
            raise InvalidRecord(f"{field}: no {kind} {missing[0]!r} is stored; store it first", field=field)

    async def used(self, ids: Sequence[str], context_tags: Sequence[str] = ()) -> int:
        """Count a use of these records; returns how many were found in the readable channels."""
        keys: list[Key] = [record.key for name in ids for record in await self.any(name)]
        resources = self.resources
        await resources.log.touch(keys, self.scope, resources.ids.new(), used=True, at=resources.clock.now())
        row = resources.auditor.write(
            "observe_usage",
            self.scope,
            memory_type="semantic",
            count=len(keys),
            metadata={"tags": list(context_tags)[:20]},
        )
        if row is not None:
            await resources.log.audit([row])
        return len(keys)
