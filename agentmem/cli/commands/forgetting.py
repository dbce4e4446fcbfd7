"""`agentmem forget`, `restore`, `undo` and `erase`: taking back what was stored, and bringing it back."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import click

from agentmem.cli.context import EXIT_NEEDS_ATTENTION, CliContext, memory_options
from agentmem.cli.render import format_time, render_operation, render_record, to_one_line
from agentmem.errors import AgentMemError, Conflict, NotFound

if TYPE_CHECKING:
    from agentmem.facade.async_memory import AsyncAgentMemory
    from agentmem.stores.values import ErasureScan

LAST_CHANGES = 200  # that `undo --last` looks at
SHOWN_RECORDS = 5


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
    cli.show(receipt, "\n".join([first, *more, *([] if hard else [render_operation(receipt.operation_id)])]))
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
    operations = dict.fromkeys(record.operation_id for record in found)
    lines = [f"restored: {render_record(record)}" for record in found]
    cli.show(found, "\n".join([*lines, *map(render_operation, operations)]))


@click.command("undo", short_help="Take an operation back.")
@click.argument("operation_id", required=False, metavar="[OPERATION]")
@click.option("--last", is_flag=True, help="The latest operation that can be taken back and was not.")
@memory_options()
def undo_command(cli: CliContext, *, operation_id: str | None, last: bool) -> None:
    """Take the OPERATION back; commands that change something print its id, and `agentmem audit` lists all.

    Fails, and changes nothing, where later operations built on it. With --last again and again it goes further back.

    \b
    Examples:
      agentmem undo --last
      agentmem undo 0197a6e2-8f10-7c3a-9d5e-2b1f0c4d6e8a
    """
    if (operation_id is None) != last:
        raise click.UsageError("give the id of an OPERATION, or --last")
    undone, undone_by, what = cli.run_for_user(
        _undo_last if operation_id is None else lambda memory: _undo(memory, operation_id)
    )
    cli.show({"operation_id": undone_by, "undone": undone}, f"{what}undone by operation {undone_by}")


async def _undo(memory: AsyncAgentMemory, operation_id: str) -> tuple[str, str, str]:
    """The operation, and the one that undid it. NotFound says what to do with the id of a record."""
    try:
        return operation_id, await memory.undo(operation_id), ""
    except NotFound:
        try:
            record = await memory.get_record(operation_id)
        except AgentMemError:
            record = None
        if record is None:
            raise
        raise NotFound(
            f"{operation_id} is a {record.kind.lower()}, no operation; if it was forgotten, run: agentmem restore "
            f"{operation_id}; to take its last change back, run: agentmem undo {record.operation_id}"
        ) from None


async def _undo_last(memory: AsyncAgentMemory) -> tuple[str, str, str]:
    """The latest operation that can be taken back, the one that took it back, and a line about it."""
    log, scope = memory.engine.log, memory.scope
    head = (await log.head(scope)).seq
    entries = await log.changes(scope, max(0, head - LAST_CHANGES), LAST_CHANGES)
    passed_over = {entry.cause for entry in entries if entry.operation == "undo"}
    for entry in reversed(entries):
        if entry.operation == "undo" or entry.operation_id in passed_over:
            continue
        passed_over.add(entry.operation_id)
        with suppress(Conflict, NotFound):
            undone_by = await memory.undo(entry.operation_id)
            records = "".join(f"    {render_record(stored.record)}\n" for stored in entry.upserts[:SHOWN_RECORDS])
            what = f"{entry.operation} of {format_time(entry.recorded_at)}, operation {entry.operation_id}\n{records}"
            return entry.operation_id, undone_by, what
    raise NotFound(f"none of the last {LAST_CHANGES} changes can be undone")


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
    """Whether the user confirms; without a terminal the answer is no."""
    try:
        return click.confirm(question, err=True)
    except click.Abort:
        return False


COMMANDS = (erase_command, forget_command, restore_command, undo_command)
