"""Searches the memory for another text than the query's, for techniques that put a question in other words.

It is searched with the options that the settings give the techniques `keyword` and `vector`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

import numpy as np

from agentmem.core.columns import Floats
from agentmem.core.event_loop import offload_if_large
from agentmem.core.ranking import ScoreList, fuse
from agentmem.recall.request import RecallQuery
from agentmem.recall.technique import SearchContext, TechniqueOptions
from agentmem.recall.techniques import keyword, vector
from agentmem.text.query_parser import parse_query

OptionsT = TypeVar("OptionsT", bound=TechniqueOptions)


def with_text(query: RecallQuery, text: str) -> RecallQuery:
    """The same query with another text; the names that the query holds are names there, too."""
    return replace(query, parsed=parse_query(text, query.parsed.named_speakers))


async def search_semantic(query: RecallQuery, context: SearchContext) -> Floats:
    """How near each record is in meaning, 0 to 1 and NaN where it is not visible; as the `vector` technique has it."""
    return await _fuse_visible(
        await vector.search(query, context, options_of("vector", vector.Options, context)), context
    )


async def search_hybrid(query: RecallQuery, context: SearchContext) -> Floats:
    """The same by words and meaning together, in the proportions of a recall without bonuses."""
    words, vectors = await asyncio.gather(
        keyword.search(query, context, options_of("keyword", keyword.Options, context)),
        vector.search(query, context, options_of("vector", vector.Options, context)),
    )
    return await _fuse_visible({**words, **vectors}, context)


def options_of(name: str, options_type: type[OptionsT], context: SearchContext) -> OptionsT:
    """The options that the settings give a technique."""
    found = context.technique_options.get(name)
    return found if isinstance(found, options_type) else options_type()


async def _fuse_visible(lists: Mapping[str, ScoreList], context: SearchContext) -> Floats:
    fusion = await offload_if_large(context.columns.size, fuse, lists, context.mask, context.normalization_mask)
    return np.where(context.mask, fusion.scores, np.nan).astype(np.float32)
