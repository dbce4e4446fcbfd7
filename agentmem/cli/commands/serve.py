"""`agentmem serve` and `agentmem mcp`: the memory for programs that are not Python."""

from __future__ import annotations

import logging
import signal
import socket
from typing import TYPE_CHECKING

import click

from agentmem.cli.context import CliContext, configure_logging, memory_options
from agentmem.cli.render import echo
from agentmem.errors import ConfigError

if TYPE_CHECKING:
    from agentmem.server.http_server import HttpServer

TOOLS_OPTION = click.option(
    "--tools",
    type=click.Choice(["core", "mnemex", "server-memory", "chatgpt", "graph", "all"]),
    default="core",
    show_default=True,
    help="The tools that MCP clients get.",
)


@click.command("serve", short_help="Serve over HTTP.")
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="An address of this machine.")
@click.option("--port", type=click.IntRange(0, 65535), default=17890, show_default=True, help="0 takes a free one.")
@TOOLS_OPTION
@click.option("--mem0", is_flag=True, help="Also answer the routes of mem0's server, under /mem0.")
@memory_options(with_embedder=True)
def serve_command(cli: CliContext, *, host: str, port: int, tools: str, mem0: bool) -> None:
    """Serve the memory over HTTP until SIGTERM or Ctrl-C: REST under /v1, MCP under /mcp.

    Until the first key is made, programs of this machine only are answered, and requests are about --user unless their
    header X-Agentmem-User names another one. From then on each needs a key: see `agentmem keys`. Another --host than
    loopback needs a key, and the host names by which it is reached in server.hosts.

    \b
    Examples:
      agentmem serve
      curl -s localhost:17890/v1/turns -H 'Content-Type: application/json' \\
        -d '{"content": "I am allergic to peanuts."}'
      agentmem keys create --user alice
      agentmem serve --host 0.0.0.0
    """
    import asyncio

    try:
        from agentmem.server.app import build_app
        from agentmem.server.http_server import HttpServer
        from agentmem.server.limits import is_loopback
        from agentmem.server.mcp.server import TOOL_SETS
    except ImportError as error:
        raise ConfigError("serve needs the extra `server`: pip install 'agentmem-graph[server]'") from error
    from agentmem.facade.async_memory import AsyncAgentMemory

    configure_logging()
    settings = cli.load_settings()
    asks_for_tokens = settings.server.jwt_keys is not None
    if not (is_loopback(host) or asks_for_tokens) and not cli.run(lambda memory: memory.engine.api_keys.were_made()):
        raise ConfigError(
            f"--host {host}: without keys the server answers on loopback only, such as 127.0.0.1; "
            "make one with: agentmem keys create"
        )
    memory = AsyncAgentMemory(
        cli.user, channel=cli.channel, settings=settings, background=settings.background is not False
    )
    app = build_app(memory, tools=TOOL_SETS[tools], with_mem0=mem0, host=host)
    server = HttpServer(app, host=host, port=port)
    listening = _listen(server)
    # A signal before the server runs stops it as soon as it does. The server drains at SIGTERM and raises it again when
    # it has closed; that then ends the program in order.
    signal.signal(signal.SIGTERM, lambda *_: server.stop())

    async def open_and_serve() -> None:
        async with memory:  # here, because the server would print a traceback of what cannot be opened
            echo(f"serving on {_format_address(listening)}; stop with Ctrl-C")
            await server.serve([listening])

    with listening, asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
        runner.run(open_and_serve())


@click.command("mcp", short_help="Serve an MCP client.")
@TOOLS_OPTION
@memory_options(with_embedder=True)
def mcp_command(cli: CliContext, *, tools: str) -> None:
    """Speak the Model Context Protocol on standard input and output, as Claude, Cursor and others start it.

    The memory is that of --user, whatever the model says. Several clients may run it on one memory.

    \b
    Examples:
      claude mcp add memory -- agentmem mcp --user alice
      agentmem mcp --user alice --channel my-project
    """
    import asyncio

    try:
        from agentmem.server.mcp.server import TOOL_SETS, serve_stdio
    except ImportError as error:
        raise ConfigError("mcp needs the extra `mcp`: pip install 'agentmem-graph[mcp]'") from error
    from agentmem.facade.async_memory import AsyncAgentMemory

    configure_logging()
    settings = cli.load_settings()
    memory = AsyncAgentMemory(
        cli.user, channel=cli.channel, settings=settings, background=settings.background is not False
    )
    asyncio.run(serve_stdio(memory, TOOL_SETS[tools]))


def _listen(server: HttpServer) -> socket.socket:
    """The server's socket. Raises ConfigError where it cannot listen."""
    logging.disable()  # uvicorn logs the reason and exits
    try:
        return server.listen()
    except (OSError, SystemExit) as error:
        cause = error if isinstance(error, OSError) else error.__context__
        reason = cause.strerror if isinstance(cause, OSError) else type(cause).__name__
        asked = f"--host {server.config.host} --port {server.config.port}"
        raise ConfigError(f"cannot listen on {asked}: {reason}; take others, --port 0 for a free port") from None
    finally:
        logging.disable(logging.NOTSET)


def _format_address(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


COMMANDS = (mcp_command, serve_command)
