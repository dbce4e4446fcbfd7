"""Sessions through the official SDKs of MCP: what was said in them is believed when they have ended.

The SDKs connect as they do by default: that of TypeScript with `initialize`, that of Python with `server/discover`.
They end a server over stdio two seconds after they closed its input, and kill it after two more.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from mcp.client import stdio
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from agentmem import AsyncAgentMemory
from agentmem.core.records import Conversation
from tests.programs.mcp_node import NodePrograms, install_programs
from tests.programs.served import AGENTMEM, serve
from tests.scale import scaled
from tests.servers.downloads import CannotStart
from tests.servers.plugin import _skip_or_fail

TYPESCRIPT_SDK = {"@modelcontextprotocol/client": "2.4.0"}
SESSION = """
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

const { server, turns, query } = JSON.parse(process.argv[2]);
const isAddress = typeof server === "string";
const client = new Client({ name: "test", version: "1" });
await client.connect(isAddress ? new StreamableHTTPClientTransport(new URL(server)) : new StdioClientTransport(server));
const { tools } = await client.listTools();
for (const text of turns) await client.callTool({ name: "store_turn", arguments: { text } });
const found = await client.callTool({ name: "search_memory", arguments: { query } });
await client.close();
console.log(JSON.stringify({ tools: tools.map((tool) => tool.name), ...found.structuredContent }));
"""
TURNS = ["I live in Bergen.", "My name is Ilse Haug.", "I work at Equinor."]
QUERY = "where do I live?"
BELIEFS = {"home": ["Bergen"], "name": ["Ilse Haug"], "employer": ["Equinor"]}
PROCESSES = scaled(8, least=2)
PATIENCE = 120.0  # seconds until a test gives up
COMPLAINTS = ("Traceback", "database is locked", '"level": "warning"', '"level": "error"')

Talk = Callable[[StdioServerParameters | str, list[str]], Awaitable[dict[str, Any]]]
"""Holds a session that stores these turns and searches; returns the names of the tools, and what was found."""


# The SDK of Python holds the sessions of the other tests.
IN_TYPESCRIPT_BY_DAY = pytest.mark.parametrize(
    "talk", [pytest.param("python", marks=pytest.mark.nightly), "typescript"], indirect=True
)


@pytest.fixture
def talk(request: pytest.FixtureRequest, tmp_path: Path) -> Talk:
    """A session through an SDK."""
    if request.param == "python":
        return lambda server, turns: talk_in_python(server, turns, tmp_path / "errors")
    try:
        folder = install_programs("mcp-typescript-sdk", TYPESCRIPT_SDK)
    except CannotStart as error:
        _skip_or_fail(str(error))
    (tmp_path / "node_modules").symlink_to(folder / "node_modules")
    (tmp_path / "session.mjs").write_text(SESSION, encoding="utf-8")
    programs = NodePrograms(folder, tmp_path)
    return lambda server, turns: talk_in_typescript(server, turns, programs, tmp_path / "session.mjs")


async def talk_in_python(server: StdioServerParameters | str, turns: list[str], errors: Path) -> dict[str, Any]:
    with errors.open("w") as log:
        async with Client(server if isinstance(server, str) else stdio_client(server, log)) as client:
            tools = [tool.name for tool in (await client.list_tools()).tools]
            for text in turns:
                stored = await client.call_tool("store_turn", {"text": text})
                assert not stored.is_error, stored
            found = await client.call_tool("search_memory", {"query": QUERY})
    check_quiet(errors.read_text())
    return {"tools": tools, **(found.structured_content or {})}


async def talk_in_typescript(
    server: StdioServerParameters | str, turns: list[str], programs: NodePrograms, session: Path
) -> dict[str, Any]:
    asked = server if isinstance(server, str) else server.model_dump(include={"command", "args", "env"})
    # A server over stdio has the standard error of Node, so that the run ends when both have.
    run = await programs.run(str(session), json.dumps({"server": asked, "turns": turns, "query": QUERY}))
    assert run.exit_code == 0, run.errors
    check_quiet(run.errors)
    return dict(json.loads(run.output))


@IN_TYPESCRIPT_BY_DAY
async def test_a_session_over_stdio_leaves_beliefs(talk: Talk, home: Path) -> None:
    server = build_command(home)
    check_session(await talk(server, TURNS))
    async with asyncio.timeout(PATIENCE):
        while (
            await read_beliefs(home) != BELIEFS
        ):  # a busy machine had no time before the kill; the next session goes on
            await talk(server, [])


@IN_TYPESCRIPT_BY_DAY
async def test_a_session_over_http_leaves_beliefs(talk: Talk, home: Path) -> None:
    with serve({"AGENTMEM_HOME": str(home)}, "--user", "ilse") as address:
        check_session(await talk(f"{address}/mcp", TURNS))
    async with asyncio.timeout(PATIENCE):
        while await read_beliefs(home) != BELIEFS:  # a busy machine drains no more than it has time for
            with serve({"AGENTMEM_HOME": str(home)}, "--user", "ilse"):
                pass


async def test_without_background_work_a_session_leaves_turns_alone(home: Path, tmp_path: Path) -> None:
    server = build_command(home, AGENTMEM_BACKGROUND="false")
    check_session(await talk_in_python(server, TURNS, tmp_path / "errors"))
    assert await read_beliefs(home) == {}


@pytest.mark.long
async def test_sessions_that_end_at_once_are_read_once_each(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stdio, "PROCESS_TERMINATION_TIMEOUT", PATIENCE)  # who is killed keeps a lease for half a minute
    all_stored = asyncio.Barrier(PROCESSES)

    async def talk(number: int) -> str:
        errors = tmp_path / f"errors{number}"
        with errors.open("w") as log:
            async with Client(stdio_client(build_command(home), log)) as client:
                turn = await client.call_tool("store_turn", {"text": f"My phone number is 555-010{number}."})
                await all_stored.wait()
        check_quiet(errors.read_text())
        return str((turn.structured_content or {})["conversation_id"])

    stored = await asyncio.gather(*(talk(number) for number in range(PROCESSES)))
    async with asyncio.timeout(PATIENCE):
        while len(read := await list_conversations_read(home)) < PROCESSES:
            async with AsyncAgentMemory("ilse", home=home, embedder="hash", background=True):
                pass  # the next session reads what those before had no time for
    assert sorted(read) == sorted(stored)


async def list_conversations_read(home: Path) -> list[str]:
    """The conversation of each entry that consolidation wrote into the journal."""
    async with AsyncAgentMemory("ilse", home=home, embedder="hash") as memory:
        entries = await memory.engine.log.changes(memory.scope, 0, 1000)
    written = [stored.record for entry in entries if entry.operation == "consolidate" for stored in entry.upserts]
    return [record.id for record in written if isinstance(record, Conversation)]


def build_command(home: Path, **settings: str) -> StdioServerParameters:
    """A server over stdio, with the memory in this home."""
    environment = {**os.environ, "AGENTMEM_HOME": str(home), "AGENTMEM_EMBEDDER": "hash", **settings}
    return StdioServerParameters(command=AGENTMEM, args=["mcp", "--user", "ilse"], env=environment)


def check_session(answers: dict[str, Any]) -> None:
    """All tools were there, and the search found what was said first."""
    assert {"search_memory", "store_turn"} <= set(answers["tools"])
    assert "user: I live in Bergen." in [each["text"] for each in answers["results"]]


def check_quiet(errors: str) -> None:
    """The server told of nothing that went wrong."""
    assert not [line for line in errors.splitlines() if any(word in line for word in COMPLAINTS)]


async def read_beliefs(home: Path) -> dict[str, list[str]]:
    """Current values by slot."""
    async with AsyncAgentMemory("ilse", home=home, embedder="hash") as memory:
        return {each.slot: [fact.value for fact in each.current] for each in await memory.beliefs()}
