"""Looks at a store's files without changing them: what is damaged, missing, lagging or out of place.

The connection is read-only. Where no write-ahead log lies beside the file nobody has it open, and it is read as a file
that does not change, so that not even a lock file is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import apsw
import numpy as np

from agentmem.errors import CorruptStore, StoreError
from agentmem.model.clock import from_micros, micros
from agentmem.stores.postings import BYTES
from agentmem.stores.sqlite import graph
from agentmem.stores.sqlite.connection import BUSY_MS, Connection, translated
from agentmem.stores.sqlite.migrations import APPLICATION_ID
from agentmem.stores.sqlite.vectors import projection_name
from agentmem.stores.upkeep import GIVEN_UP, INVARIANTS, Finding, mend_parked
from agentmem.text.blocks import SchemaStep, load_blocks, load_schema

FIXED_LIBRARY = (3, 51, 3)  # sqlite.org/wal.html#walresetbug: before it, committed data could be lost
LONG_LEASE = 3600  # seconds
SKEW = timedelta(minutes=5)
MOST_USERS = 2000  # looked at one by one
EDGE_USERS, EDGE_SLOTS = 20, 20_000  # the sample whose edges are made again, and how large a user in it may be
LARGE_LOG = 256 * 1024 * 1024
MUCH_UNUSED = 64 * 1024 * 1024
REBUILD = "run: agentmem rebuild --all-users"
RESTORE = "restore a backup, or export what can be read and import it into a new home"


def _sql() -> Mapping[str, str]:
    return load_blocks(__package__, "checks.sql")


@dataclass
class Inspection:
    """One look at one file. `findings` are in the order of the checks; `meta` is what the store records of itself."""

    path: Path
    steps: list[SchemaStep]
    now: datetime
    findings: list[Finding] = field(default_factory=list)
    meta: dict[str, str] = field(default_factory=dict)

    def run(self) -> None:
        """Make every check; one that fails does not keep the others from being made."""
        self._library()
        try:
            with looking(self.path) as db:
                self._engine(db)
                if not self._ours(db):
                    return
                for check in (self._identity, self._sizes, self._invariants, self._words, self._edges, self._lag,
                              self._parked, self._clock, self._leases):  # fmt: skip
                    self._guarded(check, db)
        except StoreError as error:
            self._damaged("store", error)

    def add(self, what: str, detail: str, fix: str = "", *, level: Any = "ok") -> None:
        """Note a finding."""
        self.findings.append(Finding(level, what, detail, fix))

    def _guarded(self, check: Callable[[Connection], None], db: Connection) -> None:
        name = check.__name__.strip("_")
        try:
            with translated(self.path):
                check(db)
        except StoreError as error:
            self._damaged(name, error)

    def _damaged(self, what: str, error: StoreError) -> None:
        fix = RESTORE if isinstance(error, CorruptStore) else "see the message; then run: agentmem doctor"
        self.add(what, str(error), fix, level="error")

    def _library(self) -> None:
        version = apsw.sqlite_lib_version()
        if tuple(int(part) for part in version.split(".")[:3]) < FIXED_LIBRARY:
            fix = "upgrade with: pip install --upgrade apsw"
            self.add("library", f"SQLite {version} can lose committed data (WAL reset)", fix, level="error")
        else:
            self.add("library", f"SQLite {version}")

    def _engine(self, db: Connection) -> None:
        lines: list[Any] = []
        try:
            lines = [line for (line,) in db.execute("PRAGMA integrity_check(20)") if line != "ok"]
        except apsw.Error as error:
            lines = [str(error)]
        foreign: Any = []
        if not lines:
            foreign = db.execute("PRAGMA foreign_key_check").fetchall()
        if lines:
            self.add("integrity", "; ".join(map(str, lines[:5])), RESTORE, level="error")
        elif foreign:
            self.add("integrity", f"{len(foreign)} rows refer to rows that are missing", RESTORE, level="error")
        else:
            self.add("integrity", "every page and index is sound")

    def _ours(self, db: Connection) -> bool:
        """Whether the file has our schema, in this version or an earlier one; says what is missing of it."""
        known = len(self.steps)
        try:
            has = set(db.execute(_sql()["objects"]).fetchall())
            found = int(db.execute(_sql()["version"]).get) if ("table", "schema_version") in has else 0
        except apsw.Error as error:
            self.add("schema", f"it cannot be read: {error}", RESTORE, level="error")
            return False
        if db.pragma("application_id") != APPLICATION_ID and has:
            self.add("schema", f"{self.path} belongs to another program", "choose another home", level="error")
            return False
        if found > known:
            fix = "upgrade with: pip install --upgrade agentmem-graph"
            self.add("schema", f"version {found} is newer than {known}, the last one known here", fix, level="error")
            return False
        if found < known:
            fix = "it is migrated when the memory is opened"
            self.add("schema", f"version {found} of {known}", fix, level="warning")
            return found > 0
        missing = sorted(f"{kind} {name}" for kind, name in _expected(self.steps) - has)
        if missing:
            what = "the audit log is not protected: " if any("memory_audit_log_no_" in name for name in missing) else ""
            self.add("schema", f"{what}{', '.join(missing[:5])} missing", RESTORE, level="error")
        else:
            self.add("schema", f"version {found}, {len(has)} objects, audit rows protected")
        return True

    def _identity(self, db: Connection) -> None:
        self.meta = dict(_rows(db, "meta"))
        if store_id := self.meta.get("store_id"):
            self.add("store_id", f"{store_id}, opened {self.meta.get('openings', '?')} times")
        else:
            self.add("store_id", "the store has no id", RESTORE, level="error")

    def _sizes(self, db: Connection) -> None:
        page, pages, free = (int(db.pragma(name)) for name in ("page_size", "page_count", "freelist_count"))
        log = self.path.with_name(self.path.name + "-wal")
        log_bytes = log.stat().st_size if log.exists() else 0
        detail = f"store {page * pages:,} bytes ({page * free:,} unused), write-ahead log {log_bytes:,}"
        if log_bytes > LARGE_LOG or (page * free > MUCH_UNUSED and free * 2 > pages):
            self.add("sizes", detail, "run: agentmem compact", level="warning")
        else:
            self.add("sizes", detail)

    def _invariants(self, db: Connection) -> None:
        wrong = 0
        for name, said in INVARIANTS.items():
            if rows := _rows(db, name):
                wrong += 1
                fix = "report this with the program's version; then " + RESTORE
                self.add("invariants", f"{said}: {len(rows)}, such as {_shown(rows)}", fix, level="error")
        if not wrong:
            self.add("invariants", f"journal, versions, records and slots agree for {len(_rows(db, 'users')):,} users")

    def _words(self, db: Connection) -> None:
        missing, stale = [], []
        users = _rows(db, "users")[:MOST_USERS]
        for user_id, _, _ in users:
            held = {slot for (slot,) in _rows(db, "tail_slots", user_id)}
            for (block,) in _rows(db, "block_slots", user_id):
                held |= set(np.frombuffer(block, dtype="<i4", count=len(block) // BYTES).tolist())
            if {slot for (slot,) in _rows(db, "searchable_slots", user_id)} - held:
                missing.append((user_id,))
            if held - {slot for (slot,) in _rows(db, "known_slots", user_id)}:
                stale.append((user_id,))
        for rows, said in ((missing, "records without words"), (stale, "words of records that are gone")):
            if rows:
                fix = "run: agentmem rebuild --what words --all-users"
                self.add("words", f"{said}: {len(rows)} users, such as {_shown(rows)}", fix, level="error")
        if not (missing or stale):
            self.add("words", f"every searchable record is indexed ({len(users):,} users looked at)")

    def _edges(self, db: Connection) -> None:
        users = [user_id for user_id, _, slots in _rows(db, "users") if slots <= EDGE_SLOTS]
        sample = users[:: max(1, -(-len(users) // EDGE_USERS))]
        db.execute(_sql()["shadow_edges"])
        wrong = []
        for user_id in sample:
            graph.make_again(db, user_id)  # into the shadow, which hides the real table
            if differing := int(db.execute(_sql()["edges_that_differ"], (user_id,)).get):
                wrong.append((user_id, differing))
        if wrong:
            fix = "run: agentmem rebuild --what graph --all-users"
            self.add("graph", f"edges differ from the records: {_shown(wrong)}", fix, level="error")
        else:
            self.add("graph", f"edges agree with the records ({len(sample)} users looked at)")

    def _lag(self, db: Connection) -> None:
        names = [self.meta[name] for name in ("embedder", "embedder_next") if self.meta.get(name)]
        for projection in map(projection_name, names):
            rows = _rows(db, "lag", projection)
            ahead = [row for row in rows if row[1] < 0]
            behind = [row for row in rows if row[1] > 0]
            if ahead:
                self.add("lag", f"{projection} is ahead of the log: {_shown(ahead)}", REBUILD, level="error")
            if behind:
                total = sum(row[1] for row in behind)
                detail = f"{projection} lacks {total:,} changes of {len(behind):,} users: {_shown(behind)}"
                self.add("lag", detail, "it catches up at the next recall; or " + REBUILD, level="warning")
            if not rows:
                self.add("lag", f"{projection} is complete")
        if cleared := _rows(db, "graph_cleared"):
            fix = "run: agentmem rebuild --what graph --all-users"
            self.add("lag", f"the graph was cleared and not made again: {_shown(cleared)}", fix, level="error")

    def _parked(self, db: Connection) -> None:
        if rows := _rows(db, "parked", GIVEN_UP):
            detail = f"{len(rows)} changes were passed over: {_shown([row[:3] for row in rows])}; {rows[0][3]}"
            self.add("parked", detail, mend_parked([row[0] for row in rows]), level="warning")
        else:
            self.add("parked", "no change was passed over")

    def _clock(self, db: Connection) -> None:
        if rows := _rows(db, "ahead_of_time", micros(self.now + SKEW)):
            user_id, last = rows[0]
            detail = f"{len(rows)} users were written to in the future, {user_id} at {from_micros(last).isoformat()}"
            self.add("clock", detail, "set this machine's clock; record time goes on from there", level="warning")
        else:
            self.add("clock", "no record is from the future")

    def _leases(self, db: Connection) -> None:
        if rows := _rows(db, "long_leases", LONG_LEASE):
            detail = "; ".join(f"{name} is held by {owner} for {left:,} s more" for name, owner, left in rows[:3])
            self.add("leases", detail, "if that process is gone, the lease ends by itself then", level="warning")
        else:
            self.add("leases", "none is held for long")


def inspect(path: Path, session: Path | None, now: datetime) -> Inspection:
    """Look at a store's file, and at that of its session cache, if any. Blocks; what a store raises is a finding."""
    inspection = Inspection(path, load_schema("sqlite"), now)
    inspection.run()
    if session is not None and session.exists() and session != path:
        if wrong := _broken(session):
            inspection.add("session", wrong, f"it is only a cache; delete {session}", level="warning")
        else:
            inspection.add("session", f"{session.stat().st_size:,} bytes, sound")
    return inspection


