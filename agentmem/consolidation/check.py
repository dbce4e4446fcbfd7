"""Looks whether the stores still agree with themselves and with each other, and says so where they do not."""

from __future__ import annotations

from agentmem.consolidation import JobOptions, JobReport
from agentmem.consolidation.lease import leased
from agentmem.events import WARNING, tell
from agentmem.model.scope import Operator
from agentmem.resources import Resources

NAME = "check"
MINUTES = 1440.0
TRIGGER = "clock"
MOST_SHOWN = 20


async def run_for_all(resources: Resources, operator: Operator, options: JobOptions) -> JobReport:
    """Check the log, and which users a projection lags behind for. Changes nothing; what is wrong stands in `notes`."""
    report = JobReport(job=NAME, user_id="", dry_run=options.dry_run)
    async with leased(resources, f"job:{NAME}", "the check"):
        problems = await resources.log.check(operator)
        names = [projection.name for projection in resources.vectors]
        if resources.following is not None:
            names.append(resources.following.name)
        lagging = await resources.upkeep.lagging(names, operator)
    report.counts = {"problems": len(problems), "users_behind": len(lagging)}
    report.notes = problems[:MOST_SHOWN]
    if problems:
        tell(WARNING, "check_failed", problems=len(problems), fix="run: agentmem doctor")
    return report
