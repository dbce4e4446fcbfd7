"""What is opened once and shared by every view: stores, models, clock, ids, caches; and the one way to write."""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

from agentmem.audit import MEMORY_TYPES, Auditor
from agentmem.errors import AgentMemError, Closed, Conflict, ModelUnavailable, StoreError
from agentmem.model.changes import Audit, Change, JournalEntry, Promotion, Write
from agentmem.model.clock import Clock, IdSource, RandomIds, SeededIds, Stopwatch, SystemClock, derived_id, from_micros
from agentmem.model.outline import Outline
from agentmem.model.scope import Scope
from agentmem.projections import VectorProjection
from agentmem.providers import Embedder, EmbedderOptions, open_embedder, resolve_auto
from agentmem.settings import Settings
from agentmem.stores import GraphStore, LogStore, SessionStore, VectorIndex
from agentmem.stores.upkeep import Upkeep

After = Callable[[list[JournalEntry]], Awaitable[None]]
RETRIES = 5
RECEIPTS = 1000
OUTLINE_ROWS = 1_000_000  # rows of all cached outlines together; at some 300 bytes a row


@dataclass
class Resources:
    """Open stores and models. Made by `open_resources`; shared by all scoped views; closed once."""

    settings: Settings
    clock: Clock
    ids: IdSource
    log: LogStore
    graph: GraphStore
    session: SessionStore
    vectors: list[VectorProjection]
    auditor: Auditor
    store_id: str
    open_index: Callable[[str, int, int], Awaitable[VectorIndex]]
    upkeep: Upkeep
    notices: list[str] = field(default_factory=list)
    receipts: OrderedDict[str, Any] = field(default_factory=OrderedDict)
    on_erasure: list[Callable[[str], None]] = field(default_factory=list)
    closed: bool = False
    _outlines: OrderedDict[str, tuple[int, Outline]] = field(default_factory=OrderedDict)
    _outline_locks: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)
    _tasks: set[asyncio.Task[Any]] = field(default_factory=set)
    _retrying: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)
    _switching: asyncio.Lock = field(default_factory=asyncio.Lock)
    _former: list[VectorProjection] = field(default_factory=list)  # no longer served; recalls may still hold them
    _recorded: str = ""  # the embedder that the store named when it was last asked
    _refused: str = ""  # one that this process cannot open
    _pid: int = field(default_factory=os.getpid)

    @property
    def deterministic(self) -> bool:
        """Whether ids are seeded: then nothing runs under a deadline."""
        return self.settings.seed is not None

    # -- writing

    async def commit(
        self, scope: Scope, changes: Sequence[Change], audit: Audit | None, then: After | None = None
    ) -> list[JournalEntry]:
        """Append to the log (acknowledged there), then bring the projections along; their failure fails no write.

        `then` is run beside them with what was written, and not waited for: for caches.
        """
        self.check_open()
        entries = await self.log.append(changes, audit)
        follow = self._background(self.follow(scope, entries))
        if then is not None:
            self._background(then(entries))
        await asyncio.wait({follow}, timeout=None if self.deterministic else 2.0 + 0.2 * len(entries))
        return entries

    async def write(
        self, scope: Scope, operation: str, build: Callable[[Write], Awaitable[Change | None]], *, kind: str,
        key: str | None = None, payload: str = "", details: Mapping[str, Any] | None = None,
        promotion: Promotion | None = None,
    ) -> JournalEntry | None:  # fmt: skip
        """Build a Change from what is read and commit it; when the state moved on meanwhile, read and build again.

        Who has to try again does so one by one with the others of this process, so that any number of them get through.
        With a `key`, a write done before is returned and not done again. None when `build` found nothing to do.
        `details` and `promotion` go into its audit row.
        """
        self.check_open()
        watch = Stopwatch(self.clock)
        change_id = derived_id(scope.user_id, operation, key) if key is not None else self.ids.new()
        if key is not None and (before := await self.log.applied(change_id, payload, scope)):
            return before
        attempt = Write(scope, operation, self.ids.new(), change_id, payload, self.clock.now())
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
                    return (await self.commit(scope, [change], audit))[0]
            except Conflict as error:
                if not (error.stale and left):
                    await self._audit_failure(attempt, memory_type, error)
                    raise
                turn = self._retrying.setdefault(scope.user_id, asyncio.Lock())
            except AgentMemError as error:
                await self._audit_failure(attempt, memory_type, error)
                raise
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def _audit_failure(self, attempt: Write, memory_type: str, error: AgentMemError) -> None:
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
                served = found[0] if found else await self._serve(recorded)
            except AgentMemError as error:
                self._refused = recorded
                self.notices.append(f"The store was rebuilt for {recorded}, which cannot be opened here: {error}")
                return
            self._former += [projection for projection in self.vectors if projection is not served]
            self.vectors = [served]

    async def _serve(self, identity: str) -> VectorProjection:
        return await open_projection(self, open_embedder(identity, embedder_options(self.settings)))

    async def catch_up(self, scope: Scope, seq: int) -> bool:
        """Wait a moment until the user's vectors have come to a journal position, and true when they have."""
        served = self.vectors[0]
        if seq == served.reached(scope) and self._recorded in ("", served.embedder.identity, self._refused):
            return True
        task = self._background(self.follow(scope))
        wait = None if self.deterministic else self.settings.catch_up_ms / 1000
        finished, _ = await asyncio.wait({task}, timeout=wait)
        return bool(finished) and task.result()

    async def flush(self, scope: Scope) -> None:
        """Wait until the user's projections have caught up; raises ModelUnavailable when a model does not answer."""
        self.check_open()
        if not await self._background(self._follow_to_end(scope)):
            reasons = "; ".join(projection.last_error for projection in self.vectors if projection.last_error)
            raise ModelUnavailable(f"projections could not catch up: {reasons or 'the model does not answer'}")

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
        parked = await self.log.parked(scope)
        out = {"graph": head - await self.graph.watermark(scope.user_id)}
        for projection in self.vectors:
            stuck = sum(item.projection == projection.name for item in parked)
            out[projection.name] = head - await projection.index.watermark(scope.user_id) + stuck
        return out

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
        user = scope.user_id
        async with self._outline_locks.setdefault(user, asyncio.Lock()):
            erasures, outline = self._outlines.pop(user, (-1, Outline()))
            head = await self.log.head(scope)
            while head.seq != outline.seq or head.erasures != erasures:
                if head.erasures != erasures:
                    if outline.seq:
                        self.erased(user)
                    outline, erasures = Outline(), head.erasures
                rows, gone, head = await self.log.outline(scope, outline.seq)
                if head.erasures == erasures:
                    outline.put(rows, head.seq)
                    outline.drop(gone, head.seq)
            outline.at, self._recorded = head.at, head.embedder
            self._outlines[user] = (head.erasures, outline)
            snapshot = outline.snapshot()
        self._trim()
        if through is None or through >= snapshot.seq:
            return snapshot
        earlier, absent = await self.log.outline_at(scope, through)
        patched = snapshot.copy()
        patched.drop(absent, snapshot.seq)
        patched.put(earlier, snapshot.seq)
        return patched

    def _trim(self) -> None:
        total = sum(outline.size for _, outline in self._outlines.values())
        while total > OUTLINE_ROWS and len(self._outlines) > 1:
            _, (_, outline) = self._outlines.popitem(last=False)
            total -= outline.size

    def keep_receipt(self, receipt_id: str, receipt: Any) -> None:
        """Remember a recall's receipt; the last 1,000 stay in the process."""
        self.receipts[receipt_id] = receipt
        while len(self.receipts) > RECEIPTS:
            self.receipts.popitem(last=False)

    def erased(self, user_id: str) -> None:
        """Something of a user was erased, here or by another process: drop what is cached of that user."""
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
            self._outline_locks.clear()
            self._retrying.clear()
            self._switching, self._tasks = asyncio.Lock(), set()
            for projection in self.vectors:
                projection.after_fork()

    async def close(self) -> None:
        """Let running projections finish for a moment, then close models and stores."""
        if self.closed:
            return
        self.closed = True
        self._after_fork()
        if self._tasks:
            _, late = await asyncio.wait(set(self._tasks), timeout=None if self.deterministic else 5.0)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        for projection in (*self.vectors, *self._former):
            await projection.embedder.close()
        await self.session.close()
        await self.log.close()


