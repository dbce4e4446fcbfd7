"""The projector: brings graph and vectors of all users up to the journal, where a writer was stopped before they were.

Users who have waited longest come first, and each gets a batch before the next one is served. One projector works at a
time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from agentmem.core.clock import Stopwatch
from agentmem.core.scope import Operator, Scope
from agentmem.core.telemetry import INFO, ProgressCallback, log_event, no_progress
from agentmem.engine.engine import Engine
from agentmem.engine.graph_projection import GraphProjection
from agentmem.engine.graph_vectors import GraphVectorProjection
from agentmem.engine.vector_projection import CHANGE_BATCH_SIZE, VectorProjection
from agentmem.errors import LeaseLost, StoreError, StoreUnavailable
from agentmem.jobs.job import Job, JobOptions, JobReport
from agentmem.jobs.runner import LEASE_SECONDS, hold_lease

AnyProjection = GraphProjection | VectorProjection | GraphVectorProjection

OPERATOR = Operator("projector")
NAME = "project"
LEASE_NAME = "projector"
USER_BATCH_SIZE = 100
MAX_CONCURRENT_USERS = 2  # users whose texts are embedded at the same time
COMPARE_INTERVAL_SECONDS = 600.0  # seconds between comparisons of the graph itself with the journals
MAX_BACKOFF_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class SyncReport:
    """What one pass did: how many users caught up, changes parked in all, seconds, and why some are still behind."""

    users: int
    parked: int
    seconds: float
    lag_reasons: tuple[str, ...] = ()


async def sync_projections(engine: Engine, progress: ProgressCallback | None = None) -> SyncReport:
    """One pass over all users who lag. Raises LeaseLost while another projector works, ScopeError without the right.

    What cannot be applied now, because the graph or a model is away, waits for the next pass.
    """
    engine.check_open()
    watch, work = Stopwatch(engine.clock), _SyncPass(engine, progress or no_progress)
    async with hold_lease(engine, LEASE_NAME, "graph and vectors"):
        await work.compare_watermarks()
        await work.run()
    return SyncReport(
        len(work.synced_users),
        len(await engine.log.dead_letters(OPERATOR)),
        watch.milliseconds() / 1000,
        tuple(dict.fromkeys(work.lag_reasons)),
    )


async def run_for_all(engine: Engine, operator: Operator, options: JobOptions) -> JobReport:
    """The pass as a job. Nothing is left to do by itself where stores follow inline; a pass costs one look then."""
    report = JobReport(job=NAME, user_id="", dry_run=options.dry_run)
    if not options.dry_run:
        done = await sync_projections(engine, options.progress)
        report.counts, report.pending, report.notes = {"users": done.users}, len(done.lag_reasons), [*done.lag_reasons]
    return report


JOB = Job(NAME, 1.0, "clock", run_for_all=run_for_all)


async def sync_until_stopped(
    engine: Engine, stop: asyncio.Event, on_pass: Callable[[], None], idle_seconds: float = 1.0
) -> None:
    """Pass after pass until `stop` is set, `idle_seconds` seconds apart and up to 30 s when a store is away.

    `on_pass` is called after each pass, for who watches. While another projector works, this one stands by.
    """
    rest, compared = idle_seconds, float("-inf")
    now = asyncio.get_running_loop().time
    while not stop.is_set():
        work = _SyncPass(engine, no_progress)
        try:
            async with hold_lease(engine, LEASE_NAME, "graph and vectors"):
                if now() - compared > COMPARE_INTERVAL_SECONDS:
                    await work.compare_watermarks()
                    compared = now()
                await work.run()
        except LeaseLost:
            rest = LEASE_SECONDS / 3
        except StoreUnavailable:
            rest = min(2 * rest, MAX_BACKOFF_SECONDS)
        else:
            rest = min(2 * rest, MAX_BACKOFF_SECONDS) if work.lag_reasons else idle_seconds
        if work.synced_users or work.lag_reasons:
            log_event(INFO, "projected", users=len(work.synced_users), waiting=list(dict.fromkeys(work.lag_reasons)))
        on_pass()
        await _pause(stop, rest)


async def _pause(stop: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return


@dataclass
class _SyncPass:
    engine: Engine
    progress: ProgressCallback
    lagging_node_users: list[str] = field(default_factory=list)  # users whose nodes lack vectors, of those compared
    synced_users: set[str] = field(default_factory=set)
    lag_reasons: list[str] = field(default_factory=list)

    async def compare_watermarks(self) -> None:
        """Find users whose graph lacks changes though the log was told otherwise, or was never told."""
        following = self.engine.graph_projection
        if following is None:
            return
        last = ""
        while heads := await self.engine.admin.heads(OPERATOR, after=last):
            last = max(heads)
            try:
                marks = await following.graph.positions(list(heads))
                operations = await self.engine.admin.operations_at(
                    OPERATOR, {user: mark.seq for user, mark in marks.items() if mark.seq}
                )
                behind = [
                    user
                    for user, seq in heads.items()
                    if marks[user].seq < seq or not marks[user].is_of(operations.get(user))
                ]
                await asyncio.gather(*(self._sync_graph(following, user) for user in behind))
                if (nodes := following.graph_vectors) is not None:
                    held = await nodes.nodes.watermarks(list(heads), nodes.name)
                    self.lagging_node_users += [user for user, seq in heads.items() if held[user][0] < seq]
            except StoreUnavailable as error:
                self.lag_reasons.append(f"graph: {error}")
                return

    async def run(self) -> None:
        """Projection by projection, until none lags or progresses any more."""
        await self.engine.adopt_recorded_embedder()
        if self.engine.graph_projection is not None:
            await self._sync_projection(self.engine.graph_projection)
        for projection in self.engine.vector_projections:
            await self._sync_projection(projection)
        nodes = None if self.engine.graph_projection is None else self.engine.graph_projection.graph_vectors
        if nodes is not None:
            await self._sync_projection(nodes)
            for user in self.lagging_node_users:
                await self._sync_user(nodes, user)

    async def _sync_projection(self, projection: AnyProjection) -> None:
        stuck: set[str] = set()
        turn = asyncio.Semaphore(USER_BATCH_SIZE if isinstance(projection, GraphProjection) else MAX_CONCURRENT_USERS)
        while True:
            behind = await self.engine.log.lagging_users(projection.name, OPERATOR, USER_BATCH_SIZE + len(stuck))
            todo = [user for user in behind if user not in stuck]
            if not todo:
                return
            self.progress(projection.name, len(self.synced_users), len(self.synced_users) + len(todo))

            async def one(user: str) -> None:
                async with turn:
                    moved = await self._sync_user(projection, user)
                    if not moved:
                        stuck.add(user)

            await asyncio.gather(*(one(user) for user in todo))
            if projection.is_backing_off():
                self.lag_reasons.append(f"{projection.name}: {projection.last_error}")
                return

    async def _sync_user(self, projection: AnyProjection, user: str) -> bool:
        """Serve a user once; False when that changed nothing."""
        if isinstance(projection, GraphProjection):
            return await self._sync_graph(projection, user)
        scope = Scope(user)
        if isinstance(projection, GraphVectorProjection):
            return await self._sync_node_vectors(projection, scope)
        before = await projection.index.watermark(user)
        try:
            caught_up = await projection.sync(scope, limit=CHANGE_BATCH_SIZE)
        except StoreError as error:
            projection.last_error, caught_up = str(error), False
        if caught_up:
            self.synced_users.add(user)
        elif projection.last_error:
            self.lag_reasons.append(f"{projection.name}: {projection.last_error}")
        return caught_up or await projection.index.watermark(user) > before

    async def _sync_node_vectors(self, node_vectors: GraphVectorProjection, scope: Scope) -> bool:
        caught_up = await node_vectors.sync(scope)
        if caught_up:
            self.synced_users.add(scope.user_id)
        else:
            self.lag_reasons.append(f"{node_vectors.name}: {node_vectors.last_error}")
        return caught_up

    async def _sync_graph(self, graph_projection: GraphProjection, user: str) -> bool:
        caught_up = await graph_projection.sync(Scope(user))
        if caught_up:
            self.synced_users.add(user)
            await graph_projection.write_watermark_hints()
        else:
            self.lag_reasons.append(f"graph: {graph_projection.last_error}")
        return caught_up
