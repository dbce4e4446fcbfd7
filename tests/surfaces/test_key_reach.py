"""How far a key reaches: docs/security.md has the table of what a key of a user, a channel or an agent may do."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from agentmem import AsyncAgentMemory
from agentmem.admin.api_keys import create_api_key
from agentmem.core.changes import Change, WriteAttempt
from agentmem.core.records import KINDS, Fact
from agentmem.memory.erasure import list_across_channels
from agentmem.stores.values import Where
from tests.surfaces.conftest import open_client

KEYS: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "channel": ({"channel": "work"}, ("work",)),
    "agent": ({"agent_id": "scout"}, ("_self_scout",)),
    "channel and agent": ({"channel": "work", "agent_id": "scout"}, ("work", "_self_scout")),
}
"""What each limited key is for, and the channels that it writes into."""
SHARED = ("_global", "_swarm")
PLACES = {"_self_scout": "scout", "_self_other": "other"}
CHANNELS = ("work", "home", *SHARED, *PLACES)


@pytest.fixture
async def memory(home: Path) -> AsyncAgentMemory:
    return AsyncAgentMemory("ann", home=home, embedder="hash")


@pytest.fixture
async def client(memory: AsyncAgentMemory) -> AsyncIterator[Any]:
    async with open_client(memory) as opened:
        yield opened


async def make_key(memory: AsyncAgentMemory, *scopes: str, **fields: Any) -> dict[str, str]:
    """The header of a new key of Ann's."""
    made = await create_api_key(memory.engine, "ann", scopes or ("read", "write", "erase"), **fields)
    return {"Authorization": f"Bearer {made.secret}"}


async def fill(memory: AsyncAgentMemory) -> dict[str, dict[str, str]]:
    """A turn, a fact and a goal in each channel; their ids by channel and kind."""
    ids: dict[str, dict[str, str]] = {}
    for channel in CHANNELS:
        view = memory.scoped(channel=channel, agent_id=PLACES.get(channel), conversation_id=f"talk {channel}")
        turn = await view.store_turn(f"The code of {channel} is {channel.strip('_')}-4711.")
        fact = await view.learn_fact(f"The user keeps a boat in {channel.strip('_')}")
        goal = await view.add_goal({"description": f"Paint {channel}"})
        ids[channel] = {"turn": turn.id, "fact": fact.id, "goal": goal.id}
    return ids


async def read_everything(memory: AsyncAgentMemory) -> Any:
    """All current records of Ann's, in whatever channel."""
    return {record.key: record for record in await list_across_channels(memory._context, Where(kinds=tuple(KINDS)))}


@pytest.mark.parametrize("kind", KEYS)
async def test_a_limited_key_changes_nothing_of_other_channels(
    client: Any, memory: AsyncAgentMemory, kind: str
) -> None:
    fields, own = KEYS[kind]
    ids, key = await fill(memory), await make_key(memory, **fields)
    for channel in CHANNELS:
        held = ids[channel]
        asked = [
            ("PATCH", f"/v1/facts/{held['fact']}", {"tags": ["x"]}),
            ("POST", f"/v1/goals/{held['goal']}/progress", {"progress": 0.5}),
            ("POST", f"/v1/facts/{held['fact']}/supersede", {"claim": f"The user sold the boat of {channel}"}),
            ("DELETE", f"/v1/records/{held['goal']}", None),
            ("DELETE", f"/v1/records/{held['turn']}?hard=true", None),
            ("DELETE", f"/v1/conversations/talk {channel}", None),
        ]
        before = await read_everything(memory)
        for method, path, body in asked:
            answer = await client.request(method, path, json=body, headers=key)
            if channel in own:
                assert answer.status_code in (200, 201), (channel, path, answer.text)
            else:
                assert answer.status_code in (403, 404), (channel, path, answer.text)
                assert channel in SHARED or answer.status_code == 404
        assert (await read_everything(memory) == before) is (channel not in own), channel


@pytest.mark.parametrize("kind", KEYS)
async def test_a_limited_key_reads_its_own_and_what_all_share(client: Any, memory: AsyncAgentMemory, kind: str) -> None:
    fields, own = KEYS[kind]
    ids, key = await fill(memory), await make_key(memory, **fields)
    for channel in CHANNELS:
        answer = await client.get(f"/v1/records/{ids[channel]['fact']}", headers=key)
        assert (answer.status_code == 200) is (channel in (*own, *SHARED)), channel
        for path in ("/v1/recall", "/v1/context"):
            told = await client.post(path, json={"query": f"What is the code of {channel}?"}, headers=key)
            assert (f"{channel.strip('_')}-4711" in told.text) is (channel in (*own, *SHARED)), (channel, path)
        exactly = await client.post("/v1/recall", json={"query": "code", "channels": [channel]}, headers=key)
        assert (exactly.status_code == 200) is (channel in (*own, *SHARED)), channel
        stood = await client.get("/v1/turns", params={"channel": channel}, headers=key)
        assert (stood.status_code == 200) is (channel in own), channel
    for path in ("/v1/synopsis", "/v1/records?limit=1000", "/v1/conversations", "/v1/goals", "/v1/beliefs"):
        told = (await client.get(path, headers=key)).text
        assert "home" not in told.replace('"slot":"home"', ""), path
        assert "_self_other" not in told, path


