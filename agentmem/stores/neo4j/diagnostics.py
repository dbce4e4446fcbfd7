"""Diagnoses the graph's database without changing it: its owner, missing parts, and lag or lead by user."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from agentmem.errors import AgentMemError
from agentmem.stores.admin import Finding
from agentmem.stores.neo4j.database import Neo4jDatabase, fetch_rows, parse_address
from agentmem.stores.neo4j.migrations import COMMENT_LINE
from agentmem.stores.neo4j.vectors import find_unfit_indexes
from agentmem.stores.values import GraphPosition
from agentmem.text.templates import Migration, load_migrations, load_templates

_CYPHER = load_templates(__package__, "diagnostics.cypher")

ReadHeads: TypeAlias = Callable[[Collection[str]], Awaitable[Mapping[str, int]]]
ReadHeadsPage: TypeAlias = Callable[[str], Awaitable[Mapping[str, int]]]
ReadOperations: TypeAlias = Callable[[Mapping[str, int]], Awaitable[Mapping[str, str]]]

USER_PAGE_SIZE = 1000
MAX_EXAMPLES = 3
RETRY_SECONDS = 1.0  # seconds of trying again
MIGRATE_HINT = "run: agentmem admin migrate"
REBUILD_HINT = "run: agentmem admin rebuild --what graph --all-users"
_CREATE_STATEMENT = re.compile(r"CREATE (CONSTRAINT|(?:\w+ )?INDEX) (\w+)")


async def diagnose(
    url: str,
    store_id: str,
    heads: ReadHeads,
    heads_after: ReadHeadsPage,
    operations_at: ReadOperations,
    *,
    dimensions: int | None = None,
    credentials: Mapping[str, str] | None = None,
) -> list[Finding]:
    """Look at the graph of a store; what the server raises is a finding, also that it is away.

    `heads` says where the journals of some users end in the log, `heads_after` the same of the next page of all users
    who have one, by name, and nothing at the end, `operations_at` of which operation the change at a position of each
    user's journal is; what they raise is a finding, too. With `dimensions` there should be
    indexes for vectors of so many numbers. Raises ConfigError for a URL that cannot work or a missing driver.
    """
    database = Neo4jDatabase(parse_address(url, credentials), retry_seconds=RETRY_SECONDS)
    look = _Neo4jDiagnostics(database, store_id, load_migrations("neo4j"), dimensions)
    try:
        await look.run(heads, heads_after, operations_at)
    finally:
        await database.close()
    return look.findings


@dataclass
class _UserSample:
    """How many there were, and those with the largest numbers."""

    count: int = 0
    total: int = 0
    largest: list[tuple[str, int]] = field(default_factory=list)

    def add(self, user_id: str, number: int) -> None:
        self.count += 1
        self.total += number
        self.largest = sorted([*self.largest, (user_id, number)], key=lambda one: (-one[1], one[0]))[:MAX_EXAMPLES]

    def __str__(self) -> str:
        return "; ".join(f"{user_id} {number}" for user_id, number in self.largest)


@dataclass
class _GraphLag:
    """The users behind or ahead in the graph, being rebuilt, or half built."""

    user_count: int = 0
    lagging: _UserSample = field(default_factory=_UserSample)
    ahead_of_log: _UserSample = field(default_factory=_UserSample)
    of_another_journal: _UserSample = field(default_factory=_UserSample)
    rebuilding: _UserSample = field(default_factory=_UserSample)
    interrupted: _UserSample = field(default_factory=_UserSample)


@dataclass
class _Neo4jDiagnostics:
    """One look at one database; the findings are in the order of the checks."""

    database: Neo4jDatabase
    store_id: str
    steps: Sequence[Migration]
    dimensions: int | None
    findings: list[Finding] = field(default_factory=list)

    def add_finding(
        self, check: str, detail: str, fix: str = "", *, level: Literal["ok", "warning", "error"] = "ok"
    ) -> None:
        self.findings.append(Finding(level, check, detail, fix))

    async def run(self, heads: ReadHeads, heads_after: ReadHeadsPage, operations_at: ReadOperations) -> None:
        """Make every check that can be made."""
        try:
            ((version, edition),) = await self._fetch_rows("server")
        except AgentMemError as error:
            fix = "memory goes on without it; start it, or check graph_url: place, user, password and version"
            self.add_finding("neo4j", str(error), fix, level="error")
            return
        self.add_finding("neo4j", f"{self.database.address.display_uri} answers, version {version}, {edition}")
        try:
            if await self._check_schema():
                await self._check_indexes()
                await self._check_vector_indexes(self.dimensions)
                self._report_lag(await self._compare_watermarks(heads, heads_after, operations_at))
        except AgentMemError as error:
            self.add_finding("graph", str(error), "see the message; then run: agentmem admin doctor", level="error")

    async def _fetch_rows(self, name: str, filename: str = "diagnostics.cypher", **values: Any) -> list[list[Any]]:
        statement = load_templates(__package__, filename)[name]
        return await self.database.read(lambda tx: fetch_rows(tx, statement, **values))

    async def _check_schema(self) -> bool:
        """Whether the database has our schema and is ours; nothing more can be said of another."""
        ((found, owner),) = await self._fetch_rows("state", "migrations.cypher")
        known = len(self.steps)
        if found > known:
            fix = "upgrade with: pip install --upgrade agentmem-graph"
            said = f"version {found} is newer than {known}, the last one known here"
            self.add_finding("graph schema", said, fix, level="error")
            return False
        if owner is not None and owner != self.store_id:
            fix = (
                "set graph_url to a database of its own, or empty this one and run: "
                "agentmem admin migrate, agentmem admin rebuild"
            )
            said = f"it is the graph of another store ({owner}), ours is {self.store_id}"
            self.add_finding("graph owner", said, fix, level="error")
            return False
        if found < known or owner is None:
            self.add_finding("graph schema", f"version {found} of {known}", MIGRATE_HINT, level="error")
            return False
        self.add_finding("graph schema", f"version {found}")
        self.add_finding("graph owner", f"it is the graph of {owner}")
        return True

    async def _check_indexes(self) -> None:
        states = {name: (state, percent) for name, state, percent in await self._fetch_rows("indexes")}
        has = {name for (name,) in await self._fetch_rows("constraints")} | set(states)
        made = _statements(self.steps)
        missing = [name for name in made if name not in has]
        failed = [name for name, (state, _) in states.items() if state == "FAILED"]
        slow = [f"{name} ({percent:.0f} %)" for name, (state, percent) in states.items() if state == "POPULATING"]
        if missing:
            fix = "run in cypher-shell: " + "; ".join(made[name] for name in missing)
            self.add_finding("graph indexes", f"missing: {', '.join(missing)}", fix, level="error")
        if failed:
            fix = "take what is given there out, and make it again as schema/neo4j does: SHOW INDEXES"
            self.add_finding("graph indexes", f"failed: {', '.join(failed)}", fix, level="error")
        if slow:
            fix = "wait; until then reading and writing are slow"
            self.add_finding("graph indexes", f"not yet built: {', '.join(slow)}", fix, level="warning")
        if not (missing or failed or slow):
            self.add_finding("graph indexes", f"{len(has)} constraints and indexes, all online")

    async def _check_vector_indexes(self, dimensions: int | None) -> None:
        if dimensions is None:
            return
        if unfit := await self.database.read(lambda tx: find_unfit_indexes(tx, dimensions)):
            said = f"not there for vectors of {dimensions} numbers: {', '.join(unfit)}"
            self.add_finding("graph vectors", said, MIGRATE_HINT, level="error")
        else:
            self.add_finding("graph vectors", f"there are indexes for vectors of {dimensions} numbers")

    async def _compare_watermarks(
        self, heads: ReadHeads, heads_after: ReadHeadsPage, operations_at: ReadOperations
    ) -> _GraphLag:
        """Compare watermarks and journals, a page at a time: first what the graph follows, then what it never saw."""
        lag, after = _GraphLag(), ""
        while page := await self._fetch_rows("watermarks", after=after, limit=USER_PAGE_SIZE):
            after = page[-1][0]
            ends = await heads([user_id for user_id, *_ in page])  # after the watermarks, which never pass it then
            operations = await operations_at({user_id: seq for user_id, seq, *_ in page if seq})
            for user_id, seq, operation_id, has_holder, is_held in page:
                head = ends.get(user_id, 0)
                lag.user_count += 1
                if is_held:
                    lag.rebuilding.add(user_id, head)
                elif has_holder and seq < head:
                    lag.interrupted.add(user_id, head)
                elif seq > head:
                    lag.ahead_of_log.add(user_id, seq - head)
                elif not GraphPosition(seq, operation_id).is_of(operations.get(user_id)):
                    lag.of_another_journal.add(user_id, seq)
                elif seq < head:
                    lag.lagging.add(user_id, head - seq)
        after = ""
        while ends := await heads_after(after):
            after = max(ends)
            known = {name for (name,) in await self._fetch_rows("known", users=list(ends), count=len(ends))}
            for user_id in ends.keys() - known:
                lag.user_count += 1
                lag.lagging.add(user_id, ends[user_id])
        return lag

    def _report_lag(self, lag: _GraphLag) -> None:
        if lag.ahead_of_log.count:
            said = (
                f"ahead of the log for {lag.ahead_of_log.count:,} users, as after a restore of the log: "
                f"{lag.ahead_of_log}"
            )
            self.add_finding("graph lag", said, REBUILD_HINT, level="error")
        if lag.of_another_journal.count:
            said = (
                f"followed another journal for {lag.of_another_journal.count:,} users, as before a restore of the log, "
                f"up to change: {lag.of_another_journal}"
            )
            self.add_finding("graph journal", said, "run: agentmem admin sync, which makes it anew", level="error")
        if lag.lagging.count:
            said = f"lacks {lag.lagging.total:,} changes of {lag.lagging.count:,} users: {lag.lagging}"
            self.add_finding("graph lag", said, "run: agentmem admin sync, or a worker", level="warning")
        if not (lag.ahead_of_log.count or lag.of_another_journal.count or lag.lagging.count):
            self.add_finding("graph lag", f"complete for {lag.user_count:,} users")
        if lag.interrupted.count:
            said = f"a rebuild of {lag.interrupted.count:,} users was cut off: {lag.interrupted}"
            self.add_finding("graph rebuilds", said, "run: agentmem admin sync, which goes on with it", level="warning")
        if lag.rebuilding.count:
            said = f"under way for {lag.rebuilding.count:,} users: {lag.rebuilding}"
            self.add_finding("graph rebuilds", said)
        elif not lag.interrupted.count:
            self.add_finding("graph rebuilds", "none under way")


def _statements(steps: Sequence[Migration]) -> dict[str, str]:
    """What makes each constraint and index, by its name."""
    texts = [text.strip() for step in steps for text in COMMENT_LINE.sub("", step.text).split(";")]
    return {match[2]: text for text in texts if (match := _CREATE_STATEMENT.match(text))}
