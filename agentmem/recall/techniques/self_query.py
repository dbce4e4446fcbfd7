"""Filters in a question: a language model reads from it a time, kinds, names and words, and all of them are applied.

What it reads are bonuses, half the size of those for what the rules read in the query itself: a wrong reading moves
records, it hides none.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta

import numpy as np
from pydantic import BaseModel, Field

from agentmem.model.clock import micros
from agentmem.model.outline import ALWAYS, Floats
from agentmem.recall.again import configured, worded
from agentmem.recall.asking import LLMOptions, asked, tidied
from agentmem.recall.technique import Hits, Memory, Query, Ranked
from agentmem.recall.techniques import entity, keyword

MOST = 8  # names, and keywords


class Options(LLMOptions):
    """What is added: `date` to what began in the time range, `kind` to records of the kinds asked for, `named` to the
    entities and `linked` to what is one step from them. `weight` is that of the keywords beside the query's own lists,
    which weigh 1 each."""

    date: float = Field(default=0.2, ge=0)
    kind: float = Field(default=0.1, ge=0)
    named: float = Field(default=0.1, ge=0)
    linked: float = Field(default=0.05, ge=0)
    weight: float = Field(default=1.0, gt=0)
    temperature: float = Field(default=0.2, ge=0, le=2)
    max_tokens: int = Field(default=200, ge=1)


class Filters(BaseModel):
    """What the model is asked for."""

    first_day: str | None = None
    last_day: str | None = None
    kinds: list[str] = []
    entities: list[str] = []
    keywords: list[str] = []


async def search(query: Query, memory: Memory, options: Options) -> Hits:
    """The lists `range`, `kinds`, `linked` and `keywords`, each where the question says something of it."""
    request = asked("self_query", query.read.text, max_tokens=options.max_tokens, temperature=options.temperature)
    today = f"Today is {query.now:%A}, {query.now.date().isoformat()}.\n"
    filters = await memory.ask(replace(request, content=today + request.content), Filters)
    lists: dict[str, Ranked] = {}
    if (inside := _in_range(filters, memory)) is not None:
        lists["range"] = Ranked(options.date * inside, "added")
    if (asked_for := _of_kinds(filters.kinds, query, memory)) is not None:
        lists["kinds"] = Ranked(options.kind * asked_for, "added")
    if names := tidied(filters.entities, MOST):
        by_link = configured("entity", entity.Options, memory)
        by_link = by_link.model_copy(update={"named": options.named, "linked": options.linked})
        # The question stays beside the names, because its words choose among their relations.
        found = await entity.search(worded(query, f"{', '.join(names)}. {query.read.text}"), memory, by_link)
        lists |= {"linked": found["entities"]} if found else {}
    if words := tidied(filters.keywords, MOST):
        found = await keyword.search(
            worded(query, ", ".join(words)), memory, configured("keyword", keyword.Options, memory)
        )
        lists |= {"keywords": replace(found["words"], weight=options.weight)} if found else {}
    return lists


def _in_range(filters: Filters, memory: Memory) -> Floats | None:
    """1 for what began to be true in the range. A range that no day lies in is dropped with a note."""
    if not (filters.first_day or filters.last_day):
        return None
    try:
        first = _midnight(filters.first_day) if filters.first_day else None
        last = _midnight(filters.last_day) + timedelta(days=1) if filters.last_day else None
    except (ValueError, OverflowError):
        memory.note("time range dropped: no calendar days")
        return None
    if first is not None and last is not None and first >= last:
        memory.note("time range dropped: it ends before it begins")
        return None
    begins = memory.outline.valid_from
    inside = memory.mask & (begins != ALWAYS)
    if first is not None:
        inside &= begins >= micros(first)
    if last is not None:
        inside &= begins < micros(last)
    return np.asarray(inside, dtype=np.float32)


def _midnight(day: str) -> datetime:
    return datetime.combine(date.fromisoformat(day.strip()), time.min, tzinfo=UTC)


def _of_kinds(kinds: list[str], query: Query, memory: Memory) -> Floats | None:
    """1 for records of the kinds asked for; None when that is no kind, or every kind there is."""
    known = {kind.lower(): kind for kind in query.request.kinds}
    chosen = {known[kind.strip().lower()] for kind in kinds if kind.strip().lower() in known}
    fits = memory.outline.kinds.among(chosen)[memory.outline.kind] & memory.mask
    return fits.astype(np.float32) if fits.any() and not fits[memory.mask].all() else None
