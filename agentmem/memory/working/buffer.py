"""The messages an agent has at hand, with summaries of older ones, and their JSON."""

from __future__ import annotations

import inspect
import threading
from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Awaitable, Mapping, Sequence
from datetime import datetime
from itertools import islice, pairwise
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from agentmem.core.clock import Clock, Stopwatch, SystemClock
from agentmem.core.event_loop import BACKGROUND_LOOP
from agentmem.core.records import to_invalid_record
from agentmem.core.telemetry import WARNING, log_event
from agentmem.engine.opening import build_embedder_options
from agentmem.errors import ConfigError, InvalidModelOutput, InvalidRecord, ModelError
from agentmem.memory.working.buffer_search import (
    EmbeddingCache,
    LLMSummarizer,
    Message,
    MessageMatch,
    Scores,
    Summarizer,
    Vector,
    blend_scores,
    build_summary_message,
    check_positive_int,
    check_query,
    check_recency_bias,
    cosines,
    matches_metadata,
    normalize_query_vector,
    recency,
    summarize_extractive,
    to_json_dict,
)
from agentmem.models.protocols import Embedder, parse_dimensions
from agentmem.models.registry import LLMRegistry, open_embedder
from agentmem.settings.sections import BufferOptions
from agentmem.settings.settings import Settings, load_settings

MIN_CACHED_VECTORS = 1000  # vectors of texts
BACKOFF_MS = 30_000.0  # without tries after the embedder failed


class _BufferModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class BufferSizes(_BufferModel):
    """`max_size` messages are the context window; `capacity` (None: `max_size` × `buffer_multiplier`) are kept.

    One more, and the oldest `summary_batch` go; of their summaries `max_summaries` are kept, the oldest out first.
    """

    max_size: int = Field(default=10, ge=1)
    buffer_multiplier: int = Field(default=10, ge=1)
    recency_bias: float = Field(default=0.3, ge=0, le=1, allow_inf_nan=False)
    capacity: int | None = Field(default=None, ge=1)
    summary_batch: int = Field(default=10, ge=1)
    max_summaries: int = Field(default=500, ge=1)

    @property
    def max_messages(self) -> int:
        """How many messages are kept."""
        return self.max_size * self.buffer_multiplier if self.capacity is None else self.capacity

    @classmethod
    def build(cls, **given: Any) -> Self:
        """The sizes; InvalidRecord naming the argument that is wrong."""
        try:
            return cls(**given)
        except ValidationError as error:
            raise to_invalid_record(error, "BufferMemory") from error


class BufferVectors(_BufferModel):
    """Vectors of summaries and messages, in that order: float32 as base64, None where there is none."""

    embedder: str = Field(pattern=r":[1-9]\d{0,5}$")
    values: tuple[str | None, ...]


class BufferState(_BufferModel):
    """All of a buffer. `count` is how many messages it was ever given."""

    version: Literal[1] = 1
    sizes: BufferSizes
    count: int = Field(ge=0)
    summaries: tuple[Message, ...]
    messages: tuple[Message, ...]
    vectors: BufferVectors | None = None

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        numbers = [message.number for message in (*self.summaries, *self.messages)]
        if any(after <= before for before, after in pairwise([0, *numbers])) or self.count < max(numbers, default=0):
            raise ValueError("messages must be numbered upwards from 1, up to count")
        return self

    @classmethod
    def parse(cls, text: str | bytes) -> Self:
        """The state from JSON; InvalidRecord naming the field that is wrong."""
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            raise to_invalid_record(error, "buffer") from error


def pack_vectors(embedder: str, texts: Sequence[str], known: Mapping[str, Vector | None]) -> BufferVectors:
    """The known vectors of texts, to be written."""
    rows = [known.get(text) for text in texts]
    values = [None if row is None else b64encode(row.astype("<f4").tobytes()).decode() for row in rows]
    return BufferVectors(embedder=embedder, values=tuple(values))


def unpack_vectors(vectors: BufferVectors, texts: Sequence[str]) -> dict[str, Vector]:
    """Vectors by their text; InvalidRecord when they do not fit the texts or the embedder."""
    if len(vectors.values) != len(texts):
        raise InvalidRecord(f"vectors: {len(vectors.values)} for {len(texts)} texts", field="vectors")
    out: dict[str, Vector] = {}
    for text, value in zip(texts, vectors.values, strict=True):
        if value is not None:
            out[text] = _decode_vector(value, parse_dimensions(vectors.embedder))
    return out


