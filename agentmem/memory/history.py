"""The journal as a tool: what changed between two moments, and taking an operation back."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import count

from agentmem.core.changes import Change, JournalEntry, WriteAttempt
from agentmem.core.clock import to_utc
from agentmem.core.record import Key, Record, Status
from agentmem.core.records import Goal
from agentmem.engine.engine import MAX_WRITE_ATTEMPTS
from agentmem.engine.vector_projection import CHANGE_BATCH_SIZE
from agentmem.errors import Conflict, InvalidRecord, NotFound
from agentmem.memory.context import Diff, MemoryContext
from agentmem.memory.goals import check_cycles
from agentmem.memory.semantic.revive_beliefs import join_restated
from agentmem.stores.values import Where


@dataclass
class History:
    """Differences and undo."""

    _context: MemoryContext

    async def diff(self, earlier: datetime, later: datetime) -> Diff:
        """Compare what was recorded at two moments; in either order it answers from `earlier` to `later`."""
        log, scope = self._context.engine.log, self._context.scope
        moments = sorted((to_utc(earlier, "earlier"), to_utc(later, "later")))
        first, last = [await log.seq_at_time(scope, moment) for moment in moments]
        keys: dict[Key, None] = {}
        after = first
        while after < last and (entries := await log.changes(scope, after, CHANGE_BATCH_SIZE)):
            for entry in entries:
                if entry.seq <= last:
                    keys |= dict.fromkeys(touched_keys(entry))
            after = entries[-1].seq
        before, now = [self._filter_readable(await log.snapshot_at(list(keys), scope, seq)) for seq in (first, last)]
        learned, retired, changed = [], [], []
        for key in keys:
            old, new = before.get(key), now.get(key)
            if new is not None and not _is_retired(new) and (old is None or _is_retired(old)):
                learned.append(new)
            elif old is not None and not _is_retired(old) and (new is None or _is_retired(new)):
                retired.append(old if new is None else new)
            elif old is not None and new is not None and old.seq != new.seq:
                changed.append((old, new))
        return Diff(tuple(learned), tuple(retired), tuple(changed))

    async def undo(self, operation_id: str, *, idempotency_key: str | None = None) -> str:
        """Give every record the operation touched its state from before, and return the id of the undoing operation.

        A fact that another current one says by now gives that one its sources instead of coming back. Raises NotFound
        for an unknown operation, and Conflict where a later operation touched one of its records or
        where it erased: what is erased cannot come back.
        """
        attempts = count(1)

        async def make(write: WriteAttempt) -> Change:
            return await self._build_undo_change(
                write, operation_id, is_last_attempt=next(attempts) == MAX_WRITE_ATTEMPTS
            )

        try:
            entry = await self._context.write_entry(
                "Fact", "undo", make, idempotency_key, {"operation_id": operation_id}, details={"undone": operation_id}
            )
        except InvalidRecord as error:  # what comes back has lost its place to something newer
            raise Conflict(f"operation {operation_id!r} cannot be undone any more: {error}") from error
        assert entry is not None
        return entry.operation_id

    async def _build_undo_change(self, write: WriteAttempt, operation_id: str, *, is_last_attempt: bool) -> Change:
        """The Change that gives back what was before an operation."""
        log, scope = self._context.engine.log, self._context.scope
        head = (await log.head(scope)).seq
        entries = await log.operation(operation_id, scope)
        if any(gone.erased for entry in entries for gone in entry.removals):
            raise Conflict(f"operation {operation_id!r} erased records; erasure cannot be undone")
        touched = list(dict.fromkeys(key for entry in entries for key in touched_keys(entry)))
        before = await log.snapshot_at(touched, scope, entries[0].seq - 1) if entries else {}
        current = await log.snapshot_at(touched, scope, entries[-1].seq) if entries else {}
        if not touched or self._has_hidden({**before, **current}.values()):
            raise NotFound(f"no operation {operation_id!r} in this scope that changed anything")
        keys = [key for key in touched if key in before or not await self._is_in_use(key, entries)]
        now = await log.snapshot_at(keys, scope, head)
        for key in keys:  # changed and changed back is not a change: operations can be undone one after the other
            if strip_log_fields(now.get(key)) != strip_log_fields(current.get(key)):
                raise Conflict(f"{key[0]} {key[1]!r} was changed by a later operation; undo that one first")
        goals = await check_cycles(self._context, [goal for goal in before.values() if isinstance(goal, Goal)])
        gone = [key for key in keys if key not in before and key in now]
        # A conversation is deleted if it has no turns of others; the last attempt succeeds beside any other write.
        alone = any(kind == "Conversation" for kind, _ in gone) and not is_last_attempt
        back = await join_restated(self._context, list(before.values()), {*keys, *gone})
        joined = {record.key: record.seq for record in back if record.key not in before}
        return write.build_change(
            *back,
            deletes=gone,
            no_new_since={"Turn": head} if alone else {},
            cause=operation_id,
            expected_versions={**goals, **joined, **{key: now[key].seq if key in now else None for key in keys}},
        )

    def _filter_readable(self, states: Mapping[Key, Record]) -> dict[Key, Record]:
        channels = self._context.scope.readable_channels()
        return {key: record for key, record in states.items() if record.channel in channels}

    def _has_hidden(self, records: Collection[Record]) -> bool:
        # Facts and relations move with their entities, in any channel.
        merged = any(record.kind == "Entity" for record in records)
        asked = [record for record in records if not merged or record.kind not in ("Fact", "Edge")]
        return any(record.channel not in self._context.scope.readable_channels() for record in asked)

    async def _is_in_use(self, key: Key, entries: list[JournalEntry]) -> bool:
        # A conversation opened by this operation stays when others have turns in it, a tool when it was counted since.
        if key[0] == "Tool":
            versions = await self._context.engine.log.versions(key, self._context.scope)
            return any(version.seq > entries[-1].seq for version in versions)
        if key[0] != "Conversation":
            return False
        turns = [stored.record for entry in entries for stored in entry.upserts if stored.record.kind == "Turn"]
        own = sum(turn.position_key()[0] == key[1] for turn in turns)
        where = Where(kinds=("Turn",), conversation_id=key[1])
        return await self._context.engine.log.count(self._context.scope, where) > own


def touched_keys(entry: JournalEntry) -> list[Key]:
    """The records that a change put or took, by key."""
    return [stored.record.key for stored in entry.upserts] + [(gone.kind, gone.id) for gone in entry.removals]


def strip_log_fields(record: Record | None) -> Record | None:
    """A record without the fields that the log sets on every write."""
    return None if record is None else record.model_copy(update={"seq": 0, "operation_id": "", "recorded_at": None})


def _is_retired(record: Record) -> bool:
    return record.superseded_at is not None or record.status in (Status.FORGOTTEN, Status.SUPERSEDED)
