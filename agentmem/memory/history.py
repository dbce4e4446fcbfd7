"""The journal as a tool: what changed between two moments, and taking an operation back."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import count

from agentmem.errors import Conflict, InvalidRecord, NotFound
from agentmem.memory import Seat
from agentmem.memory.answers import Diff
from agentmem.memory.goal_graph import check_circles
from agentmem.model.changes import Change, JournalEntry, Write, fingerprint
from agentmem.model.clock import aware
from agentmem.model.records import Goal, Key, Record, Status
from agentmem.projections import BATCH
from agentmem.resources import RETRIES
from agentmem.stores import Where


@dataclass
class History:
    """Differences and undo."""

    seat: Seat

    async def diff(self, earlier: datetime, later: datetime) -> Diff:
        """Compare what was recorded at two moments; in either order it answers from `earlier` to `later`."""
        log, scope = self.seat.resources.log, self.seat.scope
        moments = sorted((aware(earlier, "earlier"), aware(later, "later")))
        first, last = [await log.seq_at(scope, moment) for moment in moments]
        keys: dict[Key, None] = {}
        after = first
        while after < last and (entries := await log.changes(scope, after, BATCH)):
            for entry in entries:
                if entry.seq <= last:
                    keys |= dict.fromkeys(keys_of(entry))
            after = entries[-1].seq
        before, now = [self._readable(await log.states(list(keys), scope, seq)) for seq in (first, last)]
        learned, retired, changed = [], [], []
        for key in keys:
            old, new = before.get(key), now.get(key)
            if new is not None and not _retired(new) and (old is None or _retired(old)):
                learned.append(new)
            elif old is not None and not _retired(old) and (new is None or _retired(new)):
                retired.append(old if new is None else new)
            elif old is not None and new is not None and old.seq != new.seq:
                changed.append((old, new))
        return Diff(tuple(learned), tuple(retired), tuple(changed))

    async def undo(self, operation_id: str, *, key: str | None = None) -> str:
        """Give every record the operation touched its state from before, and return the id of the undoing operation.

        Raises NotFound for an unknown operation, and Conflict where a later operation touched one of its records or
        where it erased: what is erased cannot come back.
        """
        attempts = count(1)

        async def make(write: Write) -> Change:
            return await self._undoing(write, operation_id, last=next(attempts) == RETRIES)

        try:
            entry = await self.seat.resources.write(
                self.seat.scope, "undo", make, kind="Fact", key=key, payload=fingerprint(operation_id=operation_id),
                details={"undone": operation_id},
            )  # fmt: skip
        except InvalidRecord as error:  # what comes back has lost its place to something newer
            raise Conflict(f"operation {operation_id!r} cannot be undone any more: {error}") from error
        assert entry is not None
        return entry.operation_id

    async def _undoing(self, write: Write, operation_id: str, *, last: bool) -> Change:
        """The Change that gives back what was before an operation."""
        log, scope = self.seat.resources.log, self.seat.scope
        head = (await log.head(scope)).seq
        entries = await log.operation(operation_id, scope)
        if any(gone.erased for entry in entries for gone in entry.gone):
            raise Conflict(f"operation {operation_id!r} erased records; erasure cannot be undone")
        touched = list(dict.fromkeys(key for entry in entries for key in keys_of(entry)))
        before = await log.states(touched, scope, entries[0].seq - 1) if entries else {}
        current = await log.states(touched, scope, entries[-1].seq) if entries else {}
        if not touched or self._hidden({**before, **current}.values()):
            raise NotFound(f"no operation {operation_id!r} in this scope that changed anything")
        keys = [key for key in touched if key in before or not await self._in_use(key, entries)]
        now = await log.states(keys, scope, head)
        for key in keys:  # changed and changed back is no change: operations can be undone one after the other
            if content(now.get(key)) != content(current.get(key)):
                raise Conflict(f"{key[0]} {key[1]!r} was changed by a later operation; undo that one first")
        goals = await check_circles(self.seat, [goal for goal in before.values() if isinstance(goal, Goal)])
        gone = [key for key in keys if key not in before and key in now]
        # A conversation goes because nobody else's turns are in it; the last attempt comes through beside anybody.
        alone = any(kind == "Conversation" for kind, _ in gone) and not last
        return write.change(
            *before.values(), retracts=gone, since={"Turn": head} if alone else {}, cause=operation_id,
            expects={**goals, **{key: now[key].seq if key in now else None for key in keys}},
        )  # fmt: skip

    def _readable(self, states: Mapping[Key, Record]) -> dict[Key, Record]:
        channels = self.seat.scope.readable()
        return {key: record for key, record in states.items() if record.channel in channels}

    def _hidden(self, records: Collection[Record]) -> bool:
        # Facts and relations are moved with their entities, in whatever channel they stand.
        merged = any(record.kind == "Entity" for record in records)
        asked = [record for record in records if not merged or record.kind not in ("Fact", "Edge")]
        return any(record.channel not in self.seat.scope.readable() for record in asked)

    async def _in_use(self, key: Key, entries: list[JournalEntry]) -> bool:
        # A conversation opened by this operation stays when others have turns in it, a tool when it was counted since.
        if key[0] == "Tool":
            versions = await self.seat.resources.log.versions(key, self.seat.scope)
            return any(version.seq > entries[-1].seq for version in versions)
        if key[0] != "Conversation":
            return False
        turns = [stored.record for entry in entries for stored in entry.puts if stored.record.kind == "Turn"]
        own = sum(turn.place()[0] == key[1] for turn in turns)
        where = Where(kinds=("Turn",), conversation_id=key[1])
        return await self.seat.resources.log.count(self.seat.scope, where) > own


def keys_of(entry: JournalEntry) -> list[Key]:
    """The records that a change put or took, by key."""
    return [stored.record.key for stored in entry.puts] + [(gone.kind, gone.id) for gone in entry.gone]


def content(record: Record | None) -> Record | None:
    """A record without what the log stamps anew on every write."""
    return None if record is None else record.model_copy(update={"seq": 0, "operation_id": "", "recorded_at": None})


def _retired(record: Record) -> bool:
    return record.superseded_at is not None or record.status in (Status.FORGOTTEN, Status.SUPERSEDED)
