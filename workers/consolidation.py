"""`python -m workers.consolidation`: runs the background jobs of all users until it is stopped."""

from __future__ import annotations

import sys

from agentmem.cli.main import cli_group


def run() -> None:
    """Run until SIGTERM or SIGINT; arguments are those of `agentmem worker`."""
    cli_group(["worker", *sys.argv[1:]], prog_name="agentmem")


if __name__ == "__main__":
    run()
