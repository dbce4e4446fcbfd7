"""Filters in a question: a language model reads from it a time, kinds, names and words, and all of them are applied.

What it reads are bonuses, half the size of those for what the rules read in the query itself: a wrong reading moves
records, it hides none.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta

import numpy as np
from pydantic import BaseModel

from agentmem.core.clock import to_micros
from agentmem.core.columns import MIN_TIME, Floats
from agentmem.core.local_time import to_zone
from agentmem.core.ranking import ScoreList
from agentmem.recall.cache import to_wall_times
from agentmem.recall.llm_client import LLMTechniqueOptions, build_technique_request, normalize_sentences
from agentmem.recall.request import RecallQuery
from agentmem.recall.subquery import with_text
from agentmem.recall.technique import ScoreLists, SearchContext
from agentmem.recall.techniques import entity, keyword, temporal
from agentmem.recall.techniques.temporal import find_offset, find_zone

MAX_VALUES = 8  # names, and keywords


# Half of what `temporal` and `entity` give for what the rules read in the query itself, since a model may misread.
DATE_BONUS = temporal.DATE_BONUS / 2  # for what began in the time range
KIND_BONUS = 0.1  # for records of the kinds asked for
NAMED_BONUS = entity.NAMED_BONUS / 2  # for the entities named
LINKED_BONUS = entity.LINKED_BONUS / 2  # for what is one step from them
MAX_TOKENS = 200  # of the reply
TEMPERATURE = 0.2


class Options(LLMTechniqueOptions):
    """Nothing beside what every technique has that asks a model."""


class QuestionFilters(BaseModel):
    """What the model is asked for."""

    first_day: str | None = None
    last_day: str | None = None
    kinds: list[str] = []
    entities: list[str] = []
    keywords: list[str] = []


async def search(query: RecallQuery, context: SearchContext, options: Options) -> ScoreLists:
    """The lists `range`, `kinds`, `linked` and `keywords`, each where the question says something of it."""
    request = build_technique_request("self_query", query.parsed.text, max_tokens=MAX_TOKENS, temperature=TEMPERATURE)
    now = to_zone(query.now, await find_zone(query, context))
    today = f"Today is {now:%A}, {now.date().isoformat()}.\n"
    filters = await context.ask(replace(request, content=today + request.content), QuestionFilters)
    lists: dict[str, ScoreList] = {}
    if (inside := _date_range_mask(filters, context, find_offset(now))) is not None:
        lists["range"] = ScoreList(DATE_BONUS * inside, "bonus")
    if (asked_for := _kind_mask(filters.kinds, query, context)) is not None:
        lists["kinds"] = ScoreList(KIND_BONUS * asked_for, "bonus")
    if names := normalize_sentences(filters.entities, MAX_VALUES):
        by_link = context.technique_options.get("entity")
        by_link = by_link if isinstance(by_link, entity.Options) else entity.Options()
        # The question stays beside the names, because its words choose among their relations.
        asked = with_text(query, f"{', '.join(names)}. {query.parsed.text}")
        found = await entity.search_links(asked, context, by_link, named_bonus=NAMED_BONUS, linked_bonus=LINKED_BONUS)
        lists |= {"linked": found["entities"]} if found else {}
    if words := normalize_sentences(filters.keywords, MAX_VALUES):
        found = await keyword.search(with_text(query, ", ".join(words)), context, keyword.Options())
        lists |= {"keywords": replace(found["words"], weight=options.weight)} if found else {}
    return lists


def _date_range_mask(filters: QuestionFilters, context: SearchContext, offset: int) -> Floats | None:
    """1 for what began in the range, by days of this offset. A range that no day lies in is dropped with a note."""
    if not (filters.first_day or filters.last_day):
        return None
    try:
        first = _parse_midnight(filters.first_day) if filters.first_day else None
        last = _parse_midnight(filters.last_day) + timedelta(days=1) if filters.last_day else None
    except (ValueError, OverflowError):
        context.add_trace_note("time range dropped: no calendar days")
        return None
    if first is not None and last is not None and first >= last:
        context.add_trace_note("time range dropped: it ends before it begins")
        return None
    begins = context.columns.valid_from
    shown = to_wall_times(begins, offset)
    inside = context.mask & (begins != MIN_TIME)
    if first is not None:
        inside &= shown >= to_micros(first)
    if last is not None:
        inside &= shown < to_micros(last)
    return np.asarray(inside, dtype=np.float32)


def _parse_midnight(day: str) -> datetime:
    return datetime.combine(date.fromisoformat(day.strip()), time.min, tzinfo=UTC)


def _kind_mask(kinds: list[str], query: RecallQuery, context: SearchContext) -> Floats | None:
    """1 for records of the kinds asked for; None when that is no kind, or every kind there is."""
    known = {kind.lower(): kind for kind in query.request.kinds}
    chosen = {known[kind.strip().lower()] for kind in kinds if kind.strip().lower() in known}
    fits = context.columns.kinds.mask_for(chosen)[context.columns.kind] & context.mask
    return fits.astype(np.float32) if fits.any() and not fits[context.mask].all() else None
