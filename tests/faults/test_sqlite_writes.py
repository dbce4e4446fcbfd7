"""The embedded store in trouble: other processes, kill -9, a full disk, forbidden changes, bytes that must go."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import pytest

from agentmem.core.changes import AuditEntry
from agentmem.core.clock import SystemClock
from agentmem.core.scope import Operator, Scope
from agentmem.errors import Conflict, StoreUnavailable
from agentmem.stores.sqlite import SqliteLog, open_log
from agentmem.stores.sqlite.write import STEPS
from agentmem.stores.values import Where
from tests.conformance.writing import (
    START,
    SettableClock,
    build_change,
    build_fact,
    build_turn,
    build_turn_changes,
    record_ids,
    write_records,
)

ROOT = Path(__file__).parents[2]
SCOPE = Scope("alice")
WRITER = """
import asyncio, sys
from pathlib import Path
from agentmem.core.changes import AuditEntry
from agentmem.core.clock import SystemClock
from agentmem.core.scope import Scope
from agentmem.stores.sqlite import open_log
from tests.conformance.writing import build_turn_changes

async def main(path, name, number):
    log, scope = await open_log(Path(path), SystemClock()), Scope("alice")
    for n in range(int(number)):
        audit = AuditEntry(operation="store", memory_type="episodic", scope=scope)
        await log.append(build_turn_changes(scope, f"{name}-{n}"), audit)
        print(f"{name}-{n}", flush=True)
    await log.close()

asyncio.run(main(*sys.argv[1:]))
"""
VICTIM = """
import asyncio, os, signal, sys
from pathlib import Path
from agentmem.core.changes import AuditEntry
from agentmem.core.clock import SystemClock
from agentmem.core.scope import Scope
from agentmem.stores.sqlite import open_log
from tests.conformance.writing import build_entity, build_change, build_turn_changes

async def main(path, step):
    def hook(name):
        if name == step:
            os.kill(os.getpid(), signal.SIGKILL)

    log, scope = await open_log(Path(path), SystemClock(), hook=hook), Scope("alice")
    audit = AuditEntry(operation="store", memory_type="episodic", scope=scope)
    await log.append([*build_turn_changes(scope, "b", "c"), build_change(scope, build_entity("kim"), key="kim")], audit)

asyncio.run(main(*sys.argv[1:]))
"""
FINDER = """
import sys
from pathlib import Path

held = b"".join(file.read_bytes() for file in Path(sys.argv[1]).rglob("*") if file.is_file()).lower()
print(*(word for word in sys.argv[2:] if word.encode() in held))
"""
FILLER = """
import asyncio, resource, sys
from pathlib import Path
from agentmem.errors import StoreUnavailable
from agentmem.core.clock import SystemClock
from agentmem.core.scope import Scope
from agentmem.stores.sqlite import open_log
from tests.conformance.writing import write_records, build_turn_changes, build_turn

async def main(path):
    log, scope = await open_log(Path(path), SystemClock()), Scope("alice")
    await log.append(build_turn_changes(scope, "a"))
    resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, resource.RLIM_INFINITY))
    try:
        await write_records(log, scope, build_turn("big", "word " * 150_000))
    except StoreUnavailable:
        print("refused")
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    await log.append(build_turn_changes(scope, "b"))
    print(await log.check(None), (await log.head(scope)).seq)
    await log.close()

asyncio.run(main(*sys.argv[1:]))
"""
LEFT_OPEN = """
import asyncio, sys, time
from agentmem.stores.sqlite.database import WorkerThreads

async def main():
    threads = WorkerThreads(1, "left")
    asyncio.ensure_future(threads.run(lambda: (time.sleep(0.3), print("done", flush=True))))
    await asyncio.sleep(0)
    return threads

