"""`agentmem jobs`: what runs in the background, when it last ran, and who waits for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from agentmem.cli.door import CliContext, memory_options
from agentmem.cli.render import bold, sanitize

if TYPE_CHECKING:
    from agentmem.agent_memory import AsyncAgentMemory


@click.command(short_help="Show the background jobs: last runs, who waits, what failed.")
@click.option("--all-users", is_flag=True, help="Also who waits, over all users; needs a worker's right on Postgres.")
@memory_options()
def command(cli: CliContext, *, all_users: bool) -> int:
    """List the jobs with their intervals, what their last run did, and where they stand with this user.

    \b
    Examples:
      agentmem jobs
      agentmem jobs --all-users --json
    """
    found = cli.run(lambda memory: _list_jobs(memory, all_users=all_users))
    cli.show(found, "\n".join(line for job in found for line in _render_job(job)))
    return 0


async def _list_jobs(memory: AsyncAgentMemory, *, all_users: bool) -> list[dict[str, Any]]:
    from agentmem.consolidation import list_scheduled_jobs
    from agentmem.consolidation.serving import OPERATOR, read_last_reports

    engine, jobs = memory.engine, list_scheduled_jobs()
    reports = await read_last_reports(engine, list(jobs))
    states = {state.job: state for state in await engine.job_queue.states(memory.scope)}
    parked = [item for item in await engine.log.dead_letters(memory.scope) if item.projection in jobs]
    found = []
    for name, module in jobs.items():
        minutes = engine.settings.worker.minutes.get(name, module.MINUTES)
        one: dict[str, Any] = {"job": name, "minutes": minutes, "trigger": module.TRIGGER, "last": reports.get(name)}
        one["state"] = states.get(name)
        one["parked"] = [{"seq": item.seq, "reason": item.reason, "attempts": item.attempts}
                         for item in parked if item.projection == name]  # fmt: skip
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
        f"  parked at {item['seq']} after {item['attempts']} tries: {sanitize(item['reason'])}"
        for item in job["parked"]
    )
    if job.get("waiting"):
        lines.append(f"  {job['waiting']} users wait, {len(job['failing'])} of them after failures")
    return lines
