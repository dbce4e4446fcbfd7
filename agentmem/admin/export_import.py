"""One user's memory as a file, out and in: everything but vectors, which are made again.

Import checks the whole file before it writes anything, keeping a copy of the lines in an unnamed file beside the store,
and then writes batches of changes, each in one transaction. Interrupted, it is simply run again: what is there already
is compared, and the rest is added.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import IO

from agentmem.admin.export_format import (
    ChangeLine,
    EndLine,
    ExportLine,
    ExportValidator,
    HeaderLine,
    UsageLine,
    build_change_line,
    build_usage_line,
    number_lines,
    parse_line,
    render_line,
)
from agentmem.core.scope import Scope
from agentmem.core.telemetry import ProgressCallback, no_progress
from agentmem.engine.engine import Engine
from agentmem.errors import Conflict, CorruptStore
from agentmem.memory.read_audit import write_read_row
from agentmem.stores.admin import RawChange, StoreAdmin

BATCH_SIZE = 500  # changes read or written at once


@dataclass(frozen=True, slots=True)
class UserExportReport:
    """How many records (with all versions), changes and usage rows were written."""

    records: int
    changes: int
    usage: int


@dataclass(frozen=True, slots=True)
class UserImportReport:
    """How many records the file holds, how many changes were put back and how many were there already (`repeated`)."""

    records: int
    changes: int
    repeated: int
    usage: int


async def export_user(engine: Engine, scope: Scope, write: Callable[[str], object]) -> UserExportReport:
    """Write the user's whole memory, line by line, with the line ends; see `iter_export`."""
    changes, rows, ordinals = 0, 0, set[int]()
    async for line in iter_export(engine, scope):
        write(render_line(line))
        if isinstance(line, ChangeLine):
            changes += 1
            ordinals.update(version.slot for version in line.to_raw().versions if version.record is not None)
        rows += isinstance(line, UsageLine)
    return UserExportReport(len(ordinals), changes, rows)


async def iter_export(engine: Engine, scope: Scope) -> AsyncIterator[ExportLine]:
    """The user's whole memory, line by line; equal memories give equal lines. The last one is an EndLine.

    The journal is as it was when the export began. Raises Conflict when something was erased meanwhile, because the
    lines so far may hold it: throw them away and export again.
    """
    store = engine.admin
    reach = await store.journal_counters(scope)
    await write_read_row(engine, scope, "export", changes=reach.head)
    yield HeaderLine(user_id=scope.user_id, **reach._asdict())
    after, rows, last = 0, 0, ("", "")
    while after < reach.head:
        page = await store.raw_changes(scope, after, min(BATCH_SIZE, reach.head - after))
        if not page or page[-1].seq != after + len(page):
            raise CorruptStore(f"the journal of {scope.user_id} has a gap after {after}; run: agentmem admin doctor")
        for change in page:
            yield build_change_line(change)
        after = page[-1].seq
    while usage := await store.raw_usage(scope, last, BATCH_SIZE):
        for row in usage:
            yield build_usage_line(row)
        last, rows = (usage[-1].kind, usage[-1].id), rows + len(usage)
    if (await store.journal_counters(scope)).erasures != reach.erasures:
        raise Conflict("something was erased during the export; throw the file away and export again")
    yield EndLine(changes=after, usage=rows)


async def import_user(
    engine: Engine, scope: Scope, lines: Iterable[str], progress: ProgressCallback | None = None
) -> UserImportReport:
    """Put an exported memory into a user that has none yet, with the same positions, times and ids.

    `progress` is called with (what, changes done, of how many). Raises InvalidRecord with the line and the field,
    before any write; Conflict for a user whose journal is not the beginning of this one. Vectors follow with the next
    `flush` or recall.
    """
    engine.check_open()
    store, told = engine.admin, progress or no_progress
    with tempfile.TemporaryFile("w+", encoding="utf-8", newline="\n", dir=engine.settings.temp_dir) as spool:
        header, records = await asyncio.to_thread(_validate_lines, lines, spool, told)
        present, _, erasures, _ = await store.journal_counters(scope)
        done = present
        if erasures > header.erasures:
            raise Conflict(
                f"something of {scope.user_id} was erased since this export, and an import brings nothing erased back; "
                "import into another user"
            )
        if present > header.head:
            raise Conflict(
                f"{scope.user_id} already has {present} changes, the file only {header.head}; import into another user"
            )
        changes = (line for line in _read_lines(spool) if isinstance(line, ChangeLine))
        await _check_existing(store, scope, changes, present)
        while batch := await asyncio.to_thread(_read_batch, changes):
            await store.import_changes(scope, batch)
            done += len(batch)
            told("importing", done, header.head)
        rows = await _restore_usage(store, scope, spool)
        if header.head:
            await store.set_counters(scope, header.journal_counters())
    return UserImportReport(records, header.head - present, present, rows)


def _read_batch(changes: Iterator[ChangeLine]) -> list[RawChange]:
    return [line.to_raw() for line in islice(changes, BATCH_SIZE)]


def _validate_lines(lines: Iterable[str], spool: IO[str], progress: ProgressCallback) -> tuple[HeaderLine, int]:
    review = ExportValidator()
    for number, text in number_lines(lines):
        spool.write(render_line(review.check_line(number, text)))
        if number % BATCH_SIZE == 0 and review.header is not None:
            progress("checking", review.seq, review.header.head)
    return review.finish(), review.record_count


def _read_lines(spool: IO[str]) -> Iterator[ExportLine]:
    spool.seek(0)
    return (parse_line(number, text) for number, text in number_lines(spool))


async def _check_existing(
    store: StoreAdmin, scope: Scope, changes: Iterator[ChangeLine], existing_changes: int
) -> None:
    """Go through the part of the file that the user already has. Raises Conflict where they differ."""
    after = 0
    while after < existing_changes:
        stored: list[RawChange] = await store.raw_changes(scope, after, min(BATCH_SIZE, existing_changes - after))
        for mine, theirs in zip(stored, islice(changes, len(stored)), strict=True):
            if render_line(build_change_line(mine)) != render_line(theirs):
                raise Conflict(
                    f"{scope.user_id} has a memory of its own, change {mine.seq} differs from the file's; "
                    "import into another user"
                )
        after += len(stored)


async def _restore_usage(store: StoreAdmin, scope: Scope, spool: IO[str]) -> int:
    rows, done = (line for line in _read_lines(spool) if isinstance(line, UsageLine)), 0
    while batch := [line.to_raw() for line in islice(rows, BATCH_SIZE)]:
        await store.import_usage(scope, batch)
        done += len(batch)
    return done
