"""Looks at a store's database without changing it: what is missing, open, lagging, damaged or out of place.

Every transaction is read-only. What cannot be looked at, because something before it failed, is left out.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from agentmem.core.clock import Stopwatch, SystemClock
from agentmem.core.scope import SYSTEM_USER
from agentmem.errors import AgentMemError, SchemaMismatch
from agentmem.stores.postgres.database import MAX_CONNECTIONS, PostgresDatabase, fetch_rows
from agentmem.stores.postgres.log import PARTITION_DAYS_AHEAD
from agentmem.stores.postgres.migrations import MIN_SERVER_VERSION
from agentmem.stores.sql import graph
from agentmem.stores.sql.connection import Principal, Row
from agentmem.stores.sql.diagnostics import DOCTOR_OPERATOR, ReaderLimits, SqlDiagnostics
from agentmem.text.templates import Migration, load_migrations, load_templates

if TYPE_CHECKING:
    from agentmem.stores.postgres.connection import PostgresConnection

_SQL = load_templates(__package__, "diagnostics.sql")

MIN_PGVECTOR_VERSION = (0, 7)  # the first pgvector with halfvec
MAX_CLOCK_SKEW = timedelta(seconds=2)
MAX_CONNECTION_SHARE = 0.8  # of the connections that are for everybody
MIN_PARTITION_DAYS = 2  # of the audit log, after today
USER_PAGE_SIZE = 1000
CHECK_SECONDS = 300.0  # for a look at the whole journal
MIGRATE_HINT = "run: agentmem admin migrate"
RESTORE_HINT = "restore a backup, or export what can be read and import it into a new database"
_CREATE_STATEMENT = re.compile(
    r"^CREATE (?:OR REPLACE )?(?:UNIQUE )?(TABLE|INDEX|VIEW|SEQUENCE|FUNCTION|TRIGGER|EXTENSION) "
    r"(?:IF NOT EXISTS )?(\w+)",
    re.MULTILINE,
)
_DROPPED_INDEXES = re.compile(r"^DROP INDEX ([\w, ]+);", re.MULTILINE)


async def diagnose(url: str, now: datetime, readers: ReaderLimits | None = None) -> PostgresDiagnostics:
    """Look at a store's database; what the server raises is a finding, also that it is away.

    `now` is this machine's time at the call. Raises ConfigError for a URL that cannot work or a missing driver.
    """
    inspection = PostgresDiagnostics(now, readers, database=PostgresDatabase(url), steps=load_migrations("postgres"))
    try:
        await inspection.run()
    finally:
        await inspection.database.close()
    return inspection


async def heads(url: str, users: Collection[str]) -> dict[str, int]:
    """The last `seq` of these users' journals; those never seen are left out. Raises as the log does."""
    return await _read_by_user(url, "heads", users=list(users))


async def heads_after(url: str, after: str) -> dict[str, int]:
    """The last `seq` of a page of the users who have a journal, by name, those after a name; empty at the end."""
    return await _read_by_user(url, "heads_after", after=after, limit=USER_PAGE_SIZE)


async def operations_at(url: str, seqs: Mapping[str, int]) -> dict[str, str]:
    """The operation of the change at a position of each of these users' journals; those without one left out."""
    return await _read_by_user(url, "operations_at", users=list(seqs), seqs=list(seqs.values()))


async def _read_by_user(url: str, name: str, **values: Any) -> dict[str, Any]:
    database = PostgresDatabase(url)
    try:
        return dict(await database.query(DOCTOR_OPERATOR, lambda db: fetch_rows(db, _SQL[name], values)))
    finally:
        await database.close()


