"""The everyday commands on a real store: what they keep, what they find, what they say."""

from __future__ import annotations

from typing import Any

import pytest

from agentmem import AgentMemory


def test_a_turn_is_stored_and_found(cli: Any) -> None:
    turn = cli.json("add", "I'm allergic to peanuts.", "--speaker", "Aiko", "--timestamp", "2025-03-08T18:14:00+01:00")
    assert (turn["kind"], turn["role"], turn["timestamp"]) == ("Turn", "user", "2025-03-08T18:14:00+01:00")
    shown = cli("remember", "who is allergic?", "--why")
    assert " 1. 2025-03-08 18:14+01:00 Aiko: I'm allergic to peanuts." in shown
    assert f"turn {turn['id']}" in shown
    assert "words #1" in shown
    assert "words #1" not in cli("remember", "who is allergic?")
    assert "I'm allergic to peanuts." in cli("context", "who is allergic?")


def test_standard_input_is_a_turn_and_a_question(cli: Any) -> None:
    cli("add", "-", "--conversation", "log", stdin="Fixed the bell.\nIt rings again.\n")
    found = cli.json("remember", "bell")["items"][0]["record"]
    assert found["content"] == "Fixed the bell.\nIt rings again.\n"
    assert found["conversation_id"] == "log"
    assert "Fixed the bell. It rings again." in cli("remember", "-", stdin="bell")
    assert "Fixed the bell." in cli("context", "-", stdin="bell")


def test_the_same_turn_is_stored_once_and_another_under_its_id_refused(cli: Any) -> None:
    first = cli("add", "Noted.", "--turn-id", "t1", "--conversation", "c")
    assert cli("add", "Noted.", "--turn-id", "t1", "--conversation", "c") == first
    refused = cli.run("add", "Not noted.", "--turn-id", "t1", "--conversation", "c")
    assert refused.exit_code == 2
    assert "agentmem: error: " in refused.stderr


@pytest.mark.parametrize(
    "typed, field",
    [
        (["add", "  "], "content"),
        (["add", "hi", "--speaker", "x" * 201], "speaker"),
        (["add", "hi", "--user", " "], "user_id"),
        (["remember", " "], "query"),
        (["remember", "q", "--top-k", "0"], "top_k"),
        (["remember", "q", "--since", "2025-02-01", "--until", "2025-01-01"], "since"),
        (["forget", "nothing"], "nothing"),
        (["facts", "--history", "nothing"], "nothing"),
        (["add", "hi", "--embedder", "nobody:x"], "embedder"),
    ],
)
def test_bad_input_is_refused_with_the_field(cli: Any, typed: list[str], field: str) -> None:
    result = cli.run(*typed)
    assert result.exit_code == 2
    assert result.stderr.startswith("agentmem: error: ")
    assert field in result.stderr
    assert result.stdout == ""


def test_users_and_channels_are_apart(cli: Any) -> None:
    cli("add", "The alarm code is 4711.", "--user", "alice", "--channel", "house")
    assert "4711" in cli("remember", "alarm code", "--user", "alice", "--channel", "house")
    assert cli("remember", "alarm code", "--user", "alice") == "nothing found\n"
    assert "4711" in cli("remember", "alarm code", "--user", "alice", "--channels", "house,_swarm")
    assert cli("remember", "alarm code", "--user", "bob", "--channel", "house") == "nothing found\n"
    cli("add", "I should be brief.", "--channel", "_self_scout")
    assert "brief" in cli("remember", "how to be", "--channel", "_self_scout")


def test_a_recall_can_be_narrowed(cli: Any) -> None:
    for day in ("2025-01-05", "2025-02-05", "2025-03-05"):
        cli("add", f"Watered the fern on {day}.", "--timestamp", day)

    def days(*args: str) -> set[str]:
        return {item["record"]["timestamp"][:10] for item in cli.json("remember", "fern", *args)["items"]}

    assert days() == {"2025-01-05", "2025-02-05", "2025-03-05"}
    assert days("--since", "2025-02-01") == {"2025-02-05", "2025-03-05"}
    assert days("--until", "2025-02-05") == {"2025-01-05"}
    assert days("--as-of", "2025-02-20") == {"2025-01-05", "2025-02-05"}
    assert days("--known-at", "2025-01-01") == set()
    assert days("--include", "semantic") == set()
    assert len(days("--top-k", "2", "--techniques", "keyword")) == 2


def test_only_a_recall_that_reinforces_counts(cli: Any) -> None:
    turn = cli.json("add", "The key is under the pot.")

    def deliveries() -> int:
        rows = cli.lines("export")
        return sum(row["access_count"] for row in rows if row.get("type") == "usage" and row["id"] == turn["id"])

    cli("remember", "key", "--no-reinforce")
    assert deliveries() == 0
    cli("remember", "key")
    assert deliveries() == 1


