"""Every set of tools over MCP: what its schemas cost, and that each tool says what it gives and gives that."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client
from pydantic import BaseModel

from agentmem import AsyncAgentMemory
from agentmem.server.mcp.server import TOOL_SETS, build_mcp_server
from agentmem.server.mcp.tools import ModelTool
from tests.surfaces.test_mcp import call

MAX_TOKENS = {"core": 1500, "mnemex": 2500, "server-memory": 1500, "chatgpt": 300, "graph": 700, "all": 5000}
SMALL_SETS = [name for name in TOOL_SETS if name != "all"]
ANN = {"name": "Ann", "entityType": "person", "observations": ["Sails"]}
BOB = {"name": "Bob", "entityType": "person", "observations": []}
RELATION = {"from": "Ann", "to": "Bob", "relationType": "knows"}
CALLS: dict[str, Callable[[str, str], dict[str, Any]]] = {
    "get_context": lambda one, two: {"query": "coffee"},
    "store_turn": lambda one, two: {"text": "I like tea."},
    "learn_fact": lambda one, two: {"claim": "The user likes tea."},
    "review_memory": lambda one, two: {},
    "search": lambda one, two: {"query": "coffee"},
    "fetch": lambda one, two: {"id": one},
    "create_entities": lambda one, two: {"entities": [ANN, BOB]},
    "create_relations": lambda one, two: {"relations": [RELATION]},
    "add_observations": lambda one, two: {"observations": [{"entityName": "Ann", "contents": ["Runs"]}]},
    "search_nodes": lambda one, two: {"query": "runs"},
    "open_nodes": lambda one, two: {"names": ["Ann", "Bob"]},
    "save_memory": lambda one, two: {"content": "Ann runs", "entities": ["Ann"], "strength": 1.5, "context": "chat"},
    "search_memory": lambda one, two: {"query": "coffee"},
    "search_unified": lambda one, two: {"query": "coffee"},
    "touch_memory": lambda one, two: {"memory_id": one},
    "observe_memory_usage": lambda one, two: {"memory_ids": [one, "nobody"]},
    "create_relation": lambda one, two: {"from_memory_id": one, "to_memory_id": two, "relation_type": "x"},
    "read_graph": lambda one, two: {},
    "open_memories": lambda one, two: {"memory_ids": [one, "nobody"]},
    "cluster_memories": lambda one, two: {"threshold": 0.1},
    "consolidate_memories": lambda one, two: {"auto_detect": True},
    "promote_memory": lambda one, two: {"memory_id": one, "force": True},
    "gc": lambda one, two: {"dry_run": False},
    "analyze_message": lambda one, two: {"message": "I live in Oslo."},
    "analyze_for_recall": lambda one, two: {"message": "Where do I live?"},
    "auto_recall_process_message": lambda one, two: {"message": "coffee in Oslo"},
    "explore_entity": lambda one, two: {"entity": "Ann"},
    "find_paths": lambda one, two: {"a": "Ann", "b": "Bob"},
    "list_communities": lambda one, two: {},
    "list_central_entities": lambda one, two: {},
    "delete_observations": lambda one, two: {"deletions": [{"entityName": "Ann", "observations": ["Sails"]}]},
    "delete_relations": lambda one, two: {"relations": [RELATION]},
    "delete_entities": lambda one, two: {"entityNames": ["Bob"]},
    "forget_memory": lambda one, two: {"id": two},
}
"""What each tool is called with, in this order, from the ids of two short-lived facts that say nearly the same."""


NEED_NEO4J = {"ask_graph_in_cypher"}  # which refuses on a file


def test_every_set_has_a_limit() -> None:
    assert set(MAX_TOKENS) == set(TOOL_SETS)


@pytest.mark.parametrize("name", TOOL_SETS)
async def test_a_set_costs_few_tokens_and_says_what_each_tool_does(name: str) -> None:
    async with Client(build_mcp_server(_never, TOOL_SETS[name])) as client:
        tools = (await client.list_tools()).tools
    shown = [{"name": each.name, "description": each.description, "inputSchema": each.input_schema} for each in tools]
    tokens = len(json.dumps(shown, separators=(",", ":"), ensure_ascii=False)) / 4
    print(f"{name}: {len(tools)} tools, {tokens:,.0f} tokens")
    assert tokens <= MAX_TOKENS[name]
    assert len({tool.name for tool in tools}) == len(tools)
    for tool in tools:
        assert tool.description, tool.name
        assert tool.title, tool.name
        assert tool.output_schema, tool.name
        hints = tool.annotations
        assert hints is not None, tool.name
        assert None not in (hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint), tool.name
        assert hints.open_world_hint is False, tool.name
        assert not (hints.read_only_hint and hints.destructive_hint), tool.name


@pytest.mark.parametrize(
    "tool", TOOL_SETS["all"] + TOOL_SETS["mnemex"] + TOOL_SETS["server-memory"], ids=lambda tool: tool.name
)
def test_every_argument_has_a_description_and_no_schema_a_docstring(tool: ModelTool) -> None:
    schema = tool.input_schema()
    for part in (schema, *schema.get("$defs", {}).values()):
        assert "description" not in part
        for name, field in part["properties"].items():
            assert field.get("description"), name
            assert field.get("format") is None, name


def test_all_has_no_tool_of_its_own() -> None:
    others = [tool for name in SMALL_SETS for tool in TOOL_SETS[name]]
    assert all(tool in others for tool in TOOL_SETS["all"])


@pytest.mark.parametrize("name", SMALL_SETS)
async def test_each_tool_gives_what_its_output_schema_says(name: str, home: Path, tmp_path: Path) -> None:
    tools = {tool.name for tool in TOOL_SETS[name]}
    assert tools - NEED_NEO4J <= set(CALLS)
    vault = tmp_path / "vault"
    async with (
        AsyncAgentMemory("ann", home=home, embedder="hash", vault=vault) as memory,
        Client(build_mcp_server(lambda *_: memory, TOOL_SETS[name])) as client,
    ):
        for name in ("Ann", "Bob"):
            await memory.upsert_entity({"name": name, "type": "person"})
        claims = ("Ann takes her coffee black", "Ann takes her coffee black, always")
        one, two = [(await memory.learn_fact(claim, tier="short", tags=["drinks"])).id for claim in claims]
        for tool, arguments in CALLS.items():
            if tool in tools:
                await call(client, tool, **arguments(one, two))  # the client checks it against the schema


async def test_the_client_refuses_what_breaks_an_output_schema(home: Path) -> None:
    class BrokenTool(ModelTool):
        def output_schema(self) -> dict[str, Any]:
            return {**super().output_schema(), "required": ["number"]}

    class Asked(BaseModel):
        """Nothing."""

    async def answer(memory: AsyncAgentMemory, given: Asked) -> Asked:
        return given

    tool = BrokenTool("broken", "Broken", "Promises a number.", Asked, Asked, answer)
    with pytest.RaisesGroup(pytest.RaisesExc(RuntimeError, match="Invalid structured content"), flatten_subgroups=True):
        async with (
            AsyncAgentMemory("ann", home=home, embedder="hash") as memory,
            Client(build_mcp_server(lambda *_: memory, (tool,))) as client,
        ):
            await client.call_tool("broken", {})


def _never(*_: object) -> AsyncAgentMemory:
    raise AssertionError("listing tools needs no memory")
