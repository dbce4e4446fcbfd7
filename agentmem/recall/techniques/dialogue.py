"""Who speaks and how: turns of the one speaker the query names gain, turns that only ask lose."""

from __future__ import annotations

import numpy as np

from agentmem.core.columns import ENDS_WITH_QUESTION
from agentmem.core.ranking import ScoreList
from agentmem.recall.request import RecallQuery
from agentmem.recall.technique import ScoreLists, SearchContext, TechniqueOptions

# Tuned on the dialogues (786 questions, LoCoMo-shaped) and messages (170, BEAM-shaped) of docs/recall.md. Without each,
# R@10 of the dialogues changes by -.039, +.001 (MRR -.006) and -.007.
SPEAKER_BONUS = 0.25  # for turns of the one speaker that the query names
FIRST_SPEAKER_BONUS = 0.1  # for those of the first of several, who is mostly the one asked about
ASKING_PENALTY = 0.06  # from turns that end by asking, as far as the memory states rather than asks


class Options(TechniqueOptions):
    """Nothing beside what every technique has."""


async def search(query: RecallQuery, context: SearchContext, options: Options) -> ScoreLists:
    """The lists `speaker`, where several speak and the query names one of them, and `asks`, in a memory calm enough."""
    lists: dict[str, ScoreList] = {}
    columns, named = context.columns, query.parsed.named_speakers
    worth = SPEAKER_BONUS if len(named) == 1 else FIRST_SPEAKER_BONUS
    if named and _has_several_speakers(context):
        theirs = columns.speaker == columns.speakers.find_code(named[0])
        lists["speaker"] = ScoreList((worth * theirs).astype(np.float32), "bonus")
    if context.statement_ratio > 0:
        asking = (columns.asks & ENDS_WITH_QUESTION) != 0
        lists["asks"] = ScoreList((-ASKING_PENALTY * context.statement_ratio * asking).astype(np.float32), "bonus")
    return lists


def _has_several_speakers(context: SearchContext) -> bool:
    def count() -> int:
        speakers = context.columns.speaker[context.turn_mask]
        return len(np.unique(speakers[speakers >= 0]))

    return context.cache.get_or_compute("speakers", context.columns, context.mask, count) > 1
