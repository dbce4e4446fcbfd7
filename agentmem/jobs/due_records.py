"""Records that are due for a job, page by page; what fails again and again is put aside."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

from agentmem.core.changes import Change, WriteAttempt
from agentmem.core.record import Key, Record
from agentmem.core.scope import Scope
from agentmem.engine.engine import Engine
from agentmem.jobs.job import JobReport, RecordNote, context_for
from agentmem.jobs.runner import LeasedRun
from agentmem.stores.admin import DEAD_LETTER_ATTEMPTS
from agentmem.stores.due_updates import build_due_date
from agentmem.stores.job_queue import DueDate
from agentmem.stores.values import DeadLetter, RecordUsage

PAGE_SIZE = 500
MAX_PAGES = 20  # in one run
BATCH_SIZE = 200  # records changed by one operation
MAX_NOTES = 50  # reasons that a report gives


async def read_dead_letter_seqs(engine: Engine, job: str, scope: Scope) -> set[int]:
    """Journal positions of the user's records that this job gave up."""
    found = await engine.log.dead_letters(scope)
    return {item.seq for item in found if item.projection == job and item.attempts >= DEAD_LETTER_ATTEMPTS}


async def record_failure(engine: Engine, scope: Scope, report: JobReport, record: Record, reason: str) -> bool:
    """Count a failed attempt; whether the record is to be tried again."""
    return await record_failures(engine, scope, report, [(record, reason)]) > 0


async def record_failures(
    engine: Engine, scope: Scope, report: JobReport, failures: Sequence[tuple[Record, str]]
) -> int:
    """Count a failed attempt for each record and reason; how many are to be tried again, the others are parked."""
    if not failures:
        return 0
    found = await engine.log.dead_letters(scope)
    attempts_before = {item.seq: item.attempts for item in found if item.projection == report.job}
    retried = 0
    for record, reason in failures:
        attempts, now = attempts_before.get(record.seq, 0) + 1, engine.clock.now()
        await engine.log.write_dead_letter(DeadLetter(report.job, scope.user_id, record.seq, reason, attempts, now))
        report.failed[record.id] = reason
        if attempts < DEAD_LETTER_ATTEMPTS:
            retried += 1
        else:
            report.parked[record.id] = reason
    report.pending += retried
    return retried


@dataclass
class DueRecordsRun(LeasedRun):
    """One run of a job over what is due for one user."""

    seen: set[Key] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.now = self.engine.clock.now()

    async def read_pages(self, job: str) -> AsyncIterator[list[Record]]:
        """The records that are due for a job and were not looked at in this run, those due longest first.

        What is not stored any more is due no more. Ends when nothing is left, or after enough for one run: then the
        report says that more waits.
        """
        for _ in range(MAX_PAGES):
            if not (keys := await self._read_unseen_keys(job)):
                return
            self.seen.update(keys)
            self.options.progress(self.report.job, len(self.seen), len(self.seen))
            records = await self._read_records(keys)
            await self.set_due_dates([DueDate(*key, None) for key in keys if key not in records])
            yield list(records.values())
        self.report.pending += len(await self._read_unseen_keys(job))

    async def _read_unseen_keys(self, job: str) -> list[Key]:
        limit = PAGE_SIZE + len(self.seen)  # some of what was looked at may still be due: all of it in a dry run
        keys = await self.engine.job_queue.due_records(job, self.now, self.scope, limit=limit)
        return [key for key in keys if key not in self.seen][:PAGE_SIZE]

    async def _read_records(self, keys: Sequence[Key]) -> dict[Key, Record]:
        found: dict[Key, Record] = {}
        for kind in dict.fromkeys(kind for kind, _ in keys):
            ids = [name for of, name in keys if of == kind]
            found |= {record.key: record for record in await self.engine.log.read_records(kind, ids, self.scope)}
        return {key: found[key] for key in keys if key in found}

    async def read_usage(self, records: Sequence[Record]) -> dict[Key, RecordUsage]:
        """How these records were used."""
        return await self.engine.log.usage([record.key for record in records], self.scope)

    async def reschedule(self, records: Sequence[Record]) -> list[DueDate]:
        """Note when records are due next."""
        used, settings = await self.read_usage(records), self.engine.settings
        dues = [build_due_date(record, used.get(record.key), self.now, settings) for record in records]
        await self.set_due_dates(dues)
        return dues

    async def set_due_dates(self, due_dates: Sequence[DueDate]) -> None:
        """Note when records are due, unless this is a dry run."""
        if not self.report.dry_run:
            await self.engine.job_queue.set_due_dates(self.scope, due_dates)

    def add_note(self, action: str, record: Record, reason: str) -> None:
        """Count what is done to a record, and say why."""
        self.report.add_counts(**{action: 1})
        if len(self.report.notes) < MAX_NOTES:
            self.report.notes.append(RecordNote.build(f"{record.kind} {record.id}", record, action, reason))

    async def write_records(self, action: str, records: Sequence[Record]) -> None:
        """Write these versions, some at once in each channel: one operation each, which `undo` takes back.

        What changed since it was read is left for the next run.
        """
        for channel in sorted({record.channel for record in records}):
            here = [record for record in records if record.channel == channel]
            for start in range(0, len(here), BATCH_SIZE):
                some = here[start : start + BATCH_SIZE]
                for record in some if self.report.dry_run else await self._write_batch(channel, some):
                    self.add_note(action, record, record.reason)

    async def _write_batch(self, channel: str, records: Sequence[Record]) -> list[Record]:
        async def make(write: WriteAttempt) -> Change | None:
            stand = await self._read_records([record.key for record in records])
            same = [record for record in records if record.key in stand and stand[record.key].seq == record.seq]
            return (
                write.build_change(*same, expected_versions={record.key: record.seq for record in same})
                if same
                else None
            )

        scope = context_for(self.engine, self.scope, channel).scope
        entry = await self.engine.write(
            scope, self.report.job, make, kind=records[0].kind, details={"count": len(records)}, fence=self.fence
        )
        if entry is None:
            return []
        self.report.operation_ids.append(entry.operation_id)
        return [stored.record for stored in entry.upserts]
