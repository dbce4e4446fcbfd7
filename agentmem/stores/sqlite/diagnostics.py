"""Looks at a store's files without changing them: what is damaged, missing, lagging or out of place.

The connection is read-only, and not even a lock file is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import apsw
import numpy as np

from agentmem.core.clock import add_time, from_micros, to_micros
from agentmem.errors import CorruptStore, StoreError
from agentmem.stores.admin import (
    DEAD_LETTER_ATTEMPTS,
    INVARIANTS,
    WORDS_FIX,
    Finding,
    format_other_tokenizer,
    requeue_hint,
)
from agentmem.stores.postings import BYTES_PER_POSTING
from agentmem.stores.sqlite import graph
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
from agentmem.stores.vectors.search import projection_name
from agentmem.text.templates import Migration, load_migrations, load_templates
from agentmem.text.tokenizer import tokenizer_fingerprint

_SQL = load_templates(__package__, "diagnostics.sql")

MIN_SQLITE_VERSION = (3, 51, 3)  # sqlite.org/wal.html#walresetbug: before it, committed data could be lost
LONG_LEASE_SECONDS = 3600  # seconds
MAX_CLOCK_SKEW = timedelta(minutes=5)
MAX_USERS_CHECKED = 2000  # looked at one by one
# the sample whose edges are made again, and how large a user in it may be
EDGE_SAMPLE_USERS, MAX_EDGE_SAMPLE_RECORDS = 20, 20_000
LARGE_WAL_BYTES = 256 * 1024 * 1024
LARGE_UNUSED_BYTES = 64 * 1024 * 1024
REBUILD_HINT = "run: agentmem admin rebuild --all-users"
RESTORE_HINT = "restore a backup, or export what can be read and import it into a new home"


@dataclass
class SqliteDiagnostics:
    """One look at one file. `findings` are in the order of the checks; `meta` is what the store records of itself."""

    path: Path
    steps: list[Migration]
    now: datetime
    findings: list[Finding] = field(default_factory=list)
    meta: dict[str, str] = field(default_factory=dict)
    guard: GuardRecord | None = None

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
                for check in (
                    self._check_store_id,
                    self._check_guard,
                    self._check_sizes,
                    self._check_invariants,
                    self._check_words,
                    self._check_graph,
                    self._check_lag,
                    self._check_parked,
                    self._check_clock,
                    self._check_leases,
                ):
                    self._run_check(check, db)
        except StoreError as error:
            self._add_failure("store", error)

    def add_finding(self, check: str, detail: str, fix: str = "", *, level: Any = "ok") -> None:
        """Note a finding."""
        self.findings.append(Finding(level, check, detail, fix))

    def _run_check(self, check: Callable[[SqliteConnection], None], db: SqliteConnection) -> None:
        name = check.__name__.removeprefix("_check_")
        try:
            with translate_errors(self.path):
                check(db)
        except StoreError as error:
            self._add_failure(name, error)

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

    def _check_store_id(self, db: SqliteConnection) -> None:
        self.meta = dict(_fetch_rows(db, "meta"))
        if store_id := self.meta.get("store_id"):
            self.add_finding("store_id", f"{store_id}, opened {self.meta.get('openings', '?')} times")
        else:
            self.add_finding("store_id", "the store has no id", RESTORE_HINT, level="error")

    def _check_guard(self, db: SqliteConnection) -> None:
        check_store(db, self.path, self.guard)
        held, file = read_commits(db), guard_path(self.path)
        if held is not None and self.guard is None:
            what = "cannot be read" if file.exists() else "is missing"
            fix = "it is made again at the next write; if you did not delete it, look whether all is there"
            self.add_finding(
                "guard", f"{file} {what}, so nothing tells whether commits were lost", fix, level="warning"
            )
        else:
            self.add_finding("guard", f"{0 if held is None else held.commits:,} commits, none lost")

    def _check_sizes(self, db: SqliteConnection) -> None:
        page, pages, free = (int(db.pragma(name)) for name in ("page_size", "page_count", "freelist_count"))
        log = self.path.with_name(self.path.name + "-wal")
        log_bytes = log.stat().st_size if log.exists() else 0
        detail = f"store {page * pages:,} bytes ({page * free:,} unused), write-ahead log {log_bytes:,}"
        if log_bytes > LARGE_WAL_BYTES or (page * free > LARGE_UNUSED_BYTES and free * 2 > pages):
            self.add_finding("sizes", detail, "run: agentmem admin compact", level="warning")
        else:
            self.add_finding("sizes", detail)

    def _check_invariants(self, db: SqliteConnection) -> None:
        wrong = 0
        for name, said in INVARIANTS.items():
            if rows := _fetch_rows(db, name):
                wrong += 1
                fix = "report this with the program's version; then " + RESTORE_HINT
                self.add_finding(
                    "invariants", f"{said}: {len(rows)}, such as {_format_examples(rows)}", fix, level="error"
                )
        if not wrong:
            self.add_finding(
                "invariants", f"journal, versions, records and slots agree for {len(_fetch_rows(db, 'users')):,} users"
            )

    def _check_words(self, db: SqliteConnection) -> None:
        missing, stale = [], []
        users = _fetch_rows(db, "users")[:MAX_USERS_CHECKED]
        for user_id, _, _ in users:
            held = {ordinal for (ordinal,) in _fetch_rows(db, "tail_slots", user_id)}
            for (block,) in _fetch_rows(db, "block_slots", user_id):
                held |= set(np.frombuffer(block, dtype="<i4", count=len(block) // BYTES_PER_POSTING).tolist())
            if {ordinal for (ordinal,) in _fetch_rows(db, "searchable_slots", user_id)} - held:
                missing.append((user_id,))
            if held - {ordinal for (ordinal,) in _fetch_rows(db, "known_slots", user_id)}:
                stale.append((user_id,))
        for rows, said in ((missing, "records without words"), (stale, "words of records that are gone")):
            if rows:
                self.add_finding(
                    "words", f"{said}: {len(rows)} users, such as {_format_examples(rows)}", WORDS_FIX, level="error"
                )
        if other := _fetch_rows(db, "other_tokenizer", tokenizer_fingerprint()):
            self.add_finding("words", format_other_tokenizer(len(other)), WORDS_FIX, level="warning")
        if not (missing or stale):
            self.add_finding("words", f"every searchable record is indexed ({len(users):,} users looked at)")

    def _check_graph(self, db: SqliteConnection) -> None:
        users = [user_id for user_id, _, ordinals in _fetch_rows(db, "users") if ordinals <= MAX_EDGE_SAMPLE_RECORDS]
        sample = users[:: max(1, -(-len(users) // EDGE_SAMPLE_USERS))]
        db.execute(_SQL["shadow_edges"])
        wrong = []
        for user_id in sample:
            graph.rebuild_edges(db, user_id)  # into the shadow, which hides the real table
            if differing := int(db.execute(_SQL["edges_that_differ"], (user_id,)).get):
                wrong.append((user_id, differing))
        if wrong:
            fix = "run: agentmem admin rebuild --what graph --all-users"
            self.add_finding("graph", f"edges differ from the records: {_format_examples(wrong)}", fix, level="error")
        else:
            self.add_finding("graph", f"edges agree with the records ({len(sample)} users looked at)")

    def _check_lag(self, db: SqliteConnection) -> None:
        names = [self.meta[name] for name in ("embedder", "embedder_next") if self.meta.get(name)]
        for projection in map(projection_name, names):
            rows = _fetch_rows(db, "lag", projection)
            ahead = [row for row in rows if row[1] < 0]
            behind = [row for row in rows if row[1] > 0]
            if ahead:
                self.add_finding(
                    "lag", f"{projection} is ahead of the log: {_format_examples(ahead)}", REBUILD_HINT, level="error"
                )
            if behind:
                total = sum(row[1] for row in behind)
                detail = f"{projection} lacks {total:,} changes of {len(behind):,} users: {_format_examples(behind)}"
                self.add_finding("lag", detail, "it catches up at the next recall; or " + REBUILD_HINT, level="warning")
            if not rows:
                self.add_finding("lag", f"{projection} is complete")
        if cleared := _fetch_rows(db, "graph_cleared"):
            fix = "run: agentmem admin rebuild --what graph --all-users"
            self.add_finding(
                "lag", f"the graph was cleared and not made again: {_format_examples(cleared)}", fix, level="error"
            )

    def _check_parked(self, db: SqliteConnection) -> None:
        if rows := _fetch_rows(db, "parked", DEAD_LETTER_ATTEMPTS):
            detail = (
                f"{len(rows)} changes were passed over: {_format_examples([row[:3] for row in rows])}; {rows[0][3]}"
            )
            self.add_finding("parked", detail, requeue_hint([row[0] for row in rows]), level="warning")
        else:
            self.add_finding("parked", "no change was passed over")

    def _check_clock(self, db: SqliteConnection) -> None:
        if rows := _fetch_rows(db, "ahead_of_time", to_micros(add_time(self.now, MAX_CLOCK_SKEW))):
            user_id, last = rows[0]
            detail = f"{len(rows)} users were written to in the future, {user_id} at {from_micros(last).isoformat()}"
            self.add_finding(
                "clock", detail, "set this machine's clock; record time goes on from there", level="warning"
            )
        else:
            self.add_finding("clock", "no record is from the future")

    def _check_leases(self, db: SqliteConnection) -> None:
        if rows := _fetch_rows(db, "long_leases", LONG_LEASE_SECONDS):
            detail = "; ".join(f"{name} is held by {owner} for {left:,} s more" for name, owner, left in rows[:3])
            self.add_finding(
                "leases", detail, "if that process is gone, the lease ends by itself then", level="warning"
            )
        else:
            self.add_finding("leases", "none is held for long")


def diagnose(path: Path, session: Path | None, now: datetime) -> SqliteDiagnostics:
    """Look at a store's file, and at that of its session cache, if any. Blocks; what a store raises is a finding."""
    inspection = SqliteDiagnostics(path, load_migrations("sqlite"), now)
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


def _fetch_rows(db: SqliteConnection, name: str, *values: Any) -> list[Any]:
    return db.execute(_SQL[name], values).fetchall()


def _format_examples(rows: list[Any]) -> str:
    return "; ".join(" ".join(map(str, row)) for row in rows[:3])
