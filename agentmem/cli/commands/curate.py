"""`agentmem curate`: what should be seen again, what proved itself, what says the same, what nobody needs any more."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from agentmem.cli.context import CliContext, memory_options
from agentmem.cli.render import dim, pluralize, render_record, to_one_line

if TYPE_CHECKING:
    from agentmem.facade.async_memory import AsyncAgentMemory

ACTIONS = ("queue", "touch", "clusters", "merge", "promote", "gc")
PROMOTION_TARGETS = ("long", "global")
DocumentAndLines = tuple[Any, list[str]]


@click.command("curate", short_help="Review, strengthen, merge, promote and collect memories.")
@click.argument("what", type=click.Choice(ACTIONS))
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--limit", type=click.IntRange(min=1), default=10, show_default=True, help="How many in the queue.")
@click.option("--boost", type=click.FloatRange(0, 1), default=0.0, help="What touch adds to the strength.")
@click.option(
    "--to", type=click.Choice(PROMOTION_TARGETS), default="long", show_default=True, help="Where promote brings a fact."
)
@click.option("--reason", default="by hand", show_default=True, metavar="TEXT", help="Why a fact is promoted.")
@click.option("--dry-run", is_flag=True, help="Only say what gc, or promote without an ID, would do.")
@memory_options()
def curate_command(
    cli: CliContext, *, what: str, ids: tuple[str, ...], limit: int, boost: float, to: str, reason: str, dry_run: bool
) -> None:
    """Look after memories that fade, and those that stay.

    queue lists short-lived facts that are about to be forgotten; touch counts a use of a fact and shows its score
    before and after. clusters lists facts that may say the same; merge makes one of those given, as one operation that
    undo takes back. promote keeps a fact for long or makes it known in every channel; without an ID it promotes what
    deserves it. gc puts away what faded below the threshold.

    \b
    Examples:
      agentmem curate queue --limit 5
      agentmem curate touch 0197a6e2-8f10-7c3a-9d5e-2b1f0c4d6e8a
      agentmem curate clusters --json
      agentmem curate merge 0197a6e2-8f10-7c3a-9d5e-2b1f0c4d6e8a 0197a6e2-9a41-7d02-8c1b-6f3e5a7d9b20
      agentmem curate promote 0197a6e2-8f10-7c3a-9d5e-2b1f0c4d6e8a --to global --reason "holds everywhere"
      agentmem curate gc --dry-run
    """
    _check_arguments(what, ids, dry_run)
    works: dict[str, Callable[[AsyncAgentMemory], Any]] = {
        "queue": lambda memory: _list_queue(memory, limit),
        "touch": lambda memory: _touch(memory, ids[0], boost),
        "clusters": _list_clusters,
        "merge": lambda memory: _merge(memory, ids),
        "promote": lambda memory: _promote(memory, ids[0], to, reason) if ids else _run_job(memory, "promote", dry_run),
        "gc": lambda memory: _run_job(memory, "gc", dry_run),
    }
    document, lines = cli.run(works[what])
    cli.show(document, "\n".join(lines))


def _check_arguments(action: str, ids: tuple[str, ...], dry_run: bool) -> None:
    """Refuse what makes no sense together."""
    least, most = {"touch": (1, 1), "merge": (2, 1000), "promote": (0, 1)}.get(action, (0, 0))
    if not least <= len(ids) <= most:
        wanted = {"touch": "one ID", "merge": "two IDs or more", "promote": "one ID or none"}.get(action, "no ID")
        raise click.UsageError(f"curate {action} takes {wanted}, got {len(ids)}")
    if dry_run and (action not in ("gc", "promote") or ids):
        raise click.UsageError("--dry-run goes with gc, and with promote without an ID")


async def _list_queue(memory: AsyncAgentMemory, limit: int) -> DocumentAndLines:
    found = await memory.curation.queue(limit)
    lines = [
        f"{each.priority:.2f}  score {each.score:.2f}  {render_record(each.fact)}\n{dim(f'    {each.fact.id}')}"
        for each in found
    ]
    return found, lines or ["nothing is about to be forgotten"]


async def _touch(memory: AsyncAgentMemory, fact_id: str, boost: float) -> DocumentAndLines:
    before, after = await memory.curation.touch(fact_id, boost=boost)
    return {"before": before, "after": after}, [f"score {before:.2f}, now {after:.2f}"]


async def _list_clusters(memory: AsyncAgentMemory) -> DocumentAndLines:
    found = await memory.curation.clusters()
    lines = []
    for cluster in found:
        lines.append(f"{cluster.action}: cohesion {cluster.cohesion:.2f}, {pluralize(len(cluster.facts), 'fact')}")
        lines += [f"    {render_record(fact)}\n{dim(f'    {fact.id}')}" for fact in cluster.facts]
    return found, lines or ["no facts that may say the same"]


async def _merge(memory: AsyncAgentMemory, ids: tuple[str, ...]) -> DocumentAndLines:
    fact = await memory.curation.merge(ids)
    return fact, [f"merged into {fact.id}: {to_one_line(fact.claim)}", dim(f"    operation {fact.operation_id}")]


async def _promote(memory: AsyncAgentMemory, fact_id: str, to: str, reason: str) -> DocumentAndLines:
    done = await memory.curation.promote(fact_id, to, reason)
    fact = done.copy or done.fact
    lines = [f"{'known in every channel' if done.copy else 'kept for long'}: {to_one_line(fact.claim)}"]
    lines += [f"    note {to_one_line(fact.vault_path)}"] if fact.vault_path else []
    lines += [f"    {to_one_line(done.note)}"] if done.note else []
    lines.append(dim(f"    operation {done.operation_id}" if done.operation_id else "    promoted before"))
    return done, lines


async def _run_job(memory: AsyncAgentMemory, job: str, dry_run: bool) -> DocumentAndLines:
    (report,) = await memory.consolidate(job, dry_run)
    counts = ", ".join(f"{number:,} {name}" for name, number in sorted(report.counts.items())) or "nothing to do"
    lines = [f"{'would be: ' if dry_run else ''}{counts}", *(f"    {to_one_line(note)}" for note in report.notes)]
    lines += [f"stopped: {report.stop_reason}"] if report.stop_reason else []
    return report, lines


COMMANDS = (curate_command,)
