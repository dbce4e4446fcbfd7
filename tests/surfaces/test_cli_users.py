"""Whose memory is asked: where the user has nothing and others have, the answer says so."""

from __future__ import annotations

from typing import Any

import pytest

READING = [
    "remember oslo",
    "context oslo",
    "turns",
    "facts",
    "beliefs",
    "stats",
    "consolidate",
    "audit",
    "export",
    "goals",
    "procedures",
    "tools",
    "reviews",
    "schedules",
    "curate queue",
    "show t1",
    "forget t1",
    "restore t1",
    "undo x",
    "correct t1 It",
]


def test_who_asks_for_a_user_without_records_is_told_who_has_some(cli: Any) -> None:
    told = "nothing is stored for default"
    assert told not in cli.run("turns").stderr  # nobody has any
    cli("add", "Alice lives in Oslo.", "--user", "alice", "--turn-id", "t1")
    missing = [line for line in READING if f"note: {told}; users here: alice\n" not in cli.run(*line.split()).stderr]
    assert missing == []
    assert told not in cli.run("users").stderr + cli.run("turns", "--user", "alice").stderr
    cli("add", "Here I am.")
    assert told not in cli.run("turns").stderr


@pytest.mark.parametrize("typed", ["allice", "Alice"])
def test_of_many_users_the_most_alike_names_come_first(cli: Any, typed: str) -> None:
    for user in ("aaron", "abe", "ada", "amy", "ann", "alice"):
        cli("add", "Hello.", "--user", user)
    told = cli.run("facts", "--user", typed).stderr
    assert f"nothing is stored for {typed}; users here: alice, " in told
    assert told.endswith(" and others; see agentmem users\n")
    assert told.count(",") == 4
