"""What a job could not do for one record: tried again by later runs, and parked with its reason at the third time."""

from __future__ import annotations

from agentmem.consolidation import JobReport
from agentmem.model.records import Record
from agentmem.model.scope import Scope
from agentmem.resources import Resources
from agentmem.stores import Parked
from agentmem.stores.upkeep import GIVEN_UP


async def given_up(resources: Resources, job: str, scope: Scope) -> set[int]:
    """Journal positions of the user's records that this job gave up."""
    found = await resources.log.parked(scope)
    return {item.seq for item in found if item.projection == job and item.attempts >= GIVEN_UP}


async def note_failure(resources: Resources, scope: Scope, report: JobReport, record: Record, reason: str) -> bool:
    """Count a try in vain; whether it is to be tried again."""
    found = await resources.log.parked(scope)
    before = [item.attempts for item in found if (item.projection, item.seq) == (report.job, record.seq)]
    attempts, now = sum(before) + 1, resources.clock.now()
    await resources.log.park(Parked(report.job, scope.user_id, record.seq, reason, attempts, now))
    report.failed[record.id] = reason
    if attempts < GIVEN_UP:
        report.pending += 1
        return True
    report.parked[record.id] = reason
    return False
