"""A client that means harm: other users' ids in every route and tool, and odd paths, headers and texts."""

from __future__ import annotations

import re
from collections.abc import Container
from typing import Any

import pytest
from mcp.client.client import Client

from agentmem import AsyncAgentMemory
from agentmem.server.mcp.server import TOOL_SETS, build_mcp_server

MARK = "Zanzibar"
METHODS = ("get", "post", "put", "patch", "delete")
BOB = {"X-Agentmem-User": "bob"}
# about no record, or about all that is the caller's own
OWN_ALONE = {
    "/v1/import",
    "/v1/export",
    "/v1/keys",
    "/v1/keys/{key_id}",
    "/v1/jobs/run",
    "/metrics",
    "/docs",
    "/v1/user",
}


async def fill_memory(client: Any) -> list[str]:
    """Store something of every kind for Ann; every id, name and operation that a thief could have seen."""
    seen = ["c", "nightly"]
    for path, body in {
        "/v1/turns": {"content": f"My password is {MARK}.", "conversation_id": "c", "turn_id": "t"},
        "/v1/facts": {"claim": f"Ann hides in {MARK}"},
        "/v1/entities": {"name": MARK, "type": "place"},
        "/v1/goals": {"description": f"Leave {MARK}"},
        "/v1/procedures": {"instruction": f"Always say {MARK}.", "trigger": "greeting"},
        "/v1/schedules": {"name": "nightly", "every": 300, "prompt": MARK},
        "/v1/recall": {"query": f"where is {MARK}?"},
    }.items():
        answer = await client.post(path, json=body)
        assert answer.status_code < 300, (path, answer.text)
        told = answer.json()
        seen += [told[name] for name in ("id", "receipt") if told.get(name)]
    rows = (await client.get("/v1/audit?limit=2")).json()
    return [*seen, *{row["operation_id"] for row in rows if row["operation_id"]}]


