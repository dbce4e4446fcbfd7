"""What a context holds beside what was ranked for its question: the other tiers of memory."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentmem.memory import MemoryContext
from agentmem.model.records import Goal, Synopsis, Turn
from agentmem.recall.options import ContextOptions

if TYPE_CHECKING:
    from agentmem.memory.outputs import ToolOutputMatch


@dataclass(frozen=True, slots=True)
class ContextSources:
    """The last turns of the conversation, oldest first, what the user is and does, open goals, and outputs of tools."""

    recent_turns: Sequence[Turn] = ()
    synopsis: Synopsis | None = None
    goals: Sequence[Goal] = ()
    outputs: Sequence[ToolOutputMatch] = ()


async def gather_sources(context: MemoryContext, query: str, options: ContextOptions) -> ContextSources:
    """Read the other tiers, side by side; each empty where there is nothing."""
    from agentmem.memory.goals import Goals
    from agentmem.memory.synopsis import Synopses
    from agentmem.memory.working import WorkingMemory

    working = WorkingMemory(context)

    async def outputs() -> list[ToolOutputMatch]:
        return await working.search_outputs(query, options.outputs) if options.outputs else []

    async def synopsis() -> Synopsis | None:
        return await Synopses(context).read() if options.synopsis_room else None

    recent, known, goals, found = await asyncio.gather(
        working.turns(options.recent), synopsis(), Goals(context).active(), outputs()
    )
    return ContextSources(recent, known, goals[: options.goals], found)
