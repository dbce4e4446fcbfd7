"""Keeps a graph outside of the log in step with it: applies the journal from a user's watermark on, after the writes.

One task of the process takes what all of its users have written, several users to a transaction, because a commit there
takes longer than one in the log. What it could not do, another process's projector does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace

from agentmem.core.changes import JournalEntry
from agentmem.core.clock import Clock
from agentmem.core.columns import RecordColumns
from agentmem.core.event_loop import Backoff, loop_time
from agentmem.core.outage import Outage
from agentmem.core.record import Key
from agentmem.core.scope import Scope
from agentmem.core.telemetry import WARNING, log_event
from agentmem.engine.graph_vectors import GraphVectorProjection
from agentmem.errors import AgentMemError, SchemaMismatch, StoreError, StoreUnavailable
from agentmem.stores.protocols import LogStore, ReplicatedGraph
from agentmem.stores.values import DeadLetter, GraphPosition

CHANGE_BATCH_SIZE = 500  # changes applied at once, of all users together
USERS_PER_TRANSACTION = 20  # in one transaction
MAX_TRACKED_USERS = 10_000  # that wait, and whose watermark is remembered
BACKOFF_SECONDS = 5.0  # seconds without tries after the graph was away
OPENING_SECONDS = 2.0  # for the first answer; what comes later is found out by the first write
MAX_ATTEMPTS = 3  # of one change, before it is parked
# changes of a user just written here that are kept until they are applied, to spare reading them
MAX_RECENT_ENTRIES = 20
HINT_INTERVAL_SECONDS = 1.0  # seconds between notes to the log of how far the graph is
REPAIR_SECONDS = 10.0  # that an opening or a recall waits for a repair, which goes on without them
REPAIRING_MESSAGE = "the graph followed another journal, before a backup of the log was restored; it is being made anew"

Waiters = list[asyncio.Future[bool]]
EntriesByUser = Mapping[str, tuple[int, Sequence[JournalEntry]]]
EraseAgain = Callable[[Scope], Awaitable[int]]
_repaired_user: ContextVar[str | None] = ContextVar("repaired_user", default=None)  # for whom a repair is at work here


@dataclass
class GraphProjection:
    """The graph's side of what this process writes; `sync` waits for a user, `notify` does not."""

    graph: ReplicatedGraph
    log: LogStore
    clock: Clock
    graph_vectors: GraphVectorProjection | None = None  # what comes after it
    # erases in a restored log what the graph knows as erased; returns how many records that were
    erase_again: EraseAgain | None = None
    last_error: str = ""
    notices: list[str] = field(default_factory=list)  # where it says that somebody has to act before it can follow
    _queue: dict[str, Waiters] = field(default_factory=dict)  # users with something to apply, and who waits for it
    # the end of what they lack, without a gap
    _recent_entries: dict[str, list[JournalEntry]] = field(default_factory=dict)
    _target_seqs: dict[str, int] = field(default_factory=dict)  # of those not yet there: where the log was
    _local_positions: dict[str, GraphPosition] = field(default_factory=dict)
    _repairs: dict[str, tuple[asyncio.Task[None], Waiters]] = field(default_factory=dict)
    _watermark_hints: dict[str, int] = field(default_factory=dict)
    _attempts: dict[tuple[str, int], int] = field(default_factory=dict)
    _backoff: Backoff = field(default_factory=Backoff)
    _hints_written_at: float = float("-inf")
    _closing: bool = False
    _task: asyncio.Task[None] | None = None
    _wake_event: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._outage = Outage(self.name, "Memory is complete, but the graph does not follow", self.notices)

    @property
    def name(self) -> str:
        """The projection's name in watermarks and lag."""
        return "graph"

    async def verify(self, scope: Scope) -> None:
        """Find out whether the graph can be used, and followed this log's journal of the user.

        When it cannot, the log or `notices` say so; nothing is raised. After a backup of the log was restored, this
        waits for a moment until what was erased since is erased again.
        """
        user = scope.user_id
        try:
            async with asyncio.timeout(OPENING_SECONDS):
                position = (await self.graph.positions([user]))[user]
                is_right = await self._read_entries(user, position, 1) is not None
            if is_right:
                self._local_positions[user] = position
            else:
                await asyncio.wait({self._start_repair(user, position, [])}, timeout=REPAIR_SECONDS)
        except TimeoutError:
            self._note_outage(StoreUnavailable(f"the graph did not answer within {OPENING_SECONDS:g} s"))
        except StoreError as error:
            self._note_outage(error)

    def _note_outage(self, error: StoreError) -> None:
        self.last_error = str(error)
        self._outage.begin(error)

    def catch_up(self, scope: Scope, columns: RecordColumns) -> None:
        """Follow in the background where a process that ended, or another one, left the graph behind the columns."""
        known = self._local_positions.get(scope.user_id)  # what the log was told of it may come from a restored backup
        if known is None or known.seq != columns.seq:
            self._enqueue(scope.user_id)

    def is_backing_off(self) -> bool:
        """Whether the graph was away a moment ago and is left alone."""
        return self._backoff.is_active(BACKOFF_SECONDS)

    def reset_backoff(self) -> None:
        """Try again at once, however lately the graph was away."""
        self._backoff.reset()
        self._wake_event.set()

    def notify(self, scope: Scope, entries: Sequence[JournalEntry] = ()) -> None:
        """Something was written for this user: follow in the background. `entries` are what was written."""
        user, held = scope.user_id, self._recent_entries.pop(scope.user_id, [])
        fresh = list({entry.seq: entry for entry in entries if not entry.already_applied}.values())
        if fresh and held and held[-1].seq + 1 == fresh[0].seq:
            fresh = held + fresh
        if fresh and len(fresh) <= MAX_RECENT_ENTRIES and not self.is_backing_off():
            self._recent_entries[user] = fresh
        self._enqueue(user)

    def _enqueue(self, user: str) -> Waiters:
        waiting = self._queue.setdefault(user, [])
        while len(self._queue) > MAX_TRACKED_USERS:  # the log knows that they are behind
            first = next(iter(self._queue))
            self._recent_entries.pop(first, None)
            _resolve_waiters(self._queue.pop(first), done=False)
        self._wake_event.set()
        if not self._closing and (self._task is None or self._task.done()):
            self._task = asyncio.ensure_future(self._run())
        return waiting

    async def sync(self, scope: Scope) -> bool:
        """Follow the user's journal as it is now; False when the graph is away, or somebody is rebuilding it."""
        if _repaired_user.get() == scope.user_id:  # whoever repairs it cannot wait for the repair
            return False
        waiting = self._enqueue(scope.user_id)
        if self._closing or self.is_backing_off():
            return False
        future = asyncio.get_running_loop().create_future()
        waiting.append(future)
        return bool(await future)

    async def sync_fully(self, scope: Scope) -> bool:
        """Follow until nothing is left, without a rest between the tries of a change; False when the graph is away."""
        before: tuple[int, int] | None = None
        while True:
            self.reset_backoff()
            if await self.sync(scope):
                return True
            tries = sum(tries for (user_id, _), tries in self._attempts.items() if user_id == scope.user_id)
            standing = await self.watermark(scope.user_id), tries
            if standing == before:
                return False
            before = standing

    async def watermark(self, user_id: str) -> int:
        """The graph's own; while it cannot be used, what this process knows of it."""
        with suppress(StoreUnavailable):
            return await self.graph.watermark(user_id)
        return self._local_positions.get(user_id, GraphPosition(0)).seq

    async def erase(self, scope: Scope, keys: Sequence[Key] | None) -> int:
        """Take records that the log has erased out at once, None for all of the user; how many are there afterwards.

        Raises StoreUnavailable when the graph is away; they leave it with the journal then.
        """
        await self.graph.erase(scope, keys)
        self.forget_watermark(scope.user_id)
        if not await self.sync(scope):
            raise StoreUnavailable(self.last_error or "the graph is away")
        return await self.graph.count_present(scope, keys)

    def forget_watermark(self, user_id: str) -> None:
        """The user's graph was cleared, rebuilt or erased: look again where it stands."""
        self._local_positions.pop(user_id, None)
        self._watermark_hints.pop(user_id, None)
        self._recent_entries.pop(user_id, None)

    def reset_after_fork(self) -> None:
        """Forget what belongs to the loop of another process."""
        self._task, self._wake_event = None, asyncio.Event()
        self._queue.clear()
        self._repairs.clear()
        self._recent_entries.clear()
        if self.graph_vectors is not None:
            self.graph_vectors.reset_after_fork()

    async def close(self, timeout_seconds: float | None) -> None:
        """Finish what is wanted when the graph is well, for at most so long, and note how far it came."""
        self._closing = True
        self._wake_event.set()
        if self._task is not None:
            if self.is_backing_off():
                self._task.cancel()
            _, late = await asyncio.wait({self._task}, timeout=timeout_seconds)
            for task in late:
                task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for repair, _ in list(self._repairs.values()):  # whoever looks next begins it again
            repair.cancel()
            await asyncio.gather(repair, return_exceptions=True)
        for waiting in self._queue.values():
            _resolve_waiters(waiting, done=False)
        await self.write_watermark_hints()
        if self.graph_vectors is not None:
            await self.graph_vectors.close(timeout_seconds)
        await self.graph.close()

    # -- the background task

    async def _run(self) -> None:
        while self._queue or (self._watermark_hints and not self._closing):
            self._wake_event.clear()
            if self._queue and not self.is_backing_off():
                await self._sync_users(list(self._queue)[:USERS_PER_TRANSACTION])
            elif self._closing:
                return
            else:
                await self._pause(BACKOFF_SECONDS if self._queue else HINT_INTERVAL_SECONDS)
            if loop_time() - self._hints_written_at >= HINT_INTERVAL_SECONDS:
                await self.write_watermark_hints()

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake_event.wait()

    async def _sync_users(self, users: Sequence[str]) -> None:
        """One transaction for these users. Who asks for one of them meanwhile has to wait for the next."""
        asked = {user: self._queue.pop(user) for user in users}
        for user in [user for user in asked if user in self._repairs]:
            self._repairs[user][1].extend(asked.pop(user))
        if not asked:
            return
        try:
            left = await self._sync_batch(asked)
        except BaseException as error:
            for user, waiting in asked.items():
                _resolve_waiters(waiting, done=False)
                self._queue.setdefault(user, [])
                self._target_seqs.pop(user, None)
            if not isinstance(error, StoreError):
                raise
            self._recent_entries.clear()  # until the graph is back, some of it may be erased
            self._note_outage(error)
            self._backoff.start()
        else:
            self._outage.end()
            for user in left:
                if user in self._queue:  # who asks now means the log as it is now
                    self._target_seqs.pop(user, None)
                self._queue[user] = asked[user] + self._queue.pop(user, [])

    async def _sync_batch(self, waiters_by_user: Mapping[str, Waiters]) -> list[str]:
        """Apply some of what these users lack; returns those who lack more."""
        given = {
            user: recent
            for user, waiting in waiters_by_user.items()
            if (recent := self._take_recent_entries(user, waiting))
        }
        share = max(1, CHANGE_BATCH_SIZE // len(waiters_by_user))
        todo = await self._read_missing(waiters_by_user, given, share)
        marks = await self._apply(todo) if todo else {}
        left = []
        for user, (after, entries) in todo.items():
            mark = marks[user]
            if mark == entries[-1].seq:
                self._local_positions[user] = GraphPosition(mark, entries[-1].operation_id)
            else:  # a part of it, or what another process did
                self._local_positions.pop(user, None)
            target = self._target_seqs.pop(user, None) or (entries[-1].seq if len(entries) < share else None)
            if user in given:  # a graph that stands elsewhere is looked at against the log
                target = entries[-1].seq if mark <= entries[-1].seq else None
            if mark == after:
                self.last_error = "the graph is being rebuilt"  # by somebody who follows to the end then
                self.forget_watermark(user)
                _resolve_waiters(waiters_by_user[user], done=False)
            elif target is not None and mark >= target:
                self._watermark_hints[user] = mark
                _resolve_waiters(waiters_by_user[user], done=True)
                if self.graph_vectors is not None:
                    self.graph_vectors.notify(user)
            else:  # there is more, or another process was first with a part of it and will be so again
                left.append(user)
                if target is not None:
                    self._target_seqs[user] = target
        if len(self._local_positions) > MAX_TRACKED_USERS:
            self._local_positions.clear()
        return left

    async def _read_missing(
        self, waiters_by_user: Mapping[str, Waiters], given: Mapping[str, list[JournalEntry]], limit: int
    ) -> dict[str, tuple[int, Sequence[JournalEntry]]]:
        """What to apply after which watermark, up to `limit` changes a user; who lacks nothing is done with that."""
        # After an outage it may be another graph; and only who was asked is back.
        trusted = {} if self._outage else self._local_positions
        if unknown := [user for user in waiters_by_user if user not in trusted and user not in given]:
            self._local_positions |= await self.graph.positions(unknown)
        todo: dict[str, tuple[int, Sequence[JournalEntry]]] = {}
        for user, waiting in waiters_by_user.items():
            position = self._local_positions.get(user, GraphPosition(0))
            read = given.get(user) or await self._read_entries(user, position, limit)
            if read is None:
                self._start_repair(user, position, waiting)
            elif read:
                todo[user] = (position.seq, read)
            else:
                self._finish(user, position, waiting)
        return todo

    def _take_recent_entries(self, user: str, waiters: Waiters) -> list[JournalEntry]:
        """What is at hand of the user's changes, where it is what comes next; who waits means the log as it is."""
        entries = self._recent_entries.pop(user, [])
        known = self._local_positions.get(user, GraphPosition(0))
        return entries if entries and not waiters and known.seq == entries[0].seq - 1 else []

    async def _read_entries(self, user: str, position: GraphPosition, limit: int) -> list[JournalEntry] | None:
        """What the journal holds after a position; None where it is not the journal that the graph followed so far."""
        if position.seq == 0:
            return await self.log.changes(Scope(user), 0, limit)
        found = await self.log.changes(Scope(user), position.seq - 1, limit + 1)
        at_end = found[0].operation_id if found and found[0].seq == position.seq else None
        if not position.is_of(at_end):
            return None
        if len(found) == 1 and not position.operation_id:  # a graph of an older version learns whose journal it is
            await self.graph.apply({user: (position.seq, ())}, {user: found[0].operation_id})
        return found[1:]

    def _finish(self, user: str, position: GraphPosition, waiters: Waiters) -> None:
        """Nothing is left to apply."""
        self._watermark_hints[user] = position.seq
        self._target_seqs.pop(user, None)
        _resolve_waiters(waiters, done=True)

    # -- after a backup of the log was restored

    def _start_repair(self, user: str, position: GraphPosition, waiters: Waiters) -> asyncio.Task[None]:
        """Make the user's graph from the log as it is; who waits is told once it has followed to the end."""
        if user not in self._repairs:
            self.last_error = REPAIRING_MESSAGE
            self._target_seqs.pop(user, None)
            self.forget_watermark(user)
            self._repairs[user] = (asyncio.ensure_future(self._repair(user, position)), [])
        task, waiting = self._repairs[user]
        waiting.extend(waiters)
        return task

    async def _repair(self, user: str, position: GraphPosition) -> None:
        """Erase again what was erased since the backup, and rebuild after that: so one that is cut off begins again."""
        _repaired_user.set(user)
        is_done = False
        try:
            if (await self.graph.positions([user]))[user] == position:  # else another process did it
                erased = await self.erase_again(Scope(user)) if self.erase_again is not None else 0
                await self.graph.rebuild(Scope(user))
                log_event(WARNING, "graph_rebuilt", user_id=user, through_seq=position.seq, erased_again=erased)
            is_done = True
        except AgentMemError as error:  # tried again by the next look, as after any outage
            self.last_error = f"{REPAIRING_MESSAGE}: {error}"
            log_event(WARNING, "graph_not_rebuilt", user_id=user, error=str(error))
        finally:
            _, waiting = self._repairs.pop(user)
            self.forget_watermark(user)
            if is_done and not self._closing:
                self._enqueue(user).extend(waiting)
            else:
                _resolve_waiters(waiting, done=False)

    async def _apply(self, batches: EntriesByUser) -> dict[str, int]:
        """The watermarks after it. A change that the graph will never take is found by halving, and parked."""
        try:
            return await self._apply_after_known(batches)
        except SchemaMismatch:
            raise
        except StoreError as error:
            # Nothing but watermarks: when that cannot be written either, it is not for what was to be written.
            await self._apply_after_known({user: (after, ()) for user, (after, _) in batches.items()})
            if len(batches) > 1:
                return {
                    user: mark for user, one in batches.items() for mark in (await self._apply({user: one})).values()
                }
            ((user, (after, entries)),) = batches.items()
            if len(entries) == 1:
                await self._record_failure(user, entries[0], error)
                return await self._apply_after_known({user: (after, [replace(entries[0], upserts=(), removals=())])})
            half = len(entries) // 2
            marks = await self._apply({user: (after, entries[:half])})
            if marks[user] != entries[half - 1].seq:
                return marks
            self._local_positions[user] = GraphPosition(marks[user], entries[half - 1].operation_id)
            return await self._apply({user: (marks[user], entries[half:])})

    async def _apply_after_known(self, batches: EntriesByUser) -> dict[str, int]:
        known = {user: self._local_positions.get(user, GraphPosition(0)).operation_id for user in batches}
        return await self.graph.apply(batches, known)

    async def _record_failure(self, user: str, entry: JournalEntry, error: StoreError) -> None:
        """Raises until the change was tried often enough; then it is noted as passed over."""
        key = (user, entry.seq)
        self._attempts[key] = attempts = self._attempts.get(key, 0) + 1
        if attempts < MAX_ATTEMPTS:
            raise error
        del self._attempts[key]
        log_event(WARNING, "change_parked", projection=self.name, user_id=user, seq=entry.seq)
        self.last_error = str(error)
        await self.log.write_dead_letter(DeadLetter(self.name, user, entry.seq, str(error), attempts, self.clock.now()))

    async def write_watermark_hints(self) -> None:
        """Tell the log how far the graph is, as a hint of who is behind."""
        self._hints_written_at = loop_time()
        if self._watermark_hints:
            marks, self._watermark_hints = self._watermark_hints, {}
            with suppress(StoreError):  # only a hint; the projector looks for itself
                await self.log.write_watermark_hints(self.name, marks)


def _resolve_waiters(waiters: Waiters, *, done: bool) -> None:
    for future in waiters:
        if not future.done():
            future.set_result(done)
