"""Who speaks and how: turns of the one speaker the query names gain, turns that only ask lose."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from agentmem.core.columns import ENDS_WITH_QUESTION
from agentmem.core.ranking import ScoreList
from agentmem.recall.request import RecallQuery
from agentmem.recall.technique import ScoreLists, SearchContext, TechniqueOptions


class Options(TechniqueOptions):
    """`speaker` is added to turns of the one speaker named, `first` to those of the first of several named, who is
    mostly the one asked about. `asking` times calm is taken from turns that end by asking."""

    speaker: float = Field(default=0.25, ge=0)
    first: float = Field(default=0.1, ge=0)
    asking: float = Field(default=0.06, ge=0)


async def search(query: RecallQuery, context: SearchContext, options: Options) -> ScoreLists:
    """The lists `speaker`, where several speak and the query names one of them, and `asks`, in a memory calm enough."""
    lists: dict[str, ScoreList] = {}
    columns, named = context.columns, query.parsed.named_speakers
    worth = options.speaker if len(named) == 1 else options.first
    if named and worth and _has_several_speakers(context):
        theirs = columns.speaker == columns.speakers.find_code(named[0])
        lists["speaker"] = ScoreList((worth * theirs).astype(np.float32), "bonus")
    if context.statement_ratio * options.asking > 0:
        asking = (columns.asks & ENDS_WITH_QUESTION) != 0
        lists["asks"] = ScoreList((-options.asking * context.statement_ratio * asking).astype(np.float32), "bonus")
    return lists


def _has_several_speakers(context: SearchContext) -> bool:
    def count() -> int:
        speakers = context.columns.speaker[context.turn_mask]
        return len(np.unique(speakers[speakers >= 0]))

    return context.cache.get_or_compute("speakers", context.columns, context.mask, count) > 1
