"""Opens a user's memory as one query may see it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from agentmem.events import Lookups
from agentmem.model.clock import Clock, IdSource, aware, from_micros
from agentmem.model.outline import Floats, Outline
from agentmem.model.scope import Scope
from agentmem.providers import Embedder, TokenVectors
from agentmem.recall.aside import aside
from agentmem.recall.asking import Models
from agentmem.recall.kept import Keep
from agentmem.recall.query import Query, Request
from agentmem.recall.sight import look
from agentmem.recall.technique import PATIENCE, Ask, Memory, Searched
from agentmem.stores import GraphStore, VectorIndex
from agentmem.text.query import read_query


class Served(Protocol):
    """Vectors of one embedder."""

    @property
    def embedder(self) -> Embedder: ...

    @property
    def index(self) -> VectorIndex: ...


class Source(Protocol):
    """What recall needs of what is open. Techniques use the first of `vectors`; there may be none."""

    @property
    def clock(self) -> Clock: ...

    @property
    def ids(self) -> IdSource: ...

    @property
    def log(self) -> Searched: ...

    @property
    def graph(self) -> GraphStore: ...

    @property
    def vectors(self) -> Sequence[Served]: ...

    @property
    def llms(self) -> Models: ...

    @property
    def deterministic(self) -> bool: ...

    @property
    def lookups(self) -> Lookups: ...

    async def outline(self, scope: Scope, through: int | None = None) -> Outline: ...

    async def catch_up(self, scope: Scope, outline: Outline) -> Sequence[str]: ...


class Embeddings:
    """The query's vector and word pieces, embedded once however many ask."""

    def __init__(self, keep: Keep, served: Served | None, tokens: bool, deadlines: bool) -> None:
        self._keep, self._served, self._tokens, self._deadlines = keep, served, tokens, deadlines

    async def vector(self, text: str, patience: float = PATIENCE) -> Floats:
        """Unit vector, shape (dimensions,). Raises ModelUnavailable, after `patience` seconds too, or BadReply."""
        assert self._served is not None, "asked only where there is an index"
        wait = patience if self._deadlines else None
        return (await self._keep.embed(text, self._served.embedder, self._tokens, wait))[0]

    async def pieces(self, text: str) -> TokenVectors | None:
        """Its word pieces; None where the embedder gives none."""
        if self._served is None:
            return None
        return (await self._keep.embed(text, self._served.embedder, tokens=True))[1]


class Opened(NamedTuple):
    """A query as read, the memory as it may see it, the query's embeddings, and what is not there yet."""

    query: Query
    memory: Memory
    embeddings: Embeddings
    notices: tuple[str, ...]


async def open_memory(
    source: Source, request: Request, scope: Scope, keep: Keep, *, ask: Ask, tokens: bool, few_turns: int,
    then: tuple[int, datetime] | None = None,
) -> Opened:  # fmt: skip
    """Open the user's memory for a request, after a moment for what the user has just written to get its vectors.

    `then` is a journal position and the moment that counts as now, to repeat an earlier recall.
    """
    scope = scope.reading(request.channels)
    through, now = (None, source.clock.now()) if then is None else then
    if through is None and request.known_at is not None:
        through = await source.log.seq_at(scope, request.known_at)
    outline = await source.outline(scope, through)
    late = await source.catch_up(scope, outline) if then is None and source.vectors else ()
    if then is None:  # a clock that was set back brings nothing back that has ended
        now = max(now, from_micros(outline.at))
    kept = keep.of(scope.user_id) if through is None else keep.of(scope.user_id).past()
    served = source.vectors[0] if source.vectors else None
    embeddings = Embeddings(keep, served, tokens, deadlines=not source.deterministic)
    sight = await aside(outline.size, look, outline, request, scope, now, kept, few_turns)
    memory = Memory(
        mask=sight.mask, turns=sight.turns, current=sight.current, basis=sight.basis, links=sight.links,
        near=sight.near, calm=sight.calm, moment=aware(request.as_of or now), scope=scope, outline=outline, kept=kept,
        clock=source.clock,
        graph=source.graph, log=source.log, vectors=served.index if served else None,
        identity=served.embedder.identity if served else "", grains=tuple(served.embedder.grains) if served else (),
        embed=embeddings.vector, ask=ask, note=lambda said: None, through=through,
    )  # fmt: skip
    read = read_query(request.query, sight.names)
    query = Query(request, read, memory.moment)
    return Opened(query, memory, embeddings, tuple(late))
