"""What a query may see, as masks over the user's records.

Made once and kept while the memory, the filters and the reach of the clock stay as they are: recalls differ in their
text, rarely in what they may see.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

import numpy as np

from agentmem.core.clock import from_micros, latest_moment, to_micros, to_utc
from agentmem.core.columns import ENDS_WITH_QUESTION, MAX_TIME, MIN_TIME, Bools, Floats, RecordColumns
from agentmem.core.event_loop import offload_if_large
from agentmem.core.records import Turn
from agentmem.core.scope import Scope, is_self_channel
from agentmem.engine.engine import Engine
from agentmem.engine.vector_projection import VectorProjection
from agentmem.errors import InvalidRecord
from agentmem.models.protocols import TokenVectors
from agentmem.recall.cache import RankingCache, TurnNeighbors, UserCache, context_window
from agentmem.recall.options import RecallOptions
from agentmem.recall.request import RecallQuery, RecallRequest
from agentmem.recall.technique import EMBED_TIMEOUT_SECONDS, AskLLM, SearchContext
from agentmem.text.query_parser import parse_query

DEFAULT_STATEMENT_RATIO = 0.5  # with fewer turns than say anything; a guess
FEW_TURNS = 20  # below so many, scores are scaled over all kinds, and nothing is said about relevance
MAX_ASKING_TURNS = 5  # at the end of a conversation, among which the one that asks is looked for

FilterKey = tuple[object, ...]


@dataclass(frozen=True, slots=True, eq=False)
class VisibleRecords:
    """See `technique.SearchContext` for the fields; `speaker_names` are those of who speaks in visible turns."""

    mask: Bools
    turn_mask: Bools
    current_mask: Bools
    normalization_mask: Bools
    all_neighbors: TurnNeighbors
    context_neighbors: TurnNeighbors
    statement_ratio: float
    speaker_names: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _CachedVisibility:
    """What a query may see, with the journal position it was made at, and the half-open span in which it holds."""

    seq: int
    since: int
    until: int
    visible: VisibleRecords


def visible_records(
    columns: RecordColumns, request: RecallRequest, scope: Scope, now: datetime, cache: UserCache, min_turns: int
) -> VisibleRecords:
    """What this request may see. `min_turns` is how many turns it takes to speak of their nature."""
    starts = request.window_start(now)
    filters: FilterKey = (
        scope.readable_channels(),
        request.as_of,
        request.kinds,
        starts,
        request.until,
        request.min_confidence,
        min_turns,
    )
    moment = to_micros(now)
    found: _CachedVisibility | None = cache.visible_records.get(filters)
    if found is None or found.seq != columns.seq or not found.since <= moment < found.until:
        since, until = (MIN_TIME, MAX_TIME) if request.as_of is not None else _stable_interval(columns, moment)
        found = _CachedVisibility(
            columns.seq, since, until, _build_visible_records(columns, request, scope, now, cache, min_turns)
        )
    cache.visible_records[filters] = found
    return found.visible


def _build_visible_records(
    columns: RecordColumns, request: RecallRequest, scope: Scope, now: datetime, cache: UserCache, min_turns: int
) -> VisibleRecords:
    mask = columns.build_visibility_mask(
        scope.readable_channels(),
        now=now,
        as_of=request.as_of,
        kinds=request.kinds,
        since=request.window_start(now),
        until=request.until,
        min_confidence=request.min_confidence,
    ).mask
    turns = mask & (columns.kind == columns.kinds.find_code("Turn"))
    current = columns.build_visibility_mask(columns.channels.values, now=now, as_of=request.as_of).mask
    for column in (mask, turns, current):
        column.setflags(write=False)  # other recalls see the same
    links, few, count = cache.all_neighbors(columns), max(min_turns, 1), int(turns.sum())
    return VisibleRecords(
        mask=mask,
        turn_mask=turns,
        current_mask=current,
        normalization_mask=turns if few <= count < int(mask.sum()) else mask,
        all_neighbors=links,
        context_neighbors=cache.get_or_compute(
            "near", columns, mask, lambda: context_window(links, mask, columns.words)
        ),
        statement_ratio=_statement_ratio(columns, turns) if count >= few else DEFAULT_STATEMENT_RATIO,
        speaker_names=_speaker_names(columns, turns),
    )


def _stable_interval(columns: RecordColumns, moment: int) -> tuple[int, int]:
    """The span around a moment, half open, in which nothing ends."""
    ends = columns.valid_to
    over = ends <= moment
    return int(ends[over].max(initial=MIN_TIME)), int(ends[~over].min(initial=MAX_TIME))


def _statement_ratio(columns: RecordColumns, turn_mask: Bools) -> float:
    """1 where nobody asks, 0 where at least every second turn asks."""
    return max(0.0, 1.0 - 2.0 * float(((columns.asks[turn_mask] & ENDS_WITH_QUESTION) != 0).mean()))


def _speaker_names(columns: RecordColumns, turn_mask: Bools) -> tuple[str, ...]:
    """Names of those who speak in visible turns; a name in lower case, such as a role's, is none."""
    codes = columns.speaker[turn_mask]
    names = (columns.speakers.values[code] for code in np.flatnonzero(np.bincount(codes[codes >= 0])))
    return tuple(name for name in names if not name[:1].islower())


