"""Arguments as MCP clients send them, and errors that name the argument of the tool."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, Field

from agentmem import AsyncAgentMemory
from agentmem.server.compat.server_memory import CamelModel
from agentmem.server.mcp.server import TOOL_SETS
from agentmem.server.mcp.tools import ModelTool, ToolFailure

TEXT = "x" * 1000
ANN = {"name": "Ann", "entityType": "person", "observations": ["Sails"]}


class Part(CamelModel):
    """A part."""

    part_names: list[str]


class Asked(BaseModel):
    """Every kind of argument."""

    text: str
    names: list[str]
    parts: list[Part] = []
    about: dict[str, Any] | None = None
    number: int = 3
    share: float | None = None
    is_sure: bool = False
    note: str | None = Field(None)


async def answer(memory: AsyncAgentMemory, given: Asked) -> Asked:
    return given


TOOL = ModelTool("echo", "Echo", "Gives back.", Asked, Asked, answer)


@pytest.fixture
async def memory(home: Path) -> AsyncIterator[AsyncAgentMemory]:
    async with AsyncAgentMemory("ann", home=home, embedder="hash") as opened:
        yield opened


def find_tool(name: str, tool: str) -> ModelTool:
    return next(each for each in TOOL_SETS[name] if each.name == tool)


@pytest.mark.parametrize(
    "given, read",
    [
        ({"names": '["a"]'}, {"names": ["a"]}),
        ({"parts": '[{"partNames": "[\\"b\\"]"}]'}, {"parts": [{"part_names": ["b"]}]}),
        ({"parts": ['{"partNames": ["b"]}']}, {"parts": [{"part_names": ["b"]}]}),
        ({"about": '{"a": [1]}'}, {"about": {"a": [1]}}),
        ({"number": "5", "share": "0.5", "is_sure": "true"}, {"number": 5, "share": 0.5, "is_sure": True}),
        (dict.fromkeys(("parts", "about", "number", "share", "is_sure", "note")), {}),
        (dict.fromkeys(("parts", "about", "number", "share", "is_sure", "note"), ""), {}),
        ({"text": '["a"]', "note": '{"a": 1}'}, {"text": '["a"]', "note": '{"a": 1}'}),
        ({"text": "", "names": [""]}, {"text": "", "names": [""]}),
    ],
)
async def test_arguments_are_read_as_clients_send_them(
    memory: AsyncAgentMemory, given: dict[str, Any], read: dict[str, Any]
) -> None:
    base = {"text": "x", "names": []}
    assert (await TOOL.run(memory, {**base, **given})).model_dump() == Asked(**{**base, **read}).model_dump()


@pytest.mark.parametrize("given", [{"names": "a"}, {"names": '"a"'}, {"text": None}, {"names": None}, {"number": "x"}])
async def test_what_cannot_be_read_is_refused_by_its_name(memory: AsyncAgentMemory, given: dict[str, Any]) -> None:
    with pytest.raises(ToolFailure, match=f"^{next(iter(given))} is wrong"):
        await TOOL.run(memory, {"text": "x", "names": [], **given})


@pytest.mark.parametrize(
    "tools, tool, given, named",
    [
        ("core", "search_memory", {"query": "x", "limit": 0}, "limit"),
        ("core", "store_turn", {"text": ""}, "text"),
        ("core", "forget_memory", {"id": TEXT}, "id"),
        ("chatgpt", "fetch", {"id": TEXT}, "id"),
        ("server-memory", "create_entities", {"entities": [{**ANN, "name": "Bo", "entityType": ""}]}, "entityType"),
        (
            "server-memory",
            "create_entities",
            {"entities": [{**ANN, "name": "Bo", "observations": [""]}]},
            "observations",
        ),
        ("server-memory", "add_observations", {"observations": [{"entityName": "Ann", "contents": [""]}]}, "contents"),
        (
            "server-memory",
            "create_relations",
            {"relations": [{"from": "Ann", "to": "Ann", "relationType": ""}]},
            "relationType",
        ),
        ("mnemex", "save_memory", {"content": ""}, "content"),
        ("mnemex", "save_memory", {"content": "x", "entities": [""]}, "entities"),
        ("mnemex", "touch_memory", {"memory_id": TEXT}, "memory_id"),
        ("mnemex", "observe_memory_usage", {"memory_ids": [TEXT]}, "memory_ids"),
        ("mnemex", "open_memories", {"memory_ids": [TEXT]}, "memory_ids"),
        ("mnemex", "analyze_message", {"message": ""}, "message"),
    ],
)
async def test_an_error_names_the_argument_of_the_tool(
    memory: AsyncAgentMemory, tools: str, tool: str, given: dict[str, Any], named: str
) -> None:
    await find_tool("server-memory", "create_entities").run(memory, {"entities": json.dumps([ANN])})
    called = find_tool(tools, tool)
    with pytest.raises(ToolFailure, match=rf"^{named}\b") as failure:
        await called.run(memory, given)
    assert ("Nothing was stored" in str(failure.value)) is not called.is_read_only
