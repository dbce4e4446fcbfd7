"""What is opened once and shared by every view: stores, models, clock, ids, caches; and the one way to write."""

from __future__ import annotations

import asyncio
import os
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from weakref import WeakValueDictionary

from agentmem.audit import MEMORY_TYPES, Auditor
from agentmem.errors import AgentMemError, Closed, Conflict, ModelUnavailable, StoreError, StoreUnavailable
from agentmem.events import DEBUG, Lookups, Timings, tell
from agentmem.model.changes import Audit, Change, JournalEntry, Promotion, Write, keyed_change_id
from agentmem.model.clock import Clock, IdSource, RandomIds, SeededIds, Stopwatch, SystemClock, from_micros
from agentmem.model.outline import Outline
from agentmem.model.scope import Scope
from agentmem.projections import GraphProjection, GraphVectorProjection, Outlines, Retries, VectorProjection
from agentmem.projections.embedders import embedder_options, open_projection, recorded_embedders
from agentmem.providers import Embedder, open_embedder
from agentmem.providers.llms import LLMs
from agentmem.providers.rerankers import Reranker, RerankerOptions, open_reranker
from agentmem.settings import Settings
from agentmem.stores import GraphStore, LogStore, SessionStore
from agentmem.stores.jobs import Jobs
from agentmem.stores.stack import OpenIndex, open_stack
from agentmem.stores.upkeep import Upkeep

After = Callable[[list[JournalEntry]], Awaitable[None]]
RETRIES = 5
RECEIPTS = 1000
LATE = "Some of what was just stored is found by its words only: its vectors are not built yet."
LATE_LINKS = "Links of what was just stored are missing: the graph has not come so far yet."


