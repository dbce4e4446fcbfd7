"""What crossed a threshold on its way down is noted: who is in the danger zone now, and when to look again.

No value is written back decayed: salience, confidence and score are computed when they are asked for.
"""

from __future__ import annotations

from agentmem.consolidation import JobOptions, JobReport
from agentmem.consolidation.due import DueRun
from agentmem.consolidation.lease import leased_run
from agentmem.model.dues import DECAY
from agentmem.model.scope import Scope
from agentmem.resources import Resources

NAME = DECAY
MINUTES = 1440.0
TRIGGER = "due"


@leased_run(NAME)
async def run(
    resources: Resources, scope: Scope, options: JobOptions, report: JobReport, fence: int
) -> None:  # fmt: skip
    """Look at what is due. Counts records by kind, and `endangered`: those that should be seen again soon."""
    work = DueRun(resources, scope, report, resources.clock.now(), fence)
    async for records in work.pages(DECAY):
        options.progress(NAME, len(work.seen), len(work.seen))
        for due in await work.look_later(records):
            report.count(**{due.kind.lower(): 1})
            if due.review_priority > 0:
                report.count(endangered=1)
