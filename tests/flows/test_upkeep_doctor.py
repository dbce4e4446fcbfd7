"""`diagnose` finds what is wrong, says how to mend it, and changes nothing."""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest

from agentmem import AsyncAgentMemory
from agentmem.admin.doctor import diagnose
from agentmem.admin.rebuild import rebuild
from agentmem.settings.settings import load_settings
from agentmem.stores.admin import Finding
from agentmem.stores.sqlite import diagnostics
from agentmem.stores.sqlite.database import SqliteDatabase
from agentmem.stores.values import DeadLetter


def opened(home: Path, **more: Any) -> AsyncAgentMemory:
    return AsyncAgentMemory("alice", home=home, embedder="hash", **more)


async def filled(home: Path) -> None:
    async with opened(home) as memory:
        await memory.store_turns(["I saw a heron.", "Where?", "At the lake, with two boats."])
        fact = await memory.learn_fact("Alice likes herons")
        await memory.semantic.supersede_fact(fact.id, "Alice likes owls")
        heron = await memory.upsert_entity({"name": "Heron", "type": "bird"})
        await memory.learn_fact("The heron is grey", entity_ids=[heron.id])
        gone = await memory.learn_fact("to be erased")
        await memory.forget(gone.id, hard=True)
        await memory.flush()


def bytes_of(home: Path) -> dict[str, str]:
    files = sorted(file for file in home.rglob("*") if file.is_file())
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


async def examined(home: Path, **more: Any) -> dict[str, Finding]:
    """What is not fine: the worst finding about each thing, with the details of all of that level."""
    before = bytes_of(home)
    found = await diagnose(load_settings(home=home, embedder="hash", **more))
    assert bytes_of(home) == before
    assert all(finding.fix for finding in found if finding.level != "ok")
    worst: dict[str, Finding] = {}
    for finding in sorted(found, key=lambda finding: finding.level == "warning"):
        known = worst.get(finding.check)
        if finding.level == "ok" or (known is not None and known.level != finding.level):
            continue
        worst[finding.check] = finding if known is None else replace(known, detail=f"{known.detail} | {finding.detail}")
    return worst


async def changed(home: Path, *statements: str) -> None:
    database = SqliteDatabase(home / "memory.db")

    def run(db: Any) -> None:
        for statement in statements:
            db.execute(statement)

    await database.write(run)
    await database.close()


async def test_a_healthy_store_is_fine_closed_and_in_use(home: Path) -> None:
    await filled(home)
    assert await examined(home) == {}
    async with opened(home) as memory:
        await memory.store_turn("And an otter.")
        found = await diagnose(load_settings(home=home, embedder="hash"))
        # The session cache is not looked at here: its side files are made by the session store.
        assert [item for item in found if item.level == "error"] == []
    names = [item.check for item in await diagnose(load_settings(home=home))]
    assert names == [
        "store",
        "permissions",
        "disk",
        "library",
        "integrity",
        "schema",
        "store_id",
        "guard",
        "sizes",
        "invariants",
        "words",
        "graph",
        "lag",
        "parked",
        "clock",
        "leases",
        "reading",
        "session",
        "embedder",
    ]


async def test_turns_that_were_read_only_in_part_are_named(home: Path) -> None:
    async with opened(home) as memory:
        long = await memory.store_turn("I live in Oslo. " + "It rains here. " * 200)
        await memory.store_turn("I have a cat.")
    assert "reading" not in await examined(home)
    async with opened(home) as memory:
        await memory.consolidate("consolidate")
    finding = (await examined(home))["reading"]
    assert finding.level == "warning"
    assert finding.detail == f"turns read only in part: 1 ({long.id} of alice)"
    assert "--reread" in finding.fix


async def test_no_store_is_no_error_and_none_is_made(home: Path) -> None:
    found = await diagnose(load_settings(home=home))
    assert [(item.level, item.check) for item in found] == [("warning", "store")]
    assert not home.exists()


@pytest.mark.parametrize("where", [0, 5000, 60_000])
async def test_a_damaged_file_is_an_error_with_a_fix(home: Path, where: int) -> None:
    await filled(home)
    path = home / "memory.db"
    content = bytearray(path.read_bytes())
    content[where : where + 8192] = os.urandom(8192)
    path.write_bytes(content)
    worst = await examined(home)
    assert {finding.level for finding in worst.values()} >= {"error"}
    assert any("backup" in finding.fix for finding in worst.values())


async def test_a_file_that_was_cut_is_an_error(home: Path) -> None:
    await filled(home)
    path = home / "memory.db"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert any(finding.level == "error" for finding in (await examined(home)).values())


