"""Looks whether the stores still agree with themselves and with each other, and says so where they do not."""

from __future__ import annotations

from agentmem.core.scope import Operator
from agentmem.core.telemetry import WARNING, log_event
from agentmem.engine.engine import Engine
from agentmem.jobs.job import Job, JobOptions, JobReport
from agentmem.jobs.runner import hold_lease

NAME = "check"
MAX_SHOWN_PROBLEMS = 20


async def run_for_all(engine: Engine, operator: Operator, options: JobOptions) -> JobReport:
    """Check the log, and which users a projection lags behind for. Changes nothing; what is wrong stands in `notes`."""
    report = JobReport(job=NAME, user_id="", dry_run=options.dry_run)
    async with hold_lease(engine, f"job:{NAME}", "the check"):
        problems = await engine.log.check(operator)
        names = [projection.name for projection in engine.vector_projections]
        if engine.graph_projection is not None:
            names.append(engine.graph_projection.name)
        lagging = await engine.admin.lagging_projections(names, operator)
    report.counts = {"problems": len(problems), "users_behind": len(lagging)}
    report.notes = problems[:MAX_SHOWN_PROBLEMS]
    if problems:
        log_event(WARNING, "check_failed", problems=len(problems), fix="run: agentmem admin doctor")
    return report


JOB = Job(NAME, 1440.0, "clock", run_for_all=run_for_all)
