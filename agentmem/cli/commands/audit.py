"""`agentmem audit`: what was done with a user's memory."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import click

from agentmem.cli.context import CliContext, memory_options, parse_datetime
from agentmem.cli.render import dim, format_time, pluralize, to_one_line


@click.command("audit", short_help="List what was done.")
@click.option("--operation", metavar="NAME", help="Only this operation, such as store, retrieve or forget.")
@click.option("--since", type=parse_datetime, metavar="MOMENT", help="From this moment on.")
@click.option("--until", type=parse_datetime, metavar="MOMENT", help="Before this moment.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="How many at most.")
@memory_options()
def audit_command(
    cli: CliContext, *, operation: str | None, since: datetime | None, until: datetime | None, limit: int
) -> None:
    """List rows of the audit log. With --json one JSON document per line, with every column.

    The id at the end of a line is that of the operation, which `agentmem undo` takes.

    Which operations leave a row is the setting audit_level: off, writes, reads or verbose.

    \b
    Examples:
      agentmem audit
      agentmem audit --operation forget --since 2025-03-01 --json
    """
    rows = cli.run_for_user(
        lambda memory: memory.audit.query(operation=operation, since=since, until=until, limit=limit)
    )
    cli.show_list(rows, _render_audit_row, "no rows")


def _render_audit_row(row: dict[str, Any]) -> str:
    at = row["timestamp"]
    parts = [format_time(at if isinstance(at, datetime) else datetime.fromisoformat(at)), str(row["operation"])]
    if row["result_count"] is not None:
        parts.append(pluralize(row["result_count"], "record"))
    if row["latency_ms"] is not None:
        parts.append(f"{row['latency_ms']:.1f} ms")
    if row["query_text"]:
        parts.append(repr(row["query_text"]))
    if not row["success"]:
        parts.append(f"failed: {row.get('error_message')}")
    return to_one_line("  ".join(parts)) + (dim(f"  {row['operation_id']}") if row["operation_id"] else "")


COMMANDS = (audit_command,)