async def find_asking_turn(context: SearchContext, text: str) -> tuple[str, ...]:
    """The id of the turn that asks: the newest with this very text among the last of the conversation; () for none.

    Who stores a question and then asks for what matters would find the question first.
    """
    columns, conversation_id = context.columns, context.scope.conversation_id
    code = -1 if conversation_id is None else columns.conversations.find_code(conversation_id)
    if code < 0:
        return ()
    said = text.split()
    inside = np.flatnonzero(context.turn_mask & (columns.conversation == code))
    latest = inside[np.argsort(columns.position[inside], kind="stable")][::-1][:MAX_ASKING_TURNS]
    alike = [int(ordinal) for ordinal in latest if columns.words[ordinal] == len(said)]
    for record in await context.read(alike):
        if isinstance(record, Turn) and record.content.split() == said:
            return (record.id,)
    return ()


async def _exclude(request: RecallRequest, context: SearchContext) -> tuple[RecallRequest, SearchContext]:
    """The request with the ids that are left out, and the view without them."""
    ids = request.exclude
    if ids is None:
        ids = await find_asking_turn(context, request.query)
    return replace(request, exclude=ids), leave_out(context, ids)


def leave_out(context: SearchContext, ids: Collection[str]) -> SearchContext:
    """The same view of the memory without some records."""
    keys = context.columns.ordinals_by_key
    found = [keys[kind, name] for name in ids for kind in context.columns.kinds.values if (kind, name) in keys]
    ordinals = [ordinal for ordinal in found if ordinal < context.columns.size]
    if not ordinals:
        return context
    masks = {name: getattr(context, name).copy() for name in ("mask", "turn_mask", "normalization_mask")}
    for mask in masks.values():
        mask[ordinals] = False
        mask.setflags(write=False)
    return replace(context, **masks)


class QueryEmbedder:
    """The query's vector and word pieces, embedded once however many ask."""

    def __init__(
        self, cache: RankingCache, served: VectorProjection | None, with_tokens: bool, with_timeouts: bool
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


def _check_channels(asked: Sequence[str], active: Sequence[str], columns: RecordColumns) -> None:
    """Refuse a channel in which nothing was ever stored: it is misspelled, and the answer would silently be empty."""
    for name in asked:
        if name not in active and not is_self_channel(name) and columns.channels.find_code(name) < 0:
            raise InvalidRecord(
                f"channels: nothing was ever stored in {name!r}; check its spelling, or leave `channels` out",
                field="channels",
            )


async def open_search_context(
    source: Engine,
    request: RecallRequest,
    scope: Scope,
    cache: RankingCache,
    *,
    ask: AskLLM,
    options: RecallOptions,
    replay_at: tuple[int, datetime] | None = None,
) -> PreparedSearch:
    """Open the user's memory for a request, after a moment for what the user has just written to get its vectors.

    `replay_at` is a journal position and the moment that counts as now, to repeat an earlier recall.
    """
    active, scope = scope.readable_channels(), scope.with_channels(request.channels)
    through, now = (None, source.clock.now()) if replay_at is None else replay_at
    if through is None and request.known_at is not None:
        through = await source.log.seq_at_time(scope, request.known_at)
    columns = await source.read_columns(scope, through)
    _check_channels((request.channels or ()) if through is None else (), active, columns)
    late = await source.wait_for_own_writes(scope, columns) if replay_at is None and source.vector_projections else ()
    now = now if replay_at is not None else latest_moment(now, from_micros(columns.last_at))
    kept = cache.for_user(scope.user_id) if through is None else cache.for_user(scope.user_id).for_past_state()
    served = source.vector_projections[0] if source.vector_projections else None
    embeddings = QueryEmbedder(cache, served, options.reranks, with_timeouts=not source.is_deterministic)
    visible = await offload_if_large(columns.size, visible_records, columns, request, scope, now, kept, FEW_TURNS)
    context = SearchContext(
        mask=visible.mask,
        turn_mask=visible.turn_mask,
        current_mask=visible.current_mask,
        normalization_mask=visible.normalization_mask,
        all_neighbors=visible.all_neighbors,
        context_neighbors=visible.context_neighbors,
        statement_ratio=visible.statement_ratio,
        now=to_utc(request.as_of or now),
        scope=scope,
        columns=columns,
        cache=kept,
        clock=source.clock,
        graph=source.graph,
        log=source.log,
        vectors=served.index if served else None,
        embedder_id=served.embedder.identity if served else "",
        granularities=tuple(served.embedder.granularities) if served else (),
        embed=embeddings.embed,
        ask=ask,
        add_trace_note=lambda said: None,
        through_seq=through,
        zone=source.zone,
        technique_options={each.name: each.options for each in options.techniques},
    )
    request, context = await _exclude(request, context)
    query = RecallQuery(request, parse_query(request.search_text, visible.speaker_names), context.now)
    return PreparedSearch(query, context, embeddings, tuple(late))