async def open_resources(settings: Settings) -> Resources:
    """Open what the settings name. Raises ConfigError, SchemaMismatch, CorruptStore or StoreUnavailable."""
    from agentmem.stores import sqlite  # lazy: loads the driver

    clock = settings.clock or SystemClock()
    log = await sqlite.open_log(settings.database, clock)
    session: SessionStore | None = None
    try:
        session = await _open_session(settings, clock)
        meta = await log.meta()
        notices: list[str] = []
        opening = await log.count_opening()
        ids = RandomIds(clock) if settings.seed is None else SeededIds(clock, settings.seed, opening)
        resources = Resources(
            settings=settings, clock=clock, ids=ids, log=log, graph=sqlite.open_graph(log.database, clock),
            session=session,
            vectors=[], auditor=Auditor(settings), store_id=meta["store_id"],
            open_index=partial(sqlite.open_vectors, log.database), upkeep=sqlite.open_upkeep(log.database),
            notices=notices,
        )  # fmt: skip
        for embedder in await _embedders(settings, log, notices):
            await add_projection(resources, embedder)
        return resources
    except BaseException:
        if session is not None:
            await session.close()
        await log.close()
        raise


async def _open_session(settings: Settings, clock: Clock) -> SessionStore:
    if (url := settings.session_server) is not None:
        from agentmem.stores import redis  # lazy: an extra

        return await redis.open_session(url, clock)
    from agentmem.stores import sqlite

    assert settings.session_file is not None
    return await sqlite.open_session(settings.session_file, clock)


