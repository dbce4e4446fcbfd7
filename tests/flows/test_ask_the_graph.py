"""The page "Ask the graph": each of its queries on a month of a life, and whose memory a query can read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agentmem import AgentMemory
from tests.flows.given import ManualClock, engine_of, open_memory, run
from tests.servers.stack import Stack

pytestmark = pytest.mark.server("postgres", "neo4j", "redis")
PAGE = Path(__file__).parents[2] / "docs" / "ask-the-graph.md"
FIRST_DAY = datetime(2026, 3, 2, 9, tzinfo=UTC)
LAST_WEEK = {"from": "2026-03-23T00:00:00Z", "to": "2026-03-30T00:00:00Z"}
MONTH = (
    (0, "My boss is Kari Nordmann."),
    (0, "I work at Equinor."),
    (1, "My wife Anna works at Statkraft."),
    (2, "My sister Marta lives in Oslo."),
    (9, "My best friend is Jonas Lie."),
    (10, "Jonas Lie works at Statkraft."),
    (23, "My boss is Tor Berg now."),
    (24, "Marta lives in Bergen now."),
)


class LateClock(ManualClock):
    """A month ago, so that what the page calls last week is over."""


def load_queries() -> dict[str, str]:
    """The queries of the page by their headings."""
    return dict(re.findall(r"### (.+)\n\n```cypher\n(.+?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL))


QUERIES = load_queries()


@pytest.fixture(scope="module")
def life(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentMemory]:
    """A month of one user, read by rules, with goals and calls of tools."""
    stack: Stack = request.getfixturevalue("stack")
    clock = LateClock(FIRST_DAY)
    home = tmp_path_factory.mktemp("life")
    with open_memory(home, stack.user(), clock=clock, **stack.urls) as memory:
        for day, said in MONTH:
            clock.time = FIRST_DAY + timedelta(days=day)
            memory.store_turn(
                {"role": "user", "content": said, "conversation_id": f"day {day}", "timestamp": clock.time}
            )
            memory.consolidate()
        plan = memory.goals.add("Plan the summer holiday")
        memory.goals.add("Book the ferry", blocked_by=[plan.id])
        for success, why in ((True, ""), (False, "timeout"), (False, "timeout")):
            memory.procedural.log_tool_call("ferry_search", {}, success=success, error_message=why, task_type="travel")
        memory.upsert_entity({"name": "Aker"})
        run(engine_of(memory).graph_projection.catch_up(memory._inner.scope.user_id))  # type: ignore[union-attr]
        yield memory


ANSWERS: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {
    "Whom do I know, and since when?": (
        {},
        [
            {"name": "Anna", "relation": "PARTNER_OF", "since": date(2026, 3, 3)},
            {"name": "Jonas Lie", "relation": "KNOWS", "since": date(2026, 3, 11)},
            {"name": "Marta", "relation": "SIBLING_OF", "since": date(2026, 3, 4)},
            {"name": "Tor Berg", "relation": "REPORTS_TO", "since": date(2026, 3, 25)},
        ],
    ),
    "What changed last week?": (
        LAST_WEEK,
        [
            {"fact": "Marta lives in Bergen", "holds": True},
            {"fact": "Marta lives in Oslo", "holds": False},
            {"fact": "The user has a boss named Kari Nordmann", "holds": False},
            {"fact": "The user has a boss named Tor Berg", "holds": True},
        ],
    ),
    "What rests on this?": (
        {"words": "wife Anna"},
        [
            {"fact": "Anna works at Statkraft", "resting": []},
            {"fact": "The user has a wife named Anna", "resting": []},
        ],
    ),
    "Which tools failed for this kind of task?": (
        {"task": "travel"},
        [{"tool": "ferry_search", "failures": 2, "errors": ["timeout"]}],
    ),
    "What connects A and B?": (
        {"a": "Anna", "b": "Jonas Lie"},
        [{"way": ["Anna", "Statkraft", "Jonas Lie"], "relations": ["WORKS_FOR", "WORKS_FOR"]}],
    ),
    "Who was my boss in March?": ({"day": "2026-03-10T00:00:00Z"}, [{"name": "Kari Nordmann"}]),
    "Who lives where?": ({}, [{"who": "Marta", "place": "Bergen"}]),
    "What is known of somebody?": (
        {"name": "Anna"},
        [{"fact": "Anna works at Statkraft"}, {"fact": "The user has a wife named Anna"}],
    ),
    "Where did somebody come up?": (
        {"name": "Marta"},
        [
            {"conversation": "2026-03-04", "turns": 1, "last": date(2026, 3, 4)},
            {"conversation": "2026-03-26", "turns": 1, "last": date(2026, 3, 26)},
        ],
    ),
    "What was true before?": (
        {"slot": "boss"},
        [{"value": "Kari Nordmann", "until": date(2026, 3, 25)}, {"value": "Tor Berg", "until": None}],
    ),
    "Which goals are open, and what holds them up?": (
        {},
        [
            {"goal": "Book the ferry", "waits_for": ["Plan the summer holiday"]},
            {"goal": "Plan the summer holiday", "waits_for": []},
        ],
    ),
    "What hangs on nothing?": ({}, [{"title": "Aker"}]),
}


def test_the_page_has_twelve_questions() -> None:
    assert QUERIES.keys() == ANSWERS.keys()
    assert len(QUERIES) == 12


@pytest.mark.parametrize("question", ANSWERS)
def test_the_page_answers_as_people_ask(life: AgentMemory, question: str) -> None:
    parameters, rows = ANSWERS[question]
    found = life.graph.cypher(QUERIES[question], parameters)
    assert (list(found.rows), found.notices) == (rows, ())
