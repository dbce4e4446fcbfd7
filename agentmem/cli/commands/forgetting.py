"""`agentmem forget`, `restore`, `undo` and `erase`: taking back what was stored, and bringing it back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from agentmem.cli.context import EXIT_NEEDS_ATTENTION, CliContext, memory_options
from agentmem.cli.render import dim, render_record, to_one_line

if TYPE_CHECKING:
    from agentmem.stores.values import ErasureScan


@click.command("forget", short_help="Take a record back.")
@click.argument("record_id", metavar="ID")
@click.option("--hard", is_flag=True, help="Erase it from every store, with what rests on it alone; cannot be undone.")
@click.option("--yes", is_flag=True, help="Do not ask before erasing.")
@click.option("--reason", default="", metavar="TEXT", help="Why; kept with what is forgotten softly.")
@memory_options()
def forget_command(cli: CliContext, *, record_id: str, hard: bool, yes: bool, reason: str) -> int:
    """Take the record ID out of recall. It stays in the history unless --hard is given.

    Exits with 3 when the scan after an erasure still found something.

    \b
    Examples:
      agentmem forget trip-2
      agentmem forget trip-2 --hard --yes
    """
    if hard:
        _require_consent(yes, f"Erase {to_one_line(record_id)} and what rests on it alone, for good?")
    receipt = cli.run_for_user(lambda memory: memory.forget(record_id, hard, reason=reason))
    first = f"{'erased' if hard else 'forgotten'}: {', '.join(map(to_one_line, (*receipt.ids, *receipt.derived)))}"
    more = [] if receipt.scan is None else _render_scan(receipt.scan)
    cli.show(receipt, "\n".join([first, *more, *([] if hard else [dim(f"    operation {receipt.operation_id}")])]))
    return EXIT_NEEDS_ATTENTION if receipt.scan is not None and receipt.scan.leftovers else 0


@click.command("restore", short_help="Bring a record back.")
@click.argument("record_id", metavar="ID")
@memory_options()
def restore_command(cli: CliContext, *, record_id: str) -> None:
    """Bring back what was forgotten softly, or archived, under the ID.

    \b
    Examples:
      agentmem restore trip-2
    """
    found = cli.run_for_user(lambda memory: memory.restore(record_id))
    cli.show(found, "\n".join(f"restored: {render_record(record)}" for record in found))


@click.command("undo", short_help="Take an operation back.")
@click.argument("operation_id", metavar="OPERATION")
@memory_options()
def undo_command(cli: CliContext, *, operation_id: str) -> None:
    """Take the OPERATION back; commands that change something print its id, and `agentmem audit` lists all.

    Fails, and changes nothing, where later operations built on it.

    \b
    Examples:
      agentmem undo 0197a6e2-8f10-7c3a-9d5e-2b1f0c4d6e8a
    """
    undone_by = cli.run_for_user(lambda memory: memory.undo(operation_id))
    cli.show({"operation_id": undone_by, "undone": operation_id}, f"undone by operation {undone_by}")


@click.command("erase", short_help="Erase a whole user.")
@click.option("--yes", is_flag=True, help="Do not ask before erasing.")
@memory_options()
def erase_command(cli: CliContext, *, yes: bool) -> int:
    """Erase everything of --user, in every channel and store, for good. Backups are not reached.

    Exits with 3 when the scan after the erasure still found something.

    \b
    Examples:
      agentmem erase --user alice
      agentmem erase --user alice --yes --json
    """
    _require_consent(yes, f"Erase everything of the user {to_one_line(cli.user)}, for good?")
    receipt = cli.run(lambda memory: memory.erase())
    cli.show(receipt, "\n".join([f"erased: everything of {to_one_line(receipt.user_id)}", *_render_scan(receipt.scan)]))
    return EXIT_NEEDS_ATTENTION if receipt.scan.leftovers else 0


def _render_scan(scan: ErasureScan) -> list[str]:
    left = ", ".join(f"{place} {rows}" for place, rows in scan.leftovers.items())
    found = f"scanned {len(scan.checked)} places: {f'still found in {left}' if left else 'nothing left'}"
    return [found, *(f"still waits: {place}" for place in scan.deferred)]


def _require_consent(yes: bool, question: str) -> None:
    """Raise UsageError unless somebody says yes, on the command line or now."""
    if not (yes or _confirm(question)):
        raise click.UsageError("nothing was erased; answer y, or give --yes")


def _confirm(question: str) -> bool:
    """Whether somebody says yes; nobody there is a no."""
    try:
        return click.confirm(question, err=True)
    except click.Abort:
        return False


COMMANDS = (erase_command, forget_command, restore_command, undo_command)
