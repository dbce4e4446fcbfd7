"""Reranking by the language model that the settings name: `llm:` reads all texts in one request and scores each."""

from __future__ import annotations

import json
from collections.abc import Sequence

from pydantic import BaseModel

from agentmem.errors import Closed, ConfigError, InvalidModelOutput
from agentmem.models.protocols import LLMRequest, RerankerOptions
from agentmem.text.templates import load_templates

MAX_TEXT_CHARS = 600
"""Characters that are sent of one text."""

MAX_QUERY_CHARS = 2_000
MAX_SCORE = 10
REPLY_TOKENS_PER_TEXT = 24
"""Room in the reply for one score."""


class RerankScore(BaseModel):
    """How well one text answers."""

    number: int
    score: float


class RerankScores(BaseModel):
    """What the model is asked for."""

    scores: list[RerankScore]


def reranker(model: str, options: RerankerOptions) -> LLMReranker:
    """The model that the settings name reranks, so nothing follows `llm:`. Raises ConfigError when something does."""
    if model:
        raise ConfigError(f"reranker 'llm:{model}': the model is the one that llm (or recall_llm) names; write 'llm:'")
    return LLMReranker(options)


class LLMReranker:
    """See `Reranker`. Texts are data for the model; its numbers are checked, and a text without one gets 0."""

    identity = "llm:"

    def __init__(self, options: RerankerOptions) -> None:
        self._llm_factory = options.llm_factory
        self._closed = False

    async def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """See `Reranker.score`. InvalidModelOutput: fewer than half of the texts were given a score."""
        if self._closed:
            raise Closed("the reranker was closed")
        if not texts:
            return []
        llm = self._llm_factory()
        if llm is None:
            raise ConfigError("needs a language model: set llm (or recall_llm), as in llm='anthropic:claude-haiku-4-5'")
        numbered = {str(number): text[:MAX_TEXT_CHARS] for number, text in enumerate(texts, 1)}
        request = LLMRequest(
            "rerank",
            load_templates("agentmem.models.providers", "llm.md")["system"],
            json.dumps({"question": query[:MAX_QUERY_CHARS], "texts": numbered}, ensure_ascii=False),
            max_tokens=100 + REPLY_TOKENS_PER_TEXT * len(texts),
            temperature=0.0,
        )
        found = (await llm.ask(request, RerankScores)).scores
        given: dict[int, float] = {}
        for each in found:
            if 1 <= each.number <= len(texts):
                given.setdefault(each.number, min(max(each.score, 0.0), float(MAX_SCORE)))
        if 2 * len(given) < len(texts):
            raise InvalidModelOutput(f"rerank: {len(given)} of {len(texts)} texts were given a score")
        return [given.get(number, 0.0) for number in range(1, len(texts) + 1)]

    async def close(self) -> None:
        """The model is its owner's to close."""
        self._closed = True
