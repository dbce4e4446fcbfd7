"""`agentmem learn`, `correct`, `show`, `turns`, `users`, `restore`, `undo` and `erase`, on an embedded memory."""

from __future__ import annotations

from typing import Any


def test_a_fact_is_learned_corrected_shown_and_taken_back(cli: Any) -> None:
    oslo = cli.json("learn", "Mira lives in Oslo.", "--confidence", "0.9", "--tag", "home")
    assert (oslo["claim"], oslo["confidence"], oslo["tags"]) == ("Mira lives in Oslo.", 0.9, ["home"])
    rome = cli.json("correct", oslo["id"], "Mira lives in Rome.")
    assert [each["claim"] for each in cli.lines("facts")] == ["Mira lives in Rome."]
    shown = cli("show", rome["id"])
    assert shown.startswith("fact: Mira lives in Rome. (")
    assert f"operation {rome['operation_id']}" in shown
    undone = cli.json("undo", rome["operation_id"])
    assert undone["undone"] == rome["operation_id"]
    assert [each["claim"] for each in cli.lines("facts")] == ["Mira lives in Oslo."]


def test_what_was_true_until_now_is_still_found_for_then(cli: Any) -> None:
    oslo = cli.json("learn", "Mira lives in Oslo.", "--valid-from", "2024-01-01")
    cli("correct", oslo["id"], "Mira lives in Rome.", "--changed", "--valid-from", "2025-06-01")
    assert [each["claim"] for each in cli.lines("facts", "--as-of", "2025-01-01")] == ["Mira lives in Oslo."]
    assert [each["claim"] for each in cli.lines("facts")] == ["Mira lives in Rome."]


def test_turns_are_listed_forgotten_and_brought_back(cli: Any) -> None:
    assert cli("turns") == "no turns\n"
    for number in range(3):
        cli("add", f"Day {number}.", "--conversation", "trip", "--turn-id", f"t{number}")
    cli("add", "Elsewhere.", "--conversation", "home")
    assert [each["content"] for each in cli.lines("turns", "--conversation", "trip")] == ["Day 0.", "Day 1.", "Day 2."]
    assert [each["content"] for each in cli.lines("turns", "--limit", "1")] == ["Elsewhere."]
    assert "user: Day 1.\n    t1  turn 1 of conversation trip\n" in cli("turns", "--hours", "1")
    assert "    operation " in cli("forget", "t1")
    assert len(cli.lines("turns", "--conversation", "trip")) == 2
    assert "user: Day 1.\n    operation " in cli("restore", "t1")
    assert len(cli.lines("turns", "--conversation", "trip")) == 3
    assert cli.run("turns", "--conversation", "trip", "--hours", "1").exit_code == 2


def test_a_user_is_erased_after_a_yes_and_no_other(cli: Any) -> None:
    for user in ("ann", "bob"):
        cli("add", "I'm allergic to peanuts.", "--user", user)
    assert cli("users") == "ann\nbob\n"
    assert cli.run("erase", "--user", "ann", stdin="n\n").exit_code == 2
    assert cli.run("erase", "--user", "ann").exit_code == 2
    assert [each["user_id"] for each in cli.lines("users")] == ["ann", "bob"]
    receipt = cli.json("erase", "--user", "ann", "--yes")
    assert (receipt["user_id"], receipt["scan"]["leftovers"]) == ("ann", {})
    assert cli("users") == "bob\n"
    said = cli.run("erase", "--user", "bob", stdin="y\n")
    assert said.exit_code == 0
    assert "erased: everything of bob\nscanned " in said.stdout
    assert cli("users") == "no users\n"


def test_what_is_not_there_is_told(cli: Any) -> None:
    for typed in (("show", "nobody"), ("restore", "nobody"), ("undo", "nothing"), ("correct", "nobody", "It rains.")):
        refused = cli.run(*typed)
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert "error: " in refused.stderr
