"""The upkeep face of a server, its walls, what it shares with the embedded one, and a client killed within a write."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from agentmem.core.changes import AuditEntry
from agentmem.core.scope import SYSTEM_USER, Operator, Scope
from agentmem.errors import ConfigError, Conflict, InvalidRecord, ScopeError, StoreError, StoreUnavailable
from agentmem.stores.admin import JournalCounters, RawUsage
from agentmem.stores.postgres import PostgresAdmin, PostgresLog, open_log
from agentmem.stores.postgres import write as postgres_write
from agentmem.stores.postgres.database import fetch_rows
from agentmem.stores.sql import meta, restore
from agentmem.stores.sqlite import SqliteLog
from agentmem.stores.sqlite import open_log as open_file
from agentmem.stores.values import DeadLetter
from agentmem.text.templates import load_templates
from tests.conformance import histories
from tests.conformance.conftest import database_url
from tests.conformance.stores import admin_of, open_sqlite_log
from tests.conformance.writing import START, SettableClock, build_turn_changes, record_ids

OPERATOR = Operator("test")
SPAWN = multiprocessing.get_context("forkserver")
USAGE = RawUsage("Turn", "a", 1, 0, None, 1.0, ("c",), 0.0, None, 0, 0, None)


@pytest.fixture
async def server(postgres_log: str, clock: SettableClock) -> AsyncIterator[PostgresLog]:
    """A log of a worker who owns nothing on the server."""
    log = await open_log(postgres_log, clock)
    yield log
    await log.close()


@pytest.fixture
async def plain(
    owner: psycopg.Connection[Any], postgres_migrated: tuple[str, str], clock: SettableClock
) -> AsyncIterator[PostgresLog]:
    """A log of an application that is no worker."""
    url, name = postgres_migrated[0], f"plain_{os.urandom(6).hex()}"
    owner.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'secret' IN ROLE agentmem_app")  # type: ignore[call-overload]
    log = await open_log(database_url(url, url.rpartition("/")[2], f"{name}:secret"), clock)
    yield log
    await log.close()
    owner.execute(f"DROP ROLE {name}")  # type: ignore[call-overload]


@pytest.fixture
async def file(tmp_path: Path, clock: SettableClock) -> AsyncIterator[SqliteLog]:
    """An embedded log with the clock of the server's."""
    log = await open_file(tmp_path / "memory.db", clock)
    yield log
    await log.close()


# -- both stacks hold the same


async def test_the_same_history_is_the_same_on_both(
    file: SqliteLog, server: PostgresLog, scope: Scope, clock: SettableClock
) -> None:
    found: list[list[object]] = []
    for log in (file, server):
        clock.time, face = START, admin_of(log)
        await histories.write_history(log, scope, clock)
        before = await histories.read_snapshot(log, face, scope)
        await log.erase(scope, None, operation_id="all", erased_at=clock.advance(minutes=1))
        found.append([before, await histories.read_snapshot(log, face, scope)])
    assert found[0] == found[1]


async def test_a_memory_moves_to_a_server_and_back(
    file: SqliteLog, server: PostgresLog, scope: Scope, stranger: Scope, clock: SettableClock, tmp_path: Path
) -> None:
    await histories.write_history(file, scope, clock)
    saved = await histories.read_snapshot(file, admin_of(file), scope)
    face = PostgresAdmin(server.database)
    await histories.restore_snapshot(face, stranger, saved, batch_size=3)
    there = await histories.read_snapshot(server, face, stranger)
    assert there == saved
    async with open_sqlite_log(tmp_path / "back.db") as back:
        await histories.restore_snapshot(admin_of(back), scope, there, batch_size=4)
        assert await histories.read_snapshot(back, admin_of(back), scope) == saved
    assert await server.check(OPERATOR) == []


async def test_what_a_text_column_cannot_hold_is_refused(server: PostgresLog, file: SqliteLog, scope: Scope) -> None:
    await file.append(build_turn_changes(scope, "a"))
    (change,) = await admin_of(file).raw_changes(scope, 0, 9)
    face = PostgresAdmin(server.database)
    named = change.versions[0]._replace(id="a\x00")
    for wrong in (
        change._replace(change_id="a\x00"),
        change._replace(versions=(named,)),
        change._replace(payload="\ud800"),
    ):
        with pytest.raises(InvalidRecord, match="cannot keep"):
            await face.import_changes(scope, [wrong])
    assert await face.journal_counters(scope) == JournalCounters(0, 0, 0, 0)
    await face.import_changes(scope, [change])
    with pytest.raises(Conflict):
        await face.import_changes(scope, [change])


