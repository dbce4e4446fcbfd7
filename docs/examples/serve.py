"""The server on the demo's conversation: `python -m docs.examples.serve`, or `make serve`, until Ctrl-C."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import click

CONVERSATION = Path(__file__).with_name("demo_conversation.jsonl")
USER = "mira"
QUESTION = "Which instrument does Jonas play?"

SIGTERM_EXIT = 128 + signal.SIGTERM  # as shells have it


def main(options: Sequence[str] = ()) -> int:
    """Import the conversation into a folder of its own, serve it on a free port, and say how to ask. `options` are
    those of `agentmem serve`.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(SIGTERM_EXIT))  # by way of the blocks that end the server
    agentmem = [sys.executable, "-c", "from agentmem.cli.main import main; main()"]
    with tempfile.TemporaryDirectory(prefix="agentmem-serve-") as home:
        shared = ["--user", USER, "--home", home]
        subprocess.run([*agentmem, "import", str(CONVERSATION), *shared], check=True)  # noqa: S603  our own program
        command = [*agentmem, "serve", "--port", "0", *shared, *options]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:  # noqa: S603
            try:
                assert server.stdout is not None
                if line := server.stdout.readline():
                    _show_addresses(line.split(" ")[2].rstrip(";\n"))
                return server.wait()
            except KeyboardInterrupt:
                return server.wait()
            finally:
                server.terminate()


def _show_addresses(address: str) -> None:
    click.echo(
        f"\nREST    {address}/v1\nroutes  {address}/openapi.json\nMCP     {address}/mcp\n\nAsk, in another terminal:\n"
        f"  curl -s {address}/v1/recall -H 'Content-Type: application/json' -d '{{\"query\": \"{QUESTION}\"}}'\n\n"
        "Ctrl-C stops it."
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
