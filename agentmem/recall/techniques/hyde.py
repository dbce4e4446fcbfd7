"""A made-up answer (HyDE; Gao, Ma, Lin and Callan 2022): what lies near one confident sentence of a language model.

An answer looks more like the text that holds it than the question does. Whether it is true does not matter: it is
searched by, never shown and never stored.
"""

from __future__ import annotations

from pydantic import BaseModel, Field

from agentmem.recall.again import by_meaning, worded
from agentmem.recall.asking import LLMOptions, asked, tidied
from agentmem.recall.technique import Hits, Memory, Query, Ranked


class Options(LLMOptions):
    """`weight` is that of the list beside the query's own, which weigh 1 each."""

    weight: float = Field(default=0.5, gt=0)
    temperature: float = Field(default=0.7, ge=0, le=2)
    max_tokens: int = Field(default=150, ge=1)


class Answer(BaseModel):
    """What the model is asked for."""

    sentence: str


async def search(query: Query, memory: Memory, options: Options) -> Hits:
    """The list `hyde`. Nothing without a vector index."""
    if memory.vectors is None:
        return {}
    request = asked("hyde", query.read.text, max_tokens=options.max_tokens, temperature=options.temperature)
    sentences = tidied([(await memory.ask(request, Answer)).sentence], 1)
    if not sentences:
        memory.note("the model's sentence was empty")
        return {}
    return {"hyde": Ranked(await by_meaning(worded(query, sentences[0]), memory), weight=options.weight)}
