"""The question in other words: a language model rewrites it as statements, which are searched by words and meaning."""

from __future__ import annotations

import asyncio

import numpy as np
from pydantic import BaseModel, Field

from agentmem.core.ranking import ScoreList
from agentmem.recall.llm_client import LLMTechniqueOptions, build_technique_request, normalize_sentences
from agentmem.recall.request import RecallQuery
from agentmem.recall.subquery import search_hybrid, with_text
from agentmem.recall.technique import ScoreLists, SearchContext


class Options(LLMTechniqueOptions):
    """`statements` is how many are used at most, `weight` that of the list beside the query's own, 1 each."""

    statements: int = Field(default=3, ge=1, le=5)
    weight: float = Field(default=1.0, gt=0)
    temperature: float = Field(default=0.2, ge=0, le=2)
    max_tokens: int = Field(default=200, ge=1)


class QuestionStatements(BaseModel):
    """What the model is asked for."""

    statements: list[str]


async def search(query: RecallQuery, context: SearchContext, options: Options) -> ScoreLists:
    """The list `expansion`: of each record its best score over the statements."""
    request = build_technique_request(
        "expansion", query.parsed.text, max_tokens=options.max_tokens, temperature=options.temperature
    )
    statements = normalize_sentences((await context.ask(request, QuestionStatements)).statements, options.statements)
    if not statements:
        context.add_trace_note("the model gave no statement")
        return {}
    found = await asyncio.gather(*(search_hybrid(with_text(query, statement), context) for statement in statements))
    return {"expansion": ScoreList(np.fmax.reduce(found), weight=options.weight)}
