"""The MCP server before the protocol's own programs: the Inspector's command line and the conformance suite.

The suite covers the revisions up to 2025-11-25. The answers in that of 2026-07-28 are checked here by hand.

Of the suite's scenarios for servers, those in `APPLICABLE` must pass. The others are in `LEFT_OUT`, and why:
- most call tools, resources and prompts that the suite wants a server to have for it alone;
- `tools-call-error` wants such a tool, too, and passes where there is none: an unknown tool is an error as well;
- `logging-set-level`, `completion-complete`, `resources-subscribe` and `resources-unsubscribe` are about capabilities
  that this server does not have, and does not announce;
- the `server-sse-` scenarios want sessions and streams; a server without them gets a warning, and no check is made.
All are run, because one run of the suite is cheaper than one for each scenario.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2 as httpx
import jsonschema
import pytest
from mcp_types.version import LATEST_MODERN_VERSION

from tests.programs.mcp_node import CONFORMANCE, INSPECTOR, NodePrograms, NodeRun, install_programs
from tests.programs.served import AGENTMEM, serve
from tests.servers.downloads import CannotStart
from tests.servers.plugin import _skip_or_fail

APPLICABLE = ("server-initialize", "ping", "tools-list", "resources-list", "prompts-list", "dns-rebinding-protection")
LEFT_OUT = {
    *("logging-set-level", "completion-complete", "json-schema-2020-12", "tools-call-error"),
    *("server-sse-polling", "server-sse-multiple-streams", "elicitation-sep1034-defaults", "elicitation-sep1330-enums"),
    *(f"tools-call-{name}" for name in ("simple-text", "image", "audio", "embedded-resource", "mixed-content")),
    *(f"tools-call-{name}" for name in ("with-logging", "with-progress", "sampling", "elicitation")),
    *(f"resources-{name}" for name in ("read-text", "read-binary", "templates-read", "subscribe", "unsubscribe")),
    *(f"prompts-get-{name}" for name in ("simple", "with-args", "embedded-resource", "with-image")),
}
# a program that starts beside the other tests may need more than the inspector's 15 s
PATIENT = ("--connect-timeout", "120000")
META = "io.modelcontextprotocol/"
LISTS = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> NodePrograms:
    """The official programs."""
    try:
        return NodePrograms(install_programs(), tmp_path_factory.mktemp("node-home"))
    except CannotStart as error:
        _skip_or_fail(str(error))


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a server of this module answers MCP; it runs as a program, on an empty memory."""
    with serve(_settings(tmp_path_factory.mktemp("served") / "home"), "--user", "ann") as opened:
        yield f"{opened}/mcp"


@pytest.mark.nightly  # by day the SDKs do the same in test_mcp_sessions.py, and the suite below reads the lists
async def test_the_inspector_lists_stores_and_finds(programs: NodePrograms, address: str, tmp_path: Path) -> None:
    over_http = _ask_over_http(address)
    settings = [word for name, value in _settings(tmp_path / "home").items() for word in ("-e", f"{name}={value}")]
    stored = ["--tool-name", "store_turn", "--tool-arg", "text=I am allergic to peanuts."]
    tools, over_stdio, turn = map(
        _read_result,
        await programs.run_all(
            [
                [*over_http, "tools/list"],
                [
                    *(INSPECTOR, "--cli", AGENTMEM, "mcp", "--user", "ann", *PATIENT),
                    *("--method", "tools/list", "--strict", *settings),
                ],
                [*over_http, "tools/call", *stored],
            ]
        ),
    )
    assert [tool["name"] for tool in tools["tools"]][:3] == ["search_memory", "get_context", "store_turn"]
    assert over_stdio == tools
    query = ["--tool-name", "search_memory", "--tool-arg", "query=what is the user allergic to?"]
    found = _read_result(await programs.run(*over_http, "tools/call", *query))
    assert not found["isError"]
    first = found["structuredContent"]["results"][0]
    assert (first["id"], first["text"]) == (turn["structuredContent"]["id"], "user: I am allergic to peanuts.")


@pytest.mark.nightly
async def test_the_inspector_lists_resources_and_prompts(programs: NodePrograms, address: str) -> None:
    listed = await programs.run_all([[*_ask_over_http(address), f"{name}/list"] for name in ("resources", "prompts")])
    resources, prompts = map(_read_result, listed)
    assert {"memory://profile", "memory://goals"} <= {each["uri"] for each in resources["resources"]}
    assert {"start_session", "end_session"} <= {each["name"] for each in prompts["prompts"]}


async def test_the_conformance_suite_passes(programs: NodePrograms, address: str, tmp_path: Path) -> None:
    checked = await programs.run(CONFORMANCE, "server", "--url", address, "--suite", "all", "-o", str(tmp_path))
    known = re.findall(r"^=== Running scenario: ([\w-]+) ===$", checked.output, re.MULTILINE)
    assert sorted(known) == sorted({*APPLICABLE, *LEFT_OUT}), "the suite has other scenarios than it had"
    outcomes = {name: _read_outcomes(tmp_path, name) for name in APPLICABLE}
    assert all(found == {"SUCCESS"} for found in outcomes.values()), outcomes


# -- the revision of 2026-07-28, which has no sessions: what each request needs comes with it


def test_the_newest_revision_discovers_the_server(address: str) -> None:
    with httpx.Client() as client:
        found = _ask(client, address, "server/discover")
    assert found["supportedVersions"] == [LATEST_MODERN_VERSION]
    assert set(found["capabilities"]) == {"tools", "resources", "prompts"}
    assert "data, never instructions" in found["instructions"]
    _check_complete(found)
    _check_cacheable(found)


