"""Keys of the server: who is let in, for whose memory, and for how long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from agentmem import AsyncAgentMemory
from agentmem.admin.api_keys import create_api_key, list_api_keys, revoke_api_key
from agentmem.core.clock import FrozenClock
from agentmem.server import callers
from tests.surfaces.conftest import build_quick_app, open_client

CACHE_SECONDS = callers.KEY_CACHE_SECONDS


@pytest.fixture
async def memory(home: Path) -> AsyncIterator[AsyncAgentMemory]:
    """The open memory behind the routes."""
    async with AsyncAgentMemory("ann", home=home, embedder="hash") as opened:
        yield opened


@pytest.fixture
async def client(memory: AsyncAgentMemory, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Any]:
    """A client without a key; looked up again for each request is what a key may do."""
    import httpx2 as httpx

    monkeypatch.setattr(callers, "KEY_CACHE_SECONDS", 0.0)
    transport = httpx.ASGITransport(build_quick_app(memory), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:17890") as opened:
        yield opened


async def make_key(memory: AsyncAgentMemory, user: str, *scopes: str, **fields: Any) -> dict[str, str]:
    """The header of a new key."""
    made = await create_api_key(memory.engine, user, scopes or ("read", "write"), **fields)
    return {"Authorization": f"Bearer {made.secret}"}


async def test_from_the_first_key_on_every_request_needs_one(client: Any, memory: AsyncAgentMemory) -> None:
    assert (await client.get("/v1/turns")).status_code == 200
    bearer = await make_key(memory, "bob")
    secret = bearer["Authorization"].removeprefix("Bearer ")
    for path in ("/v1/turns", "/v1/nowhere", "/mcp", "/api/agents/scout/memory/stm"):
        refused = await client.get(path)
        assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
    wrong = (
        "Bearer",
        "Bearer x",
        f"Basic {secret}",
        f"Bearer {secret}x",
        f"Bearer {secret[:-1]}",
        f"Bearer {'x' * 9000}",
    )
    for value in wrong:
        assert (await client.get("/v1/turns", headers={"Authorization": value})).status_code == 401
    for sent in (bearer, {"X-API-Key": secret}, {"Authorization": f"Token {secret}"}):
        assert (await client.get("/v1/turns", headers=sent)).status_code == 200
    [key] = await list_api_keys(memory.engine)
    assert key.last_used_at is not None
    await revoke_api_key(memory.engine, key.id)
    assert (await client.get("/v1/turns", headers=bearer)).status_code == 401
    assert (await client.get("/v1/turns")).status_code == 401
    for path in ("/health", "/ready", "/openapi.json"):
        assert (await client.get(path)).status_code == 200


async def test_a_key_opens_the_memory_of_its_user_alone(client: Any, memory: AsyncAgentMemory) -> None:
    ann, bob = await make_key(memory, "ann"), await make_key(memory, "bob")
    turn = (await client.post("/v1/turns", json={"content": "Hi."}, headers=ann)).json()
    assert (await client.get("/v1/turns", headers=bob)).json() == []
    assert (await client.get(f"/v1/records/{turn['id']}", headers=bob)).status_code == 404
    for named, status in (("ann", 403), ("nobody", 403), ("bob", 200)):
        assert (await client.get("/v1/turns", headers={**bob, "X-Agentmem-User": named})).status_code == status


async def test_a_key_for_all_needs_the_name_of_a_user(client: Any, memory: AsyncAgentMemory) -> None:
    key = await make_key(memory, "*", "read", "write", "admin")
    missing = await client.get("/v1/turns", headers=key)
    assert (missing.status_code, missing.json()["field"]) == (422, "X-Agentmem-User")
    assert (await client.get("/v1/turns", headers={**key, "X-Agentmem-User": "*"})).status_code == 422
    stored = await client.post("/v1/turns", json={"content": "Hi."}, headers={**key, "X-Agentmem-User": "cara"})
    assert stored.json()["user_id"] == "cara"


@pytest.mark.parametrize(
    "scopes, allowed",
    [
        (("read",), ["GET /v1/turns"]),
        (("write",), ["POST /v1/turns", "DELETE /v1/records/x"]),
        (("erase",), ["DELETE /v1/user"]),
        (
            ("write", "erase"),
            ["POST /v1/turns", "DELETE /v1/records/x", "DELETE /v1/records/x?hard=1", "DELETE /v1/user"],
        ),
        (("admin",), ["POST /v1/jobs/run", "GET /v1/keys"]),
    ],
)
async def test_a_key_may_do_what_its_scopes_say(
    client: Any, memory: AsyncAgentMemory, scopes: tuple[str, ...], allowed: list[str]
) -> None:
    bodies: dict[str, Any] = {"POST /v1/turns": {"content": "Hi."}, "POST /v1/jobs/run": {"dry_run": True}}
    asked = [
        *("GET /v1/turns", "POST /v1/turns", "DELETE /v1/records/x", "DELETE /v1/records/x?hard=1", "DELETE /v1/user"),
        *("POST /v1/jobs/run", "GET /v1/keys"),
    ]
    for each in asked:
        key, (method, path) = await make_key(memory, "ann", *scopes), each.split()
        answer = await client.request(method, path, json=bodies.get(each), headers=key)
        assert (answer.status_code != 403) == (each in allowed), each


async def test_a_key_for_a_channel_or_an_agent_opens_no_other(client: Any, memory: AsyncAgentMemory) -> None:
    work = await make_key(memory, "ann", channel="work")
    scout = await make_key(memory, "ann", agent_id="scout")
    stored = await client.post("/v1/turns", json={"content": "Hi."}, headers=work)
    assert stored.json()["channel"] == "work"
    own = await client.post("/v1/turns", json={"content": "Hi."}, headers=scout)
    assert own.json()["agent_id"] == "scout"
    refused = [
        await client.get("/v1/turns?channel=home", headers=work),
        await client.get("/v1/turns?agent_id=other", headers=scout),
        await client.get("/api/agents/other/memory/stm", headers=scout),
    ]
    assert [answer.status_code for answer in refused] == [403] * 3


async def test_an_expired_key_is_refused(client: Any, memory: AsyncAgentMemory) -> None:
    ends = memory.engine.clock.now() + timedelta(hours=1)
    key = await make_key(memory, "ann", expires_at=ends)
    for moment, status in ((ends - timedelta(seconds=1), 200), (ends, 401)):
        memory.engine.clock = FrozenClock(moment)
        assert (await client.get("/v1/turns", headers=key)).status_code == status


async def test_a_revocation_acts_when_the_look_up_is_a_second_old(
    client: Any, memory: AsyncAgentMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert CACHE_SECONDS <= 1  # the promise is two
    monkeypatch.setattr(callers, "KEY_CACHE_SECONDS", 0.05)
    key = await make_key(memory, "ann")
    assert (await client.get("/v1/turns", headers=key)).status_code == 200
    [stored] = await list_api_keys(memory.engine)
    await revoke_api_key(memory.engine, stored.id)
    await asyncio.sleep(0.06)
    assert (await client.get("/v1/turns", headers=key)).status_code == 401


async def test_erasing_a_user_ends_the_keys_and_the_audit_log_names_who_asked(
    client: Any, memory: AsyncAgentMemory
) -> None:
    admin = {**await make_key(memory, "*", "read", "erase", "admin"), "X-Agentmem-User": "ann"}
    ann = await make_key(memory, "ann")
    ann_id = (await list_api_keys(memory.engine, "ann"))[0].id
    await client.post("/v1/turns", json={"content": "Hi."}, headers=ann)
    rows = (await client.get("/v1/audit", headers=admin)).json()
    assert [row["actor"] for row in rows if row["memory_type"] == "episodic"] == [ann_id]
    assert (await client.delete("/v1/user", headers=admin)).json()["scan"]["leftovers"] == {}
    assert (await client.get("/v1/turns", headers=ann)).status_code == 401


async def test_keys_are_made_over_http_by_who_may_and_never_with_more(client: Any, memory: AsyncAgentMemory) -> None:
    ann = await make_key(memory, "ann", "read", "admin")
    made = (await client.post("/v1/keys", json={"scopes": ["read"]}, headers=ann)).json()
    assert made["key"]["user_id"] == "ann"
    fresh = {"X-API-Key": made["secret"]}
    assert (await client.get("/v1/turns", headers=fresh)).status_code == 200
    for more in (
        {"scopes": ["read", "write"]},
        {"user_id": "bob", "scopes": ["read"]},
        {"user_id": "*", "scopes": ["admin"]},
    ):
        assert (await client.post("/v1/keys", json=more, headers=ann)).status_code == 403
    await make_key(memory, "bob")
    listed = (await client.get("/v1/keys", headers=ann)).json()
    assert {key["user_id"] for key in listed} == {"ann"}
    assert made["secret"] not in str(listed)
    [bob] = await list_api_keys(memory.engine, "bob")
    assert (await client.delete(f"/v1/keys/{bob.id}", headers=ann)).status_code == 404
    gone = (await client.delete(f"/v1/keys/{made['key']['id']}", headers=ann)).json()
    assert gone["revoked_at"] is not None
    assert (await client.get("/v1/turns", headers=fresh)).status_code == 401
    wrong = await client.post("/v1/keys", json={"scopes": ["fly"]}, headers=ann)
    assert wrong.status_code in (403, 422)


async def test_a_key_that_asks_too_often_is_told_when_to_come_again(home: Path) -> None:
    limits: Any = {"requests_per_minute": 3}
    memory = AsyncAgentMemory("ann", home=home, embedder="hash", server=limits)
    async with open_client(memory) as client:
        ann, bob = await make_key(memory, "ann"), await make_key(memory, "bob")
        answers = [await client.get("/v1/turns", headers=ann) for _ in range(4)]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
        assert 1 <= int(answers[-1].headers["retry-after"]) <= 20
        assert (await client.get("/v1/turns", headers=bob)).status_code == 200


async def test_beyond_loopback_operators_paths_need_admin_and_other_names_are_refused(home: Path) -> None:
    names: Any = {"hosts": ["memory.example"], "origins": ["https://app.example"]}
    memory = AsyncAgentMemory("ann", home=home, embedder="hash", server=names)
    async with open_client(memory, host="0.0.0.0") as client:
        assert (await client.get("/v1/turns")).status_code == 401
        assert (await client.get("/openapi.json")).status_code == 401
        reader, admin = await make_key(memory, "ann"), await make_key(memory, "ann", "admin")
        assert (await client.get("/openapi.json", headers=reader)).status_code == 403
        assert (await client.get("/openapi.json", headers=admin)).status_code == 200
        for host, status in (("memory.example:80", 200), ("other.example", 421)):
            assert (await client.get("/v1/turns", headers={**reader, "Host": host})).status_code == status
        page = {"Origin": "https://app.example"}
        asked = await client.get("/v1/turns", headers={**reader, **page})
        assert asked.headers["access-control-allow-origin"] == "https://app.example"
        before = {**page, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
        assert (await client.options("/v1/turns", headers=before)).status_code == 200


async def test_requests_of_one_key_at_once_ask_the_store_once(
    memory: AsyncAgentMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await create_api_key(memory.engine, "ann", ("read",))
    verifier, asked = callers.ApiKeyVerifier(lambda: memory.engine), []
    find = memory.engine.api_keys.find

    async def find_counted(secret_hash: str) -> Any:
        asked.append(secret_hash)
        return await find(secret_hash)

    monkeypatch.setattr(memory.engine.api_keys, "find", find_counted)
    found = await asyncio.gather(*(verifier.verify(made.secret) for _ in range(20)))
    assert [each.user_id for each in found if each] == ["ann"] * 20
    assert len(asked) == 1
