"""Users, channels, agents, conversations and keys named in five scripts, through header, path, query and body."""

from __future__ import annotations

from typing import Any

import pytest

from agentmem import AsyncAgentMemory

NAMES = ["зоя", "李雷", "مريم", "Ζωή", "Zoë 🌊"]


@pytest.fixture
async def memory(client: Any, shared_app: Any) -> AsyncAgentMemory:
    """The memory behind the client."""
    found: AsyncAgentMemory = shared_app.state.memory
    return found


@pytest.mark.parametrize("name", NAMES)
async def test_a_user_of_any_script_is_named_in_a_header(client: Any, memory: AsyncAgentMemory, name: str) -> None:
    headers = {"X-Agentmem-User": name.encode()}
    stored = await client.post("/v1/turns", json={"content": "I live in Oslo."}, headers=headers)
    assert stored.status_code == 201
    own = memory.scoped(user_id=name)
    assert [turn.content for turn in await own.episodic.recent_turns()] == ["I live in Oslo."]
    erased = await client.delete("/v1/user", headers=headers)
    assert (erased.status_code, await own.episodic.recent_turns()) == (200, [])


@pytest.mark.parametrize("name", NAMES)
async def test_a_retry_key_of_any_script_is_one_key(client: Any, memory: AsyncAgentMemory, name: str) -> None:
    asked = {"json": {"content": "I sail."}, "headers": {"Idempotency-Key": name.encode()}}
    first, again = await client.post("/v1/turns", **asked), await client.post("/v1/turns", **asked)
    assert first.json()["id"] == again.json()["id"]
    assert (await memory.store_turn("I sail.", idempotency_key=name)).id == first.json()["id"]


@pytest.mark.parametrize("name", NAMES)
async def test_places_of_any_script_are_named_in_query_path_and_body(client: Any, name: str) -> None:
    place = {"channel": name, "agent_id": name, "conversation_id": name, "session_id": name}
    stored = await client.post("/v1/turns", json={"content": "I sail.", "turn_id": f"{name} 1", **place})
    turn = stored.json()
    assert (turn["channel"], turn["conversation_id"], turn["id"]) == (name, name, f"{name} 1")
    assert [found["id"] for found in (await client.get("/v1/turns", params=place)).json()] == [f"{name} 1"]
    seen = {"channel": name}
    assert len((await client.get(f"/v1/conversations/{name}", params=seen)).json()) == 1
    assert (await client.get(f"/v1/records/{name} 1", params=seen)).json()["content"] == "I sail."
    assert (await client.put(f"/v1/working/values/{name}", json={"value": 1, **place})).status_code == 204
    assert (await client.get("/v1/working/values", params=place)).json() == {name: 1}
    assert (await client.post(f"/api/agents/{name}/memory/ltm", json={"content": "Sails."})).status_code == 201
    assert len((await client.get(f"/api/agents/{name}/memory/ltm")).json()["results"]) == 1


@pytest.mark.parametrize(
    "asked",
    [
        {"headers": {"X-Agentmem-User": "zoë".encode("latin-1")}},
        {"headers": {"Idempotency-Key": b"\xff"}},
        {"headers": [("X-Agentmem-User", "ann"), ("X-Agentmem-User", "bob")]},
        {"url": "/v1/records/%FF"},
        {"url": "/v1/turns?channel=%E9"},
        {"url": "/v1/turns?%C3=x"},
    ],
    ids=str,
)
async def test_names_that_are_not_utf8_or_given_twice_are_refused(client: Any, asked: dict[str, Any]) -> None:
    refused = await client.request("GET", asked.pop("url", "/v1/turns"), **asked)
    assert refused.status_code == 400
