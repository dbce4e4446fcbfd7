"""The memory as MCP tools: what they give, how they refuse, and that several programs share one file."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
import uvicorn
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from agentmem import AsyncAgentMemory
from agentmem.server.mcp.core_tools import CORE_TOOLS
from agentmem.server.mcp.server import TOOL_SETS, build_mcp_server
from agentmem.server.mcp.tools import ToolFailure
from tests.surfaces.conftest import build_quick_app

MAX_SCHEMA_TOKENS = 1500
AGENTMEM = str(Path(sys.executable).with_name("agentmem"))


@pytest.fixture
async def memory(home: Path) -> AsyncIterator[AsyncAgentMemory]:
    async with AsyncAgentMemory("ann", home=home, embedder="hash") as opened:
        yield opened


async def call(client: Any, name: str, **arguments: Any) -> Any:
    """The structured result of a tool."""
    answer = await client.call_tool(name, arguments)
    assert not answer.is_error, answer.content
    assert json.loads(answer.content[0].text) == answer.structured_content
    return answer.structured_content


async def refusal(client: Any, name: str, **arguments: Any) -> str:
    """What a tool says when it fails."""
    answer = await client.call_tool(name, arguments)
    assert answer.is_error
    return str(answer.content[0].text)


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_a_model_stores_searches_corrects_and_forgets(memory: AsyncAgentMemory, era: str) -> None:
    async with Client(build_mcp_server(lambda *_: memory), mode=era) as client:
        turn = await call(client, "store_turn", text="I am allergic to peanuts.")
        more = await call(client, "store_turn", text="And I live in Oslo.", conversation_id=turn["conversation_id"])
        assert more["conversation_id"] == turn["conversation_id"]
        found = await call(client, "search_memory", query="what is the user allergic to?")
        first = found["results"][0]
        assert (first["id"], first["kind"], first["text"]) == (turn["id"], "turn", "user: I am allergic to peanuts.")
        assert first["when"]
        assert first["why"] == "close in meaning, shares words with the query"
        fact = await call(client, "learn_fact", claim="The user lives in Oslo.")
        moved = await call(client, "learn_fact", claim="The user lives in Rome.", replaces=fact["id"])
        assert [each.claim for each in await memory.semantic.facts()] == ["The user lives in Rome."]
        assert "Rome" in (await call(client, "get_context", query="where does the user live?"))["context"]
        assert (await call(client, "forget_memory", id=moved["id"]))["ids"] == [moved["id"]]
        assert await call(client, "review_memory") == {"open": [], "decided": ""}


async def test_a_failure_says_what_to_do(memory: AsyncAgentMemory) -> None:
    async with Client(build_mcp_server(lambda *_: memory)) as client:
        assert await refusal(client, "search_memory") == (
            "query is missing. Arguments are: query, limit (optional), as_of (optional)."
        )
        assert "user is unknown" in await refusal(client, "search_memory", query="?", user="bob")
        assert "as_of is wrong" in await refusal(client, "search_memory", query="?", as_of="soon")
        assert (
            await refusal(client, "search_memory", query="?", limit=1000)
            == "limit must be between 1 and 100, got 1000. Correct the argument and call again."
        )
        assert "Search for the record first" in await refusal(client, "forget_memory", id="nobody")
        assert "Tools are: search_memory, " in await refusal(client, "drop_everything")
    assert await memory.episodic.recent_turns() == []


async def test_a_bug_is_told_without_its_words(memory: AsyncAgentMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    async def failing(*_: object, **__: object) -> None:
        raise RuntimeError("the secret word")

    monkeypatch.setattr(AsyncAgentMemory, "remember", failing)
    async with Client(build_mcp_server(lambda *_: memory)) as client:
        said = await refusal(client, "search_memory", query="?")
    assert "The memory failed" in said
    assert "secret" not in said


async def test_a_bug_in_a_resource_is_told_without_its_words(
    memory: AsyncAgentMemory, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def failing(*_: object, **__: object) -> None:
        raise RuntimeError("the secret word")

    monkeypatch.setattr(AsyncAgentMemory, "profile", failing)
    async with Client(build_mcp_server(lambda *_: memory)) as client:
        with pytest.raises(MCPError, match="The memory failed") as refused:
            await client.read_resource("memory://profile")
    assert refused.value.error.code == -32603
    assert "secret" not in str(refused.value.error) + caplog.text
    assert "Traceback" not in caplog.text
    events = [json.loads(line) for line in caplog.messages if line.startswith("{")]
    assert [event["error"] for event in events if event["event"] == "resource_failed"] == ["RuntimeError"]


async def test_a_resource_that_a_caller_may_not_read_is_refused_with_the_reason(memory: AsyncAgentMemory) -> None:
    def refuse(*_: object) -> AsyncAgentMemory:
        raise ToolFailure("the key has no permission to read")

    async with Client(build_mcp_server(refuse)) as client:
        with pytest.raises(MCPError, match="no permission to read") as refused:
            await client.read_resource("memory://profile")
    assert refused.value.error.code == -32602


async def test_every_tool_has_hints_schemas_and_few_tokens(memory: AsyncAgentMemory) -> None:
    async with Client(build_mcp_server(lambda *_: memory)) as client:
        tools = (await client.list_tools()).tools
    assert [tool.name for tool in tools] == [tool.name for tool in CORE_TOOLS]
    for tool in tools:
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint is not None
        assert tool.output_schema is not None
        assert "title" not in tool.input_schema
    shown = [{"name": each.name, "description": each.description, "inputSchema": each.input_schema} for each in tools]
    assert len(json.dumps(shown, separators=(",", ":"))) / 4 <= MAX_SCHEMA_TOKENS


async def test_chatgpt_searches_and_fetches(memory: AsyncAgentMemory) -> None:
    turn = await memory.store_turn("I am allergic to peanuts.")
    async with Client(build_mcp_server(lambda *_: memory, TOOL_SETS["chatgpt"])) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["search", "fetch"]
        (hit,) = (await call(client, "search", query="peanuts"))["results"]
        assert (hit["id"], hit["url"]) == (turn.id, f"memory://records/{turn.id}")
        document = await call(client, "fetch", id=turn.id)
        assert (document["text"], document["metadata"]["kind"]) == ("user: I am allergic to peanuts.", "turn")
        assert "NotFound" in await refusal(client, "fetch", id="nobody")


async def test_resources_show_the_profile_goals_conversations_and_one_record(memory: AsyncAgentMemory) -> None:
    turn = await memory.store_turn("I am allergic to peanuts.")
    fact = await memory.learn_fact("Ann is allergic to peanuts.", source_turn_ids=[turn.id])
    goal = await memory.add_goal("Find a safe cake")
    await memory.update_profile(preferences={"tone": "short"})
    await memory.learn_fact("The user lives in Oslo", slot="home", value="Oslo")

    async with Client(build_mcp_server(lambda *_: memory)) as client:

        async def read(uri: str) -> Any:
            (content,) = (await client.read_resource(uri)).contents
            return json.loads(content.text)

        listed = [str(each.uri) for each in (await client.list_resources()).resources]
        profile = (await read("memory://profile"))["profile"]
        assert profile["preferences"] == {"tone": "short"}
        assert [(each["slot"], each["current"][0]["value"]) for each in profile["beliefs"]] == [("home", "Oslo")]
        assert [each["id"] for each in await read("memory://goals")] == [goal.id]
        assert [each["id"] for each in await read("memory://conversations")] == [turn.conversation_id]
        assert [each["id"] for each in await read(f"memory://conversations/{turn.conversation_id}")] == [turn.id]
        shown = await read(f"memory://records/{fact.id}")
        assert (shown["record"]["kind"], [each["id"] for each in shown["sources"]]) == ("Fact", [turn.id])
        for unknown in ("memory://records/nobody", "memory://nothing", "file:///etc/passwd"):
            with pytest.raises(MCPError, match="There is no resource"):
                await client.read_resource(unknown)
        with pytest.raises(MCPError, match="at most 200 characters") as refused:
            await client.read_resource(f"memory://records/{'x' * 1000}")
        assert refused.value.error.code == -32602
    assert listed == ["memory://profile", "memory://goals", "memory://conversations", "memory://knowledge-graph"]


async def test_prompts_begin_and_end_a_session(memory: AsyncAgentMemory) -> None:
    async with Client(build_mcp_server(lambda *_: memory)) as client:
        prompts = (await client.list_prompts()).prompts
        assert [prompt.name for prompt in prompts] == ["start_session", "end_session", "resolve_reviews"]
        assert all(prompt.description for prompt in prompts)
        begun = await client.get_prompt("start_session", {"task": "the trip to {task} Lisbon"})
        assert "the trip to {task} Lisbon" in str(begun.messages[0].content)
        for name, said in (("start_session", "task is missing"), ("other", "There is no prompt")):
            with pytest.raises(MCPError, match=said):
                await client.get_prompt(name)


async def test_what_a_call_logs_carries_the_trace_of_its_meta(caplog: pytest.LogCaptureFixture) -> None:
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    meta: Any = {"traceparent": f"00-{trace}-00f067aa0ba902b7-01"}
    broken: Any = None
    async with Client(build_mcp_server(lambda *_: broken)) as client:
        answer = await client.call_tool("search_memory", {"query": "?"}, meta=meta)
    assert answer.is_error
    events = [json.loads(line) for line in caplog.messages if line.startswith("{")]
    assert [event["trace_id"] for event in events if event["event"] == "tool_failed"] == [trace]


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_over_http_the_header_says_whose_memory_it_is(home: Path, era: str) -> None:
    app = build_quick_app(AsyncAgentMemory("ann", home=home, embedder="hash"))
    config = uvicorn.Config(app, port=0, log_config=None, lifespan="on")
    server, listening = uvicorn.Server(config), config.bind_socket()
    running = asyncio.ensure_future(server.serve([listening]))
    address = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
    while not server.started:
        await asyncio.sleep(0)
    try:
        async with Client(address, mode=era) as client:
            await call(client, "store_turn", text="I am allergic to peanuts.")
            found = await call(client, "search_memory", query="peanuts")
            assert [each["text"] for each in found["results"]] == ["user: I am allergic to peanuts."]
        async with (
            httpx.AsyncClient(headers={"X-Agentmem-User": "bob"}) as asking,
            Client(streamable_http_client(address, http_client=asking), mode=era) as client,
        ):
            assert (await call(client, "search_memory", query="peanuts"))["results"] == []
    finally:
        server.should_exit = True
        await running


def test_stdio_needs_nothing_of_the_http_server() -> None:
    program = "import sys; sys.modules['fastapi'] = None; import agentmem.server.mcp.server"
    subprocess.run([sys.executable, "-c", program], check=True)