def test_the_newest_revision_lists_in_one_order_and_says_how_long_a_list_holds(address: str) -> None:
    with httpx.Client() as client:
        listed = {method: _ask(client, address, method) for method in LISTS}
        again = {method: _ask(client, address, method) for method in LISTS}
    assert again == listed
    for method, items in LISTS.items():
        _check_complete(listed[method])
        _check_cacheable(listed[method])
        assert listed[method][items], method
        names = [item["name"] for item in listed[method][items]]
        assert len(set(names)) == len(names), method
    for tool in listed["tools/list"]["tools"]:
        for schema in (tool["inputSchema"], tool["outputSchema"]):
            assert schema["type"] == "object"
            jsonschema.Draft202012Validator.check_schema(schema)
    assert all(":" in resource["uri"] for resource in listed["resources/list"]["resources"])


def test_the_newest_revision_calls_a_tool_by_its_output_schema(address: str) -> None:
    with httpx.Client() as client:
        tools = {tool["name"]: tool for tool in _ask(client, address, "tools/list")["tools"]}
        stored = _ask(client, address, "tools/call", name="store_turn", arguments={"text": "My cello is from Cremona."})
        found = _ask(client, address, "tools/call", name="search_memory", arguments={"query": "where is my cello from"})
        failed = _ask(client, address, "tools/call", name="search_memory", arguments={})
    for name, result in (("store_turn", stored), ("search_memory", found)):
        _check_complete(result)
        assert result["isError"] is False
        jsonschema.validate(result["structuredContent"], tools[name]["outputSchema"])
        assert [content["type"] for content in result["content"]] == ["text"]
        assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
    assert stored["structuredContent"]["id"] in {each["id"] for each in found["structuredContent"]["results"]}
    _check_complete(failed)
    assert failed["isError"] is True
    assert "structuredContent" not in failed


def test_the_newest_revision_has_its_own_errors(address: str) -> None:
    with httpx.Client() as client:
        missing = _send(client, address, "resources/read", {"uri": "memory://records/nobody"})
        unknown = _send(client, address, "tools/list", {}, version="2099-01-01")
        headers = {"Mcp-Protocol-Version": "2099-01-01"}
        contradicting = _send(client, address, "tools/list", {}, headers=headers)
        gone = _send(client, address, "ping", {})
    assert missing.json()["error"]["code"] == -32602
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (400, -32022)
    assert LATEST_MODERN_VERSION in unknown.json()["error"]["data"]["supported"]
    assert (contradicting.status_code, contradicting.json()["error"]["code"]) == (400, -32020)
    assert (gone.status_code, gone.json()["error"]["code"]) == (404, -32601)


def _settings(home: Path) -> dict[str, str]:
    return {"AGENTMEM_HOME": str(home), "AGENTMEM_EMBEDDER": "hash", "AGENTMEM_BACKGROUND": "false"}


def _ask_over_http(address: str) -> list[str]:
    """The inspector's words before those of a method."""
    return [INSPECTOR, "--cli", address, *PATIENT, "--transport", "http", "--method"]


def _read_result(run: NodeRun) -> dict[str, Any]:
    assert run.exit_code == 0, run.output + run.errors
    return dict(json.loads(run.output))


def _read_outcomes(folder: Path, scenario: str) -> set[str]:
    """How the checks of a scenario ended, which the suite writes into a folder with the time in its name."""
    (written,) = folder.glob(f"server-{scenario}-[0-9]*/checks.json")
    return {check["status"] for check in json.loads(written.read_text(encoding="utf-8"))}


def _send(
    client: httpx.Client,
    address: str,
    method: str,
    params: dict[str, Any],
    *,
    version: str = LATEST_MODERN_VERSION,
    headers: dict[str, str] | None = None,
) -> httpx.Response:
    """The answer to one request of the revision of 2026-07-28."""
    about = {f"{META}protocolVersion": version, f"{META}clientCapabilities": {}}
    about[f"{META}clientInfo"] = {"name": "test", "version": "1"}
    sent = {"Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": version, "Mcp-Method": method}
    named = params.get("name", params.get("uri"))
    if named is not None:
        sent["Mcp-Name"] = named
    request = {"jsonrpc": "2.0", "id": 7, "method": method, "params": {**params, "_meta": about}}
    return client.post(address, json=request, headers={**sent, **(headers or {})})


def _ask(client: httpx.Client, address: str, method: str, **params: Any) -> dict[str, Any]:
    """The result of a request that succeeds."""
    answer = _send(client, address, method, params)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert "mcp-session-id" not in answer.headers
    body = answer.json()
    assert {name: body[name] for name in body if name != "result"} == {"jsonrpc": "2.0", "id": 7}
    return dict(body["result"])


def _check_complete(result: dict[str, Any]) -> None:
    """A result says that it is one, and of which program."""
    assert result["resultType"] == "complete"
    server = result["_meta"][f"{META}serverInfo"]
    assert (server["name"], bool(server["version"])) == ("agentmem", True)


def _check_cacheable(result: dict[str, Any]) -> None:
    """What may be kept says how long, and that it is one user's own."""
    assert isinstance(result["ttlMs"], int)
    assert result["ttlMs"] >= 0
    assert result["cacheScope"] == "private"
    assert "nextCursor" not in result
