"""`agentmem goals`, `schedules` and `announce`: thin over the verbs."""

from __future__ import annotations

from typing import Any

import pytest

NOW = ("--now", "2026-03-01T12:00:00Z")


def test_goals_are_added_ordered_and_ended(cli: Any) -> None:
    assert cli("goals") == "no goals\n"
    trip = cli.json("goals", "add", "Go to\x1b[31m Oslo", "--priority", "5", "--deadline", "2026-02-01", *NOW)
    flight = cli.json("goals", "add", "Book a flight", "--parent", trip["id"])
    assert cli("goals", "block", trip["id"], "--by", flight["id"]).startswith("blocked: Go to")
    shown = cli("goals", *NOW)
    assert "[31m Oslo (blocked, priority 5, overdue since 2026-02-01 00:00)\n" in shown
    assert f"    waits for {flight['id']}\n    {trip['id']}\nBook a flight (active, priority 3)\n" in shown
    assert "\x1b" not in shown
    assert f"    part of {trip['id']}\n" in shown
    refused = cli.run("goals", "block", flight["id"], "--by", trip["id"])
    assert (refused.exit_code, "a circle" in refused.stderr) == (2, True)
    assert cli("goals", "unblock", trip["id"]).startswith("active: ")
    assert cli.run("goals", "complete", trip["id"]).exit_code == 2
    done = cli.json("goals", "complete", trip["id"], "--result", "lovely", "--cascade")
    assert (done["goal_status"], done["result"]) == ("completed", "lovely")
    assert "    result: lovely\n" in cli("goals", "--status", "completed")
    assert [goal["goal_status"] for goal in cli.lines("goals", "--status", "abandoned")] == ["abandoned"]
    assert cli.lines("goals") == []
    other = cli.json("goals", "add", "Rest")
    assert cli("goals", "abandon", other["id"]).startswith("abandoned: Rest")


@pytest.mark.parametrize(
    "typed, why",
    [
        (["add", "x", "complete", "y"], "unexpected extra arguments"),
        (["complete", "x", "--by", "y"], "--by"),
        (["block", "x"], "--by"),
        (["finish", "x"], "No such command 'finish'"),
        (["complet", "x"], "Did you mean: agentmem goals complete?"),
        (["add", "x", "--priority", "9"], "priority"),
    ],
)
def test_what_goals_cannot_do_is_said(cli: Any, typed: list[str], why: str) -> None:
    refused = cli.run("goals", *typed)
    assert (refused.exit_code, why in refused.stderr) == (2, True)


def test_prompts_are_scheduled_paused_and_removed(cli: Any) -> None:
    assert cli("schedules") == "no schedules\n"
    said = cli(
        "schedules", "add", "summary", "--cron", "0 9 * * *", "--prompt", "Sum up", "--timezone", "Europe/Oslo", *NOW
    )
    assert said == "summary: next 2026-03-02 08:00\n"
    cli("schedules", "add", "pulse", "--every", "300", "--source", "bot", *NOW)
    assert cli("schedules").splitlines()[0] == "pulse (every 300 s; next 2026-03-01 12:05)"
    assert "summary (0 9 * * * Europe/Oslo; next 2026-03-02 08:00) Sum up\n    by user, last -, " in cli("schedules")
    assert cli("schedules", "--due", *NOW) == "nothing is due\n"
    assert [row["name"] for row in cli.lines("schedules", "--due", "--now", "2026-03-01T12:05:00Z")] == ["pulse"]
    assert "not due" in cli.run("schedules", "take", "summary", *NOW).stderr
    assert cli("schedules", "take", "summary", "--now", "2026-03-02T08:00:00Z") == "Sum up\n"
    assert "not due" in cli.run("schedules", "take", "summary", "--now", "2026-03-02T08:00:00Z").stderr
    assert cli("schedules", "pause", "pulse") == "pulse: paused\n"
    assert cli("schedules", "resume", "pulse", *NOW) == "pulse: next 2026-03-01 12:05\n"
    assert cli("schedules", "remove", "pulse") == "pulse: removed\n"
    assert [row["name"] for row in cli.lines("schedules")] == ["summary"]
    for wrong in (["add", "x", "--cron", "9"], ["pause", "pulse"], ["list", "--due", "pause"]):
        assert cli.run("schedules", *wrong).exit_code == 2


def test_an_announcement_is_told_to_all_agents(cli: Any) -> None:
    said = cli("announce", "Tea is ready", "--expires-in", "3600", *NOW)
    assert said.startswith("announced ")
    assert ", until 2026-03-01 13:00: Tea is ready\n    operation " in said
    assert cli("announce", "-", *NOW, stdin="Cake, too").count(": Cake, too\n    operation ") == 1
    assert [fact["claim"] for fact in cli.lines("facts", "--tag", "announcement", *NOW)] == [
        "Tea is ready",
        "Cake, too",
    ]
    assert cli.run("announce", "x", "--expires-in", "0").exit_code == 2


@pytest.mark.parametrize(
    "words, due",
    [
        ("tomorrow", "2026-03-02T23:59:59+00:00"),
        ("in three days", "2026-03-04T23:59:59+00:00"),
        ("2026-05-01", "2026-05-01T00:00:00+00:00"),
        ("2026-05-01T18:00:00+02:00", "2026-05-01T16:00:00+00:00"),
    ],
)
def test_a_deadline_may_be_said_in_words(cli: Any, words: str, due: str) -> None:
    goal = cli.json("goals", "add", "Call the bank", "--deadline", words, *NOW)
    assert goal["deadline"].replace("Z", "+00:00") == due


def test_a_deadline_that_is_none_is_refused(cli: Any) -> None:
    result = cli.run("goals", "add", "Call the bank", "--deadline", "whenever")
    assert result.exit_code == 2
    assert "'whenever' is not a time such as" in result.stderr
