"""Clients in TypeScript, compiled strictly and run: one with types from the server's description, and the example."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest

from agentmem import AsyncAgentMemory
from agentmem.server.app import build_app
from tests.programs.mcp_node import COMPILER, GENERATOR, TYPESCRIPT_RELEASES, NodePrograms, find_node, install_programs
from tests.programs.served import serve
from tests.servers.downloads import CannotStart
from tests.servers.plugin import _skip_or_fail

CLIENT = """
import type { components, operations } from "./api";

type Schemas = components["schemas"];
type Stored = operations["store_turn"]["responses"][201]["content"]["application/json"];

async function post<T>(path: string, body: object): Promise<T> {
  const headers = { "Content-Type": "application/json" };
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
STRICT = ("--strict", "--target", "es2022", "--lib", "es2022,dom")
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


async def run_node(program: Path, settings: dict[str, str]) -> str:
    """What a program prints that Node runs."""
    environment = {**os.environ, **settings}
    running = await asyncio.create_subprocess_exec(
        str(find_node()), str(program), env=environment, stdout=asyncio.subprocess.PIPE
    )
    return (await running.communicate())[0].decode()


async def test_a_generated_client_stores_recalls_and_tells_records_apart(
    programs: NodePrograms, home: Path, tmp_path: Path
) -> None:
    description = build_app(AsyncAgentMemory("ann", home=home, embedder="hash"), with_mem0=True).openapi()
    (tmp_path / "openapi.json").write_text(json.dumps(description), encoding="utf-8")
    made = await programs.run(GENERATOR, str(tmp_path / "openapi.json"), "-o", str(tmp_path / "api.ts"))
    assert made.exit_code == 0, made.errors
    (tmp_path / "client.ts").write_text(NODE_TYPES + CLIENT, encoding="utf-8")
    (tmp_path / "wrong.ts").write_text(WRONG, encoding="utf-8")
    compiled, refused = await programs.run_all(
        [[COMPILER, *STRICT, "--module", "commonjs", str(tmp_path / name)] for name in ("client.ts", "wrong.ts")]
    )
    assert compiled.exit_code == 0, compiled.output
    assert refused.output.count("error TS") == 2, refused.output
    with serve({"AGENTMEM_HOME": str(home)}, "--user", "ann") as address:
        printed = await run_node(tmp_path / "client.js", {"AGENTMEM_URL": address})
    assert printed == "0 Turn: I am allergic to peanuts. (user)\n"


async def test_the_example_in_typescript_is_strict_and_runs(programs: NodePrograms, home: Path) -> None:
    checked = await programs.run(COMPILER, *STRICT, "--module", "nodenext", "--noEmit", str(EXAMPLE))
    assert checked.exit_code == 0, checked.output
    with serve({"AGENTMEM_HOME": str(home)}, "--user", "ann") as address:
        printed = await run_node(EXAMPLE, {"AGENTMEM_URL": address})
    stored, found = printed.splitlines()
    assert stored == "stored user: I am allergic to peanuts."
    assert found.startswith("found Turn: I am allergic to peanuts. (")