@dataclass(repr=False)  # settings, receipts and caches hold addresses and users' words
class Resources:
    """Open stores and models. Made by `open_resources`; shared by all scoped views; closed once."""

    settings: Settings
    clock: Clock
    ids: IdSource
    log: LogStore
    graph: GraphStore
    following: GraphProjection | None  # what keeps a graph in step that stands outside of the log
    session: SessionStore
    vectors: list[VectorProjection]
    auditor: Auditor
    store_id: str
    llms: LLMs
    reranker: Reranker | None
    open_index: OpenIndex
    upkeep: Upkeep
    jobs: Jobs
    notices: list[str] = field(default_factory=list)
    receipts: OrderedDict[str, Any] = field(default_factory=OrderedDict)
    erasures: Counter[str] = field(default_factory=Counter)  # by user, those of this process
    on_erasure: list[Callable[[str], None]] = field(default_factory=list)
    kept: dict[str, Any] = field(default_factory=dict)  # what subsystems hold in the process, by their own names
    timings: Timings = field(default_factory=Timings)
    lookups: Lookups = field(default_factory=Lookups)
    closed: bool = False
    _tasks: set[asyncio.Task[Any]] = field(default_factory=set)
    _retrying: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)
    _switching: asyncio.Lock = field(default_factory=asyncio.Lock)
    _former: list[VectorProjection] = field(default_factory=list)  # no longer served; recalls may still hold them
    _refused: str = ""  # one that this process cannot open
    _pid: int = field(default_factory=os.getpid)

    def __post_init__(self) -> None:
        self._outlines = Outlines(self.forget, self.lookups)
        self._retries = Retries(self.follow)

    @property
    def deterministic(self) -> bool:
        """Whether ids are seeded: then nothing runs under a deadline."""
        return self.settings.seed is not None

    # -- writing

    async def commit(
        self, scope: Scope, changes: Sequence[Change], audit: Audit | None, then: After | None = None, *,
        fence: int | None = None,
    ) -> list[JournalEntry]:  # fmt: skip
        """Append to the log (acknowledged there), then bring the projections along; their failure fails no write.

        `then` is run beside them with what was written, not waited for: for caches. LeaseLost when the `fence` is lost.
        """
        self.check_open()
        watch = Stopwatch(self.clock)
        entries = await self.log.append(changes, audit, fence)
        self.timings.add("write", watch.milliseconds())
        for entry in entries[:1]:  # of one operation, all of them
            said = {"operation": entry.operation, "operation_id": entry.operation_id, "changes": len(entries)}
            tell(DEBUG, "stored", user_id=scope.user_id, ms=watch.milliseconds(), **said)
        follow = [self._background(self._follow_or_later(scope, entries))] if self._behind(scope, entries) else []
        if self.following is not None and self.deterministic:
            follow.append(self._background(self.following.follow(scope)))
        if then is not None:
            self._background(then(entries))
        wait = (2.0 if self.following is None else 0.1) + 0.2 * len(entries)  # what many lack should not pile up
        try:
            if follow:
                await asyncio.wait(follow, timeout=None if self.deterministic else wait)
        finally:  # a commit there takes far longer than the one here, so nobody waits for it, nor for its beginning
            if self.following is not None and not self.deterministic:
                self.following.nudge(scope, entries)
        return entries

    def _behind(self, scope: Scope, entries: Sequence[JournalEntry]) -> bool:
        """Whether any vectors lack what was written; those that need no model came with it."""
        last = max((entry.seq for entry in entries), default=-1)  # what is repeated may stand behind what is new
        return not entries or any(vectors.reached(scope) < last for vectors in self.vectors)

    async def _follow_or_later(self, scope: Scope, entries: Sequence[JournalEntry]) -> bool:
        done = await self.follow(scope, entries)
        if not done and self.following is not None and not self.deterministic:
            self._retries.add(scope)  # on servers there may be no next write or recall here for long
        return done

    async def write(
        self, scope: Scope, operation: str, build: Callable[[Write], Awaitable[Change | None]], *, kind: str,
        key: str | None = None, payload: str = "", details: Mapping[str, Any] | None = None,
        promotion: Promotion | None = None, fence: int | None = None,
    ) -> JournalEntry | None:  # fmt: skip
        """Build a Change from what is read and commit it; when the state moved on meanwhile, read and build again.

        Who has to try again does so one by one with the others of this process, so that any number of them get through.
        With a `key`, a write done before under it in this channel is returned and not done again. None when `build`
        found nothing to do. `details` and `promotion` go into its audit row. `fence` is the token of a lease.
        """
        self.check_open()
        watch, operation_id = Stopwatch(self.clock), self.ids.new()
        change_id = operation_id if key is None else keyed_change_id(scope, operation, key)
        if key is not None and (before := await self.log.applied(change_id, payload, scope)):
            return before
        attempt = Write(scope, operation, operation_id, change_id, payload, self.clock.now())
        memory_type, turn = MEMORY_TYPES.get(kind, "semantic"), None
        for left in reversed(range(RETRIES)):
            try:
                async with turn or nullcontext():
                    change = await build(attempt)
                    if change is None:
                        return None
                    audit = self.auditor.write(
                        operation, scope, memory_type=memory_type, operation_id=attempt.operation_id,
                        count=len(change.puts) + len(change.retracts), latency_ms=watch.milliseconds(),
                        metadata={"ids": [record.id for record in change.puts[:50]], **(details or {})},
                        payload=self.auditor.payload(change.puts), promotion=promotion,
                    )  # fmt: skip
                    return (await self.commit(scope, [change], audit, fence=fence))[0]
            except Conflict as error:
                if not (error.stale and left):
                    await self._audit_failure(attempt, memory_type, error)
                    raise
                turn = self.one_by_one(scope)
            except AgentMemError as error:
                await self._audit_failure(attempt, memory_type, error)
                raise
        raise AssertionError("unreachable: the last attempt returns or raises")

    def one_by_one(self, scope: Scope) -> asyncio.Lock:
        """Under this lock those of this process try again whose write for the user was overtaken."""
        return self._retrying.setdefault(scope.user_id, asyncio.Lock())

    async def _audit_failure(self, attempt: Write, memory_type: str, error: AgentMemError) -> None:
        if isinstance(error, StoreUnavailable):  # to ask the store again would only double the caller's wait
            return
        # The message may quote what was given: only its type is kept.
        row = self.auditor.write(
            attempt.operation, attempt.scope, memory_type=memory_type, operation_id=attempt.operation_id,
            error=type(error).__name__,
        )  # fmt: skip
        if row is not None:
            with suppress(StoreError):  # the store's own failure is what is being reported
                await self.log.audit([row])

    # -- projections

    async def follow(self, scope: Scope, entries: Sequence[JournalEntry] = (), *, whole: bool = False) -> bool:
        """Bring the vectors of the user up to the journal; True when they are.

        An embedder that is being built beside the serving one gets what was just written when it has all before that;
        the user's history is `rebuild`'s, except with `whole`.
        """
        done = True
        try:
            if not entries:  # a write does not take the time to look; the next recall does
                await self.notice_embedder()
        except StoreError as error:
            self.vectors[0].last_error, done = str(error), False
        for projection in self.vectors:
            try:
                if projection is self.vectors[0] or whole or await projection.is_next(scope, entries):
                    done = await projection.follow(scope, entries) and done
            except AgentMemError as error:  # whatever a projection meets, it fails no write and no recall
                projection.last_error, done = str(error), False
        return done

    async def notice_embedder(self) -> None:
        """Serve the embedder that the store records now: `agentmem rebuild` in another process may have switched it."""
        recorded = (await self.log.meta()).get("embedder", "")
        if not self.vectors or recorded in ("", self.vectors[0].embedder.identity, self._refused):
            return
        async with self._switching:
            found = [projection for projection in self.vectors if projection.embedder.identity == recorded]
            try:
                embedder = found[0].embedder if found else open_embedder(recorded, embedder_options(self.settings))
                served = found[0] if found else await self.open_projection(embedder)
            except AgentMemError as error:
                self._refused = recorded
                self.notices.append(f"The store was rebuilt for {recorded}, which cannot be opened here: {error}")
                return
            self._former += [projection for projection in self.vectors if projection is not served]
            self.vectors = [served]

    async def open_projection(self, embedder: Embedder) -> VectorProjection:
        """The vectors of an embedder, neither written nor served yet."""
        return await open_projection(embedder, self.open_index, self.log, self.clock, self.settings)

    async def catch_up(self, scope: Scope, outline: Outline) -> tuple[str, ...]:
        """Wait a moment until the user's projections are where an outline is; a notice for each that is not."""
        served, asked = self.vectors[0], dict[asyncio.Task[bool], str]()
        served_here = ("", served.embedder.identity, self._refused)
        if served.lacks(scope, outline) or self._outlines.recorded not in served_here:
            asked[self._background(self.follow(scope))] = LATE
        if self.following is not None and self.following.lacks(scope, outline):
            asked[self._background(self.following.follow(scope))] = LATE_LINKS
        if not asked:
            return ()
        wait = None if self.deterministic else self.settings.catch_up_ms / 1000
        finished, _ = await asyncio.wait(asked, timeout=wait)
        return tuple(notice for task, notice in asked.items() if task not in finished or not task.result())

    async def flush(self, scope: Scope) -> None:
        """Wait until the user's projections have caught up.

        Raises ModelUnavailable when a model does not answer, StoreUnavailable when the graph does not.
        """
        self.check_open()
        goal = (await self.log.head(scope)).seq
        graph = None if self.following is None else self._background(self.following.follow_to_end(scope))
        if not await self._background(self._follow_to_end(scope)):
            reasons = "; ".join(projection.last_error for projection in self.vectors if projection.last_error)
            raise ModelUnavailable(f"projections could not catch up: {reasons or 'the model does not answer'}")
        if graph is not None and self.following is not None and not await graph:
            raise StoreUnavailable(f"the graph could not catch up: {self.following.last_error}")
        nodes = None if self.following is None else self.following.vectors
        if nodes is not None and not await self._background(nodes.follow(scope, through=goal)):
            raise StoreUnavailable(f"the vectors in the graph could not catch up: {nodes.last_error}")

    async def _follow_to_end(self, scope: Scope) -> bool:
        done = await self.follow(scope)
        for projection in self.vectors:
            try:
                done = await projection.follow_to_end(scope)
            except StoreError as error:
                projection.last_error, done = str(error), False
        return done

    async def lag(self, scope: Scope) -> dict[str, int]:
        """Changes that each projection has still to apply, parked ones counted; 0 when caught up."""
        head = (await self.log.head(scope)).seq
        parked = Counter(item.projection for item in await self.log.parked(scope))
        graph = self.graph if self.following is None else self.following
        marks = {"graph": await graph.watermark(scope.user_id)}
        for projection in self.vectors:
            marks[projection.name] = await projection.index.watermark(scope.user_id)
        if self.following is not None and (nodes := self.following.vectors) is not None:
            marks[nodes.name] = await nodes.watermark(scope.user_id)
        return {name: head - mark + parked[name] for name, mark in marks.items()}

    async def settle(self) -> None:
        """Wait for what runs in the background now, so that nothing of it comes after what is done next."""
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=5.0)

    def _background(self, work: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # -- reading

    async def now(self, scope: Scope) -> datetime:
        """The clock's time, but never before the user's latest record: a clock set back brings nothing retired back."""
        return max(self.clock.now(), from_micros((await self.log.head(scope)).at))

    async def outline(self, scope: Scope, through: int | None = None) -> Outline:
        """The user's outline as of now, or as it was at a journal position."""
        self.check_open()
        return await self._outlines.get(self.log, scope, through)

    def keep_receipt(self, receipt_id: str, receipt: Any) -> None:
        """Remember a recall's receipt; the last 1,000 stay in the process."""
        self.receipts[receipt_id] = receipt
        while len(self.receipts) > RECEIPTS:
            self.receipts.popitem(last=False)

    def erased(self, user_id: str) -> None:
        """Something of a user was erased here: drop what is cached of that user, also by recalls under way."""
        self.erasures[user_id] += 1
        self.forget(user_id)

    def forget(self, user_id: str) -> None:
        """Drop what is cached of a user of whom something was erased, here or by another process."""
        for name in [name for name, receipt in self.receipts.items() if receipt.scope.user_id == user_id]:
            del self.receipts[name]
        for forget in self.on_erasure:
            forget(user_id)

    # -- life

    def check_open(self) -> None:
        """Raise Closed after `close`."""
        if self.closed:
            raise Closed("this memory was closed; open a new one")
        self._after_fork()

    def _after_fork(self) -> None:
        """Forget the tasks and locks of the process that this one was forked from: they never end here."""
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self._outlines.after_fork()
            self._retries.after_fork()
            self._retrying.clear()
            self._switching, self._tasks = asyncio.Lock(), set()
            for projection in self.vectors:
                projection.after_fork()
            if self.following is not None:
                self.following.after_fork()

    async def close(self) -> None:
        """Let running projections finish for a moment, then close models and stores."""
        if self.closed:
            return
        self.closed = True
        self._after_fork()
        await self._retries.close()
        if self._tasks:
            _, late = await asyncio.wait(set(self._tasks), timeout=None if self.deterministic else 5.0)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        for projection in (*self.vectors, *self._former):
            await projection.embedder.close()
        if self.reranker is not None:
            await self.reranker.close()
        await self.llms.close()
        if self.following is not None:
            await self.following.close(None if self.deterministic else 5.0)
        await self.session.close()
        await self.log.close()


async def open_resources(settings: Settings) -> Resources:
    """Open what the settings name. Raises ConfigError, SchemaMismatch, CorruptStore or StoreUnavailable."""
    clock = settings.clock or SystemClock()
    stack = await open_stack(settings, clock)
    try:
        log, following = stack.log, stack.following
        meta = await log.meta()
        opening = await log.count_opening()
        llms = LLMs(settings)
        rerankers = RerankerOptions(
            models=settings.model_folder, threads=settings.threads, asker=lambda: llms.asker("recall")
        )
        reranker = open_reranker(settings.reranker, rerankers)
        resources = Resources(
            settings=settings, clock=clock,
            ids=RandomIds(clock) if settings.seed is None else SeededIds(clock, settings.seed, opening),
            log=log, graph=stack.graph, following=None if following is None else GraphProjection(following, log, clock),
            session=stack.session, vectors=[], auditor=Auditor(settings), store_id=meta["store_id"],
            llms=llms, reranker=reranker, open_index=stack.open_index, upkeep=stack.upkeep, jobs=stack.jobs,
        )  # fmt: skip
        for embedder in await recorded_embedders(settings, log, resources.notices):
            await add_projection(resources, embedder)
        stack.serve(lambda: resources.vectors[0] if resources.vectors[0].instant else None)
        if resources.following is not None and stack.node_vectors is not None:
            resources.following.vectors = GraphVectorProjection(stack.node_vectors, log, lambda: resources.vectors[0])
        return resources
    except BaseException:
        await stack.session.close()
        if stack.following is not None:
            await stack.following.close()
        await stack.log.close()
        raise


async def add_projection(resources: Resources, embedder: Embedder) -> VectorProjection:
    """Open the vectors of one more embedder; they are written from now on, and served when they are the first."""
    projection = await resources.open_projection(embedder)
    resources.vectors.append(projection)
    return projection
