"""A second look at the best turns by a model that reads question and turn together, within bounds.

Such a model knows better than cosines what answers a question, and is sometimes badly wrong: so it lifts as much as it
likes, and what it lifts others over falls by two places at most.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from math import isfinite

import numpy as np

from agentmem.errors import BadReply, ModelUnavailable
from agentmem.model.clock import Stopwatch
from agentmem.model.outline import Ints
from agentmem.model.ranking import Doubles, Fusion, Ranked, bounded
from agentmem.model.records import Turn
from agentmem.providers.attempts import Patience
from agentmem.providers.rerankers import Reranker
from agentmem.recall.options import RerankingOptions
from agentmem.recall.query import Query
from agentmem.recall.receipt import Line
from agentmem.recall.run import Deadline, failed, passable
from agentmem.recall.technique import Memory

NAME = "reranker"
STEP = 2e-6  # between places, as scores are compared to six decimals


class Reranking:
    """Puts the best turns of a recall in a new order. A reranker that was silent is left alone for 30 s."""

    def __init__(self, reranker: Reranker, options: RerankingOptions) -> None:
        self._reranker = reranker
        self._options = options
        self._patience = Patience(reranker.identity)

    async def look(
        self, query: Query, turns: Ints, fusion: Fusion, memory: Memory, whole: Deadline | None = None
    ) -> tuple[Fusion, Line]:  # fmt: skip
        """The fusion with the first turns in a new order, and a line for the trace.

        A failure costs its line alone. `turns` are slots, best first. See `run` for `whole`.
        """
        watch, order = Stopwatch(memory.clock), turns[: self._options.depth]
        try:
            found = await self._scores(query, order, memory, whole)
        except Exception as failure:  # noqa: BLE001  `passable` raises what may not be passed over
            error = passable(failure)
            said = failed(error, self._options.deadline, whole)
            return fusion, Line(NAME, watch.milliseconds(), {}, said, isinstance(error, TimeoutError))
        column = np.full(len(fusion.scores), np.nan, dtype=np.float32)
        column[order] = found
        fresh = np.array(bounded(order.tolist(), found, self._options.most), dtype=np.int64)
        lists = {**fusion.lists, NAME: Ranked(column)}
        again = replace(fusion, scores=_placed(order, fresh, fusion.scores), lists=lists)
        return again, Line(NAME, watch.milliseconds(), {NAME: len(order)})

    async def _scores(
        self, query: Query, order: Ints, memory: Memory, whole: Deadline | None
    ) -> Sequence[float]:  # fmt: skip
        """What the reranker gives, one finite score for each turn."""
        slots = [int(slot) for slot in order]
        texts = {memory.outline.slots[record.key]: _spoken(record) for record in await memory.read(slots)
                 if isinstance(record, Turn)}  # fmt: skip
        known = [slot for slot in slots if slot in texts]
        scores = await self._asked(query.read.text, [texts[slot] for slot in known], whole)
        if len(scores) != len(known) or not all(isfinite(score) for score in scores):
            raise BadReply(f"{self._reranker.identity} should give {len(known)} finite scores, gave {len(scores)}")
        given = dict(zip(known, scores, strict=True))
        lowest = min(scores, default=0.0)
        return [given.get(slot, lowest) for slot in slots]

    async def _asked(self, query: str, texts: Sequence[str], whole: Deadline | None) -> list[float]:
        if whole is None:
            return await self._reranker.score(query, texts)
        if whole.over:
            raise TimeoutError  # without asking: it is not the reranker that was slow
        now, patience = asyncio.get_running_loop().time, whole.of(self._options.deadline)
        end = now() + patience
        try:
            return await self._patience.ask(lambda: self._reranker.score(query, texts), patience)
        except ModelUnavailable:
            if now() >= end:
                raise TimeoutError from None
            raise


def _spoken(turn: Turn) -> str:
    return f"{turn.speaker}: {turn.searchable()}" if turn.speaker else turn.searchable()


def _placed(before: Ints, after: Ints, scores: Doubles) -> Doubles:
    """The same scores handed out in the new order, each a little above the next, all above the other turns."""
    out = scores.copy()
    out[after] = np.round(scores[before], 6) + STEP * np.arange(len(before), 0, -1)
    return out
