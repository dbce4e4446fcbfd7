"""The calls that one attempt at a task made, and whether they followed a strategy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from agentmem.core.procedural_records import Outcome, Strategy, ToolInvocation
from agentmem.memory.context import MemoryContext

MAX_TOOLS = 64  # in one sequence, the latest
MAX_CALLS = 500  # of one attempt that are looked at, the latest


async def read_attempt_calls(context: MemoryContext, conversation_id: str) -> list[ToolInvocation]:
    """The current calls of a conversation since its last outcome, oldest first; [] outside of conversations."""
    if not conversation_id:
        return []
    columns = await context.engine.read_columns(context.scope)
    kinds = ("ToolInvocation", "Outcome")
    now, readable = await context.engine.now(context.scope), context.scope.readable_channels()
    visible = columns.build_visibility_mask(readable, now=now, kinds=kinds).mask
    here = np.flatnonzero(visible & (columns.conversation == columns.conversations.find_code(conversation_id)))
    latest = here[-2 * MAX_CALLS :]
    found = await context.engine.log.read_by_ordinal(latest.tolist(), context.scope) if len(latest) else []
    place = {record.key: columns.ordinals_by_key[record.key] for record in found}  # the order in which they came
    last = max((place[record.key] for record in found if isinstance(record, Outcome)), default=-1)
    calls = [record for record in found if isinstance(record, ToolInvocation) and place[record.key] > last]
    return sorted(calls, key=lambda call: (str(call.timestamp), place[call.key]))[-MAX_CALLS:]


def is_followed(strategy: Strategy, calls: Sequence[ToolInvocation]) -> bool:
    """Whether the calls that did not fail are the tools of a strategy in their order.

    A tool called several times in a row counts once. False for a strategy without tools.
    """
    return bool(strategy.tool_sequence) and list_tool_sequence(calls) == collapse_repeats(strategy.tool_sequence)


def is_tried(strategy: Strategy, calls: Sequence[ToolInvocation]) -> bool:
    """Whether a tool of a strategy was called at all."""
    return not set(strategy.tool_sequence).isdisjoint(call.tool_name for call in calls)


def list_tool_sequence(calls: Sequence[ToolInvocation]) -> list[str]:
    """The tools of the calls that did not fail, in their order, repeats aside; at most `MAX_TOOLS`, the latest."""
    return collapse_repeats([call.tool_name for call in calls if call.success is not False])[-MAX_TOOLS:]


def collapse_repeats(names: Sequence[str]) -> list[str]:
    """The names without those that repeat the one before."""
    return [name for at, name in enumerate(names) if at == 0 or names[at - 1] != name]
