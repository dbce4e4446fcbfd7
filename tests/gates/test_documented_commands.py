"""Every block of the README, the quickstart, the command line and the operations page runs as it is printed.

Each page runs in the environment that its own install line makes, away from the checkout. An environment takes half a
minute, so `make lint` makes one, without extras, and runs the operations page in that of the checkout. `make nightly`
makes the others; tests/docs runs the programs of the README with extras by day.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.gates.installed import ROOT, Installed, read_blocks, run

Give = Callable[[str], Installed]
README, QUICKSTART, OPERATIONS = "README.md", "docs/quickstart.md", "docs/operations.md"
DAILY_INSTALLS = {"pip install agentmem-graph"}
DAILY_TARGETS = {"make demo", "make help"}
RUN_BY_CI = {"make test", "make lint"}  # this test is part of one of them
# Asks the README's first memory in words that share none with the turn.
OTHER_WORDS = """
with AgentMemory("bob") as memory:
    for text in ("The train to Leeds leaves at nine.", "I'm allergic to peanuts.", "My sister plays the cello."):
        memory.store_turn(text)
    bundle = memory.remember("what must the cook avoid?")
    assert bundle.items[0].record.content == "I'm allergic to peanuts.", bundle.items
    assert bundle.notices == (), bundle.notices
    assert bundle.receipt.embedder == "local:all-MiniLM-L6-v2:384"
"""
# Stands for the client `claude`: starts the server that it is given, says hello, and lists the tools.
MCP_CLIENT = """#!/usr/bin/env python
import asyncio, sys
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

async def main():
    command, *arguments = sys.argv[sys.argv.index("--") + 1:]
    async with stdio_client(StdioServerParameters(command=command, args=arguments)) as streams:
        async with ClientSession(*streams) as session:
            await session.initialize()
            print([tool.name for tool in (await session.list_tools()).tools])

asyncio.run(main())
"""


def read_install_lines(page: str) -> list[str]:
    """The install lines of a page, without the comments behind them."""
    lines = "\n".join(read_blocks(page, "sh")).splitlines()
    return [line.partition("   #")[0].strip() for line in lines if line.startswith("pip install")]


def test_every_block_has_a_test() -> None:
    """A new block of another kind, or one more of a kind, needs a test below."""
    kinds = {
        page: [
            next((kind for kind in ("make ", "pip install", "docker compose") if block.startswith(kind)), language)
            for language in ("python", "sh", "text")
            for block in read_blocks(page, language)
        ]
        for page in (README, QUICKSTART, OPERATIONS)
    }
    assert kinds == {
        README: ["python"] * 2 + ["make ", "pip install", "pip install", "make ", "make ", "text"],
        QUICKSTART: ["python"] * 7 + ["pip install", "sh"] + ["text"] * 5,
        OPERATIONS: ["python", "sh", "pip install"] + ["sh"] * 6 + ["docker compose"] * 2,
    }


def mark_nightly(lines: list[str], daily: set[str]) -> list[Any]:
    """All lines as parameters; those that are not daily run in the night."""
    return [pytest.param(line, marks=[pytest.mark.nightly] * (line not in daily)) for line in lines]


@pytest.mark.parametrize("line", mark_nightly(read_install_lines(README), DAILY_INSTALLS))
def test_the_first_program_of_the_readme_runs(line: str, installed: Give, tmp_path: Path) -> None:
    program = read_blocks(README, "python")[0]
    said = installed(line).python(program + (OTHER_WORDS if "local" in line else ""), tmp_path)
    assert "allergic to peanuts" in said or "local" not in line


@pytest.mark.nightly
def test_a_client_of_mcp_is_set_up(installed: Give, tmp_path: Path) -> None:
    (block,) = [block for block in read_blocks(README, "sh") if "claude mcp add" in block]
    line, _, command = block.strip().partition("\n")
    client = tmp_path / "claude"
    client.write_text(MCP_CLIENT, encoding="utf-8")
    client.chmod(0o755)
    environment = installed(line)
    search = f"{tmp_path}:{environment.environ(tmp_path)['PATH']}"
    assert "search_memory" in environment.shell(command, tmp_path, PATH=search)


def list_make_lines() -> list[str]:
    """The lines of the README that call make, without the comments."""
    lines = "\n".join(block for block in read_blocks(README, "sh") if block.startswith("make ")).splitlines()
    return [call for line in lines if line and (call := line.partition("#")[0].strip()) not in RUN_BY_CI]


@pytest.mark.timeout(400)
@pytest.mark.parametrize("line", mark_nightly(list_make_lines(), DAILY_TARGETS))
def test_make_runs(line: str, tmp_path: Path) -> None:
    conversation = tmp_path / "conversation.json"
    turn = {
        "dia_id": "t1",
        "session": "s1",
        "speaker": "Ann",
        "timestamp": "2026-05-01T08:00:00Z",
        "text": "Anna lives in Porto.",
    }
    asked = {"question": "Where does Anna live?", "category": 1, "category_name": "place", "evidence": ["t1"]}
    conversation.write_text(
        json.dumps({"conversations": [{"id": "c1", "turns": [turn], "qa": [asked]}]}), encoding="utf-8"
    )
    words = shlex.split(
        line.replace("DATA=path", f"DATA={conversation}").replace("VENV=path", f"VENV={tmp_path / 'own'}")
    )
    outside = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    assert run(*words, cwd=ROOT, environment={**outside, "AGENTMEM_HOME": str(tmp_path / "home")})


@pytest.mark.nightly
def test_the_quickstart_runs(installed: Give, tmp_path: Path) -> None:
    (line,) = read_install_lines(QUICKSTART)
    environment = installed(line)
    for code in read_blocks(QUICKSTART, "python"):
        assert environment.python(code, tmp_path)
    (tmp_path / "conversation.jsonl").write_text('{"role": "user", "content": "Anna lives in Porto."}\n')
    (commands,) = [block for block in read_blocks(QUICKSTART, "sh") if not block.startswith("pip")]
    assert "allergic to peanuts" in environment.shell(commands, tmp_path)
