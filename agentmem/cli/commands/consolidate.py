"""`agentmem consolidate`: turns become knowledge, now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from agentmem.cli.codes import EXIT_NEEDS_ATTENTION
from agentmem.cli.door import CliContext, memory_options
from agentmem.cli.progress import Progress
from agentmem.cli.render import pluralize, sanitize

if TYPE_CHECKING:
    from agentmem.consolidation import JobReport


@click.command(short_help="Read what turns say: facts, people, relations.")
@click.option("--dry-run", is_flag=True, help="Only say what there is to read.")
@click.option("--again", is_flag=True, help="Take up turns that were parked because no reply about them was usable.")
@click.option("--llm", metavar="SPEC", help="The language model, such as anthropic:claude-haiku-4-5; none for rules.")
@click.option("--max-calls", type=click.IntRange(min=0), metavar="N", help="Stop after so many calls of a model.")
@click.option("--max-cost", type=click.FloatRange(min=0), metavar="DOLLARS", help="Stop when so much is spent.")
@memory_options()
def command(
    cli: CliContext, *, dry_run: bool, again: bool, llm: str | None, max_calls: int | None, max_cost: float | None
) -> int:
    """Read every turn that was not read yet, oldest conversation first, ten conversations in a run.

    With a language model (setting llm) or, without one, by rules for plain English. What is doubtful becomes a
    question, see agentmem reviews. A second run without new turns does nothing. Exit code 3 when something was parked.

    \b
    Examples:
      agentmem consolidate
      agentmem consolidate --llm anthropic --max-cost 0.50
      agentmem consolidate --dry-run --json
    """
    given: dict[str, Any] = {"llm": llm, "max_calls": max_calls, "max_cost": max_cost}
    cli = cli.with_settings(**{name: value for name, value in given.items() if value is not None})
    with Progress() as progress:
        reports = cli.run(
            lambda memory: memory.consolidate(
                "consolidate", dry_run=dry_run, requeue_dead_letters=again, progress=progress
            )
        )
    cli.show(reports, sanitize("\n".join(line for report in reports for line in _render_job_report(report))))
    return EXIT_NEEDS_ATTENTION if any(report.parked for report in reports) else 0


def _render_job_report(report: JobReport) -> list[str]:
    counts = ", ".join(f"{number:,} {name}" for name, number in sorted(report.counts.items())) or "nothing to do"
    lines = [f"{report.job}: {pluralize(report.conversations, 'conversation')}: {counts}"]
    if report.calls:
        cost = "" if report.cost is None else f", ${report.cost:.4f}"
        lines.append(f"{pluralize(report.calls, 'call')}, {report.tokens:,} tokens{cost}, {report.seconds:.1f} s")
    lines += [f"parked {turn_id}: {reason}" for turn_id, reason in report.parked.items()]
    lines += [f"failed {turn_id}, to be tried again: {reason}" for turn_id, reason in report.failed.items()
              if turn_id not in report.parked]  # fmt: skip
    if report.stop_reason:
        lines.append(f"stopped: {report.stop_reason}")
    if report.pending:
        lines.append(f"{pluralize(report.pending, 'conversation')} still to read")
    return lines
