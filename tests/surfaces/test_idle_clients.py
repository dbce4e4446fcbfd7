"""Clients that connect and say nothing, little, or take nothing: they are ended, and nobody else waits for them."""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest

from agentmem import AsyncAgentMemory
from agentmem.admin.api_keys import create_api_key
from agentmem.server import http_server, slots
from tests.surfaces.conftest import build_quick_app

HEAD = b"POST %b HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\nContent-Length: 100000\r\n\r\n"
PATIENCE = 60.0  # seconds until a test gives up
Connect = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


@asynccontextmanager
async def serving(home: Path, **options: Any) -> AsyncIterator[tuple[httpx.AsyncClient, Connect]]:
    """A client of a real server, and a function that opens a bare connection to it."""
    memory = AsyncAgentMemory("ann", home=home, embedder="hash", server=options)
    server = http_server.HttpServer(build_quick_app(memory), host="127.0.0.1", port=0)
    listening = server.listen()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16_384)  # a client that takes nothing is soon noticed
    port = listening.getsockname()[1]
    running = asyncio.ensure_future(server.serve([listening]))
    try:
        async with (
            AsyncExitStack() as stack,
            httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE) as client,
        ):
            await client.get("/health")

            async def connect() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                stack.callback(writer.close)
                return reader, writer

            yield client, connect
    finally:
        server.stop()
        await running


async def read_to_end(reader: asyncio.StreamReader) -> bytes:
    """What the server says until it closes the connection."""
    async with asyncio.timeout(PATIENCE):
        try:
            return await reader.read()
        except ConnectionError:
            return b""


