"""`agentmem import`: conversations of other programs, or an export."""

from __future__ import annotations

import click

from agentmem.cli.door import CliContext, UserPath, memory_options
from agentmem.cli.intake import Importer, open_input_files
from agentmem.cli.progress import Progress
from agentmem.cli.render import echo_stderr

_FORMATS = ("jsonl", "messages", "locomo")


@click.command(short_help="Store the conversations of files, or an export.")
@click.argument(
    "paths", metavar="PATH|-…", nargs=-1, required=True, type=UserPath(exists=True, dir_okay=False, allow_dash=True)
)
@click.option("--format", "format_", type=click.Choice(_FORMATS), help="What the files are. [default: found out]")
@click.option("--conversation", metavar="ID", help="Put all turns into this conversation.")
@click.option(
    "--skip-errors", is_flag=True, help="Leave out what is wrong, with a line about each, instead of stopping."
)
@memory_options(with_embedder=True)
def command(
    cli: CliContext, *, paths: tuple[str, ...], format_: str | None, conversation: str | None, skip_errors: bool
) -> None:
    """Store the turns of files: one turn a line, OpenAI- or Anthropic-style messages, LoCoMo-shaped, or an export.

    A file is read to its end before the first turn is stored, so that a mistake in it stores nothing. The same file
    imported again stores nothing new.

    \b
    Examples:
      agentmem import conversation.jsonl
      agentmem import chats/*.json --format messages --user alice
      agentmem import alice.jsonl --user alice
      zcat turns.jsonl.gz | agentmem import - --skip-errors
    """
    with open_input_files(paths) as files, Progress() as progress:
        intake = Importer(format_, conversation, _report_skipped if skip_errors else None)
        report = cli.run(lambda memory: intake.import_files(memory, files, progress))
    cli.show(report, report.render())


def _report_skipped(error: Exception) -> None:
    echo_stderr(f"skipped: {error}")
