"""Which of the records that a recall gives fit the question: only these count as accessed.

A small memory delivers everything it has to every question. What merely filled a place would never fade.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import numpy as np

from agentmem.core.columns import Bools
from agentmem.core.ranking import Fusion
from agentmem.core.record import Record
from agentmem.core.records import Fact
from agentmem.errors import StoreError
from agentmem.memory.semantic.belief_lines import label_slot
from agentmem.recall.request import RecallQuery
from agentmem.recall.scoring import NAMED_MATCH_LISTS, RELEVANCE_THRESHOLDS
from agentmem.recall.technique import SearchContext
from agentmem.stores.values import Postings
from agentmem.text.tokenizer import tokenize

MATCH_TIMEOUT_SECONDS = 1.0  # that the word index may take
RARE_SHARE = 0.05  # of the current records may hold a word that is rare
MIN_SHARED_WORDS = 0.5  # of the words of a query
MIN_RARE_COUNT = 5  # records that may hold it in a small memory


async def find_fitting(
    query: RecallQuery, context: SearchContext, fusion: Fusion, records: Mapping[int, Record]
) -> set[int]:
    """The ordinals among `records` that fit a query; empty where none does.

    A record fits when it shares a rare word or half of its words with the query, its cosine reaches the embedder's
    floor (see `RELEVANCE_THRESHOLDS`; without one cosines say nothing), or its date, entity or slot is asked for.
    """
    if not records:
        return set()
    ordinals = np.fromiter(records, dtype=np.int64, count=len(records))
    fits: Bools = np.zeros(len(ordinals), dtype=np.bool_)
    for name in NAMED_MATCH_LISTS:
        if name in fusion.lists:
            fits |= fusion.lists[name].values[ordinals] > 0
    floor = next((each for name, each in RELEVANCE_THRESHOLDS.items() if context.embedder_id.startswith(name)), None)
    if floor is not None and "whole" in fusion.lists:
        fits |= fusion.lists["whole"].values[ordinals] >= floor.cosine
    rare = max(MIN_RARE_COUNT, int(RARE_SHARE * context.current_mask.sum()))
    asked, shared = set(query.parsed.terms), np.zeros(len(ordinals), dtype=np.int64)
    for found in (await _match_in_time(context, asked)).values():
        holds = np.isin(ordinals, found.ordinals)
        shared += holds
        if len(found.ordinals) <= rare:
            fits |= holds
    fits |= (shared > 0) & (shared >= MIN_SHARED_WORDS * len(asked))
    slots = {n for n, record in records.items() if isinstance(record, Fact) and _asks_for_slot(record, asked)}
    return slots.union(ordinals[fits].tolist())


async def _match_in_time(context: SearchContext, terms: set[str]) -> dict[str, Postings]:
    """Postings of each term; empty where the word index fails or is late: the answer does not wait for a count."""
    try:
        async with asyncio.timeout(MATCH_TIMEOUT_SECONDS):
            return await context.match(sorted(terms))
    except (TimeoutError, StoreError):
        return {}


def _asks_for_slot(fact: Fact, asked: set[str]) -> bool:
    return bool(fact.slot) and not asked.isdisjoint(tokenize(label_slot(fact.slot)))
