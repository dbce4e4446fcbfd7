"""`agentmem export`: everything of one user, as lines of JSON."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentmem.cli.door import Door, UserPath, memory_options
from agentmem.cli.render import complain, counted

if TYPE_CHECKING:
    from agentmem.upkeep.portable import ExportReport


@click.command(short_help="Write everything of a user to a file.")
@click.argument("path", metavar="[PATH|-]", default="-", type=UserPath(dir_okay=False, allow_dash=True))
@memory_options()
def command(door: Door, *, path: str) -> None:
    """Write all records of the user with their history to PATH, or to standard output, one JSON document per line.

    `agentmem import` reads it back. Vectors are left out: they are made again. The file can be read by its owner alone.

    \b
    Examples:
      agentmem export alice.jsonl --user alice
      agentmem export --user alice | gzip > alice.jsonl.gz
    """
    if path == "-":
        complain(_told(_export(door, lambda line: click.echo(line, nl=False))))
        return
    part = Path(f"{path}.part")
    try:
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            report = _export(door, file.write)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
    door.show(report, _told(report))


def _export(door: Door, write: Callable[[str], Any]) -> ExportReport:
    from agentmem.upkeep.portable import export_user

    return door.run(lambda memory: export_user(memory.resources, memory.scope, write))


def _told(report: ExportReport) -> str:
    return f"exported {counted(report.records, 'record')}, {counted(report.changes, 'change')}"
