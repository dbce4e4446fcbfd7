"""What crossed a threshold on its way down is noted: who is in the danger zone now, and when to look again.

No value is written back decayed: salience, confidence and score are computed when they are asked for.
"""

from __future__ import annotations

from agentmem.consolidation import JobOptions, JobReport
from agentmem.consolidation.due import DueRun
from agentmem.consolidation.lease import leased
from agentmem.errors import LeaseLost
from agentmem.model.clock import Stopwatch
from agentmem.model.dues import DECAY
from agentmem.model.scope import Scope
from agentmem.resources import Resources

NAME = DECAY
MINUTES = 1440.0
TRIGGER = "due"


async def run(resources: Resources, scope: Scope, options: JobOptions) -> JobReport:
    """Look at what is due. Counts records by kind, and `endangered`: those that should be seen again soon."""
    resources.check_open()
    watch = Stopwatch(resources.clock)
    report = JobReport(job=NAME, user_id=scope.user_id, dry_run=options.dry_run)
    try:
        async with leased(resources, f"{NAME}:{scope.user_id}", f"job {NAME} of {scope.user_id!r}") as fence:
            work = DueRun(resources, scope, report, resources.clock.now(), fence)
            async for records in work.pages(DECAY):
                options.progress(NAME, len(work.seen), len(work.seen))
                for due in await work.look_later(records):
                    report.count(**{due.kind.lower(): 1})
                    if due.review_priority > 0:
                        report.count(endangered=1)
    except LeaseLost as error:
        report.stopped = str(error)
    report.seconds = watch.milliseconds() / 1000
    return report