async def add_projection(resources: Resources, embedder: Embedder) -> VectorProjection:
    """Open the vectors of one more embedder; they are written from now on, and served when they are the first."""
    projection = await open_projection(resources, embedder)
    resources.vectors.append(projection)
    return projection


async def open_projection(resources: Resources, embedder: Embedder) -> VectorProjection:
    """The vectors of an embedder, neither written nor served yet."""
    settings = resources.settings
    budget = settings.vector_cache_mb * 1024 * 1024
    index = await resources.open_index(embedder.identity, embedder.dimensions, budget)
    return VectorProjection(
        embedder, index, resources.log, resources.clock, keep_tokens=settings.recall_profile == "best"
    )


def embedder_options(settings: Settings) -> EmbedderOptions:
    """What the settings say to any embedder."""
    return EmbedderOptions(
        models=settings.model_folder, threads=settings.threads, timeout=settings.model_timeout,
        dimensions=settings.dimensions, base_url=settings.base_url,
    )  # fmt: skip


async def _embedders(settings: Settings, log: LogStore, notices: list[str]) -> list[Embedder]:
    """The recorded embedder, then the one being built beside it. A new store records what the settings resolve to."""
    options = embedder_options(settings)
    meta = await log.meta()
    spec = settings.embedder
    recorded = meta.get("embedder")
    if recorded is None:
        chosen = open_embedder(resolve_auto(options) if spec == "auto" else spec, options)
        recorded = (await log.default_meta({"embedder": chosen.identity}))["embedder"]
        if spec == "auto" and recorded.startswith("hash:"):
            notices.append(
                "No local model was found, so text is matched by its words (embedder hash). "
                "Install one with: pip install 'agentmem-graph[local]', then: agentmem rebuild --embedder local"
            )
    elif spec != "auto":
        wanted = open_embedder(spec, options).identity
        if wanted != recorded:
            notices.append(
                f"This store was built with {recorded} and keeps it; to change: agentmem rebuild --embedder {wanted}"
            )
    names = dict.fromkeys([recorded] + ([meta["embedder_next"]] if meta.get("embedder_next") else []))
    return [open_embedder(name, options) for name in names]
