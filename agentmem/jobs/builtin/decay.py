"""What crossed a threshold on its way down is noted: who is in the danger zone now, and when to look again.

No value is written back decayed: salience, confidence and score are computed when they are asked for.
"""

from __future__ import annotations

from agentmem.core.lifecycle import DECAY
from agentmem.core.scope import Scope
from agentmem.engine.engine import Engine
from agentmem.jobs.due_records import DueRecordsRun
from agentmem.jobs.job import JobOptions, JobReport
from agentmem.jobs.runner import leased_job

NAME = DECAY
MINUTES = 1440.0
TRIGGER = "due"


@leased_job(NAME)
async def run(engine: Engine, scope: Scope, options: JobOptions, report: JobReport, fence: int) -> None:
    """Look at what is due. Counts records by kind, and `endangered`: those that should be seen again soon."""
    work = DueRecordsRun(engine, scope, report, engine.clock.now(), fence)
    async for records in work.read_pages(DECAY):
        options.progress(NAME, len(work.seen), len(work.seen))
        for due in await work.reschedule(records):
            report.add_counts(**{due.kind.lower(): 1})
            if due.review_priority > 0:
                report.add_counts(endangered=1)
