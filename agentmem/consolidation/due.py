"""Records that crossed a threshold, page by page, for the jobs that look at them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from agentmem.consolidation import JobReport
from agentmem.consolidation.clusters import seat_of
from agentmem.model.changes import Change, Write
from agentmem.model.records import Key, Record
from agentmem.model.scope import Scope
from agentmem.resources import Resources
from agentmem.stores import Usage
from agentmem.stores.fading import due_of
from agentmem.stores.jobs import Due

PAGE = 500
PAGES = 20  # in one run
BATCH = 200  # records changed by one operation
NOTES = 50  # reasons that a report gives


@dataclass
class DueRun:
    """One run of a job over what is due for one user."""

    resources: Resources
    scope: Scope
    report: JobReport
    now: datetime
    fence: int
    seen: set[Key] = field(default_factory=set)

    async def pages(self, job: str) -> AsyncIterator[list[Record]]:
        """The records that are due for a job and were not looked at in this run, those due longest first.

        What is not stored any more is due no more. Ends when nothing is left, or after enough for one run: then the
        report says that more waits.
        """
        for _ in range(PAGES):
            if not (keys := await self._fresh(job)):
                return
            self.seen.update(keys)
            records = await self._read(keys)
            await self.settle([Due(*key, None) for key in keys if key not in records])
            yield list(records.values())
        self.report.pending += len(await self._fresh(job))

    async def _fresh(self, job: str) -> list[Key]:
        limit = PAGE + len(self.seen)  # some of what was looked at may still be due: all of it in a dry run
        keys = await self.resources.jobs.due_records(job, self.now, self.scope, limit=limit)
        return [key for key in keys if key not in self.seen][:PAGE]

    async def _read(self, keys: Sequence[Key]) -> dict[Key, Record]:
        found: dict[Key, Record] = {}
        for kind in dict.fromkeys(kind for kind, _ in keys):
            ids = [name for of, name in keys if of == kind]
            found |= {record.key: record for record in await self.resources.log.get(kind, ids, self.scope)}
        return {key: found[key] for key in keys if key in found}

    async def usage(self, records: Sequence[Record]) -> dict[Key, Usage]:
        """How these records were used."""
        return await self.resources.log.usage([record.key for record in records], self.scope)

    async def look_later(self, records: Sequence[Record]) -> list[Due]:
        """Note when records are due next by the laws."""
        used, laws = await self.usage(records), self.resources.settings
        dues = [due_of(record, used.get(record.key), self.now, laws) for record in records]
        await self.settle(dues)
        return dues

    async def settle(self, dues: Sequence[Due]) -> None:
        """Note when records are due, unless this is a dry run."""
        if not self.report.dry_run:
            await self.resources.jobs.settle(self.scope, dues)

    def note(self, what: str, record: Record, reason: str) -> None:
        """Count what is done to a record, and say why."""
        self.report.count(**{what: 1})
        if len(self.report.notes) < NOTES:
            self.report.notes.append(f"{record.kind} {record.id}: {what}: {reason}")

    async def put(self, what: str, records: Sequence[Record]) -> None:
        """Write these versions, some at once in each channel: one operation each, which `undo` takes back.

        What changed since it was read is left for the next run.
        """
        for channel in sorted({record.channel for record in records}):
            here = [record for record in records if record.channel == channel]
            for start in range(0, len(here), BATCH):
                some = here[start : start + BATCH]
                for record in some if self.report.dry_run else await self._put(channel, some):
                    self.note(what, record, record.reason)

    async def _put(self, channel: str, records: Sequence[Record]) -> list[Record]:
        async def make(write: Write) -> Change | None:
            stand = await self._read([record.key for record in records])
            same = [record for record in records if record.key in stand and stand[record.key].seq == record.seq]
            return write.change(*same, expects={record.key: record.seq for record in same}) if same else None

        scope = seat_of(self.resources, self.scope, channel).scope
        entry = await self.resources.write(
            scope, self.report.job, make, kind=records[0].kind, details={"count": len(records)}, fence=self.fence
        )
        if entry is None:
            return []
        self.report.operation_ids.append(entry.operation_id)
        return [stored.record for stored in entry.puts]
