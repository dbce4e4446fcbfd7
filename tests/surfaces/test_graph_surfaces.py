"""The graph on the command line, over HTTP and for models: thin over the verbs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from click.testing import Result
from mcp.client.client import Client

from agentmem import AgentMemory, AsyncAgentMemory
from agentmem.server.mcp.server import TOOL_SETS, build_mcp_server
from tests.surfaces.test_mcp import call, refusal


def test_the_command_line_shows_what_ties_entities(cli: Any, home: Path) -> None:
    with AgentMemory("default", home=home, embedder="hash") as memory:
        ann, ben = (memory.upsert_entity({"name": name, "type": "person"}).id for name in ("Ann", "Ben"))
        fact = memory.learn_fact("Ann met Ben in Oslo", entity_ids=[ann, ben])
        memory.semantic.relate(ann, "KNOWS", ben, fact_id=fact.id)
    assert "\nAnn -- KNOWS -> Ben\n" in cli("graph", "neighborhood", "Ann")
    shown = cli("graph", "paths", "Ann", "Ben")
    assert shown.startswith(" 1. Ann (person)\n    Ann -- KNOWS -> Ben\n      rests on: Ann met Ben in Oslo (")
    found = cli.json("graph", "paths", ann, ben, "--kind", "ABOUT")
    assert [record["kind"] for record in found["paths"][0]["records"]] == ["Entity", "Fact", "Entity"]
    assert cli("graph", "communities").startswith("2 members: ")
    assert [each["score"] for each in cli.json("graph", "central")["entities"]] == [0.5, 0.5]
    without_neo4j: Result = cli.run("graph", "cypher", "RETURN $one", "--parameters", '{"one": 1}')
    assert (without_neo4j.exit_code, "set graph_url" in without_neo4j.stderr) == (2, True)
    assert "must be a JSON object" in cli.run("graph", "cypher", "RETURN 1", "--parameters", "{").stderr
    refused: Result = cli.run("graph", "neighborhood", "Nobody")
    assert (refused.exit_code, "no entity has the id, name or alias 'Nobody'" in refused.stderr) == (2, True)


async def test_routes_answer_with_whole_records(client: Any) -> None:
    async def add(route: str, body: Mapping[str, Any]) -> Any:
        return (await client.post(f"/v1/{route}", json=body)).json()

    ann, ben = [(await add("entities", {"name": name}))["id"] for name in ("Ann", "Ben")]
    fact = await add("facts", {"claim": "Ann met Ben in Oslo", "entity_ids": [ann, ben]})
    near = (await client.get("/v1/graph/neighborhood", params={"entity": "Ann", "depth": 2})).json()
    assert [each["name"] for each in near["entities"]] == ["Ann", "Ben"]
    found = (await client.get("/v1/graph/paths", params={"a": "Ann", "b": "Ben", "kinds": "ABOUT"})).json()
    assert [record.get("claim") for record in found["paths"][0]["records"]] == [None, "Ann met Ben in Oslo", None]
    assert found["paths"][0]["steps"][0]["rests_on"][0]["id"] == fact["id"]
    (group,) = (await client.get("/v1/graph/communities")).json()["communities"]
    assert (group["size"], {each["name"] for each in group["entities"]}) == (2, {"Ann", "Ben"})
    best = (await client.get("/v1/graph/central_entities", params={"limit": 1})).json()["entities"]
    assert [each["score"] for each in best] == [0.5]
    missing = await client.get("/v1/graph/paths", params={"a": "Ann", "b": "Nobody"})
    assert missing.status_code == 404
    asked = await client.post("/v1/graph/cypher", json={"query": "RETURN 1", "parameters": {"one": 1}})
    assert "set graph_url" in asked.text


async def test_tools_tell_a_model_names_and_what_says_so(home: Path) -> None:
    async with (
        AsyncAgentMemory("ann", home=home, embedder="hash") as memory,
        Client(build_mcp_server(lambda *_: memory, TOOL_SETS["graph"])) as model,
    ):
        ann, ben = [(await memory.upsert_entity({"name": name})).id for name in ("Ann", "Ben")]
        fact = await memory.learn_fact("Ann met Ben in Oslo", entity_ids=[ann, ben])
        await memory.semantic.relate(ann, "KNOWS", ben, fact_id=fact.id)
        knows = {"source": "Ann", "relation": "KNOWS", "target": "Ben", "since": ""}
        near = await call(model, "explore_entity", entity="Ann")
        assert (near["relations"], [each["id"] for each in near["facts"]]) == ([knows], [fact.id])
        (path,) = (await call(model, "find_paths", a="Ann", b="Ben"))["paths"]
        assert (path["relations"], [each["text"] for each in path["rests_on"]]) == ([knows], ["Ann met Ben in Oslo"])
        assert [each["size"] for each in (await call(model, "list_communities"))["communities"]] == [2]
        assert len((await call(model, "list_central_entities", limit=1))["entities"]) == 1
        assert "lists them" in await refusal(model, "explore_entity", entity="Nobody")
        assert "set graph_url" in await refusal(model, "ask_graph_in_cypher", query="RETURN 1")
