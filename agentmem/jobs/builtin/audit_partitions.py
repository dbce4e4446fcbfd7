"""Days of the audit log: those ahead get their partitions, those past retention go whole; words are folded, too."""

from __future__ import annotations

from agentmem.core.clock import Stopwatch
from agentmem.core.scope import Operator
from agentmem.engine.engine import Engine
from agentmem.jobs.job import Job, JobOptions, JobReport
from agentmem.jobs.runner import hold_lease

NAME = "audit_partitions"


async def run_for_all(engine: Engine, operator: Operator, options: JobOptions) -> JobReport:
    """Maintain the log as `agentmem admin compact` does, with the setting `audit_days`; the counts say what went.

    A dry run only says so. Raises LeaseLost while another worker is at it.
    """
    watch = Stopwatch(engine.clock)
    report = JobReport(job=NAME, user_id="", dry_run=options.dry_run)
    async with hold_lease(engine, f"job:{NAME}", "the upkeep of the audit log"):
        if options.dry_run:
            report.notes.append(f"audit rows older than {engine.settings.audit_days} days would go")
        else:
            report.counts = await engine.log.maintain(engine.clock.now(), engine.settings.audit_days)
    report.seconds = watch.milliseconds() / 1000
    return report


JOB = Job(NAME, 1440.0, "clock", run_for_all=run_for_all)