def test_facts_are_listed_with_their_history(cli: Any) -> None:
    assert cli("facts") == "no facts\n"
    assert cli("facts", "--json") == ""
    with AgentMemory("default", home=cli.home, embedder="hash") as memory:
        old = memory.learn_fact("Mira works in Basel.", tags=["work"])
        memory.learn_fact("Aiko is allergic to peanuts.", tags=["diet"])
        new = memory.semantic.supersede_fact(old.id, "Mira works in Utrecht.")
    assert [fact["claim"] for fact in cli.lines("facts")] == ["Aiko is allergic to peanuts.", "Mira works in Utrecht."]
    assert [fact["claim"] for fact in cli.lines("facts", "--tag", "work")] == ["Mira works in Utrecht."]
    assert len(cli.lines("facts", "--limit", "1")) == 1
    everything = cli("facts", "--all")
    assert "Mira works in Basel. (confidence 0.80, until " in everything
    assert "superseded)" in everything
    assert "#work" in everything
    claims = [fact["claim"] for fact in cli.lines("facts", "--history", new.id)]
    assert claims[0] == "Mira works in Basel."
    assert claims[-1] == "Mira works in Utrecht." or "Mira works in Utrecht." in claims


def test_what_is_forgotten_is_found_no_more(cli: Any) -> None:
    turn = cli.json("add", "My locker is number 12.")
    assert cli("forget", turn["id"], "--reason", "moved").startswith(f"forgotten: {turn['id']}\n")
    assert cli("remember", "locker") == "nothing found\n"
    assert cli.run("forget", turn["id"]).exit_code == 2


def test_an_erasure_asks_first_and_shows_the_scan(cli: Any) -> None:
    turn = cli.json("add", "My locker is number 12.")
    unsure = cli.run("forget", turn["id"], "--hard", stdin="n\n")
    assert unsure.exit_code == 2
    assert "nothing was erased" in unsure.stderr
    assert cli.run("forget", turn["id"], "--hard").exit_code == 2
    assert "locker" in cli("remember", "locker")
    told = cli("forget", turn["id"], "--hard", stdin="y\n")
    assert told.startswith(f"erased: {turn['id']}\nscanned ")
    assert "nothing left" in told
    again = cli.json("add", "My locker is number 13.")
    receipt = cli.json("forget", again["id"], "--hard", "--yes")
    assert (receipt["hard"], receipt["ids"], receipt["scan"]["leftovers"]) == (True, [again["id"]], {})


def test_the_audit_log_is_listed_newest_first(cli: Any) -> None:
    turn = cli.json("add", "One.")
    cli("forget", turn["id"])
    assert [row["operation"] for row in cli.lines("audit")] == ["forget", "store"]
    assert [row["operation"] for row in cli.lines("audit", "--operation", "store")] == ["store"]
    assert len(cli.lines("audit", "--limit", "1")) == 1
    assert cli("audit", "--until", "2000-01-01") == "no rows\n"
    assert "store 1 record " in cli("audit").splitlines()[1]


def test_notices_are_told_once_and_beside_the_answer(cli: Any) -> None:
    cli("add", "One.")
    result = cli.run("remember", "One", "--embedder", "hash:v1:64", "--json")
    notes = [line for line in result.stderr.splitlines() if line.startswith("agentmem: note: ")]
    assert len(notes) == len(set(notes)) == 1
    assert "rebuild" in notes[0]
    assert result.stdout.startswith("{")


def test_the_same_script_prints_the_same_bytes(other_home: Any) -> None:
    def script(name: str) -> list[str]:
        cli = other_home(name)
        fixed = ("--seed", "7", "--now", "2025-07-01T12:00:00Z")
        said = [cli("add", text, *fixed) for text in ("Biscuit is a beagle.", "Pickle is a cat.")]
        asked = [cli(verb, "who is Biscuit?", "--json", *fixed) for verb in ("remember", "context")]
        return [*said, *asked, cli("audit", "--json", *fixed), cli("export", *fixed)]

    first = script("first")
    assert first == script("second")
    assert len(set(first[:2])) == 2


def test_the_profile_tells_what_is_held_of_the_user(cli: Any) -> None:
    assert "nothing is held" in cli("profile")
    cli("learn", "The user lives in Oslo.", "--slot", "home", "--value", "Oslo")
    assert cli("profile").startswith("home: Oslo")
    (belief,) = cli.json("profile")["beliefs"]
    assert belief["current"][0]["value"] == "Oslo"
