"""Opens a user's memory as one query may see it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

import numpy as np

from agentmem.model.clock import Clock, IdSource, aware, from_micros
from agentmem.model.outline import ASKS_LAST, Bools, Outline
from agentmem.model.scope import Scope
from agentmem.providers import Embedder, TokenVectors
from agentmem.recall.aside import aside
from agentmem.recall.kept import Keep, Kept
from agentmem.recall.neighbours import Neighbours, leaning
from agentmem.recall.query import Query, Request
from agentmem.recall.technique import Memory, Searched
from agentmem.stores import GraphStore, VectorIndex
from agentmem.text.query import read_query

UNKNOWN_CALM = 0.5  # with fewer turns than say anything; a guess


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
    def deterministic(self) -> bool: ...

    async def outline(self, scope: Scope, through: int | None = None) -> Outline: ...


class Embeddings:
    """The query's vector and word pieces, embedded once however many ask."""

    def __init__(self, keep: Keep, served: Served | None, tokens: bool) -> None:
        self._keep, self._served, self._tokens = keep, served, tokens

    async def vector(self, text: str) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
        """Unit vector, shape (dimensions,). Raises ModelUnavailable or BadReply."""
        assert self._served is not None, "asked only where there is an index"
        return (await self._keep.embed(text, self._served.embedder, self._tokens))[0]

    async def pieces(self, text: str) -> TokenVectors | None:
        """Its word pieces; None where the embedder gives none."""
        if self._served is None:
            return None
        return (await self._keep.embed(text, self._served.embedder, tokens=True))[1]


async def open_memory(
    source: Source, request: Request, scope: Scope, keep: Keep, *, tokens: bool, few_turns: int,
    then: tuple[int, datetime] | None = None,
) -> tuple[Query, Memory, Embeddings]:  # fmt: skip
    """The query as read, the memory as it may see it, and the query's embeddings.

    `then` is a journal position and the moment that counts as now, to repeat an earlier recall.
    """
    scope = scope.reading(request.channels)
    through, now = (None, source.clock.now()) if then is None else then
    if through is None and request.known_at is not None:
        through = await source.log.seq_at(scope, request.known_at)
    outline = await source.outline(scope, through)
    if then is None:  # a clock that was set back brings nothing back that has ended
        now = max(now, from_micros(outline.at))
    kept = keep.of(scope.user_id) if through is None else keep.of(scope.user_id).past()
    served = source.vectors[0] if source.vectors else None
    embeddings = Embeddings(keep, served, tokens)
    columns = await aside(outline.size, _columns, outline, request, scope, now, kept, few_turns)
    memory = Memory(
        **columns._asdict(), scope=scope, outline=outline, kept=kept, clock=source.clock, graph=source.graph,
        log=source.log, vectors=served.index if served else None, identity=served.embedder.identity if served else "",
        grains=tuple(served.embedder.grains) if served else (), embed=embeddings.vector, through=through,
    )  # fmt: skip
    read = read_query(request.query, _names(outline, memory.turns))
    return Query(request, read, aware(request.as_of or now)), memory, embeddings


class _Columns(NamedTuple):
    mask: Bools
    current: Bools
    basis: Bools
    links: Neighbours
    near: Neighbours
    calm: float


def _columns(outline: Outline, request: Request, scope: Scope, now: datetime, kept: Kept, few_turns: int) -> _Columns:
    """What is computed from the outline alone, once per recall, off the event loop."""
    mask = outline.view(
        scope.readable(), now=now, as_of=request.as_of, kinds=request.kinds, since=request.starts(now),
        until=request.until, min_confidence=request.min_confidence,
    ).mask  # fmt: skip
    turns = mask & (outline.kind == outline.kinds.find("Turn"))
    links, few = kept.links(outline), max(few_turns, 1)
    return _Columns(
        mask=mask,
        current=outline.view(outline.channels.values, now=now, as_of=request.as_of).mask,
        basis=turns if int(turns.sum()) >= few else mask,
        links=links,
        near=kept.once("near", outline, mask, lambda: leaning(links, mask, outline.words)),
        calm=_calm(outline, turns, few),
    )


def _calm(outline: Outline, turns: Bools, few: int) -> float:
    """1 where nobody asks, 0 where at least every second turn asks."""
    count = int(turns.sum())
    if count < few:
        return UNKNOWN_CALM
    return max(0.0, 1.0 - 2.0 * float(((outline.asks[turns] & ASKS_LAST) != 0).mean()))


def _names(outline: Outline, turns: Bools) -> list[str]:
    """Names of those who speak in visible turns; a name in lower case, such as a role's, is none."""
    codes = outline.speaker[turns]
    names = (outline.speakers.values[code] for code in np.flatnonzero(np.bincount(codes[codes >= 0])))
    return [name for name in names if not name[:1].islower()]
