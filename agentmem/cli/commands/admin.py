"""`agentmem admin`: for operators."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentmem.cli.commands.transfer import create_private_file
from agentmem.cli.context import (
    EXIT_NEEDS_ATTENTION,
    CliContext,
    UserPath,
    configure_logging,
    memory_options,
    parse_datetime,
)
from agentmem.cli.render import Progress, bold, colorize, echo_stderr, pluralize, to_one_line
from agentmem.cli.verbs import VerbGroup
from agentmem.errors import ConfigError
from agentmem.text.terminal_text import neutralize

if TYPE_CHECKING:
    from agentmem.admin.erasures import ErasureListReport, RepeatedErasureReport
    from agentmem.facade.async_memory import AsyncAgentMemory


_COLORS = {"ok": "green", "warning": "yellow", "error": "red"}

_PARTS = ("vectors", "words", "graph")


@click.command("compact", short_help="Make the files as small as their content.")
@memory_options()
def compact_command(cli: CliContext) -> None:
    """Rewrite the files without their empty pages. Needs as much free disk space as they take now.

    \b
    Examples:
      agentmem admin compact
      agentmem admin compact --home /srv/agent/memory
    """
    from agentmem.admin.doctor import compact

    report = cli.run(lambda memory: compact(memory.engine))
    if report.pending:
        echo_stderr("note: a reader keeps the write-ahead log from being cut; run it again when the reader has ended")
    cli.show(report, f"{report.bytes_before:,} bytes before, {report.bytes_after:,} after")


@click.command("doctor", short_help="Check the stores, the schema and the models.")
@memory_options()
def doctor_command(cli: CliContext) -> int:
    """Check the memory and say how to mend what is wrong. Changes nothing. Exits with 3 when there is an error.

    \b
    Examples:
      agentmem admin doctor
      agentmem admin doctor --home /srv/agent/memory --json
    """
    import asyncio

    from agentmem.admin.doctor import diagnose

    findings = asyncio.run(diagnose(cli.load_settings()))
    lines = []
    for finding in findings:
        level = colorize(f"{finding.level:<7}", _COLORS.get(finding.level, "white"))
        lines.append(f"{level}  {bold(neutralize(finding.check))}  {neutralize(finding.detail)}".rstrip())
        if finding.fix:
            lines.append(f"         {neutralize(finding.fix)}")
    cli.show(findings, "\n".join(lines))
    return EXIT_NEEDS_ATTENTION if any(finding.level == "error" for finding in findings) else 0


@click.command("migrate", short_help="Bring the stores to this version's schema.")
@memory_options()
def migrate_command(cli: CliContext) -> None:
    """Make or update tables, constraints and indexes of the servers in log_url and graph_url.

    Agents never do that by themselves: they refuse a schema that is not theirs. Give the URLs of users who own the
    tables, for instance in the environment. Running it again, or twice at once, does nothing more. An embedded file is
    brought along whenever it is opened.

    \b
    Examples:
      agentmem admin migrate
      agentmem admin migrate --json
    """
    import asyncio

    from agentmem.admin.migrate import migrate

    report = asyncio.run(migrate(cli.load_settings()))
    lines = [
        f"{name}: {pluralize(steps, 'step') + ' applied' if steps else 'nothing to do'}"
        for name, steps in report.applied.items()
    ]
    if report.created_roles:
        lines.append(f"roles: created {', '.join(report.created_roles)}")
    if report.missing_roles:
        fix = "; ".join(f"CREATE ROLE {role} NOLOGIN" for role in report.missing_roles)
        lines.append(f"roles: as an administrator run: {fix}; then: agentmem admin migrate")
    elif report.applied and not report.created_roles:
        lines.append("roles: all there, with what each may do")
    cli.show(report, "\n".join(lines or ["the embedded file is at this version's schema"]))


@click.command("sync", short_help="Bring graph and vectors of all users up to the journal.")
@click.option("--follow", is_flag=True, help="Go on until stopped, for a daemon.")
@click.option(
    "--health-file",
    type=UserPath(dir_okay=False, path_type=Path),
    metavar="PATH",
    help="With --follow: touch this file after every pass.",
)
@memory_options()
def sync_command(cli: CliContext, *, follow: bool, health_file: Path | None) -> int:
    """Apply what writers left undone: they were stopped, or the graph or a model was away.

    Concerns all users, so on Postgres the user of log_url needs the role agentmem_worker. One projector works at a
    time; others wait. Exit code 3 when some users are still behind.

    \b
    Examples:
      agentmem admin sync
      agentmem admin sync --follow --health-file /run/agentmem/projector
    """
    from agentmem.jobs.builtin.sync_projections import sync_projections

    if follow:
        configure_logging()
        cli.run(lambda memory: _run_projector(memory, health_file))
        return 0
    with Progress() as progress:
        report = cli.run(lambda memory: sync_projections(memory.engine, progress))
    done = f"{pluralize(report.users, 'user')} caught up in {report.seconds:.1f} s"
    parked = [f"{pluralize(report.parked, 'change')} passed over; see agentmem admin doctor"] if report.parked else []
    cli.show(
        report, neutralize("\n".join([done, *parked, *(f"still behind: {reason}" for reason in report.lag_reasons)]))
    )
    return EXIT_NEEDS_ATTENTION if report.lag_reasons else 0


async def _run_projector(memory: AsyncAgentMemory, health_file: Path | None) -> None:
    import asyncio
    import signal

    from agentmem.jobs.builtin.sync_projections import sync_until_stopped

    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    echo_stderr("projecting; SIGTERM or Ctrl-C stops it")
    await sync_until_stopped(memory.engine, stop, health_file.touch if health_file else _ignore_pass)


def _ignore_pass() -> None: ...


@click.command("rebuild", short_help="Build vectors, words and graph again, or with another embedder.")
@click.option("--embedder", metavar="NAME", help="Move the store, with all its users, to this embedder.")
@click.option("--prune", is_flag=True, help="Drop the vectors of the old embedder at the end.")
@click.option("--all-users", is_flag=True, help="For every user of the store.")
@click.option(
    "--what", type=click.Choice(_PARTS), multiple=True, help="Only this part; may be repeated. [default: all]"
)
@memory_options()
def rebuild_command(
    cli: CliContext, *, embedder: str | None, prune: bool, all_users: bool, what: tuple[str, ...]
) -> None:
    """Build again what is made from the journal and the records: nothing stored is lost or changed.

    The vectors of another embedder are built beside the old ones, which serve until the new ones have caught up.

    \b
    Examples:
      agentmem admin rebuild
      agentmem admin rebuild --embedder local --prune
      agentmem admin rebuild --what words --what graph
    """
    from agentmem.admin.rebuild import rebuild

    # A store has one embedder for all of its users.
    users = None if all_users or embedder else [cli.user]
    with Progress() as progress:
        report = cli.run(
            lambda memory: rebuild(
                memory.engine, users, targets=what or _PARTS, embedder=embedder, prune=prune, progress=progress
            )
        )
    done = f"{pluralize(report.users, 'user')}, {pluralize(report.changes, 'change')} read in {report.seconds:.1f} s"
    cli.show(report, neutralize("\n".join([f"{done}, embedder {report.embedder}", *report.notes])))


@click.command("verify", short_help="Prove that other users' data changes nothing for this one.")
@click.argument("what", type=click.Choice(["isolation"]))
@click.option(
    "--strangers",
    type=click.IntRange(min=1),
    default=10_000,
    show_default=True,
    help="How many records of other users to put beside this user's.",
)
@click.option("--scratch-log-url", metavar="URL", help="Where the log is on servers: an empty one for the trial.")
@click.option("--scratch-graph-url", metavar="URL", help="Where the graph is on a server: an empty one for the trial.")
@memory_options()
def verify_command(
    cli: CliContext, *, what: str, strangers: int, scratch_log_url: str | None, scratch_graph_url: str | None
) -> int:
    """Ask the same questions with and without many records of strangers, and compare the answers.

    An embedded store is copied for it. On servers the user's memory is copied to others, migrated and empty, which you
    name. Exits with 3 when an answer differs.

    \b
    Examples:
      agentmem admin verify isolation --user alice
      agentmem admin verify isolation --strangers 1000 --json
    """
    from agentmem.facade.isolation import verify_isolation

    scratch = (scratch_log_url, scratch_graph_url) if scratch_log_url and scratch_graph_url else None
    with Progress() as progress:
        report = cli.run(
            lambda memory: verify_isolation(
                memory.engine, memory.scope, strangers=strangers, progress=progress, scratch_urls=scratch
            )
        )
    first = f"{report.queries:,} queries, {strangers:,} records of strangers, {report.seconds:.1f} s: "
    text = "all answers are identical" if report.identical else "answers differ"
    cli.show(report, "\n".join([f"{what}: {first}{text}", *(to_one_line(str(item)) for item in report.differences)]))
    return 0 if report.identical else EXIT_NEEDS_ATTENTION


@click.command("backup", short_help="Copy the memory to a file while others write.")
@click.argument("path", metavar="FILE", type=UserPath(dir_okay=False, path_type=Path))
@click.option("--force", is_flag=True, help="Overwrite FILE.")
@memory_options()
def backup_command(cli: CliContext, *, path: Path, force: bool) -> None:
    """Copy the embedded memory, of all users, to FILE, which its owner alone can read. Others may write meanwhile.

    The copy is checked before it takes its name. Servers have tools of their own, such as pg_dump.

    \b
    Examples:
      agentmem admin backup memory-2026-05-07.db
      agentmem admin backup latest.db --force
    """
    from agentmem.admin.backup import back_up

    settings = cli.load_settings()
    if settings.log_server_url is None and not settings.database.exists():
        raise ConfigError(f"no memory exists at {settings.database}; check --home and log_url")
    report = cli.run(lambda memory: back_up(memory.engine, path, overwrite=force))
    cli.show(report, f"copied {report.bytes:,} bytes to {neutralize(str(report.path))}")


@click.command("restore-backup", short_help="Put a backup in the place of the memory.")
@click.argument("path", metavar="FILE", type=UserPath(exists=True, dir_okay=False, path_type=Path))
@memory_options()
def restore_backup_command(cli: CliContext, *, path: Path) -> None:
    """Put the backup FILE in the place of the embedded memory, which is kept under another name beside it.

    Stop every process that has the memory open. What was erased since the backup was made is there again. Write it to a
    file before, with `agentmem admin erasures`, and erase it afterwards, with `agentmem admin erase-again`.

    \b
    Examples:
      agentmem admin restore-backup memory-2026-05-07.db
    """
    from agentmem.admin.backup import restore_backup

    report = restore_backup(cli.load_settings(), path)
    kept = f"; what was there is now {report.replaced}" if report.replaced else ""
    cli.show(report, neutralize(f"restored {report.bytes:,} bytes to {report.path}{kept}"))
    echo_stderr(
        "note: what was erased since the backup was made is there again; erase it again: "
        "agentmem admin erase-again, with a list that agentmem admin erasures wrote"
    )


@click.command("erasures", short_help="List what was erased, without text.")
@click.option("--since", type=parse_datetime, metavar="TIME", help="Only what was erased at this time or later.")
@click.option(
    "--out",
    "path",
    type=UserPath(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write to this file, which its owner alone can read, in place of standard output.",
)
@memory_options()
def erasures_command(cli: CliContext, *, since: datetime | None, path: Path | None) -> None:
    """Write a line of JSON for each record of any user that was erased: the user, kind and id, and when; no text.

    A backup does not know what was erased after it. Keep the list apart from the backups, and after a restore give it
    to `agentmem admin erase-again`. A user who was erased as a whole has a line more, with * as kind and id. Concerns
    all users, so on Postgres the user of log_url needs the role agentmem_worker.

    \b
    Examples:
      agentmem admin erasures --out erasures.jsonl
      agentmem admin erasures --since 2026-05-07 | gzip > erasures-2026-05-07.jsonl.gz
    """
    from agentmem.admin.erasures import export_erasures

    def export(write: Callable[[str], object]) -> ErasureListReport:
        return cli.run(lambda memory: export_erasures(memory.engine, write, since))

    if path is None:
        report = export(lambda line: click.echo(line.encode(), nl=False))
        echo_stderr(f"listed {pluralize(report.records, 'record')} of {pluralize(report.users, 'user')}")
        return
    with create_private_file(path) as file:
        report = export(file.write)
    cli.show(report, f"listed {pluralize(report.records, 'record')} of {pluralize(report.users, 'user')}")


@click.command("erase-again", short_help="Erase what a restored backup brought back.")
@click.argument("path", metavar="FILE|-", type=UserPath(exists=True, dir_okay=False, allow_dash=True))
@click.option("--dry-run", is_flag=True, help="Show how much would be erased, and erase nothing.")
@memory_options()
def erase_again_command(cli: CliContext, *, path: str, dry_run: bool) -> None:
    """Erase the records in FILE, a list of `agentmem admin erasures`, where they are there from before their erasure.

    What rests on them alone goes, too. A record that was stored under the same id after the erasure stays. The file is
    read to its end before anything is erased. A second run changes nothing. Concerns all users, so on Postgres the user
    of log_url needs the roles agentmem_app and agentmem_worker.

    \b
    Examples:
      agentmem admin erase-again erasures.jsonl --dry-run
      agentmem admin erase-again erasures.jsonl
    """
    from agentmem.admin.erasures import erase_again_from_list

    with click.open_file(path, encoding="utf-8", errors="surrogateescape") as lines, Progress() as progress:
        report = cli.run(lambda memory: erase_again_from_list(memory.engine, lines, dry_run=dry_run, progress=progress))
    cli.show(report, _render_repeated_erasures(report))


def _render_repeated_erasures(report: RepeatedErasureReport) -> str:
    done = "would be erased again (dry run)" if report.dry_run else "erased again"
    users, records = pluralize(len(report.erased), "user"), pluralize(report.records, "record")
    first = f"{records} of {users} {done}; {pluralize(report.lines, 'line')} read"
    counted = (f"  {to_one_line(user)}: {count:,}" for user, count in report.erased.items())
    return "\n".join([first, *counted, *(f"note: {to_one_line(note)}" for note in report.notes)])


admin_group = VerbGroup(
    "admin",
    (
        sync_command,
        compact_command,
        rebuild_command,
        migrate_command,
        doctor_command,
        verify_command,
        backup_command,
        restore_backup_command,
        erasures_command,
        erase_again_command,
    ),
    summary="Check, back up, rebuild.",
    text="For operators: the stores, their schema, and what is made from the journal.",
)

COMMANDS = (admin_group,)
