"""The page "Ask the graph": each of its queries on a month of a life, and whose memory a query can read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agentmem import AgentMemory
from tests.flows.given import ManualClock, context_of, engine_of, open_memory, run
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
    (9, "My best friend Jonas Lie works at Statkraft."),
    (23, "My boss is Tor Berg now."),
    (24, "Marta lives in Bergen now."),
)


def load_queries() -> dict[str, str]:
    """The queries of the page by their headings."""
    return dict(re.findall(r"### ([^\n]+)\n\n```cypher\n(.+?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL))


QUERIES = load_queries()


@pytest.fixture
def life(home: Path, stack: Stack) -> Iterator[AgentMemory]:
    """A month of one user, read by rules, with goals and calls of tools."""
    clock = ManualClock(FIRST_DAY)
    with open_memory(home, stack.user(), clock=clock, **stack.urls) as memory:
        for day, said in MONTH:
            clock.time = FIRST_DAY + timedelta(days=day)
            memory.store_turn(
                {"role": "user", "content": said, "conversation_id": f"day {day}", "timestamp": clock.time}
            )
            memory.consolidate()
        plan = memory.add_goal("Plan the summer holiday")
        memory.add_goal({"description": "Book the ferry", "blocked_by": [plan.id]})
        for success, why in ((True, ""), (False, "timeout"), (False, "timeout")):
            call = {"success": success, "error_message": why, "task_type": "travel"}
            memory.procedural.record_invocation("ferry_search", **call)
        memory.upsert_entity({"name": "Aker"})
        run(engine_of(memory).graph_projection.sync_fully(context_of(memory).scope))
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


def test_the_page_answers_as_people_ask(life: AgentMemory) -> None:
    found = {question: life.graph.cypher(QUERIES[question], values) for question, (values, _) in ANSWERS.items()}
    assert {question: list(answer.rows) for question, answer in found.items()} == {
        question: rows for question, (_, rows) in ANSWERS.items()
    }
    assert not [answer.notices for answer in found.values() if answer.notices]
