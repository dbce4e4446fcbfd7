"""What `agentmem undo` needs is shown by whatever can be undone; the latest needs no id."""

from __future__ import annotations

import json
from typing import Any


def test_whatever_can_be_undone_tells_its_operation(cli: Any) -> None:
    shown = {"add": cli("add", "I live in Oslo.", "--turn-id", "t1"), "consolidate": cli("consolidate")}
    fact = cli.json("learn", "Mira lives in Rome.")
    shown["learn"] = cli("learn", "Ida lives in Rome.")
    shown["correct"] = cli("correct", fact["id"], "Mira lives in Paris.")
    shown["forget"], shown["restore"] = cli("forget", "t1"), cli("restore", "t1")
    shown["announce"] = cli("announce", "The API is down.")
    rows = {row["operation_id"] for row in cli.lines("audit", "--limit", "100")}
    told = {verb: text.rpartition("    operation ")[2].strip() for verb, text in shown.items()}
    assert [verb for verb, operation in told.items() if operation not in rows] == []
    assert all(operation in cli("audit", "--limit", "100") for operation in told.values())


def test_the_id_of_a_record_is_told_from_that_of_an_operation(cli: Any) -> None:
    fact = cli.json("learn", "Mira lives in Rome.")
    refused = cli.run("undo", fact["id"])
    assert refused.exit_code == 2
    assert f"is a fact, no operation; if it was forgotten, run: agentmem restore {fact['id']}" in refused.stderr
    assert f"agentmem undo {fact['operation_id']}" in refused.stderr


def test_the_latest_is_undone_then_the_one_before(cli: Any) -> None:
    first = cli.json("learn", "Mira lives in Rome.")
    cli("learn", "Ida is five.")
    assert "learn_fact of " in (said := cli("undo", "--last"))
    assert "Ida is five." in said
    assert json.loads(cli("undo", "--last", "--json"))["undone"] == first["operation_id"]
    assert cli("facts") == "no facts\n"
    refused = cli.run("undo", "--last")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "can be undone" in refused.stderr


def test_what_cannot_be_undone_is_passed_over(cli: Any) -> None:
    kept, gone = cli.json("learn", "Mira lives in Rome."), cli.json("learn", "Ida is five.")
    cli("forget", gone["id"], "--hard", "--yes")
    assert json.loads(cli("undo", "--last", "--json"))["undone"] == kept["operation_id"]


def test_one_operation_is_named_or_the_last_one(cli: Any) -> None:
    assert [cli.run(*typed).exit_code for typed in (["undo"], ["undo", "x", "--last"])] == [2, 2]