@pytest.mark.parametrize("said", [b"", b"GET /health HT", b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Half: "])
@pytest.mark.parametrize("first", [b"", b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"])
async def test_a_connection_without_a_whole_head_is_closed(
    home: Path, monkeypatch: pytest.MonkeyPatch, first: bytes, said: bytes
) -> None:
    monkeypatch.setattr(http_server, "HEAD_SECONDS", 0.2)
    async with serving(home) as (_, connect):
        reader, writer = await connect()
        writer.write(first + said)
        answered = await read_to_end(reader)
        assert answered.count(b"HTTP/1.1 200 OK") == (1 if first else 0)


async def test_a_closed_connection_leaves_nothing_to_garbage_collection(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, connection_made = [], http_server.DeadlineProtocol.connection_made

    def note(protocol: http_server.DeadlineProtocol, transport: asyncio.Transport) -> None:
        made.append(weakref.ref(protocol))
        connection_made(protocol, transport)

    monkeypatch.setattr(http_server, "HEAD_SECONDS", 0.2)
    async with serving(home, body_seconds=0.2) as (_, connect):
        monkeypatch.setattr(http_server.DeadlineProtocol, "connection_made", note)
        gc.disable()
        try:
            for said in (b"", b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n", HEAD % b"/v1/import" + b"{"):
                reader, writer = await connect()
                writer.write(said)
                await read_to_end(reader)
            async with asyncio.timeout(PATIENCE):
                while any(each() for each in made):
                    await asyncio.sleep(0.01)
        finally:
            gc.enable()
        assert len(made) == 3


async def test_of_too_many_connections_the_one_that_is_idle_longest_is_closed(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "MAX_CONNECTIONS", 5)
    async with serving(home) as (client, connect):
        silent = [await connect() for _ in range(9)]
        assert (await client.get("/health")).status_code == 200
        assert [await read_to_end(reader) for reader, _ in silent[:4]] == [b""] * 4
        assert not silent[-1][0].at_eof()


@pytest.mark.parametrize("path", [b"/v1/turns", b"/v1/recall", b"/v1/import", b"/mcp"])
async def test_bodies_that_trickle_hold_up_nobody_and_end(
    home: Path, monkeypatch: pytest.MonkeyPatch, path: bytes
) -> None:
    monkeypatch.setattr(slots, "MAX_TRANSFERS", 3)
    async with serving(home, concurrency=3, body_seconds=1.0) as (client, connect):
        slow = [await connect() for _ in range(12)]
        head = HEAD if path == b"/v1/import" else HEAD.replace(b"x-ndjson", b"json")
        for _, writer in slow:
            writer.write(head % path + b"{")
        for _ in range(3):  # while they go on, a byte at a time
            for _, writer in slow:
                if not writer.is_closing():
                    writer.write(b" ")
            assert (await client.post("/v1/turns", json={"content": "I live in Oslo."})).status_code == 201
            turns = json.dumps({"role": "user", "content": "I sail."})
            sent = await client.post("/v1/import", content=turns, headers={"content-type": "application/x-ndjson"})
            assert sent.status_code == 200
        for reader, _ in slow:
            assert b" 200 " not in await read_to_end(reader)


async def test_slow_uploads_of_a_key_make_room_for_another_of_the_same(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slots, "MAX_TRANSFERS_PER_KEY", 2)
    async with AsyncAgentMemory("ann", home=home, embedder="hash") as memory:
        secret = (await create_api_key(memory.engine, "ann", ("read", "write"))).secret
    async with serving(home) as (client, connect):
        slow = [await connect() for _ in range(2)]
        for _, writer in slow:
            writer.write(HEAD.replace(b"Host:", b"X-API-Key: " + secret.encode() + b"\r\nHost:") % b"/v1/import" + b"{")
        headers = {"content-type": "application/x-ndjson", "x-api-key": secret}
        turns = json.dumps({"role": "user", "content": "I sail."})
        assert (await client.post("/v1/import", content=turns, headers=headers)).status_code == 200


async def test_an_upload_that_moves_on_may_take_longer_than_any_other_body(home: Path) -> None:
    line = json.dumps({"role": "user", "content": "x" * 17_000}).encode() + b"\n"

    async def steady() -> AsyncIterator[bytes]:
        for _ in range(6):
            yield line
            await asyncio.sleep(0.2)

    async with serving(home, body_seconds=0.9) as (client, _):
        sent = await client.post("/v1/import", content=steady(), headers={"content-type": "application/x-ndjson"})
        assert (sent.status_code, sent.json()["turns"]) == (200, 6)


async def test_who_takes_no_answer_is_cut_off_and_holds_up_nobody(
    home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(slots, "MAX_TRANSFERS", 2)
    async with AsyncAgentMemory("ann", home=home, embedder="hash") as memory:
        for number in range(8):
            await memory.store_turns([{"content": f"{number} " + "x" * 20_000} for _ in range(20)])
    async with serving(home, request_seconds=3.0) as (client, connect):
        stalled = [await connect() for _ in range(4)]
        for _, writer in stalled:
            writer.write(b"GET /v1/export HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await asyncio.sleep(0)
        whole = await client.get("/v1/export")
        assert json.loads(whole.text.splitlines()[-1])["type"] == "end"
        async with asyncio.timeout(PATIENCE):
            while sum("TimeoutError" in record.getMessage() for record in caplog.records) < len(stalled):
                await asyncio.sleep(0.05)
        for reader, _ in stalled:
            assert not (await read_to_end(reader)).endswith(b"0\r\n\r\n")
    assert "Traceback" not in caplog.text


async def test_probes_answer_while_everything_is_taken(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, free = asyncio.Event(), asyncio.Event()

    async def wait(*_: object, **__: object) -> list[Any]:
        asked.set()
        await free.wait()
        return []

    async with serving(home, concurrency=1) as (client, _):
        monkeypatch.setattr("agentmem.memory.episodic.EpisodicMemory.recent_turns", wait)
        taken = asyncio.ensure_future(client.get("/v1/turns"))
        await asked.wait()
        assert (await client.get("/v1/turns")).status_code == 503
        assert [(await client.get(path)).status_code for path in ("/health", "/ready")] == [200, 200]
        free.set()
        assert (await taken).status_code == 200


async def test_mcp_opens_no_stream_that_never_ends(home: Path) -> None:
    async with serving(home) as (client, _):
        for version in ("2025-11-25", "2026-07-28"):
            headers = {"accept": "text/event-stream", "mcp-protocol-version": version}
            refused = await client.get("/mcp", headers=headers)
            assert (refused.status_code, refused.headers["allow"]) == (405, "POST")
