"""`python -m workers.projector`: keeps graph and vectors of all users up to the journal until it is stopped."""

from __future__ import annotations

import sys

from agentmem.cli.main import cli_group


def run() -> None:
    """Run until SIGTERM or SIGINT; arguments are those of `agentmem admin sync`."""
    cli_group(["project", "--follow", *sys.argv[1:]], prog_name="agentmem")


if __name__ == "__main__":
    run()
