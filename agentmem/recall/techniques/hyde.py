"""A made-up answer (HyDE; Gao, Ma, Lin and Callan 2022): what lies near one confident sentence of a language model.

An answer looks more like the text that holds it than the question does. Whether it is true does not matter: it is
searched by, never shown and never stored.
"""

from __future__ import annotations

from pydantic import BaseModel, Field

from agentmem.core.ranking import ScoreList
from agentmem.recall.llm_client import LIST_WEIGHT, LLMTechniqueOptions, build_technique_request, normalize_sentences
from agentmem.recall.request import RecallQuery
from agentmem.recall.subquery import search_semantic, with_text
from agentmem.recall.technique import ScoreLists, SearchContext

MAX_TOKENS = 150  # of the reply, one sentence
TEMPERATURE = 0.7  # as in the paper


class Options(LLMTechniqueOptions):
    """A made-up answer counts half as much as each list of the question's own words."""

    weight: float = Field(default=0.5, gt=0, description=LIST_WEIGHT)


class HypotheticalAnswer(BaseModel):
    """What the model is asked for."""

    sentence: str


async def search(query: RecallQuery, context: SearchContext, options: Options) -> ScoreLists:
    """The list `hyde`. Nothing without a vector index."""
    if context.vectors is None:
        return {}
    request = build_technique_request("hyde", query.parsed.text, max_tokens=MAX_TOKENS, temperature=TEMPERATURE)
    sentences = normalize_sentences([(await context.ask(request, HypotheticalAnswer)).sentence], 1)
    if not sentences:
        context.add_trace_note("the model's sentence was empty")
        return {}
    return {"hyde": ScoreList(await search_semantic(with_text(query, sentences[0]), context), weight=options.weight)}
