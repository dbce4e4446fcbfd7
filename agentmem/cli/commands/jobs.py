"""`agentmem consolidate`, `jobs` and `worker`: background work, for one user or for all."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentmem.cli.context import (
    EXIT_NEEDS_ATTENTION,
    CliContext,
    UserPath,
    configure_logging,
    memory_options,
    parse_datetime,
    parse_names,
)
from agentmem.cli.render import Progress, bold, echo_stderr, pluralize, render_operation
from agentmem.text.terminal_text import neutralize

if TYPE_CHECKING:
    from datetime import datetime

    from agentmem.facade.async_memory import AsyncAgentMemory
    from agentmem.jobs.job import JobReport
    from agentmem.jobs.runner import RunReport


@click.command("consolidate", short_help="Learn from turns.")
@click.option("--all", "read_all", is_flag=True, help="Read all that waits, such as after an import.")
@click.option("--dry-run", is_flag=True, help="Only say what there is to read.")
@click.option(
    "--retry-parked", is_flag=True, help="Take up turns that were parked because no reply about them was usable."
)
@click.option("--reread", is_flag=True, help="Read again what only rules read, or with --by a model.")
@click.option("--since", type=parse_datetime, metavar="DAY", help="With --reread: what was read on this day or later.")
@click.option("--by", default="", metavar="MODEL", help="With --reread: what this model read.")
@click.option("--llm", metavar="SPEC", help="The language model, such as anthropic:claude-haiku-4-5; none for rules.")
@click.option("--max-calls", type=click.IntRange(min=0), metavar="N", help="Stop after so many calls of a model.")
@click.option("--max-cost", type=click.FloatRange(min=0), metavar="DOLLARS", help="Stop when so much is spent.")
@memory_options()
def consolidate_command(
    cli: CliContext,
    *,
    read_all: bool,
    dry_run: bool,
    retry_parked: bool,
    reread: bool,
    since: datetime | None,
    by: str,
    llm: str | None,
    max_calls: int | None,
    max_cost: float | None,
) -> int:
    """Read turns that were not read yet, oldest conversation first: ten conversations in a run, or --all of them.

    With a language model (setting llm) or, without one, by rules for plain English. What is doubtful becomes a
    question, see agentmem reviews. A second run without new turns does nothing. Exit code 3 when something was parked,
    or when the model failed and read nothing. What it failed to read was read by rules: --reread takes it up again.

    \b
    Examples:
      agentmem consolidate --all
      agentmem consolidate --llm anthropic --max-cost 0.50
      agentmem consolidate --dry-run --json
      agentmem consolidate --reread --since 2026-03-01
    """
    given: dict[str, Any] = {"llm": llm, "max_calls": max_calls, "max_cost": max_cost}
    cli = cli.with_settings(**{name: value for name, value in given.items() if value is not None})
    with Progress() as progress:
        reports = cli.run_for_user(
            lambda memory: memory.consolidate(
                "consolidate",
                dry_run=dry_run,
                retry_parked=retry_parked,
                reread=reread,
                since=since,
                by=by,
                read_all=read_all,
                progress=progress,
            )
        )
    lines = [neutralize(line) for report in reports for line in _render_job_report(report)]
    cli.show(
        reports, "\n".join([*lines, *(render_operation(each) for report in reports for each in report.operation_ids)])
    )
    return EXIT_NEEDS_ATTENTION if any(report.parked or report.has_read_nothing for report in reports) else 0


def _render_job_report(report: JobReport) -> list[str]:
    counts = ", ".join(f"{number:,} {name}" for name, number in sorted(report.counts.items())) or "nothing to do"
    lines = [f"{report.job}: {pluralize(report.conversations, 'conversation')}: {counts}"]
    if report.calls:
        cost = "" if report.cost is None else f", ${report.cost:.4f}"
        lines.append(f"{pluralize(report.calls, 'call')}, {report.tokens:,} tokens{cost}, {report.seconds:.1f} s")
    lines += [f"parked {turn_id}: {reason}" for turn_id, reason in report.parked.items()]
    others = {turn_id: reason for turn_id, reason in report.failed.items() if turn_id not in report.parked}
    lines += [f"failed {turn_id}: {reason}" for turn_id, reason in others.items()]
    if report.counts.get("by_rules"):
        lines.append("run with a better model: agentmem consolidate --reread")
    if report.parked:
        lines.append("run: agentmem consolidate --retry-parked, with --llm none to read them by rules")
    if report.stop_reason:
        lines.append(f"stopped: {report.stop_reason}")
    if report.pending:
        lines.append(f"{pluralize(report.pending, 'conversation')} still to read: agentmem consolidate --all")
    return lines


@click.command("jobs", short_help="Show background jobs.")
@click.option("--all-users", is_flag=True, help="Also who waits, over all users; needs a worker's right on Postgres.")
@memory_options()
def jobs_command(cli: CliContext, *, all_users: bool) -> int:
    """List the jobs with their intervals, last results and progress for this user.

    \b
    Examples:
      agentmem jobs
      agentmem jobs --all-users --json
    """
    found = cli.run(lambda memory: _list_jobs(memory, all_users=all_users))
    cli.show(found, "\n".join(line for job in found for line in _render_job(job)))
    return 0


async def _list_jobs(memory: AsyncAgentMemory, *, all_users: bool) -> list[dict[str, Any]]:
    from agentmem.jobs.job import list_scheduled_jobs
    from agentmem.jobs.runner import OPERATOR, read_last_reports

    engine, jobs = memory.engine, list_scheduled_jobs()
    reports = await read_last_reports(engine, list(jobs))
    states = {state.job: state for state in await engine.job_queue.states(memory.scope)}
    parked = [item for item in await engine.log.dead_letters(memory.scope) if item.projection in jobs]
    found = []
    for name, module in jobs.items():
        minutes = engine.settings.worker.minutes.get(name, module.minutes)
        one: dict[str, Any] = {"job": name, "minutes": minutes, "trigger": module.trigger, "last": reports.get(name)}
        one["state"] = states.get(name)
        one["parked"] = [
            {"seq": item.seq, "reason": item.reason, "attempts": item.attempts}
            for item in parked
            if item.projection == name
        ]
        if all_users:
            queue = await engine.job_queue.queue(name, OPERATOR)
            one["waiting"] = len(queue)
            one["failing"] = {state.user_id: state.attempts for state in queue if state.attempts}
        found.append(one)
    return found


def _render_job(job: dict[str, Any]) -> list[str]:
    last, state = job["last"], job["state"]
    lines = [f"{bold(job['job'])}  every {job['minutes']:g} min, by {job['trigger']}"]
    if last is not None:
        counts = ", ".join(f"{number:,} {name}" for name, number in sorted(last["counts"].items()) if number)
        lines.append(f"  last run {last['at'][:19]}: {last['users']} users, {counts or 'nothing to do'}")
    if state is not None and state.attempts:
        lines.append(f"  failed for this user {state.attempts} times in a row; next try {state.due_at:%Y-%m-%d %H:%M}")
    lines.extend(
        f"  parked at {item['seq']} after {item['attempts']} tries: {neutralize(item['reason'])}"
        for item in job["parked"]
    )
    if job.get("waiting"):
        lines.append(f"  {job['waiting']} users wait, {len(job['failing'])} of them after failures")
    return lines


@click.command("worker", short_help="Run background jobs.")
@click.option("--once", is_flag=True, help="Run each job once and end.")
@click.option("--jobs", metavar="NAMES", help="Only these, with commas between them. [default: all]")
@click.option("--dry-run", is_flag=True, help="Only say what there is to do; with --once.")
@click.option(
    "--health-file", type=UserPath(dir_okay=False, path_type=Path), metavar="PATH", help="Touch this after every run."
)
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    metavar="PORT",
    help="Answer /health and /metrics there; 0 for a free one.",
)
@click.option("--host", metavar="ADDRESS", help="Where to listen. [default: 127.0.0.1]")
@memory_options()
def worker_command(
    cli: CliContext,
    *,
    once: bool,
    jobs: str | None,
    dry_run: bool,
    health_file: Path | None,
    port: int | None,
    host: str | None,
) -> int:
    """Read what was said, let fade, promote, put away, bring graph and vectors along: for all users, on a schedule.

    Any number may run side by side. On Postgres the user of log_url needs the role agentmem_worker. SIGTERM or Ctrl-C
    ends it within 10 seconds; what is not done waits for the next start. With --once the exit code is 3 when a job
    failed for a user.

    \b
    Examples:
      agentmem worker
      agentmem worker --once --jobs consolidate,promote
      agentmem worker --health-file /run/agentmem/worker --port 9464
    """
    if dry_run and not once:
        raise click.UsageError("--dry-run needs --once")
    chosen = None if jobs is None else parse_names(jobs)
    if not once:
        configure_logging()
        asked = {name: value for name, value in (("port", port), ("host", host)) if value is not None}
        cli = cli.with_settings(worker={**cli.load_settings().worker.model_dump(), **asked})
        cli.run(lambda memory: _run_worker(memory, chosen, health_file))
        return 0
    reports = cli.run(lambda memory: _run_once(memory, chosen, dry_run=dry_run))
    cli.show(
        reports,
        neutralize("\n".join(_render_run_report(report) for report in reports) or "every job is being run elsewhere"),
    )
    return EXIT_NEEDS_ATTENTION if any(report.failed for report in reports) else 0


async def _run_once(memory: AsyncAgentMemory, jobs: tuple[str, ...] | None, *, dry_run: bool) -> list[RunReport]:
    from agentmem.jobs.worker import ConsolidationWorker

    return await ConsolidationWorker(memory.engine, jobs=jobs, dry_run=dry_run).run_once()


async def _run_worker(memory: AsyncAgentMemory, jobs: tuple[str, ...] | None, health_file: Path | None) -> None:
    import asyncio
    import signal

    from agentmem.jobs.monitoring import Monitor
    from agentmem.jobs.worker import ConsolidationWorker

    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    options = memory.engine.settings.worker
    monitor = None if options.port is None else Monitor()

    def handle_report(report: RunReport) -> None:
        if monitor is not None:
            monitor.record_run(report)
        if health_file is not None:
            health_file.touch()

    worker = ConsolidationWorker(memory.engine, jobs=jobs, on_report=handle_report)
    try:
        async with worker:
            if monitor is not None:
                echo_stderr(
                    f"http://{options.host}:{monitor.open(worker, options.host, options.port or 0)}/health and /metrics"
                )
            echo_stderr("working; SIGTERM or Ctrl-C stops it")
            await stop.wait()
    finally:
        if monitor is not None:
            await asyncio.to_thread(monitor.close)


def _render_run_report(report: RunReport) -> str:
    counts = ", ".join(f"{number:,} {name}" for name, number in sorted(report.counts.items()) if number)
    what = counts or "nothing to do"
    more = [f"{len(report.failed)} failed"] if report.failed else []
    more += ["more wait"] if report.has_more else []
    more += [f"stopped: {report.stop_reason}"] if report.stop_reason else []
    users = f"{pluralize(report.users, 'user')}: " if report.users else ""
    return f"{report.job:20}  {users}{what}{''.join(f'; {item}' for item in more)}  ({report.seconds:.1f} s)"


COMMANDS = (consolidate_command, jobs_command, worker_command)
