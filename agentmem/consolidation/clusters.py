"""Facts that say the same are found by their nearness: clear duplicates are merged, a person is asked about the rest.

What a person kept apart, or took back by `undo`, is neither merged nor asked about again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentmem.consolidation import JobOptions, JobReport
from agentmem.consolidation.lease import leased_run
from agentmem.errors import Conflict, InvalidRecord, NotFound
from agentmem.extraction.similar import signature
from agentmem.memory import Seat
from agentmem.memory.clusters import APART, MERGE, REVIEW, Cluster, find_clusters
from agentmem.memory.entities import MERGED
from agentmem.memory.joining import Leaning, joining, leaning, same_fact_id
from agentmem.model.changes import Change, Write
from agentmem.model.records import Fact, Review, build
from agentmem.model.scope import Scope
from agentmem.resources import Resources

NAME = "clusters"
MINUTES = 1440.0
TRIGGER = "changes"
WATCHES = ("Fact",)


@leased_run(NAME)
async def run(
    resources: Resources, scope: Scope, options: JobOptions, report: JobReport, fence: int
) -> None:  # fmt: skip
    """Look at the user's facts that changed since the last run, channel by channel; each merge is one operation.

    Counts: `merged` facts that others took in, `review` questions put, `kept_apart` clusters that hold together too
    loosely. A second run finds nothing to do.
    """
    if not await resources.follow(scope):  # facts without a vector would be passed over for good
        report.pending = 1
        report.notes.append("some facts have no vector yet: they are looked at again")
    after = (await resources.jobs.state(NAME, scope)).seq
    channels = await _channels(resources, scope, after)
    for number, channel in enumerate(channels):
        options.progress(NAME, number, len(channels))
        await _Run(resources, seat_of(resources, scope, channel), report, fence).all(after)


def seat_of(resources: Resources, scope: Scope, channel: str) -> Seat:
    """Where a job sits to write into a channel; an agent's private channel is the agent's."""
    agent = channel.removeprefix("_self_") if channel.startswith("_self_") else None
    return Seat(resources, Scope(scope.user_id, channel, agent))


async def _channels(resources: Resources, scope: Scope, after: int) -> list[str]:
    """The channels in which facts were written after a position."""
    outline = await resources.outline(scope)
    fresh = (outline.kind == outline.kinds.find("Fact")) & (outline.seqs > after)
    return sorted({outline.channels.values[code] for code in outline.channel[fresh].tolist()})


@dataclass
class _Run:
    """One run in one channel."""

    resources: Resources
    seat: Seat
    report: JobReport
    fence: int
    lean: Leaning | None = None

    async def all(self, after: int) -> None:
        """Every cluster, the closest first."""
        for cluster in await find_clusters(self.seat, self.seat.scope.channel, signature, after=after):
            apart = await self._apart(cluster)
            others = [fact for fact in cluster.facts[1:] if fact.id not in apart]
            if cluster.action == APART:
                self.report.count(kept_apart=1)
            elif others and cluster.action == MERGE:
                await self._merge(cluster, others)
            elif others and cluster.action == REVIEW:
                await self._ask(cluster, others)

    async def _apart(self, cluster: Cluster) -> set[str]:
        """Those of a cluster about which a person was asked, or whose merging somebody took back."""
        keep, *others = cluster.facts
        log, scope = self.resources.log, self.seat.scope
        names = {same_fact_id(scope.user_id, keep.id, other.id): other.id for other in others}
        asked = [review for review in await log.get("Review", list(names), scope) if isinstance(review, Review)]
        out = {names[review.id] for review in asked if cluster.action == REVIEW or review.review_status == "rejected"}
        for other in others:
            versions = await log.versions(other.key, scope)
            if any(version.reason.startswith(MERGED) for version in versions):
                out.add(other.id)
        return out

    async def _merge(self, cluster: Cluster, others: Sequence[Fact]) -> None:
        ids = [cluster.facts[0].id, *(fact.id for fact in others)]
        if self.report.dry_run:
            self.report.count(merged=len(others))
            return

        async def make(write: Write) -> Change:
            self.lean = await leaning(self.seat, self.lean)
            return await joining(self.seat, write, ids, self.lean)

        try:
            entry = await self.resources.write(
                self.seat.scope, NAME, make, kind="Fact", details={"cohesion": cluster.cohesion}, fence=self.fence
            )
        except (Conflict, InvalidRecord, NotFound) as error:  # of this cluster alone: the others go on
            self.report.notes.append(str(error))
            return
        if entry is not None:
            self.report.operation_ids.append(entry.operation_id)
            self.report.count(merged=len(others))

    async def _ask(self, cluster: Cluster, others: Sequence[Fact]) -> None:
        """Ask about each of the others whether it says what the best known one says."""
        keep, log, scope = cluster.facts[0], self.resources.log, self.seat.scope
        reviews = [_review(scope.user_id, keep, other, cluster.cohesion) for other in others]
        if self.report.dry_run:
            self.report.count(review=len(reviews))
            return

        async def make(write: Write) -> Change | None:
            standing = {review.id for review in await log.get("Review", [review.id for review in reviews], scope)}
            fresh = [review for review in reviews if review.id not in standing]
            expects = {fact.key: fact.seq for fact in (keep, *others)} | dict.fromkeys(each.key for each in fresh)
            return write.change(*fresh, expects=expects) if fresh else None

        try:
            entry = await self.resources.write(scope, NAME, make, kind="Review", fence=self.fence)
        except Conflict as error:  # the facts changed meanwhile: the next run looks at them
            self.report.notes.append(str(error))
            return
        if entry is not None:
            self.report.operation_ids.append(entry.operation_id)
            self.report.count(review=len(entry.puts))


def _review(user_id: str, keep: Fact, other: Fact, cohesion: float) -> Review:
    return build(
        Review, id=same_fact_id(user_id, keep.id, other.id), channel=keep.channel, about="same_fact",
        question=f"Do these say the same: {keep.claim!r} and {other.claim!r}?", record_ids=(keep.id, other.id),
        reason=f"cohesion {cohesion:.2f}",
    )  # fmt: skip
