"""Keeps vectors in step with the log: applies the journal from a user's watermark on, never skipping, never twice.

The graph of the embedded stack is written by the log's own transaction and is never behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from agentmem.core.changes import JournalEntry, StoredRecord
from agentmem.core.clock import Clock
from agentmem.core.columns import RecordColumns
from agentmem.core.documents import Document
from agentmem.core.event_loop import Backoff
from agentmem.core.record import Record
from agentmem.core.redaction import failure_reason
from agentmem.core.scope import Scope
from agentmem.core.telemetry import WARNING, log_event
from agentmem.errors import AgentMemError, InvalidModelOutput, ModelError, ModelUnavailable
from agentmem.models.protocols import Embedder, SyncEmbedder, TokenEmbedder, TokenVectors, Vectors
from agentmem.stores.protocols import LogStore, VectorIndex
from agentmem.stores.values import SENTENCE, WHOLE, DeadLetter, VectorBatch, VectorRow
from agentmem.text.chunking import MAX_SENTENCE_CHARS, Chunk, chunk_text

CHANGE_BATCH_SIZE = 500  # changes applied at once
MAX_INLINE_TEXTS = 32  # texts of a write whose vectors it may wait for, under the user's lock
BACKOFF_SECONDS = 30.0  # seconds without tries after a model failed
MAX_ATTEMPTS = 3  # of one change, before it is parked
MAX_TRACKED_USERS = 10_000  # whose watermark is remembered, to spare a read per write
# kinds whose text may change; a changed claim is a new Fact, a turn is verbatim
MUTABLE_TEXT_KINDS = ("Entity", "Goal", "Document")

RecordChunks = list[tuple[StoredRecord, Chunk]]


@dataclass
class VectorProjection:
    """Vectors of one embedder, made from the journal.

    `keep_tokens` also stores the word pieces' vectors of turns (recall profile `best`).
    """

    embedder: Embedder
    index: VectorIndex
    log: LogStore
    clock: Clock
    keep_tokens: bool = False
    precomputed: dict[tuple[str, str], NDArray[np.float32]] = field(default_factory=dict)
    _locks: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)
    _local_watermarks: dict[str, int] = field(default_factory=dict)
    _backoff: Backoff = field(default_factory=Backoff)
    _attempts: dict[tuple[str, int], int] = field(default_factory=dict)
    last_error: str = ""

    @property
    def is_synchronous(self) -> bool:
        """Whether a write can have its vectors at once."""
        return isinstance(self.embedder, SyncEmbedder) and not self.keep_tokens

    @property
    def name(self) -> str:
        """The projection's name in watermarks and lag."""
        return f"vectors/{self.embedder.identity}"

    def is_backing_off(self) -> bool:
        """Whether the model failed a moment ago and is left alone."""
        return self._backoff.is_active(BACKOFF_SECONDS)

    def reset_backoff(self) -> None:
        """Try again at once, however lately the model failed."""
        self._backoff.reset()

    def local_watermark(self, scope: Scope) -> int:
        """Up to where this process brought the user's vectors when it last did; -1 when it does not know."""
        return self._local_watermarks.get(scope.user_id, -1)

    def forget_user(self, user_id: str) -> None:
        """The log was restored from a backup: look again where the user's vectors stand, and load them again."""
        self._local_watermarks.pop(user_id, None)
        self.index.drop_cached(user_id)

    def is_behind(self, scope: Scope, columns: RecordColumns) -> bool:
        """Whether the user's vectors are not as far as the columns, by what the store said with it.

        What this process once brought there counts only where the store said nothing: a server that failed may have
        lost it since.
        """
        if (mark := columns.watermarks.get(self.name)) is None:
            return self.local_watermark(scope) != columns.seq
        self._local_watermarks[scope.user_id] = max(mark, self.local_watermark(scope))
        return mark < columns.seq

    def reset_after_fork(self) -> None:
        """Forget locks that another process holds; nobody here would ever release them."""
        self._locks.clear()

    async def sync_fully(self, scope: Scope, progress: Callable[[int], None] | None = None) -> bool:
        """Follow until nothing is left, without a rest between the tries of a change; False when the model is away."""
        before: tuple[int, int] | None = None
        while True:
            self.reset_backoff()
            if await self.sync(scope, progress=progress):
                return True
            reached = await self.index.watermark(scope.user_id), self._count_attempts(scope)
            if reached == before:
                return False
            before = reached

    def _count_attempts(self, scope: Scope) -> int:
        """How often changes of this user were tried in vain and are to be tried again."""
        return sum(tries for (user_id, _), tries in self._attempts.items() if user_id == scope.user_id)

    async def can_append(self, scope: Scope, entries: Sequence[JournalEntry]) -> bool:
        """Whether the user's vectors lack nothing that was written before these entries."""
        fresh = [entry.seq for entry in entries if not entry.already_applied]
        return bool(fresh) and await self.index.watermark(scope.user_id) >= fresh[0] - 1

    async def sync(
        self,
        scope: Scope,
        entries: Sequence[JournalEntry] = (),
        progress: Callable[[int], None] | None = None,
        *,
        limit: int | None = None,
    ) -> bool:
        """Apply what the journal holds beyond the watermark, `limit` changes or a few more; True when caught up.

        `entries` just written spare a read when they follow the watermark directly. A model that fails is left alone
        for 30 s; a change that keeps failing is parked and passed over.
        """
        if entries and max(entry.seq for entry in entries) <= self.local_watermark(scope):
            return True
        lock = self._locks.setdefault(scope.user_id, asyncio.Lock())
        async with lock:
            if self.is_backing_off():  # perhaps since whoever had the lock
                return False
            after, start = self._local_watermarks.pop(scope.user_id, -1), None
            # what this process wrote last may not be where the store stands
            if not self._contiguous_entries(entries, after):
                after = await self.index.watermark(scope.user_id)
            while True:
                written = self._contiguous_entries(entries, after)
                todo = written or await self.log.changes(scope, after, CHANGE_BATCH_SIZE)
                if not todo:
                    break
                entries = ()
                reached = await self._advance(scope, after, todo)
                if reached is None:
                    return False
                if progress is not None:
                    progress(reached - after)
                start = after if start is None else start
                after = reached
                if limit is not None and after - start >= limit:
                    return False
                if written and reached == todo[-1].seq:
                    break  # what others wrote meanwhile is for the next recall
            self._set_local_watermark(scope.user_id, after)
        return True

    def embed_now(self, entries: Sequence[JournalEntry]) -> VectorBatch | None:
        """See InlineVectors."""
        embedder = self.embedder
        if not isinstance(embedder, SyncEmbedder) or len(entries) > MAX_INLINE_TEXTS:
            return None
        fresh, replaced = _select_for_embedding(entries)
        wanted = self._chunk_records(fresh)
        if len(wanted) > MAX_INLINE_TEXTS:
            return None
        made: list[VectorRow] = []
        if wanted:
            vectors = self._check_vectors(embedder.embed_sync([piece.text for _, piece in wanted]), len(wanted))
            made = self._build_rows(wanted, vectors, {})
        return VectorBatch(entries[0].seq - 1, entries[-1].seq, made, replaced)

    def on_committed(self, entries: Sequence[JournalEntry]) -> None:
        """See InlineVectors."""
        self._set_local_watermark(entries[0].user_id, entries[-1].seq)
        self._drop_precomputed(entries)

    def _set_local_watermark(self, user_id: str, seq: int) -> None:
        self._local_watermarks[user_id] = seq
        if len(self._local_watermarks) > MAX_TRACKED_USERS:
            self._local_watermarks.clear()

    def _drop_precomputed(self, entries: Sequence[JournalEntry]) -> None:
        """Let go of the vectors that were given with what is written now."""
        for entry in entries:
            for stored in entry.upserts:
                self.precomputed.pop((entry.user_id, stored.record.id), None)

    @staticmethod
    def _contiguous_entries(entries: Sequence[JournalEntry], after_seq: int) -> Sequence[JournalEntry]:
        fresh = [entry for entry in entries if not entry.already_applied and entry.seq > after_seq]
        return fresh if fresh and fresh[0].seq == after_seq + 1 else ()

    async def _advance(self, scope: Scope, after_seq: int, entries: Sequence[JournalEntry]) -> int | None:
        try:
            batch = await self._embed_batch(after_seq, entries)
        except ModelUnavailable as error:
            log_event(WARNING, "model_away", projection=self.name, error=str(error))
            self.last_error = str(error)
            self._backoff.start()
            return None
        except ModelError as error:
            if len(entries) > 1:  # find the change that cannot be embedded
                half = len(entries) // 2
                middle = await self._advance(scope, after_seq, entries[:half])
                return middle if middle is None else await self._advance(scope, middle, entries[half:])
            batch_or_none = await self._record_failure(scope, after_seq, entries[0], error)
            if batch_or_none is None:
                return None
            batch = batch_or_none
        reached = (await self.index.apply({scope.user_id: batch}))[scope.user_id]
        self._drop_precomputed(entries)
        return reached

    async def _record_failure(
        self, scope: Scope, after_seq: int, entry: JournalEntry, error: ModelError
    ) -> VectorBatch | None:
        key = (scope.user_id, entry.seq)
        self._attempts[key] = attempts = self._attempts.get(key, 0) + 1
        self.last_error = str(error)
        if attempts < MAX_ATTEMPTS:
            self._backoff.start()
            return None
        del self._attempts[key]
        log_event(WARNING, "change_parked", projection=self.name, user_id=scope.user_id, seq=entry.seq)
        await self.log.write_dead_letter(
            DeadLetter(self.name, scope.user_id, entry.seq, str(error), attempts, self.clock.now())
        )
        return VectorBatch(after_seq, entry.seq)

    async def _embed_batch(self, after_seq: int, entries: Sequence[JournalEntry]) -> VectorBatch:
        fresh, replaced = _select_for_embedding(entries)
        wanted = self._chunk_records(fresh)
        made: list[VectorRow] = []
        if wanted:
            made = self._build_rows(wanted, *await self._embed([piece.text for _, piece in wanted]))
        return VectorBatch(after_seq, entries[-1].seq, made, replaced)

    def _chunk_records(self, fresh: Sequence[StoredRecord]) -> RecordChunks:
        sentences = SENTENCE in self.embedder.granularities
        return [
            (stored, piece) for stored in fresh for piece in _chunk_record(stored.record, include_sentences=sentences)
        ]

    def _build_rows(
        self, chunks: RecordChunks, vectors: Vectors, tokens: Mapping[int, TokenVectors]
    ) -> list[VectorRow]:
        out = []
        for row, (stored, piece) in enumerate(chunks):
            record, vector = stored.record, vectors[row]
            if piece.granularity == WHOLE:
                vector = self.precomputed.get((record.user_id, record.id), vector)
            asks = piece.text.rstrip().endswith(("?", "？", "؟"))
            pieces = tokens.get(row) if piece.granularity == WHOLE and record.kind == "Turn" else None
            out.append(
                VectorRow(
                    stored.ordinal,
                    record.kind,
                    record.channel,
                    piece.granularity,
                    piece.part,
                    (piece.start, piece.end),
                    vector.astype(np.float16),
                    None if pieces is None else (pieces.ids, pieces.vectors),
                    is_question=asks,
                )
            )
        return out

    async def _embed(self, texts: Sequence[str]) -> tuple[Vectors, Mapping[int, TokenVectors]]:
        embedder = self.embedder
        tokens: Sequence[TokenVectors] = ()
        try:
            if self.keep_tokens and isinstance(embedder, TokenEmbedder):
                vectors, tokens = await embedder.embed_tokens(texts)
            else:
                vectors = await embedder.embed(texts)
        except AgentMemError:
            raise
        except Exception as error:  # noqa: BLE001 - a mistake in a provider costs vectors, no write and no recall
            # Its words may quote the texts, and this reason is logged and stored.
            raise InvalidModelOutput(f"{embedder.identity} failed ({failure_reason(error)})") from None
        return self._check_vectors(vectors, len(texts)), dict(enumerate(tokens))

    def _check_vectors(self, vectors: Vectors, count: int) -> Vectors:
        embedder, wanted = self.embedder, (count, self.embedder.dimensions)
        if vectors.shape != wanted or not np.isfinite(vectors).all():
            raise InvalidModelOutput(
                f"{embedder.identity} should give finite vectors of shape {wanted}, gave {vectors.shape}"
            )
        return vectors


