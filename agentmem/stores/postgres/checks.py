"""Looks at a store's database without changing it: what is missing, open, lagging, damaged or out of place.

Every transaction is read-only. What cannot be looked at, because something before it failed, is left out.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from agentmem.errors import AgentMemError, SchemaMismatch
from agentmem.model.clock import Stopwatch, SystemClock, from_micros, micros
from agentmem.model.scope import SYSTEM_USER, Operator
from agentmem.stores.postgres.connection import CONNECTIONS, Database, Who, rows
from agentmem.stores.postgres.migrations import DAYS_AHEAD, OLDEST
from agentmem.stores.upkeep import GIVEN_UP, INVARIANTS, Finding, mend_parked
from agentmem.stores.vectors.passages import projection_name
from agentmem.text.blocks import SchemaStep, load_blocks, load_schema

if TYPE_CHECKING:
    from agentmem.stores.postgres.connection import Connection

DOCTOR = Operator("doctor")
OLDEST_VECTOR = (0, 7)  # the first pgvector with halfvec
LONG_LEASE = 3600.0  # seconds
SKEW = timedelta(seconds=2)
FUTURE = timedelta(minutes=5)
FULL = 0.8  # of the connections that are for everybody
FEWEST_DAYS = 2  # of the audit log, after today
USERS_AT_ONCE = 1000
SECONDS = 300.0  # for a look at the whole journal
MIGRATE = "run: agentmem migrate"
RESTORE = "restore a backup, or export what can be read and import it into a new database"
_MADE = re.compile(
    r"^CREATE (?:OR REPLACE )?(?:UNIQUE )?(TABLE|INDEX|VIEW|SEQUENCE|FUNCTION|TRIGGER|EXTENSION) "
    r"(?:IF NOT EXISTS )?(\w+)",
    re.MULTILINE,
)


def _sql() -> Mapping[str, str]:
    return load_blocks(__package__, "checks.sql")


async def inspect(url: str, now: datetime) -> Inspection:
    """Look at a store's database; what the server raises is a finding, also that it is away.

    `now` is this machine's time at the call. Raises ConfigError for a URL that cannot work or a missing driver.
    """
    inspection = Inspection(Database(url), load_schema("postgres"), now)
    try:
        await inspection.run()
    finally:
        await inspection.database.close()
    return inspection


async def heads(url: str, users: Collection[str]) -> dict[str, int]:
    """The last `seq` of these users' journals; those never seen are left out. Raises as the log does."""
    return await _heads(url, "heads", users=list(users))


async def heads_after(url: str, after: str) -> dict[str, int]:
    """The last `seq` of a page of the users who have a journal, by name, those after a name; empty at the end."""
    return await _heads(url, "heads_after", after=after, limit=USERS_AT_ONCE)


async def _heads(url: str, name: str, **values: Any) -> dict[str, int]:
    database = Database(url)
    try:
        return dict(await database.read(DOCTOR, lambda db: rows(db, _sql()[name], values)))
    finally:
        await database.close()


