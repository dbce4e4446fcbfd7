"""`agentmem export`: everything of one user, as lines of JSON."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentmem.cli.door import CliContext, UserPath, memory_options
from agentmem.cli.render import echo_stderr, pluralize

if TYPE_CHECKING:
    from agentmem.upkeep.portable import UserExportReport


@click.command(short_help="Write everything of a user to a file.")
@click.argument("path", metavar="[PATH|-]", default="-", type=UserPath(dir_okay=False, allow_dash=True))
@memory_options()
def command(cli: CliContext, *, path: str) -> None:
    """Write all records of the user with their history to PATH, or to standard output, one JSON document per line.

    `agentmem import` reads it back. Vectors are left out: they are made again. The file can be read by its owner alone.

    \b
    Examples:
      agentmem export alice.jsonl --user alice
      agentmem export --user alice | gzip > alice.jsonl.gz
    """
    if path == "-":
        echo_stderr(_render_export_report(_export(cli, lambda line: click.echo(line, nl=False))))
        return
    part = Path(f"{path}.part")
    try:
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            report = _export(cli, file.write)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
    cli.show(report, _render_export_report(report))


def _export(cli: CliContext, write: Callable[[str], Any]) -> UserExportReport:
    from agentmem.upkeep.portable import export_user

    return cli.run(lambda memory: export_user(memory.engine, memory.scope, write))


def _render_export_report(report: UserExportReport) -> str:
    return f"exported {pluralize(report.records, 'record')}, {pluralize(report.changes, 'change')}"
