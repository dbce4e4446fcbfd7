"""What is remembered, seen through one scope: episodic, semantic, working memory, profile, history and erasure."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace

from agentmem.errors import InvalidRecord, NotFound
from agentmem.model.changes import JournalEntry
from agentmem.model.clock import derived_id
from agentmem.model.records import KINDS, Key, R, Record
from agentmem.model.scope import Scope
from agentmem.resources import Resources
from agentmem.stores import Where

AT_ONCE = 500  # ids asked for in one go
PAGE = 1000  # records read in one go


@dataclass
class Seat:
    """Where the subsystems of one view sit: shared resources, and the scope they act in, which turns move on."""

    resources: Resources
    scope: Scope

    def conversation(self) -> str:
        """The conversation that goes on here; a new one begins when there is none."""
        if self.scope.conversation_id is None:
            self.scope = replace(self.scope, conversation_id=self.resources.ids.new())
        assert self.scope.conversation_id is not None
        return self.scope.conversation_id

    def begin(self, session_id: str) -> None:
        """Go on in another session, without a conversation yet."""
        self.scope = replace(self.scope, session_id=session_id, conversation_id=None)

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

    async def pages(self, where: Where) -> AsyncIterator[list[Record]]:
        """Current records that match, in any channel of the user unless `where` names some, by kind and id.

        No write between two pages makes one that stands all the while be missed, or come twice.
        """
        for kind in tuple(KINDS) if where.kinds is None else where.kinds:
            page, rest = list[Record](), replace(where, kinds=(kind,))
            while page := await self.resources.log.find(self.scope, rest, order="id", limit=PAGE):
                yield page
                if len(page) < PAGE:
                    break
                rest = replace(rest, after=page[-1].id)

    async def all(self, kind: str, *, channels: Sequence[str] | None = None) -> list[Record]:
        """Every current record of a kind in the readable channels, in order of `seq`."""
        where = Where(kinds=(kind,), channels=tuple(channels or self.scope.readable()))
        return sorted([record async for page in self.pages(where) for record in page], key=lambda record: record.seq)

    async def must_exist(self, field: str, kind: str, ids: Sequence[str]) -> dict[Key, int]:
        """Where these records stand, to be expected of them by a write.

        Raises InvalidRecord naming the field unless every id is stored in a channel that the scope may read.
        """
        readable = self.scope.readable()
        stored = await self.resources.log.get(kind, ids, self.scope) if ids else []
        found = {record.id: record for record in stored if record.channel in readable}
        missing = [name for name in ids if name not in found]
        if missing:
            raise InvalidRecord(f"{field}: no {kind} {missing[0]!r} is stored; store it first", field=field)
        return {record.key: record.seq for record in found.values()}

    async def used(self, ids: Sequence[str], context_tags: Sequence[str] = (), *, key: str | None = None) -> int:
        """Count a use of these records, once per `key`; returns how many were found in the readable channels.

        `context_tags` say what the conversation is about: a fact used in another field than its own becomes stronger.
        """
        for field, names in (("ids", ids), ("context_tags", context_tags)):
            if isinstance(names, str):
                raise InvalidRecord(f"{field} must be a list of strings, got a string", field=field)
        keys = await self._usable(list(dict.fromkeys(ids)))
        resources = self.resources
        use_id = resources.ids.new() if key is None else derived_id(self.scope.user_id, "observe_usage", key)
        tags = tuple(context_tags)
        await resources.log.touch(
            keys, self.scope, use_id, used=True, at=resources.clock.now(), context_tags=tags
        )  # fmt: skip
        row = resources.auditor.write(
            "observe_usage",
            self.scope,
            memory_type="semantic",
            count=len(keys),
            metadata={"tags": tags[:20]},
        )
        if row is not None:
            await resources.log.audit([row])
        return len(keys)

    async def _usable(self, ids: Sequence[str]) -> list[Key]:
        """The keys of the current records of these ids that the scope may read, in the order asked."""
        usable = tuple(kind for kind in KINDS if kind != "Gloss")  # a turn's bears the turn's id
        found: list[Key] = []
        for start in range(0, len(ids), AT_ONCE):
            some = tuple(ids[start : start + AT_ONCE])
            where = Where(kinds=usable, ids=some, channels=self.scope.readable())
            seen = await self.resources.log.find(self.scope, where, limit=len(some) * len(usable))
            place = {name: number for number, name in enumerate(some)}
            found += sorted((record.key for record in seen), key=lambda key: (place[key[1]], key[0]))
        return found


def first_of(entry: JournalEntry | None, cls: type[R]) -> R:
    """The first record of a class that a write put; NotFound when it was done before and the record erased since."""
    for stored in () if entry is None else entry.puts:
        if isinstance(stored.record, cls):
            return stored.record
    raise NotFound(f"this write was done before and its {cls.__name__} erased since")