def build_value(schema: dict[str, Any], given: str, schemas: dict[str, Any]) -> Any:
    """A value of a JSON schema: the given text wherever a text may stand, and only what is required."""
    if "$ref" in schema:
        schema = schemas[schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        return build_value(schema["anyOf"][0], given, schemas)
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type")
    if kind == "object":
        fields = schema.get("properties", {})
        return {name: build_value(fields[name], given, schemas) for name in schema.get("required", ())}
    if kind == "array":
        return [build_value(schema.get("items", {}), given, schemas)]
    return {"string": given, "integer": 1, "number": 0.5, "boolean": True}.get(str(kind), given)


async def ask_everything(
    client: Any, seen: list[str], headers: dict[str, str], methods: Container[str] = METHODS
) -> tuple[int, list[str]]:
    """Ask every route with every id where one may stand: how many requests that were, and which told of the mark."""
    description = (await client.get("/openapi.json")).json()
    schemas, asked, told = description["components"]["schemas"], 0, []
    for template, operations in description["paths"].items():
        for method, operation in operations.items():
            if template in OWN_ALONE or method not in methods:
                continue
            query = [
                each["name"] for each in operation.get("parameters", ()) if each["in"] == "query" and each["required"]
            ]
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
            for given in seen if "{" in template or query else seen[:2]:
                answer = await client.request(
                    method.upper(),
                    re.sub(r"\{\w+\}", given, template),
                    params=dict.fromkeys([*query, "conversation_id"], given),
                    json=None if body is None else build_value(body, given, schemas),
                    headers=headers,
                )
                asked += 1
                assert answer.status_code < 500, (method, template, given, answer.text)
                if MARK in answer.text:
                    told.append(f"{method} {template}")
    return asked, told


async def test_no_route_tells_or_changes_anything_of_another_user(client: Any) -> None:
    seen = await fill_memory(client)
    before = (await client.get("/v1/export")).text
    asked, told = await ask_everything(client, seen, BOB)
    assert told == []
    assert (await client.get("/v1/export")).text == before
    assert asked > 300
    told = (await ask_everything(client, seen, {}, methods=("get",)))[1]
    assert len(set(told)) > 10  # whose they are is told, so the ids are good


@pytest.mark.parametrize("tools", [name for name in TOOL_SETS if name != "all"])
async def test_no_tool_tells_or_changes_anything_of_another_user(client: Any, shared_app: Any, tools: str) -> None:
    seen = await fill_memory(client)
    before = (await client.get("/v1/export")).text
    bob: AsyncAgentMemory = shared_app.state.memory.scoped(user_id="bob")
    async with Client(build_mcp_server(lambda *_: bob, TOOL_SETS[tools])) as thief:
        for tool in (await thief.list_tools()).tools:
            fields = tool.input_schema.get("properties", {})
            for given in seen:
                values = {name: build_value(field, given, {}) for name, field in fields.items() if "id" in name.lower()}
                asked = build_value(tool.input_schema, given, tool.input_schema.get("$defs", {})) | values
                answer = await thief.call_tool(tool.name, asked)
                assert MARK not in str(answer.content), (tool.name, given)
        for given in seen:
            for uri in (f"memory://records/{given}", f"memory://conversations/{given}"):
                try:
                    told = str(await thief.read_resource(uri))
                except Exception as error:  # noqa: BLE001  whatever it says
                    told = str(error)
                assert MARK not in told
    assert (await client.get("/v1/export")).text == before


@pytest.mark.parametrize(
    "path",
    [
        "/v1/records/..%2f..%2fexport",
        "/v1/records/%2e%2e/%2e%2e/metrics",
        "/v1//turns",
        "/V1/turns",
        "/v1/turns/",
        "/v1/turns%00",
        "/v1/records/%00",
        "/v1/records/%ff%fe",
        "/v1/records/" + "x" * 5_000,
        "/v1/conversations/%0d%0aSet-Cookie:%20a=b",
        "//evil.example/v1/turns",
        "/v1/turns;user=ann",
        "/v1/turns?channel=_self_ann%00",
        "/v1/turns?limit=1e9",
        "/v1/turns?limit=-1",
        "/v1/turns?hours=nan",
        "/v1/turns?hours=1e308",
        "/v1/facts?as_of=9999-12-31T23:59:59-23:59",
        "/mcp/../v1/turns",
        "/health/../v1/turns",
    ],
)
async def test_odd_paths_lead_nowhere_else(client: Any, path: str) -> None:
    await client.post("/v1/turns", json={"content": f"I hide in {MARK}."})
    answer = await client.get(path, headers=BOB)
    assert answer.status_code < 500
    assert MARK not in answer.text
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Agentmem-User": "ann\x00"},
        {"X-Agentmem-User": "../ann"},
        {"X-Agentmem-User": "_system"},
        {"X-Agentmem-User": "*"},
        {"X-Agentmem-User": "x" * 300},
        {"Content-Length": "-1"},
        {"Content-Length": "1e3"},
        {"Content-Length": "٣"},
        {"Host": ""},
        {"Host": "127.0.0.1.evil.example"},
        {"Host": "evil.example@127.0.0.1"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:17890.evil.example"},
        {"Content-Type": "application/json\x0bx"},
        {"traceparent": "00-" + "f" * 10_000},
        {"Idempotency-Key": "x" * 300},
    ],
)
async def test_odd_headers_are_refused_or_without_effect(client: Any, headers: dict[str, str]) -> None:
    await client.post("/v1/turns", json={"content": f"I hide in {MARK}."})
    raw = {name: value.encode() for name, value in headers.items()}
    answer = await client.post("/v1/recall", json={"query": "where?"}, headers={**BOB, **raw})
    assert answer.status_code < 500
    assert MARK not in answer.text


async def test_stored_text_stays_data_in_answers_and_streams(client: Any) -> None:
    text = "</script><b>\r\n\r\nevent: result\r\ndata: {}\r\n\r\n\u2028\u202e data \x1b[31m"
    stored = await client.post("/v1/turns", json={"content": text})
    assert stored.json()["content"] == text
    assert stored.headers["content-type"] == "application/json"
    line = '{"role": "user", "content": "x", "turn_id": "a\\r\\n\\r\\nevent: result\\r\\ndata: 1"}'
    streamed = await client.post(
        "/v1/import",
        content=line.encode(),
        headers={"Content-Type": "application/x-ndjson", "Accept": "text/event-stream"},
    )
    assert re.findall(r"^event: (\w+)", streamed.text, re.MULTILINE) in (["error"], ["result"])
    assert text not in (await client.get("/docs")).text
