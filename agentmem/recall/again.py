"""Searches the memory for another text than the query's, for techniques that put a question in other words.

It is searched with the options that the settings give the techniques `keyword` and `vector`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

import numpy as np

from agentmem.model.outline import Floats
from agentmem.model.ranking import Ranked, fuse
from agentmem.recall.aside import aside
from agentmem.recall.technique import Memory, Options, Query
from agentmem.recall.techniques import keyword, vector
from agentmem.text.query import read_query

O = TypeVar("O", bound=Options)  # noqa: E741


def worded(query: Query, text: str) -> Query:
    """The same query with another text; the names that the query holds are names there, too."""
    return replace(query, read=read_query(text, query.read.named))


async def by_meaning(query: Query, memory: Memory) -> Floats:
    """How near each record is in meaning, 0 to 1 and NaN where it is not visible; as the `vector` technique has it."""
    return await _fused(await vector.search(query, memory, configured("vector", vector.Options, memory)), memory)


async def by_all(query: Query, memory: Memory) -> Floats:
    """The same by words and meaning together, in the proportions of a recall without bonuses."""
    words, vectors = await asyncio.gather(
        keyword.search(query, memory, configured("keyword", keyword.Options, memory)),
        vector.search(query, memory, configured("vector", vector.Options, memory)),
    )
    return await _fused({**words, **vectors}, memory)


def configured(name: str, kind: type[O], memory: Memory) -> O:
    """The options that the settings give a technique."""
    found = memory.settings.get(name)
    return found if isinstance(found, kind) else kind()


async def _fused(lists: Mapping[str, Ranked], memory: Memory) -> Floats:
    fusion = await aside(memory.outline.size, fuse, lists, memory.mask, memory.basis)
    return np.where(memory.mask, fusion.scores, np.nan).astype(np.float32)
