"""What a query may see, in masks by slot, and what follows from these alone.

Made once and kept while the memory, the filters and the reach of the clock stay as they are: recalls differ in their
text, rarely in what they may see.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from agentmem.model.clock import to_micros
from agentmem.model.outline import ENDS_WITH_QUESTION, MAX_TIME, MIN_TIME, Bools, RecordColumns
from agentmem.model.scope import Scope
from agentmem.recall.kept import UserCache
from agentmem.recall.neighbours import TurnNeighbors, context_window
from agentmem.recall.query import RecallRequest

DEFAULT_STATEMENT_RATIO = 0.5  # with fewer turns than say anything; a guess
MAX_CACHED_VIEWS = 4  # of one user


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
    """A sight with the journal position it was made at, and the span of moments, half open, in which it is the same."""

    seq: int
    since: int
    until: int
    visible: VisibleRecords


FilterKey = tuple[object, ...]


def visible_records(
    columns: RecordColumns, request: RecallRequest, scope: Scope, now: datetime, cache: UserCache, min_turns: int
) -> VisibleRecords:
    """What this request may see. `min_turns` is how many turns it takes to speak of their nature."""
    starts = request.window_start(now)
    filters: FilterKey = (
        scope.readable_channels(), request.as_of, request.kinds, starts, request.until, request.min_confidence,
        min_turns
    )  # fmt: skip
    moment = to_micros(now)
    held: OrderedDict[FilterKey, _CachedVisibility] = cache.visible_records
    found = held.pop(filters, None)
    if found is None or found.seq != columns.seq or not found.since <= moment < found.until:
        since, until = (MIN_TIME, MAX_TIME) if request.as_of is not None else _stable_interval(columns, moment)
        found = _CachedVisibility(
            columns.seq, since, until, _build_visible_records(columns, request, scope, now, cache, min_turns)
        )
    held[filters] = found
    while len(held) > MAX_CACHED_VIEWS:
        held.popitem(last=False)
    return found.visible


def _build_visible_records(
    columns: RecordColumns, request: RecallRequest, scope: Scope, now: datetime, cache: UserCache, min_turns: int
) -> VisibleRecords:
    mask = columns.build_visibility_mask(
        scope.readable_channels(), now=now, as_of=request.as_of, kinds=request.kinds, since=request.window_start(now),
        until=request.until, min_confidence=request.min_confidence,
    ).mask  # fmt: skip
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
