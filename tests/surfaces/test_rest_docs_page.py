"""The page of routes: what it begins with, whom it names, and its examples, which are sent as they stand."""

from __future__ import annotations

import argparse
import html
import re
import shlex
from pathlib import Path

from agentmem import AsyncAgentMemory
from agentmem.server.errors import NOT_FOUND_DETAIL
from tests.surfaces.conftest import open_client

CURL = argparse.ArgumentParser("curl")
CURL.add_argument("-s", action="store_true")
CURL.add_argument("-X", dest="method")
CURL.add_argument("-H", dest="headers", action="append", default=[])
CURL.add_argument("-d", "--data-binary", dest="body")
CURL.add_argument("url")
CREATES_KEY = "/v1/keys -H"  # sent after all others, which then would need the key
ENDS = ("/v1/user", "/mem0/reset")  # sent last, because they erase


async def test_every_route_has_an_example_that_it_understands(home: Path) -> None:
    async with open_client(AsyncAgentMemory("alice", home=home, embedder="hash"), with_mem0=True) as client:
        page = (await client.get("/docs")).text
        operations = (await client.get("/openapi.json")).json()["paths"].values()
        commands = [html.unescape(text) for text in re.findall(r"<pre><code>(.*?)</code></pre>", page, re.DOTALL)]
        assert len(commands) == sum(map(len, operations))
        for command in sorted(commands, key=lambda text: (CREATES_KEY in text, any(end in text for end in ENDS))):
            given = CURL.parse_args(shlex.split(command)[1:])
            method = given.method or ("GET" if given.body is None else "POST")
            headers = dict(header.split(": ", 1) for header in given.headers)
            body = '{"role": "user", "content": "Hi."}' if given.body == "@memory.jsonl" else given.body
            path = given.url.removeprefix("localhost:17890")
            answer = await client.request(method, path, headers=headers, content=body)
            refused = "" if answer.is_success else answer.json()["detail"]
            assert (
                refused in ("", NOT_FOUND_DETAIL)
                or refused.endswith("store it first")
                or ("/graph/cypher" in command and "set graph_url" in refused)
            ), (command, refused)


async def test_the_page_begins_with_turns_and_says_whose_routes_others_are(home: Path) -> None:
    async with open_client(AsyncAgentMemory("alice", home=home, embedder="hash"), with_mem0=True) as client:
        page = (await client.get("/docs")).text
    groups = re.findall(r"<h2 id=\"(\w+)\">", page)
    assert groups[:2] == ["turns", "recall"]
    assert groups[-3:] == ["health", "moxxy", "mem0"]
    assert "Moxxy is a program" in page
    assert "mem0 is a memory service" in page
