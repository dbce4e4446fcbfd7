"""Who speaks and how: turns of the one speaker the query names gain, turns that only ask lose."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from agentmem.model.outline import ASKS_LAST
from agentmem.model.ranking import Ranked
from agentmem.recall.technique import Hits, Memory, Query
from agentmem.recall.technique import Options as TechniqueOptions


class Options(TechniqueOptions):
    """`speaker` is added to turns of the one speaker named, `first` to those of the first of several named, who is
    mostly the one asked about. `asking` times calm is taken from turns that end by asking."""

    speaker: float = Field(default=0.25, ge=0)
    first: float = Field(default=0.1, ge=0)
    asking: float = Field(default=0.06, ge=0)


async def search(query: Query, memory: Memory, options: Options) -> Hits:
    """The lists `speaker`, where several speak and the query names one of them, and `asks`, in a memory calm enough."""
    lists: dict[str, Ranked] = {}
    outline, named = memory.outline, query.read.named
    worth = options.speaker if len(named) == 1 else options.first
    if named and worth and _several_speak(memory):
        theirs = outline.speaker == outline.speakers.find(named[0])
        lists["speaker"] = Ranked((worth * theirs).astype(np.float32), "added")
    if memory.calm * options.asking > 0:
        asking = (outline.asks & ASKS_LAST) != 0
        lists["asks"] = Ranked((-options.asking * memory.calm * asking).astype(np.float32), "added")
    return lists


def _several_speak(memory: Memory) -> bool:
    def count() -> int:
        speakers = memory.outline.speaker[memory.turns]
        return len(np.unique(speakers[speakers >= 0]))

    return memory.kept.once("speakers", memory.outline, memory.mask, count) > 1
