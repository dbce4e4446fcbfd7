"""Time: what began on a date or in a span that the query names, and what speaks of time when the query asks when."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from agentmem.core.clock import to_micros
from agentmem.core.columns import MENTIONS_TIME, Floats
from agentmem.core.ranking import ScoreList
from agentmem.recall.cache import split_days
from agentmem.recall.request import RecallQuery
from agentmem.recall.technique import ScoreLists, SearchContext, TechniqueOptions
from agentmem.text.temporal import parse_relative_range


class Options(TechniqueOptions):
    """`date`: added to what fits a date or span. `when`: added to what holds a word of time, when asked when."""

    date: float = Field(default=0.4, ge=0)
    when: float = Field(default=0.05, ge=0)


async def search(query: RecallQuery, context: SearchContext, options: Options) -> ScoreLists:
    """The lists `date` and `when`, each only where the query calls for it."""
    lists: dict[str, ScoreList] = {}
    columns = context.columns
    if (dated := _date_match(query, context)) is not None:
        lists["date"] = ScoreList(options.date * dated, "bonus")
    if query.parsed.asks_when:
        telling = (columns.asks & MENTIONS_TIME) != 0
        lists["when"] = ScoreList((options.when * telling).astype(np.float32), "bonus")
    return lists


def _date_match(query: RecallQuery, context: SearchContext) -> Floats | None:
    """How well each record's time fits the dates of the query, 0 to 1; matched once per day, not per record."""
    if (hint := query.parsed.date_hint) is not None:
        days, place = context.cache.distinct_days(context.columns)
        return hint.match(**split_days(days))[place].astype(np.float32)
    span = parse_relative_range(query.parsed.text, query.now)
    if span is None:
        return None
    begins = context.columns.valid_from
    return np.asarray((begins >= to_micros(span[0])) & (begins < to_micros(span[1])), dtype=np.float32)