def _chunk_record(record: Record, *, include_sentences: bool) -> list[Chunk]:
    """The passages of a record. Each of several texts of a document is one, so that it is found by one alone."""
    if not isinstance(record, Document):
        return chunk_text(record.embedding_text(), include_sentences=include_sentences)
    if len(record.texts) < 2:  # a short one is a passage as it is: a search then gives the cosine with that text
        text = record.embedding_text()
        return chunk_text(text, include_sentences=include_sentences and len(text) > MAX_SENTENCE_CHARS)
    starts = accumulate((len(text) + 1 for text in record.texts), initial=0)  # a line each
    spans = [(start, start + len(text), text) for start, text in zip(starts, record.texts, strict=False)]
    return [Chunk(WHOLE, 0, *spans[0]), *(Chunk(SENTENCE, part, *span) for part, span in enumerate(spans, 1))]


def _select_for_embedding(entries: Sequence[JournalEntry]) -> tuple[list[StoredRecord], list[int]]:
    """Records whose text is new with these entries, and the ordinals among them whose vectors are replaced."""
    fresh: dict[int, StoredRecord] = {}
    for entry in entries:
        for stored in entry.upserts:
            record = stored.record
            if record.recorded_at == entry.recorded_at or record.kind in MUTABLE_TEXT_KINDS:
                fresh[stored.ordinal] = stored
    return list(fresh.values()), [
        ordinal for ordinal, stored in fresh.items() if stored.record.kind in MUTABLE_TEXT_KINDS
    ]
