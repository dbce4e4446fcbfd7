"""Keeps vectors in step with the log: applies the journal from a user's watermark on, never skipping, never twice.

The graph of the embedded stack is written by the log's own transaction and is never behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from agentmem.errors import AgentMemError, BadReply, ModelError, ModelUnavailable
from agentmem.events import WARNING, tell
from agentmem.model.changes import JournalEntry, Stored
from agentmem.model.clock import Clock
from agentmem.model.outline import Outline
from agentmem.model.scope import Scope
from agentmem.providers import Embedder, InstantEmbedder, TokenEmbedder, TokenVectors, Vectors
from agentmem.redaction import failure_reason
from agentmem.stores import SENTENCE, WHOLE, Batch, LogStore, Parked, Passage, VectorIndex
from agentmem.text.passages import Passage as Piece
from agentmem.text.passages import passages

BATCH = 500  # changes applied at once
INSTANT = 32  # texts of a write whose vectors it may wait for, under the user's lock
REST = 30.0  # seconds without tries after a model failed
TRIES = 3  # of one change, before it is parked
USERS_KNOWN = 10_000  # whose watermark is remembered, to spare a read per write
MUTABLE = ("Entity", "Goal")  # kinds whose text may change; a changed claim is a new Fact, a turn is verbatim

Wanted = list[tuple[Stored, Piece]]


def _now() -> float:
    """Seconds on the loop's own clock, which never goes back."""
    return asyncio.get_running_loop().time()


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
    given: dict[tuple[str, str], NDArray[np.float32]] = field(default_factory=dict)
    _locks: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)
    _reached: dict[str, int] = field(default_factory=dict)
    _failed_at: float = float("-inf")
    _attempts: dict[tuple[str, int], int] = field(default_factory=dict)
    last_error: str = ""

    @property
    def instant(self) -> bool:
        """Whether a write can have its vectors at once."""
        return isinstance(self.embedder, InstantEmbedder) and not self.keep_tokens

    @property
    def name(self) -> str:
        """The projection's name in watermarks and lag."""
        return f"vectors/{self.embedder.identity}"

    def resting(self) -> bool:
        """Whether the model failed a moment ago and is left alone."""
        return _now() - self._failed_at < REST

    def wake(self) -> None:
        """Try again at once, however lately the model failed."""
        self._failed_at = float("-inf")

    def reached(self, scope: Scope) -> int:
        """Up to where this process brought the user's vectors when it last did; -1 when it does not know."""
        return self._reached.get(scope.user_id, -1)

    def lacks(self, scope: Scope, outline: Outline) -> bool:
        """Whether the user's vectors are not where an outline is, by what the store said with it.

        What this process once brought there counts only where the store said nothing: a server that failed may have
        lost it since.
        """
        if (mark := outline.marks.get(self.name)) is None:
            return self.reached(scope) != outline.seq
        self._reached[scope.user_id] = max(mark, self.reached(scope))
        return mark < outline.seq

    def after_fork(self) -> None:
        """Forget locks that another process holds; nobody here would ever release them."""
        self._locks.clear()

    async def follow_to_end(self, scope: Scope, progress: Callable[[int], None] | None = None) -> bool:
        """Follow until nothing is left, without a rest between the tries of a change; False when the model is away."""
        before: tuple[int, int] | None = None
        while True:
            self.wake()
            if await self.follow(scope, progress=progress):
                return True
            reached = await self.index.watermark(scope.user_id), self._tries(scope)
            if reached == before:
                return False
            before = reached

    def _tries(self, scope: Scope) -> int:
        """How often changes of this user were tried in vain and are to be tried again."""
        return sum(tries for (user_id, _), tries in self._attempts.items() if user_id == scope.user_id)

    async def is_next(self, scope: Scope, entries: Sequence[JournalEntry]) -> bool:
        """Whether the user's vectors lack nothing that was written before these entries."""
        fresh = [entry.seq for entry in entries if not entry.repeated]
        return bool(fresh) and await self.index.watermark(scope.user_id) >= fresh[0] - 1

    async def follow(
        self, scope: Scope, entries: Sequence[JournalEntry] = (), progress: Callable[[int], None] | None = None, *,
        most: int | None = None,
    ) -> bool:  # fmt: skip
        """Apply what the journal holds beyond the watermark, `most` changes or a few more; True when caught up.

        `entries` just written spare a read when they follow the watermark directly. A model that fails is left alone
        for 30 s; a change that keeps failing is parked and passed over.
        """
        if entries and max(entry.seq for entry in entries) <= self.reached(scope):
            return True
        lock = self._locks.setdefault(scope.user_id, asyncio.Lock())
        async with lock:
            if self.resting():  # perhaps since whoever had the lock
                return False
            after, start = self._reached.pop(scope.user_id, -1), None
            if not self._next(entries, after):  # what this process wrote last may not be where the store stands
                after = await self.index.watermark(scope.user_id)
            while True:
                written = self._next(entries, after)
                todo = written or await self.log.changes(scope, after, BATCH)
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
                if most is not None and after - start >= most:
                    return False
                if written and reached == todo[-1].seq:
                    break  # what others wrote meanwhile is for the next recall
            self._remember(scope.user_id, after)
        return True

    def at_once(self, entries: Sequence[JournalEntry]) -> Batch | None:
        """See InstantVectors."""
        embedder = self.embedder
        if not isinstance(embedder, InstantEmbedder) or len(entries) > INSTANT:
            return None
        fresh, replaced = _to_embed(entries)
        wanted = self._pieces(fresh)
        if len(wanted) > INSTANT:
            return None
        made: list[Passage] = []
        if wanted:
            vectors = self._checked(embedder.vectors([piece.text for _, piece in wanted]), len(wanted))
            made = self._passages(wanted, vectors, {})
        return Batch(entries[0].seq - 1, entries[-1].seq, made, replaced)

    def committed(self, entries: Sequence[JournalEntry]) -> None:
        """See InstantVectors."""
        self._remember(entries[0].user_id, entries[-1].seq)
        self._used(entries)

    def _remember(self, user_id: str, seq: int) -> None:
        self._reached[user_id] = seq
        if len(self._reached) > USERS_KNOWN:
            self._reached.clear()

    def _used(self, entries: Sequence[JournalEntry]) -> None:
        """Let go of the vectors that were given with what is written now."""
        for entry in entries:
            for stored in entry.puts:
                self.given.pop((entry.user_id, stored.record.id), None)

    @staticmethod
    def _next(entries: Sequence[JournalEntry], after: int) -> Sequence[JournalEntry]:
        fresh = [entry for entry in entries if not entry.repeated and entry.seq > after]
        return fresh if fresh and fresh[0].seq == after + 1 else ()

    async def _advance(self, scope: Scope, after: int, todo: Sequence[JournalEntry]) -> int | None:
        try:
            batch = await self._batch(after, todo)
        except ModelUnavailable as error:
            tell(WARNING, "model_away", projection=self.name, error=str(error))
            self._failed_at, self.last_error = _now(), str(error)
            return None
        except ModelError as error:
            if len(todo) > 1:  # find the change that cannot be embedded
                half = len(todo) // 2
                middle = await self._advance(scope, after, todo[:half])
                return middle if middle is None else await self._advance(scope, middle, todo[half:])
            batch_or_none = await self._give_up(scope, after, todo[0], error)
            if batch_or_none is None:
                return None
            batch = batch_or_none
        reached = (await self.index.apply({scope.user_id: batch}))[scope.user_id]
        self._used(todo)
        return reached

    async def _give_up(self, scope: Scope, after: int, entry: JournalEntry, error: ModelError) -> Batch | None:
        key = (scope.user_id, entry.seq)
        self._attempts[key] = attempts = self._attempts.get(key, 0) + 1
        self.last_error = str(error)
        if attempts < TRIES:
            self._failed_at = _now()
            return None
        del self._attempts[key]
        tell(WARNING, "change_parked", projection=self.name, user_id=scope.user_id, seq=entry.seq)
        await self.log.park(Parked(self.name, scope.user_id, entry.seq, str(error), attempts, self.clock.now()))
        return Batch(after, entry.seq)

    async def _batch(self, after: int, todo: Sequence[JournalEntry]) -> Batch:
        fresh, replaced = _to_embed(todo)
        wanted = self._pieces(fresh)
        made: list[Passage] = []
        if wanted:
            made = self._passages(wanted, *await self._embed([piece.text for _, piece in wanted]))
        return Batch(after, todo[-1].seq, made, replaced)

    def _pieces(self, fresh: Sequence[Stored]) -> Wanted:
        sentences = SENTENCE in self.embedder.grains
        return [
            (stored, piece) for stored in fresh for piece in passages(stored.record.embeddable(), sentences=sentences)
        ]

    def _passages(self, wanted: Wanted, vectors: Vectors, tokens: Mapping[int, TokenVectors]) -> list[Passage]:
        out = []
        for row, (stored, piece) in enumerate(wanted):
            record, vector = stored.record, vectors[row]
            if piece.grain == WHOLE:
                vector = self.given.get((record.user_id, record.id), vector)
            asks = piece.text.rstrip().endswith(("?", "？", "؟"))
            pieces = tokens.get(row) if piece.grain == WHOLE and record.kind == "Turn" else None
            out.append(
                Passage(
                    stored.slot,
                    record.kind,
                    record.channel,
                    piece.grain,
                    piece.part,
                    (piece.start, piece.end),
                    vector.astype(np.float16),
                    None if pieces is None else (pieces.ids, pieces.vectors),
                    asks=asks,
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
            raise BadReply(f"{embedder.identity} failed ({failure_reason(error)})") from None
        return self._checked(vectors, len(texts)), dict(enumerate(tokens))

    def _checked(self, vectors: Vectors, count: int) -> Vectors:
        embedder, wanted = self.embedder, (count, self.embedder.dimensions)
        if vectors.shape != wanted or not np.isfinite(vectors).all():
            raise BadReply(f"{embedder.identity} should give finite vectors of shape {wanted}, gave {vectors.shape}")
        return vectors


def _to_embed(entries: Sequence[JournalEntry]) -> tuple[list[Stored], list[int]]:
    """Records whose text is new with these entries, and the slots among them whose vectors are replaced."""
    fresh: dict[int, Stored] = {}
    for entry in entries:
        for stored in entry.puts:
            record = stored.record
            if record.recorded_at == entry.at or record.kind in MUTABLE:
                fresh[stored.slot] = stored
    return list(fresh.values()), [slot for slot, stored in fresh.items() if stored.record.kind in MUTABLE]


__all__ = ["BATCH", "SENTENCE", "VectorProjection"]
