"""Parts of a question that asks for several things: each is searched by itself, and every part gets its places.

Only what looks like several questions is taken apart: by a language model, which repeats in each part what it needs to
stand alone, and without one where the words themselves say where to cut. A question for a list is one question.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence

import numpy as np
from pydantic import BaseModel

from agentmem.core.columns import Floats, Ints
from agentmem.core.ranking import ScoreList, top_k
from agentmem.recall.llm_client import (
    LLMNotConfigured,
    LLMTechniqueOptions,
    build_technique_request,
    normalize_sentences,
)
from agentmem.recall.request import RecallQuery
from agentmem.recall.subquery import search_hybrid, with_text
from agentmem.recall.technique import ScoreLists, SearchContext
from agentmem.text.tokenizer import tokenize

MAX_PARTS = 5
_QUESTION_WORDS = "what|which|who|whom|whose|when|where|why|how"
_AUXILIARY_VERBS = "is|are|was|were|do|does|did|has|have|had|will|would|can|could|should"
_SUBJECT = r"i|you|we|he|she|it|they|there|the|(?-i:[A-Z])\w+"
_PART_SEPARATOR = re.compile(
    r"\?+|;|\n|(?<!\s),?\s+(?:and|or|plus|as\s+well\s+as)\s+(?:also\s+|then\s+)?"
    rf"(?=(?:(?:{_QUESTION_WORDS})|(?:{_AUXILIARY_VERBS})\s+(?:{_SUBJECT}))\b)",
    re.IGNORECASE,
)
_QUESTION_START = re.compile(rf"\W*(?:{_QUESTION_WORDS}|{_AUXILIARY_VERBS})\b", re.IGNORECASE)
_DANGLING_QUESTION_WORD = re.compile(rf"\b(?:{_QUESTION_WORDS})$", re.IGNORECASE)  # "know when and how she left"
_WORD = re.compile(r"\w")
_TOPIC_REQUEST = re.compile(
    r"\W*(?:\w+\s){0,3}?(?:tell|remind|brief|update)\s(?:me|us)\b.*(?:,|\band\b)", re.IGNORECASE
)


LIST_DEPTH = 30  # places of the list `parts`
MAX_TOKENS = 200  # of the reply
TEMPERATURE = 0.2


class Options(LLMTechniqueOptions):
    """Nothing beside what every technique has that asks a model."""


class QuestionParts(BaseModel):
    """What the model is asked for."""

    parts: list[str]


async def search(query: RecallQuery, context: SearchContext, options: Options) -> ScoreLists:
    """The list `parts`: the best of each part in turn. Nothing for a question that has no parts."""
    parts = await _find_parts(query, context)
    if len(parts) < 2:
        return {}
    found = await asyncio.gather(*(search_hybrid(with_text(query, part), context) for part in parts))
    visible = np.flatnonzero(context.mask)
    orders = [top_k(scores, visible, LIST_DEPTH, context.columns) for scores in found]
    return {"parts": ScoreList(_interleave_scores(orders, LIST_DEPTH, context.columns.size), weight=options.weight)}


async def _find_parts(query: RecallQuery, context: SearchContext) -> list[str]:
    text = query.parsed.text
    if len(_split_text(text)) < 2 and _TOPIC_REQUEST.match(text) is None:
        return []
    request = build_technique_request("decompose", text, max_tokens=MAX_TOKENS, temperature=TEMPERATURE)
    try:
        return normalize_sentences((await context.ask(request, QuestionParts)).parts, MAX_PARTS)
    except LLMNotConfigured:
        return split_question(text)


def split_question(text: str) -> list[str]:
    """The two to five questions that a text plainly consists of (English); none when it is one, or not plain."""
    parts = [part for part in _split_text(text) if tokenize(part)]
    return parts if 2 <= len(parts) <= MAX_PARTS else []


def _split_text(text: str) -> list[str]:
    """What stands between the words and marks that part questions; nothing where a cut would take a question apart."""
    asked, mark, rest = text.rpartition("?")
    # what follows the last question is how to answer it
    asked = text if not mark or _QUESTION_START.match(rest) else asked
    pieces = [piece.strip(" ,.") for piece in _PART_SEPARATOR.split(asked)]
    return (
        [] if any(map(_DANGLING_QUESTION_WORD.search, pieces)) else [piece for piece in pieces if _WORD.search(piece)]
    )


def _interleave_scores(orders: Sequence[Ints], depth: int, size: int) -> Floats:
    """By ordinal how early it comes when the parts take turns, 1 for the first; 0 beyond `depth`."""
    every = (int(order[nth]) for nth in range(depth) for order in orders if nth < len(order))
    places = list(dict.fromkeys(every))[:depth]
    values = np.zeros(size, dtype=np.float32)
    values[places] = 1 - np.arange(len(places), dtype=np.float32) / depth
    return values