@dataclass
class Inspection:
    """One look at one database. `findings` are in the order of the checks, `meta` is what the store says of itself."""

    database: Database
    steps: Sequence[SchemaStep]
    now: datetime
    findings: list[Finding] = field(default_factory=list)
    meta: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._watch = Stopwatch(SystemClock())
        self._is_current = False
        self._may_see_all = False
        self._made = {(kind, name): text for kind, name, text in _statements(self.steps)}

    async def run(self) -> None:
        """Make every check that can be made; one that fails does not keep the others from being made."""
        if not await self._postgres():
            return
        for check in (self._clock, self._connections, self._pgvector, self._schema):
            await self._guarded(check)
        if not self._is_current:
            return
        for check in (self._store_id, self._roles, self._row_security, self._indexes, self._embedders, self._leases):
            await self._guarded(check)
        if self._may_see_all:
            for check in (self._audit, self._invariants, self._lag, self._parked, self._future):
                await self._guarded(check)

    def add(self, what: str, detail: str, fix: str = "", *, level: Literal["ok", "warning", "error"] = "ok") -> None:
        """Note a finding."""
        self.findings.append(Finding(level, what, detail, fix))

    async def _guarded(self, check: Callable[[], Awaitable[None]]) -> None:
        try:
            await check()
        except AgentMemError as error:
            fix = MIGRATE if isinstance(error, SchemaMismatch) else "see the message; then run: agentmem doctor"
            self.add(check.__name__.strip("_"), str(error), fix, level="error")

    async def _rows(self, name: str, who: Who = SYSTEM_USER, /, **values: Any) -> list[Any]:
        return await self.database.read(who, lambda db: rows(db, _sql()[name], values or None), seconds=SECONDS)

    # -- the server

    async def _postgres(self) -> bool:
        try:
            ((version, number),) = await self._rows("server")
        except AgentMemError as error:
            self.add("postgres", str(error), "start it, or check log_url: place, user and password", level="error")
            return False
        place = self.database.place
        if number < OLDEST:
            fix = f"upgrade it to Postgres {OLDEST // 10000} or newer"
            self.add("postgres", f"{place} is version {version}, which is too old", fix, level="error")
            return False
        self.add("postgres", f"{place} answers, version {version}")
        return True

    async def _clock(self) -> None:
        async def asked(db: Connection) -> tuple[float, datetime, float]:
            before = self._watch.milliseconds()
            ((theirs,),) = await rows(db, _sql()["clock"])
            return before, theirs, self._watch.milliseconds()

        before, theirs, after = await self.database.read(SYSTEM_USER, asked)
        early = self.now + timedelta(milliseconds=before) - theirs
        late = theirs - (self.now + timedelta(milliseconds=after))
        if (skew := max(early, late)) > SKEW:
            said = (
                f"the server's clock is {skew.total_seconds():,.1f} s {'behind' if skew == early else 'ahead of'} ours"
            )
            self.add("clock", said, "set both machines' clocks by the same time server (NTP)", level="warning")
        else:
            self.add("clock", "the server's clock and ours agree")

    async def _connections(self) -> None:
        ((used, most),) = await self._rows("connections")
        said = f"{used} of {most} connections are in use"
        if used >= FULL * most:
            fix = f"raise max_connections, or run fewer processes: each takes up to {CONNECTIONS}"
            self.add("connections", said, fix, level="warning")
        else:
            self.add("connections", said)

    async def _pgvector(self) -> None:
        ((version, offered),) = await self._rows("extension")
        if version is None and offered is None:
            fix = f"install pgvector {'.'.join(map(str, OLDEST_VECTOR))} or newer on the server; then {MIGRATE}"
            self.add("pgvector", "the server does not have it", fix, level="error")
        elif version is None:
            fix = f"{MIGRATE}; where that may not make extensions, a superuser does: CREATE EXTENSION vector"
            self.add("pgvector", f"version {offered} is there, but not in this database", fix, level="error")
        elif tuple(int(part) for part in re.findall(r"\d+", version)[:2]) < OLDEST_VECTOR:
            fix = "install a newer one on the server; then, as its owner: ALTER EXTENSION vector UPDATE"
            self.add("pgvector", f"version {version} is too old: it has no halfvec", fix, level="error")
        else:
            self.add("pgvector", f"version {version}")

    # -- the schema

    async def _schema(self) -> None:
        found, tables = await self.database.read(SYSTEM_USER, _state)
        known = len(self.steps)
        if found > known:
            fix = "upgrade with: pip install --upgrade agentmem-graph"
            self.add("schema", f"version {found} is newer than {known}, the last one known here", fix, level="error")
            return
        if found == 0 and tables:
            fix = "create a database for agentmem and name it in log_url"
            self.add("schema", f"{self.database.place} is the database of another program", fix, level="error")
            return
        if found < known:
            self.add("schema", f"version {found} of {known}", MIGRATE, level="error")
            return
        self._is_current = True
        has = {(kind, name) for kind, name in await self._rows("objects")}
        self._missing_indexes = [text for key, text in self._made.items() if key[0] == "INDEX" and key not in has]
        missing = [f"{kind.lower()} {name}" for kind, name in self._made if kind != "INDEX" and (kind, name) not in has]
        if missing:
            what = (
                "the audit log is not protected: " if any("memory_audit_log_kept" in name for name in missing) else ""
            )
            fix = "make it again as schema/postgres does, or " + RESTORE
            self.add("schema", f"{what}{', '.join(missing[:5])} missing or switched off", fix, level="error")
        else:
            self.add("schema", f"version {found}, audit rows protected")

    async def _store_id(self) -> None:
        self.meta = dict(await self._rows("meta"))
        if store_id := self.meta.get("store_id"):
            self.add("store_id", f"{store_id}, opened {self.meta.get('openings', '?')} times")
        else:
            self.add("store_id", "the store has no id", RESTORE, level="error")

    async def _roles(self) -> None:
        ((name, is_super, may_bypass, self._may_see_all, missing),) = await self._rows("role")
        if is_super or may_bypass:
            why = "is a superuser" if is_super else "may bypass row-level security"
            fix = (
                "make a role for agentmem and name it in log_url: CREATE ROLE agentmem LOGIN PASSWORD '…' "
                "IN ROLE agentmem_app, agentmem_worker"
            )
            said = f"{name} {why}: the wall between users holds by agentmem's own statements alone"
            self.add("roles", said, fix, level="warning")
        elif not self._may_see_all:
            said = f"{name} may not read over all users, so that the rest is not looked at and no worker can run"
            self.add("roles", said, f'run: GRANT agentmem_worker TO "{name}"', level="warning")
        else:
            also = f"; the roles {', '.join(missing)} were not made" if missing else ""
            self.add("roles", f"{name} is bound by row-level security{also}")

    async def _row_security(self) -> None:
        if tables := [name for (name,) in await self._rows("without_wall", tables=self._tables())]:
            fix = "run: " + "; ".join(
                f"ALTER TABLE {name} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY" for name in tables[:5]
            )
            self.add("row_security", f"not in force on {', '.join(tables[:5])}", fix, level="error")
        else:
            self.add("row_security", "in force on every table")

    async def _indexes(self) -> None:
        invalid = [name for (name,) in await self._rows("invalid_indexes")]
        keyless = [name for (name,) in await self._rows("without_key", tables=self._tables())]
        if invalid:
            fix = "run: " + "; ".join(f"REINDEX INDEX CONCURRENTLY {name}" for name in invalid[:5])
            fix += "; or drop what agentmem did not make"
            self.add("indexes", f"not valid: {', '.join(invalid[:5])}", fix, level="error")
        if self._missing_indexes:
            names = [_MADE.match(text) for text in self._missing_indexes]
            said = f"missing: {', '.join(match[2] for match in names if match)}"
            self.add("indexes", said, "run: " + "; ".join(self._missing_indexes), level="error")
        if keyless:
            self.add("indexes", f"no primary key on {', '.join(keyless[:5])}", RESTORE, level="error")
        if not (invalid or self._missing_indexes or keyless):
            self.add("indexes", "all there and valid")

    def _tables(self) -> list[str]:
        return [name for kind, name in self._made if kind == "TABLE"]

    # -- what is in it

    async def _embedders(self) -> None:
        found = await self._rows("embedders")
        if wrong := [(identity, size) for identity, size, has in found if has != size]:
            said = "; ".join(
                f"{identity} has {size} dimensions, passages_{size} fits no such" for identity, size in wrong
            )
            sizes = sorted({size for _, size in wrong})
            fix = "run: " + "; ".join(f"SELECT make_passages({size})" for size in sizes)
            fix += "; then: agentmem rebuild --what vectors --all-users"
            self.add("embedders", said, fix, level="error")
        elif found:
            self.add("embedders", ", ".join(f"{identity} in passages_{size}" for identity, size, _ in found))
        else:
            self.add("embedders", "none was used yet")

    async def _leases(self) -> None:
        if found := await self._rows("long_leases", seconds=LONG_LEASE):
            said = "; ".join(f"{name} is held by {owner} for {left:,} s more" for name, owner, left in found)
            self.add("leases", said, "if that process is gone, the lease ends by itself then", level="warning")
        else:
            self.add("leases", "none is held for long")

    async def _audit(self) -> None:
        days = {day for (day,) in await self._rows("audit_days")}
        today, ahead = self.now.date(), 0
        while today + timedelta(days=ahead) in days:
            ahead += 1
        fix = f"run: SELECT create_audit_partitions({DAYS_AHEAD}), or a worker"
        if ahead == 0:
            self.add("audit", f"no partition for today, {today}", fix, level="warning")
        elif ahead <= FEWEST_DAYS:
            self.add("audit", f"partitions are made for {ahead - 1} days after today", fix, level="warning")
        else:
            self.add("audit", f"partitions are made for {ahead - 1} days after today, {len(days)} in all")
        await self._in_default()

    async def _in_default(self) -> None:
        ((count, first),) = await self._rows("in_default", DOCTOR)
        if count:
            fix = f"make its day, so that they move there: SELECT create_audit_partitions(0, DATE '{_day(first)}')"
            self.add("audit", f"{count:,} rows have no partition, the first of {_day(first)}", fix, level="warning")

    async def _invariants(self) -> None:
        async def ask(db: Connection) -> tuple[dict[str, list[Any]], int]:
            found = {name: await rows(db, _sql()[name]) for name in INVARIANTS}
            return found, (await rows(db, _sql()["users"]))[0][0]

        found, users = await self.database.read(DOCTOR, ask, seconds=SECONDS)
        for name, wrong in found.items():
            if wrong:
                fix = "report this with the program's version; then " + RESTORE
                count = f"{len(wrong)}{' or more' if len(wrong) == 20 else ''}"
                self.add("invariants", f"{INVARIANTS[name]}: {count}, such as {_shown(wrong)}", fix, level="error")
        if not any(found.values()):
            self.add("invariants", f"journal, versions, records and slots agree for {users:,} users")

    async def _lag(self) -> None:
        for identity in (self.meta[name] for name in ("embedder", "embedder_next") if self.meta.get(name)):
            projection = projection_name(identity)
            behind = await self._rows("behind", DOCTOR, projection=projection)
            ahead = await self._rows("ahead", DOCTOR, projection=projection)
            if ahead:
                said = f"{projection} is ahead of the log for {ahead[0][2]:,} users: {_shown(row[:2] for row in ahead)}"
                self.add("lag", said, "run: agentmem rebuild --what vectors --all-users", level="error")
            if behind:
                _, _, users, changes = behind[0]
                said = f"{projection} lacks {changes:,} changes of {users:,} users: {_shown(row[:2] for row in behind)}"
                self.add("lag", said, "run: agentmem project, or a worker", level="warning")
            if not (ahead or behind):
                self.add("lag", f"{projection} is complete")

    async def _parked(self) -> None:
        if found := await self._rows("parked", DOCTOR, tries=GIVEN_UP):
            said = f"{found[0][4]:,} changes were passed over: {_shown(row[:3] for row in found)}; {found[0][3]}"
            self.add("parked", said, mend_parked([row[0] for row in found]), level="warning")
        else:
            self.add("parked", "no change was passed over")

    async def _future(self) -> None:
        if found := await self._rows("ahead_of_time", DOCTOR, until=micros(self.now + FUTURE)):
            user_id, last, users = found[0]
            said = f"{users:,} users were written to in the future, {user_id} at {from_micros(last).isoformat()}"
            self.add("future", said, "set the clock of what wrote it; record time goes on from there", level="warning")
        else:
            self.add("future", "no record is from the future")


async def _state(db: Connection) -> tuple[int, int]:
    sql = load_blocks(__package__, "migrations.sql")
    ((is_versioned,),) = await rows(db, sql["is_versioned"])
    ((tables,),) = await rows(db, sql["tables"])
    return int((await rows(db, sql["version"]))[0][0]) if is_versioned else 0, tables


def _statements(steps: Iterable[SchemaStep]) -> Iterable[tuple[str, str, str]]:
    """What the steps make, by kind and name, each with its statement up to the first semicolon."""
    for step in steps:
        for match in _MADE.finditer(step.text):
            yield match[1], match[2], step.text[match.start() :].partition(";")[0]


def _day(day: date | None) -> str:
    return day.isoformat() if day else "?"


def _shown(found: Iterable[Sequence[Any]]) -> str:
    return "; ".join(" ".join(map(str, row)) for row in list(found)[:3])