kept = asyncio.run(main())
print("end", flush=True)
"""


def child(script: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.fixture
async def log(home: Path) -> AsyncIterator[SqliteLog]:
    opened = await open_log(home / "memory.db", SystemClock())
    yield opened
    await opened.close()


async def test_two_processes_write_at_once(home: Path, log: SqliteLog) -> None:
    writers = [child(WRITER, home / "memory.db", name, 40) for name in ("one", "two")]
    while any(writer.poll() is None for writer in writers):
        entries = await log.changes(SCOPE, 0, 1000)
        assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
        await log.append([build_change(SCOPE, build_fact(f"f{len(entries)}-{time.monotonic_ns()}"))])
        await asyncio.sleep(0.01)
    told = [writer.communicate() for writer in writers]
    assert [(writer.returncode, err) for writer, (_, err) in zip(writers, told, strict=True)] == [(0, "")] * 2
    acknowledged = {line for out, _ in told for line in out.split()}
    turns = await log.find(SCOPE, Where(conversation_id="talk"), order="position", limit=1000)
    assert {record.id for record in turns} == acknowledged
    assert [record.position_key()[1] for record in turns] == list(range(80))
    assert len(await log.audit_rows(SCOPE, limit=1000)) == 80
    assert await log.check(Operator()) == []


async def test_a_turn_writes_few_pages(home: Path, log: SqliteLog) -> None:
    audit = AuditEntry(operation="store", memory_type="episodic", scope=SCOPE)
    for n in range(30):
        await log.append(build_turn_changes(SCOPE, f"t{n}"), audit)
    assert await log.database.truncate_wal()
    await log.append(build_turn_changes(SCOPE, "one more"), audit)
    frames, rest = divmod((home / "memory.db-wal").stat().st_size - 32, 24 + 4096)
    assert rest == 0
    assert frames <= 22, "every table and index that a turn touches costs its commit a page: is one more needed?"


async def test_audit_rows_of_one_moment_are_told_apart(home: Path) -> None:
    log = await open_log(home / "memory.db", SettableClock())
    rows = [
        AuditEntry(operation=name, memory_type="", scope=scope)
        for name in "ab"
        for scope in (SCOPE, Scope("bob"), None)
    ]
    await log.write_audit(rows[:4])
    await log.write_audit(rows[4:])
    await log.write_audit([AuditEntry(operation="c", memory_type="", scope=SCOPE)])
    found = await log.audit_rows(SCOPE)
    assert [row["operation"] for row in found] == ["c", "b", "a"]
    assert [row["id"].rpartition("-")[2] for row in found] == ["000000003", "000000002", "000000001"]
    await log.close()


@pytest.mark.parametrize("step", STEPS)
async def test_killed_at_any_step_a_write_happened_whole_or_not_at_all(home: Path, step: str) -> None:
    path = home / "memory.db"
    log = await open_log(path, SystemClock())
    await log.append(build_turn_changes(SCOPE, "a"))
    await log.close()
    victim = child(VICTIM, path, step)
    victim.communicate(timeout=60)
    assert victim.returncode == -signal.SIGKILL
    log = await open_log(path, SystemClock())
    happened = step == "committed"
    assert record_ids(await log.find(SCOPE, Where(kinds=("Turn",)))) == (["a", "b", "c"] if happened else ["a"])
    assert len(await log.audit_rows(SCOPE)) == happened
    retried = await log.append([*build_turn_changes(SCOPE, "b", "c")])
    assert [entry.already_applied for entry in retried] == [happened, happened]
    assert [record.position_key()[1] for record in await log.find(SCOPE, Where(conversation_id="talk"))] == [0, 1, 2]
    assert (await log.match(["b"], SCOPE))["b"].ordinals.tolist() == [retried[0].upserts[-1].ordinal]
    assert await log.check(Operator()) == []
    await log.close()


async def test_a_full_disk_refuses_the_write_whole_and_later_ones_work(log: SqliteLog) -> None:
    await log.append(build_turn_changes(SCOPE, "a"))
    pages = await log.database.run_without_transaction(lambda db: db.pragma("page_count"))
    await log.database.run_without_transaction(lambda db: db.pragma("max_page_count", pages + 4))
    with pytest.raises(StoreUnavailable, match="no room"):
        await write_records(log, SCOPE, build_turn("big", "word " * 20_000), build_turn("b"))
    assert (await log.head(SCOPE)).seq == 1
    assert record_ids(await log.find(SCOPE, Where(kinds=("Turn",)))) == ["a"]
    await log.database.run_without_transaction(lambda db: db.pragma("max_page_count", pages + 4000))
    await log.append(build_turn_changes(SCOPE, "b"))
    assert record_ids(await log.find(SCOPE, Where(kinds=("Turn",)))) == ["a", "b"]
    assert await log.check(Operator()) == []


def test_a_file_that_may_not_grow_refuses_the_write_whole(home: Path) -> None:
    told, errors = child(FILLER, home / "memory.db").communicate(timeout=60)
    assert (told.splitlines(), errors) == (["refused", "[] 2"], "")


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM memory_audit_log",
        "UPDATE memory_audit_log SET query_text = NULL",
        "UPDATE memory_audit_log SET operation = 'nothing'",
        "UPDATE memory_audit_log SET user_id = 'bob'",
        "INSERT OR REPLACE INTO memory_audit_log SELECT * FROM memory_audit_log",
    ],
)
async def test_audit_rows_can_be_neither_changed_nor_deleted(log: SqliteLog, statement: str) -> None:
    await log.write_audit([AuditEntry(operation="recall", memory_type="episodic", scope=SCOPE, query_text="tea?")])
    with pytest.raises(Conflict, match="memory_audit_log"):
        await log.database.write(lambda db: db.execute(statement))
    (row,) = await log.audit_rows(SCOPE)
    assert (row["operation"], row["query_text"]) == ("recall", "tea?")


async def test_the_gate_is_closed_behind_every_use(log: SqliteLog) -> None:
    await log.write_audit([AuditEntry(operation="recall", memory_type="episodic", scope=SCOPE, query_text="tea?")])
    await log.maintain(START, 3650)
    await log.append(build_turn_changes(SCOPE, "a"))
    await log.erase(SCOPE, [("Turn", "a")], operation_id="e", erased_at=START)
    await log.erase(SCOPE, None, operation_id="e2", erased_at=START)
    assert await log.database.read(lambda db: db.execute("SELECT count(*) FROM audit_gate").get) == 0
    gate = "INSERT INTO audit_gate VALUES ('erasure')"
    with pytest.raises(Conflict):  # even with the gate open, what was done cannot be rewritten
        await log.database.write(
            lambda db: [db.execute(gate), db.execute("UPDATE memory_audit_log SET operation = 'nothing'")]
        )


async def test_no_byte_of_erased_text_stays_in_any_file(home: Path) -> None:
    """Random writes, versions, retractions and erasures; afterwards the files hold none of the marked words."""
    chance = random.Random(11)
    log = await open_log(home / "memory.db", SystemClock())
    alive: dict[str, str] = {}
    gone: list[str] = []
    for number in range(120):
        marker = f"zq{number}x{chance.randrange(10**9)}"
        name = f"f{chance.randrange(40)}"
        filler = " ".join(f"word{chance.randrange(300)}" for _ in range(chance.randrange(2, 250)))
        told = {"query_text": f"about {marker}", "metadata": {"ids": [name]}}
        audit = AuditEntry(operation="store", memory_type="semantic", scope=SCOPE, **told)
        await log.append([build_change(SCOPE, build_fact(name, f"{filler} {marker}"), cause=marker)], audit)
        alive[marker] = name
        if number % 30 == 29:
            await log.maintain(START, 36500)
        if chance.random() < 0.4:
            victim = chance.choice(sorted(set(alive.values())))
            assert (
                await log.erase(SCOPE, [("Fact", victim)], operation_id=f"e{number}", erased_at=START)
            ).leftovers == {}
            gone += [word for word, owner in alive.items() if owner == victim]
            alive = {word: owner for word, owner in alive.items() if owner != victim}
    assert len(gone) > 30
    assert found_in_files(home, [*gone, *alive]) == list(alive)
    scan = await log.erase(SCOPE, None, operation_id="all", erased_at=START)
    assert (scan.leftovers, scan.deferred) == ({}, ())
    assert found_in_files(home, [*gone, *alive]) == []
    await log.close()


def found_in_files(home: Path, words: list[str]) -> list[str]:
    """Which words some file of the folder holds. A child reads them: a plain open here would drop the store's locks."""
    told, errors = child(FINDER, home, *words).communicate(timeout=60)
    assert errors == ""
    return told.split()


