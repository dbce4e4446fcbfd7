"""The command line as tests use it: a home of its own, and the embedder that needs no weights."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from agentmem import AsyncAgentMemory
from agentmem.cli.main import cli_group
from docs.examples.demo import command as demo_command
from tests.benchmarks.__main__ import command as bench_command


@dataclass
class Cli:
    """Runs commands on one home."""

    home: Path
    env: dict[str, str | None] = field(default_factory=lambda: {"AGENTMEM_EMBEDDER": "hash", "NO_COLOR": None})
    program: click.Command = cli_group

    def run(self, *args: str, stdin: str | bytes | None = None, color: bool = False) -> Result:
        """The result of a command, whatever its exit code; an error that is none of ours is raised."""
        runner = CliRunner(env={"AGENTMEM_HOME": str(self.home), **self.env})
        result = runner.invoke(self.program, list(args), input=stdin, color=color, prog_name="agentmem")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    def __call__(self, *args: str, stdin: str | bytes | None = None, code: int = 0) -> str:
        """Standard output of a command that must end with this code."""
        result = self.run(*args, stdin=stdin)
        assert result.exit_code == code, result.output
        return result.stdout

    def json(self, *args: str, code: int = 0) -> Any:
        """The document that a command prints with --json."""
        return json.loads(self(*args, "--json", code=code))

    def lines(self, *args: str) -> list[Any]:
        """The documents that a listing prints with --json."""
        return [json.loads(line) for line in self(*args, "--json").splitlines()]


@pytest.fixture
def cli(home: Path) -> Cli:
    """The command line on an empty home."""
    return Cli(home)


@pytest.fixture
def other_home(tmp_path: Path) -> Callable[..., Cli]:
    """The command line on another empty home."""
    return lambda name, **options: Cli(tmp_path / name, **options)


@pytest.fixture
def bench(home: Path) -> Cli:
    """The benchmarks on an empty home."""
    return Cli(home, program=bench_command)


@pytest.fixture
def demo(home: Path) -> Cli:
    """The demo on an empty home."""
    return Cli(home, program=demo_command)


@cache
def build_shared_app(*, with_mem0: bool = False) -> Any:
    """The routes, which take a second to prepare. They ask the memory that is put into `app.state.memory`."""
    from agentmem.server.app import build_app

    return build_app(AsyncAgentMemory("ann", embedder="hash"), with_mem0=with_mem0)


def build_quick_app(memory: AsyncAgentMemory, *, with_mem0: bool = False, **options: Any) -> Any:
    """What `build_app` makes, with the routes of the shared application but for /mcp, which holds its own sessions."""
    from agentmem.server.app import build_app

    shared, app = build_shared_app(with_mem0=with_mem0), build_app(memory, with_mem0=with_mem0, **options)
    app.router.routes[:-1] = shared.router.routes[:-1]
    app.openapi = shared.openapi
    return app


@asynccontextmanager
async def open_client(memory: AsyncAgentMemory, **options: Any) -> AsyncIterator[Any]:
    """A client of a server over a memory, which it opens and closes; `options` are those of `build_app`."""
    import httpx2 as httpx

    app = build_quick_app(memory, **options)
    started, done = asyncio.Event(), asyncio.Event()

    async def live() -> None:  # in one task, as its task groups ask for
        async with app.router.lifespan_context(app):
            started.set()
            await done.wait()

    living = asyncio.ensure_future(live())
    await started.wait()
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:17890") as opened:
        yield opened
    done.set()
    await living


@pytest.fixture
def shared_app() -> Any:
    """The application behind `client`."""
    return build_shared_app()


@pytest.fixture
async def client(home: Path, shared_app: Any) -> AsyncIterator[Any]:
    """A client of the routes over an embedded memory of Ann's."""
    import httpx2 as httpx

    async with AsyncAgentMemory("ann", home=home, embedder="hash") as memory:
        shared_app.state.memory = memory
        transport = httpx.ASGITransport(shared_app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:17890") as opened:
            yield opened
