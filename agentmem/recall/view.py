"""Opens a user's memory as one query may see it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from agentmem.events import CacheStats
from agentmem.model.clock import Clock, IdSource, from_micros, to_utc
from agentmem.model.outline import Floats, RecordColumns
from agentmem.model.scope import Scope
from agentmem.providers import Embedder, TokenVectors
from agentmem.recall.aside import offload_if_large
from agentmem.recall.asking import LLMSource
from agentmem.recall.kept import RankingCache
from agentmem.recall.query import RecallQuery, RecallRequest
from agentmem.recall.sight import visible_records
from agentmem.recall.technique import EMBED_TIMEOUT_SECONDS, AskLLM, LogReader, SearchContext
from agentmem.stores import GraphStore, VectorIndex
from agentmem.text.query import parse_query


class EmbedderIndex(Protocol):
    """Vectors of one embedder."""

    @property
    def embedder(self) -> Embedder: ...

    @property
    def index(self) -> VectorIndex: ...


class RecallSource(Protocol):
    """What recall needs of what is open. Techniques use the first of `vector_projections`; there may be none."""

    @property
    def clock(self) -> Clock: ...

    @property
    def ids(self) -> IdSource: ...

    @property
    def log(self) -> LogReader: ...

    @property
    def graph(self) -> GraphStore: ...

    @property
    def vector_projections(self) -> Sequence[EmbedderIndex]: ...

    @property
    def llms(self) -> LLMSource: ...

    @property
    def is_deterministic(self) -> bool: ...

    @property
    def cache_stats(self) -> CacheStats: ...

    async def read_columns(self, scope: Scope, through_seq: int | None = None) -> RecordColumns: ...

    async def wait_for_own_writes(self, scope: Scope, columns: RecordColumns) -> Sequence[str]: ...


class QueryEmbedder:
    """The query's vector and word pieces, embedded once however many ask."""

    def __init__(
        self, cache: RankingCache, served: EmbedderIndex | None, with_tokens: bool, with_timeouts: bool
    ) -> None:
        self._cache, self._served, self._with_tokens, self._with_timeouts = cache, served, with_tokens, with_timeouts

    async def embed(self, text: str, timeout: float = EMBED_TIMEOUT_SECONDS) -> Floats:
        """Unit vector, shape (dimensions,). Raises ModelUnavailable, after `timeout` seconds too, or
        InvalidModelOutput.
        """
        assert self._served is not None, "asked only where there is an index"
        wait = timeout if self._with_timeouts else None
        return (await self._cache.embed(text, self._served.embedder, self._with_tokens, wait))[0]

    async def embed_tokens(self, text: str) -> TokenVectors | None:
        """Its word pieces; None where the embedder gives none."""
        if self._served is None:
            return None
        return (await self._cache.embed(text, self._served.embedder, with_tokens=True))[1]


class PreparedSearch(NamedTuple):
    """A query as read, the memory as it may see it, the query's embeddings, and what is not there yet."""

    query: RecallQuery
    context: SearchContext
    embedder: QueryEmbedder
    notices: tuple[str, ...]


async def open_search_context(
    source: RecallSource, request: RecallRequest, scope: Scope, cache: RankingCache, *, ask: AskLLM, with_tokens: bool,
    min_turns: int, replay_at: tuple[int, datetime] | None = None,
) -> PreparedSearch:  # fmt: skip
    """Open the user's memory for a request, after a moment for what the user has just written to get its vectors.

    `replay_at` is a journal position and the moment that counts as now, to repeat an earlier recall.
    """
    scope = scope.with_channels(request.channels)
    through, now = (None, source.clock.now()) if replay_at is None else replay_at
    if through is None and request.known_at is not None:
        through = await source.log.seq_at_time(scope, request.known_at)
    columns = await source.read_columns(scope, through)
    late = await source.wait_for_own_writes(scope, columns) if replay_at is None and source.vector_projections else ()
    if replay_at is None:  # a clock that was set back brings nothing back that has ended
        now = max(now, from_micros(columns.last_at))
    kept = cache.for_user(scope.user_id) if through is None else cache.for_user(scope.user_id).for_past_state()
    served = source.vector_projections[0] if source.vector_projections else None
    embeddings = QueryEmbedder(cache, served, with_tokens, with_timeouts=not source.is_deterministic)
    sight = await offload_if_large(columns.size, visible_records, columns, request, scope, now, kept, min_turns)
    memory = SearchContext(
        mask=sight.mask, turn_mask=sight.turn_mask, current_mask=sight.current_mask,
        normalization_mask=sight.normalization_mask, all_neighbors=sight.all_neighbors,
        context_neighbors=sight.context_neighbors, statement_ratio=sight.statement_ratio,
        now=to_utc(request.as_of or now), scope=scope, columns=columns, cache=kept, clock=source.clock,
        graph=source.graph, log=source.log, vectors=served.index if served else None,
        embedder_id=served.embedder.identity if served else "",
        granularities=tuple(served.embedder.granularities) if served else (), embed=embeddings.embed, ask=ask,
        add_trace_note=lambda said: None, through_seq=through,
    )  # fmt: skip
    read = parse_query(request.query, sight.speaker_names)
    query = RecallQuery(request, read, memory.now)
    return PreparedSearch(query, memory, embeddings, tuple(late))
