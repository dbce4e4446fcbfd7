"""The server as a program: where it may listen, what it says, and how it ends."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.server.app import build_app
from agentmem.server.http_server import HttpServer


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.7", "example.com", "::"])
def test_without_keys_only_this_machine_is_served(cli: Any, host: str) -> None:
    refused = cli.run("serve", "--host", host)
    assert refused.exit_code == 2
    assert "loopback only" in refused.stderr


def test_a_server_says_where_it_is_answers_and_ends_at_sigterm(home: Path) -> None:
    command = [str(Path(sys.executable).with_name("agentmem")), "serve", "--port", "0", "--user", "ann"]
    environment = {**os.environ, "AGENTMEM_HOME": str(home), "AGENTMEM_EMBEDDER": "hash"}
    server = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        found = re.match(r"serving on (http://127\.0\.0\.1:(\d+))", server.stdout.readline())
        assert found is not None
        body = json.dumps({"content": "I am allergic to peanuts."}).encode()
        asked = Request(f"{found[1]}/v1/turns", body, {"Content-Type": "application/json"})
        with urlopen(asked, timeout=20) as answer:
            assert json.load(answer)["user_id"] == "ann"
        with socket.create_connection(("127.0.0.1", int(found[2])), timeout=20) as client:
            client.sendall(b"\x16\x03\x01 no words of HTTP\r\n\r\n")
            assert b" 400 " in client.recv(1000)
        server.send_signal(signal.SIGTERM)
        _, said = server.communicate(timeout=30)
        assert server.returncode == 0
        events = [json.loads(line) for line in said.splitlines()]
        requests = [(event["route"], event["status"]) for event in events if event["event"] == "request"]
        assert requests == [("/v1/turns", 201)]
        assert "Invalid HTTP request received." in [event["event"] for event in events]
    finally:
        server.kill()
        server.communicate()
    assert (home / "memory.db").exists()


def fail_to_start(home: Path, *options: str, **settings: str) -> tuple[int, str, str]:
    """The exit code, standard output and standard error of a server that cannot start."""
    command = [str(Path(sys.executable).with_name("agentmem")), "serve", "--port", "0", "--home", str(home), *options]
    environment = {**os.environ, "AGENTMEM_EMBEDDER": "hash", **settings}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    return ended.returncode, ended.stdout, ended.stderr


def test_a_server_whose_port_is_taken_names_it(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, output, said = fail_to_start(home, "--port", port)
    assert (code, output) == (2, "")
    assert re.fullmatch(rf"agentmem: error: cannot listen on .*--port {port}: Address already in use; .*\n", said)


@pytest.mark.parametrize(
    "settings, code, fix",
    [
        ({"AGENTMEM_EMBEDDER": "nonsense"}, 2, "known are auto, hash"),
        (
            {
                "AGENTMEM_LOG_URL": "postgresql://ann:secret@127.0.0.1:1/memory",
                "AGENTMEM_GRAPH_URL": "neo4j://ann:secret@127.0.0.1:1",
            },
            1,  # not the settings' fault: a supervisor starts it again
            "127.0.0.1:1/memory",
        ),
    ],
)
def test_a_server_whose_memory_cannot_be_opened_says_why(
    home: Path, settings: dict[str, str], code: int, fix: str
) -> None:
    ended, output, said = fail_to_start(home, **settings)
    assert (ended, output) == (code, "")
    assert re.fullmatch(rf"agentmem: error: .*{re.escape(fix)}.*\n", said)


def test_a_server_whose_home_cannot_be_made_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    code, output, said = fail_to_start(tmp_path / "file" / "home")
    assert (code, output) == (2, "")
    assert re.fullmatch(r"agentmem: error: .*set AGENTMEM_HOME to another one\n", said)


def test_a_server_that_is_stopped_while_it_starts_ends(home: Path) -> None:
    command = [str(Path(sys.executable).with_name("agentmem")), "serve", "--port", "0", "--user", "ann"]
    environment = {**os.environ, "AGENTMEM_HOME": str(home), "AGENTMEM_EMBEDDER": "hash"}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            assert server.stdout.readline().startswith("serving on")
            server.send_signal(signal.SIGTERM)
            assert server.wait(timeout=30) == 0
        finally:
            server.kill()


def test_the_parts_of_an_answer_do_not_wait_for_each_other(home: Path) -> None:
    server = HttpServer(build_app(AsyncAgentMemory("ann", home=home)), host="127.0.0.1", port=0)
    with server.listen() as listening, socket.create_connection(listening.getsockname()):
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_sigterm_ends_the_example_and_its_server(tmp_path: Path) -> None:
    environment = {**os.environ, "AGENTMEM_EMBEDDER": "hash", "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "docs.examples.serve"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as example:
        assert example.stdout is not None
        next(line for line in example.stdout if b"Ctrl-C stops it" in line)
        example.terminate()
        _, said = example.communicate(timeout=30)  # the server, too, holds the pipes until it has ended
    assert example.returncode == 143
    assert all(json.loads(line) for line in said.splitlines())
    assert list(tmp_path.iterdir()) == []


def test_the_example_prints_a_line_that_answers(tmp_path: Path) -> None:
    environment = {**os.environ, "AGENTMEM_EMBEDDER": "hash", "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "docs.examples.serve"]
    example = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert example.stdout is not None
    try:
        line = next(line for line in example.stdout if "curl" in line)
        _, _, url, _, header, _, body = shlex.split(line)
        name, _, value = header.partition(": ")
        with urlopen(Request(url, body.encode(), {name: value}), timeout=20) as answer:
            found = json.load(answer)
        assert "cello" in found["items"][0]["record"]["content"]
    finally:
        os.killpg(example.pid, signal.SIGINT)
        example.communicate(timeout=30)
    assert list(tmp_path.iterdir()) == []
