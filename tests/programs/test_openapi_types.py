"""Clients in TypeScript, compiled strictly and run: one with types from the server's description, and the example.

By day the example runs as it is, and tests/surfaces/test_rest_openapi.py reads the description.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentmem import AsyncAgentMemory
from agentmem.server.app import build_app
from tests.programs.mcp_node import (
    COMPILER,
    GENERATOR,
    TYPESCRIPT_RELEASES,
    NodePrograms,
    NodeRun,
    find_node,
    install_programs,
)
from tests.programs.served import serve
from tests.servers.downloads import CannotStart
from tests.servers.plugin import _skip_or_fail

CLIENT = """
import type { components, operations } from "./api";

type Schemas = components["schemas"];
type Stored = operations["store_turn"]["responses"][201]["content"]["application/json"];

async function post<T>(path: string, body: object): Promise<T> {
  const headers = { "Content-Type": "application/json", "X-Agentmem-User": "bob" };
  const answer = await fetch(process.env.AGENTMEM_URL + path, { method: "POST", headers, body: JSON.stringify(body) });
  if (!answer.ok) throw new Error(((await answer.json()) as Schemas["Problem"]).detail);
  return (await answer.json()) as T;
}

function describe(record: Schemas["AnyRecord"]): string {
  switch (record.kind) {
    case "Turn": return `${record.kind}: ${record.content} (${record.role})`;
    case "Fact": return `${record.kind}: ${record.claim.toUpperCase()}`;
    default: return record.kind;
  }
}

async function main(): Promise<void> {
  const turn: Schemas["NewTurn"] = { content: "I am allergic to peanuts." };
  const stored = await post<Stored>("/v1/turns", turn);
  const asked: Schemas["RecallBody"] = { query: "what is she allergic to?", conversation_id: "other" };
  const found = await post<Schemas["RecallAnswer"]>("/v1/recall", asked);
  const index: number = stored.index;
  console.log(index, found.items.map((item) => describe(item.record)).join("; "));
}

void main();
"""
NODE_TYPES = "declare const process: { env: Record<string, string> };\n"
EXAMPLE = Path(__file__).parents[2] / "docs/examples/rest_client.mts"
STRICT = ("--strict", "--target", "es2022", "--lib", "es2022,dom", "--module", "nodenext")
WRONG = """
import type { components } from "./api";
export const asked: components["schemas"]["RecallBody"] = { top_k: 5 };
export const claim = (record: components["schemas"]["AnyRecord"]) => record.claim;
"""


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> NodePrograms:
    """The generator of types, and TypeScript's compiler."""
    try:
        folder = install_programs("typescript-programs", TYPESCRIPT_RELEASES)
    except CannotStart as error:
        _skip_or_fail(str(error))
    return NodePrograms(folder, tmp_path_factory.mktemp("node-home"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the programs are compiled."""
    return tmp_path_factory.mktemp("typescript")


@pytest.fixture(scope="module")
def compiled(programs: NodePrograms, folder: Path) -> NodeRun:
    """What the compiler says of a right program, a wrong one, and the example."""
    description = build_app(AsyncAgentMemory("ann", home=folder / "unused", embedder="hash"), with_mem0=True).openapi()
    (folder / "openapi.json").write_text(json.dumps(description), encoding="utf-8")
    made = asyncio.run(programs.run(GENERATOR, str(folder / "openapi.json"), "-o", str(folder / "api.ts")))
    assert made.exit_code == 0, made.errors
    sources = {"client.ts": NODE_TYPES + CLIENT, "wrong.ts": WRONG, EXAMPLE.name: EXAMPLE.read_text(encoding="utf-8")}
    for name, source in sources.items():
        (folder / name).write_text(source, encoding="utf-8")
    return asyncio.run(programs.run(COMPILER, *STRICT, *(str(folder / name) for name in sources)))


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a server of this module answers."""
    with serve({"AGENTMEM_HOME": str(tmp_path_factory.mktemp("served") / "home")}, "--user", "ann") as opened:
        yield opened


def run_node(program: Path, address: str) -> str:
    """What a program prints that Node runs."""
    command, environment = [str(find_node()), str(program)], {**os.environ, "AGENTMEM_URL": address}
    return subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True).stdout


def find_errors(compiled: NodeRun, name: str) -> list[str]:
    """The lines about errors in a file."""
    return [line for line in compiled.output.splitlines() if ": error TS" in line and f"{name}(" in line]


@pytest.mark.nightly
def test_a_generated_client_and_the_example_are_strict_and_run(compiled: NodeRun, folder: Path, address: str) -> None:
    assert len(find_errors(compiled, "wrong.ts")) == 2
    assert compiled.output.count("error TS") == 2, compiled.output
    assert run_node(folder / "client.js", address) == "0 Turn: I am allergic to peanuts. (user)\n"
    assert compiled.exit_code != 0, "the wrong program was compiled, too"
    assert find_errors(compiled, EXAMPLE.name) == []


def test_the_example_runs(address: str) -> None:
    stored, found = run_node(EXAMPLE, address).splitlines()
    assert stored == "stored user: I am allergic to peanuts."
    assert found.startswith("found Turn: I am allergic to peanuts. (")
