"""What `doctor` finds on a Neo4j server: nothing on a healthy one, and each trouble that is made for real.

On a server without other tests, because a look concerns all users of a database, and Community has only one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from agentmem.core.scope import Scope
from agentmem.errors import ConfigError, StoreUnavailable
from agentmem.stores.admin import Finding
from agentmem.stores.neo4j import Neo4jGraph, diagnostics, migrate, open_graph
from agentmem.stores.neo4j.database import Neo4jDatabase, fetch_rows, parse_address
from agentmem.stores.neo4j.diagnostics import diagnose
from agentmem.stores.neo4j.migrations import graph_update
from agentmem.stores.sqlite import SqliteLog
from tests.conformance.graphs import STORE_ID
from tests.conformance.stores import START, ManualClock, build_entity, open_sqlite_log, write_records
from tests.servers.local import free_port

ANN, BOB, CAROL = Scope("ann"), Scope("bob"), Scope("carol")
SECRET = "s3cret-word"
EVERYTHING = ["neo4j", "graph schema", "graph owner", "graph indexes", "graph lag", "graph rebuilds"]

pytestmark = pytest.mark.timeout(300)


@dataclass
class Place:
    """An empty database, a log beside it, and the graph that follows the log."""

    url: str
    log: SqliteLog
    graph: Neo4jGraph

    async def run(self, *statements: str, **values: Any) -> None:
        database = Neo4jDatabase(parse_address(self.url))
        for statement in statements:
            await database.write(lambda tx, text=statement: fetch_rows(tx, text, **values))  # type: ignore[misc]
        await database.close()

    async def put(self, *scopes: Scope) -> None:
        """One more change of each of these users."""
        for scope in scopes:
            count = (await self.log.head(scope)).seq
            await write_records(self.log, scope, build_entity(f"e{count}"))

    async def follow(self, *scopes: Scope) -> None:
        for scope in scopes:
            after = await self.graph.watermark(scope.user_id)
            await self.graph.apply({scope.user_id: (after, await self.log.changes(scope, after, 500))})

    async def heads(self, users: Collection[str]) -> dict[str, int]:
        found = {name: (await self.log.head(Scope(name))).seq for name in users}
        return {name: seq for name, seq in found.items() if seq}

    async def heads_after(self, after: str) -> dict[str, int]:
        """Pages of one user, of the three that there may be."""
        known = sorted(await self.heads([scope.user_id for scope in (ANN, BOB, CAROL)]))
        return await self.heads([name for name in known if name > after][:1])

    async def operations_at(self, seqs: Mapping[str, int]) -> dict[str, str]:
        found = {name: (await self.log.head(Scope(name), seq)).operation_id_after for name, seq in seqs.items()}
        return {name: operation_id for name, operation_id in found.items() if operation_id}

    async def look(self) -> list[Finding]:
        return await diagnose(self.url, STORE_ID, self.heads, self.heads_after, self.operations_at)

    async def wrong(self) -> dict[str, Finding]:
        found = await self.look()
        assert all(bool(finding.fix) == (finding.level != "ok") for finding in found)
        bad = {f"{finding.check} {finding.level}": finding for finding in found if finding.level != "ok"}
        assert len(bad) == len([finding for finding in found if finding.level != "ok"])
        return bad


@pytest.fixture
async def place(empty_neo4j: str, tmp_path: Path) -> AsyncIterator[Place]:
    await migrate(empty_neo4j, START, store_id=STORE_ID)
    async with open_sqlite_log(tmp_path / "memory.db") as log:
        graph = await open_graph(empty_neo4j, ManualClock(), log, store_id=STORE_ID)
        yield Place(empty_neo4j, log, graph)
        await graph.close()


def told(found: Mapping[str, Finding], what: str, *words: str) -> None:
    """Exactly this is wrong, and finding and fix have these words."""
    assert list(found) == [what]
    assert [word for word in words if word not in f"{found[what].detail} {found[what].fix}"] == []


async def nobody(asked: object) -> dict[str, int]:
    """A log without users."""
    return {}


# -- the server


async def test_a_server_that_is_away_is_a_finding() -> None:
    (found,) = await diagnose(f"neo4j://neo4j:{SECRET}@127.0.0.1:{free_port()}", STORE_ID, nobody, nobody, nobody)
    assert (found.check, found.level) == ("neo4j", "error")
    assert "cannot be reached" in found.detail
    assert "graph_url" in found.fix
    assert SECRET not in str(found)


async def test_a_wrong_password_is_said_and_not_shown(neo4j_url: str) -> None:
    parts = urlsplit(neo4j_url)
    (found,) = await diagnose(f"bolt://neo4j:{SECRET}@{parts.hostname}:{parts.port}", STORE_ID, nobody, nobody, nobody)
    assert (found.check, found.level) == ("neo4j", "error")
    assert "authentication failed" in found.detail
    assert SECRET not in str(found)


async def test_a_url_that_cannot_work_is_refused() -> None:
    with pytest.raises(ConfigError, match="graph_url"):
        await diagnose("http://localhost", STORE_ID, nobody, nobody, nobody)


# -- the schema


async def test_a_database_from_nothing_to_newer_than_us(place: Place) -> None:
    assert await place.wrong() == {}
    assert [finding.check for finding in await place.look()] == EVERYTHING
    await place.run("MATCH (v:SchemaVersion) DELETE v", "MATCH (s:Store) DELETE s")
    told(await place.wrong(), "graph schema error", "version 0 of ", "run: agentmem admin migrate")
    await migrate(place.url, START, store_id=STORE_ID)
    assert await place.wrong() == {}
    found = await diagnose(place.url, "another", nobody, nobody, nobody)
    told(
        {finding.check: finding for finding in found[1:]}, "graph owner", f"another store ({STORE_ID}), ours is another"
    )
    await place.run("CREATE (:SchemaVersion {version: 99})")
    told(await place.wrong(), "graph schema error", "version 99 is newer", "pip install --upgrade")


async def test_a_migration_waits_for_an_index_of_another_one_without_holding_it_up(
    place: Place,
) -> None:
    await place.run("MATCH (v:SchemaVersion) WHERE v.version >= 3 DELETE v")
    await place.run("UNWIND range(1, 50000) AS number CREATE (:Beside {id: number})")  # so that it takes a moment
    made = asyncio.ensure_future(place.run("CREATE CONSTRAINT made_beside FOR (n:Beside) REQUIRE n.id IS UNIQUE"))
    async with asyncio.timeout(60):
        assert await migrate(place.url, START, store_id=STORE_ID) == 2
        await made
    await place.run("DROP CONSTRAINT made_beside", "MATCH (n:Beside) DELETE n")
    assert await place.wrong() == {}


async def test_dropped_indexes_are_made_again_by_the_fix(place: Place) -> None:
    await place.run("DROP INDEX turn_place", "DROP CONSTRAINT knows_id")
    found = await place.wrong()
    told(found, "graph indexes error", "missing: knows_id, turn_place")
    statements = found["graph indexes error"].fix.partition(": ")[2].split("; ")
    await place.run(*statements, "CALL db.awaitIndexes(60)")
    assert await place.wrong() == {}


# -- lag


async def test_who_is_behind_and_whom_the_graph_never_saw(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnostics, "USER_PAGE_SIZE", 1)
    await place.put(ANN, BOB)
    await place.follow(ANN, BOB)
    assert await place.wrong() == {}
    await place.put(BOB, CAROL, CAROL, CAROL)
    told(await place.wrong(), "graph lag warning", "lacks 4 changes of 2 users: carol 3; bob 1", "agentmem admin sync")
    await place.follow(BOB, CAROL)
    assert await place.wrong() == {}
    assert "complete for 3 users" in str(await place.look())


async def test_a_log_that_was_restored_leaves_the_graph_ahead(place: Place, tmp_path: Path) -> None:
    await place.put(ANN, ANN, BOB, CAROL)
    await place.follow(ANN, BOB, CAROL)
    async with open_sqlite_log(tmp_path / "earlier.db") as earlier:
        restored = Place(place.url, earlier, place.graph)
        await restored.put(ANN, CAROL, CAROL)
        found = await restored.wrong()
    assert list(found) == ["graph lag error", "graph journal error"]
    assert found["graph lag error"].detail.endswith(
        "ahead of the log for 2 users, as after a restore of the log: ann 1; bob 1"
    )
    assert found["graph lag error"].fix == "run: agentmem admin rebuild --what graph --all-users"
    assert found["graph journal error"].detail.endswith("up to change: carol 1")


async def test_a_restored_log_is_told_however_far_it_has_grown_since(place: Place, tmp_path: Path) -> None:
    await place.put(ANN, ANN, BOB)
    await place.follow(ANN, BOB)
    async with open_sqlite_log(tmp_path / "earlier.db") as earlier:
        restored = Place(place.url, earlier, place.graph)
        await restored.put(ANN, ANN, ANN, BOB)
        found = await restored.wrong()
    assert list(found) == ["graph journal error"]
    assert "followed another journal for 2 users" in found["graph journal error"].detail
    assert found["graph journal error"].detail.endswith("up to change: ann 2; bob 1")
    assert "agentmem admin sync" in found["graph journal error"].fix


async def test_a_rebuild_is_seen_under_way_and_cut_off(place: Place) -> None:
    await place.put(ANN, BOB)
    await place.follow(ANN, BOB)
    await place.run(graph_update("hold"), user_id="bob", holder="x", milliseconds=60_000)
    assert await place.wrong() == {}
    assert "under way for 1 users: bob 1" in str(await place.look())
    await place.run(graph_update("hold"), user_id="bob", holder="x", milliseconds=-1000)
    told(
        await place.wrong(), "graph rebuilds warning", "a rebuild of 1 users was cut off: bob 1", "agentmem admin sync"
    )
    await place.follow(BOB)
    assert await place.wrong() == {}


async def test_a_log_that_cannot_be_asked_is_a_finding(place: Place) -> None:
    async def away(asked: object) -> dict[str, int]:
        raise StoreUnavailable("the log is away")

    found = await diagnose(place.url, STORE_ID, away, away, away)
    assert [finding.check for finding in found] == [*EVERYTHING[:4], "graph"]
    assert (found[-1].level, found[-1].detail) == ("error", "the log is away")
