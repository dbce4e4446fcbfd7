"""Facts whose ground is gone are put to a person: each once for each premise that fell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agentmem.consolidation import JobReport
from agentmem.model.changes import Change, Write
from agentmem.model.clock import derived_id
from agentmem.model.premises import Fallen, ended, fallen
from agentmem.model.records import Fact, Review, build
from agentmem.model.scope import Scope
from agentmem.resources import Resources
from agentmem.stores import Where

PAGE = 1000
CARRIED = ("confidence", "certainty", "source", "subject", "temporal_context", "memory_type", "trust")


async def ask_about_stale(resources: Resources, scope: Scope, report: JobReport) -> None:
    """Put a review for each current fact that rests on a fallen premise and was not asked about for that premise.

    Accepted, the fact stands without its premises; rejected, it stays stale and is not asked about again.
    """
    facts = await _facts(resources, scope)
    if not any(fact.depends_on for fact in facts.values()):
        return
    now = await resources.now(scope)
    holding = {fact.claim_hash for fact in facts.values() if fact.claim_hash and ended(fact, now) is None}
    again = {fact.id for fact in facts.values() if ended(fact, now) is not None and fact.claim_hash in holding}
    found = {name: why for name, why in fallen(facts, now, again).items() if ended(facts[name], now) is None}
    reviews = [_review(scope.user_id, facts[name], why) for name, why in found.items()]
    asked = {record.id for record in await resources.log.get("Review", [review.id for review in reviews], scope)}
    by_channel: dict[str, list[Review]] = {}
    for review in reviews:
        if review.id not in asked:
            by_channel.setdefault(review.channel, []).append(review)
    for channel, some in by_channel.items():
        await _ask(resources, scope, channel, some, facts)
        report.count(review=len(some))


async def _facts(resources: Resources, scope: Scope) -> dict[str, Fact]:
    """All facts of the user, in every channel."""
    found: dict[str, Fact] = {}
    where, read = Where(kinds=("Fact",)), 0
    while page := await resources.log.find(scope, where, limit=PAGE, offset=read):
        found |= {record.id: record for record in page if isinstance(record, Fact)}
        read += len(page)
    return found


async def _ask(
    resources: Resources, scope: Scope, channel: str, reviews: Sequence[Review], facts: Mapping[str, Fact]
) -> None:  # fmt: skip
    agent = channel.removeprefix("_self_") if channel.startswith("_self_") else None

    async def put(write: Write) -> Change:
        stand = {facts[name].key: facts[name].seq for review in reviews for name in review.record_ids[:1]}
        return write.change(*reviews, expects={**stand, **dict.fromkeys([review.key for review in reviews])})

    await resources.write(Scope(scope.user_id, channel, agent), "consolidate", put, kind="Review")


def _review(user_id: str, fact: Fact, why: Fallen) -> Review:
    fields = {name: getattr(fact, name) for name in CARRIED if getattr(fact, name) not in ("", None)}
    return build(
        Review, id=derived_id(user_id, "stale", fact.id, why.premise.id), channel=fact.channel, about="doubtful",
        question=f"Does it still hold that {fact.claim!r}? It rested on {why.premise.claim!r}, which no longer holds.",
        proposed={"claim": fact.claim, **fields}, record_ids=(fact.id, why.premise.id),
        source_turn_ids=fact.source_turn_ids,
    )  # fmt: skip
