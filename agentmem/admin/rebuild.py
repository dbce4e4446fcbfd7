"""Rebuild vectors, words and graph from the journal and the records, also for another embedder beside the old one.

In place, words and graph are replaced user by user in one transaction each; vectors are cleared and then built, and the
next process that opens the store continues an interrupted rebuild. A new embedder is built beside the serving one,
under its own watermarks, so an interrupted build continues; one transaction switches once no work is left.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass

from agentmem.core.clock import Stopwatch
from agentmem.core.scope import Operator, Scope
from agentmem.core.telemetry import ProgressCallback, no_progress
from agentmem.engine.engine import Engine, add_projection
from agentmem.engine.opening import build_embedder_options
from agentmem.engine.vector_projection import VectorProjection
from agentmem.errors import Conflict, CorruptStore, InvalidRecord, ModelUnavailable, StoreUnavailable
from agentmem.memory.repeated_erasures import erase_again_by_graph
from agentmem.models.registry import open_embedder
from agentmem.stores.admin import ProjectionLag

TARGETS = ("vectors", "words", "graph")
MAX_CATCH_UP_ROUNDS = 10  # over users that others keep writing to, before a small remainder is left to the next reader
MAX_REMAINING_CHANGES = 200  # changes of all users together


@dataclass(frozen=True, slots=True)
class RebuildReport:
    """What was rebuilt: users, changes read for vectors, seconds, the embedder that serves now, and remarks."""

    users: int
    changes: int
    seconds: float
    embedder: str
    notes: tuple[str, ...] = ()


async def rebuild(
    engine: Engine,
    users: Sequence[str] | None,
    *,
    targets: Collection[str] = TARGETS,
    embedder: str | None = None,
    prune: bool = False,
    progress: ProgressCallback | None = None,
) -> RebuildReport:
    """Rebuild projections; `users` None means all of them.

    `targets` names vectors, words, graph. With `embedder` (as in the settings) the vectors of all users are built for
    that one beside the old, then it serves; the old vectors stay, for a quick way back, unless `prune`. `progress` is
    called with (what, done, of how many). Raises InvalidRecord for unknown names, ConfigError for an unknown embedder,
    ModelUnavailable when it stops answering (run it again to continue), Conflict when another process chose another
    embedder meanwhile.
    """
    engine.check_open()
    _check_arguments(users, targets, embedder)
    work = _Rebuild(engine, progress or no_progress)
    watch = Stopwatch(engine.clock)
    names = [name async for name in _read_user_ids(engine, users)]
    in_place = [name for name in TARGETS if name in targets and not (name == "vectors" and embedder)]
    for name in in_place:
        await work.rebuild_target(name, names)
    if embedder is not None:
        await work.switch_embedder(embedder)
    if prune:
        await work.prune()
    served = engine.vector_projections[0].embedder.identity
    told = {"targets": sorted(targets), "embedder": served, "users": len(names), "changes": work.changes}
    await engine.write_audit(
        engine.auditor.build_system_entry("rebuild", latency_ms=watch.milliseconds(), metadata=told)
    )
    return RebuildReport(len(names), work.changes, watch.milliseconds() / 1000, served, tuple(work.notes))


def _check_arguments(users: Sequence[str] | None, targets: Collection[str], embedder: str | None) -> None:
    unknown = [targets] if isinstance(targets, str) else sorted(set(targets) - set(TARGETS))
    if unknown or not targets:
        raise InvalidRecord(
            f"targets may name {', '.join(TARGETS)}, got {', '.join(unknown) or 'nothing'}", field="targets"
        )
    if isinstance(users, str):
        raise InvalidRecord("users must be a list of user ids", field="users")
    if embedder is not None and "vectors" not in targets:
        raise InvalidRecord("a new embedder needs new vectors; add vectors to targets", field="targets")


async def _read_user_ids(engine: Engine, users: Sequence[str] | None) -> AsyncIterator[str]:
    if users is not None:
        for name in dict.fromkeys(users):
            yield Scope(name).user_id
        return
    operator, last = Operator("rebuild"), ""
    while page := await engine.log.users(operator, after=last):
        for name in page:
            yield name
        last = page[-1]


class _Rebuild:
    def __init__(self, engine: Engine, progress: ProgressCallback) -> None:
        self.engine = engine
        self.progress = progress
        self.store = engine.admin
        self.changes = 0
        self.notes: list[str] = []

    async def rebuild_target(self, target: str, names: Sequence[str]) -> None:
        """Rebuild one projection in place, user by user."""
        if target == "vectors":
            await self._rebuild_vectors([Scope(name) for name in names])
            return
        for done, name in enumerate(names):
            self.progress(target, done, len(names))
            if target == "words":
                await self.store.rebuild_terms(Scope(name))
            else:
                await self._rebuild_graph(Scope(name))
        self.progress(target, len(names), len(names))

    async def _rebuild_graph(self, scope: Scope) -> None:
        following = self.engine.graph_projection
        await self.engine.graph.rebuild(scope)
        if following is None:
            return
        if again := await erase_again_by_graph(self.engine, scope):
            self.notes.append(
                f"{again} records of {scope.user_id}, erased after the backup of the log, were erased again"
            )
        await self.store.requeue_dead_letters(following.name, scope)
        await following.graph.rebuild(scope)
        following.forget_watermark(scope.user_id)
        if not await following.sync_fully(scope):
            raise StoreUnavailable(f"the graph cannot follow: {following.last_error}; run this again to continue")
        await self._sync_node_vectors(scope)

    async def _sync_node_vectors(self, scope: Scope, *, from_start: bool = False) -> None:
        """Update the vectors on nodes, `from_start` when the log's vectors were rebuilt; returns a note when they must
        wait.
        """
        nodes = None if self.engine.graph_projection is None else self.engine.graph_projection.graph_vectors
        if nodes is not None and not await nodes.sync(scope, from_start=from_start):
            name = scope.user_id
            self.notes.append(f"vectors of {name} in the graph wait: {nodes.last_error}; run: agentmem admin sync")

    async def _rebuild_vectors(self, scopes: Sequence[Scope]) -> None:
        projection = self.engine.vector_projections[0]
        total = sum([(await self.engine.log.head(scope)).seq for scope in scopes])
        self.progress("vectors", 0, total)
        for scope in scopes:
            await self.store.requeue_dead_letters(projection.name, scope)
            await projection.index.clear(scope.user_id)
            await self._sync_vectors(projection, scope, total)
            await self._sync_node_vectors(scope, from_start=True)

    async def _sync_vectors(self, projection: VectorProjection, scope: Scope, total: int) -> None:
        def report_progress(changes: int) -> None:
            self.changes += changes
            self.progress("vectors", min(self.changes, total), max(total, self.changes))

        if not await projection.sync_fully(scope, report_progress):
            name, reason = projection.embedder.identity, projection.last_error
            raise ModelUnavailable(f"{name} stopped answering: {reason}; run this again to continue")
        if parked := sum(item.projection == projection.name for item in await self.engine.log.dead_letters(scope)):
            self.notes.append(f"{parked} changes of {scope.user_id} could not be embedded and were passed over")

    async def switch_embedder(self, spec: str) -> None:
        """Build the vectors of another embedder beside the old, then serve it."""
        engine = self.engine
        await engine.adopt_recorded_embedder()
        served = engine.vector_projections[0].embedder.identity
        model = open_embedder(spec, build_embedder_options(engine.settings))
        identity = model.identity
        building = (await engine.log.meta()).get("embedder_next", "")
        if identity == served:
            self.notes.append(f"{identity} serves already")
        if building not in ("", identity):
            self.notes.append(f"the unfinished build of {building} was given up; --prune takes its vectors out")
        if identity != served or building:
            await self.store.start_embedder(identity)
        known = [projection for projection in engine.vector_projections if projection.embedder.identity == identity]
        if known:
            await model.close()
        await self._build_vectors(known[0] if known else await add_projection(engine, model))
        await engine.adopt_recorded_embedder()
        if engine.settings.graph_vectors and identity != served:
            self.notes.append(
                "the graph's vectors and their indexes: run agentmem admin migrate, then agentmem admin sync"
            )

    async def _build_vectors(self, projection: VectorProjection) -> None:
        identity, rounds = projection.embedder.identity, 0
        while not await self.store.switch_embedder(
            identity, MAX_REMAINING_CHANGES if rounds > MAX_CATCH_UP_ROUNDS else 0
        ):
            rounds += 1
            before: list[ProjectionLag] = []
            while lagging := await self.store.lagging_projections([projection.name], Operator("rebuild"), limit=1000):
                if lagging == before:
                    raise CorruptStore(
                        f"the journal of {lagging[0].user_id} cannot be followed; run: agentmem admin doctor"
                    )
                before, total = lagging, self.changes + sum(item.lag for item in lagging)
                for item in lagging:
                    if item.lag < 0:  # the log was restored from an earlier backup
                        await projection.index.clear(item.user_id)
                    await self._sync_vectors(projection, Scope(item.user_id), total)

    async def prune(self) -> None:
        """Take out the vectors of every embedder but the one that serves."""
        meta = await self.engine.log.meta()
        if building := meta.get("embedder_next"):
            raise Conflict(
                f"{building} is being built; finish that first: agentmem admin rebuild --embedder {building}"
            )
        for identity in await self.store.drop_embedders([meta["embedder"]]):
            self.notes.append(f"the vectors of {identity} were taken out")
