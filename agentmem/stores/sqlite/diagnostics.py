"""Looks at a store's files without changing them: what is damaged, missing, lagging or out of place.

The connection is read-only, and not even a lock file is made.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import apsw
import numpy as np

from agentmem.core.scope import SYSTEM_USER
from agentmem.errors import CorruptStore, StoreError
from agentmem.stores.admin import WORDS_FIX
from agentmem.stores.postings import BYTES_PER_POSTING
from agentmem.stores.sql import graph
from agentmem.stores.sql.connection import Principal, Row, finish
from agentmem.stores.sql.diagnostics import ReaderLimits, SqlDiagnostics, format_examples
from agentmem.stores.sqlite.connection import SqliteConnection
from agentmem.stores.sqlite.database import choose_read_mode, connect_read_only, translate_errors
from agentmem.stores.sqlite.file_guard import (
    GuardRecord,
    check_files,
    check_store,
    guard_path,
    read_commits,
    read_guard,
)
from agentmem.stores.sqlite.migrations import APPLICATION_ID
from agentmem.text.templates import Migration, load_migrations, load_templates

_SQL = load_templates(__package__, "diagnostics.sql")

MIN_SQLITE_VERSION = (3, 51, 3)  # sqlite.org/wal.html#walresetbug: before it, committed data could be lost
MAX_USERS_CHECKED = 2000  # looked at one by one
LARGE_WAL_BYTES = 256 * 1024 * 1024
LARGE_UNUSED_BYTES = 64 * 1024 * 1024
RESTORE_HINT = "restore a backup, or export what can be read and import it into a new home"


@dataclass
class SqliteDiagnostics(SqlDiagnostics):
    """One look at one file, on the caller's thread."""

    path: Path = field(kw_only=True)
    steps: list[Migration] = field(kw_only=True)
    guard: GuardRecord | None = None

    restore_fix = RESTORE_HINT
    lag_fix = "it catches up at the next recall; or run: agentmem admin rebuild --all-users"
    future_check = "clock"

    def run(self) -> None:
        """Make every check; one that fails does not keep the others from being made."""
        self._check_library()
        self.guard = read_guard(self.path)  # before the store: others may write meanwhile
        try:
            check_files(self.path, self.guard)
            with open_read_only(self.path) as db:
                self._check_integrity(db)
                if not self._check_schema(db):
                    return
                self._db = db
                for check in (
                    self._check_store_id,
                    self._check_guard,
                    self._check_sizes,
                    self._check_invariants,
                    self._check_words,
                    self._check_graph,
                    self._check_lag,
                    self._check_parked,
                    self._check_future,
                    self._check_leases,
                    self._check_reading,
                ):
                    self._run_check(check)
        except StoreError as error:
            self._add_failure("store", error)

    def _run_check(self, check: Callable[[], Coroutine[Any, Any, None]]) -> None:
        name = check.__name__.removeprefix("_check_")
        name = self.future_check if name == "future" else name
        try:
            with translate_errors(self.path):
                finish(check())
        except StoreError as error:
            self._add_failure(name, error)

    async def _rows(self, statement: str, principal: Principal = SYSTEM_USER, /, **values: Any) -> list[Row]:
        return await self._db.rows(f"diagnostics.{statement}", **values)

    async def _count_wrong_edges(self, user_id: str) -> int:
        return await graph.count_differences(self._db, user_id)

    def _add_failure(self, check: str, error: StoreError) -> None:
        fix = RESTORE_HINT if isinstance(error, CorruptStore) else "see the message; then run: agentmem admin doctor"
        self.add_finding(check, str(error), fix, level="error")

    def _check_library(self) -> None:
        version = apsw.sqlite_lib_version()
        if tuple(int(part) for part in version.split(".")[:3]) < MIN_SQLITE_VERSION:
            fix = "upgrade with: pip install --upgrade apsw"
            self.add_finding("library", f"SQLite {version} can lose committed data (WAL reset)", fix, level="error")
        else:
            self.add_finding("library", f"SQLite {version}")

    def _check_integrity(self, db: SqliteConnection) -> None:
        lines: list[Any] = []
        try:
            lines = [line for (line,) in db.execute("PRAGMA integrity_check(20)") if line != "ok"]
        except apsw.Error as error:
            lines = [str(error)]
        foreign: Any = []
        if not lines:
            foreign = db.execute("PRAGMA foreign_key_check").fetchall()
        if lines:
            self.add_finding("integrity", "; ".join(map(str, lines[:5])), RESTORE_HINT, level="error")
        elif foreign:
            self.add_finding(
                "integrity", f"{len(foreign)} rows refer to rows that are missing", RESTORE_HINT, level="error"
            )
        else:
            self.add_finding("integrity", "every page and index is sound")

    def _check_schema(self, db: SqliteConnection) -> bool:
        """Whether the file has our schema, in this version or an earlier one; says what is missing of it."""
        known = len(self.steps)
        try:
            has = set(db.execute(_SQL["objects"]).fetchall())
            found = int(db.execute(_SQL["version"]).get) if ("table", "schema_version") in has else 0
        except apsw.Error as error:
            self.add_finding("schema", f"it cannot be read: {error}", RESTORE_HINT, level="error")
            return False
        if db.pragma("application_id") != APPLICATION_ID and has:
            self.add_finding("schema", f"{self.path} belongs to another program", "choose another home", level="error")
            return False
        if found > known:
            fix = "upgrade with: pip install --upgrade agentmem-graph"
            self.add_finding(
                "schema", f"version {found} is newer than {known}, the last one known here", fix, level="error"
            )
            return False
        if found < known:
            fix = "it is migrated when the memory is opened"
            self.add_finding("schema", f"version {found} of {known}", fix, level="warning")
            return found > 0
        missing = sorted(f"{kind} {name}" for kind, name in _expected_objects(self.steps) - has)
        if missing:
            what = "the audit log is not protected: " if any("memory_audit_log_no_" in name for name in missing) else ""
            self.add_finding("schema", f"{what}{', '.join(missing[:5])} missing", RESTORE_HINT, level="error")
        else:
            self.add_finding("schema", f"version {found}, {len(has)} objects, audit rows protected")
        return True

    async def _check_guard(self) -> None:
        check_store(self._db, self.path, self.guard)
        held, file = read_commits(self._db), guard_path(self.path)
        if held is not None and self.guard is None:
            what = "cannot be read" if file.exists() else "is missing"
            fix = "it is made again at the next write; if you did not delete it, look whether all is there"
            self.add_finding(
                "guard", f"{file} {what}, so it is unknown whether commits were lost", fix, level="warning"
            )
        else:
            self.add_finding("guard", f"{0 if held is None else held.commits:,} commits, none lost")

    async def _check_sizes(self) -> None:
        page, pages, free = (int(self._db.pragma(name)) for name in ("page_size", "page_count", "freelist_count"))
        log = self.path.with_name(self.path.name + "-wal")
        log_bytes = log.stat().st_size if log.exists() else 0
        detail = f"store {page * pages:,} bytes ({page * free:,} unused), write-ahead log {log_bytes:,}"
        if log_bytes > LARGE_WAL_BYTES or (page * free > LARGE_UNUSED_BYTES and free * 2 > pages):
            self.add_finding("sizes", detail, "run: agentmem admin compact", level="warning")
        else:
            self.add_finding("sizes", detail)

    async def _check_words(self) -> None:
        missing, stale = [], []
        users = (await self._rows("users"))[:MAX_USERS_CHECKED]
        for user_id, _ in users:
            held = {ordinal for (ordinal,) in await self._rows("delta_ordinals", user_id=user_id)}
            for (block,) in await self._rows("merged_ordinals", user_id=user_id):
                held |= set(np.frombuffer(block, dtype="<i4", count=len(block) // BYTES_PER_POSTING).tolist())
            if {ordinal for (ordinal,) in await self._rows("searchable_ordinals", user_id=user_id)} - held:
                missing.append((user_id,))
            if held - {ordinal for (ordinal,) in await self._rows("known_ordinals", user_id=user_id)}:
                stale.append((user_id,))
        for rows, problem in ((missing, "records without words"), (stale, "words of records that are gone")):
            if rows:
                detail = f"{problem}: {len(rows)} users, such as {format_examples(rows)}"
                self.add_finding("words", detail, WORDS_FIX, level="error")
        await self._find_other_tokenizer()
        if not (missing or stale):
            self.add_finding("words", f"every searchable record is indexed ({len(users):,} users looked at)")


def diagnose(path: Path, session: Path | None, now: datetime, readers: ReaderLimits | None = None) -> SqliteDiagnostics:
    """Look at a store's file, and at that of its session cache, if any. Blocks; what a store raises is a finding."""
    inspection = SqliteDiagnostics(now, readers, path=path, steps=load_migrations("sqlite"))
    inspection.run()
    if session is not None and session.exists() and session != path:
        if wrong := _find_damage(session):
            inspection.add_finding("session", wrong, f"it is only a cache; delete {session}", level="warning")
        else:
            inspection.add_finding("session", f"{session.stat().st_size:,} bytes, sound")
    return inspection


@contextmanager
def open_read_only(path: Path) -> Iterator[SqliteConnection]:
    """A connection that cannot write. Raises CorruptStore or StoreUnavailable."""
    with translate_errors(path):
        db = connect_read_only(path, choose_read_mode(path))
        try:
            yield db
        finally:
            db.close()


def _find_damage(path: Path) -> str:
    try:
        with open_read_only(path) as db:
            found: Any = db.execute("PRAGMA quick_check(1)").get
            return "" if found == "ok" else str(found)
    except StoreError as error:
        return str(error)


def _expected_objects(steps: Iterable[Migration]) -> set[tuple[Any, ...]]:
    db = apsw.Connection(":memory:")
    try:
        for step in steps:
            db.execute(step.text)
        return set(db.execute(_SQL["objects"]).fetchall())
    finally:
        db.close()
