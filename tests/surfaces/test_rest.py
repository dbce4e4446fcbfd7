"""The memory over HTTP, in the process of the tests: what its routes give, and how they refuse."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agentmem import AsyncAgentMemory
from agentmem.errors import (
    AgentMemError,
    BudgetExceeded,
    Conflict,
    CorruptStore,
    InvalidModelOutput,
    InvalidRecord,
    LeaseLost,
    ModelUnavailable,
    NotFound,
    RateLimited,
    ScopeError,
    StoreUnavailable,
)
from agentmem.server.errors import NOT_FOUND_DETAIL, build_error_response
from tests.surfaces.conftest import open_client


async def test_a_stored_turn_is_recalled_with_its_reason_and_receipt(client: Any) -> None:
    stored = await client.post("/v1/turns", json={"content": "I am allergic to peanuts.", "speaker": "Ann"})
    assert stored.status_code == 201
    turn = stored.json()
    found = (await client.post("/v1/recall", json={"query": "what is she allergic to?", "conversation_id": "x"})).json()
    assert found["items"][0]["record"]["id"] == turn["id"]
    assert found["items"][0]["record"]["kind"] == "Turn"
    assert found["items"][0]["why"]
    assert found["items"][0]["standing"] == "current"
    replayed = (await client.post(f"/v1/receipts/{found['receipt']}/replay")).json()
    assert replayed["items"] == found["items"]
    receipt = (await client.get(f"/v1/receipts/{found['receipt']}")).json()
    assert receipt["delivered"] == [["Turn", turn["id"]]]
    why = await client.get(f"/v1/receipts/{found['receipt']}/why_not", params={"record_id": "nobody"})
    assert why.json()["record_id"] == "nobody"
    context = (await client.post("/v1/context", json={"query": "peanuts?", "max_tokens": 500})).json()
    assert "peanuts" in context["text"]
    assert {"kind": "Turn", "id": turn["id"]} in context["records"]


async def test_turns_and_conversations_are_listed_and_forgotten(client: Any) -> None:
    batch = {"conversation_id": "trip", "turns": [{"content": f"Day {day}."} for day in range(3)]}
    stored = (await client.post("/v1/turns/batch", json=batch)).json()
    assert [turn["index"] for turn in stored] == [0, 1, 2]
    assert [turn["content"] for turn in (await client.get("/v1/turns?limit=2")).json()] == ["Day 1.", "Day 2."]
    assert [each["id"] for each in (await client.get("/v1/conversations")).json()] == ["trip"]
    assert len((await client.get("/v1/conversations/trip")).json()) == 3
    gone = (await client.delete("/v1/conversations/trip")).json()
    assert gone["hard"] is False
    assert (await client.get("/v1/conversations/trip")).status_code == 404
    undone = await client.post(f"/v1/operations/{gone['operation_id']}/undo")
    assert undone.status_code == 200
    assert len((await client.get("/v1/conversations/trip")).json()) == 3


async def test_a_turn_names_the_conversation_that_it_begins(client: Any) -> None:
    turn = {"content": "We leave on Monday.", "conversation_id": "c", "conversation_title": "Trip"}
    await client.post("/v1/turns", json=turn)
    await client.post("/v1/turns/batch", json={"turns": [{"content": "Hi.", "conversation_title": "Greeting"}]})
    assert [each["title"] for each in (await client.get("/v1/conversations")).json()] == ["Greeting", "Trip"]


async def test_a_fact_is_learned_corrected_replaced_forgotten_and_restored(client: Any) -> None:
    told = {"claim": "Ann lives in Paris", "confidence": 0.9, "tags": ["home"]}
    first = (await client.post("/v1/facts", json=told)).json()
    moved = (await client.post(f"/v1/facts/{first['id']}/supersede", json={"claim": "Ann lives in Oslo"})).json()
    assert [fact["claim"] for fact in (await client.get("/v1/facts")).json()] == ["Ann lives in Oslo"]
    history = (await client.get(f"/v1/facts/{moved['id']}/history")).json()
    assert list(dict.fromkeys(fact["claim"] for fact in history)) == ["Ann lives in Paris", "Ann lives in Oslo"]
    sure = (await client.patch(f"/v1/facts/{moved['id']}", json={"confidence": 0.5})).json()
    assert (sure["id"], sure["confidence"]) == (moved["id"], 0.5)
    assert (await client.get(f"/v1/facts/{moved['id']}/provenance")).json() == []
    assert (await client.get(f"/v1/records/{moved['id']}")).json()["kind"] == "Fact"
    assert (await client.delete(f"/v1/records/{moved['id']}")).json()["ids"] == [moved["id"]]
    assert (await client.get("/v1/facts")).json() == []
    restored = (await client.post(f"/v1/records/{moved['id']}/restore")).json()
    assert [record["kind"] for record in restored] == ["Fact"]
    ends = {"earlier": "2020-01-01T00:00:00Z", "later": "2100-01-01T00:00:00Z"}
    diff = (await client.get("/v1/diff", params=ends)).json()
    assert [fact["claim"] for fact in diff["learned"]] == ["Ann lives in Oslo"]


async def test_what_is_erased_is_searched_for(client: Any) -> None:
    turn = (await client.post("/v1/turns", json={"content": "The code is 1234."})).json()
    erased = (await client.delete(f"/v1/records/{turn['id']}", params={"hard": True})).json()
    assert (erased["hard"], erased["scan"]["leftovers"]) == (True, {})
    assert (await client.delete("/v1/user")).json()["scan"]["leftovers"] == {}


async def test_a_key_used_twice_gives_the_first_result_and_another_body_is_a_conflict(client: Any) -> None:
    key = {"Idempotency-Key": "once"}
    first, again = [(await client.post("/v1/turns", json={"content": "Hi."}, headers=key)).json() for _ in range(2)]
    assert first["id"] == again["id"]
    refused = await client.post("/v1/turns", json={"content": "Bye."}, headers=key)
    assert (refused.status_code, refused.json()["error"]) == (409, "Conflict")


async def test_the_header_names_whose_memory_and_nothing_of_others_is_told(client: Any) -> None:
    turn = (await client.post("/v1/turns", json={"content": "Hi.", "conversation_id": "c"})).json()
    bob = {"X-Agentmem-User": "bob"}
    assert (await client.get("/v1/turns", headers=bob)).json() == []
    foreign = await client.delete(f"/v1/records/{turn['id']}", headers=bob)
    unknown = await client.get("/v1/records/nobody", headers=bob)
    assert foreign.status_code == 404
    assert foreign.content == unknown.content


@pytest.mark.parametrize(
    "method, path, sent, status, field",
    [
        ("POST", "/v1/turns", {"json": {"content": " "}}, 422, "content"),
        ("POST", "/v1/turns", {"json": {"role": "user"}}, 422, "content"),
        ("POST", "/v1/turns", {"json": {"content": 7}}, 422, "content"),
        ("POST", "/v1/turns", {"json": {"content": "Hi.", "roel": "assistant"}}, 422, "roel"),
        ("POST", "/v1/turns/batch", {"json": {"turns": [{"content": "Hi.", "text": "?"}]}}, 422, "text"),
        ("POST", "/v1/recall", {"json": {"query": "?", "top_k": "5"}}, 422, "top_k"),
        ("POST", "/v1/recall", {"json": {"query": "?", "reinforce": 0}}, 422, "reinforce"),
        ("POST", "/v1/facts", {"json": {"claim": "It rains.", "confidence": True}}, 422, "confidence"),
        ("POST", "/v1/turns", {"json": []}, 422, None),
        ("POST", "/v1/recall", {"json": {"query": "?", "top_k": 1000}}, 422, "top_k"),
        ("GET", "/v1/turns?limit=x", {}, 422, "limit"),
        ("GET", "/v1/turns?channel=_self_bob", {}, 404, None),
        ("GET", "/v1/facts?as_of=0.5", {}, 422, "as_of"),
        ("POST", "/v1/turns", {"json": {"content": "Hi.", "timestamp": 7}}, 422, "timestamp"),
        ("PUT", "/v1/turns", {"json": {}}, 405, None),
        ("POST", "/v1/turns", {"content": b"{", "headers": {"content-type": "application/json"}}, 400, None),
        (
            "POST",
            "/v1/turns",
            {"content": b'{"content": "\xff"}', "headers": {"content-type": "application/json"}},
            400,
            None,
        ),
        ("POST", "/v1/turns", {"content": b"hi", "headers": {"content-type": "text/plain"}}, 415, None),
        ("POST", "/v1/turns", {"json": {"content": "x" * (1 << 20)}}, 413, None),
        ("GET", "/v1/turns", {"headers": {"host": "evil.example"}}, 421, None),
        ("GET", "/v1/turns", {"headers": {"origin": "https://evil.example"}}, 403, None),
    ],
)
async def test_what_is_wrong_is_a_problem_that_names_the_field(
    client: Any, method: str, path: str, sent: dict[str, Any], status: int, field: str | None
) -> None:
    answer = await client.request(method, path, **sent)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    problem = answer.json()
    assert (problem["status"], problem.get("field")) == (status, field)
    assert problem["detail"]
    assert (await client.get("/v1/turns")).json() == []


async def test_a_body_without_a_length_is_cut_off_at_the_limit(client: Any) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield b"x" * 100_000

    answer = await client.post("/v1/turns", content=endless(), headers={"content-type": "application/json"})
    assert answer.status_code == 413


@pytest.mark.parametrize(
    "error, status, told",
    [
        (InvalidRecord("bad", field="claim"), 422, "bad"),
        (NotFound("fact of bob"), 404, NOT_FOUND_DETAIL),
        (ScopeError("channel of bob"), 404, NOT_FOUND_DETAIL),
        (Conflict("changed meanwhile"), 409, "changed meanwhile"),
        (LeaseLost("lost"), 409, "lost"),
        (RateLimited("slower", retry_after=1.2), 429, "slower"),
        (BudgetExceeded("spent"), 429, "spent"),
        (InvalidModelOutput("no JSON"), 502, "no JSON"),
        (StoreUnavailable("away"), 503, "away"),
        (ModelUnavailable("away"), 503, "away"),
        (CorruptStore("page 3"), 503, "page 3"),
    ],
)
def test_every_error_has_its_status(error: AgentMemError, status: int, told: str) -> None:
    answer = build_error_response(error)
    assert answer.status_code == status
    assert told in bytes(answer.body).decode()
    assert ("retry-after" in answer.headers) == (status == 429)


async def test_a_bug_is_told_without_its_words(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def failing(*_: object, **__: object) -> None:
        raise RuntimeError("the secret word")

    monkeypatch.setattr(AsyncAgentMemory, "remember", failing)
    answer = await client.post("/v1/recall", json={"query": "?"})
    assert answer.status_code == 500
    assert "secret" not in answer.text


async def test_every_route_documents_its_errors(client: Any) -> None:
    paths = (await client.get("/openapi.json")).json()["paths"]
    operations = [operation for methods in paths.values() for operation in methods.values()]
    assert len(operations) > 20
    for operation in operations:
        assert operation["summary"]
        assert {"400", "404", "409", "413", "415", "421", "422", "429", "503"} <= set(operation["responses"])


async def test_health_and_readiness(client: Any) -> None:
    assert (await client.get("/health")).json() == {"status": "ok"}
    assert (await client.get("/ready")).json() == {"status": "ok"}


async def test_entities_are_related_and_read_as_a_graph(client: Any) -> None:
    ann = (await client.post("/v1/entities", json={"name": "Ann", "type": "person"})).json()
    bob = (await client.post("/v1/entities", json={"name": "Bob", "type": "person", "aliases": ["Bobby"]})).json()
    assert [each["id"] for each in (await client.get("/v1/entities", params={"name": "bobby"})).json()] == [bob["id"]]
    edge = await client.post("/v1/relations", json={"source": ann["id"], "kind": "KNOWS", "target": bob["id"]})
    assert (edge.status_code, edge.json()["edge_kind"]) == (201, "KNOWS")
    graph = (await client.get(f"/v1/entities/{ann['id']}/graph")).json()
    assert {each["id"] for each in graph["entities"]} == {ann["id"], bob["id"]}
    deep = await client.get(f"/v1/entities/{ann['id']}/graph", params={"depth": 9})
    assert (deep.status_code, deep.json()["field"]) == (422, "depth")


async def test_the_profile_is_merged_and_the_synopsis_read(client: Any) -> None:
    told = {"preferences": {"tone": "short", "lang": "en"}, "expertise_areas": ["sailing"]}
    assert (await client.patch("/v1/profile", json=told)).status_code == 200
    await client.patch("/v1/profile", json={"preferences": {"lang": None}})
    profile = (await client.get("/v1/profile")).json()
    assert (profile["preferences"], profile["expertise_areas"], profile["beliefs"]) == (
        {"tone": "short"},
        ["sailing"],
        [],
    )
    await client.post("/v1/facts", json={"claim": "The user lives in Oslo", "slot": "home", "value": "Oslo"})
    (home,) = (await client.get("/v1/profile")).json()["beliefs"]
    assert (home["slot"], [each["value"] for each in home["current"]]) == ("home", ["Oslo"])
    assert (await client.get("/v1/synopsis")).status_code == 200


async def test_reviews_are_listed_and_only_known_ones_resolved(client: Any) -> None:
    assert (await client.get("/v1/reviews")).json() == []
    wrong = await client.get("/v1/reviews", params={"about": "taste"})
    assert (wrong.status_code, wrong.json()["field"]) == (422, "about")
    assert (await client.post("/v1/reviews/nobody/resolve", json={"decision": "accept"})).status_code == 404


async def test_goals_wait_for_each_other_and_end(client: Any) -> None:
    trip = (await client.post("/v1/goals", json={"description": "Plan the trip", "priority": 5})).json()
    visa = (await client.post("/v1/goals", json={"description": "Get a visa", "parent_id": trip["id"]})).json()
    blocked = (await client.post(f"/v1/goals/{trip['id']}/block", json={"by": [visa["id"]]})).json()
    assert blocked["goal_status"] == "blocked"
    tree = (await client.get(f"/v1/goals/{trip['id']}/sub_goals")).json()
    assert [node["goal"]["id"] for node in tree] == [visa["id"]]
    moved = (await client.post(f"/v1/goals/{visa['id']}/progress", json={"progress": 0.5, "note": "Filed"})).json()
    assert (moved["progress"], moved["note"]) == (0.5, "Filed")
    done = (await client.post(f"/v1/goals/{visa['id']}/complete", json={"result": "Granted"})).json()
    assert (done["goal_status"], done["result"]) == ("completed", "Granted")
    assert (await client.get(f"/v1/goals/{trip['id']}")).json()["goal_status"] == "active"
    free = await client.post(f"/v1/goals/{trip['id']}/unblock", json={})
    assert (free.status_code, free.json()["error"]) == (422, "InvalidRecord")
    renamed = (await client.patch(f"/v1/goals/{trip['id']}", json={"description": "Plan the long trip"})).json()
    assert renamed["description"] == "Plan the long trip"
    assert [goal["id"] for goal in (await client.get("/v1/goals?status=active")).json()] == [trip["id"]]


async def test_what_takes_too_long_is_given_up_and_too_many_are_told_to_wait(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    limits = {"request_seconds": 0.2, "body_seconds": 0.1, "concurrency": 1}
    async with open_client(AsyncAgentMemory("ann", home=home, embedder="hash", server=limits)) as client:  # type: ignore[arg-type]
        monkeypatch.setattr(AsyncAgentMemory, "remember", never)
        asked = [client.post("/v1/recall", json={"query": "?"}) for _ in range(2)]
        answers = sorted(await asyncio.gather(*asked), key=lambda answer: answer.elapsed)
        assert [(answer.status_code, answer.headers["retry-after"]) for answer in answers] == [(503, "1")] * 2
        details = [answer.json()["detail"] for answer in answers]
        assert sorted(detail.split()[0] for detail in details) == ["The", "Too"]

        async def slow() -> AsyncIterator[bytes]:
            yield b"{"
            await asyncio.Event().wait()

        late = await client.post("/v1/turns", content=slow(), headers={"content-type": "application/json"})
        assert late.status_code == 408
        assert (await client.get("/v1/turns")).json() == []


async def test_all_methods_of_a_path_are_allowed_in_one_line(client: Any) -> None:
    refused = await client.request("OPTIONS", "/v1/facts/x")
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD, PATCH")
