"""Facts that say the same are merged: those with equal content. Nobody is asked, and a word of difference keeps apart.

What somebody took back by `undo` is not merged again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentmem.core.changes import Change, WriteAttempt
from agentmem.core.records import Fact
from agentmem.core.scope import Scope
from agentmem.engine.engine import Engine
from agentmem.errors import Conflict, InvalidRecord, NotFound
from agentmem.jobs.job import JobOptions, JobReport, context_for
from agentmem.jobs.runner import leased_job
from agentmem.memory.context import MemoryContext
from agentmem.memory.semantic.entities import MERGED_INTO_PREFIX
from agentmem.memory.semantic.equal_claims import content_signature
from agentmem.memory.semantic.merge_facts import (
    Cluster,
    Dependents,
    build_merge_change,
    find_clusters,
    read_dependents,
)

NAME = "clusters"
MINUTES = 1440.0
TRIGGER = "changes"
WATCHES = ("Fact",)


@leased_job(NAME)
async def run(engine: Engine, scope: Scope, options: JobOptions, report: JobReport, fence: int) -> None:
    """Look at the user's facts that changed since the last run, channel by channel; each merge is one operation.

    Counts: `merged` facts that others took in. A second run finds nothing to do.
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
        """Every cluster of facts with equal content, the closest first."""
        channel = self.context.scope.channel
        for cluster in await find_clusters(self.context, channel, content_signature, after_seq=after_seq):
            taken_back = await self._find_taken_back(cluster)
            others = [fact for fact in cluster.facts[1:] if fact.id not in taken_back]
            if others:
                await self._merge(cluster, others)

    async def _find_taken_back(self, cluster: Cluster) -> set[str]:
        """Those of a cluster that were merged before and whose merging somebody took back."""
        out = set[str]()
        for other in cluster.facts[1:]:
            versions = await self.engine.log.versions(other.key, self.context.scope)
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