@dataclass
class PostgresDiagnostics(SqlDiagnostics):
    """One look at one database."""

    database: PostgresDatabase = field(kw_only=True)
    steps: Sequence[Migration] = field(kw_only=True)

    restore_fix = RESTORE_HINT
    lag_fix = "run: agentmem admin sync, or a worker"
    future_check = "future"

    def __post_init__(self) -> None:
        self._stopwatch = Stopwatch(SystemClock())
        self._is_current = False
        self._can_read_all_users = False
        self._create_statements = {(kind, name): text for kind, name, text in _statements(self.steps)}

    async def run(self) -> None:
        """Make every check that can be made; one that fails does not keep the others from being made."""
        if not await self._check_server():
            return
        for check in (self._check_clock, self._check_connections, self._check_pgvector, self._check_schema):
            await self._run_check(check)
        if not self._is_current:
            return
        for check in (
            self._check_store_id,
            self._check_roles,
            self._check_row_security,
            self._check_indexes,
            self._check_embedders,
            self._check_leases,
        ):
            await self._run_check(check)
        if self._can_read_all_users:
            for check in (
                self._check_audit,
                self._check_invariants,
                self._check_lag,
                self._check_parked,
                self._check_words,
                self._check_graph,
                self._check_future,
                self._check_reading,
            ):
                await self._run_check(check)

    async def _run_check(self, check: Callable[[], Awaitable[None]]) -> None:
        try:
            await check()
        except AgentMemError as error:
            is_old = isinstance(error, SchemaMismatch)
            fix = MIGRATE_HINT if is_old else "see the message; then run: agentmem admin doctor"
            self.add_finding(check.__name__.removeprefix("_check_"), str(error), fix, level="error")

    async def _rows(self, statement: str, principal: Principal = SYSTEM_USER, /, **values: Any) -> list[Row]:
        return await self.database.query(
            principal, lambda db: db.rows(f"diagnostics.{statement}", **values), timeout_seconds=CHECK_SECONDS
        )

    async def _count_wrong_edges(self, user_id: str) -> int:
        return await self.database.query(
            user_id, lambda db: graph.count_differences(db, user_id), timeout_seconds=CHECK_SECONDS
        )

    # -- the server

    async def _check_server(self) -> bool:
        try:
            ((version, number),) = await self._rows("server")
        except AgentMemError as error:
            self.add_finding(
                "postgres", str(error), "start it, or check log_url: place, user and password", level="error"
            )
            return False
        place = self.database.address
        if number < MIN_SERVER_VERSION:
            fix = f"upgrade it to Postgres {MIN_SERVER_VERSION // 10000} or newer"
            self.add_finding("postgres", f"{place} is version {version}, which is too old", fix, level="error")
            return False
        self.add_finding("postgres", f"{place} answers, version {version}")
        return True

    async def _check_clock(self) -> None:
        async def read_clocks(db: PostgresConnection) -> tuple[float, datetime, float]:
            before = self._stopwatch.milliseconds()
            ((theirs,),) = await fetch_rows(db, _SQL["clock"])
            return before, theirs, self._stopwatch.milliseconds()

        before, theirs, after = await self.database.query(SYSTEM_USER, read_clocks)
        early = self.now + timedelta(milliseconds=before) - theirs
        late = theirs - (self.now + timedelta(milliseconds=after))
        if (skew := max(early, late)) > MAX_CLOCK_SKEW:
            said = (
                f"the server's clock is {skew.total_seconds():,.1f} s {'behind' if skew == early else 'ahead of'} ours"
            )
            self.add_finding("clock", said, "set both machines' clocks by the same time server (NTP)", level="warning")
        else:
            self.add_finding("clock", "the server's clock and ours agree")

    async def _check_connections(self) -> None:
        ((used, most),) = await self._rows("connections")
        said = f"{used} of {most} connections are in use"
        if used >= MAX_CONNECTION_SHARE * most:
            fix = f"raise max_connections, or run fewer processes: each takes up to {MAX_CONNECTIONS}"
            self.add_finding("connections", said, fix, level="warning")
        else:
            self.add_finding("connections", said)

    async def _check_pgvector(self) -> None:
        ((version, offered),) = await self._rows("extension")
        if version is None and offered is None:
            fix = (
                f"install pgvector {'.'.join(map(str, MIN_PGVECTOR_VERSION))} or newer on the server; then "
                f"{MIGRATE_HINT}"
            )
            self.add_finding("pgvector", "the server does not have it", fix, level="error")
        elif version is None:
            fix = f"{MIGRATE_HINT}; where that may not make extensions, a superuser does: CREATE EXTENSION vector"
            self.add_finding("pgvector", f"version {offered} is there, but not in this database", fix, level="error")
        elif tuple(int(part) for part in re.findall(r"\d+", version)[:2]) < MIN_PGVECTOR_VERSION:
            fix = "install a newer one on the server; then, as its owner: ALTER EXTENSION vector UPDATE"
            self.add_finding("pgvector", f"version {version} is too old: it has no halfvec", fix, level="error")
        else:
            self.add_finding("pgvector", f"version {version}")

    # -- the schema

    async def _check_schema(self) -> None:
        found, tables = await self.database.query(SYSTEM_USER, _schema_state)
        known = len(self.steps)
        if found > known:
            fix = "upgrade with: pip install --upgrade agentmem-graph"
            self.add_finding(
                "schema", f"version {found} is newer than {known}, the last one known here", fix, level="error"
            )
            return
        if found == 0 and tables:
            fix = "create a database for agentmem and name it in log_url"
            self.add_finding(
                "schema", f"{self.database.address} is the database of another program", fix, level="error"
            )
            return
        if found < known:
            self.add_finding("schema", f"version {found} of {known}", MIGRATE_HINT, level="error")
            return
        self._is_current = True
        has = {(kind, name) for kind, name in await self._rows("objects")}
        self._missing_indexes = [
            text for key, text in self._create_statements.items() if key[0] == "INDEX" and key not in has
        ]
        missing = [
            f"{kind.lower()} {name}"
            for kind, name in self._create_statements
            if kind != "INDEX" and (kind, name) not in has
        ]
        if missing:
            what = (
                "the audit log is not protected: " if any("memory_audit_log_kept" in name for name in missing) else ""
            )
            fix = "make it again as schema/postgres does, or " + RESTORE_HINT
            self.add_finding("schema", f"{what}{', '.join(missing[:5])} missing or switched off", fix, level="error")
        else:
            self.add_finding("schema", f"version {found}, audit rows protected")

    async def _check_roles(self) -> None:
        ((name, is_super, may_bypass, self._can_read_all_users, missing),) = await self._rows("role")
        if is_super or may_bypass:
            why = "is a superuser" if is_super else "may bypass row-level security"
            fix = (
                "make a role for agentmem and name it in log_url: CREATE ROLE agentmem LOGIN PASSWORD '…' "
                "IN ROLE agentmem_app, agentmem_worker"
            )
            said = f"{name} {why}: the wall between users holds by agentmem's own statements alone"
            self.add_finding("roles", said, fix, level="warning")
        elif not self._can_read_all_users:
            said = f"{name} may not read over all users, so that the rest is not looked at and no worker can run"
            self.add_finding("roles", said, f'run: GRANT agentmem_worker TO "{name}"', level="warning")
        else:
            also = f"; the roles {', '.join(missing)} were not made" if missing else ""
            self.add_finding("roles", f"{name} is bound by row-level security{also}")

    async def _check_row_security(self) -> None:
        if tables := [name for (name,) in await self._rows("without_wall", tables=self._tables())]:
            fix = "run: " + "; ".join(
                f"ALTER TABLE {name} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY" for name in tables[:5]
            )
            self.add_finding("row_security", f"not in force on {', '.join(tables[:5])}", fix, level="error")
        else:
            self.add_finding("row_security", "in force on every table")

    async def _check_indexes(self) -> None:
        invalid = [name for (name,) in await self._rows("invalid_indexes")]
        keyless = [name for (name,) in await self._rows("without_key", tables=self._tables())]
        if invalid:
            fix = "run: " + "; ".join(f"REINDEX INDEX CONCURRENTLY {name}" for name in invalid[:5])
            fix += "; or drop what agentmem did not make"
            self.add_finding("indexes", f"not valid: {', '.join(invalid[:5])}", fix, level="error")
        if self._missing_indexes:
            names = [_CREATE_STATEMENT.match(text) for text in self._missing_indexes]
            said = f"missing: {', '.join(match[2] for match in names if match)}"
            self.add_finding("indexes", said, "run: " + "; ".join(self._missing_indexes), level="error")
        if keyless:
            self.add_finding("indexes", f"no primary key on {', '.join(keyless[:5])}", RESTORE_HINT, level="error")
        if not (invalid or self._missing_indexes or keyless):
            self.add_finding("indexes", "all there and valid")

    def _tables(self) -> list[str]:
        return [name for kind, name in self._create_statements if kind == "TABLE"]

    # -- what is in it

    async def _check_embedders(self) -> None:
        found = await self._rows("embedders")
        if wrong := [(identity, size) for identity, size, has in found if has != size]:
            said = "; ".join(
                f"{identity} has {size} dimensions, passages_{size} fits no such" for identity, size in wrong
            )
            sizes = sorted({size for _, size in wrong})
            fix = "run: " + "; ".join(f"SELECT make_passages({size})" for size in sizes)
            fix += "; then: agentmem admin rebuild --what vectors --all-users"
            self.add_finding("embedders", said, fix, level="error")
        elif found:
            self.add_finding("embedders", ", ".join(f"{identity} in passages_{size}" for identity, size, _ in found))
        else:
            self.add_finding("embedders", "none was used yet")

    async def _check_audit(self) -> None:
        days = {day for (day,) in await self._rows("audit_days")}
        today, ahead = self.now.date(), 0
        while today + timedelta(days=ahead) in days:
            ahead += 1
        fix = f"run: SELECT create_audit_partitions({PARTITION_DAYS_AHEAD}), or a worker"
        if ahead == 0:
            self.add_finding("audit", f"no partition for today, {today}", fix, level="warning")
        elif ahead <= MIN_PARTITION_DAYS:
            self.add_finding("audit", f"partitions are made for {ahead - 1} days after today", fix, level="warning")
        else:
            self.add_finding("audit", f"partitions are made for {ahead - 1} days after today, {len(days)} in all")
        await self._check_default_partition()

    async def _check_default_partition(self) -> None:
        ((count, first),) = await self._rows("in_default", DOCTOR_OPERATOR)
        if count:
            fix = "a worker moves them to their days, and so does: SELECT create_audit_partitions(0)"
            self.add_finding(
                "audit", f"{count:,} rows have no partition, the first of {_format_day(first)}", fix, level="warning"
            )

    async def _check_words(self) -> None:
        if not await self._find_other_tokenizer():
            self.add_finding("words", "all were read by this version's tokenizer")


async def _schema_state(db: PostgresConnection) -> tuple[int, int]:
    sql = load_templates(__package__, "migrations.sql")
    ((is_versioned,),) = await fetch_rows(db, sql["is_versioned"])
    ((tables,),) = await fetch_rows(db, sql["tables"])
    return int((await fetch_rows(db, sql["version"]))[0][0]) if is_versioned else 0, tables


def _statements(steps: Iterable[Migration]) -> Iterable[tuple[str, str, str]]:
    """What the steps make and keep, by kind and name, each with its statement up to the first semicolon."""
    text = "\n".join(step.text for step in steps)
    gone = {name for dropped in _DROPPED_INDEXES.findall(text) for name in dropped.split(", ")}
    for match in _CREATE_STATEMENT.finditer(text):
        if match[2] not in gone:
            yield match[1], match[2], text[match.start() :].partition(";")[0]


def _format_day(day: date | None) -> str:
    return day.isoformat() if day else "?"
