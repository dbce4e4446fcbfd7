"""What is true now comes first, and what was is marked, through every surface: one story of three lines."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client

from agentmem import AsyncAgentMemory
from agentmem.server.mcp.server import build_mcp_server
from tests.surfaces.conftest import Cli

STORY = [
    ("2026-01-12", "I live in Bergen."),
    ("2026-03-02", "The soup needs salt."),
    ("2026-06-10", "I live in Oslo now."),
]
QUESTION = "Where do I live?"
MARK = "outdated since 10 Jun 2026"


@pytest.fixture
async def memory(home: Path) -> AsyncIterator[AsyncAgentMemory]:
    async with AsyncAgentMemory("ann", home=home, embedder="hash") as opened:
        yield opened


async def tell(memory: AsyncAgentMemory) -> None:
    for day, text in STORY:
        await memory.store_turn(text, timestamp=datetime.fromisoformat(day).replace(tzinfo=UTC))
    await memory.consolidate()


async def test_python_tells_oslo_first_and_marks_bergen(memory: AsyncAgentMemory) -> None:
    await tell(memory)
    found = await memory.remember(QUESTION)
    first, marked = found.items[0], next(each for each in found if "Bergen" in each.record.search_text())
    assert "Oslo" in first.record.search_text()
    assert (first.standing.state, str(marked.standing)) == ("current", MARK)
    assert (marked.standing.state, marked.standing.slot, marked.standing.value) == ("outdated", "home", "Oslo")
    oslo = next(turn for turn in found.turns if "Oslo" in turn.content)
    assert (marked.standing.by, marked.standing.since) == (oslo.id, datetime(2026, 6, 10, tzinfo=UTC))
    before = (await memory.remember("Where did I live before?")).items[0]
    assert "Bergen" in before.record.search_text()
    assert "Bergen" in (await memory.remember("Where did I live in February 2026?")).items[0].record.search_text()
    assert (
        "Bergen"
        in (await memory.remember(QUESTION, as_of=datetime(2026, 3, 1, tzinfo=UTC))).items[0].record.search_text()
    )


async def test_a_context_marks_what_is_outdated(memory: AsyncAgentMemory) -> None:
    await tell(memory)
    for text in ((await memory.context(QUESTION)).text, (await memory.remember(QUESTION)).to_context()):
        lines = text.splitlines()
        assert [line for line in lines if "live in Bergen" in line] == [f"user: I live in Bergen. [{MARK}]"]
        assert text.index("Oslo") < text.index("live in Bergen")


async def test_rest_tells_how_each_hit_stands(client: Any) -> None:
    for day, text in STORY:
        await client.post("/v1/turns", json={"content": text, "timestamp": f"{day}T00:00:00Z"})
    await client.post("/v1/jobs/run", json={})
    items = (await client.post("/v1/recall", json={"query": QUESTION})).json()["items"]
    assert "Oslo" in str(items[0]["record"])
    bergen = next(each for each in items if "Bergen" in each["record"].get("content", ""))
    oslo = next(each for each in items if "Oslo" in each["record"].get("content", ""))
    assert (bergen["standing"], bergen["standing_by"]) == (MARK, oslo["record"]["id"])
    assert (oslo["standing"], oslo["standing_by"]) == ("current", None)


async def test_mcp_tells_how_each_result_stands(memory: AsyncAgentMemory) -> None:
    await tell(memory)
    async with Client(build_mcp_server(lambda *_: memory)) as client:
        answer = await client.call_tool("search_memory", {"query": QUESTION})
    results = answer.structured_content["results"]
    assert "Oslo" in results[0]["text"]
    assert [each["standing"] for each in results if "live in Bergen" in each["text"]] == [MARK]


def test_the_command_line_marks_what_is_outdated(cli: Cli) -> None:
    for day, text in STORY:
        cli("add", text, "--timestamp", day)
    cli("consolidate")
    lines = cli("remember", QUESTION).splitlines()
    assert "Oslo" in lines[0]
    assert [f"[{MARK}]" in line for line in lines if "live in Bergen" in line] == [True]
    items = cli.json("remember", QUESTION)["items"]
    assert [each["standing"] for each in items if "live in Bergen" in str(each["record"])] == [MARK]


async def test_contexts_and_beliefs_agree_on_a_moment(memory: AsyncAgentMemory) -> None:
    await tell(memory)
    march, july = datetime(2026, 3, 10, tzinfo=UTC), datetime(2026, 7, 1, tzinfo=UTC)
    for moment, home, other in ((march, "Bergen", "I live in Oslo now."), (july, "Oslo", "I live in Bergen.")):
        text = (await memory.context(QUESTION, as_of=moment)).text
        (held,) = await memory.beliefs("user", "home", as_of=moment)
        assert [fact.value for fact in held.current] == [home]
        assert f"- home: {home}" in text
        assert (f"{other} [{MARK}]" in text) == (moment is july)
    assert "I live in Oslo now." not in (await memory.context(QUESTION, as_of=march)).text
