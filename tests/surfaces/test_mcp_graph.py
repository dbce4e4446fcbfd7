"""The tools of the reference server `server-memory`, with its parameters and results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from mcp.client.client import Client

from agentmem import AsyncAgentMemory
from agentmem.server.compat import server_memory
from agentmem.server.mcp.server import TOOL_SETS, build_mcp_server
from tests.surfaces.test_mcp import call, refusal

ANN = {"name": "Ann", "entityType": "person", "observations": ["Speaks Spanish"]}
BOB = {"name": "Bob", "entityType": "person", "observations": []}
WORKS = {"from": "Ann", "to": "Bob", "relationType": "works with"}
KNOWS = {"from": "Bob", "to": "Ann", "relationType": "KNOWS"}


async def test_a_graph_is_made_read_searched_and_taken_apart(home: Path) -> None:
    async with (
        AsyncAgentMemory("ann", home=home, embedder="hash") as memory,
        Client(build_mcp_server(lambda *_: memory, TOOL_SETS["server-memory"])) as client,
    ):
        assert (await call(client, "create_entities", entities=[ANN, BOB]))["entities"] == [ANN, BOB]
        assert (await call(client, "create_entities", entities=[ANN]))["entities"] == []
        assert (await call(client, "create_relations", relations=[WORKS, KNOWS]))["relations"] == [WORKS, KNOWS]
        assert (await call(client, "create_relations", relations=[WORKS, KNOWS]))["relations"] == []
        more = {"entityName": "Ann", "contents": ["Speaks Spanish", "Sails"]}
        added = await call(client, "add_observations", observations=[more])
        assert added["results"] == [{"entityName": "Ann", "addedObservations": ["Sails"]}]

        graph = await call(client, "read_graph")
        (content,) = (await client.read_resource("memory://knowledge-graph")).contents
        assert json.loads(content.text) == graph
        assert sorted(each["name"] for each in graph["entities"]) == ["Ann", "Bob"]
        assert {each["name"]: each["observations"] for each in graph["entities"]} == {
            "Ann": ["Speaks Spanish", "Sails"],
            "Bob": [],
        }
        assert sorted(graph["relations"], key=str) == sorted([WORKS, KNOWS], key=str)
        assert [each["name"] for each in (await call(client, "search_nodes", query="sails"))["entities"]] == ["Ann"]
        found = [await call(client, "search_nodes", query=part) for part in ("AIL", "nn", "ERSO")]
        assert all("Ann" in [each["name"] for each in graph["entities"]] for graph in found)
        opened = await call(client, "open_nodes", names=["Bob", "bob", "Nobody"])
        assert opened["entities"] == [BOB]
        assert sorted(opened["relations"], key=str) == sorted([WORKS, KNOWS], key=str), "also those to other nodes"

        gone = [{"entityName": "Ann", "observations": ["Sails", "Never said"]}]
        assert (await call(client, "delete_observations", deletions=gone))["success"] is True
        await call(client, "delete_relations", relations=[WORKS])
        graph = await call(client, "read_graph")
        assert graph["relations"] == [KNOWS]
        assert ["Speaks Spanish"] in [each["observations"] for each in graph["entities"]]
        await call(client, "delete_entities", entityNames=["Ann", "Nobody"])
        assert await call(client, "read_graph") == {"entities": [BOB], "relations": []}

        nobody = {"entityName": "Nobody", "contents": ["x"]}
        assert "Nobody not found" in await refusal(client, "add_observations", observations=[nobody])
        assert [fact.claim for fact in await memory.semantic.facts()] == []


async def test_nothing_is_stored_of_a_call_that_is_refused(home: Path) -> None:
    async with (
        AsyncAgentMemory("ann", home=home, embedder="hash") as memory,
        Client(build_mcp_server(lambda *_: memory, TOOL_SETS["server-memory"])) as client,
    ):
        for wrong in ({**BOB, "name": " "}, {**BOB, "observations": ["x", " "]}, {**BOB, "entityType": ""}):
            assert "Nothing was stored" in await refusal(client, "create_entities", entities=[ANN, wrong])
        assert await call(client, "read_graph") == {"entities": [], "relations": []}
        await call(client, "create_entities", entities=[ANN, BOB])
        wrong_relations = [WORKS, {**KNOWS, "relationType": " "}]
        assert "Nothing was stored" in await refusal(client, "create_relations", relations=wrong_relations)
        assert "not found" in await refusal(client, "create_relations", relations=[WORKS, {**KNOWS, "from": "Eve"}])
        for more in ({"entityName": "Bob", "contents": [" "]}, {"entityName": "Eve", "contents": ["x"]}):
            await refusal(client, "add_observations", observations=[{"entityName": "Ann", "contents": ["Sails"]}, more])
        graph = await call(client, "read_graph")
        assert (graph["relations"], ["Sails" in each["observations"] for each in graph["entities"]]) == (
            [],
            [False] * 2,
        )


async def test_what_a_graph_leaves_out_is_said(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_memory, "MAX_READ", 2)
    async with (
        AsyncAgentMemory("ann", home=home, embedder="hash") as memory,
        Client(build_mcp_server(lambda *_: memory, TOOL_SETS["server-memory"])) as client,
    ):
        await call(client, "create_entities", entities=[{**BOB, "name": name} for name in ("Ann", "Bob", "Eve")])
        graph = await call(client, "read_graph")
        assert (len(graph["entities"]), graph["notices"]) == (2, ["Only 2 entities were read; there may be more."])


async def test_observations_are_kept_word_for_word_side_by_side(home: Path) -> None:
    said = {**ANN, "observations": ["Ann lives in Oslo", "Ann lives in Rome", "ann lives in Rome."]}
    async with (
        AsyncAgentMemory("ann", home=home, embedder="hash") as memory,
        Client(build_mcp_server(lambda *_: memory, TOOL_SETS["server-memory"])) as client,
    ):
        await call(client, "create_entities", entities=[said])
        (ann,) = (await call(client, "read_graph"))["entities"]
        assert ann["observations"] == said["observations"][:2]
