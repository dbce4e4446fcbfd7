"""The pages of REST, MCP and the clients: their examples run, and what they print comes back."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from mcp.client.client import Client
from mcp.types import TextContent

DOCS = Path(__file__).resolve().parents[2] / "docs"
AGENTMEM = Path(sys.executable).with_name("agentmem")
PRINTED_ADDRESS = "localhost:17890"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
TOOL = re.compile(r"^### `(\w+)`\n(.*?)(?=^##)", re.MULTILINE | re.DOTALL)
CLIENTS = {"claude-code", "claude-desktop", "codex-cli", "cursor", "gemini-cli", "vscode"}

# What curl is told in the pages. Its lines are sent by httpx, because not every machine has the program.
CURL = argparse.ArgumentParser("curl")
CURL.add_argument("-s", action="store_true")
CURL.add_argument("-X", dest="method")
CURL.add_argument("-H", dest="headers", action="append", default=[])
CURL.add_argument("-d", dest="body")
CURL.add_argument("url")


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The variables of programs that the pages start: a home of their own, and agentmem on the path."""
    path = os.pathsep.join([str(AGENTMEM.parent), os.environ["PATH"]])
    home = str(tmp_path_factory.mktemp("home"))
    return {**os.environ, "AGENTMEM_HOME": home, "AGENTMEM_EMBEDDER": "hash", "PATH": path}


