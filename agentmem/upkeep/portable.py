"""One user's memory as a file, out and in: everything but vectors, which are made again.

Import checks the whole file before it writes anything, keeping a copy of the lines in an unnamed file beside the store,
and then writes batches of changes, each in one transaction. Interrupted, it is simply run again: what is there already
is compared, and the rest is added.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import IO

from agentmem.errors import Conflict, CorruptStore
from agentmem.model.scope import Scope
from agentmem.resources import Resources
from agentmem.stores.upkeep import RawChange, Upkeep
from agentmem.upkeep.lines import (
    ChangeLine,
    EndLine,
    Header,
    Line,
    Review,
    UsageLine,
    change_line,
    numbered,
    parse,
    text_of,
    usage_line,
)

BATCH = 500  # changes read or written at once


Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class ExportReport:
    """How many records (with all versions), changes and usage rows were written."""

    records: int
    changes: int
    usage: int


@dataclass(frozen=True, slots=True)
class ImportReport:
    """How many records the file holds, how many changes were put back and how many were there already (`repeated`)."""

    records: int
    changes: int
    repeated: int
    usage: int


async def export_user(resources: Resources, scope: Scope, write: Callable[[str], object]) -> ExportReport:
    """Write the user's whole memory, line by line, with the line ends; equal memories give equal bytes.

    The journal is as it was when the export began. Raises Conflict when something was erased meanwhile, because the
    lines written so far may hold it: throw them away and export again.
    """
    store = resources.upkeep
    reach = await store.reach(scope)
    write(text_of(Header(user_id=scope.user_id, **reach._asdict())))
    after, rows, last, slots = 0, 0, ("", ""), set[int]()
    while after < reach.head:
        page = await store.raw_changes(scope, after, min(BATCH, reach.head - after))
        if not page or page[-1].seq != after + len(page):
            raise CorruptStore(f"the journal of {scope.user_id} has a gap after {after}; run: agentmem doctor")
        for change in page:
            write(text_of(change_line(change)))
            slots.update(version.slot for version in change.versions if version.record is not None)
        after = page[-1].seq
    while usage := await store.raw_usage(scope, last, BATCH):
        for row in usage:
            write(text_of(usage_line(row)))
        last, rows = (usage[-1].kind, usage[-1].id), rows + len(usage)
    if (await store.reach(scope)).erasures != reach.erasures:
        raise Conflict("something was erased during the export; throw the file away and export again")
    write(text_of(EndLine(changes=after, usage=rows)))
    return ExportReport(len(slots), after, rows)


async def import_user(
    resources: Resources, scope: Scope, lines: Iterable[str], progress: Progress | None = None
) -> ImportReport:
    """Put an exported memory into a user that has none yet, with positions, times and ids as they were.

    `progress` is told (what, changes done, of how many). Raises InvalidRecord with the line and the field, before
    anything is written; Conflict for a user whose journal is not the beginning of this one. Vectors follow with the
    next `flush` or recall.
    """
    resources.check_open()
    store, told = resources.upkeep, progress or _silent
    with tempfile.TemporaryFile("w+", encoding="utf-8", newline="\n", dir=resources.settings.spool) as spool:
        header, records = await asyncio.to_thread(_review, lines, spool, told)
        present = done = (await store.reach(scope)).head
        if present > header.head:
            raise Conflict(
                f"{scope.user_id} already has {present} changes, the file only {header.head}; import into another user"
            )
        changes = (line for line in _read(spool) if isinstance(line, ChangeLine))
        await _compare(store, scope, changes, present)
        while batch := [line.raw() for line in islice(changes, BATCH)]:
            await store.restore(scope, batch)
            done += len(batch)
            told("importing", done, header.head)
        rows = await _put_usage(store, scope, spool)
        if header.head:
            await store.settle(scope, header.reach())
    return ImportReport(records, header.head - present, present, rows)


def _silent(what: str, done: int, total: int) -> None:
    """For callers who do not watch."""


def _review(lines: Iterable[str], spool: IO[str], told: Progress) -> tuple[Header, int]:
    review = Review()
    for number, text in numbered(lines):
        spool.write(text_of(review.take(number, text)))
        if number % BATCH == 0 and review.header is not None:
            told("checking", review.seq, review.header.head)
    return review.finish(), review.records


def _read(spool: IO[str]) -> Iterator[Line]:
    spool.seek(0)
    return (parse(number, text) for number, text in numbered(spool))


async def _compare(store: Upkeep, scope: Scope, changes: Iterator[ChangeLine], present: int) -> None:
    """Go through the part of the file that the user already has. Raises Conflict where they differ."""
    after = 0
    while after < present:
        stored: list[RawChange] = await store.raw_changes(scope, after, min(BATCH, present - after))
        for mine, theirs in zip(stored, islice(changes, len(stored)), strict=True):
            if text_of(change_line(mine)) != text_of(theirs):
                raise Conflict(
                    f"{scope.user_id} has a memory of its own, change {mine.seq} differs from the file's; "
                    "import into another user"
                )
        after += len(stored)


async def _put_usage(store: Upkeep, scope: Scope, spool: IO[str]) -> int:
    rows, done = (line for line in _read(spool) if isinstance(line, UsageLine)), 0
    while batch := [line.raw() for line in islice(rows, BATCH)]:
        await store.restore_usage(scope, batch)
        done += len(batch)
    return done


__all__ = ["ExportReport", "ImportReport", "export_user", "import_user"]
