"""A list of what was erased, to be kept apart from backups, and erasing it again after one of them was restored.

A backup holds what was erased after it was made, and knows nothing of the erasures. The list holds keys and times.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby, islice
from typing import IO, Annotated

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, ValidationError

from agentmem.admin.export_format import number_lines
from agentmem.core.clock import from_micros, to_utc
from agentmem.core.record import Key
from agentmem.core.records import KINDS, to_invalid_record
from agentmem.core.scope import Operator, Scope, check_stored_identifier
from agentmem.core.telemetry import ProgressCallback, no_progress
from agentmem.engine.engine import Engine
from agentmem.errors import InvalidRecord
from agentmem.memory.context import MemoryContext
from agentmem.memory.erasure import Erasure
from agentmem.memory.repeated_erasures import erase_listed, read_tombstones
from agentmem.text.terminal_text import escape_json

WHOLE_USER = "*"  # kind and id of the line of a user who was erased as a whole
PAGE_SIZE = 1000
OPERATOR = Operator("erasures")


def _check_kind(value: str) -> str:
    if value != WHOLE_USER and value not in KINDS:
        raise ValueError(f"must be {WHOLE_USER} or one of {', '.join(sorted(KINDS))}")
    return value


class ErasureLine(BaseModel):
    """One line: a record that was erased, and when; with `*` as kind and id, the whole user."""

    model_config = ConfigDict(extra="forbid", strict=True, hide_input_in_errors=True)

    user_id: Annotated[str, AfterValidator(lambda value: Scope(value).user_id)]
    kind: Annotated[str, AfterValidator(_check_kind)]
    id: Annotated[str, AfterValidator(lambda value: check_stored_identifier(value, "id"))]
    erased_at: Annotated[AwareDatetime, AfterValidator(to_utc)]

    @property
    def key(self) -> Key:
        """The record."""
        return self.kind, self.id


@dataclass(frozen=True, slots=True)
class ErasureListReport:
    """How many erased records were listed, and of how many users."""

    records: int
    users: int


@dataclass(frozen=True, slots=True)
class RepeatedErasureReport:
    """How many lines were read and records erased again, or would be in a `dry_run`, and how many of each user."""

    lines: int
    records: int
    erased: dict[str, int]
    dry_run: bool = False
    notes: tuple[str, ...] = ()


async def export_erasures(
    engine: Engine, write: Callable[[str], object], since: datetime | None = None
) -> ErasureListReport:
    """Write a line for each record of any user that was erased, `since` then; see `ErasureLine`.

    Raises ScopeError where the login may not read over all users.
    """
    engine.check_open()
    records, users, last = 0, 0, ""
    async for line in _iter_erasures(engine, None if since is None else to_utc(since, "since")):
        write(f"{escape_json(line.model_dump_json())}\n")
        records += line.kind != WHOLE_USER
        users += line.user_id != last
        last = line.user_id
    return ErasureListReport(records, users)


async def _iter_erasures(engine: Engine, since: datetime | None) -> AsyncIterator[ErasureLine]:
    store, after = engine.admin, ""
    while page := await store.heads(OPERATOR, after=after, limit=PAGE_SIZE):
        after = max(page)
        for user in sorted(page):
            scope, last = Scope(user), ("", "")
            counters = await store.journal_counters(scope)
            if not counters.erasures or (since is not None and from_micros(counters.last_at) < since):
                continue
            whole = await _read_whole_erasure(engine, scope)
            if whole is not None and (since is None or whole >= since):
                yield ErasureLine(user_id=user, kind=WHOLE_USER, id=WHOLE_USER, erased_at=whole)
            while marks := await store.tombstones(scope, last, PAGE_SIZE):
                last = max(marks)
                for (kind, name), at in marks.items():
                    if since is None or at >= since:
                        yield ErasureLine(user_id=user, kind=kind, id=name, erased_at=at)


async def _read_whole_erasure(engine: Engine, scope: Scope) -> datetime | None:
    """When the user was erased as a whole last, as the audit log has it; None where it has no such row."""
    rows = await engine.log.audit_rows(scope, operation="erase", limit=1)
    return datetime.fromisoformat(rows[0]["timestamp"]) if rows else None


async def erase_again_from_list(
    engine: Engine, lines: Iterable[str], *, dry_run: bool = False, progress: ProgressCallback | None = None
) -> RepeatedErasureReport:
    """Erase the listed records that are there from before they were erased, with what rests on them alone.

    All lines are checked first: InvalidRecord names the line and the field, and nothing was erased then. `progress` is
    called with (what, lines done, of how many). Raises ScopeError where the login may not write as any user.
    """
    engine.check_open()
    with tempfile.TemporaryFile("w+", encoding="utf-8", newline="\n", dir=engine.settings.temp_dir) as spool:
        total = await asyncio.to_thread(_check_lines, lines, spool)
        work = _ListedErasures(engine, dry_run, total, progress or no_progress)
        spool.seek(0)
        listed = (ErasureLine.model_validate_json(line) for line in spool)
        for user, found in groupby(listed, key=lambda line: line.user_id):
            await work.erase(Scope(user), found)
    records = sum(work.erased.values())
    return RepeatedErasureReport(total, records, work.erased, dry_run, tuple(work.notes))


def _check_lines(lines: Iterable[str], spool: IO[str]) -> int:
    """Copy the lines to the spool, and count them."""
    count = 0
    for number, text in number_lines(lines):
        try:
            line = ErasureLine.model_validate_json(text)
        except ValidationError as error:
            raise _explain(error, number) from error
        if line.kind == WHOLE_USER != line.id:
            raise InvalidRecord(f"line {number}: id must be {WHOLE_USER} where kind is {WHOLE_USER}", field="id")
        spool.write(f"{line.model_dump_json()}\n")
        count += 1
    return count


def _explain(error: ValidationError, number: int) -> InvalidRecord:
    first = error.errors(include_url=False)[0]
    if not first["loc"]:
        said = f"line {number}: this is not a line of agentmem admin erasures: {first['msg']}"
        return InvalidRecord(said, field="line")
    wrong = to_invalid_record(error, "ErasureLine")
    return InvalidRecord(f"line {number}: {wrong}", field=wrong.field)


@dataclass
class _ListedErasures:
    engine: Engine
    dry_run: bool
    total: int
    progress: ProgressCallback
    done: int = 0
    erased: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    async def erase(self, scope: Scope, lines: Iterator[ErasureLine]) -> None:
        """Erase what is listed of one user."""
        known = await read_tombstones(self.engine, scope)
        gone: set[Key] = set()
        while page := list(islice(lines, PAGE_SIZE)):
            whole = [line.erased_at for line in page if line.kind == WHOLE_USER]
            if whole and await self._erase_user(scope, max(whole)):
                break
            marks: dict[Key, datetime] = {}
            for line in page:
                if line.kind != WHOLE_USER:
                    marks[line.key] = max(line.erased_at, marks.get(line.key, line.erased_at))
            gone.update(await erase_listed(self.engine, scope, marks, known, dry_run=self.dry_run))
            self.done += len(page)
            self.progress("erasing again", self.done, self.total)
        self._count(scope, len(gone))

    async def _erase_user(self, scope: Scope, erased_at: datetime) -> bool:
        """Erase the user as a whole where all that is there is from before; whether nothing is left to do then."""
        noted = await _read_whole_erasure(self.engine, scope)
        if noted is not None and noted >= erased_at:
            return False
        store, user = self.engine.admin, scope.user_id
        present = sum((await store.counts(scope))["kind"].values())
        if from_micros((await store.journal_counters(scope)).last_at) > erased_at:
            if present:
                self.notes.append(
                    f"{user} was erased as a whole and has written since: only the listed records go, "
                    "not API keys and receipts"
                )
            return False
        if not self.dry_run:
            await Erasure(MemoryContext(self.engine, scope)).erase_user()
        self._count(scope, present)
        return True

    def _count(self, scope: Scope, records: int) -> None:
        if records:
            self.erased[scope.user_id] = self.erased.get(scope.user_id, 0) + records