@contextmanager
def looking(path: Path) -> Iterator[Connection]:
    """A connection that cannot write. Raises CorruptStore or StoreUnavailable."""
    log = path.with_name(path.name + "-wal")
    still = "" if log.exists() else "&immutable=1"
    with translated(path):
        db = apsw.Connection(
            f"{path.resolve().as_uri()}?mode=ro{still}", flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        )
        try:
            db.set_busy_timeout(BUSY_MS)
            db.pragma("temp_store", "MEMORY")
            yield db
        finally:
            db.close()


def _broken(path: Path) -> str:
    try:
        with looking(path) as db:
            found: Any = db.execute("PRAGMA quick_check(1)").get
            return "" if found == "ok" else str(found)
    except StoreError as error:
        return str(error)


def _expected(steps: Iterable[SchemaStep]) -> set[tuple[Any, ...]]:
    db = apsw.Connection(":memory:")
    try:
        for step in steps:
            db.execute(step.text)
        return set(db.execute(_sql()["objects"]).fetchall())
    finally:
        db.close()


def _rows(db: Connection, name: str, *values: Any) -> list[Any]:
    return db.execute(_sql()[name], values).fetchall()


def _shown(rows: list[Any]) -> str:
    return "; ".join(" ".join(map(str, row)) for row in rows[:3])
