"""Facts whose ground is gone are put to a person: each once for each premise that fell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agentmem.consolidation import JobReport
from agentmem.errors import Conflict
from agentmem.model.changes import Change, JournalEntry, WriteAttempt
from agentmem.model.clock import derive_id
from agentmem.model.premises import StaleReason, find_stale, invalid_since
from agentmem.model.records import Fact, Review, build_record
from agentmem.model.scope import Scope
from agentmem.resources import Engine
from agentmem.stores import Where

PAGE_SIZE = 1000
COPIED_FIELDS = ("confidence", "certainty", "source", "subject", "temporal_context", "memory_type", "trust")


async def request_stale_reviews(engine: Engine, scope: Scope, report: JobReport) -> None:
    """Put a review for each current fact that rests on a fallen premise and was not asked about for that premise.

    Accepted, the fact stands without its premises; rejected, it stays stale and is not asked about again.
    """
    facts = await _read_facts(engine, scope)
    if not any(fact.depends_on for fact in facts.values()):
        return
    now = await engine.now(scope)
    holding = {fact.claim_hash for fact in facts.values() if fact.claim_hash and invalid_since(fact, now) is None}
    again = {fact.id for fact in facts.values() if invalid_since(fact, now) is not None and fact.claim_hash in holding}
    found = {
        name: why for name, why in find_stale(facts, now, again).items() if invalid_since(facts[name], now) is None
    }
    by_channel: dict[str, list[Review]] = {}
    for name, why in found.items():
        by_channel.setdefault(facts[name].channel, []).append(_build_review(scope.user_id, facts[name], why))
    for channel, reviews in by_channel.items():
        agent = channel.removeprefix("_self_") if channel.startswith("_self_") else None
        try:
            entry = await _write_reviews(engine, Scope(scope.user_id, channel, agent), reviews, facts)
        except Conflict as error:  # others write without a pause: the next run asks
            report.notes.append(str(error))
            continue
        if entry is not None:
            report.add_counts(review=len(entry.upserts))


async def _read_facts(engine: Engine, scope: Scope) -> dict[str, Fact]:
    """All facts of the user, in every channel."""
    found: dict[str, Fact] = {}
    where, read = Where(kinds=("Fact",)), 0
    while page := await engine.log.find(scope, where, limit=PAGE_SIZE, offset=read):
        found |= {record.id: record for record in page if isinstance(record, Fact)}
        read += len(page)
    return found


async def _write_reviews(
    engine: Engine, scope: Scope, reviews: Sequence[Review], facts: Mapping[str, Fact]
) -> JournalEntry | None:  # fmt: skip
    """Put these, but for those that were put before or are about what changed meanwhile: the next run looks at that."""
    ids, log = [review.id for review in reviews], engine.log
    named = list(dict.fromkeys(name for review in reviews for name in review.record_ids))

    async def make(write: WriteAttempt) -> Change | None:
        asked = {record.id for record in await log.read_records("Review", ids, scope)}
        same = {fact.id for fact in await log.read_records("Fact", named, scope) if fact.seq == facts[fact.id].seq}
        fresh = [review for review in reviews if review.id not in asked and same.issuperset(review.record_ids)]
        stand = {facts[name].key: facts[name].seq for review in fresh for name in review.record_ids}
        return (
            write.build_change(*fresh, expected_versions={**stand, **dict.fromkeys(each.key for each in fresh)})
            if fresh
            else None
        )

    return await engine.write(scope, "consolidate", make, kind="Review")


def _build_review(user_id: str, fact: Fact, reason: StaleReason) -> Review:
    fields = {name: getattr(fact, name) for name in COPIED_FIELDS if getattr(fact, name) not in ("", None)}
    return build_record(
        Review,
        id=derive_id(user_id, "stale", fact.id, reason.premise.id),
        channel=fact.channel,
        about="doubtful",
        question=f"Does it still hold that {fact.claim!r}? It rested on {reason.premise.claim!r}, which no longer "
        f"holds.",
        proposed={"claim": fact.claim, **fields},
        record_ids=(fact.id, reason.premise.id),
        source_turn_ids=fact.source_turn_ids,
    )
