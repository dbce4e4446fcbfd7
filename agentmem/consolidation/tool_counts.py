"""Brings the counts that tools carry up to their calls: by the new ones alone, or anew where some went."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from agentmem.consolidation import JobReport
from agentmem.memory.tools import build_tool
from agentmem.model.changes import Change, WriteAttempt
from agentmem.model.outline import MAX_TIME, Ints
from agentmem.model.records import Tool, ToolInvocation
from agentmem.model.scope import GLOBAL, Scope
from agentmem.resources import Engine
from agentmem.stores import Where

TOOL_PAGE_SIZE = 500


@dataclass(slots=True)
class _ToolUsageDelta:
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

    def apply_to(self, tool: Tool, counted_seq: int) -> Tool:
        total, timed = tool.latency_ms_sum + self.total_ms, tool.timed_count + self.timed
        return tool.model_copy(update={
            "usage_count": tool.usage_count + self.calls, "success_count": tool.success_count + self.successes,
            "latency_ms_sum": total, "timed_count": timed, "avg_latency_ms": total / timed if timed else None,
            "counted": counted_seq,
        })  # fmt: skip


async def update_tool_counts(engine: Engine, scope: Scope, report: JobReport, fence: int) -> None:
    """Write the counts of the tools that were called since they were last counted.

    Where calls were erased, forgotten or taken back since, all are counted anew.
    """
    columns = await engine.read_columns(scope)
    mask = (columns.kind == columns.kinds.find_code("ToolInvocation")) & (columns.superseded_at == MAX_TIME)
    mask &= columns.statuses.mask_for(("active",))[columns.status]
    tools = await _read_tools(engine, scope)
    counted = max((tool.counted for tool in tools.values()), default=0)
    anew = sum(tool.usage_count for tool in tools.values()) != int((mask & (columns.seqs <= counted)).sum())
    ordinals = np.flatnonzero(mask if anew else mask & (columns.seqs > counted))
    if not anew and not len(ordinals):
        return
    more = await _sum_calls(engine, scope, ordinals)
    base = {name: _reset_counts(tool) if anew else tool for name, tool in tools.items()}
    fresh = {name: each.apply_to(base.get(name, each.tool), columns.seq) for name, each in more.items()}
    fresh |= {name: tool for name, tool in base.items() if name not in fresh and tool != tools[name]}
    by_channel: dict[str, list[Tool]] = {}
    for name, tool in sorted(fresh.items()):
        if tool != tools.get(name):
            by_channel.setdefault(tool.channel, []).append(tool)
    for channel, some in by_channel.items():
        await _write_tools(engine, scope, channel, some, tools, fence)
        report.add_counts(tools=len(some))


async def _read_tools(engine: Engine, scope: Scope) -> dict[str, Tool]:
    """All tools of the user, by id."""
    found: dict[str, Tool] = {}
    read = 0
    while page := await engine.log.find(scope, Where(kinds=("Tool",)), limit=TOOL_PAGE_SIZE, offset=read):
        found |= {record.id: record for record in page if isinstance(record, Tool)}
        read += len(page)
    return found


async def _sum_calls(engine: Engine, scope: Scope, ordinals: Ints) -> dict[str, _ToolUsageDelta]:
    """What these calls add, by the id of their tool."""
    found: dict[str, _ToolUsageDelta] = {}
    for start in range(0, len(ordinals), TOOL_PAGE_SIZE):
        for call in await engine.log.read_by_ordinal(
            [int(ordinal) for ordinal in ordinals[start : start + TOOL_PAGE_SIZE]], scope
        ):
            if isinstance(call, ToolInvocation):
                if call.tool_id not in found:
                    found[call.tool_id] = _ToolUsageDelta(build_tool(call.tool_name, call.channel))
                found[call.tool_id].add(call)
    return found


def _reset_counts(tool: Tool) -> Tool:
    nothing = {"usage_count": 0, "success_count": 0, "latency_ms_sum": 0.0, "timed_count": 0, "avg_latency_ms": None}
    return tool.model_copy(update=nothing)


async def _write_tools(
    engine: Engine, scope: Scope, channel: str, tools: list[Tool], stored_tools: Mapping[str, Tool], fence: int
) -> None:  # fmt: skip
    agent = channel.removeprefix("_self_") if channel.startswith("_self_") else None
    expects = {tool.key: stored_tools[tool.id].seq if tool.id in stored_tools else None for tool in tools}

    async def make(write: WriteAttempt) -> Change:
        return write.build_change(*tools, expected_versions=expects)

    await engine.write(
        Scope(scope.user_id, channel or GLOBAL, agent), "patterns", make, kind="Tool", fence=fence
    )  # fmt: skip
