"""The MCP server over standard input and output, as a process that is sent what no client should send."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agentmem import AgentMemory
from tests.programs.served import AGENTMEM

PING = '{"jsonrpc":"2.0","id":"last","method":"ping"}'
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
BROKEN_LINES: list[tuple[str | bytes, int, object]] = [
    ('{"jsonrpc":"2.0","id":8,"method":"tools/call","params":[1]}', -32602, 8),
    ('[{"jsonrpc":"2.0","id":9,"method":"ping"}]', -32602, None),
    ("{}", -32602, None),
    ("garbage", -32700, None),
    (b"\xff\x00", -32700, None),
    ("[" * 5000, -32700, None),
    ("x" * (64 * 1024 * 1024), -32700, None),
]
"""What is sent, the code of the error, and the id that it is about."""
ASKING_NOTHING = ("", '{"jsonrpc":"2.0","method":"notifications/x","params":{"x":"\\ud83d"}}')


@contextmanager
def start_server(home: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A server that has been greeted."""
    environment = {**os.environ, "AGENTMEM_HOME": str(home), "AGENTMEM_EMBEDDER": "hash"}
    environment["AGENTMEM_BACKGROUND"] = "false"  # its reports on standard error are not about the protocol
    command = [AGENTMEM, "mcp", "--user", "ann"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment) as process:
        ask(process, json.dumps(INITIALIZE))
        tell(process, '{"jsonrpc":"2.0","method":"notifications/initialized"}')
        yield process
        process.kill()


@pytest.fixture(scope="module")
def shared_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The memory of the server that tests share."""
    return tmp_path_factory.mktemp("served") / "home"


@pytest.fixture(scope="module")
def server(shared_home: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A server that goes on."""
    with start_server(shared_home) as process:
        yield process


def tell(process: subprocess.Popen[bytes], line: str | bytes) -> None:
    assert process.stdin is not None
    process.stdin.write(line.encode() if isinstance(line, str) else line)
    process.stdin.write(b"\n")
    process.stdin.flush()


def ask(process: subprocess.Popen[bytes], line: str | bytes) -> Any:
    """The next line that the server sends."""
    assert process.stdout is not None
    tell(process, line)
    return json.loads(process.stdout.readline())


def test_a_line_that_is_no_message_is_answered(server: subprocess.Popen[bytes]) -> None:
    for line, code, request_id in BROKEN_LINES:
        answer = ask(server, line)
        assert (answer["error"]["code"], answer["id"]) == (code, request_id), line[:80]
    for line in ASKING_NOTHING:
        tell(server, line)
    assert ask(server, PING)["id"] == "last"


def test_half_a_character_costs_no_call(server: subprocess.Popen[bytes]) -> None:
    params = '{"name":"store_turn","arguments":{"text":"cut \\ud83d"}}'
    call = f'{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{params}}}'
    assert not ask(server, call)["result"]["isError"]
    assert ask(server, '{"jsonrpc":"2.0","id":"\\ud83d","method":"ping"}')["id"] == "\ufffd"
    tell(server, '{"jsonrpc":"2.0","method":"notifications/x","params":{"x":"\\ud83d"}}')


def test_the_server_ends_quietly_when_its_client_no_longer_reads(home: Path) -> None:
    with start_server(home) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        assert server.stderr is not None
        server.stdout.close()
        tell(server, PING)
        server.stdin.close()
        assert (server.wait(), server.stderr.read()) == (0, b"")


def test_what_is_true_now_comes_first_over_stdio(server: subprocess.Popen[bytes], shared_home: Path) -> None:
    with AgentMemory("ann", home=shared_home, embedder="hash") as memory:
        for day, text in ((12, "I live in Bergen."), (20, "The soup needs salt."), (28, "I live in Oslo now.")):
            memory.store_turn(text, timestamp=datetime(2026, 1, day, tzinfo=UTC))
        memory.consolidate()
    params = {"name": "search_memory", "arguments": {"query": "Where do I live?"}}
    answer = ask(server, json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}))
    results = answer["result"]["structuredContent"]["results"]
    assert "Oslo" in results[0]["text"]
    marks = [each["standing"] for each in results if "live in Bergen" in each["text"]]
    assert marks == ["outdated since 28 Jan 2026"]
