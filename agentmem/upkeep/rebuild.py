"""Makes vectors, words and graph again from the journal and the records, also for another embedder beside the old one.

What is rebuilt in place is replaced user by user, words and graph in one transaction each; vectors are cleared and then
followed, and whoever opens the store continues where that was cut off. A new embedder is written beside the one that
serves, under its own watermarks, so that an interrupted build continues; the switch is one transaction that finds
nothing left behind.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from agentmem.errors import Conflict, CorruptStore, InvalidRecord, ModelUnavailable, StoreUnavailable
from agentmem.model.clock import Stopwatch
from agentmem.model.records import Key
from agentmem.model.scope import Operator, Scope
from agentmem.projections import VectorProjection
from agentmem.projections.embedders import embedder_options
from agentmem.providers import open_embedder
from agentmem.resources import Resources, add_projection
from agentmem.stores import FollowingGraph
from agentmem.stores.upkeep import Lag

WHAT = ("vectors", "words", "graph")
ROUNDS = 10  # over users that others keep writing to, before a small remainder is left to the next reader
REMAINDER = 200  # changes of all users together
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class RebuildReport:
    """What was rebuilt: users, changes read for vectors, seconds, the embedder that serves now, and remarks."""

    users: int
    changes: int
    seconds: float
    embedder: str
    notes: tuple[str, ...] = ()


async def rebuild(
    resources: Resources, users: Sequence[str] | None, *, what: Collection[str] = WHAT, embedder: str | None = None,
    prune: bool = False, progress: Progress | None = None,
) -> RebuildReport:  # fmt: skip
    """Make projections again; `users` None means all of them.

    `what` names vectors, words, graph. With `embedder` (as in the settings) the vectors of all users are built for that
    one beside the old, then it serves; the old vectors stay, so that changing back is quick, unless `prune`.
    `progress` is told (what, done, of how many). Raises InvalidRecord for unknown names, ConfigError for an unknown
    embedder, ModelUnavailable when it stops answering (run it again to continue), Conflict when another process chose
    another embedder meanwhile.
    """
    resources.check_open()
    _check(users, what, embedder)
    work = _Rebuild(resources, progress or _silent)
    watch = Stopwatch(resources.clock)
    names = [name async for name in _names(resources, users)]
    in_place = [name for name in WHAT if name in what and not (name == "vectors" and embedder)]
    for name in in_place:
        await work.each(name, names)
    if embedder is not None:
        await work.switch(embedder)
    if prune:
        await work.prune()
    served = resources.vectors[0].embedder.identity
    return RebuildReport(len(names), work.changes, watch.milliseconds() / 1000, served, tuple(work.notes))


def _check(users: Sequence[str] | None, what: Collection[str], embedder: str | None) -> None:
    unknown = [what] if isinstance(what, str) else sorted(set(what) - set(WHAT))
    if unknown or not what:
        raise InvalidRecord(f"what may name {', '.join(WHAT)}, got {', '.join(unknown) or 'nothing'}", field="what")
    if isinstance(users, str):
        raise InvalidRecord("users must be a list of user ids", field="users")
    if embedder is not None and "vectors" not in what:
        raise InvalidRecord("a new embedder needs new vectors; add vectors to what", field="what")


async def _names(resources: Resources, users: Sequence[str] | None) -> AsyncIterator[str]:
    if users is not None:
        for name in dict.fromkeys(users):
            yield Scope(name).user_id
        return
    operator, last = Operator("rebuild"), ""
    while page := await resources.log.users(operator, after=last):
        for name in page:
            yield name
        last = page[-1]


def _silent(what: str, done: int, total: int) -> None:
    """For callers who do not watch."""


async def keep_erased(resources: Resources, graph: FollowingGraph, scope: Scope) -> int:
    """Make log and graph agree on what was erased, so that a restored backup of the log brings nothing back.

    What the graph knows as erased and the log holds from before then is erased there again; returns how many records.
    """
    known: dict[Key, datetime] = {}
    last: Key = ("", "")
    while page := await resources.upkeep.erased(scope, last):
        last = max(page)
        known |= page
        await graph.mark_erased(scope, page)
    back, after = 0, None
    while marks := await graph.erased(scope, after):
        after = list(marks)[-1]
        lost = {key: at for key, at in marks.items() if key not in known or known[key] < at}
        versions = {key: await resources.log.versions(key, scope) for key in lost}
        stale = [key for key, found in versions.items() if found and (found[0].recorded_at or lost[key]) <= lost[key]]
        if stale:
            await resources.log.erase(scope, stale, operation_id=resources.ids.new(), at=resources.clock.now())
            resources.erased(scope.user_id)
            await resources.follow(scope)
        back += len(stale)
    return back


class _Rebuild:
    def __init__(self, resources: Resources, progress: Progress) -> None:
        self.resources = resources
        self.progress = progress
        self.store = resources.upkeep
        self.changes = 0
        self.notes: list[str] = []

    async def each(self, what: str, names: Sequence[str]) -> None:
        """Rebuild one projection in place, user by user."""
        if what == "vectors":
            await self._vectors([Scope(name) for name in names])
            return
        for done, name in enumerate(names):
            self.progress(what, done, len(names))
            if what == "words":
                await self.store.rebuild_words(Scope(name))
            else:
                await self._graph(Scope(name))
        self.progress(what, len(names), len(names))

    async def _graph(self, scope: Scope) -> None:
        following = self.resources.following
        if following is None:
            await self.resources.graph.rebuild(scope)
            return
        if again := await keep_erased(self.resources, following.graph, scope):
            self.notes.append(
                f"{again} records of {scope.user_id}, erased after the backup of the log, were erased again"
            )
        await self.store.unpark(following.name, scope)
        await following.graph.rebuild(scope)
        following.forget(scope.user_id)
        if not await following.follow_to_end(scope):
            raise StoreUnavailable(f"the graph cannot follow: {following.last_error}; run this again to continue")
        await self._node_vectors(scope)

    async def _node_vectors(self, scope: Scope, *, again: bool = False) -> None:
        """Let vectors on nodes follow, `again` when the log's own were made anew; a note when they have to wait."""
        nodes = None if self.resources.following is None else self.resources.following.vectors
        if nodes is not None and not await nodes.follow(scope, again=again):
            name = scope.user_id
            self.notes.append(f"vectors of {name} in the graph wait: {nodes.last_error}; run: agentmem project")

    async def _vectors(self, scopes: Sequence[Scope]) -> None:
        projection = self.resources.vectors[0]
        total = sum([(await self.resources.log.head(scope)).seq for scope in scopes])
        self.progress("vectors", 0, total)
        for scope in scopes:
            await self.store.unpark(projection.name, scope)
            await projection.index.clear(scope.user_id)
            await self._follow(projection, scope, total)
            await self._node_vectors(scope, again=True)

    async def _follow(self, projection: VectorProjection, scope: Scope, total: int) -> None:
        def advanced(changes: int) -> None:
            self.changes += changes
            self.progress("vectors", min(self.changes, total), max(total, self.changes))

        if not await projection.follow_to_end(scope, advanced):
            name, reason = projection.embedder.identity, projection.last_error
            raise ModelUnavailable(f"{name} stopped answering: {reason}; run this again to continue")
        if parked := sum(item.projection == projection.name for item in await self.resources.log.parked(scope)):
            self.notes.append(f"{parked} changes of {scope.user_id} could not be embedded and were passed over")

    async def switch(self, spec: str) -> None:
        """Build the vectors of another embedder beside the old, then serve it."""
        resources = self.resources
        await resources.notice_embedder()
        served = resources.vectors[0].embedder.identity
        model = open_embedder(spec, embedder_options(resources.settings))
        identity = model.identity
        building = (await resources.log.meta()).get("embedder_next", "")
        if identity == served:
            self.notes.append(f"{identity} serves already")
        if building not in ("", identity):
            self.notes.append(f"the unfinished build of {building} was given up; --prune takes its vectors out")
        if identity != served or building:
            await self.store.start_embedder(identity)
        known = [projection for projection in resources.vectors if projection.embedder.identity == identity]
        if known:
            await model.close()
        await self._build(known[0] if known else await add_projection(resources, model))
        await resources.notice_embedder()
        if resources.settings.graph_vectors and identity != served:
            self.notes.append("the graph's vectors and their indexes: run agentmem migrate, then agentmem project")

    async def _build(self, projection: VectorProjection) -> None:
        identity, rounds = projection.embedder.identity, 0
        while not await self.store.switch_embedder(identity, REMAINDER if rounds > ROUNDS else 0):
            rounds += 1
            before: list[Lag] = []
            while lagging := await self.store.lagging([projection.name], Operator("rebuild"), limit=1000):
                if lagging == before:
                    raise CorruptStore(f"the journal of {lagging[0].user_id} cannot be followed; run: agentmem doctor")
                before, total = lagging, self.changes + sum(item.behind for item in lagging)
                for item in lagging:
                    if item.behind < 0:  # the log was restored from an earlier backup
                        await projection.index.clear(item.user_id)
                    await self._follow(projection, Scope(item.user_id), total)

    async def prune(self) -> None:
        """Take out the vectors of every embedder but the one that serves."""
        meta = await self.resources.log.meta()
        if building := meta.get("embedder_next"):
            raise Conflict(f"{building} is being built; finish that first: agentmem rebuild --embedder {building}")
        for identity in await self.store.drop_embedders([meta["embedder"]]):
            self.notes.append(f"the vectors of {identity} were taken out")
