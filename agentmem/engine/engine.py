"""What is opened once and shared by every view: stores, models, clock, ids, caches; and the one way to write."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, tzinfo
from typing import Any, TypedDict, TypeVar, Unpack
from weakref import WeakValueDictionary

from agentmem.core.changes import AuditEntry, Change, JournalEntry, PromotionAudit, WriteAttempt, derive_change_id
from agentmem.core.clock import (
    Clock,
    IdSource,
    RandomIds,
    SeededIds,
    Stopwatch,
    SystemClock,
    from_micros,
    latest_moment,
)
from agentmem.core.columns import RecordColumns
from agentmem.core.lru import LruDict
from agentmem.core.records import Turn
from agentmem.core.scope import Scope
from agentmem.core.telemetry import DEBUG, WARNING, CacheStats, LatencyStats, log_event
from agentmem.engine.auditor import MEMORY_TYPES, Auditor
from agentmem.engine.caches import ColumnCache
from agentmem.engine.graph_projection import GraphProjection
from agentmem.engine.graph_vectors import GraphVectorProjection
from agentmem.engine.opening import build_embedder_options, open_projection, open_recorded_embedders
from agentmem.engine.projections import SyncRetrier
from agentmem.engine.vector_projection import VectorProjection
from agentmem.errors import AgentMemError, Closed, Conflict, ModelUnavailable, StoreError, StoreUnavailable
from agentmem.models.given_models import is_given, to_reranker
from agentmem.models.protocols import Embedder, Reranker, RerankerOptions
from agentmem.models.registry import LLMRegistry, open_embedder, open_reranker
from agentmem.settings.settings import Settings
from agentmem.stores.admin import StoreAdmin
from agentmem.stores.api_keys import ApiKeyStore
from agentmem.stores.job_queue import JobQueue
from agentmem.stores.protocols import GraphStore, LogStore, SessionStore
from agentmem.stores.registry import OpenIndex, open_stores

AfterCommit = Callable[[list[JournalEntry]], Awaitable[None]]
BuildChanges = Callable[[WriteAttempt], Awaitable[Change | Sequence[Change] | None]]
MAX_WRITE_ATTEMPTS = 5


class AuditOptions(TypedDict, total=False):
    """What goes into the audit row of a write, and the token of the lease under which it is done.

    The write is LeaseLost when the lease has passed on.
    """

    details: Mapping[str, Any] | None
    promotion: PromotionAudit | None
    fence: int | None


class WriteOptions(AuditOptions, total=False):
    """What a write may be given. `request_hash` is the fingerprint of the arguments under the `idempotency_key`."""

    idempotency_key: str | None
    request_hash: str


T = TypeVar("T")
MAX_RECEIPTS = 1000
MAX_DETACHED_TASKS = 32  # that run in the background before writes wait for their vectors again
NOTICE_RESTORED = "The log was restored from an earlier backup: what was stored after that backup is gone."
NOTICE_VECTORS_PENDING = "Some of what was just stored is found by its words only: its vectors are not built yet."


@dataclass(repr=False)  # settings, receipts and caches hold addresses and users' words
class Engine:
    """Open stores and models. Made by `open_engine`; shared by all scoped views; closed once."""

    settings: Settings
    clock: Clock
    ids: IdSource
    log: LogStore
    graph: GraphStore
    graph_projection: GraphProjection | None  # what keeps a graph in step that stands outside of the log
    session: SessionStore
    vector_projections: list[VectorProjection]
    auditor: Auditor
    store_id: str
    llms: LLMRegistry
    reranker: Reranker | None
    open_vector_index: OpenIndex
    admin: StoreAdmin
    job_queue: JobQueue
    api_keys: ApiKeyStore
    notices: list[str] = field(default_factory=list)
    receipts: LruDict[str, Any] = field(default_factory=lambda: LruDict(MAX_RECEIPTS))
    erasure_counts: Counter[str] = field(default_factory=Counter)  # by user, those of this process
    erasure_callbacks: list[Callable[[str], None]] = field(default_factory=list)
    turn_callbacks: list[Callable[[str], None]] = field(default_factory=list)  # called with the user of stored turns
    latency_stats: LatencyStats = field(default_factory=LatencyStats)
    cache_stats: CacheStats = field(default_factory=CacheStats)
    closed: bool = False
    _tasks: set[asyncio.Task[Any]] = field(default_factory=set)
    _retry_locks: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)
    _embedder_switch_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    # no longer served; recalls may still hold them
    _retired_projections: list[VectorProjection] = field(default_factory=list)
    _restored_users: set[str] = field(default_factory=set)  # of whom no recall has said so yet
    _unusable_embedder: str = ""  # one that this process cannot open
    _pid: int = field(default_factory=os.getpid)
    _shared: dict[type, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._column_cache = ColumnCache(self.drop_user_caches, self.note_restore, self.cache_stats)
        self._sync_retrier = SyncRetrier(self.sync_projections)

    @property
    def is_deterministic(self) -> bool:
        """Whether ids are seeded: then nothing runs under a deadline."""
        return self.settings.seed is not None

    @property
    def zone(self) -> tzinfo | None:
        """The time zone of all users, None where each has their own."""
        return self.settings.zone

    # -- writing

    async def write(
        self,
        scope: Scope,
        operation: str,
        build: Callable[[WriteAttempt], Awaitable[Change | None]],
        *,
        kind: str,
        **options: Unpack[WriteOptions],
    ) -> JournalEntry | None:
        """Write one Change; see `write_all`. None when `build` found nothing to do."""
        entries = await self.write_all(scope, operation, build, kind=kind, **options)
        return entries[0] if entries else None

    async def write_all(
        self,
        scope: Scope,
        operation: str,
        build: BuildChanges,
        *,
        kind: str,
        after_commit: AfterCommit | None = None,
        is_detached: bool = False,
        **options: Unpack[WriteOptions],
    ) -> list[JournalEntry]:
        """Build changes from what is read and commit them; when the state moved on meanwhile, read and build again.

        Who has to try again does so one by one with the others of this process, so that any number of them get through.
        A write done before under the same idempotency key in this channel is returned and not done again. [] when
        `build` found nothing to do. `after_commit` is run with what was written, not waited for: for caches. With
        `is_detached` nobody waits for vectors either, unless many writes still lack theirs.
        """
        self.check_open()
        idempotency_key, request_hash = options.get("idempotency_key"), options.get("request_hash", "")
        watch, operation_id = Stopwatch(self.clock), self.ids.new_id()
        change_id = operation_id if idempotency_key is None else derive_change_id(scope, operation, idempotency_key)
        if idempotency_key is not None and (before := await self.log.find_applied(change_id, request_hash, scope)):
            return [before]
        attempt = WriteAttempt(scope, operation, operation_id, change_id, request_hash, self.clock.now())
        memory_type, turn = MEMORY_TYPES.get(kind, "semantic"), None
        for left in reversed(range(MAX_WRITE_ATTEMPTS)):
            try:
                async with turn or nullcontext():
                    made = await build(attempt)
                    changes = [made] if isinstance(made, Change) else made
                    if not changes:
                        return []
                    audit = self.auditor.build_changes_entry(
                        attempt,
                        changes,
                        memory_type,
                        latency_ms=watch.milliseconds(),
                        details=options.get("details"),
                        promotion=options.get("promotion"),
                    )
                    return await self.commit(scope, changes, audit, options.get("fence"), after_commit, is_detached)
            except Conflict as error:
                if not (error.stale and left):
                    await self._audit_failure(attempt, memory_type, error)
                    raise
                turn = self._retry_locks.setdefault(scope.user_id, asyncio.Lock())
                attempt = replace(attempt, is_retry=True)
            except AgentMemError as error:
                await self._audit_failure(attempt, memory_type, error)
                raise
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def commit(
        self,
        scope: Scope,
        changes: Sequence[Change],
        audit: AuditEntry | None = None,
        fence: int | None = None,
        after_commit: AfterCommit | None = None,
        is_detached: bool = False,
    ) -> list[JournalEntry]:
        """Append to the log (acknowledged there), then bring the projections along; their failure fails no write."""
        watch, served = Stopwatch(self.clock), self.vector_projections[:1]
        inline = served[0] if served and served[0].is_synchronous else None
        known = max((vectors.local_watermark(scope) for vectors in self.vector_projections), default=-1)
        entries = await self.log.append(changes, audit, fence, inline)
        if any(entry.seq <= known and not entry.already_applied for entry in entries):
            self.note_restore(scope.user_id)
        self.latency_stats.add("write", watch.milliseconds())
        if any(isinstance(record, Turn) for change in changes for record in change.upserts):
            for note in self.turn_callbacks:
                note(scope.user_id)
        said = {"operation": entries[0].operation, "operation_id": entries[0].operation_id, "changes": len(entries)}
        log_event(DEBUG, "stored", user_id=scope.user_id, ms=watch.milliseconds(), **said)
        follow = [self._spawn(self._sync_or_retry(scope, entries))] if self._needs_sync(scope, entries) else []
        if self.graph_projection is not None and self.is_deterministic:
            follow.append(self._spawn(self.graph_projection.sync(scope)))
        if after_commit is not None:
            self._spawn(after_commit(entries))
        wait = (2.0 if self.graph_projection is None else 0.1) + 0.2 * len(entries)  # what many lack should not pile up
        waits = self.is_deterministic or not is_detached or len(self._tasks) > MAX_DETACHED_TASKS
        try:
            if follow and waits:
                await asyncio.wait(follow, timeout=None if self.is_deterministic else wait)
        finally:  # a commit there takes far longer than the one here, so nobody waits for it, nor for its beginning
            if self.graph_projection is not None and not self.is_deterministic:
                self.graph_projection.notify(scope, entries)
        return entries

    def _needs_sync(self, scope: Scope, entries: Sequence[JournalEntry]) -> bool:
        """Whether any vectors lack what was written; those that need no model came with it."""
        last = max((entry.seq for entry in entries), default=-1)  # what is repeated may stand behind what is new
        return not entries or any(vectors.local_watermark(scope) < last for vectors in self.vector_projections)

    async def _sync_or_retry(self, scope: Scope, entries: Sequence[JournalEntry]) -> bool:
        done = await self.sync_projections(scope, entries)
        if not done and self.graph_projection is not None and not self.is_deterministic:
            self._sync_retrier.add(scope)  # on servers there may be no next write or recall here for long
        return done

    async def _audit_failure(self, attempt: WriteAttempt, memory_type: str, error: AgentMemError) -> None:
        if isinstance(error, StoreUnavailable):  # to ask the store again would only double the caller's wait
            return
        # The message may quote what was given: only its type is kept.
        row = self.auditor.build_write_entry(
            attempt.operation,
            attempt.scope,
            memory_type=memory_type,
            operation_id=attempt.operation_id,
            error=type(error).__name__,
        )
        with suppress(StoreError):  # the store's own failure is what is being reported
            await self.write_audit(row)

    async def write_audit(self, row: AuditEntry | None) -> None:
        """Write a row of the audit log; None, where the audit level asks for none, writes nothing."""
        if row is not None:
            await self.log.write_audit([row])

    async def write_read_audit(self, row: AuditEntry | None) -> bool:
        """Write the row of a read; False, with an event, where the store takes no writes, but can still be read."""
        try:
            await self.write_audit(row)
        except StoreUnavailable as error:
            log_event(WARNING, "read_not_audited", operation=row.operation if row else "", error=str(error))
            return False
        return True

    # -- projections

    async def sync_projections(
        self, scope: Scope, entries: Sequence[JournalEntry] = (), *, full_history: bool = False
    ) -> bool:
        """Bring the vectors of the user up to the journal; True when they are.

        An embedder that is being built beside the serving one gets what was just written when it has all before that;
        the user's history is `rebuild`'s, except with `full_history`.
        """
        done = True
        try:
            if not entries:  # a write does not take the time to look; the next recall does
                await self.adopt_recorded_embedder()
        except StoreError as error:
            self.vector_projections[0].last_error, done = str(error), False
        for projection in self.vector_projections:
            try:
                if (
                    projection is self.vector_projections[0]
                    or full_history
                    or await projection.can_append(scope, entries)
                ):
                    done = await projection.sync(scope, entries) and done
            except AgentMemError as error:  # whatever a projection meets, it fails no write and no recall
                projection.last_error, done = str(error), False
        return done

    async def adopt_recorded_embedder(self) -> None:
        """Serve the embedder that the store records now; `agentmem admin rebuild` elsewhere may have switched it."""
        recorded = (await self.log.meta()).get("embedder", "")
        if not self.vector_projections or recorded in (
            "",
            self.vector_projections[0].embedder.identity,
            self._unusable_embedder,
        ):
            return
        async with self._embedder_switch_lock:
            found = [projection for projection in self.vector_projections if projection.embedder.identity == recorded]
            try:
                embedder = (
                    found[0].embedder if found else open_embedder(recorded, build_embedder_options(self.settings))
                )
                served = found[0] if found else await self.open_projection(embedder)
            except AgentMemError as error:
                self._unusable_embedder = recorded
                self.notices.append(f"The store was rebuilt for {recorded}, which cannot be opened here: {error}")
                return
            self._retired_projections += [
                projection for projection in self.vector_projections if projection is not served
            ]
            self.vector_projections = [served]

    async def open_projection(self, embedder: Embedder) -> VectorProjection:
        """The vectors of an embedder, neither written nor served yet."""
        return await open_projection(embedder, self.open_vector_index, self.log, self.clock, self.settings)

    async def wait_for_own_writes(self, scope: Scope, columns: RecordColumns) -> tuple[str, ...]:
        """Wait a moment until the user's vectors are as far as the columns; a notice where they are not."""
        notices = [NOTICE_RESTORED] if scope.user_id in self._restored_users else []
        self._restored_users.discard(scope.user_id)
        if self.graph_projection is not None:
            if notices and not self.graph_projection.is_backing_off():  # what was erased is not to be told again
                await self._spawn(self.graph_projection.verify(scope))
            self.graph_projection.catch_up(scope, columns)
        served, asked = self.vector_projections[0], dict[asyncio.Task[bool], str]()
        served_here = ("", served.embedder.identity, self._unusable_embedder)
        if served.is_behind(scope, columns) or self._column_cache.recorded_embedder not in served_here:
            asked[self._spawn(self.sync_projections(scope))] = NOTICE_VECTORS_PENDING
        if not asked:
            return tuple(notices)
        wait = None if self.is_deterministic else self.settings.catch_up_ms / 1000
        finished, _ = await asyncio.wait(asked, timeout=wait)
        notices += [notice for task, notice in asked.items() if task not in finished or not task.result()]
        return tuple(notices)

    async def flush(self, scope: Scope) -> None:
        """Wait until the user's projections have caught up.

        Raises ModelUnavailable when a model does not answer, StoreUnavailable when the graph does not.
        """
        self.check_open()
        goal = (await self.log.head(scope)).seq
        graph = None if self.graph_projection is None else self._spawn(self.graph_projection.sync_fully(scope))
        if not await self._spawn(self._sync_fully(scope)):
            reasons = "; ".join(
                projection.last_error for projection in self.vector_projections if projection.last_error
            )
            raise ModelUnavailable(f"projections could not catch up: {reasons or 'the model does not answer'}")
        if graph is not None and self.graph_projection is not None and not await graph:
            raise StoreUnavailable(f"the graph could not catch up: {self.graph_projection.last_error}")
        nodes = None if self.graph_projection is None else self.graph_projection.graph_vectors
        if nodes is not None and not await self._spawn(nodes.sync(scope, through_seq=goal)):
            raise StoreUnavailable(f"the vectors in the graph could not catch up: {nodes.last_error}")

    async def _sync_fully(self, scope: Scope) -> bool:
        done = await self.sync_projections(scope)
        for projection in self.vector_projections:
            try:
                done = await projection.sync_fully(scope)
            except StoreError as error:
                projection.last_error, done = str(error), False
        return done

    async def lag(self, scope: Scope) -> dict[str, int]:
        """Changes that each projection has still to apply, parked ones counted; 0 when caught up."""
        head = (await self.log.head(scope)).seq
        parked = Counter(item.projection for item in await self.log.dead_letters(scope))
        replica = self.graph_projection
        marks = {"graph": head if replica is None else await replica.watermark(scope.user_id)}
        for projection in self.vector_projections:
            marks[projection.name] = await projection.index.watermark(scope.user_id)
        if replica is not None and (nodes := replica.graph_vectors) is not None:
            marks[nodes.name] = await nodes.watermark(scope.user_id)
        return {name: head - mark + parked[name] for name, mark in marks.items()}

    async def drain_background(self) -> None:
        """Wait for what runs in the background now, so that nothing of it comes after what is done next."""
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=5.0)

    def _spawn(self, work: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # -- reading

    async def now(self, scope: Scope) -> datetime:
        """The clock's time, but never before the user's latest record: a clock set back brings nothing retired back."""
        return latest_moment(self.clock.now(), from_micros((await self.log.head(scope)).last_at))

    async def read_columns(self, scope: Scope, through_seq: int | None = None) -> RecordColumns:
        """The user's columns as of now, or as they were at a journal position."""
        self.check_open()
        return await self._column_cache.get(self.log, scope, through_seq)

    def get_shared(self, kind: type[T], make: Callable[[], T] | None = None) -> T:
        """The one object of a class in this process, made at its first use. Erasures call its `forget`, if any."""
        if kind not in self._shared:
            made = self._shared[kind] = (make or kind)()
            if hasattr(made, "forget"):
                self.erasure_callbacks.append(made.forget)
        found: T = self._shared[kind]
        return found

    def cache_receipt(self, receipt_id: str, receipt: Any) -> None:
        """Remember a recall's receipt; the last 1,000 stay in the process."""
        self.receipts[receipt_id] = receipt

    def invalidate_user(self, user_id: str) -> None:
        """Something of a user was erased here: drop what is cached of that user, also by recalls under way."""
        self.erasure_counts[user_id] += 1
        self.drop_user_caches(user_id)

    def drop_user_caches(self, user_id: str) -> None:
        """Drop what is cached of a user of whom something was erased, here or by another process."""
        for name in [name for name, receipt in self.receipts.items() if receipt.scope.user_id == user_id]:
            del self.receipts[name]
        for forget in self.erasure_callbacks:
            forget(user_id)

    def note_restore(self, user_id: str) -> None:
        """The user's journal is not the one that this process knew: let go of everything that was made from that."""
        log_event(WARNING, "log_restored", user_id=user_id)
        self._restored_users.add(user_id)
        self.invalidate_user(user_id)
        for projection in (*self.vector_projections, *self._retired_projections):
            projection.forget_user(user_id)
        if self.graph_projection is not None:
            self.graph_projection.forget_watermark(user_id)
        self._spawn(self._clear_session(Scope(user_id)))

    async def _clear_session(self, scope: Scope) -> None:
        with suppress(StoreError):  # what is cached there ends by itself
            await self.session.clear(scope)

    # -- life

    def check_open(self) -> None:
        """Raise Closed after `close`."""
        if self.closed:
            raise Closed("this memory was closed; open a new one")
        self._reset_after_fork()

    def _reset_after_fork(self) -> None:
        """Forget the tasks and locks of the process that this one was forked from: they never end here."""
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self._column_cache.reset_after_fork()
            self._sync_retrier.reset_after_fork()
            self._retry_locks.clear()
            self._embedder_switch_lock, self._tasks = asyncio.Lock(), set()
            for projection in self.vector_projections:
                projection.reset_after_fork()
            if self.graph_projection is not None:
                self.graph_projection.reset_after_fork()

    async def close(self) -> None:
        """Let running projections finish for a moment, then close models and stores."""
        if self.closed:
            return
        self.closed = True
        self._reset_after_fork()
        await self._sync_retrier.close()
        if self._tasks:
            _, late = await asyncio.wait(set(self._tasks), timeout=None if self.is_deterministic else 5.0)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        for projection in (*self.vector_projections, *self._retired_projections):
            if not is_given(projection.embedder, self.settings):
                await projection.embedder.close()
        if self.reranker is not None and not is_given(self.reranker, self.settings):
            await self.reranker.close()
        await self.llms.close()
        if self.graph_projection is not None:
            await self.graph_projection.close(None if self.is_deterministic else 5.0)
        await self.session.close()
        await self.log.close()


async def open_engine(settings: Settings) -> Engine:
    """Open what the settings name. Raises ConfigError, SchemaMismatch, CorruptStore or StoreUnavailable."""
    clock = settings.clock or SystemClock()
    stack = await open_stores(settings, clock)
    try:
        log, replica = stack.log, stack.replicated_graph
        opening, llms = await _count_opening(log, settings, stack.notices), LLMRegistry(settings)
        engine = Engine(
            settings=settings,
            clock=clock,
            ids=RandomIds(clock) if settings.seed is None else SeededIds(clock, settings.seed, opening),
            log=log,
            graph=stack.graph,
            graph_projection=None if replica is None else GraphProjection(replica, log, clock, notices=stack.notices),
            session=stack.session,
            vector_projections=[],
            auditor=Auditor(settings),
            store_id=(await log.meta())["store_id"],
            llms=llms,
            reranker=_open_reranker(settings, llms),
            open_vector_index=stack.open_index,
            admin=stack.admin,
            job_queue=stack.job_queue,
            api_keys=stack.api_keys,
            notices=stack.notices,
        )
        for embedder in await open_recorded_embedders(settings, log, engine.notices):
            await add_projection(engine, embedder)
        if engine.graph_projection is not None and stack.graph_node_vectors is not None:
            engine.graph_projection.graph_vectors = GraphVectorProjection(
                stack.graph_node_vectors, log, lambda: engine.vector_projections[0]
            )
        return engine
    except BaseException:
        await stack.session.close()
        if stack.replicated_graph is not None:
            await stack.replicated_graph.close()
        await stack.log.close()
        raise


async def _count_opening(log: LogStore, settings: Settings, notices: list[str]) -> int:
    """Which opening of the store this is; where it cannot be written, 0 and a notice. Seeded ids need the number."""
    try:
        return await log.increment_openings()
    except StoreUnavailable as error:
        if settings.seed is not None:
            raise
        notices.append(f"This memory can be read and takes no writes: {error}")
        return 0


def _open_reranker(settings: Settings, llms: LLMRegistry) -> Reranker | None:
    options = RerankerOptions(
        models_dir=settings.model_folder, threads=settings.threads, llm_factory=lambda: llms.for_purpose("recall")
    )
    if settings.is_given(settings.reranker):
        return to_reranker(settings.reranker, settings.model_objects[settings.reranker])
    return open_reranker(settings.reranker, options)


async def add_projection(engine: Engine, embedder: Embedder) -> VectorProjection:
    """Open the vectors of one more embedder; they are written from now on, and served when they are the first."""
    projection = await engine.open_projection(embedder)
    engine.vector_projections.append(projection)
    return projection
