"""`agentmem curate`: reviews, promotion, duplicates and garbage collection."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import click

from agentmem.cli.context import CliContext, memory_options
from agentmem.cli.render import dim, pluralize, render_operation, render_record, to_one_line
from agentmem.cli.verbs import EXAMPLE_ID, VerbGroup, build_command

if TYPE_CHECKING:
    from agentmem.core.record import PromotionTarget
    from agentmem.facade.async_memory import AsyncAgentMemory

PROMOTION_TARGETS = ("long", "global")
DocumentAndLines = tuple[Any, list[str]]


@click.command("merge", short_help="Make one fact of several.")
@click.argument("ids", nargs=-1, required=True, metavar="ID ID...")
@memory_options()
def merge_command(cli: CliContext, *, ids: tuple[str, ...]) -> None:
    """Make one fact of those given, as one operation, which `undo` takes back.

    \b
    Examples:
      agentmem curate merge 0197a6e2-8f10-7c3a-9d5e-2b1f0c4d6e8a 0197a6e2-9a41-7d02-8c1b-6f3e5a7d9b20
    """
    if len(ids) < 2:
        raise click.UsageError("merge takes two IDs or more")
    _run(cli, lambda memory: _merge(memory, ids))


@click.command("promote", short_help="Keep a fact for long, or everywhere.")
@click.argument("fact_id", required=False, metavar="[ID]")
@click.option(
    "--to", type=click.Choice(PROMOTION_TARGETS), default="long", show_default=True, help="Where it is brought."
)
@click.option("--reason", default="by hand", show_default=True, metavar="TEXT", help="Why.")
@click.option("--dry-run", is_flag=True, help="Without an ID: only say what would be done.")
@memory_options()
def promote_command(cli: CliContext, *, fact_id: str | None, to: PromotionTarget, reason: str, dry_run: bool) -> None:
    """Keep the fact ID for long, or make it known in every channel; without an ID, promote what deserves it.

    \b
    Examples:
      agentmem curate promote 0197a6e2-8f10-7c3a-9d5e-2b1f0c4d6e8a --channel my-project --to global
      agentmem curate promote --dry-run
    """
    if fact_id is None:
        _run(cli, lambda memory: _run_job(memory, "promote", dry_run))
    elif dry_run:
        raise click.UsageError("--dry-run goes without an ID")
    else:
        _run(cli, lambda memory: _promote(memory, fact_id, to, reason))


def _run(cli: CliContext, work: Callable[[AsyncAgentMemory], Awaitable[DocumentAndLines]]) -> None:
    _show(cli, cli.run_for_user(work))


def _show(cli: CliContext, found: DocumentAndLines) -> None:
    cli.show(found[0], "\n".join(found[1]))


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
    return fact, [f"merged into {fact.id}: {to_one_line(fact.claim)}", render_operation(fact.operation_id)]


async def _promote(memory: AsyncAgentMemory, fact_id: str, to: PromotionTarget, reason: str) -> DocumentAndLines:
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


curate_group = VerbGroup(
    "curate",
    (
        build_command(
            "queue",
            "List what is about to be forgotten.",
            "List short-lived facts that are about to be forgotten, most pressing first.",
            "curate queue --limit 5",
            _list_queue,
            _show,
            click.option(
                "--limit", type=click.IntRange(min=1), default=10, show_default=True, help="How many at most."
            ),
        ),
        build_command(
            "touch",
            "Count a use of a fact.",
            "Count a use of the fact ID, and show its score before and after.",
            f"curate touch {EXAMPLE_ID} --boost 0.1",
            _touch,
            _show,
            click.argument("fact_id", metavar="ID"),
            click.option("--boost", type=click.FloatRange(0, 1), default=0.0, help="What is added to its strength."),
        ),
        build_command(
            "clusters",
            "List facts that may say the same.",
            "List facts that may say the same, in clusters.",
            "curate clusters --json",
            _list_clusters,
            _show,
        ),
        merge_command,
        promote_command,
        build_command(
            "gc",
            "Archive what faded.",
            "Archive short-lived facts that faded below the threshold.",
            "curate gc --dry-run",
            lambda memory, dry_run: _run_job(memory, "gc", dry_run),
            _show,
            click.option("--dry-run", is_flag=True, help="Only say what would be done."),
        ),
    ),
    summary="Review and merge facts.",
    text="Look after memories that fade, and those that stay.",
)

COMMANDS = (curate_group,)
