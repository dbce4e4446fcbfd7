"""`agentmem project`: bring graph and vectors up to what was written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentmem.cli.codes import FOUND
from agentmem.cli.door import Door, UserPath, log_events, memory_options
from agentmem.cli.progress import Progress
from agentmem.cli.render import complain, counted, safe

if TYPE_CHECKING:
    from agentmem.agent_memory import AsyncAgentMemory


@click.command(short_help="Bring graph and vectors of all users up to the journal.")
@click.option("--follow", is_flag=True, help="Go on until stopped, for a daemon.")
@click.option(
    "--health-file", type=UserPath(dir_okay=False, path_type=Path), metavar="PATH",
    help="With --follow: touch this file after every pass.",
)  # fmt: skip
@memory_options()
def command(door: Door, *, follow: bool, health_file: Path | None) -> int:
    """Apply what writers left undone: they were stopped, or the graph or a model was away.

    Concerns all users, so on Postgres the user of log_url needs the role agentmem_worker. One projector works at a
    time; others stand by. Exit code 3 when some users are still behind.

    \b
    Examples:
      agentmem project
      agentmem project --follow --health-file /run/agentmem/projector
    """
    from agentmem.consolidation.project import project

    if follow:
        log_events()
        door.run(lambda memory: _forever(memory, health_file))
        return 0
    with Progress() as progress:
        report = door.run(lambda memory: project(memory.resources, progress))
    done = f"{counted(report.users, 'user')} caught up in {report.seconds:.1f} s"
    parked = [f"{counted(report.parked, 'change')} passed over; see agentmem doctor"] if report.parked else []
    door.show(report, safe("\n".join([done, *parked, *(f"still behind: {reason}" for reason in report.waiting)])))
    return FOUND if report.waiting else 0


async def _forever(memory: AsyncAgentMemory, health_file: Path | None) -> None:
    import asyncio
    import signal

    from agentmem.consolidation.project import keep_projecting

    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    complain("projecting; SIGTERM or Ctrl-C stops it")
    await keep_projecting(memory.resources, stop, health_file.touch if health_file else _nobody)


def _nobody() -> None:
    """Nobody watches."""
