"""The projector: brings graph and vectors of all users up to the journal, where a writer was stopped before they were.

Users who have waited longest come first, and each gets a batch before the next one is served. One projector works at a
time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from agentmem.consolidation import JobOptions, JobReport
from agentmem.errors import LeaseLost, StoreError, StoreUnavailable
from agentmem.events import INFO, tell
from agentmem.model.clock import Stopwatch
from agentmem.model.scope import Operator, Scope
from agentmem.projections import BATCH, GraphProjection, GraphVectorProjection, VectorProjection
from agentmem.resources import Resources

Followers = GraphProjection | VectorProjection | GraphVectorProjection

OPERATOR = Operator("projector")
NAME = "project"
MINUTES = 1.0
TRIGGER = "clock"
LEASE = "projector"
LEASE_SECONDS = 30.0
USERS_AT_ONCE = 100
SIDE_BY_SIDE = 2  # users whose texts are embedded at the same time
LOOK_EVERY = 600.0  # seconds between comparisons of the graph itself with the journals
LONGEST_REST = 30.0
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class ProjectReport:
    """What one pass did: how many users caught up, changes parked in all, seconds, and why some are still behind."""

    users: int
    parked: int
    seconds: float
    waiting: tuple[str, ...] = ()


async def project(resources: Resources, progress: Progress | None = None) -> ProjectReport:
    """One pass over all users who lag. Raises LeaseLost while another projector works, ScopeError without the right.

    What cannot be applied now, because the graph or a model is away, waits for the next pass.
    """
    resources.check_open()
    watch, work = Stopwatch(resources.clock), _Pass(resources, progress or _silent)
    async with _leased(resources):
        await work.compare()
        await work.run()
    return ProjectReport(
        len(work.done), len(await resources.log.parked(OPERATOR)), watch.milliseconds() / 1000,
        tuple(dict.fromkeys(work.waiting)),
    )  # fmt: skip


async def run_for_all(resources: Resources, operator: Operator, options: JobOptions) -> JobReport:
    """The pass as a job. Nothing is left to do by itself where stores follow inline; a pass costs one look then."""
    report = JobReport(job=NAME, user_id="", dry_run=options.dry_run)
    if not options.dry_run:
        done = await project(resources, options.progress)
        report.counts, report.pending, report.notes = {"users": done.users}, len(done.waiting), [*done.waiting]
    return report


async def keep_projecting(
    resources: Resources, stop: asyncio.Event, beat: Callable[[], None], idle: float = 1.0
) -> None:
    """Pass after pass until `stop` is set, `idle` seconds apart and up to 30 s when a store is away.

    `beat` is called after each pass, for who watches. While another projector works, this one stands by.
    """
    rest, compared = idle, float("-inf")
    now = asyncio.get_running_loop().time
    while not stop.is_set():
        work = _Pass(resources, _silent)
        try:
            async with _leased(resources):
                if now() - compared > LOOK_EVERY:
                    await work.compare()
                    compared = now()
                await work.run()
        except LeaseLost:
            rest = LEASE_SECONDS / 3
        except StoreUnavailable:
            rest = min(2 * rest, LONGEST_REST)
        else:
            rest = min(2 * rest, LONGEST_REST) if work.waiting else idle
        if work.done or work.waiting:
            tell(INFO, "projected", users=len(work.done), waiting=list(dict.fromkeys(work.waiting)))
        beat()
        await _pause(stop, rest)


async def _pause(stop: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return


def _silent(what: str, done: int, total: int) -> None:
    """For callers who do not watch."""


@asynccontextmanager
async def _leased(resources: Resources) -> AsyncIterator[None]:
    """Work as the only projector. Raises LeaseLost when another one works."""
    owner = resources.ids.new()

    async def renew() -> bool:
        return await resources.log.lease(LEASE, LEASE_SECONDS, owner) is not None

    async def keep() -> None:
        while True:
            await asyncio.sleep(LEASE_SECONDS / 3)
            await renew()  # were it lost, watermarks keep two projectors from each other's way

    if not await renew():
        raise LeaseLost("another projector is at work")
    keeper = asyncio.ensure_future(keep())
    try:
        yield
    finally:
        keeper.cancel()
        await asyncio.gather(keeper, return_exceptions=True)
        await resources.log.release(LEASE, owner)


@dataclass
class _Pass:
    resources: Resources
    progress: Progress
    late: list[str] = field(default_factory=list)  # users whose nodes lack vectors, of those compared
    done: set[str] = field(default_factory=set)
    waiting: list[str] = field(default_factory=list)

    async def compare(self) -> None:
        """Find users whose graph lacks changes though the log was told otherwise, or was never told."""
        following = self.resources.following
        if following is None:
            return
        last = ""
        while heads := await self.resources.upkeep.heads(OPERATOR, after=last):
            last = max(heads)
            try:
                marks = await following.graph.watermarks(list(heads))
                behind = [user for user, seq in heads.items() if marks[user] < seq]
                await asyncio.gather(*(self._graph(following, user) for user in behind))
                if (nodes := following.vectors) is not None:
                    held = await nodes.nodes.watermarks(list(heads), nodes.name)
                    self.late += [user for user, seq in heads.items() if held[user][0] < seq]
            except StoreUnavailable as error:
                self.waiting.append(f"graph: {error}")
                return

    async def run(self) -> None:
        """Projection by projection, until nobody lags or nothing moves any more."""
        await self.resources.notice_embedder()
        if self.resources.following is not None:
            await self._each(self.resources.following)
        for projection in self.resources.vectors:
            await self._each(projection)
        nodes = None if self.resources.following is None else self.resources.following.vectors
        if nodes is not None:
            await self._each(nodes)
            for user in self.late:
                await self._one(nodes, user)

    async def _each(self, projection: Followers) -> None:
        stuck: set[str] = set()
        turn = asyncio.Semaphore(USERS_AT_ONCE if isinstance(projection, GraphProjection) else SIDE_BY_SIDE)
        while True:
            behind = await self.resources.log.behind(projection.name, OPERATOR, USERS_AT_ONCE + len(stuck))
            todo = [user for user in behind if user not in stuck]
            if not todo:
                return
            self.progress(projection.name, len(self.done), len(self.done) + len(todo))

            async def one(user: str) -> None:
                async with turn:
                    moved = await self._one(projection, user)
                    if not moved:
                        stuck.add(user)

            await asyncio.gather(*(one(user) for user in todo))
            if projection.resting():
                self.waiting.append(f"{projection.name}: {projection.last_error}")
                return

    async def _one(self, projection: Followers, user: str) -> bool:
        """Serve a user once; False when that changed nothing."""
        if isinstance(projection, GraphProjection):
            return await self._graph(projection, user)
        scope = Scope(user)
        if isinstance(projection, GraphVectorProjection):
            return await self._nodes(projection, scope)
        before = await projection.index.watermark(user)
        try:
            caught_up = await projection.follow(scope, most=BATCH)
        except StoreError as error:
            projection.last_error, caught_up = str(error), False
        if caught_up:
            self.done.add(user)
        elif projection.last_error:
            self.waiting.append(f"{projection.name}: {projection.last_error}")
        return caught_up or await projection.index.watermark(user) > before

    async def _nodes(self, nodes: GraphVectorProjection, scope: Scope) -> bool:
        caught_up = await nodes.follow(scope)
        if caught_up:
            self.done.add(scope.user_id)
        else:
            self.waiting.append(f"{nodes.name}: {nodes.last_error}")
        return caught_up

    async def _graph(self, following: GraphProjection, user: str) -> bool:
        caught_up = await following.follow(Scope(user))
        if caught_up:
            self.done.add(user)
            await following.note()
        else:
            self.waiting.append(f"graph: {following.last_error}")
        return caught_up
