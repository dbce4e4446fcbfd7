"""What a query may see, in masks by slot, and what follows from these alone.

Made once and kept while the memory, the filters and the reach of the clock stay as they are: recalls differ in their
text, rarely in what they may see.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from agentmem.model.clock import micros
from agentmem.model.outline import ALWAYS, ASKS_LAST, NEVER, Bools, Outline
from agentmem.model.scope import Scope
from agentmem.recall.kept import Kept
from agentmem.recall.neighbours import Neighbours, leaning
from agentmem.recall.query import Request

UNKNOWN_CALM = 0.5  # with fewer turns than say anything; a guess
MOST_SIGHTS = 4  # of one user


@dataclass(frozen=True, slots=True, eq=False)
class Sight:
    """See `technique.Memory` for the fields; `names` are those of who speaks in visible turns."""

    mask: Bools
    turns: Bools
    current: Bools
    basis: Bools
    links: Neighbours
    near: Neighbours
    calm: float
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Held:
    """A sight with the journal position it was made at, and the span of moments, half open, in which it is the same."""

    seq: int
    since: int
    until: int
    sight: Sight


Filters = tuple[object, ...]


def look(outline: Outline, request: Request, scope: Scope, now: datetime, kept: Kept, few_turns: int) -> Sight:
    """What this request may see. `few_turns` is how many turns it takes to speak of their nature."""
    starts = request.starts(now)
    filters: Filters = (
        scope.readable(), request.as_of, request.kinds, starts, request.until, request.min_confidence, few_turns
    )  # fmt: skip
    moment = micros(now)
    held: OrderedDict[Filters, _Held] = kept.sights
    found = held.pop(filters, None)
    if found is None or found.seq != outline.seq or not found.since <= moment < found.until:
        since, until = (ALWAYS, NEVER) if request.as_of is not None else _unchanged(outline, moment)
        found = _Held(outline.seq, since, until, _look(outline, request, scope, now, kept, few_turns))
    held[filters] = found
    while len(held) > MOST_SIGHTS:
        held.popitem(last=False)
    return found.sight


def _look(outline: Outline, request: Request, scope: Scope, now: datetime, kept: Kept, few_turns: int) -> Sight:
    mask = outline.view(
        scope.readable(), now=now, as_of=request.as_of, kinds=request.kinds, since=request.starts(now),
        until=request.until, min_confidence=request.min_confidence,
    ).mask  # fmt: skip
    turns = mask & (outline.kind == outline.kinds.find("Turn"))
    current = outline.view(outline.channels.values, now=now, as_of=request.as_of).mask
    for column in (mask, turns, current):
        column.setflags(write=False)  # other recalls see the same
    links, few, count = kept.links(outline), max(few_turns, 1), int(turns.sum())
    return Sight(
        mask=mask,
        turns=turns,
        current=current,
        basis=turns if few <= count < int(mask.sum()) else mask,
        links=links,
        near=kept.once("near", outline, mask, lambda: leaning(links, mask, outline.words)),
        calm=_calm(outline, turns) if count >= few else UNKNOWN_CALM,
        names=_names(outline, turns),
    )


def _unchanged(outline: Outline, moment: int) -> tuple[int, int]:
    """The span around a moment, half open, in which nothing ends."""
    ends = outline.valid_to
    over = ends <= moment
    return int(ends[over].max(initial=ALWAYS)), int(ends[~over].min(initial=NEVER))


def _calm(outline: Outline, turns: Bools) -> float:
    """1 where nobody asks, 0 where at least every second turn asks."""
    return max(0.0, 1.0 - 2.0 * float(((outline.asks[turns] & ASKS_LAST) != 0).mean()))


def _names(outline: Outline, turns: Bools) -> tuple[str, ...]:
    """Names of those who speak in visible turns; a name in lower case, such as a role's, is none."""
    codes = outline.speaker[turns]
    names = (outline.speakers.values[code] for code in np.flatnonzero(np.bincount(codes[codes >= 0])))
    return tuple(name for name in names if not name[:1].islower())
