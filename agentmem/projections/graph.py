"""Keeps a graph outside of the log in step with it: applies the journal from a user's watermark on, after the writes.

One task of the process takes what all of its users have written, several users to a transaction, because a commit there
takes longer than one in the log. What it could not do, another process's projector does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from agentmem.errors import SchemaMismatch, StoreError, StoreUnavailable
from agentmem.events import WARNING, tell
from agentmem.model.changes import JournalEntry
from agentmem.model.clock import Clock
from agentmem.model.outline import Outline
from agentmem.model.records import Key
from agentmem.model.scope import Scope
from agentmem.projections.graph_vectors import GraphVectorProjection
from agentmem.stores import FollowingGraph, LogStore, Parked

BATCH = 500  # changes applied at once, of all users together
USERS = 20  # in one transaction
USERS_KNOWN = 10_000  # that wait, and whose watermark is remembered
REST = 5.0  # seconds without tries after the graph was away
TRIES = 3  # of one change, before it is parked
AT_HAND = 20  # changes of a user just written here that are kept until they are applied, to spare reading them
HINTS_EVERY = 1.0  # seconds between notes to the log of how far the graph is
DOUBT = 5.0  # seconds until what the log noted of a graph is compared with the graph
AHEAD = "the graph is ahead of the log, which was restored from an earlier backup; run: agentmem rebuild --what graph"

Waiting = list[asyncio.Future[bool]]
Batches = Mapping[str, tuple[int, Sequence[JournalEntry]]]


@dataclass
class GraphProjection:
    """The graph's side of what this process writes; `follow` waits for a user, `nudge` does not."""

    graph: FollowingGraph
    log: LogStore
    clock: Clock
    vectors: GraphVectorProjection | None = None  # what comes after it
    last_error: str = ""
    _wanted: dict[str, Waiting] = field(default_factory=dict)  # users with something to apply, and who waits for it
    _at_hand: dict[str, list[JournalEntry]] = field(default_factory=dict)  # the end of what they lack, without a gap
    _targets: dict[str, int] = field(default_factory=dict)  # of those not yet there: where the log was
    _reached: dict[str, int] = field(default_factory=dict)
    _hints: dict[str, int] = field(default_factory=dict)
    _attempts: dict[tuple[str, int], int] = field(default_factory=dict)
    _doubted: set[str] = field(default_factory=set)  # users whose graph is taken to be where the log noted it
    _failed_at: float = float("-inf")
    _noted_at: float = float("-inf")
    _closing: bool = False
    _task: asyncio.Task[None] | None = None
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def name(self) -> str:
        """The projection's name in watermarks and lag."""
        return "graph"

    def has(self, scope: Scope, seq: int) -> bool:
        """Whether this process knows that the graph is at this journal position of the user."""
        return self._reached.get(scope.user_id, -1) == seq

    def lacks(self, scope: Scope, outline: Outline) -> bool:
        """Whether the graph has to be asked before it can be trusted to be where an outline is."""
        if self.has(scope, outline.seq):
            return False
        if outline.marks.get(self.name) != outline.seq:
            return True
        # The log noted that it was there. Whether it has lost that since is looked at soon, for many users in one go.
        if not self._doubted:
            asyncio.get_running_loop().call_later(DOUBT, self._look_again)
        self._doubted.add(scope.user_id)
        return False

    def _look_again(self) -> None:
        doubted, self._doubted = self._doubted, set()
        for user in doubted if not self._closing else ():
            self._want(user)

    def resting(self) -> bool:
        """Whether the graph was away a moment ago and is left alone."""
        return _now() - self._failed_at < REST

    def wake(self) -> None:
        """Try again at once, however lately the graph was away."""
        self._failed_at = float("-inf")
        self._news.set()

    def nudge(self, scope: Scope, entries: Sequence[JournalEntry] = ()) -> None:
        """Something was written for this user: follow in the background. `entries` are what was written."""
        user, held = scope.user_id, self._at_hand.pop(scope.user_id, [])
        fresh = list({entry.seq: entry for entry in entries if not entry.repeated}.values())
        if fresh and held and held[-1].seq + 1 == fresh[0].seq:
            fresh = held + fresh
        if fresh and len(fresh) <= AT_HAND and not self.resting():
            self._at_hand[user] = fresh
        self._want(user)

    def _want(self, user: str) -> Waiting:
        waiting = self._wanted.setdefault(user, [])
        while len(self._wanted) > USERS_KNOWN:  # the log knows that they are behind
            first = next(iter(self._wanted))
            self._at_hand.pop(first, None)
            _answer(self._wanted.pop(first), done=False)
        self._news.set()
        if not self._closing and (self._task is None or self._task.done()):
            self._task = asyncio.ensure_future(self._drain())
        return waiting

    async def follow(self, scope: Scope) -> bool:
        """Follow the user's journal as it is now; False when the graph is away, or somebody is rebuilding it."""
        waiting = self._want(scope.user_id)
        if self._closing or self.resting():
            return False
        future = asyncio.get_running_loop().create_future()
        waiting.append(future)
        return bool(await future)

    async def follow_to_end(self, scope: Scope) -> bool:
        """Follow until nothing is left, without a rest between the tries of a change; False when the graph is away."""
        before: tuple[int, int] | None = None
        while True:
            self.wake()
            if await self.follow(scope):
                return True
            tries = sum(tries for (user_id, _), tries in self._attempts.items() if user_id == scope.user_id)
            standing = await self.watermark(scope.user_id), tries
            if standing == before:
                return False
            before = standing

    async def watermark(self, user_id: str) -> int:
        """The graph's own; while it is away, what this process knows of it."""
        with suppress(StoreUnavailable):
            return await self.graph.watermark(user_id)
        return self._reached.get(user_id, 0)

    async def erase(self, scope: Scope, keys: Sequence[Key] | None) -> int:
        """Take records that the log has erased out at once, None for all of the user; how many are there afterwards.

        Raises StoreUnavailable when the graph is away; they leave it with the journal then.
        """
        await self.graph.erase(scope, keys)
        self.forget(scope.user_id)
        if not await self.follow(scope):
            raise StoreUnavailable(self.last_error or "the graph is away")
        return await self.graph.holding(scope, keys)

    def forget(self, user_id: str) -> None:
        """The user's graph was cleared, rebuilt or erased: look again where it stands."""
        self._reached.pop(user_id, None)
        self._hints.pop(user_id, None)
        self._at_hand.pop(user_id, None)

    def after_fork(self) -> None:
        """Forget what belongs to the loop of another process."""
        self._task, self._news = None, asyncio.Event()
        self._wanted.clear()
        self._at_hand.clear()
        self._doubted.clear()
        if self.vectors is not None:
            self.vectors.after_fork()

    async def close(self, seconds: float | None) -> None:
        """Finish what is wanted when the graph is well, for at most so long, and note how far it came."""
        self._closing = True
        self._news.set()
        if self._task is not None:
            if self.resting():
                self._task.cancel()
            _, late = await asyncio.wait({self._task}, timeout=seconds)
            for task in late:
                task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for waiting in self._wanted.values():
            _answer(waiting, done=False)
        await self.note()
        if self.vectors is not None:
            await self.vectors.close(seconds)
        await self.graph.close()

    # -- the background task

    async def _drain(self) -> None:
        while self._wanted or (self._hints and not self._closing):
            self._news.clear()
            if self._wanted and not self.resting():
                await self._try(list(self._wanted)[:USERS])
            elif self._closing:
                return
            else:
                await self._pause(REST if self._wanted else HINTS_EVERY)
            if _now() - self._noted_at >= HINTS_EVERY:
                await self.note()

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()

    async def _try(self, users: Sequence[str]) -> None:
        """One transaction for these users. Who asks for one of them meanwhile has to wait for the next."""
        asked = {user: self._wanted.pop(user) for user in users}
        try:
            left = await self._round(asked)
        except BaseException as error:
            for user, waiting in asked.items():
                _answer(waiting, done=False)
                self._wanted.setdefault(user, [])
                self._targets.pop(user, None)
            if not isinstance(error, StoreError):
                raise
            self._at_hand.clear()  # until the graph is back, some of it may be erased
            tell(WARNING, "graph_away", users=len(users), error=str(error))
            self.last_error, self._failed_at = str(error), _now()
        else:
            for user in left:
                if user in self._wanted:  # who asks now means the log as it is now
                    self._targets.pop(user, None)
                self._wanted[user] = asked[user] + self._wanted.pop(user, [])

    async def _round(self, asked: Mapping[str, Waiting]) -> list[str]:
        """Apply some of what these users lack; returns those who lack more."""
        given = {user: entries for user, waiting in asked.items() if (entries := self._given(user, waiting))}
        if unknown := [user for user in asked if user not in self._reached and user not in given]:
            self._reached |= await self.graph.watermarks(unknown)
        share, todo = max(1, BATCH // len(asked)), {}
        for user, waiting in asked.items():
            after = given[user][0].seq - 1 if user in given else self._reached[user]
            if entries := given.get(user) or await self.log.changes(Scope(user), after, share):
                todo[user] = (after, entries)
            else:
                await self._finish(user, after, waiting)
        marks = await self._apply(todo) if todo else {}
        left = []
        for user, (after, entries) in todo.items():
            mark = self._reached[user] = marks[user]
            target = self._targets.pop(user, None) or (entries[-1].seq if len(entries) < share else None)
            if user in given:  # a graph that stands elsewhere is looked at against the log
                target = entries[-1].seq if mark <= entries[-1].seq else None
            if mark == after:
                self.last_error = "the graph is being rebuilt"  # by somebody who follows to the end then
                self.forget(user)
                _answer(asked[user], done=False)
            elif target is not None and mark >= target:
                self._hints[user] = mark
                _answer(asked[user], done=True)
                if self.vectors is not None:
                    self.vectors.nudge(user)
            else:  # there is more, or another process was first with a part of it and will be so again
                left.append(user)
                if target is not None:
                    self._targets[user] = target
        if len(self._reached) > USERS_KNOWN:
            self._reached.clear()
        return left

    def _given(self, user: str, waiting: Waiting) -> list[JournalEntry]:
        """What is at hand of the user's changes, where it may be what comes next; who waits means the log as it is."""
        entries = self._at_hand.pop(user, [])
        known = self._reached.get(user)
        return entries if entries and not waiting and known in (None, entries[0].seq - 1) else []

    async def _finish(self, user: str, after: int, waiting: Waiting) -> None:
        """Nothing is left to apply, unless the graph is where the log has never been."""
        ahead = after > (await self.log.head(Scope(user))).seq
        if ahead:
            self.last_error = AHEAD
            self.forget(user)
        else:
            self._hints[user] = after
        self._targets.pop(user, None)
        _answer(waiting, done=not ahead)

    async def _apply(self, todo: Batches) -> dict[str, int]:
        """The watermarks after it. A change that the graph will never take is found by halving, and parked."""
        try:
            return await self.graph.apply(todo)
        except SchemaMismatch:
            raise
        except StoreError as error:
            # Nothing but watermarks: when that cannot be written either, it is not for what was to be written.
            await self.graph.apply({user: (after, ()) for user, (after, _) in todo.items()})
            if len(todo) > 1:
                return {user: mark for user, one in todo.items() for mark in (await self._apply({user: one})).values()}
            ((user, (after, entries)),) = todo.items()
            if len(entries) == 1:
                await self._give_up(user, entries[0], error)
                return await self.graph.apply({user: (after, [replace(entries[0], puts=(), gone=())])})
            half = len(entries) // 2
            marks = await self._apply({user: (after, entries[:half])})
            if marks[user] != entries[half - 1].seq:
                return marks
            return await self._apply({user: (marks[user], entries[half:])})

    async def _give_up(self, user: str, entry: JournalEntry, error: StoreError) -> None:
        """Raises until the change was tried often enough; then it is noted as passed over."""
        key = (user, entry.seq)
        self._attempts[key] = attempts = self._attempts.get(key, 0) + 1
        if attempts < TRIES:
            raise error
        del self._attempts[key]
        tell(WARNING, "change_parked", projection=self.name, user_id=user, seq=entry.seq)
        self.last_error = str(error)
        await self.log.park(Parked(self.name, user, entry.seq, str(error), attempts, self.clock.now()))

    async def note(self) -> None:
        """Tell the log how far the graph is, as a hint of who is behind."""
        self._noted_at = _now()
        if self._hints:
            marks, self._hints = self._hints, {}
            with suppress(StoreError):  # only a hint; the projector looks for itself
                await self.log.note_reached(self.name, marks)


def _now() -> float:
    """Seconds on the loop's own clock, which never goes back."""
    return asyncio.get_running_loop().time()


def _answer(waiting: Waiting, *, done: bool) -> None:
    for future in waiting:
        if not future.done():
            future.set_result(done)