@pytest.fixture(scope="module", autouse=True)
def starting_server(environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """A server for Alice, which starts while the tests run that do not ask it."""
    command = [str(AGENTMEM), "serve", "--port", "0", "--user", "alice"]
    running = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    yield running
    running.terminate()
    running.communicate(timeout=30)


@pytest.fixture(scope="module")
def server(starting_server: subprocess.Popen[str]) -> str:
    """The host and port of the server."""
    assert starting_server.stdout is not None
    found = re.match(r"serving on http://([\d.]+:\d+)", starting_server.stdout.readline())
    assert found is not None
    return found[1]


@pytest.fixture
def address(server: str) -> str:
    """The same, with nothing of Alice in its memory."""
    httpx.delete(f"http://{server}/v1/user").raise_for_status()
    return server


def read_blocks(page: str) -> list[tuple[str, str]]:
    """The language and the text of each block of a page, in order."""
    return BLOCK.findall((DOCS / page).read_text(encoding="utf-8"))


def read_commands(block: str) -> list[list[str]]:
    """The words of each command of a shell block."""
    lines = block.replace("\\\n", " ").splitlines()
    return [words for line in lines if (words := shlex.split(line, comments=True))]


def send(words: list[str], address: str) -> httpx.Response:
    """The answer to a line of curl."""
    given = CURL.parse_args(words[1:])
    headers = dict(header.split(": ", 1) for header in given.headers)
    method = given.method or ("GET" if given.body is None else "POST")
    url = f"http://{given.url.replace(PRINTED_ADDRESS, address)}"
    return httpx.request(method, url, headers=headers, content=given.body)


def is_shown(shown: Any, given: Any) -> bool:
    """Whether an answer has what a page shows of it: fields may be left out, and … stands for any text."""
    if shown and isinstance(shown, dict):
        return isinstance(given, dict) and all(
            name in given and is_shown(value, given[name]) for name, value in shown.items()
        )
    if isinstance(shown, list):
        return isinstance(given, list) and len(shown) == len(given) and all(map(is_shown, shown, given))
    if isinstance(shown, str):
        pattern = ".*".join(re.escape(part) for part in shown.split("…"))
        return isinstance(given, str) and re.fullmatch(pattern, given, re.DOTALL) is not None
    return type(shown) is type(given) and bool(shown == given)


def run_program(code: str, address: str) -> None:
    """Run a Python block of a page, with the project's httpx."""
    code = code.replace(PRINTED_ADDRESS, address).replace("import httpx\n", "import httpx2 as httpx\n")
    exec(compile(code, "block", "exec"), {"__name__": "__main__"})


def read_servers(client: str) -> list[dict[str, Any]]:
    """The servers that a client's page configures, by files and by commands, as fields of a file."""
    found: list[dict[str, Any]] = []
    for language, text in read_blocks(f"clients/{client}.md"):
        if language in ("json", "toml"):
            config = json.loads(text) if language == "json" else tomllib.loads(text)
            (servers,) = (config[key] for key in ("mcpServers", "servers", "mcp_servers") if key in config)
            found.append(servers["memory"])
        for words in read_commands(text) if language == "sh" else []:
            if words[1:3] == ["mcp", "add"] and words[-1].startswith("http"):
                found.append({"url": words[-1]})
            elif words[1:3] == ["mcp", "add"]:
                at = words.index("$(command -v agentmem)")
                found.append({"command": "agentmem", "args": [word for word in words[at + 1 :] if word != "--"]})
    return found


def test_clients_start_what_the_program_of_the_mcp_page_starts_and_ask_where_the_server_is() -> None:
    """So that each command of the pages has been started and asked for its tools by the SDK's client."""
    assert {page.stem for page in (DOCS / "clients").glob("*.md")} == CLIENTS
    page = (DOCS / "mcp.md").read_text(encoding="utf-8")
    for client in CLIENTS:
        local = [server for server in read_servers(client) if "command" in server]
        remote = [server for server in read_servers(client) if "command" not in server]
        assert local
        assert remote or client == "claude-desktop"
        for server in local:
            assert re.split(r"[/\\]", server["command"])[-1].removesuffix(".exe") == "agentmem"
            words = [re.sub(r"\$\{\w+:-(\w+)\}", r"\1", word) for word in server["args"]]
            assert f'StdioServerParameters(command="agentmem", args={json.dumps(words)}' in page
        for server in remote:
            assert server.get("url", server.get("httpUrl")) == f"http://{PRINTED_ADDRESS}/mcp"
            assert all(value.startswith("Bearer $") for value in server.get("headers", {}).values())


def test_an_answer_is_compared_with_what_is_shown_of_it() -> None:
    given = {"id": "01a2", "items": [{"n": 1}], "left": {}, "ok": True}
    assert is_shown({"id": "01…", "items": [{"n": 1}], "left": {}, "ok": True}, given)
    for shown in ('{"id": "02…"}', '{"items": []}', '{"items": [{"n": 2}]}', '{"ok": 1}', '{"new": null}', "[]", "{}"):
        assert not is_shown(json.loads(shown), given), shown


def read_programs() -> list[tuple[str, str]]:
    """The programs of the MCP page, each with what it prints."""
    blocks = read_blocks("mcp.md")
    pairs = [(one, other) for one, other in itertools.pairwise(blocks) if one[0] == "python"]
    assert all(other[0] == "text" for _, other in pairs)
    return [(one[1], other[1]) for one, other in pairs]


def test_the_program_over_stdio_of_the_mcp_page_prints_what_it_says(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("AGENTMEM_HOME", "AGENTMEM_EMBEDDER", "PATH"):
        monkeypatch.setenv(name, environment[name])
    ((code, printed),) = ((code, printed) for code, printed in read_programs() if PRINTED_ADDRESS not in code)
    run_program(code, "")
    assert capsys.readouterr().out == printed


def test_the_examples_of_the_rest_page_give_what_it_prints(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    answer: httpx.Response | None = None
    for language, text in read_blocks("rest.md"):
        if language == "sh":
            assert answer is None, f"what comes back is not shown before:\n{text}"
            answers = [send(words, address) for words in read_commands(text) if words[0] == "curl"]
            assert all(each.is_success for each in answers[:-1]), text
            answer = answers[-1] if answers else None
        elif language == "json":
            assert answer is not None
            shown = json.loads(text)
            is_problem = isinstance(shown, dict) and "error" in shown
            assert answer.status_code == shown["status"] if is_problem else answer.is_success, answer.text
            assert is_shown(shown, answer.json()), f"{text}\n{answer.text}"
            answer = None
        elif language == "python":
            run_program(text, address)
        else:
            assert (language, capsys.readouterr().out) == ("text", text)
    assert answer is None


async def test_the_examples_of_the_core_tools_give_what_the_page_prints(address: str) -> None:
    sections = TOOL.findall((DOCS / "mcp.md").read_text(encoding="utf-8"))
    record_id = ""
    async with Client(f"http://{address}/mcp") as client:
        schemas = {tool.name: tool.input_schema for tool in (await client.list_tools()).tools}
        assert sorted(schemas) == sorted(name for name, _ in sections)
        for name, section in sections:
            rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", section, re.MULTILINE))
            assert list(rows) == list(schemas[name]["properties"])
            required = [parameter for parameter, default in rows.items() if default == "required"]
            assert required == schemas[name].get("required", [])
            arguments, shown = (json.loads(text) for _, text in BLOCK.findall(section))
            known = {key: record_id if value == "01…" else value for key, value in arguments.items()}
            answer = await client.call_tool(name, known)
            assert not answer.is_error, answer.content
            assert answer.structured_content is not None
            assert is_shown(shown, answer.structured_content), f"{name}: {answer.structured_content}"
            record_id = answer.structured_content.get("id", record_id)
        (failure,) = (await client.call_tool("search_memory", {})).content
    assert isinstance(failure, TextContent)
    assert ("text", f"{failure.text}\n") in read_blocks("mcp.md")


def test_the_programs_over_http_of_the_mcp_page_print_what_it_says(
    address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    programs = [(code, printed) for code, printed in read_programs() if PRINTED_ADDRESS in code]
    assert len(programs) == 2
    for code, printed in programs:
        run_program(code, address)
        assert capsys.readouterr().out == printed
