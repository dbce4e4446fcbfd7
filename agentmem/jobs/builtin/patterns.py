"""The job `patterns`: strategies from outcomes, and counts of how tools fared.

A strategy is what the user wanted, in the user's own words, and the tools that were called until it was reached. The
counts of the tools are brought up in the same run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from agentmem.core.changes import Change, WriteAttempt
from agentmem.core.columns import MAX_TIME, Bools, Ints, RecordColumns
from agentmem.core.procedural_records import Outcome, Strategy, Tool, ToolInvocation
from agentmem.core.records import Conversation, Turn, build_record
from agentmem.core.scope import GLOBAL, Scope, channel_scope
from agentmem.core.telemetry import DEBUG, INFO, log_event
from agentmem.engine.engine import Engine
from agentmem.errors import Conflict, InvalidRecord, NotFound
from agentmem.extraction.windows import is_substantive
from agentmem.jobs.due_records import read_dead_letter_seqs, record_failure
from agentmem.jobs.job import Job, JobReport, read_all
from agentmem.jobs.runner import LeasedRun, build_leased_run
from agentmem.memory.context import MemoryContext
from agentmem.memory.procedural.attempts import list_tool_sequence
from agentmem.memory.procedural.memory import ProceduralMemory
from agentmem.memory.procedural.strategies import record_outcome, strategy_hash
from agentmem.memory.procedural.tools import build_tool
from agentmem.text.chunking import chunk_text
from agentmem.text.tokenizer import tokenize

NAME = "patterns"
PAGE_SIZE = 500
MAX_TASK_TURNS = 10  # among which the task is looked for
MAX_TASK_CHARS = 200  # characters
MIN_TASK_OVERLAP = 0.5  # share of the words of two tasks that both have, from which they are one


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
        return tool.model_copy(
            update={
                "usage_count": tool.usage_count + self.calls,
                "success_count": tool.success_count + self.successes,
                "latency_ms_sum": total,
                "timed_count": timed,
                "avg_latency_ms": total / timed if timed else None,
                "counted": counted_seq,
            }
        )


async def update_tool_counts(engine: Engine, scope: Scope, report: JobReport, fence: int) -> None:
    """Write the counts of the tools that were called since they were last counted.

    Where calls were erased, forgotten or taken back since, all are counted anew.
    """
    columns = await engine.read_columns(scope)
    mask = _current_mask(columns, "ToolInvocation")
    tools = {tool.id: tool for tool in await read_all(engine, scope, Tool)}
    counted = max((tool.counted for tool in tools.values()), default=0)
    anew = sum(tool.usage_count for tool in tools.values()) != int((mask & (columns.seqs <= counted)).sum())
    ordinals = np.flatnonzero(mask if anew else mask & (columns.seqs > counted))
    if not anew and not len(ordinals):
        return
    more = await _sum_calls(engine, scope, ordinals)
    nothing = {"usage_count": 0, "success_count": 0, "latency_ms_sum": 0.0, "timed_count": 0, "avg_latency_ms": None}
    base = {name: tool.model_copy(update=nothing) if anew else tool for name, tool in tools.items()}
    fresh = {name: each.apply_to(base.get(name, each.tool), columns.seq) for name, each in more.items()}
    fresh |= {name: tool for name, tool in base.items() if name not in fresh and tool != tools[name]}
    by_channel: dict[str, list[Tool]] = {}
    for name, tool in sorted(fresh.items()):
        if tool != tools.get(name):
            by_channel.setdefault(tool.channel, []).append(tool)
    for channel, some in by_channel.items():
        await _write_tools(engine, scope, channel, some, tools, fence)
        report.add_counts(tools=len(some))


async def _sum_calls(engine: Engine, scope: Scope, ordinals: Ints) -> dict[str, _ToolUsageDelta]:
    """What these calls add, by the id of their tool."""
    found: dict[str, _ToolUsageDelta] = {}
    for start in range(0, len(ordinals), PAGE_SIZE):
        for call in await engine.log.read_by_ordinal(
            [int(ordinal) for ordinal in ordinals[start : start + PAGE_SIZE]], scope
        ):
            if isinstance(call, ToolInvocation):
                if call.tool_id not in found:
                    found[call.tool_id] = _ToolUsageDelta(build_tool(call.tool_name, call.channel))
                found[call.tool_id].add(call)
    return found


async def _write_tools(
    engine: Engine, scope: Scope, channel: str, tools: list[Tool], stored_tools: Mapping[str, Tool], fence: int
) -> None:
    expects = {tool.key: stored_tools[tool.id].seq if tool.id in stored_tools else None for tool in tools}

    async def make(write: WriteAttempt) -> Change:
        return write.build_change(*tools, expected_versions=expects)

    await engine.write(channel_scope(scope.user_id, channel or GLOBAL), "patterns", make, kind="Tool", fence=fence)


class _PatternsRun(LeasedRun):
    async def preview(self) -> bool:
        """Count the outcomes that wait."""
        self.report.pending = self.report.conversations = len(await self.read_pending_outcomes())
        return True

    def log_end(self) -> None:
        """Tell how many outcomes were looked at."""
        user, read, pending = self.scope.user_id, self.report.conversations, self.report.pending
        log_event(INFO if read else DEBUG, "patterns_learned", user_id=user, outcomes=read, pending=pending)

    async def read_pending_outcomes(self) -> list[Outcome]:
        """The outcomes to look at, oldest first."""
        after = (await self.engine.job_queue.state(NAME, self.scope)).seq
        parked = await read_dead_letter_seqs(self.engine, NAME, self.scope)
        columns = await self.engine.read_columns(self.scope)
        ordinals = np.flatnonzero(_current_mask(columns, "Outcome") & (columns.seqs > after))
        found: list[Outcome] = []
        for start in range(0, len(ordinals), PAGE_SIZE):
            page = [int(ordinal) for ordinal in ordinals[start : start + PAGE_SIZE]]
            records = await self.engine.log.read_by_ordinal(page, self.scope)
            found += [record for record in records if isinstance(record, Outcome) and not record.learned]
        return [outcome for outcome in found if outcome.seq not in parked]

    async def run_all(self) -> None:
        """Learn from the outcomes that were not looked at yet, oldest first, at most `options.limit` of them."""
        waiting = await self.read_pending_outcomes()
        for number, outcome in enumerate(waiting[: self.options.limit]):
            self.options.progress(NAME, number, len(waiting))
            try:
                await self._learn_from(outcome)
            except (Conflict, InvalidRecord, NotFound) as error:  # of this outcome alone: the others go on
                await record_failure(self.engine, self.scope, self.report, outcome, str(error))
            self.report.conversations += 1
        self.report.pending += max(0, len(waiting) - self.options.limit)
        await update_tool_counts(self.engine, self.scope, self.report, self.fence)

    async def _learn_from(self, outcome: Outcome) -> None:
        scope = channel_scope(self.scope.user_id, outcome.channel, outcome.conversation_id or None)
        context, proposal = MemoryContext(self.engine, scope), await self._propose_strategy(outcome, scope)
        said: list[str] = []

        async def make(write: WriteAttempt) -> Change | None:
            said.clear()
            found = await self.engine.log.read_records("Outcome", [outcome.id], scope)
            if not found or not isinstance(found[0], Outcome) or found[0].learned or found[0].superseded_at:
                return None
            change = await self._build_change(write, context, found[0], proposal, said)
            return await self._mark_learned(change, found[0])

        entry = await self.engine.write(scope, NAME, make, kind="Strategy", fence=self.fence)
        if entry is not None:
            self.report.operation_ids.append(entry.operation_id)
            self.report.add_counts(outcomes=1, **dict.fromkeys(said, 1))

    async def _build_change(
        self,
        write: WriteAttempt,
        context: MemoryContext,
        outcome: Outcome,
        proposal: Strategy | None,
        counters: list[str],
    ) -> Change:
        """The Change that counts the outcome for the strategy that was followed, or makes one of it."""
        if proposal is None:
            return write.build_change()
        procedural = ProceduralMemory(context)
        known = await self._find_matching_strategy(context, proposal)
        if known is None and not outcome.success:
            return write.build_change()
        found = await self.engine.log.read_records("Turn", proposal.source_turn_ids, context.scope)
        sources = [turn for turn in found if turn.superseded_at is None]
        if len(sources) < len(proposal.source_turn_ids):  # forgotten meanwhile, and its words with it
            return write.build_change()
        if known is None:
            counters.append("strategies_learned")
            expects = {record.key: record.seq for record in sources}
            return await procedural.build_learn_change(
                write, proposal, expects, success=True, conversation_id=outcome.conversation_id
            )
        if known.id in outcome.strategy_ids:  # `reflect` has counted it
            return write.build_change()
        counters.append("strategies_strengthened" if outcome.success else "strategies_weakened")
        return write.build_change(
            record_outcome(known, outcome.success, write, outcome.conversation_id),
            expected_versions={known.key: known.seq},
        )

    async def _mark_learned(self, change: Change, outcome: Outcome) -> Change:
        """The change, with which the outcome counts as looked at, and its conversation, too."""
        puts = [*change.upserts, outcome.model_copy(update={"learned": True})]
        expects = {**change.expected_versions, outcome.key: outcome.seq}
        for record in await self.engine.log.read_records("Conversation", [outcome.conversation_id], self.scope):
            current = isinstance(record, Conversation) and record.superseded_at is None
            if current and record.channel == outcome.channel:
                puts.append(record.model_copy(update={"patterns_extracted": True}))
                expects[record.key] = record.seq
        return replace(change, upserts=tuple(puts), expected_versions=expects)

    async def _find_matching_strategy(self, context: MemoryContext, proposal: Strategy) -> Strategy | None:
        """The strategy of this channel with the same tools for the same task, by its type or by its words."""
        digest = strategy_hash(proposal.description, proposal.tool_sequence)
        found = []
        for record in await context.list_readable("Strategy", channels=[context.scope.channel]):
            if not isinstance(record, Strategy) or record.superseded_at is not None:
                continue
            if record.tool_sequence == proposal.tool_sequence:
                same_type = bool(proposal.task_type) and record.task_type == proposal.task_type
                alike = (
                    1.0 if record.strategy_hash == digest else _term_overlap(record.description, proposal.description)
                )
                if same_type or alike >= MIN_TASK_OVERLAP:
                    found.append((alike, record.success_count, record.id, record))
        return max(found)[3] if found else None

    async def _propose_strategy(self, outcome: Outcome, scope: Scope) -> Strategy | None:
        """What was done for what, in the stretch of the conversation that this outcome ends; None without either."""
        if not outcome.conversation_id:
            return None
        columns = await self.engine.read_columns(scope)
        here = self._segment_mask(columns, outcome, scope)
        calls = await self._read_calls(
            np.flatnonzero(here & (columns.kind == columns.kinds.find_code("ToolInvocation")))
        )
        task = await self._find_task_turn(columns, here) if calls else None
        if task is None:
            return None
        types = {kind for kind in (outcome.task_type, *(call.task_type for call in calls)) if kind}
        return build_record(
            Strategy,
            description=_truncate_task(task.content),
            channel=outcome.channel,
            source_turn_ids=(task.id,),
            tool_sequence=tuple(list_tool_sequence(calls)),
            task_type=outcome.task_type or (types.pop() if len(types) == 1 else ""),
        )

    def _segment_mask(self, columns: RecordColumns, outcome: Outcome, scope: Scope) -> Bools:
        """What was stored in the conversation after the outcome before this one, and before this one itself."""
        conversation = columns.conversations.find_code(outcome.conversation_id)
        here = (columns.conversation == conversation) & columns.channels.mask_for(scope.readable_channels())[
            columns.channel
        ]
        ends = columns.ordinals_by_key.get(outcome.key, columns.size)
        numbers = np.arange(columns.size)
        earlier = np.flatnonzero(here & (columns.kind == columns.kinds.find_code("Outcome")) & (numbers < ends))
        begins = int(earlier[-1]) if len(earlier) else -1
        current = (columns.superseded_at == MAX_TIME) & columns.statuses.mask_for(("active",))[columns.status]
        return np.asarray(here & current & (numbers > begins) & (numbers < ends))

    async def _read_calls(self, ordinals: Ints) -> list[ToolInvocation]:
        """The calls that did not fail, in the order in which they were made."""
        found: list[ToolInvocation] = []
        for start in range(0, len(ordinals), PAGE_SIZE):
            page = await self.engine.log.read_by_ordinal(
                [int(ordinal) for ordinal in ordinals[start : start + PAGE_SIZE]], self.scope
            )
            found += [call for call in page if isinstance(call, ToolInvocation) and call.success is not False]
        # Those of one moment stay as they were stored: `reflect` gives calls a type, and with it a later `seq`.
        return sorted(found, key=lambda call: str(call.timestamp))

    async def _find_task_turn(self, columns: RecordColumns, mask: Bools) -> Turn | None:
        """The first turn of the user that says anything."""
        ordinals = np.flatnonzero(mask & (columns.kind == columns.kinds.find_code("Turn")))
        first = [
            int(ordinal) for ordinal in ordinals[np.argsort(columns.position[ordinals], kind="stable")][:MAX_TASK_TURNS]
        ]
        for turn in await self.engine.log.read_by_ordinal(first, self.scope) if first else []:
            if isinstance(turn, Turn) and turn.role == "user" and is_substantive(turn):
                return turn
        return None


JOB = Job(
    NAME,
    60.0,
    "changes",
    build_leased_run(NAME, _PatternsRun, "the patterns of this user"),
    watches=("Outcome", "ToolInvocation", "Tool"),
)


def _current_mask(columns: RecordColumns, kind: str) -> Bools:
    active = columns.statuses.mask_for(("active",))[columns.status]
    return np.asarray((columns.kind == columns.kinds.find_code(kind)) & active & (columns.superseded_at == MAX_TIME))


def _truncate_task(text: str) -> str:
    """The first sentences of a task, as far as they fit; a long one is cut at a word."""
    plain = " ".join(text.split())
    ends = [piece.end for piece in chunk_text(plain) if piece.granularity == "sentence" and piece.end <= MAX_TASK_CHARS]
    if len(plain) <= MAX_TASK_CHARS:
        return plain
    return plain[: ends[-1]].strip() if ends else plain[:MAX_TASK_CHARS].rsplit(" ", 1)[0] + "…"


def _term_overlap(first: str, second: str) -> float:
    """The share of the words of both that both have."""
    left, right = set(tokenize(first)), set(tokenize(second))
    return len(left & right) / len(left | right) if left | right else 0.0
