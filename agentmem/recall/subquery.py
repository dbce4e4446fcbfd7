"""Searches the memory for another text than the query's, for techniques that put a question in other words."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from agentmem.core.columns import Floats
from agentmem.core.event_loop import offload_if_large
from agentmem.core.ranking import ScoreList, fuse
from agentmem.recall.request import RecallQuery
from agentmem.recall.technique import SearchContext
from agentmem.recall.techniques import keyword, vector
from agentmem.text.query_parser import parse_query


def with_text(query: RecallQuery, text: str) -> RecallQuery:
    """The same query with another text; the names that the query holds are names there, too."""
    return replace(query, parsed=parse_query(text, query.parsed.named_speakers))


async def search_semantic(query: RecallQuery, context: SearchContext) -> Floats:
    """How near each record is in meaning, 0 to 1 and NaN where it is not visible; as the `vector` technique has it."""
    return await _fuse_visible(await vector.search(query, context, vector.Options()), context)


async def search_hybrid(query: RecallQuery, context: SearchContext) -> Floats:
    """The same by words and meaning together, in the proportions of a recall without bonuses."""
    words, vectors = await asyncio.gather(
        keyword.search(query, context, keyword.Options()),
        vector.search(query, context, vector.Options()),
    )
    return await _fuse_visible({**words, **vectors}, context)


async def _fuse_visible(lists: Mapping[str, ScoreList], context: SearchContext) -> Floats:
    fusion = await offload_if_large(context.columns.size, fuse, lists, context.mask, context.normalization_mask)
    return np.where(context.mask, fusion.scores, np.nan).astype(np.float32)
