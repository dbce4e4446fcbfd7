"""Requests in the forms that HTTP allows: unknown paths and methods, HEAD, encodings, and what a client accepts."""

from __future__ import annotations

import codecs
import json
from typing import Any

import pytest

from agentmem import __version__
from agentmem.server.rest.streaming import wants_events

TURN = json.dumps({"content": "Hi."})
JSON_TYPE = {"content-type": "application/json"}


async def test_an_unknown_route_is_told_from_an_unknown_record(client: Any) -> None:
    nowhere, nobody = await client.get("/v1/nowhere"), await client.get("/v1/records/nobody")
    assert (nowhere.status_code, nobody.status_code) == (404, 404)
    assert nowhere.json()["detail"] == "There is no such route; see /docs."
    assert nobody.json()["detail"].startswith("There is no such record")


async def test_the_root_names_what_is_there(client: Any) -> None:
    index = (await client.get("/")).json()
    assert (index["name"], index["version"]) == ("agentmem", __version__)
    assert set(index["links"].values()) == {"/docs", "/openapi.json", "/health", "/v1", "/mcp"}
    for name in ("docs", "openapi", "health"):
        assert (await client.get(index["links"][name])).status_code == 200


@pytest.mark.parametrize("path", ["/", "/health", "/docs", "/openapi.json", "/v1/turns", "/v1/export", "/v1/records/x"])
async def test_head_has_the_headers_of_get_and_no_body(client: Any, path: str) -> None:
    whole, head = await client.get(path), await client.head(path)
    assert head.status_code == whole.status_code
    assert head.content == b""
    own = {"traceparent"}
    assert {name: value for name, value in head.headers.items() if name not in own} == {
        name: value for name, value in whole.headers.items() if name not in own
    }


@pytest.mark.parametrize(
    "method, path, allowed",
    [
        ("PUT", "/v1/turns", "GET, HEAD, POST"),
        ("HEAD", "/v1/recall", "POST"),
        ("POST", "/health", "GET, HEAD"),
        ("POST", "/openapi.json", "GET, HEAD"),
        ("GET", "/mcp", "POST"),
        ("DELETE", "/mcp", "POST"),
    ],
)
async def test_a_wrong_method_is_told_which_are_right(client: Any, method: str, path: str, allowed: str) -> None:
    refused = await client.request(method, path)
    assert (refused.status_code, refused.headers["allow"]) == (405, allowed)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"])
async def test_json_that_is_not_utf8_is_refused(client: Any, encoding: str) -> None:
    refused = await client.post("/v1/turns", content=TURN.encode(encoding), headers=JSON_TYPE)
    assert (refused.status_code, refused.json()["detail"]) == (400, "The body must be UTF-8.")
    assert (await client.get("/v1/turns")).json() == []


async def test_a_byte_order_mark_of_utf8_is_passed_over(client: Any) -> None:
    stored = await client.post("/v1/turns", content=codecs.BOM_UTF8 + TURN.encode(), headers=JSON_TYPE)
    assert (stored.status_code, stored.json()["content"]) == (201, "Hi.")


@pytest.mark.parametrize(
    "accept, wanted",
    [
        ("text/event-stream", True),
        ("Text/Event-Stream; charset=utf-8", True),
        ("application/json, text/event-stream", True),
        ("text/event-stream;q=0.5, application/json;q=0.4", True),
        ("text/event-stream;q=0.5, application/json", False),
        ("text/event-stream;q=0", False),
        ("text/event-stream; Q=0.000", False),
        ("text/event-stream;q=much", False),
        ("text/event-streams", False),
        ("application/json;profile=text/event-stream", False),
        ("text/*", False),
        ("*/*", False),
        ("", False),
    ],
)
def test_events_come_to_who_asks_for_them(accept: str, wanted: bool) -> None:
    assert wants_events(accept) is wanted
