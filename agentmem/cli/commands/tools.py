"""`agentmem tools`: how well each tool does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from agentmem.cli.door import CliContext, memory_options
from agentmem.cli.render import echo, format_time, pluralize, show_json_lines, to_one_line

if TYPE_CHECKING:
    from agentmem.memory.tools import ToolStats


@click.command(short_help="Show how well each tool does.")
@click.option("--task-type", metavar="NAME", help="Only calls for this type of task.")
@click.option("--only-channel", metavar="NAME", help="Only calls of this channel. [default: all that can be read]")
@memory_options()
def command(cli: CliContext, *, task_type: str | None, only_channel: str | None) -> None:
    """List the tools that agents called, the one called most first, with --json one JSON document per line.

    The rate of success comes with the bounds between which it lies with 95 % probability. See docs/procedural.md.

    \b
    Examples:
      agentmem tools
      agentmem tools --task-type deploy --json
      agentmem tools --only-channel website
    """
    found = cli.run(lambda memory: memory.procedural.tool_stats(task_type, only_channel))
    if cli.json:
        show_json_lines(found)
        return
    for stats in found:
        echo("\n".join(_render_tool_stats(stats)))
    if not found:
        echo("no calls")


def _render_tool_stats(stats: ToolStats) -> list[str]:
    rate = "success not known"
    if stats.success_rate is not None:
        rate = f"{stats.success_rate:.0%} succeeded ({stats.success_low:.0%} to {stats.success_high:.0%})"
    lines = [
        (
            f"{to_one_line(stats.tool_name)}: {pluralize(stats.calls, 'call')}, {rate}, last "
            f"{format_time(stats.last_called)}"
        )
    ]
    if stats.mean_ms is not None and stats.p50_ms is not None and stats.p95_ms is not None:
        lines.append(
            f"    {stats.mean_ms:.0f} ms on average, {stats.p50_ms:.0f} ms at p50, {stats.p95_ms:.0f} ms at p95"
        )
    if stats.last_error_at is not None:
        lines.append(
            f"    last error {format_time(stats.last_error_at)}: {to_one_line(stats.last_error) or 'without a message'}"
        )
    return lines