async def test_usage_given_twice_counts_once(server: PostgresLog, scope: Scope) -> None:
    face = PostgresAdmin(server.database)
    second = USAGE._replace(access_count=7, conversations=("z", "a", "ü"), strength=1.25, due_at=5)
    await face.import_usage(scope, [])
    await face.import_usage(scope, [USAGE, USAGE._replace(id="b"), second])
    assert await face.raw_usage(scope, ("", ""), 9) == [second, USAGE._replace(id="b")]
    await face.import_usage(scope, [USAGE])
    assert await face.raw_usage(scope, ("", ""), 1) == [USAGE]


# -- walls


async def test_an_application_looks_after_its_own_user_only(
    plain: PostgresLog, server: PostgresLog, scope: Scope, stranger: Scope, clock: SettableClock
) -> None:
    face = PostgresAdmin(plain.database)
    await histories.write_history(server, stranger, clock)
    saved = await histories.read_snapshot(server, PostgresAdmin(server.database), stranger)
    await histories.restore_snapshot(face, scope, saved)
    assert await face.rebuild_terms(scope) == 7
    assert await histories.read_snapshot(plain, face, scope) == saved
    await plain.write_dead_letter(DeadLetter("graph", scope.user_id, 1, "no", 1, START))
    await plain.write_watermark_hints("graph", {scope.user_id: 2, stranger.user_id: 10})
    assert await face.requeue_dead_letters("graph", scope) == 1
    assert (await face.counts(scope))["journal"]["changes"] == 10
    assert (await face.sizes())["store"] > 0
    for refused in (
        face.heads(OPERATOR, [scope.user_id]),
        face.lagging_projections(["graph"], OPERATOR),
        face.switch_embedder("hash:new:8"),
    ):
        with pytest.raises(ScopeError, match="GRANT agentmem_worker"):
            await refused
    assert await server.lagging_users("graph", OPERATOR) == [scope.user_id]


async def test_a_transaction_reaches_nobody_else(
    server: PostgresLog, scope: Scope, stranger: Scope, clock: SettableClock
) -> None:
    await histories.write_history(server, scope, clock)
    face, alice = PostgresAdmin(server.database), scope.user_id
    saved = await histories.read_snapshot(server, face, scope)

    async def read(db: Any) -> list[Any]:
        return [
            await restore.journal_counters(db, alice),
            await restore.raw_changes(db, alice, 0, 99),
            await restore.raw_usage(db, alice, ("", ""), 99),
            await db.rows("admin.last_images", user_id=alice, after=0),
        ]

    assert await server.database.query(stranger, read) == [JournalCounters(0, 0, 0, 0), [], [], []]
    for write in (
        lambda db: restore.import_usage(db, alice, [USAGE]),
        lambda db: restore.set_counters(db, alice, saved[0]),
        lambda db: db.run("meta.set_watermark", projection="graph", user_id=alice, seq=1),
    ):
        with pytest.raises(StoreError, match="row-level security"):
            await server.database.commit(stranger, write)
    assert await histories.read_snapshot(server, face, scope) == saved


async def test_marks_of_many_are_noted_side_by_side(server: PostgresLog) -> None:
    names = [f"user {number}" for number in range(40)]
    for name in names:
        await server.append(build_turn_changes(Scope(name), "a"))
    some = [dict.fromkeys(order, 1) for order in (names, names[::-1], names[7:], names[5::2])]
    await asyncio.gather(*(server.write_watermark_hints("graph", marks) for marks in some))
    assert await server.lagging_users("graph", OPERATOR) == []
    assert await server.database.query(SYSTEM_USER, meta.meta) == await server.meta()


# -- what is special to a server


async def test_a_switch_sees_the_write_that_is_under_way(
    server: PostgresLog, owner: psycopg.Connection[Any], scope: Scope
) -> None:
    face = PostgresAdmin(server.database)
    await face.start_embedder("hash:new:8")
    await server.append(build_turn_changes(scope, "a"))
    await server.write_watermark_hints("vectors/hash:new:8", {scope.user_id: 1})
    with owner.transaction():
        owner.execute("UPDATE memory_users SET head = head + 1")
        switch = asyncio.create_task(face.switch_embedder("hash:new:8"))
        waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'memory_users'::regclass"
        while not switch.done() and owner.execute(waiting).fetchone() == (0,):
            await asyncio.sleep(0.01)
    assert await switch is False
    assert (await server.meta()).get("embedder") is None
    await server.write_watermark_hints("vectors/hash:new:8", {scope.user_id: 2})
    assert await face.switch_embedder("hash:new:8")


