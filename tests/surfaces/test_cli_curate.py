"""`agentmem curate`: thin over memory.curation."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from agentmem import AgentMemory, Fact
from tests.flows.given import START, ManualClock

LATER = "2026-03-07T12:00:00Z"


@pytest.fixture
def facts(cli: Any) -> list[Fact]:
    """Two that say the same, one of a project, and one that is about to be forgotten on the 7th."""
    clock = ManualClock(START - timedelta(seconds=1))
    with AgentMemory("default", home=cli.home, embedder="hash", clock=clock, seed=7) as memory:
        roof = memory.scoped(channel="roof")
        oldest = memory.learn_fact("Ann likes a strong black coffee in the morning")
        clock.advance(seconds=1)
        return [
            oldest,
            memory.learn_fact("Ann likes the strong black coffee in the morning"),
            roof.learn_fact("The roof is blue"),
            memory.learn_fact("The plumber comes on Friday", tier="short"),
        ]


def test_the_queue_and_a_touch(cli: Any, facts: list[Fact]) -> None:
    assert cli("curate", "queue", "--now", "2026-03-01T12:00:00Z") == "nothing is about to be forgotten\n"
    said = cli("curate", "queue", "--now", LATER)
    assert said.startswith("1.00  score 0.25  The plumber comes on Friday (confidence 0.80)\n")
    (row,) = cli.json("curate", "queue", "--now", LATER)
    assert (row["fact"]["id"], row["score"]) == (facts[3].id, 0.25)
    assert cli("curate", "touch", facts[3].id, "--now", LATER) == "score 0.25, now 1.52\n"
    assert cli("curate", "queue", "--now", LATER) == "nothing is about to be forgotten\n"
    more = cli.json("curate", "touch", facts[3].id, "--boost", "0.5", "--now", LATER)
    assert more["after"] == pytest.approx(1.5 * 3**0.6)


def test_clusters_are_listed_and_merged(cli: Any, facts: list[Fact]) -> None:
    said = cli("curate", "clusters")
    assert said.startswith("merge: cohesion 1.00, 2 facts\n    Ann likes a strong black coffee in the morning")
    assert [cluster["action"] for cluster in cli.json("curate", "clusters")] == ["merge"]
    merged = cli("curate", "merge", facts[0].id, facts[1].id)
    assert merged.startswith(
        f"merged into {facts[0].id}: Ann likes a strong black coffee in the morning\n    operation "
    )
    assert cli("curate", "clusters") == "no facts that may say the same\n"


def test_promotion_by_hand_and_by_merit(cli: Any, facts: list[Fact]) -> None:
    said = cli("curate", "promote", facts[3].id, "--reason", "a good plumber")
    assert said.startswith("kept for long: The plumber comes on Friday\n    operation ")
    assert "promoted before" in cli("curate", "promote", facts[3].id)
    said = cli("curate", "promote", facts[2].id, "--channel", "roof", "--to", "global")
    assert said.startswith("known in every channel: The roof is blue\n")
    assert cli("curate", "promote", "--dry-run") == "would be: nothing to do\n"
    assert cli.json("curate", "promote")["counts"] == {}


def test_what_faded_is_put_away(cli: Any, facts: list[Fact]) -> None:
    now = ("--now", "2026-03-31T12:00:00Z")
    (foreseen, done) = (cli.json("curate", "gc", *more, *now) for more in (("--dry-run",), ()))
    assert foreseen["counts"] == done["counts"] != {}
    assert (foreseen["operation_ids"], len(done["operation_ids"])) == ([], 1)
    assert cli("curate", "gc", *now) == "nothing to do\n"


@pytest.mark.parametrize(
    "args, said",
    [
        (("touch",), "Missing argument 'ID'"),
        (("merge", "a"), "merge takes two IDs or more"),
        (("queue", "a"), "unexpected extra argument"),
        (("promote", "a", "b"), "unexpected extra argument"),
        (("merge", "a", "b", "--dry-run"), "--dry-run"),
        (("promote", "a", "--dry-run"), "--dry-run goes without an ID"),
        (("touch", "none"), "no Fact 'none'"),
    ],
)
def test_what_makes_no_sense_is_refused(cli: Any, args: tuple[str, ...], said: str) -> None:
    result = cli.run("curate", *args)
    assert (result.exit_code, said in result.stderr) == (2, True), result.output