WRONG: dict[str, tuple[str, str]] = {
    "DELETE FROM memory_changes WHERE seq = 2": ("invariants", "gaps"),
    "UPDATE memory_users SET head = head + 1": ("invariants", "gaps"),
    "DELETE FROM memory_users": ("invariants", "without a user"),
    "DELETE FROM memory_versions WHERE kind = 'Entity'": ("invariants", "without their version"),
    "DELETE FROM memory_records WHERE kind = 'Entity'": ("invariants", "should be current"),
    "UPDATE memory_records SET seq = 1 WHERE kind = 'Entity'": ("invariants", "older than their last version"),
    "UPDATE memory_users SET slots = 2": ("invariants", "beyond"),
    "UPDATE memory_versions SET id = 'x' WHERE rowid = (SELECT max(rowid) FROM memory_versions WHERE payload <> '')": (
        "invariants",
        "without their version",
    ),
    "UPDATE memory_versions SET erased = 1 WHERE kind = 'Entity'": ("invariants", "still there"),
    "DELETE FROM word_tail WHERE slot = (SELECT min(slot) FROM word_tail)": ("words", "without words"),
    "INSERT INTO word_tail VALUES ('alice', 77, '{\"secret\": 1}')": ("words", "are gone"),
    "DELETE FROM graph_edges WHERE kind = 'HAS_TURN'": ("graph", "differ"),
    "INSERT INTO graph_edges VALUES ('alice', 0, 'KNOWS', 1, -1, 0)": ("graph", "differ"),
    "DROP TRIGGER memory_audit_log_no_delete": ("schema", "not protected"),
    "DROP INDEX memory_records_seq": ("schema", "memory_records_seq missing"),
    "INSERT INTO schema_version VALUES (99, 'later', '')": ("schema", "newer"),
    "DELETE FROM store_meta WHERE name = 'store_id'": ("store_id", "no id"),
    "UPDATE projection_watermarks SET seq = 99": ("lag", "ahead"),
    "INSERT INTO projection_watermarks VALUES ('graph', 'alice', 0, 0)": ("lag", "cleared"),
    "UPDATE store_meta SET value = 'hsah:v1:64' WHERE name = 'embedder'": ("embedder", "hsah"),
}


@pytest.mark.parametrize("statement", WRONG)
async def test_each_broken_invariant_is_an_error(home: Path, statement: str) -> None:
    await filled(home)
    await changed(home, statement)
    what, said = WRONG[statement]
    finding = (await examined(home))[what]
    assert finding.level == "error"
    assert said in finding.detail


async def test_lag_and_parked_changes_are_named_with_their_users(home: Path) -> None:
    await filled(home)
    await changed(home, "UPDATE projection_watermarks SET seq = seq - 2")
    async with opened(home) as memory:
        parked = DeadLetter("vectors/hash:v1:512", "alice", 2, "too strange", 3, datetime(2025, 1, 1, tzinfo=UTC))
        await memory.engine.log.write_dead_letter(parked)
    worst = await examined(home)
    assert worst["lag"].level == worst["parked"].level == "warning"
    assert "lacks 2 changes of 1 users: alice 2" in worst["lag"].detail
    assert "alice 2; too strange" in worst["parked"].detail
    async with opened(home) as memory:
        await rebuild(memory.engine, None)
    assert await examined(home) == {}


async def test_words_of_another_tokenizer_are_named_until_they_are_rebuilt(home: Path) -> None:
    await filled(home)
    await changed(home, "UPDATE word_state SET tokenizer = '0123456789ab'")
    finding = (await examined(home))["words"]
    assert (finding.level, "another version's tokenizer" in finding.detail) == ("warning", True)
    async with opened(home) as memory:
        await memory.store_turn("A word more changes nothing of that.")
    assert (await examined(home))["words"].level == "warning"
    async with opened(home) as memory:
        await rebuild(memory.engine, None, targets=["words"])
    assert await examined(home) == {}


class PastClock:
    """A clock that was set back."""

    def now(self) -> datetime:
        return datetime.now(UTC) - timedelta(hours=2)


async def test_a_clock_that_was_set_back_is_named(home: Path) -> None:
    await filled(home)
    assert "in the future, alice" in (await examined(home, clock=PastClock()))["clock"].detail


async def test_a_check_that_cannot_be_made_is_named_as_when_it_is_made(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await filled(home)
    made = {finding.check for finding in await diagnose(load_settings(home=home))}

    async def refuse(*_: Any, **__: Any) -> list[Any]:
        raise apsw.BusyError("database is locked")

    monkeypatch.setattr(diagnostics.SqliteDiagnostics, "_rows", refuse)
    failed = await examined(home)
    assert set(failed) <= made
    assert {"invariants", "words", "graph", "lag", "parked", "clock", "leases"} <= set(failed)


async def test_a_lease_for_hours_is_named(home: Path) -> None:
    await filled(home)
    async with opened(home) as memory:
        await memory.engine.log.acquire_lease("gc", 7200, "worker 1")
    assert "gc is held by worker 1" in (await examined(home))["leases"].detail


async def test_files_that_others_can_use_are_named(home: Path) -> None:
    await filled(home)
    (home / "memory.db").chmod(0o644)
    home.chmod(0o755)
    found = await diagnose(load_settings(home=home))
    fixes = [item.fix for item in found if item.check == "permissions"]
    assert fixes == [f"run: chmod 600 {home / 'memory.db'}", f"run: chmod 700 {home.resolve()}"]


async def test_a_damaged_session_cache_is_a_warning(home: Path) -> None:
    await filled(home)
    (home / "session.db").write_bytes(b"no database at all" * 300)
    assert (await examined(home))["session"].level == "warning"


async def test_a_copy_left_by_a_killed_verification_is_named(home: Path) -> None:
    await filled(home)
    copy = home / "verify-abc"
    copy.mkdir(mode=0o700)
    os.utime(copy, (1e9, 1e9))
    assert "rm -r" in (await examined(home))["copies"].fix
