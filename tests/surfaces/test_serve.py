"""The server as a program: where it may listen, what it says, and how it ends."""

from __future__ import annotations

import gc
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.server.http_server import HttpServer
from tests.surfaces.conftest import build_quick_app


@pytest.fixture(autouse=True)
def _own_signals() -> Iterator[None]:
    """The command takes SIGTERM for its process, which is that of the tests here. Before it does, SIGTERM is Ctrl-C."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    yield
    signal.signal(signal.SIGTERM, before)


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


def fail_to_start(cli: Any, *options: str) -> tuple[int, str, str]:
    """The exit code, standard output and standard error of a server that cannot start."""
    ended = cli.run("serve", "--port", "0", *options)
    return ended.exit_code, ended.stdout, ended.stderr


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")  # uvicorn leaves it to the end of its process
def test_a_server_whose_port_is_taken_names_it(cli: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, output, said = fail_to_start(cli, "--port", port)
    gc.collect()
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
    cli: Any, settings: dict[str, str], code: int, fix: str
) -> None:
    cli.env |= settings
    ended, output, said = fail_to_start(cli)
    assert (ended, output) == (code, "")
    assert re.fullmatch(rf"agentmem: error: .*{re.escape(fix)}.*\n", said)


def test_a_server_whose_home_cannot_be_made_says_why(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    code, output, said = fail_to_start(cli, "--home", str(tmp_path / "file" / "home"))
    assert (code, output) == (2, "")
    assert re.fullmatch(r"agentmem: error: .*set AGENTMEM_HOME to another one\n", said)


def test_a_server_that_is_stopped_while_it_starts_ends(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentmem.cli.commands.serve.echo", lambda _: signal.raise_signal(signal.SIGTERM))
    assert cli.run("serve", "--port", "0").exit_code == 0


def test_the_parts_of_an_answer_do_not_wait_for_each_other(home: Path) -> None:
    server = HttpServer(build_quick_app(AsyncAgentMemory("ann", home=home)), host="127.0.0.1", port=0)
    with server.listen() as listening, socket.create_connection(listening.getsockname()):
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def start_example(folder: Path, **options: Any) -> subprocess.Popen[str]:
    """The example, with its memory in a folder of this one."""
    environment = {**os.environ, "AGENTMEM_EMBEDDER": "hash", "TMPDIR": str(folder)}
    command = [sys.executable, "-m", "docs.examples.serve"]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, **options)


def test_the_example_prints_a_line_that_answers_and_ends_with_its_server_at_sigterm(tmp_path: Path) -> None:
    with start_example(tmp_path, stderr=subprocess.PIPE) as example:
        assert example.stdout is not None
        try:
            line = next(line for line in example.stdout if "curl" in line)
            _, _, url, _, header, _, body = shlex.split(line)
            name, _, value = header.partition(": ")
            with urlopen(Request(url, body.encode(), {name: value}), timeout=20) as answer:
                found = json.load(answer)
        finally:
            example.terminate()
        _, said = example.communicate(timeout=30)  # the server, too, holds the pipes until it has ended
    assert "cello" in found["items"][0]["record"]["content"]
    assert example.returncode == 143
    assert all(json.loads(line) for line in said.splitlines())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.nightly
def test_ctrl_c_ends_the_example_and_its_server(tmp_path: Path) -> None:
    example = start_example(tmp_path, start_new_session=True)
    assert example.stdout is not None
    try:
        next(line for line in example.stdout if "Ctrl-C stops it" in line)
    finally:
        os.killpg(example.pid, signal.SIGINT)
        example.communicate(timeout=30)
    assert list(tmp_path.iterdir()) == []