def _decode_vector(value: str, dimensions: int) -> Vector:
    try:
        row = np.frombuffer(b64decode(value, validate=True), dtype="<f4").astype(np.float32)
    except ValueError as error:
        raise InvalidRecord(f"vectors: not base64 of float32 numbers: {error}", field="vectors") from error
    if row.shape != (dimensions,) or not np.isfinite(row).all():
        raise InvalidRecord(f"vectors: one is not {dimensions} finite numbers", field="vectors")
    return row


class BufferMemory:
    """The end of a conversation: `max_size` × `buffer_multiplier` are kept, `max_size` are the context window.

    `embedder` is a spec such as "hash" or "local:all-MiniLM-L6-v2", an Embedder, or None for search by recency alone.
    With a `summarizer` the oldest messages become a summary when there are too many: "extractive", a language model
    such as "anthropic:claude-haiku-4-5", or a function of a list of messages. Without one they are dropped.
    Keyword arguments: `capacity` in place of the product, `summary_batch` (10), `max_summaries` (500), `clock`,
    `settings` (how models are opened; read from the environment when None). All of it works from many threads.
    Raises InvalidRecord naming a wrong argument, ConfigError for a model that cannot be opened.
    """

    def __init__(
        self,
        max_size: int = 10,
        buffer_multiplier: int = 10,
        embedder: Embedder | str | None = None,
        recency_bias: float = 0.3,
        summarizer: Summarizer | str | None = None,
        *,
        capacity: int | None = None,
        summary_batch: int = 10,
        max_summaries: int = 500,
        clock: Clock | None = None,
        settings: Settings | None = None,
    ) -> None:
        self.sizes = sizes = BufferSizes.build(
            max_size=max_size,
            buffer_multiplier=buffer_multiplier,
            recency_bias=recency_bias,
            capacity=capacity,
            summary_batch=summary_batch,
            max_summaries=max_summaries,
        )
        self._clock = clock or SystemClock()
        self._owned: list[Embedder | LLMRegistry] = []
        held = sizes.max_messages + (
            0 if summarizer is None else sizes.max_summaries
        )  # a search reads all of it, and the query
        self._cache = self._open_cache(embedder, settings, held)
        self._summarizer = self._open_summarizer(summarizer, settings)
        self._lock = threading.Lock()
        self._messages: deque[Message] = deque()
        self._summaries: deque[Message] = deque(maxlen=sizes.max_summaries)
        self._count = 0
        self._is_summarizing = False
        self._since_failure: Stopwatch | None = None
        self._notices: dict[str, str] = {}

    def _open_cache(
        self, embedder: Embedder | str | None, settings: Settings | None, max_texts: int
    ) -> EmbeddingCache | None:
        if embedder is None:
            return None
        if isinstance(embedder, str):
            embedder = open_embedder(embedder, build_embedder_options(load_settings(settings)))
            self._owned.append(embedder)
        return EmbeddingCache(embedder, max(MIN_CACHED_VECTORS, max_texts + 1))

    def _open_summarizer(self, summarizer: Summarizer | str | None, settings: Settings | None) -> Summarizer | None:
        if summarizer is None or callable(summarizer):
            return summarizer
        if summarizer == "extractive":
            return summarize_extractive
        llms = LLMRegistry(load_settings(settings, synopsis_llm=summarizer))
        asker = llms.for_purpose("synopsis", llms.build_budget())
        if asker is None:
            raise ConfigError(f"summarizer {summarizer!r}: give extractive, a language model, a function, or None")
        self._owned.append(llms)
        return LLMSummarizer(asker)

    # -- presets

    @classmethod
    def high_recall(cls, embedder: Embedder | str | None = None, **more: Any) -> Self:
        """For much knowledge: a window of 15, 300 messages kept, recency bias .1."""
        return cls(15, 20, embedder, 0.1, **more)

    @classmethod
    def conversational(cls, embedder: Embedder | str | None = None, **more: Any) -> Self:
        """For talk about what was just said: a window of 10, 50 messages kept, recency bias .6."""
        return cls(10, 5, embedder, 0.6, **more)

    @classmethod
    def balanced(cls, embedder: Embedder | str | None = None, **more: Any) -> Self:
        """For everything else, the defaults: a window of 10, 100 messages kept, recency bias .3."""
        return cls(10, 10, embedder, 0.3, **more)

    @classmethod
    def summarizing(
        cls,
        embedder: Embedder | str | None = None,
        summarizer: Summarizer | str = "extractive",
        *,
        options: BufferOptions | None = None,
        **more: Any,
    ) -> Self:
        """For long talk: 50 messages verbatim; one more, and the oldest 10 become a summary, of which 500 are kept.

        `options` are those of the settings (`load_settings().buffer`), with these defaults.
        """
        wanted = options or BufferOptions()
        sizes = {
            "capacity": wanted.size,
            "summary_batch": wanted.batch,
            "max_summaries": wanted.size * wanted.multiplier,
        }
        return cls(wanted.size, wanted.multiplier, embedder, wanted.recency_bias, summarizer, **{**sizes, **more})

    # -- what is held

    def __len__(self) -> int:
        """How many messages are kept, summaries not counted."""
        return len(self._messages)

    def __repr__(self) -> str:
        return f"BufferMemory({len(self)} of {self.sizes.max_messages} messages, {len(self._summaries)} summaries)"

    @property
    def messages(self) -> list[Message]:
        """Every message that is kept, oldest first."""
        with self._lock:
            return list(self._messages)

    @property
    def summaries(self) -> list[Message]:
        """The summaries of removed messages, oldest first; [] without a summarizer."""
        with self._lock:
            return list(self._summaries)

    @property
    def notices(self) -> tuple[str, ...]:
        """What does not work as it was set up, in one sentence each; () when all does."""
        return tuple(self._notices.copy().values())

    def recent(self, limit: int | None = None) -> list[Message]:
        """The last `limit` messages (None: the context window, `max_size`), oldest first; [] when there are none."""
        wanted = self.sizes.max_size if limit is None else check_positive_int(limit, "limit")
        with self._lock:
            return list(islice(self._messages, max(0, len(self._messages) - wanted), None))

    def clear(self) -> None:
        """Forget all messages and summaries."""
        with self._lock:
            self._messages.clear()
            self._summaries.clear()

    # -- adding

    def add(
        self,
        content: str,
        *rest: str,
        role: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        timestamp: datetime | None = None,
    ) -> Message:
        """Add a message and return it: `add("Hello", role="assistant")`, or the role first: `add("user", "Hello")`.

        The role is `user` when none is given, the time now. Metadata are JSON values. With a summarizer, the message
        that is one too many waits for the summary. Raises InvalidRecord naming what is wrong; nothing is added then.
        """
        if rest:
            if len(rest) > 1 or role is not None or not isinstance(rest[0], str):
                raise InvalidRecord(
                    "add takes a content, or a role and a content; role=, metadata= and timestamp= by name",
                    field="content",
                )
            role, content = content, rest[0]
        given: dict[str, Any] = {
            "role": "user" if role is None else role,
            "content": content,
            "metadata": to_json_dict(metadata),
        }
        try:
            draft = Message(**given, timestamp=self._clock.now() if timestamp is None else timestamp)
        except ValidationError as error:
            raise to_invalid_record(error, "message") from error
        with self._lock:
            self._count += 1
            message = draft.model_copy(update={"number": self._count})
            self._messages.append(message)
        self._evict_oldest()
        return message

    def _evict_oldest(self) -> None:
        """Let the oldest messages go, each once its summary is there."""
        if self._summarizer is None:
            with self._lock:
                while len(self._messages) > self.sizes.max_messages:
                    self._messages.popleft()
            return
        while batch := self._claim_oldest_batch():
            try:
                summary = self._summarize(self._summarizer, batch)  # without the lock: a model takes its time
                with self._lock:
                    if self._messages and self._messages[0] is batch[0]:  # not cleared meanwhile
                        self._summaries.append(summary)
                        for _ in batch:
                            self._messages.popleft()
            finally:
                self._is_summarizing = False

    def _claim_oldest_batch(self) -> list[Message]:
        """The messages to sum up next; [] when there is room, or another thread is at it."""
        with self._lock:
            if self._is_summarizing or len(self._messages) <= self.sizes.max_messages:
                return []
            self._is_summarizing = True
            return list(islice(self._messages, min(self.sizes.summary_batch, self.sizes.max_messages)))

    def _summarize(self, summarizer: Summarizer, batch: Sequence[Message]) -> Message:
        try:
            said = summarizer(batch)
            text: object = BACKGROUND_LOOP.run(_as_coroutine(said)) if inspect.isawaitable(said) else said
            if not isinstance(text, str):
                raise InvalidModelOutput(f"a summary must be text, got {type(text).__name__}")
            summary = build_summary_message(batch, text)
        except Exception as error:  # noqa: BLE001  a caller's function may raise anything, and no message may be lost
            name = type(error).__name__
            if "summarizer" not in self._notices:
                log_event(WARNING, "summarizer_failed", error=name, messages=len(batch))
            self._notices["summarizer"] = f"The summarizer failed ({name}): summaries are complete sentences."
            return build_summary_message(batch, summarize_extractive(batch))
        self._notices.pop("summarizer", None)
        return summary

    # -- searching

    def search(
        self,
        query: str,
        limit: int = 10,
        filter_metadata: Mapping[str, Any] | None = None,
        query_vector: ArrayLike | None = None,
        recency_bias: float | None = None,
    ) -> list[MessageMatch]:
        """Messages and summaries by (1 - recency_bias) · cosine with the query + recency_bias · recency, best first.

        Only those whose metadata hold every entry of `filter_metadata`; [] when there are none. `query_vector` spares
        embedding the query. Without an embedder, or while it is away, the newest of the context window, newest first.
        Raises InvalidRecord naming a wrong argument.
        """
        check_positive_int(limit, "limit")
        wanted = to_json_dict(filter_metadata, "filter_metadata")
        bias = self.sizes.recency_bias if recency_bias is None else check_recency_bias(recency_bias)
        if query_vector is None:
            check_query(query)
            vector = None
        else:
            vector = normalize_query_vector(
                query_vector, None if self._cache is None else self._cache.embedder.dimensions
            )
        with self._lock:
            held = [*self._summaries, *self._messages]
        newness = recency(len(held))
        at = [place for place, message in enumerate(held) if matches_metadata(message.metadata, wanted)]
        semantic = self._compute_cosines(query, vector, [held[place].content for place in at])
        if semantic is None:
            newest = at[::-1][: min(limit, self.sizes.max_size)]
            return [MessageMatch(held[place], float(newness[place]), None, float(newness[place])) for place in newest]
        scores = np.round(blend_scores(semantic, newness[at], bias), 6)
        order = sorted(range(len(at)), key=lambda n: (-scores[n], -at[n]))[:limit]
        return [
            MessageMatch(
                held[at[n]],
                float(scores[n]),
                None if np.isnan(semantic[n]) else float(semantic[n]),
                float(newness[at[n]]),
            )
            for n in order
        ]

    def _compute_cosines(self, query: str, vector: Vector | None, texts: Sequence[str]) -> Scores | None:
        """The cosine of each text with the query; None when the embedder fails."""
        cache, failed = self._cache, self._since_failure
        if cache is None or (failed is not None and failed.milliseconds() < BACKOFF_MS):
            return None
        try:
            *vectors, asked = (
                cache.get_or_embed([*texts, query]) if vector is None else [*cache.get_or_embed(texts), vector]
            )
        except ModelError as error:
            if failed is None:
                log_event(WARNING, "model_away", part="buffer", embedder=cache.embedder.identity, error=str(error))
            self._since_failure = Stopwatch(self._clock)
            self._notices["embedder"] = f"Messages are found by their newness alone: {error}"
            return None
        self._since_failure = None
        self._notices.pop("embedder", None)
        return None if asked is None else cosines(asked, vectors)

    # -- as JSON

    def to_json(self, *, vectors: bool = False) -> str:
        """Everything that `from_json` needs, as JSON; with `vectors` also those that a search has made so far."""
        with self._lock:
            state = BufferState(
                sizes=self.sizes, count=self._count, summaries=tuple(self._summaries), messages=tuple(self._messages)
            )
        if vectors and self._cache is not None:
            texts = [message.content for message in (*state.summaries, *state.messages)]
            of_texts = pack_vectors(self._cache.embedder.identity, texts, self._cache.find_cached(texts))
            state = state.model_copy(update={"vectors": of_texts})
        return state.model_dump_json()

    @classmethod
    def from_json(
        cls,
        text: str | bytes,
        *,
        embedder: Embedder | str | None = None,
        summarizer: Summarizer | str | None = None,
        clock: Clock | None = None,
        settings: Settings | None = None,
    ) -> Self:
        """The buffer that `to_json` wrote; models are not in it and must be given again.

        Vectors of another embedder are dropped. Raises InvalidRecord naming the wrong field.
        """
        state = BufferState.parse(text)
        buffer = cls(
            **state.sizes.model_dump(), embedder=embedder, summarizer=summarizer, clock=clock, settings=settings
        )
        buffer._summaries.extend(state.summaries)
        buffer._messages.extend(state.messages)
        buffer._count = state.count
        if state.vectors is not None:
            found = unpack_vectors(state.vectors, [message.content for message in (*state.summaries, *state.messages)])
            if buffer._cache is not None and buffer._cache.embedder.identity == state.vectors.embedder:
                buffer._cache.add(found)
        buffer._evict_oldest()
        return buffer

    # -- life

    def close(self) -> None:
        """Close the models that were opened by name; those that were given stay open."""
        while self._owned:
            BACKGROUND_LOOP.run(self._owned.pop().close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


async def _as_coroutine(awaitable: Awaitable[str]) -> str:
    return await awaitable
