"""Facts whose ground is gone are put to a person: each once for each premise that fell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agentmem.consolidation import JobReport
from agentmem.errors import Conflict
from agentmem.model.changes import Change, JournalEntry, Write
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
    by_channel: dict[str, list[Review]] = {}
    for name, why in found.items():
        by_channel.setdefault(facts[name].channel, []).append(_review(scope.user_id, facts[name], why))
    for channel, reviews in by_channel.items():
        agent = channel.removeprefix("_self_") if channel.startswith("_self_") else None
        try:
            entry = await _ask(resources, Scope(scope.user_id, channel, agent), reviews, facts)
        except Conflict as error:  # others write without a pause: the next run asks
            report.notes.append(str(error))
            continue
        if entry is not None:
            report.count(review=len(entry.puts))


async def _facts(resources: Resources, scope: Scope) -> dict[str, Fact]:
    """All facts of the user, in every channel."""
    found: dict[str, Fact] = {}
    where, read = Where(kinds=("Fact",)), 0
    while page := await resources.log.find(scope, where, limit=PAGE, offset=read):
        found |= {record.id: record for record in page if isinstance(record, Fact)}
        read += len(page)
    return found


async def _ask(
    resources: Resources, scope: Scope, reviews: Sequence[Review], facts: Mapping[str, Fact]
) -> JournalEntry | None:  # fmt: skip
    """Put these, but for those that were put before or are about what changed meanwhile: the next run looks at that."""
    ids, log = [review.id for review in reviews], resources.log
    named = list(dict.fromkeys(name for review in reviews for name in review.record_ids))

    async def make(write: Write) -> Change | None:
        asked = {record.id for record in await log.get("Review", ids, scope)}
        same = {fact.id for fact in await log.get("Fact", named, scope) if fact.seq == facts[fact.id].seq}
        fresh = [review for review in reviews if review.id not in asked and same.issuperset(review.record_ids)]
        stand = {facts[name].key: facts[name].seq for review in fresh for name in review.record_ids}
        return write.change(*fresh, expects={**stand, **dict.fromkeys(each.key for each in fresh)}) if fresh else None

    return await resources.write(scope, "consolidate", make, kind="Review")


def _review(user_id: str, fact: Fact, why: Fallen) -> Review:
    fields = {name: getattr(fact, name) for name in CARRIED if getattr(fact, name) not in ("", None)}
    return build(
        Review, id=derived_id(user_id, "stale", fact.id, why.premise.id), channel=fact.channel, about="doubtful",
        question=f"Does it still hold that {fact.claim!r}? It rested on {why.premise.claim!r}, which no longer holds.",
        proposed={"claim": fact.claim, **fields}, record_ids=(fact.id, why.premise.id),
        source_turn_ids=fact.source_turn_ids,
    )  # fmt: skip
