"""Unused short-lived facts are archived, or erased where the settings say so.

Never those of importance .8 or more, and not while a goal is open in a conversation that they come from.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from agentmem.core.lifecycle import DECAY, GC, NextDue, decay_score_now, decay_start, is_due, next_due
from agentmem.core.record import Key, Record, Status
from agentmem.core.records import Fact, Goal, Turn
from agentmem.errors import Conflict, NotFound
from agentmem.jobs.due_records import DueRecordsRun
from agentmem.jobs.job import Job, context_for
from agentmem.jobs.runner import build_leased_run
from agentmem.memory.context import MemoryContext
from agentmem.memory.erasure import Erasure, list_across_channels
from agentmem.stores.job_queue import DueDate
from agentmem.stores.values import RecordUsage, Where

OPEN_GOAL_STATUSES = ("active", "blocked")


class _CollectRun(DueRecordsRun):
    async def run_all(self) -> None:
        """Collect what is due. Counts: `archived` or `deleted`, and `spared` for the sake of a goal; notes say why."""
        async for records in self.read_pages(GC):
            await self.reschedule(await _collect_page(self, records))
        async for records in self.read_pages(DECAY):  # those at which `decay` did not look since they fell through
            await _collect_page(self, records)


JOB = Job(GC, 1440.0, "due", build_leased_run(GC, _CollectRun), also_due=(DECAY,))


async def _collect_page(work: DueRecordsRun, records: Sequence[Record]) -> list[Record]:
    """Collect what faded; what did not is returned."""
    used, settings = await work.read_usage(records), work.engine.settings
    faded, others = list[Fact](), list[Record]()
    dues = {record.key: _find_next_due(work, record, used) for record in records}
    for record in records:
        if isinstance(record, Fact) and is_due(dues[record.key], GC, work.now):
            faded.append(record)
        else:
            others.append(record)
    needed = await _find_protected(work, faded)
    every = timedelta(days=settings.decay.half_life_days)
    spared = [fact for fact in faded if fact.id in needed]
    for fact in spared:
        work.add_note("spared", fact, f"the open goal {needed[fact.id]!r} may need it")
    await work.set_due_dates([DueDate(*fact.key, dues[fact.key].next_check(work.now, every), GC) for fact in spared])
    faded = [_add_reason(fact, used, work) for fact in faded if fact.id not in needed]
    if settings.decay.forget == "delete":
        await _delete(work, faded)
    else:
        await work.write_records("archived", [fact.model_copy(update={"status": Status.ARCHIVED}) for fact in faded])
    return others


def _find_next_due(work: DueRecordsRun, record: Record, used: dict[Key, RecordUsage]) -> NextDue:
    """When a record is due next, promotion to every channel aside: what could go there by itself went in time."""
    return next_due(record, used.get(record.key), work.now, work.engine.settings, may_spread=False)


def _add_reason(fact: Fact, used: dict[Key, RecordUsage], work: DueRecordsRun) -> Fact:
    usage, decay = used.get(fact.key), work.engine.settings.decay
    score = decay_score_now(fact, usage, work.now, decay)
    days = (work.now - decay_start(fact, usage)).days
    return fact.model_copy(
        update={"reason": f"score {score:.3f} is below {decay.forget_threshold:g} after {days} days without use"}
    )


async def _find_protected(work: DueRecordsRun, facts: Sequence[Fact]) -> dict[str, str]:
    """The facts that come from a conversation with an open goal, with that goal's id."""
    goals = await list_across_channels(MemoryContext(work.engine, work.scope), Where(kinds=("Goal",))) if facts else []
    there = {
        goal.conversation_id: goal.id
        for goal in goals
        if isinstance(goal, Goal)
        and goal.goal_status in OPEN_GOAL_STATUSES
        and goal.superseded_at is None
        and goal.conversation_id
    }
    if not there:
        return {}
    sources = list(dict.fromkeys(turn for fact in facts for turn in fact.source_turn_ids))
    turns = await work.engine.log.read_records("Turn", sources, work.scope) if sources else []
    served = {
        turn.id: there[turn.conversation_id]
        for turn in turns
        if isinstance(turn, Turn) and turn.conversation_id in there
    }
    found = {fact.id: [served[turn] for turn in fact.source_turn_ids if turn in served] for fact in facts}
    return {name: goals[0] for name, goals in found.items() if goals}


async def _delete(work: DueRecordsRun, facts: Sequence[Fact]) -> None:
    """Erase facts one by one. That takes long: what was changed, used or needed meanwhile is left for the next run."""
    for fact in facts:
        if not work.report.dry_run:
            if not await _is_still_faded(work, fact):
                continue
            context = context_for(work.engine, work.scope, fact.channel)
            try:
                receipt = await Erasure(context).erase_if_unchanged(fact, fence=work.fence)
            except (Conflict, NotFound):
                continue
            work.report.operation_ids.append(receipt.operation_id)
        work.add_note("deleted", fact, fact.reason)


async def _is_still_faded(work: DueRecordsRun, fact: Fact) -> bool:
    used = await work.read_usage([fact])
    return is_due(_find_next_due(work, fact, used), GC, work.now) and not await _find_protected(work, [fact])
