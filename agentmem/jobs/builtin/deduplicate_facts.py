"""Facts that say the same are found by their nearness: clear duplicates are merged, a person is asked about the rest.

What a person kept apart, or took back by `undo`, is neither merged nor asked about again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentmem.core.changes import Change, WriteAttempt
from agentmem.core.records import Fact, Review, build_record
from agentmem.core.scope import Scope
from agentmem.engine.engine import Engine
from agentmem.errors import Conflict, InvalidRecord, NotFound
from agentmem.extraction.claims import dedup_signature
from agentmem.jobs.job import JobOptions, JobReport, context_for
from agentmem.jobs.runner import leased_job
from agentmem.memory.context import MemoryContext
from agentmem.memory.semantic.entities import MERGED_INTO_PREFIX
from agentmem.memory.semantic.merge_facts import (
    KEEP_APART,
    MERGE,
    REVIEW,
    Cluster,
    Dependents,
    build_merge_change,
    find_clusters,
    read_dependents,
    same_fact_review_id,
)

NAME = "clusters"
MINUTES = 1440.0
TRIGGER = "changes"
WATCHES = ("Fact",)


@leased_job(NAME)
async def run(engine: Engine, scope: Scope, options: JobOptions, report: JobReport, fence: int) -> None:
    """Look at the user's facts that changed since the last run, channel by channel; each merge is one operation.

    Counts: `merged` facts that others took in, `review` questions put, `kept_apart` clusters that hold together too
    loosely. A second run finds nothing to do.
    """
    if not await engine.sync_projections(scope):  # facts without a vector would be passed over for good
        report.pending = 1
        report.notes.append("some facts have no vector yet: they are looked at again")
    after = (await engine.job_queue.state(NAME, scope)).seq
    channels = await _changed_channels(engine, scope, after)
    for number, channel in enumerate(channels):
        options.progress(NAME, number, len(channels))
        await _DeduplicateFactsRun(engine, context_for(engine, scope, channel), report, fence).run_all(after)


async def _changed_channels(engine: Engine, scope: Scope, after_seq: int) -> list[str]:
    """The channels in which facts were written after a position."""
    columns = await engine.read_columns(scope)
    fresh = (columns.kind == columns.kinds.find_code("Fact")) & (columns.seqs > after_seq)
    return sorted({columns.channels.values[code] for code in columns.channel[fresh].tolist()})


@dataclass
class _DeduplicateFactsRun:
    """One run in one channel."""

    engine: Engine
    context: MemoryContext
    report: JobReport
    fence: int
    dependents: Dependents | None = None

    async def run_all(self, after_seq: int) -> None:
        """Every cluster, the closest first."""
        for cluster in await find_clusters(
            self.context, self.context.scope.channel, dedup_signature, after_seq=after_seq
        ):
            apart = await self._find_kept_apart(cluster)
            others = [fact for fact in cluster.facts[1:] if fact.id not in apart]
            if cluster.action == KEEP_APART:
                self.report.add_counts(kept_apart=1)
            elif others and cluster.action == MERGE:
                await self._merge(cluster, others)
            elif others and cluster.action == REVIEW:
                await self._request_reviews(cluster, others)

    async def _find_kept_apart(self, cluster: Cluster) -> set[str]:
        """Those of a cluster about which a person was asked, or whose merging somebody took back."""
        keep, *others = cluster.facts
        log, scope = self.engine.log, self.context.scope
        names = {same_fact_review_id(scope.user_id, keep.id, other.id): other.id for other in others}
        asked = [
            review for review in await log.read_records("Review", list(names), scope) if isinstance(review, Review)
        ]
        out = {names[review.id] for review in asked if cluster.action == REVIEW or review.review_status == "rejected"}
        for other in others:
            versions = await log.versions(other.key, scope)
            if any(version.reason.startswith(MERGED_INTO_PREFIX) for version in versions):
                out.add(other.id)
        return out

    async def _merge(self, cluster: Cluster, others: Sequence[Fact]) -> None:
        ids = [cluster.facts[0].id, *(fact.id for fact in others)]
        if self.report.dry_run:
            self.report.add_counts(merged=len(others))
            return

        async def make(write: WriteAttempt) -> Change:
            self.dependents = await read_dependents(self.context, self.dependents)
            return await build_merge_change(self.context, write, ids, self.dependents)

        try:
            entry = await self.engine.write(
                self.context.scope, NAME, make, kind="Fact", details={"cohesion": cluster.cohesion}, fence=self.fence
            )
        except (Conflict, InvalidRecord, NotFound) as error:  # of this cluster alone: the others go on
            self.report.notes.append(str(error))
            return
        if entry is not None:
            self.report.operation_ids.append(entry.operation_id)
            self.report.add_counts(merged=len(others))

    async def _request_reviews(self, cluster: Cluster, others: Sequence[Fact]) -> None:
        """Ask about each of the others whether it says what the best known one says."""
        keep, log, scope = cluster.facts[0], self.engine.log, self.context.scope
        reviews = [_build_review(scope.user_id, keep, other, cluster.cohesion) for other in others]
        if self.report.dry_run:
            self.report.add_counts(review=len(reviews))
            return

        async def make(write: WriteAttempt) -> Change | None:
            standing = {
                review.id for review in await log.read_records("Review", [review.id for review in reviews], scope)
            }
            fresh = [review for review in reviews if review.id not in standing]
            expects = {fact.key: fact.seq for fact in (keep, *others)} | dict.fromkeys(each.key for each in fresh)
            return write.build_change(*fresh, expected_versions=expects) if fresh else None

        try:
            entry = await self.engine.write(scope, NAME, make, kind="Review", fence=self.fence)
        except Conflict as error:  # the facts changed meanwhile: the next run looks at them
            self.report.notes.append(str(error))
            return
        if entry is not None:
            self.report.operation_ids.append(entry.operation_id)
            self.report.add_counts(review=len(entry.upserts))


def _build_review(user_id: str, keep: Fact, other: Fact, cohesion: float) -> Review:
    return build_record(
        Review,
        id=same_fact_review_id(user_id, keep.id, other.id),
        channel=keep.channel,
        about="same_fact",
        question=f"Do these say the same: {keep.claim!r} and {other.claim!r}?",
        record_ids=(keep.id, other.id),
        reason=f"cohesion {cohesion:.2f}",
    )
