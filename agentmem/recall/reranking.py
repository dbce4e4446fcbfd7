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

from agentmem.core.clock import Stopwatch
from agentmem.core.columns import Ints
from agentmem.core.ranking import Doubles, Fusion, ScoreList, bounded_rerank
from agentmem.core.records import Turn
from agentmem.errors import InvalidModelOutput, ModelUnavailable
from agentmem.models.protocols import Reranker
from agentmem.models.retry import CircuitBreaker
from agentmem.recall.executor import Deadline, describe_failure, reraise_fatal
from agentmem.recall.options import BoundedRerankOptions
from agentmem.recall.receipt import TraceLine
from agentmem.recall.request import RecallQuery
from agentmem.recall.technique import SearchContext

LIST_NAME = "reranker"
MAX_FALL = 2  # places that a turn may lose; measured in docs/techniques.md
SCORE_STEP = 2e-6  # between places, as scores are compared to six decimals


class BoundedReranker:
    """Puts the best turns of a recall in a new order. A reranker that was silent is left alone for 30 s."""

    def __init__(self, reranker: Reranker, options: BoundedRerankOptions) -> None:
        self._reranker = reranker
        self._options = options
        self._circuit_breaker = CircuitBreaker(reranker.identity)

    async def rerank(
        self,
        query: RecallQuery,
        turn_ordinals: Ints,
        fusion: Fusion,
        context: SearchContext,
        recall_deadline: Deadline | None = None,
    ) -> tuple[Fusion, TraceLine]:
        """The fusion with the first turns in a new order, and a line for the trace.

        A failure costs its line alone. `turn_ordinals` are ordinals, best first. See `run_techniques` for
        `recall_deadline`.
        """
        watch, order = Stopwatch(context.clock), turn_ordinals[: self._options.depth]
        try:
            found = await self._score_turns(query, order, context, recall_deadline)
        except Exception as failure:  # noqa: BLE001  `reraise_fatal` raises what may not be passed over
            error = reraise_fatal(failure)
            said = describe_failure(error, self._options.deadline, recall_deadline)
            return fusion, TraceLine(LIST_NAME, watch.milliseconds(), {}, said, isinstance(error, TimeoutError))
        column = np.full(len(fusion.scores), np.nan, dtype=np.float32)
        column[order] = found
        fresh = np.array(bounded_rerank(order.tolist(), found, MAX_FALL), dtype=np.int64)
        lists = {**fusion.lists, LIST_NAME: ScoreList(column)}
        again = replace(fusion, scores=_reassign_scores(order, fresh, fusion.scores), lists=lists)
        return again, TraceLine(LIST_NAME, watch.milliseconds(), {LIST_NAME: len(order)})

    async def _score_turns(
        self, query: RecallQuery, order: Ints, context: SearchContext, recall_deadline: Deadline | None
    ) -> Sequence[float]:
        """What the reranker gives, one finite score for each turn."""
        ordinals = [int(ordinal) for ordinal in order]
        texts = {
            context.columns.ordinals_by_key[record.key]: _turn_text(record)
            for record in await context.read(ordinals)
            if isinstance(record, Turn)
        }
        known = [ordinal for ordinal in ordinals if ordinal in texts]
        scores = await self._score_in_time(query.parsed.text, [texts[ordinal] for ordinal in known], recall_deadline)
        if len(scores) != len(known) or not all(isfinite(score) for score in scores):
            raise InvalidModelOutput(
                f"{self._reranker.identity} should give {len(known)} finite scores, gave {len(scores)}"
            )
        given = dict(zip(known, scores, strict=True))
        lowest = min(scores, default=0.0)
        return [given.get(ordinal, lowest) for ordinal in ordinals]

    async def _score_in_time(self, query: str, texts: Sequence[str], recall_deadline: Deadline | None) -> list[float]:
        if recall_deadline is None:
            return await self._reranker.score(query, texts)
        if recall_deadline.is_over:
            raise TimeoutError  # without asking: it is not the reranker that was slow
        now, timeout = asyncio.get_running_loop().time, recall_deadline.cap(self._options.deadline)
        end = now() + timeout
        try:
            return await self._circuit_breaker.call(lambda: self._reranker.score(query, texts), timeout)
        except ModelUnavailable:
            if now() >= end:
                raise TimeoutError from None
            raise


def _turn_text(turn: Turn) -> str:
    return f"{turn.speaker}: {turn.search_text()}" if turn.speaker else turn.search_text()


def _reassign_scores(old_order: Ints, new_order: Ints, scores: Doubles) -> Doubles:
    """The same scores handed out in the new order, each a little above the next, all above the other turns."""
    out = scores.copy()
    out[new_order] = np.round(scores[old_order], 6) + SCORE_STEP * np.arange(len(old_order), 0, -1)
    return out
