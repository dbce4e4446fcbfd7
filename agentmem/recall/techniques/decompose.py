"""Parts of a question that asks for several things: each is searched by itself, and every part gets its places.

Only what looks like several questions is taken apart: by a language model, which repeats in each part what it needs to
stand alone, and without one where the words themselves say where to cut. A question for a list is one question.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence

import numpy as np
from pydantic import BaseModel, Field

from agentmem.model.outline import Floats, Ints
from agentmem.model.ranking import best
from agentmem.recall.again import by_all, worded
from agentmem.recall.asking import LLMOptions, NoModel, asked, tidied
from agentmem.recall.technique import Hits, Memory, Query, Ranked
from agentmem.text.words import terms

MOST = 5
_ASKING = "what|which|who|whom|whose|when|where|why|how"
_VERBS = "is|are|was|were|do|does|did|has|have|had|will|would|can|could|should"
_SUBJECT = r"i|you|we|he|she|it|they|there|the|(?-i:[A-Z])\w+"
_BETWEEN = re.compile(
    r"\?+|;|\n|(?<!\s),?\s+(?:and|or|plus|as\s+well\s+as)\s+(?:also\s+|then\s+)?"
    rf"(?=(?:(?:{_ASKING})|(?:{_VERBS})\s+(?:{_SUBJECT}))\b)",
    re.IGNORECASE,
)
_ASKS = re.compile(rf"\W*(?:{_ASKING}|{_VERBS})\b", re.IGNORECASE)
_CUT_SHORT = re.compile(rf"\b(?:{_ASKING})$", re.IGNORECASE)  # "know when and how she left"
_WORD = re.compile(r"\w")
_TOPICS = re.compile(r"\W*(?:\w+\s){0,3}?(?:tell|remind|brief|update)\s(?:me|us)\b.*(?:,|\band\b)", re.IGNORECASE)


class Options(LLMOptions):
    """`weight` is that of the list beside the query's own, which weigh 1 each; `depth` how many places it has."""

    weight: float = Field(default=1.0, gt=0)
    depth: int = Field(default=30, ge=2, le=1000)
    temperature: float = Field(default=0.2, ge=0, le=2)
    max_tokens: int = Field(default=200, ge=1)


class Parts(BaseModel):
    """What the model is asked for."""

    parts: list[str]


async def search(query: Query, memory: Memory, options: Options) -> Hits:
    """The list `parts`: the best of each part in turn. Nothing for a question that has no parts."""
    parts = await _parts(query, memory, options)
    if len(parts) < 2:
        return {}
    found = await asyncio.gather(*(by_all(worded(query, part), memory) for part in parts))
    visible = np.flatnonzero(memory.mask)
    orders = [best(scores, visible, options.depth, memory.outline) for scores in found]
    return {"parts": Ranked(_in_turn(orders, options.depth, memory.outline.size), weight=options.weight)}


async def _parts(query: Query, memory: Memory, options: Options) -> list[str]:
    text = query.read.text
    if len(_pieces(text)) < 2 and _TOPICS.match(text) is None:
        return []
    request = asked("decompose", text, max_tokens=options.max_tokens, temperature=options.temperature)
    try:
        return tidied((await memory.ask(request, Parts)).parts, MOST)
    except NoModel:
        return split(text)


def split(text: str) -> list[str]:
    """The two to five questions that a text plainly consists of (English); none when it is one, or not plain."""
    parts = [part for part in _pieces(text) if terms(part)]
    return parts if 2 <= len(parts) <= MOST else []


def _pieces(text: str) -> list[str]:
    """What stands between the words and marks that part questions; nothing where a cut would take a question apart."""
    asked, mark, rest = text.rpartition("?")
    asked = text if not mark or _ASKS.match(rest) else asked  # what follows the last question is how to answer it
    pieces = [piece.strip(" ,.") for piece in _BETWEEN.split(asked)]
    return [] if any(map(_CUT_SHORT.search, pieces)) else [piece for piece in pieces if _WORD.search(piece)]


def _in_turn(orders: Sequence[Ints], depth: int, size: int) -> Floats:
    """By slot how early it comes when the parts take turns, 1 for the first; 0 beyond `depth`."""
    every = (int(order[nth]) for nth in range(depth) for order in orders if nth < len(order))
    places = list(dict.fromkeys(every))[:depth]
    values = np.zeros(size, dtype=np.float32)
    values[places] = 1 - np.arange(len(places), dtype=np.float32) / depth
    return values