async def test_a_reader_elsewhere_makes_the_truncation_pending(home: Path, log: SqliteLog) -> None:
    await log.append(build_turn_changes(SCOPE, "a", "b"))
    reader = apsw.Connection(str(home / "memory.db"))
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM memory_records").get  # noqa: B018
    scan = await log.erase(SCOPE, [("Turn", "a")], operation_id="e1", erased_at=START)
    assert scan.leftovers == {}
    assert "write-ahead log" in scan.deferred[0]
    reader.execute("COMMIT")
    assert (await log.erase(SCOPE, [("Turn", "b")], operation_id="e2", erased_at=START)).deferred == ()
    reader.close()
    assert (home / "memory.db-wal").stat().st_size == 0


async def test_a_forked_child_opens_the_file_anew(home: Path, log: SqliteLog) -> None:
    await log.append(build_turn_changes(SCOPE, "a"))
    child_id = os.fork()
    if child_id == 0:
        try:
            loop = asyncio.new_event_loop()
            loop.run_until_complete(log.append(build_turn_changes(SCOPE, "b")))
            os._exit(0)
        finally:
            os._exit(1)
    _, status = await asyncio.to_thread(os.waitpid, child_id, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    await log.append(build_turn_changes(SCOPE, "c"))
    assert record_ids(await log.find(SCOPE, Where(kinds=("Turn",)))) == ["a", "b", "c"]
    assert await log.check(Operator()) == []


def test_a_process_that_closes_nothing_ends_when_the_work_is_done() -> None:
    ended = child(LEFT_OPEN)
    told, errors = ended.communicate(timeout=60)
    assert (ended.returncode, told.split(), errors) == (0, ["end", "done"], "")
