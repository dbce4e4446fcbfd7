"""The command line `agentmem`: parsing and rendering over the same verbs that programs use."""

from __future__ import annotations


def main() -> None:
    """Run the command that the arguments name, and exit with its code."""
    from agentmem.cli.program import cli_group  # here, so that importing this package loads nothing

    cli_group(prog_name="agentmem")
