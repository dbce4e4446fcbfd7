"""Long work and whole memories over HTTP, in pieces; what the server tells of itself."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agentmem import AsyncAgentMemory
from agentmem.errors import Conflict
from agentmem.server.rest import transfer
from tests.surfaces.conftest import open_client

LINES = {"Content-Type": "application/x-ndjson"}
EVENTS = {"Accept": "text/event-stream"}


def read_events(text: str) -> list[tuple[str, Any]]:
    """The events of a stream and what they hold."""
    found = re.findall(r"event: (\w+)\ndata: (.*)\n", text)
    return [(name, json.loads(data)) for name, data in found]


async def test_a_memory_goes_out_and_into_another_user(client: Any) -> None:
    for number in range(3):
        await client.post("/v1/turns", json={"content": f"Day {number} was fine.", "conversation_id": "c"})
    out = await client.get("/v1/export")
    assert out.headers["content-type"] == "application/x-ndjson"
    lines = [json.loads(line) for line in out.text.splitlines()]
    assert (lines[0]["format"], lines[-1]["type"]) == ("agentmem-export", "end")
    bob = {"X-Agentmem-User": "bob", **LINES}
    report = (await client.post("/v1/import", content=out.content, headers=bob)).json()
    assert (report["exports"], report["new_changes"]) == (1, 3)
    again = (await client.post("/v1/import", content=out.content, headers=bob)).json()
    assert (again["changes"], again["new_changes"]) == (3, 0)
    copied = (await client.get("/v1/export", headers={"X-Agentmem-User": "bob"})).text
    assert copied.splitlines()[1:] == out.text.splitlines()[1:]


async def test_turns_of_a_file_are_stored_or_none_of_them(client: Any) -> None:
    good = b'{"role": "user", "content": "Ann is fine."}\n{"role": "user", "content": "Bob is, too."}\n'
    report = (await client.post("/v1/import", content=good, headers=LINES)).json()
    assert (report["turns"], report["new_turns"]) == (2, 2)
    for wrong in (good + b'{"content": 7}\n', b"\xff\xf0", b'{"format": "agentmem-export"}\n'):
        refused = await client.post("/v1/import", content=wrong, headers=LINES)
        assert refused.status_code == 422
        assert refused.json()["field"]
    assert len((await client.get("/v1/turns")).json()) == 2


async def test_long_work_tells_how_far_it_is(client: Any) -> None:
    body = b"".join(json.dumps({"role": "user", "content": f"Day {day}."}).encode() + b"\n" for day in range(3))
    answer = await client.post("/v1/import", content=body, headers={**LINES, **EVENTS})
    assert answer.headers["content-type"].startswith("text/event-stream")
    name, report = read_events(answer.text)[-1]
    assert (name, report["new_turns"]) == ("result", 3)
    jobs = await client.post("/v1/jobs/run", json={"job": "consolidate"}, headers=EVENTS)
    name, reports = read_events(jobs.text)[-1]
    assert (name, reports[0]["job"]) == ("result", "consolidate")
    failed = await client.post("/v1/import", content=b'{"content": 7}', headers={**LINES, **EVENTS})
    name, problem = read_events(failed.text)[-1]
    assert (name, problem["status"], problem["error"]) == ("error", 422, "InvalidRecord")


async def test_progress_stands_between(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def slow(*_: object, progress: Any, **__: object) -> list[Any]:
        for done in range(3):
            await asyncio.to_thread(progress, "reading", done, 3)
            await asyncio.sleep(0.03)
        raise RuntimeError("the secret word")

    monkeypatch.setattr(AsyncAgentMemory, "consolidate", slow)
    monkeypatch.setattr("agentmem.server.rest.streaming.PROGRESS_SECONDS", 0.01)
    answer = await client.post("/v1/jobs/run", json={}, headers=EVENTS)
    events = read_events(answer.text)
    assert events[0] == ("progress", {"stage": "reading", "done": 0, "total": 3})
    assert (events[-1][0], events[-1][1]["status"]) == ("error", 500)
    assert "secret" not in answer.text


async def test_an_export_that_would_hold_erased_text_breaks_off(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def interrupted(*_: object) -> AsyncIterator[Any]:
        raise Conflict("something was erased")
        yield

    monkeypatch.setattr(transfer, "iter_export", interrupted)
    assert (await client.get("/v1/export")).status_code == 409


async def test_a_file_may_be_larger_than_other_bodies_up_to_its_own_limit(home: Path) -> None:
    limits: Any = {"body_bytes": 1_000, "import_bytes": 10_000}
    async with open_client(AsyncAgentMemory("ann", home=home, embedder="hash", server=limits)) as client:
        line = json.dumps({"role": "user", "content": "x" * 900}).encode() + b"\n"

        async def pieces(count: int) -> AsyncIterator[bytes]:
            for number in range(count):
                yield line.replace(b"x", str(number).encode(), 1)

        assert (await client.post("/v1/import", content=pieces(5), headers=LINES)).json()["new_turns"] == 5
        assert (await client.post("/v1/import", content=pieces(20), headers=LINES)).status_code == 413
        assert (await client.post("/v1/turns", json={"content": "y" * 2_000})).status_code == 413
        assert (await client.post("/v1/turns", content=line, headers=LINES)).status_code == 415
        assert len((await client.get("/v1/turns?limit=50")).json()) == 5


async def test_metrics_count_requests_by_route_without_ids(client: Any) -> None:
    await client.get("/v1/records/somebody")
    await client.request("BREW", "/v1/turns")
    text = (await client.get("/metrics")).text
    assert 'agentmem_http_requests_total{method="GET",route="/v1/records/{record_id}",status="404"}' in text
    assert 'method="other"' in text
    assert "somebody" not in text
    assert "agentmem_http_request_seconds_bucket" in text


async def test_a_request_keeps_its_trace_in_answer_and_log(client: Any, caplog: pytest.LogCaptureFixture) -> None:
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    with caplog.at_level(logging.INFO, logger="agentmem"):
        answer = await client.get("/v1/turns", headers={"traceparent": f"00-{trace}-00f067aa0ba902b7-01"})
    assert re.fullmatch(rf"00-{trace}-[0-9a-f]{{16}}-01", answer.headers["traceparent"])
    event = json.loads(caplog.messages[-1])
    assert (event["event"], event["trace_id"], event["route"], event["status"]) == ("request", trace, "/v1/turns", 200)
    for wrong in ("", "x", f"00-{'0' * 32}-00f067aa0ba902b7-01", f"ff-{trace}-00f067aa0ba902b7-01"):
        fresh = (await client.get("/health", headers={"traceparent": wrong})).headers["traceparent"]
        assert re.fullmatch(r"00-(?!0{32})[0-9a-f]{32}-[0-9a-f]{16}-00", fresh)
        assert trace not in fresh


async def test_the_page_of_routes_needs_nothing_from_elsewhere(client: Any) -> None:
    page = await client.get("/docs")
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
    assert "<script" not in page.text
    assert not re.search(r"(?:src|href)=\"(?!#|/openapi.json)", page.text)
    paths = (await client.get("/openapi.json")).json()["paths"]
    for path in paths:
        assert path.replace("'", "&#x27;") in page.text
