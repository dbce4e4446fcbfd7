"""Brings the counts that tools carry up to their calls: by the new ones alone, or anew where some went."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from agentmem.consolidation import JobReport
from agentmem.memory.tools import tool_of
from agentmem.model.changes import Change, Write
from agentmem.model.outline import NEVER, Ints
from agentmem.model.records import Tool, ToolInvocation
from agentmem.model.scope import GLOBAL, Scope
from agentmem.resources import Resources
from agentmem.stores import Where

PAGE = 500


@dataclass(slots=True)
class _More:
    """What the calls of one tool add."""

    tool: Tool
    calls: int = 0
    successes: int = 0
    timed: int = 0
    total_ms: float = 0.0

    def add(self, call: ToolInvocation) -> None:
        self.calls += 1
        self.successes += call.success is True
        if call.latency_ms is not None:
            self.timed += 1
            self.total_ms += call.latency_ms

    def onto(self, tool: Tool, counted: int) -> Tool:
        total, timed = tool.latency_ms_sum + self.total_ms, tool.timed_count + self.timed
        return tool.model_copy(update={
            "usage_count": tool.usage_count + self.calls, "success_count": tool.success_count + self.successes,
            "latency_ms_sum": total, "timed_count": timed, "avg_latency_ms": total / timed if timed else None,
            "counted": counted,
        })  # fmt: skip


async def count_tools(resources: Resources, scope: Scope, report: JobReport, fence: int) -> None:
    """Write the counts of the tools that were called since they were last counted.

    Where calls were erased, forgotten or taken back since, all are counted anew.
    """
    outline = await resources.outline(scope)
    mask = (outline.kind == outline.kinds.find("ToolInvocation")) & (outline.superseded_at == NEVER)
    mask &= outline.statuses.among(("active",))[outline.status]
    tools = await _tools(resources, scope)
    counted = max((tool.counted for tool in tools.values()), default=0)
    anew = sum(tool.usage_count for tool in tools.values()) != int((mask & (outline.seqs <= counted)).sum())
    slots = np.flatnonzero(mask if anew else mask & (outline.seqs > counted))
    if not anew and not len(slots):
        return
    more = await _more(resources, scope, slots)
    base = {name: _emptied(tool) if anew else tool for name, tool in tools.items()}
    fresh = {name: each.onto(base.get(name, each.tool), outline.seq) for name, each in more.items()}
    fresh |= {name: tool for name, tool in base.items() if name not in fresh and tool != tools[name]}
    by_channel: dict[str, list[Tool]] = {}
    for name, tool in sorted(fresh.items()):
        if tool != tools.get(name):
            by_channel.setdefault(tool.channel, []).append(tool)
    for channel, some in by_channel.items():
        await _put(resources, scope, channel, some, tools, fence)
        report.count(tools=len(some))


async def _tools(resources: Resources, scope: Scope) -> dict[str, Tool]:
    """All tools of the user, by id."""
    found: dict[str, Tool] = {}
    read = 0
    while page := await resources.log.find(scope, Where(kinds=("Tool",)), limit=PAGE, offset=read):
        found |= {record.id: record for record in page if isinstance(record, Tool)}
        read += len(page)
    return found


async def _more(resources: Resources, scope: Scope, slots: Ints) -> dict[str, _More]:
    """What these calls add, by the id of their tool."""
    found: dict[str, _More] = {}
    for start in range(0, len(slots), PAGE):
        for call in await resources.log.by_slot([int(slot) for slot in slots[start : start + PAGE]], scope):
            if isinstance(call, ToolInvocation):
                if call.tool_id not in found:
                    found[call.tool_id] = _More(tool_of(call.tool_name, call.channel))
                found[call.tool_id].add(call)
    return found


def _emptied(tool: Tool) -> Tool:
    nothing = {"usage_count": 0, "success_count": 0, "latency_ms_sum": 0.0, "timed_count": 0, "avg_latency_ms": None}
    return tool.model_copy(update=nothing)


async def _put(
    resources: Resources, scope: Scope, channel: str, tools: list[Tool], before: Mapping[str, Tool], fence: int
) -> None:  # fmt: skip
    agent = channel.removeprefix("_self_") if channel.startswith("_self_") else None
    expects = {tool.key: before[tool.id].seq if tool.id in before else None for tool in tools}

    async def make(write: Write) -> Change:
        return write.change(*tools, expects=expects)

    await resources.write(
        Scope(scope.user_id, channel or GLOBAL, agent), "patterns", make, kind="Tool", fence=fence
    )  # fmt: skip
