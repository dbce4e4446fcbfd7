"""`agentmem worker`: runs the background jobs of all users."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentmem.cli.codes import EXIT_NEEDS_ATTENTION
from agentmem.cli.door import CliContext, UserPath, configure_logging, memory_options, parse_names
from agentmem.cli.render import echo_stderr, pluralize, sanitize

if TYPE_CHECKING:
    from agentmem.agent_memory import AsyncAgentMemory
    from agentmem.consolidation.serving import RunReport


@click.command(short_help="Run the background jobs of all users.")
@click.option("--once", is_flag=True, help="Run each job once and end.")
@click.option("--jobs", metavar="NAMES", help="Only these, with commas between them. [default: all]")
@click.option("--dry-run", is_flag=True, help="Only say what there is to do; with --once.")
@click.option(
    "--health-file", type=UserPath(dir_okay=False, path_type=Path), metavar="PATH", help="Touch this after every run."
)
@click.option(
    "--port", type=click.IntRange(0, 65_535), metavar="PORT",
    help="Answer /health and /metrics there; 0 for a free one.",
)  # fmt: skip
@click.option("--host", metavar="ADDRESS", help="Where to listen. [default: 127.0.0.1]")
@memory_options()
def command(
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
        raise click.UsageError("--dry-run goes with --once")
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
        sanitize("\n".join(_render_run_report(report) for report in reports) or "every job is being run elsewhere"),
    )
    return EXIT_NEEDS_ATTENTION if any(report.failed for report in reports) else 0


async def _run_once(memory: AsyncAgentMemory, jobs: tuple[str, ...] | None, *, dry_run: bool) -> list[RunReport]:
    from agentmem.worker import ConsolidationWorker

    return await ConsolidationWorker(memory.engine, jobs=jobs, dry_run=dry_run).run_once()


async def _run_worker(memory: AsyncAgentMemory, jobs: tuple[str, ...] | None, health_file: Path | None) -> None:
    import asyncio
    import signal

    from agentmem.monitoring import Monitor
    from agentmem.worker import ConsolidationWorker

    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    options = memory.engine.settings.worker
    monitor = None if options.port is None else Monitor()

    def told(report: RunReport) -> None:
        if monitor is not None:
            monitor.record_run(report)
        if health_file is not None:
            health_file.touch()

    worker = ConsolidationWorker(memory.engine, jobs=jobs, on_report=told)
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
