"""`agentmem reviews`: what is doubtful, and the decisions about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from agentmem.cli.context import CliContext, memory_options
from agentmem.cli.render import dim, format_time, render_operation, render_record, to_one_line
from agentmem.cli.verbs import VerbGroup

if TYPE_CHECKING:
    from agentmem.core.record import ReviewDecision, ReviewTopic
    from agentmem.facade.async_memory import AsyncAgentMemory

REVIEW_TOPICS = ("ungrounded", "doubtful", "contradiction", "correction", "same_entity", "same_fact")
MAX_SHOWN_TURNS = 3
NAMED_RECORD_KINDS = ("Fact", "Entity", "Turn", "Edge")  # what a review may name


@click.command("list", short_help="List what waits for a decision.")
@click.option("--about", type=click.Choice(REVIEW_TOPICS), help="Only reviews about this kind of doubt.")
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True, help="How many at most.")
@memory_options()
def list_reviews_command(cli: CliContext, *, about: ReviewTopic | None, limit: int) -> None:
    """List the open reviews, oldest first, with what each rests on and what may be decided.

    With --json one JSON document per line.

    \b
    Examples:
      agentmem reviews
      agentmem reviews list --about same_entity --json
    """
    found = cli.run_for_user(lambda memory: _list_with_evidence(memory, about, limit))
    shown = [review for review, _ in found] if cli.json else found
    cli.show_list(shown, lambda pair: "\n".join(_render_review(*pair)), "nothing waits for a decision")


@click.command("resolve", short_help="Decide a review.")
@click.argument("review_id", metavar="ID")
@click.argument("decision", metavar="DECISION")
@memory_options()
def resolve_review_command(cli: CliContext, *, review_id: str, decision: ReviewDecision) -> None:
    """Decide the review ID; DECISION is one of the choices shown with it. One operation, which `undo` takes back.

    \b
    Examples:
      agentmem reviews resolve 0197a6e2-8f10-7c3a-9d5e-2b1f0c4d6e8a accept
    """
    decided = cli.run_for_user(lambda memory: memory.semantic.resolve_review(review_id, decision))
    lines = [f"{decided.review_status}: {to_one_line(decided.question)}", render_operation(decided.operation_id)]
    cli.show(decided, "\n".join(lines))


async def _list_with_evidence(
    memory: AsyncAgentMemory, about: ReviewTopic | None, limit: int
) -> list[tuple[Any, list[Any]]]:
    """The reviews, each with the stored records that it names and the first turns that it rests on."""
    log, readable = memory.engine.log, memory.scope.readable_channels()
    out = []
    for review in await memory.semantic.reviews(about, limit=limit):
        named = [
            record
            for kind in NAMED_RECORD_KINDS
            for record in await log.read_records(kind, review.record_ids, memory.scope)
        ]
        turns = await log.read_records("Turn", review.source_turn_ids[:MAX_SHOWN_TURNS], memory.scope)
        seen = {record.key: record for record in (*named, *turns) if record.channel in readable}
        out.append((review, list(seen.values())))
    return out


def _render_review(review: Any, evidence: list[Any]) -> list[str]:
    from agentmem.memory.semantic.reviews import ALLOWED_DECISIONS

    quoted = {str(span[0]): span for span in review.proposed.get("source_spans") or () if _is_span(span)}
    lines = [f"{review.about}: {to_one_line(review.question)}"]
    if "claim" in review.proposed:
        lines.append(f"    proposed: {to_one_line(str(review.proposed['claim']))}")
    for record in evidence:
        lines.append(f"    {record.kind.lower()}: {render_record(record)}")
        if record.kind == "Turn" and record.id in quoted:
            _, start, end = quoted[record.id]
            lines.append(f"    quote: {to_one_line(record.content[start:end])}")
    lines.append(
        dim(
            f"    {review.id}  since {format_time(review.recorded_at)}  choices: "
            f"{', '.join(ALLOWED_DECISIONS[review.about])}"
        )
    )
    return lines


def _is_span(span: Any) -> bool:
    """Whether an item of an unchecked proposal names a turn and a span of it."""
    return isinstance(span, list | tuple) and len(span) == 3 and all(isinstance(place, int) for place in span[1:])


reviews_group = VerbGroup(
    "reviews",
    (list_reviews_command, resolve_review_command),
    summary="Decide open questions.",
    text="What is doubtful, and the decisions about it. Without a verb it lists what waits.",
    default="list",
)

COMMANDS = (reviews_group,)
