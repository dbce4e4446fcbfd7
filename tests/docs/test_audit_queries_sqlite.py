"""The SQLite queries of docs/audit.md, read out of the page and run over the file that the product wrote."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentmem import NotFound
from tests.flows.given import START, ManualClock, open_memory

PAGE = (Path(__file__).resolve().parents[2] / "docs/audit.md").read_text(encoding="utf-8")
QUERIES = dict(re.findall(r"^## (\d+)\. [^\n]+\n.*?^```sqlite\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
ASKED = {"user": "alice", "since": "2026-03-01", "until": "2026-04-01", "moment": "2026-03-02T12:00"}
Ask = Callable[[int], list[dict[str, Any]]]


def live(home: Path) -> None:
    """Three days of two users and an agent: writes, reads, a recall, a failure, a promotion and an erasure."""
    clock = ManualClock()
    with open_memory(home, clock=clock, audit_level="verbose") as alice:
        bot = alice.scoped(channel="roses", agent_id="bot", session_id="s1")
        bob = alice.scoped(user_id="bob")
        alice.store_turn("Ann keeps the garden.", turn_id="said")
        fact = bot.learn_fact("The roses in the garden want lime", confidence=0.9)
        bot.remember("roses in the garden")
        bot.semantic.facts()
        bot.semantic.promote_to_global(fact.id, "known well")
        with pytest.raises(NotFound):
            bot.forget("nothing of this name")
        clock.advance(hours=1)
        alice.store_turn("My locker opens with 4711.", turn_id="secret")
        alice.forget("secret", hard=True)
        for day, times in ((1, 1), (2, 1), (3, 8)):
            clock.time = START.replace(day=day, hour=14)
            for number in range(times):
                bob.store_turn(f"Something of day {day}, {number}.")


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Ask:
    home = tmp_path_factory.mktemp("audited") / "home"
    live(home)

    def run(number: int) -> list[dict[str, Any]]:
        with sqlite3.connect(f"file:{home / 'memory.db'}?mode=ro", uri=True) as file:
            file.row_factory = sqlite3.Row
            return [dict(row) for row in file.execute(QUERIES[str(number)], ASKED)]

    return run


def test_each_query_for_postgres_has_one_for_the_file() -> None:
    assert list(QUERIES) == re.findall(r"^## (\d+)\. ", PAGE, re.MULTILINE) == [str(n) for n in range(1, 13)]


def test_every_query_finds_what_it_says(ask: Ask) -> None:
    assert [(row["actor"], row["operation"]) for row in ask(1)][:3] == [
        ("user", "store"),
        ("bot", "learn_fact"),
        ("bot", "promote"),
    ]
    assert {row["operation"] for row in ask(1)} >= {"store", "delete"}
    recalls = ask(2)
    assert [(row["place"], row["query_text"]) for row in recalls] == [
        (1, "roses in the garden"),
        (2, "roses in the garden"),
    ]
    assert {row["why"] for row in recalls} == {"whole #1, words #1", "whole #2, words #2"}
    (promoted,) = ask(3)
    assert (promoted["promoted_from_channel"], promoted["promotion_confidence"], promoted["reason"]) == (
        "roses",
        0.9,
        "known well",
    )
    (crossed,) = ask(4)
    assert (crossed["working_in"], crossed["kind"], crossed["id"], crossed["read_from"]) == (
        "roses",
        "Turn",
        "said",
        "_global",
    )
    assert {(row["hour"], row["operation"], row["operations"]) for row in ask(5)} >= {("2026-03-03T14", "store", 8)}
    (failed,) = ask(6)
    assert (failed["operation"], failed["error"], failed["failed"]) == ("forget", "NotFound", 1)


def test_the_queries_about_users_and_agents_find_what_they_say(ask: Ask) -> None:
    operations = "store learn_fact retrieve facts promote forget store forget delete"
    assert [row["operation"] for row in ask(7)] == operations.split()
    (erased,) = ask(8)
    assert (erased["records"], json.loads(erased["ids"]), erased["operations_blanked"]) == (1, ["secret"], "store")
    agents = {row["agent"]: row for row in ask(9)}
    assert (agents["bot"]["recalls"], agents["bot"]["reads"], agents["bot"]["failed"]) == (1, 1, 1)
    (slow,) = ask(10)
    assert slow["techniques"].count(",") == 4
    (unusual,) = ask(11)
    assert (unusual["user_id"], unusual["day"], unusual["operations"], unusual["usual"]) == ("bob", "2026-03-03", 8, 1)
    (settings,) = ask(12)
    assert json.loads(settings["config_snapshot"])["audit_level"] == "verbose"
