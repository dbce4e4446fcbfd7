"""What a job could not do for one record: tried again by later runs, and parked with its reason at the third time."""

from __future__ import annotations

from agentmem.consolidation import JobReport
from agentmem.model.records import Record
from agentmem.model.scope import Scope
from agentmem.resources import Engine
from agentmem.stores import DeadLetter
from agentmem.stores.upkeep import DEAD_LETTER_ATTEMPTS


async def read_dead_letter_seqs(engine: Engine, job: str, scope: Scope) -> set[int]:
    """Journal positions of the user's records that this job gave up."""
    found = await engine.log.dead_letters(scope)
    return {item.seq for item in found if item.projection == job and item.attempts >= DEAD_LETTER_ATTEMPTS}


async def record_failure(engine: Engine, scope: Scope, report: JobReport, record: Record, reason: str) -> bool:
    """Count a try in vain; whether it is to be tried again."""
    found = await engine.log.dead_letters(scope)
    before = [item.attempts for item in found if (item.projection, item.seq) == (report.job, record.seq)]
    attempts, now = sum(before) + 1, engine.clock.now()
    await engine.log.write_dead_letter(DeadLetter(report.job, scope.user_id, record.seq, reason, attempts, now))
    report.failed[record.id] = reason
    if attempts < DEAD_LETTER_ATTEMPTS:
        report.pending += 1
        return True
    report.parked[record.id] = reason
    return False
