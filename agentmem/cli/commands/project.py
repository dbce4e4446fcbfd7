"""`agentmem project`: bring graph and vectors up to what was written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentmem.cli.codes import EXIT_NEEDS_ATTENTION
from agentmem.cli.door import CliContext, UserPath, configure_logging, memory_options
from agentmem.cli.progress import Progress
from agentmem.cli.render import echo_stderr, pluralize, sanitize

if TYPE_CHECKING:
    from agentmem.agent_memory import AsyncAgentMemory


@click.command(short_help="Bring graph and vectors of all users up to the journal.")
@click.option("--follow", is_flag=True, help="Go on until stopped, for a daemon.")
@click.option(
    "--health-file", type=UserPath(dir_okay=False, path_type=Path), metavar="PATH",
    help="With --follow: touch this file after every pass.",
)  # fmt: skip
@memory_options()
def command(cli: CliContext, *, follow: bool, health_file: Path | None) -> int:
    """Apply what writers left undone: they were stopped, or the graph or a model was away.

    Concerns all users, so on Postgres the user of log_url needs the role agentmem_worker. One projector works at a
    time; others stand by. Exit code 3 when some users are still behind.

    \b
    Examples:
      agentmem project
      agentmem project --follow --health-file /run/agentmem/projector
    """
    from agentmem.consolidation.project import sync_projections

    if follow:
        configure_logging()
        cli.run(lambda memory: _run_projector(memory, health_file))
        return 0
    with Progress() as progress:
        report = cli.run(lambda memory: sync_projections(memory.engine, progress))
    done = f"{pluralize(report.users, 'user')} caught up in {report.seconds:.1f} s"
    parked = [f"{pluralize(report.parked, 'change')} passed over; see agentmem doctor"] if report.parked else []
    cli.show(
        report, sanitize("\n".join([done, *parked, *(f"still behind: {reason}" for reason in report.lag_reasons)]))
    )
    return EXIT_NEEDS_ATTENTION if report.lag_reasons else 0


async def _run_projector(memory: AsyncAgentMemory, health_file: Path | None) -> None:
    import asyncio
    import signal

    from agentmem.consolidation.project import sync_until_stopped

    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    echo_stderr("projecting; SIGTERM or Ctrl-C stops it")
    await sync_until_stopped(memory.engine, stop, health_file.touch if health_file else _ignore_pass)


def _ignore_pass() -> None:
    """Nobody watches."""
