"""What crossed a threshold on its way down is noted: who is in the danger zone now, and when to look again.

No value is written back decayed: salience, confidence and score are computed when they are asked for.
"""

from __future__ import annotations

from agentmem.core.lifecycle import DECAY
from agentmem.jobs.due_records import DueRecordsRun
from agentmem.jobs.job import Job
from agentmem.jobs.runner import build_leased_run


class _DecayRun(DueRecordsRun):
    async def run_all(self) -> None:
        """Look at what is due. Counts records by kind, and `endangered`: those that should be seen again soon."""
        async for records in self.read_pages(DECAY):
            for due in await self.reschedule(records):
                self.report.add_counts(**{due.kind.lower(): 1})
                if due.review_priority > 0:
                    self.report.add_counts(endangered=1)


JOB = Job(DECAY, 1440.0, "due", build_leased_run(DECAY, _DecayRun))
