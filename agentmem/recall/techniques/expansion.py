"""The question in other words: a language model rewrites it as statements, which are searched by words and meaning."""

from __future__ import annotations

import asyncio

import numpy as np
from pydantic import BaseModel

from agentmem.core.ranking import ScoreList
from agentmem.recall.llm_client import LLMTechniqueOptions, build_technique_request, normalize_sentences
from agentmem.recall.request import RecallQuery
from agentmem.recall.subquery import search_hybrid, with_text
from agentmem.recall.technique import ScoreLists, SearchContext

MAX_STATEMENTS = 3
MAX_TOKENS = 200  # of the reply
TEMPERATURE = 0.2


class Options(LLMTechniqueOptions):
    """Nothing beside what every technique has that asks a model."""


class QuestionStatements(BaseModel):
    """What the model is asked for."""

    statements: list[str]


async def search(query: RecallQuery, context: SearchContext, options: Options) -> ScoreLists:
    """The list `expansion`: of each record its best score over the statements."""
    request = build_technique_request("expansion", query.parsed.text, max_tokens=MAX_TOKENS, temperature=TEMPERATURE)
    statements = normalize_sentences((await context.ask(request, QuestionStatements)).statements, MAX_STATEMENTS)
    if not statements:
        context.add_trace_note("the model gave no statement")
        return {}
    found = await asyncio.gather(*(search_hybrid(with_text(query, statement), context) for statement in statements))
    return {"expansion": ScoreList(np.fmax.reduce(found), weight=options.weight)}
