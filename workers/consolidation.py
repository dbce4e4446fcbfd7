"""`python -m workers.consolidation`: runs the background jobs of all users until it is stopped."""

from __future__ import annotations

import sys

from agentmem.cli.program import program


def run() -> None:
    """Run until SIGTERM or SIGINT; arguments are those of `agentmem worker`."""
    program(["worker", *sys.argv[1:]], prog_name="agentmem")


if __name__ == "__main__":
    run()
