"""The routes of mem0's server, asked as mem0's client and its own server's callers ask them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest

from agentmem import AsyncAgentMemory
from tests.surfaces.conftest import build_shared_app

ADD, LIST, SEARCH = "/mem0/v3/memories/add/", "/mem0/v3/memories/", "/mem0/v3/memories/search/"
PEANUTS = "I am allergic to peanuts."
KEY = "The deploy key rotates on Fridays"


@pytest.fixture
def mem0_app() -> Any:
    """The application behind `mem0`."""
    return build_shared_app(with_mem0=True)


@pytest.fixture
async def mem0(home: Path, mem0_app: Any) -> AsyncIterator[Any]:
    """A client of the routes over an embedded memory of Ann's."""
    import httpx2 as httpx

    async with AsyncAgentMemory("ann", home=home, embedder="hash") as memory:
        mem0_app.state.memory = memory
        transport = httpx.ASGITransport(mem0_app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:17890") as opened:
            yield opened
        mem0_app.dependency_overrides.clear()


async def add(client: Any, *texts: str, **more: Any) -> list[dict[str, Any]]:
    """What became of messages of the user."""
    messages = [{"role": "user", "content": text} for text in texts]
    answer = await client.post(ADD, json={"messages": messages, **more})
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["results"]
    return found


async def list_texts(client: Any, **filters: Any) -> list[str]:
    """The memories that match filters, latest first."""
    return [each["memory"] for each in (await client.post(LIST, json={"filters": filters})).json()["results"]]


async def search_texts(client: Any, query: str, **filters: Any) -> list[str]:
    """The memories for a query that match filters, best first."""
    found = (await client.post(SEARCH, json={"query": query, "filters": filters})).json()
    return [each["memory"] for each in found["results"]]


async def read_events(client: Any, memory_id: str) -> list[tuple[Any, ...]]:
    """The history of a memory."""
    history = (await client.get(f"/mem0/v1/memories/{memory_id}/history/")).json()
    return [(each["event"], each["old_memory"], each["new_memory"]) for each in history]


def limit_permissions(app: Any, kind: Any, *permissions: str) -> None:
    """Let callers of a kind of route be Ann with these permissions alone."""
    from agentmem.server.auth import Caller

    ann = replace(Caller("ann"), permissions=frozenset(permissions))  # type: ignore[arg-type]
    app.dependency_overrides[get_args(kind)[1].dependency] = lambda: ann


async def test_the_client_is_told_the_names_that_it_needs(mem0: Any) -> None:
    told = (await mem0.get("/mem0/v1/ping/", headers={"Authorization": "Token any"})).json()
    assert told["user_email"] == "ann"
    assert told["org_id"]
    assert told["project_id"]


async def test_what_is_told_is_found_corrected_under_its_id_and_deleted(mem0: Any) -> None:
    [added] = await add(mem0, PEANUTS, run_id="r1", metadata={"topic": "health"})
    assert (added["event"], added["kind"], added["memory"]) == ("ADD", "fact", "The user is allergic to peanuts")
    one, wrong, right = f"/mem0/v1/memories/{added['id']}/", added["memory"], "Ann is allergic to walnuts"
    asked = {"query": "allergic?", "filters": {"AND": [{"user_id": "ann"}, {"topic": "health"}]}, "explain": True}
    [found] = (await mem0.post(SEARCH, json=asked)).json()["results"]
    assert (found["id"], found["memory"], found["user_id"], found["run_id"]) == (added["id"], wrong, "ann", "r1")
    assert found["score"] > 0
    assert all((found["score_details"]["why"], found["created_at"], found["updated_at"]))
    assert (await mem0.put(one, json={"text": right})).json()["id"] == added["id"]
    assert (await mem0.get(one)).json()["memory"] == right
    assert (await mem0.get(one)).json()["metadata"] == {"topic": "health"}
    assert await search_texts(mem0, "peanuts") == [right]  # the message that was wrong is not found, either
    assert (await mem0.delete(one)).status_code == 200
    assert await search_texts(mem0, "peanuts walnuts") == await list_texts(mem0) == []
    assert await read_events(mem0, added["id"]) == [
        ("ADD", None, wrong),
        ("UPDATE", wrong, right),
        ("DELETE", right, None),
    ]
    for gone in (await mem0.get(one), await mem0.delete(one), await mem0.put(one, json={"text": "x"})):
        assert (gone.status_code, gone.json()["error"]) == (404, "NotFound")


async def test_a_message_without_a_fact_is_a_memory_and_keeps_its_id(mem0: Any) -> None:
    answer = (await mem0.post(ADD, json={"messages": [{"content": KEY}, {"content": "ok"}], "app_id": "ci"})).json()
    [added] = answer["results"]
    assert (added["memory"], added["event"], added["kind"]) == (KEY, "ADD", "message")
    assert len(answer["notices"]) == 2
    one = f"/mem0/v1/memories/{added['id']}/"
    for text in ("It rotates on Mondays", "It rotates on Sundays"):
        assert (await mem0.put(one, json={"text": text})).json()["memory"] == text
    assert (await mem0.get(one)).json()["metadata"] == {"app_id": "ci"}
    [listed] = (await mem0.post(LIST, json={"filters": {"app_id": "ci"}})).json()["results"]
    assert (listed["id"], listed["memory"], listed["kind"]) == (added["id"], "It rotates on Sundays", "fact")
    assert KEY not in await search_texts(mem0, "deploy key")
    assert [event for event, _, _ in await read_events(mem0, added["id"])] == ["ADD", "UPDATE", "UPDATE"]
    [other] = await add(mem0, "The staging key never rotates")
    assert (await mem0.delete(f"/mem0/v1/memories/{other['id']}/")).status_code == 200
    assert [event for event, _, _ in await read_events(mem0, other["id"])] == ["ADD", "DELETE"]
    assert (await mem0.get(f"/mem0/v1/memories/{other['id']}/")).status_code == 404


async def test_without_inference_each_message_is_kept_until_its_last_day(mem0: Any) -> None:
    first, second = await add(mem0, PEANUTS, "ok", infer=False, expiration_date="2099-01-01")
    assert [first["memory"], second["memory"]] == [PEANUTS, "ok"]
    [again] = await add(mem0, PEANUTS, infer=False, expiration_date="2099-01-01")
    assert (again["id"], again["event"]) == (first["id"], "NONE")
    one = f"/mem0/v1/memories/{first['id']}/"
    assert (await mem0.get(one)).json()["expiration_date"] == "2099-01-01"
    assert (await mem0.put(one, json={"expiration_date": "2020-01-01"})).json()["expiration_date"] == "2020-01-01"
    assert await list_texts(mem0) == ["ok"]
    assert PEANUTS not in await search_texts(mem0, "peanuts")
    assert (await mem0.put(one, json={"expiration_date": None})).json()["expiration_date"] is None
    assert PEANUTS in await list_texts(mem0)


async def test_what_is_read_from_a_message_kept_word_for_word_is_no_second_memory(mem0: Any) -> None:
    [kept] = await add(mem0, PEANUTS, infer=False)
    await add(mem0, "I live in Paris.")  # reads both messages
    claims = [fact["claim"] for fact in (await mem0.get("/v1/facts")).json()]
    assert "The user is allergic to peanuts" in claims
    assert await list_texts(mem0) == ["The user lives in Paris", PEANUTS]
    assert (await mem0.delete(f"/mem0/v1/memories/{kept['id']}/")).status_code == 200
    assert await list_texts(mem0) == await search_texts(mem0, "allergic") == ["The user lives in Paris"]


async def test_pages_hold_each_memory_once_and_end(mem0: Any) -> None:
    await add(mem0, *(f"Memory {number}" for number in range(5)), infer=False)
    pages = []
    link: str | None = f"{LIST}?page=1&page_size=2"
    while link is not None:
        page = (await mem0.post(link, json={"filters": {"user_id": "ann"}})).json()
        pages.append([each["memory"] for each in page["results"]])
        assert page["count"] == 5
        link = page["next"]
    assert pages == [["Memory 4", "Memory 3"], ["Memory 2", "Memory 1"], ["Memory 0"]]
    assert page["previous"].endswith("?page=2&page_size=2")
    beyond = (await mem0.post(f"{LIST}?page=9", json={"page": 1, "page_size": 2})).json()  # the URL counts
    assert (beyond["results"], beyond["count"], beyond["next"]) == ([], 5, None)
    assert (await mem0.post(LIST, json={"page_size": 0})).json()["field"] == "page_size"


async def test_an_agents_memories_lie_in_its_channel_and_are_reached_by_their_id(mem0: Any) -> None:
    await add(mem0, PEANUTS)
    [own] = await add(mem0, "I live in Paris.", agent_id="bot", run_id="trip")
    assert await list_texts(mem0, agent_id="bot") == await search_texts(mem0, "allergic", agent_id="bot")
    assert await list_texts(mem0, agent_id="bot", run_id="trip") == ["The user lives in Paris"]
    assert await list_texts(mem0) == ["The user is allergic to peanuts"]
    kept = (await mem0.get(f"/mem0/v1/memories/{own['id']}/")).json()
    assert (kept["agent_id"], kept["run_id"], kept["user_id"]) == ("bot", "trip", "ann")
    entities = (await mem0.get("/mem0/v1/entities/")).json()
    names = [(each["type"], each["name"], each["total_memories"]) for each in entities["results"]]
    assert names[:2] == [("user", "ann", 2), ("agent", "bot", 1)]
    assert ("run", "trip", 1) in names
    assert (await mem0.delete("/mem0/v2/entities/run/trip/")).json() == {"message": "2 records are deleted."}
    assert await list_texts(mem0, agent_id="bot") == []
    assert (await mem0.delete("/mem0/v2/entities/user/ann/")).json() == {"message": "2 records are deleted."}
    assert (await mem0.get("/mem0/v1/entities/")).json()["count"] == 0


async def test_only_what_is_named_is_deleted(mem0: Any) -> None:
    await add(mem0, "One", run_id="a", infer=False, metadata={"n": 1})
    await add(mem0, "Two", run_id="a", infer=False)
    await add(mem0, "Three", run_id="b", infer=False)
    memories = "/mem0/v1/memories/"
    for query in ({}, {"org_id": "x"}, {"user_id": "ann", "session": "a"}, {"filters": "(1)"}, {"filters": "{" * 900}):
        refused = await mem0.delete(memories, params=query)
        assert (refused.status_code, refused.json()["error"]) == (422, "InvalidRecord")
    sent = "{'run_id': 'a', 'n': 1}"  # as mem0's client writes a dict into a URL
    assert (await mem0.delete(memories, params={"filters": sent})).json() == {"message": "2 records are deleted."}
    assert await list_texts(mem0) == ["Three", "Two"]
    assert (await mem0.delete("/mem0/v2/entities/user/*/")).status_code == 404
    assert (await mem0.delete("/mem0/v2/entities/run/*/")).json() == {"message": "0 records are deleted."}
    await mem0.delete(memories, params={"run_id": "a"})
    assert await list_texts(mem0) == ["Three"]


async def test_the_paths_of_the_self_hosted_server_do_the_same(mem0: Any) -> None:
    body = {"messages": [{"role": "user", "content": KEY}], "user_id": "ann", "infer": False}
    [added] = (await mem0.post("/mem0/memories", json=body)).json()["results"]
    one = f"/mem0/memories/{added['id']}"
    assert [each["id"] for each in (await mem0.get("/mem0/memories?user_id=ann")).json()["results"]] == [added["id"]]
    assert (await mem0.get("/mem0/memories?top_k=0")).json() == {"results": []}
    found = (await mem0.post("/mem0/search", json={"query": "deploy key", "top_k": 1, "threshold": 0.01})).json()
    assert [each["id"] for each in found["results"]] == [added["id"]]
    none = (await mem0.post("/mem0/search", json={"query": "deploy key", "threshold": 2})).json()
    assert none["results"] == []
    assert (await mem0.put(one, json={"text": "The deploy key is gone"})).status_code == 200
    assert (await mem0.get(one)).json()["memory"] == "The deploy key is gone"
    assert len((await mem0.get(f"{one}/history")).json()) == 2
    assert (await mem0.delete(one)).status_code == 200
    assert (await mem0.get(one)).status_code == 404
    assert (await mem0.delete("/mem0/memories?user_id=ann")).status_code == 200


async def test_several_memories_are_changed_and_deleted_at_once(mem0: Any) -> None:
    first, second = await add(mem0, "One", "Two", infer=False)
    sent = {"memories": [{"memory_id": first["id"], "text": "Eins"}]}
    assert (await mem0.put("/mem0/v1/batch/", json=sent)).status_code == 200
    sent = {"memories": [{"memory_id": second["id"]}, {"memory_id": "nobody"}]}
    assert (await mem0.request("DELETE", "/mem0/v1/batch/", json=sent)).status_code == 404
    assert await list_texts(mem0) == ["Eins"]


async def test_another_users_memories_are_his_who_may_name_him(mem0: Any, mem0_app: Any) -> None:
    from agentmem.server.auth import Reader, Writer

    [bobs] = await add(mem0, PEANUTS, user_id="bob")
    one = f"/mem0/v1/memories/{bobs['id']}/"
    assert bobs["id"].endswith("@bob")
    assert (await mem0.get(one)).json()["user_id"] == "bob"
    assert await list_texts(mem0) == []
    unknown = await mem0.get("/mem0/v1/memories/nobody/")
    limit_permissions(mem0_app, Reader, "read")
    limit_permissions(mem0_app, Writer, "write")
    refused = [
        await mem0.get(one),
        await mem0.get(one.replace("@bob", "")),
        await mem0.put(one, json={"text": "x"}),
        await mem0.delete(one),
        await mem0.get(f"{one}history/"),
        await mem0.post(ADD, json={"messages": [{"content": KEY}], "user_id": "bob"}),
        await mem0.post(LIST, json={"filters": {"user_id": "bob"}}),
        await mem0.post(SEARCH, json={"query": "?", "filters": {"user_id": "bob"}}),
        await mem0.get("/mem0/memories?user_id=bob"),
        await mem0.delete("/mem0/memories?user_id=bob"),
        await mem0.delete("/mem0/v2/entities/user/bob/"),
    ]
    assert {answer.status_code for answer in refused} == {404}
    assert {answer.content for answer in refused} == {unknown.content}
    mem0_app.dependency_overrides.clear()
    assert await list_texts(mem0, user_id="bob") == ["The user is allergic to peanuts"]


async def test_a_reset_needs_two_permissions_and_erases(mem0: Any, mem0_app: Any) -> None:
    from agentmem.server.auth import Eraser

    [added] = await add(mem0, PEANUTS)
    await add(mem0, KEY, user_id="bob")
    limit_permissions(mem0_app, Eraser, "erase")
    assert (await mem0.post("/mem0/reset")).status_code == 403
    assert len(await list_texts(mem0)) == 1
    mem0_app.dependency_overrides.clear()
    assert (await mem0.post("/mem0/reset")).status_code == 200
    assert (await mem0.get(f"/mem0/v1/memories/{added['id']}/history/")).status_code == 404
    assert await list_texts(mem0, user_id="bob") == [KEY]


@pytest.mark.parametrize(
    "path, sent, field",
    [
        (ADD, {"messages": "Hi."}, "messages"),
        (ADD, {"messages": [{"content": " "}]}, "content"),
        (ADD, {"messages": [{"content": KEY}], "timestamp": 10**18}, "timestamp"),
        (ADD, {"messages": [{"content": KEY}], "expiration_date": "2099-01-01"}, "expiration_date"),
        (ADD, {"messages": [{"content": KEY}], "infer": False, "expiration_date": "9999-12-31"}, "expiration_date"),
        (ADD, {"messages": [{"content": KEY}], "user_id": "x" * 300}, "user_id"),
        (SEARCH, {"query": " "}, "query"),
        (SEARCH, {"query": "?", "top_k": 0}, "top_k"),
        (SEARCH, {"query": "?", "filters": {"OR": [{"user_id": "ann"}]}}, "filters"),
        (SEARCH, {"query": "?", "filters": {"created_at": {"gte": "2024"}}}, "filters"),
        (LIST, {"filters": {"user_id": 7}}, "filters"),
        (LIST, {"filters": {"AND": [{"run_id": "a"}, {"run_id": "b"}]}}, "filters"),
    ],
)
async def test_what_is_wrong_is_a_problem_that_names_the_field(
    mem0: Any, path: str, sent: dict[str, Any], field: str
) -> None:
    refused = await mem0.post(path, json=sent)
    assert (refused.status_code, refused.json()["error"], refused.json()["field"]) == (422, "InvalidRecord", field)


async def test_an_update_names_what_it_cannot_change_and_an_answer_what_had_no_effect(mem0: Any) -> None:
    [added] = await add(mem0, KEY, infer=False)
    for sent, field in (({}, "text"), ({"text": "x", "metadata": {"a": 1}}, "metadata"), ({"text": " "}, "claim")):
        refused = await mem0.put(f"/mem0/v1/memories/{added['id']}/", json=sent)
        assert (refused.status_code, refused.json()["field"]) == (422, field)
    body = {"query": "deploy", "rerank": True}
    assert (await mem0.post(SEARCH, json=body)).json()["notices"][-1] == "Without effect here: rerank."