async def test_a_switch_does_not_keep_writers_waiting_for_long(
    server: PostgresLog, owner: psycopg.Connection[Any], scope: Scope, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentmem.stores.sql.admin.SWITCH_SECONDS", 0.2)
    face = PostgresAdmin(server.database)
    await face.start_embedder("hash:new:8")
    await server.append(build_turn_changes(scope, "a"))
    await server.write_watermark_hints("vectors/hash:new:8", {scope.user_id: 1})
    with owner.transaction():
        owner.execute("UPDATE memory_users SET last_at = last_at")
        with pytest.raises(StoreUnavailable, match="in time"):
            await face.switch_embedder("hash:new:8")
    assert (await server.meta())["embedder_next"] == "hash:new:8"


PLANNED = [
    *(("restore", name) for name in ("counters", "add_user", "changes", "versions", "usage")),
    *(("admin", name) for name in ("last_images", "drop_dead_letters")),
]
ASKED: dict[str, Any] = {
    "user_id": "user 3",
    "limit": 10,
    "kind": "",
    "id": "",
    "projection": "graph",
    "users": ["user 3"],
}


async def test_upkeep_of_a_user_walks_no_table_of_all(server: PostgresLog, owner: psycopg.Connection[Any]) -> None:
    crowd = "INSERT INTO {} SELECT 'other ' || n{} FROM generate_series(1, 3000) n"
    for table, values in (
        ("memory_users (user_id)", ""),
        ("memory_usage (user_id, kind, id)", ", 'Turn', n"),
        ("parked_changes", ", 'graph', n, '', 1, 0"),
    ):
        owner.execute(crowd.format(table, values))  # type: ignore[call-overload]
    for number in range(6):
        scope = Scope(f"user {number}")
        await server.append(build_turn_changes(scope, *(f"t {n}" for n in range(300))))
    owner.execute("ANALYZE")

    async def plan(db: Any, file: str, name: str, after: object) -> list[str]:
        text = load_templates("agentmem.stores.postgres", f"{file}.sql")[name]
        return [f"{name}: {line}" for (line,) in await fetch_rows(db, f"EXPLAIN {text}", {**ASKED, "after": after})]

    lines = await server.database.query(OPERATOR, lambda db: plan(db, "admin", "heads_of", ""))
    for file, name in PLANNED:
        lines += await server.database.commit("user 3", partial(plan, file=file, name=name, after=0))
    assert len({line.partition(":")[0] for line in lines}) == 8
    assert [line for line in lines if "Seq Scan" in line] == []


async def test_a_server_is_copied_with_its_own_tools(server: PostgresLog, tmp_path: Path) -> None:
    face = PostgresAdmin(server.database)
    with pytest.raises(ConfigError, match="pg_dump"):
        await face.copy_to(tmp_path / "copy.db")
    assert list(tmp_path.iterdir()) == []
    sizes = await face.sizes()
    assert (sizes["write_ahead_log"], await face.compact()) == (0, True)


# -- a client that is killed


def _dies(url: str, step: str) -> None:
    """Write as user `step`, and end without a word when that step is told."""

    def end(told: str) -> None:
        if told == step:
            os._exit(9)

    async def write() -> None:
        log = await open_log(url, SettableClock(), hook=end)
        await log.append(build_turn_changes(Scope(step), "a"), _audited(step))

    asyncio.run(write())


def _audited(user: str) -> AuditEntry:
    return AuditEntry(operation="store", memory_type="episodic", scope=Scope(user))


async def test_a_write_tells_its_steps(postgres_log: str, scope: Scope) -> None:
    told: list[str] = []
    log = await open_log(postgres_log, SettableClock(), hook=told.append)
    await log.append(build_turn_changes(scope, "a"))
    assert tuple(told) == postgres_write.STEPS
    await log.append(build_turn_changes(scope, "a"))
    assert told[len(postgres_write.STEPS) :] == ["vectors", "committed"]
    await log.close()


async def test_a_client_killed_at_any_step_leaves_all_or_nothing(server: PostgresLog, postgres_log: str) -> None:
    children = [SPAWN.Process(target=_dies, args=(postgres_log, step)) for step in postgres_write.STEPS]
    for child in children:
        child.start()
    for child in children:
        await asyncio.to_thread(child.join)
    assert [child.exitcode for child in children] == [9] * len(postgres_write.STEPS)
    for step in postgres_write.STEPS:
        scope, done = Scope(step), step == "committed"
        assert record_ids(await server.read_records("Turn", ["a"], scope)) == (["a"] if done else [])
        (entry,) = await server.append(build_turn_changes(scope, "a"), _audited(step))
        assert (entry.seq, entry.already_applied) == (1, done)
        assert len(await server.changes(scope, 0, 9)) == len(await server.audit_rows(scope)) == 1
        assert (await server.match(["a"], scope)).keys() == (await server.match(["a"], Scope("committed"))).keys()
    assert await server.check(OPERATOR) == []
