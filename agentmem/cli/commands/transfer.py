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
from agentmem.cli.render import Progress, echo_stderr, pluralize, render_operation

if TYPE_CHECKING:
    from agentmem.admin.export_import import UserExportReport
    from agentmem.importers.items import ImportReport

MAX_SHOWN_OPERATIONS = 3


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
    """A file that only its owner can read; it replaces `path` when complete. A device is written directly.

    It is created beside `path` under an unpredictable name, so that no existing link or file is written to.
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


@click.command("import", short_help="Read chats and memories.")
@click.argument("paths", metavar="PATH|-…", nargs=-1, required=True, type=UserPath(exists=True, allow_dash=True))
@click.option("--format", "format_", metavar="NAME", help="What the files are, such as chatgpt. [default: found out]")
@click.option("--conversation", metavar="ID", help="Put all turns into this conversation.")
@click.option("--owner", metavar="NAME", help="Of a file with memories of several users, take those of this one.")
@click.option("--dry-run", is_flag=True, help="Show what would be imported, and store nothing.")
@click.option(
    "--skip-errors", is_flag=True, help="Leave out what is wrong, with a line about each, instead of stopping."
)
@memory_options(with_embedder=True)
def import_command(
    cli: CliContext,
    *,
    paths: tuple[str, ...],
    format_: str | None,
    conversation: str | None,
    owner: str | None,
    dry_run: bool,
    skip_errors: bool,
) -> None:
    """Store what files of other programs hold: conversations, facts, notes, or an export of agentmem.

    Reads chats of ChatGPT, Claude, Gemini and others, memories of mem0, Zep and Letta, notes, and messages as APIs
    have them, as a file, a folder, a .zip or a .gz. A file is read to its end before the first turn is stored. The same
    file imported again stores nothing new.

    \b
    Examples:
      agentmem import chatgpt-export.zip --dry-run
      agentmem import conversations.json --user alice
      agentmem import chats/ --format messages --user alice
      zcat turns.jsonl.gz | agentmem import - --skip-errors
    """
    from agentmem.importers.importer import Importer, open_input_files

    intake = Importer(format_, conversation, "skip" if skip_errors else None, owner, dry_run)
    intake.on_skip = _report_skipped if skip_errors else None
    with open_input_files(paths) as files, Progress() as progress:
        report = cli.run(lambda memory: intake.import_files(memory, files, progress))
    cli.show(report, _render_report(report))


def _report_skipped(error: Exception) -> None:
    echo_stderr(f"skipped: {error}")


def _render_report(report: ImportReport) -> str:
    """What came in, in a sentence, and below it what was left out and why."""
    parts = []
    done = "read, nothing stored (dry run)" if report.dry_run else "stored"
    if report.turns or not (report.exports or report.facts):
        shown = report.turns if report.dry_run else report.new_turns
        known = "" if report.dry_run else _render_existing(report.turns - report.new_turns)
        parts.append(f"{pluralize(shown, 'turn')} {done}{known}")
    if report.facts:
        shown = report.facts if report.dry_run else report.new_facts
        known = "" if report.dry_run else _render_existing(report.facts - report.new_facts)
        parts.append(f"{pluralize(shown, 'fact')} {done}{known}")
    if report.exports and not report.dry_run:
        known = _render_existing(report.changes - report.new_changes)
        parts.append(f"{pluralize(report.new_changes, 'change')} of an export stored{known}")
    if report.skipped:
        parts.append(f"{report.skipped:,} skipped")
    if report.replaced:
        parts.append(f"{pluralize(report.replaced, 'unreadable character')} replaced by U+FFFD")
    formats = ", ".join(report.formats)
    counted = pluralize(report.files, "file") + (f" ({formats})" if formats else "")
    if report.conversations:
        counted += f", {pluralize(report.conversations, 'conversation')}"
    lines = [f"{', '.join(parts)}; {counted}, {report.seconds:.1f} s"]
    if report.new_turns:
        lines.append("  read it now: agentmem consolidate --all")
    if len(report.operation_ids) <= MAX_SHOWN_OPERATIONS:
        lines += [render_operation(each) for each in report.operation_ids]
    else:
        lines.append(f"  {len(report.operation_ids):,} operations that agentmem undo takes: --json lists them")
    lines += [f"  left out: {count:,} × {reason}" for reason, count in report.left_out.items()]
    return "\n".join(lines)


def _render_existing(count: int) -> str:
    return f" ({count:,} were there)" if count > 0 else ""


COMMANDS = (export_command, import_command)
