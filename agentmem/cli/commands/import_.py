"""`agentmem import`: conversations of other programs, or an export."""

from __future__ import annotations

import click

from agentmem.cli.door import Door, UserPath, memory_options
from agentmem.cli.intake import Intake, readable
from agentmem.cli.progress import Progress
from agentmem.cli.render import complain

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
@memory_options(embedder=True)
def command(
    door: Door, *, paths: tuple[str, ...], format_: str | None, conversation: str | None, skip_errors: bool
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
    with readable(paths) as files, Progress() as progress:
        intake = Intake(format_, conversation, _skipped if skip_errors else None)
        report = door.run(lambda memory: intake.files(memory, files, progress))
    door.show(report, report.told())


def _skipped(error: Exception) -> None:
    complain(f"skipped: {error}")
