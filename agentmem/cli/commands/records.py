"""`agentmem show`, `stats` and `users`: one record, how much there is, and whose."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import click

from agentmem.cli.context import CliContext, memory_options
from agentmem.cli.render import (
    dim,
    echo,
    format_time,
    render_mapping,
    render_operation,
    render_record,
    show_json,
    show_json_lines,
    to_one_line,
)

if TYPE_CHECKING:
    from agentmem.core.record import Record
    from agentmem.core.records import Turn
    from agentmem.facade.async_memory import AsyncAgentMemory

USERS_PER_PAGE = 1000


@click.command("show", short_help="One record, its sources.")
@click.argument("record_id", metavar="ID")
@memory_options()
def show_command(cli: CliContext, *, record_id: str) -> None:
    """Show the record ID, and of a fact the turns that it was read from.

    \b
    Examples:
      agentmem show trip-2
      agentmem show 0197a6e2-8f10-7c3a-9d5e-2b1f0c4d6e8a --json
    """

    async def read(memory: AsyncAgentMemory) -> tuple[Record, list[Turn]]:
        record = await memory.get_record(record_id)
        return record, await memory.semantic.provenance(record.id) if record.kind == "Fact" else []

    record, sources = cli.run_for_user(read)
    if cli.json:
        show_json({"record": record, "sources": sources})
        return
    echo(f"{record.kind.lower()}: {render_record(record)}")
    for turn in sources:
        echo(f"    from {render_record(turn)}")
    channel = to_one_line(record.channel)
    echo(dim(f"    {record.id}  channel {channel}, recorded {format_time(record.recorded_at)}"))
    echo(render_operation(record.operation_id))


@click.command("stats", short_help="Count what is stored.")
@memory_options()
def stats_command(cli: CliContext) -> None:
    """Count the records of a user and measure the files.

    \b
    Examples:
      agentmem stats
      agentmem stats --user alice --json
    """
    from agentmem.admin.doctor import read_stats

    found = cli.run_for_user(lambda memory: read_stats(memory.engine, memory.scope))
    cli.show(found, render_mapping(found))


@click.command("users", short_help="List all users.")
@memory_options()
def users_command(cli: CliContext) -> None:
    """List the users who have records, by name. With --json one JSON document per line.

    On Postgres the user of log_url needs the role agentmem_worker.

    \b
    Examples:
      agentmem users
      agentmem users --json
    """

    async def print_all(memory: AsyncAgentMemory) -> int:
        count = 0
        async for page in _list_users(memory):
            count += len(page)
            if cli.json:
                show_json_lines({"user_id": name} for name in page)
            else:
                echo("\n".join(map(to_one_line, page)))
        return count

    if cli.run(print_all) == 0 and not cli.json:
        echo("no users")


async def _list_users(memory: AsyncAgentMemory) -> AsyncIterator[list[str]]:
    from agentmem.core.scope import Operator

    last = ""
    while page := await memory.engine.log.users(Operator("command line"), USERS_PER_PAGE, last):
        yield page
        last = page[-1]


COMMANDS = (show_command, stats_command, users_command)
