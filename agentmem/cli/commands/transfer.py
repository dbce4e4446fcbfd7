"""`agentmem export` and `import`: a user's memory as a file, and conversations of other programs."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from agentmem.cli.context import CliContext, UserPath, memory_options
from agentmem.cli.render import Progress, echo_stderr, pluralize

if TYPE_CHECKING:
    from agentmem.admin.export_import import UserExportReport
    from agentmem.importers.importer import ImportReport


_FORMATS = ("jsonl", "messages", "locomo")


@click.command("export", short_help="Write all to a file.")
@click.argument("path", metavar="[PATH|-]", default="-", type=UserPath(dir_okay=False, allow_dash=True))
@memory_options()
def export_command(cli: CliContext, *, path: str) -> None:
    """Write all records of the user with their history to PATH, or to standard output, one JSON document per line.

    `agentmem import` reads it back. Vectors are left out: they are made again. The file can be read by its owner alone.

    \b
    Examples:
      agentmem export alice.jsonl --user alice
      agentmem export --user alice | gzip > alice.jsonl.gz
    """
    if path == "-":
        echo_stderr(_render_export_report(_export(cli, lambda line: click.echo(line.encode(), nl=False))))
        return
    with create_private_file(Path(path)) as file:
        report = _export(cli, file.write)
    cli.show(report, _render_export_report(report))


@contextmanager
def create_private_file(path: Path) -> Iterator[TextIO]:
    """A file that its owner alone can read, in the place of `path` once it is complete; a device is written to.

    It is made new beside `path` under a name that nobody can foresee, so that no link and no file that somebody put
    there is written to.
    """
    if path.exists() and not path.is_file():
        with path.open("w", encoding="utf-8") as device:
            yield device
        return
    descriptor, part = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    finally:
        Path(part).unlink(missing_ok=True)


def _export(cli: CliContext, write: Callable[[str], Any]) -> UserExportReport:
    from agentmem.admin.export_import import export_user

    return cli.run_for_user(lambda memory: export_user(memory.engine, memory.scope, write))


def _render_export_report(report: UserExportReport) -> str:
    return f"exported {pluralize(report.records, 'record')}, {pluralize(report.changes, 'change')}"


@click.command("import", short_help="Read conversations.")
@click.argument(
    "paths", metavar="PATH|-…", nargs=-1, required=True, type=UserPath(exists=True, dir_okay=False, allow_dash=True)
)
@click.option("--format", "format_", type=click.Choice(_FORMATS), help="What the files are. [default: found out]")
@click.option("--conversation", metavar="ID", help="Put all turns into this conversation.")
@click.option(
    "--skip-errors", is_flag=True, help="Leave out what is wrong, with a line about each, instead of stopping."
)
@memory_options(with_embedder=True)
def import_command(
    cli: CliContext, *, paths: tuple[str, ...], format_: str | None, conversation: str | None, skip_errors: bool
) -> None:
    """Store the turns of files: one turn a line, OpenAI- or Anthropic-style messages, LoCoMo-shaped, or an export.

    A file is read to its end before the first turn is stored, so that a mistake in it stores nothing. The same file
    imported again stores nothing new.

    \b
    Examples:
      agentmem import conversation.jsonl
      agentmem import alice.jsonl --user alice
      agentmem import chats/*.json --format messages --user alice
      zcat turns.jsonl.gz | agentmem import - --skip-errors
    """
    from agentmem.importers.importer import Importer, open_input_files

    with open_input_files(paths) as files, Progress() as progress:
        intake = Importer(format_, conversation, _report_skipped if skip_errors else None)
        report = cli.run(lambda memory: intake.import_files(memory, files, progress))
    cli.show(report, _render_report(report))


def _report_skipped(error: Exception) -> None:
    echo_stderr(f"skipped: {error}")


def _render_report(report: ImportReport) -> str:
    """The same in a sentence."""
    parts = []
    if report.turns or not report.exports:
        parts.append(
            f"{pluralize(report.new_turns, 'turn')} stored" + _render_existing(report.turns - report.new_turns)
        )
    if report.exports:
        known = _render_existing(report.changes - report.new_changes)
        parts.append(f"{pluralize(report.new_changes, 'change')} of an export stored{known}")
    if report.skipped:
        parts.append(f"{report.skipped:,} skipped")
    return f"{', '.join(parts)}; {pluralize(report.files, 'file')}, {report.seconds:.1f} s"


def _render_existing(count: int) -> str:
    return f" ({count:,} were there)" if count else ""


COMMANDS = (export_command, import_command)
