"""The question in other words: a language model rewrites it as statements, which are searched by words and meaning."""

from __future__ import annotations

import asyncio

import numpy as np
from pydantic import BaseModel, Field

from agentmem.recall.again import by_all, worded
from agentmem.recall.asking import LLMOptions, asked, tidied
from agentmem.recall.technique import Hits, Memory, Query, Ranked


class Options(LLMOptions):
    """`statements` is how many are used at most, `weight` that of the list beside the query's own, 1 each."""

    statements: int = Field(default=3, ge=1, le=5)
    weight: float = Field(default=1.0, gt=0)
    temperature: float = Field(default=0.2, ge=0, le=2)
    max_tokens: int = Field(default=200, ge=1)


class Statements(BaseModel):
    """What the model is asked for."""

    statements: list[str]


async def search(query: Query, memory: Memory, options: Options) -> Hits:
    """The list `expansion`: of each record its best score over the statements."""
    request = asked("expansion", query.read.text, max_tokens=options.max_tokens, temperature=options.temperature)
    statements = tidied((await memory.ask(request, Statements)).statements, options.statements)
    if not statements:
        memory.note("the model gave no statement")
        return {}
    found = await asyncio.gather(*(by_all(worded(query, statement), memory) for statement in statements))
    return {"expansion": Ranked(np.fmax.reduce(found), weight=options.weight)}
