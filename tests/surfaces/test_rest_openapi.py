"""The description of the routes: what programs make clients from."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema
import pytest

from agentmem.core.records import KINDS
from agentmem.server.auth import OPEN_PATHS, OPERATOR_PATHS
from tests.surfaces.conftest import build_shared_app


@pytest.fixture
def shared_app() -> Any:
    """All routes, mem0's too."""
    return build_shared_app(with_mem0=True)


@pytest.fixture(scope="module")
def description() -> dict[str, Any]:
    """Of all routes, mem0's too."""
    return dict(build_shared_app(with_mem0=True).openapi())


def test_a_key_is_sent_in_either_header_to_all_but_open_routes(description: dict[str, Any]) -> None:
    schemes = description["components"]["securitySchemes"]
    either = [{name: []} for name in schemes]
    assert {(scheme["type"], scheme.get("scheme") or scheme["name"]) for scheme in schemes.values()} == {
        ("http", "bearer"),
        ("apiKey", "X-API-Key"),
    }
    for path, operations in description["paths"].items():
        expected = [] if path in OPEN_PATHS else [{}, *either] if path in OPERATOR_PATHS else either
        for operation in operations.values():
            assert operation.get("security", description["security"]) == expected


def test_operations_have_the_names_of_their_functions_each_its_own(description: dict[str, Any]) -> None:
    names = [each["operationId"] for operations in description["paths"].values() for each in operations.values()]
    assert len(names) == len(set(names))
    assert description["paths"]["/v1/turns"]["post"]["operationId"] == "store_turn"
    assert description["paths"]["/mem0/v3/memories/search/"]["post"]["operationId"] == "mem0_search_memories_v3"


@pytest.mark.parametrize("path", ["/v1/jobs/run", "/v1/import"])
def test_events_of_long_work_are_described(description: dict[str, Any], path: str) -> None:
    content = description["paths"][path]["post"]["responses"]["200"]["content"]
    events = {
        each["properties"]["event"]["const"]: each["properties"]["data"]["contentSchema"]
        for each in content["text/event-stream"]["itemSchema"]["oneOf"]
    }
    assert events.keys() == {"progress", "result", "error"}
    assert events["result"].get("items", events["result"]) in (
        content["application/json"]["schema"],
        content["application/json"]["schema"].get("items"),
    )


def test_records_are_told_apart_by_kind(description: dict[str, Any]) -> None:
    schemas = description["components"]["schemas"]
    mapping = schemas["AnyRecord"]["discriminator"]["mapping"]
    assert mapping.keys() == KINDS.keys()
    for kind, reference in mapping.items():
        found = schemas[reference.rpartition("/")[2]]
        assert found["properties"]["kind"]["const"] == kind
        assert found["required"] == list(found["properties"])
    assert "x-shape" not in json.dumps(description)


def test_what_a_request_may_leave_out_is_optional_and_without_a_default(description: dict[str, Any]) -> None:
    schemas = description["components"]["schemas"]
    assert schemas["RecallBody"]["required"] == ["query"]
    assert "default" not in schemas["RecallBody"]["properties"]["top_k"]
    assert schemas["RecallBody"]["properties"]["top_k"]["description"].endswith("10 when left out.")
    assert schemas["Fact"]["required"] == list(schemas["Fact"]["properties"])
    assert "field" not in schemas["Problem"]["required"]


async def test_answers_are_as_described(client: Any, description: dict[str, Any]) -> None:
    turn = (await client.post("/v1/turns", json={"content": "I live in Oslo.", "conversation_id": "c"})).json()
    await client.post("/v1/facts", json={"claim": "Ann lives in Oslo"})
    await client.patch("/v1/profile", json={"preferences": {"tone": "short"}})
    found = (await client.post("/v1/recall", json={"query": "where does Ann live?"})).json()
    assert found["items"]
    assert found["user_context"]
    await client.delete(f"/v1/records/{turn['id']}")
    for method, path, template in (
        ("POST", f"/v1/records/{turn['id']}/restore", "/v1/records/{record_id}/restore"),
        ("GET", f"/v1/records/{turn['id']}", "/v1/records/{record_id}"),
        ("GET", f"/v1/receipts/{found['receipt']}", "/v1/receipts/{receipt_id}"),
        ("POST", f"/v1/receipts/{found['receipt']}/replay", "/v1/receipts/{receipt_id}/replay"),
        ("GET", "/v1/diff?earlier=2020-01-01&later=2100-01-01", "/v1/diff"),
        ("GET", "/v1/records", "/v1/records"),
        ("GET", "/v1/stats", "/v1/stats"),
        ("GET", "/v1/audit", "/v1/audit"),
    ):
        answer = await client.request(method, path)
        content = description["paths"][template][method.lower()]["responses"]["200"]["content"]
        schema = content["application/json"]["schema"] | {"components": description["components"]}
        assert answer.json()
        jsonschema.validate(answer.json(), schema)


async def test_every_route_answers_a_bare_request_as_described(client: Any, description: dict[str, Any]) -> None:
    """Unknown ids and an empty body, by day; tests/programs/test_openapi_fuzz.py sends much more by night."""
    asked = 0
    for path, operations in description["paths"].items():
        for method, operation in operations.items():
            body = {"json": {}} if "requestBody" in operation else {}
            answer = await client.request(method, re.sub(r"{\w+}", "nobody", path), **body)
            told = operation["responses"].get(str(answer.status_code))
            assert told is not None, (method, path, answer.status_code, answer.text)
            media_type = answer.headers.get("content-type", "").partition(";")[0]
            content = told.get("content", {}).get(media_type)
            assert not answer.content or content is not None, (method, path, media_type)
            if answer.content and media_type in ("application/json", "application/problem+json"):
                schema = content.get("schema", {}) | {"components": description["components"]}
                jsonschema.validate(answer.json(), schema)
            asked += 1
    assert asked > 100