@pytest.mark.parametrize("kind", KEYS)
async def test_a_limited_key_writes_into_its_own_channel(client: Any, memory: AsyncAgentMemory, kind: str) -> None:
    fields, own = KEYS[kind]
    key = await make_key(memory, **fields)
    for path, body in (
        ("/v1/turns", {"content": "I sail."}),
        ("/v1/turns/batch", {"turns": [{"content": "I sail."}]}),
        ("/v1/facts", {"claim": "The user sails"}),
        ("/v1/goals", {"description": "Sail"}),
        ("/v1/entities", {"name": "Ilse"}),
        ("/v1/invocations", {"tool": "search", "ok": True}),
        ("/v1/schedules", {"name": "tea", "action": "tea", "cron": "0 9 * * *"}),
    ):
        stored = await client.post(path, json=body, headers=key)
        assert stored.status_code in (201, 422), (path, stored.text)
    for record in (await read_everything(memory)).values():
        assert record.channel in own, record
    assert (await client.patch("/v1/profile", json={"preferences": {"tone": "short"}}, headers=key)).status_code == 403
    for method, path in (("GET", "/v1/export"), ("POST", "/v1/import"), ("DELETE", "/v1/user"), ("GET", "/v1/audit")):
        kind_header = {"content-type": "application/x-ndjson"}
        assert (await client.request(method, path, headers={**key, **kind_header})).status_code == 403, path


async def test_the_tools_of_a_model_reach_no_further(client: Any, memory: AsyncAgentMemory) -> None:
    ids = await fill(memory)
    key = await make_key(memory, channel="work")

    async def call(name: str, **arguments: Any) -> Any:
        asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
        headers = {**key, "accept": "application/json", "mcp-protocol-version": "2025-11-25"}
        return (await client.post("/mcp", json=asked, headers=headers)).json()["result"]

    before = await read_everything(memory)
    for name, arguments in (
        ("forget_memory", {"id": ids["_global"]["fact"]}),
        ("learn_fact", {"claim": "The user sold it", "replaces": ids["_global"]["fact"]}),
        ("forget_memory", {"id": ids["home"]["fact"]}),
    ):
        assert (await call(name, **arguments))["isError"], name
    assert await read_everything(memory) == before
    assert not (await call("forget_memory", id=ids["work"]["fact"])).get("isError")


async def test_the_history_of_a_shared_fact_tells_nothing_of_other_channels(
    client: Any, memory: AsyncAgentMemory
) -> None:
    ids, key, whole = await fill(memory), await make_key(memory, channel="work"), await make_key(memory)
    old = await memory.get_record(ids["_global"]["fact"])
    new = Fact(id="sold", channel="home", claim="The user sold the boat to Ilse", supersedes=old.id)

    async def link(write: WriteAttempt) -> Change:
        return write.build_change(new, old.model_copy(update={"superseded_by": new.id}))

    await memory.engine.write(memory.scope, "learn_fact", link, kind="Fact")
    path = f"/v1/facts/{old.id}/history"
    assert "Ilse" not in (await client.get(path, headers=key)).text
    assert "Ilse" in (await client.get(path, params={"channel": "home"}, headers=whole)).text


async def test_a_receipt_is_read_where_its_recall_may_be_read(client: Any, memory: AsyncAgentMemory) -> None:
    await fill(memory)
    found = await memory.scoped(channel="home").remember("What is the code of home?")
    path = f"/v1/receipts/{found.receipt.id}"
    for fields, status in (
        ({"channel": "home"}, 200),
        ({"channel": "work"}, 404),
        ({"agent_id": "scout"}, 404),
        ({}, 404),
    ):
        key = await make_key(memory, **fields)
        asked = [
            await client.get(path, headers=key),
            await client.post(f"{path}/replay", headers=key),
            await client.get(f"{path}/why_not", params={"record_id": found.items[0].record.id}, headers=key),
        ]
        assert [answer.status_code for answer in asked] == [status] * 3, fields
        assert status == 200 or "4711" not in "".join(answer.text for answer in asked)
    whole = await make_key(memory)
    assert (await client.get(path, params={"channel": "home"}, headers=whole)).status_code == 200


async def test_a_key_makes_and_manages_keys_that_reach_no_further(client: Any, memory: AsyncAgentMemory) -> None:
    ends = memory.engine.clock.now() + timedelta(days=1)
    whole = (await create_api_key(memory.engine, "ann", ("read", "admin"))).key
    admins = {
        name: await make_key(memory, "read", "admin", expires_at=ends, **fields) for name, (fields, _) in KEYS.items()
    }
    wider: dict[str, list[dict[str, str]]] = {
        "channel": [{"channel": "home"}, {"agent_id": "scout"}],
        "agent": [{"agent_id": "other"}, {"channel": "work"}],
        "channel and agent": [{"agent_id": "other"}, {"channel": "home"}],
    }
    for name, key in admins.items():
        listed = (await client.get("/v1/keys", headers=key)).json()
        assert whole.id not in {each["id"] for each in listed}
        assert (await client.delete(f"/v1/keys/{whole.id}", headers=key)).status_code == 404
        for body in (*wider[name], {"expires_at": (ends + timedelta(days=1)).isoformat()}):
            made = await client.post("/v1/keys", json={"scopes": ["read"], **body}, headers=key)
            assert made.status_code == 403, (name, body)
        made = (await client.post("/v1/keys", json={"scopes": ["read"]}, headers=key)).json()["key"]
        fields = KEYS[name][0]
        assert (made["channel"], made["agent_id"]) == (fields.get("channel"), fields.get("agent_id"))
        assert made["expires_at"] is not None
        assert (await client.delete(f"/v1/keys/{made['id']}", headers=key)).status_code == 200
