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
        found = re.match(r"serving on (http://127\.0\.0\.1:\d+)", server.stdout.readline())
        assert found is not None
        body = json.dumps({"content": "I am allergic to peanuts."}).encode()
        asked = Request(f"{found[1]}/v1/turns", body, {"Content-Type": "application/json"})
        with urlopen(asked, timeout=20) as answer:
            assert json.load(answer)["user_id"] == "ann"
        server.send_signal(signal.SIGTERM)
        _, said = server.communicate(timeout=30)
        assert server.returncode == 0
        assert [(event["route"], event["status"]) for event in map(json.loads, said.splitlines())] == [
            ("/v1/turns", 201)
        ]
    finally:
        server.kill()
        server.communicate()
    assert (home / "memory.db").exists()


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
