"""Time: what began on a date or in a span that the query names, and what speaks of time when the query asks when."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from agentmem.model.clock import micros
from agentmem.model.outline import TELLS_TIME, Floats
from agentmem.model.ranking import Ranked
from agentmem.recall.kept import split_days
from agentmem.recall.technique import Hits, Memory, Query
from agentmem.recall.technique import Options as TechniqueOptions
from agentmem.text.query import relative_range


class Options(TechniqueOptions):
    """`date`: added to what fits a date or span. `when`: added to what holds a word of time, when asked when."""

    date: float = Field(default=0.4, ge=0)
    when: float = Field(default=0.05, ge=0)


async def search(query: Query, memory: Memory, options: Options) -> Hits:
    """The lists `date` and `when`, each only where the query calls for it."""
    lists: dict[str, Ranked] = {}
    outline = memory.outline
    if (dated := _dated(query, memory)) is not None:
        lists["date"] = Ranked(options.date * dated, "added")
    if query.read.asks_when:
        telling = (outline.asks & TELLS_TIME) != 0
        lists["when"] = Ranked((options.when * telling).astype(np.float32), "added")
    return lists


def _dated(query: Query, memory: Memory) -> Floats | None:
    """How well each record's time fits the dates of the query, 0 to 1; matched once per day, not per record."""
    if (hint := query.read.dates) is not None:
        days, place = memory.kept.days(memory.outline)
        return hint.match(**split_days(days))[place].astype(np.float32)
    span = relative_range(query.read.text, query.now)
    if span is None:
        return None
    begins = memory.outline.valid_from
    return np.asarray((begins >= micros(span[0])) & (begins < micros(span[1])), dtype=np.float32)
