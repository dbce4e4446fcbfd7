"""Looks at the graph's database without changing it: whose it is, what is missing, whom it lags or is ahead of."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from agentmem.errors import AgentMemError
from agentmem.stores.neo4j.connection import Database, read_address, rows
from agentmem.stores.neo4j.vectors import unfit_indexes
from agentmem.stores.upkeep import Finding
from agentmem.text.blocks import SchemaStep, load_blocks, load_schema

Heads: TypeAlias = Callable[[Collection[str]], Awaitable[Mapping[str, int]]]
HeadsAfter: TypeAlias = Callable[[str], Awaitable[Mapping[str, int]]]

USERS_AT_ONCE = 1000
SHOWN = 3
PATIENCE = 1.0  # seconds of trying again
MIGRATE = "run: agentmem migrate"
REBUILD = "run: agentmem rebuild --what graph --all-users"
_COMMENT = re.compile(r"^\s*//.*$", re.MULTILINE)
_MADE = re.compile(r"CREATE (CONSTRAINT|(?:\w+ )?INDEX) (\w+)")


def _cypher() -> Mapping[str, str]:
    return load_blocks(__package__, "checks.cypher")


async def inspect(
    url: str, store_id: str, heads: Heads, heads_after: HeadsAfter, *, dimensions: int | None = None,
    credentials: Mapping[str, str] | None = None,
) -> list[Finding]:  # fmt: skip
    """Look at the graph of a store; what the server raises is a finding, also that it is away.

    `heads` says where the journals of some users end in the log, `heads_after` the same of the next page of all users
    who have one, by name, and nothing at the end; what they raise is a finding, too. With `dimensions` there should be
    indexes for vectors of so many numbers. Raises ConfigError for a URL that cannot work or a missing driver.
    """
    database = Database(read_address(url, credentials), patience=PATIENCE)
    look = _Look(database, store_id, load_schema("neo4j"), dimensions)
    try:
        await look.run(heads, heads_after)
    finally:
        await database.close()
    return look.findings


@dataclass
class _Some:
    """How many there were, and those with the largest numbers."""

    count: int = 0
    total: int = 0
    largest: list[tuple[str, int]] = field(default_factory=list)

    def add(self, user_id: str, number: int) -> None:
        self.count += 1
        self.total += number
        self.largest = sorted([*self.largest, (user_id, number)], key=lambda one: (-one[1], one[0]))[:SHOWN]

    def __str__(self) -> str:
        return "; ".join(f"{user_id} {number}" for user_id, number in self.largest)


@dataclass
class _Lag:
    """Whom the graph lags, whom it is ahead of, whose graph is being built again, and whose is half built."""

    users: int = 0
    behind: _Some = field(default_factory=_Some)
    ahead: _Some = field(default_factory=_Some)
    rebuilt: _Some = field(default_factory=_Some)
    cut_off: _Some = field(default_factory=_Some)


@dataclass
class _Look:
    """One look at one database; the findings are in the order of the checks."""

    database: Database
    store_id: str
    steps: Sequence[SchemaStep]
    dimensions: int | None
    findings: list[Finding] = field(default_factory=list)

    def add(self, what: str, detail: str, fix: str = "", *, level: Literal["ok", "warning", "error"] = "ok") -> None:
        self.findings.append(Finding(level, what, detail, fix))

    async def run(self, heads: Heads, heads_after: HeadsAfter) -> None:
        """Make every check that can be made."""
        try:
            ((version, edition),) = await self._rows("server")
        except AgentMemError as error:
            fix = "memory goes on without links; start it, or check graph_url: place, user, password and version"
            self.add("neo4j", str(error), fix, level="error")
            return
        self.add("neo4j", f"{self.database.address.place} answers, version {version}, {edition}")
        try:
            if await self._schema():
                await self._indexes()
                await self._vector_indexes(self.dimensions)
                self._tell(await self._compared(heads, heads_after))
        except AgentMemError as error:
            self.add("graph", str(error), "see the message; then run: agentmem doctor", level="error")

    async def _rows(self, name: str, filename: str = "checks.cypher", **values: Any) -> list[list[Any]]:
        statement = load_blocks(__package__, filename)[name]
        return await self.database.read(lambda tx: rows(tx, statement, **values))

    async def _schema(self) -> bool:
        """Whether the database has our schema and is ours; nothing more can be said of another."""
        ((found, owner),) = await self._rows("state", "migrations.cypher")
        known = len(self.steps)
        if found > known:
            fix = "upgrade with: pip install --upgrade agentmem-graph"
            said = f"version {found} is newer than {known}, the last one known here"
            self.add("graph schema", said, fix, level="error")
            return False
        if owner is not None and owner != self.store_id:
            fix = (
                "set graph_url to a database of its own, or empty this one and run: agentmem migrate, agentmem rebuild"
            )
            said = f"it is the graph of another store ({owner}), ours is {self.store_id}"
            self.add("graph owner", said, fix, level="error")
            return False
        if found < known or owner is None:
            self.add("graph schema", f"version {found} of {known}", MIGRATE, level="error")
            return False
        self.add("graph schema", f"version {found}")
        self.add("graph owner", f"it is the graph of {owner}")
        return True

    async def _indexes(self) -> None:
        states = {name: (state, percent) for name, state, percent in await self._rows("indexes")}
        has = {name for (name,) in await self._rows("constraints")} | set(states)
        made = _statements(self.steps)
        missing = [name for name in made if name not in has]
        failed = [name for name, (state, _) in states.items() if state == "FAILED"]
        slow = [f"{name} ({percent:.0f} %)" for name, (state, percent) in states.items() if state == "POPULATING"]
        if missing:
            fix = "run in cypher-shell: " + "; ".join(made[name] for name in missing)
            self.add("graph indexes", f"missing: {', '.join(missing)}", fix, level="error")
        if failed:
            fix = "take what is given there out, and make it again as schema/neo4j does: SHOW INDEXES"
            self.add("graph indexes", f"failed: {', '.join(failed)}", fix, level="error")
        if slow:
            fix = "wait; until then reading and writing are slow"
            self.add("graph indexes", f"not yet built: {', '.join(slow)}", fix, level="warning")
        if not (missing or failed or slow):
            self.add("graph indexes", f"{len(has)} constraints and indexes, all online")

    async def _vector_indexes(self, dimensions: int | None) -> None:
        if dimensions is None:
            return
        if unfit := await self.database.read(lambda tx: unfit_indexes(tx, dimensions)):
            said = f"not there for vectors of {dimensions} numbers: {', '.join(unfit)}"
            self.add("graph vectors", said, MIGRATE, level="error")
        else:
            self.add("graph vectors", f"there are indexes for vectors of {dimensions} numbers")

    async def _compared(self, heads: Heads, heads_after: HeadsAfter) -> _Lag:
        """Compare watermarks and journals, a page at a time: first what the graph follows, then what it never saw."""
        lag, after = _Lag(), ""
        while page := await self._rows("watermarks", after=after, limit=USERS_AT_ONCE):
            after = page[-1][0]
            ends = await heads([user_id for user_id, *_ in page])  # after the watermarks, which never pass it then
            for user_id, seq, has_holder, is_held in page:
                head = ends.get(user_id, 0)
                lag.users += 1
                if is_held:
                    lag.rebuilt.add(user_id, head)
                elif has_holder and seq < head:
                    lag.cut_off.add(user_id, head)
                elif seq > head:
                    lag.ahead.add(user_id, seq - head)
                elif seq < head:
                    lag.behind.add(user_id, head - seq)
        after = ""
        while ends := await heads_after(after):
            after = max(ends)
            known = {name for (name,) in await self._rows("known", users=list(ends), count=len(ends))}
            for user_id in ends.keys() - known:
                lag.users += 1
                lag.behind.add(user_id, ends[user_id])
        return lag

    def _tell(self, lag: _Lag) -> None:
        if lag.ahead.count:
            said = f"ahead of the log for {lag.ahead.count:,} users, as after a restore of the log: {lag.ahead}"
            self.add("graph lag", said, REBUILD, level="error")
        if lag.behind.count:
            said = f"lacks {lag.behind.total:,} changes of {lag.behind.count:,} users: {lag.behind}"
            self.add("graph lag", said, "run: agentmem project, or a worker", level="warning")
        if not (lag.ahead.count or lag.behind.count):
            self.add("graph lag", f"complete for {lag.users:,} users")
        if lag.cut_off.count:
            said = f"a rebuild of {lag.cut_off.count:,} users was cut off: {lag.cut_off}"
            self.add("graph rebuilds", said, "run: agentmem project, which goes on with it", level="warning")
        if lag.rebuilt.count:
            said = f"under way for {lag.rebuilt.count:,} users: {lag.rebuilt}"
            self.add("graph rebuilds", said)
        elif not lag.cut_off.count:
            self.add("graph rebuilds", "none under way")


def _statements(steps: Sequence[SchemaStep]) -> dict[str, str]:
    """What makes each constraint and index, by its name."""
    texts = [text.strip() for step in steps for text in _COMMENT.sub("", step.text).split(";")]
    return {match[2]: text for text in texts if (match := _MADE.match(text))}
