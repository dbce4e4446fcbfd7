"""Facts that say the same are merged: those with equal content. Nobody is asked, and a word of difference keeps apart.

What somebody took back by `undo` is not merged again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from agentmem.core.changes import Change, WriteAttempt
from agentmem.core.records import Fact
from agentmem.errors import Conflict, InvalidRecord, NotFound
from agentmem.jobs.job import Job, context_for
from agentmem.jobs.runner import LeasedRun, build_leased_run
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


@dataclass
class _DeduplicateFactsRun(LeasedRun):
    context: MemoryContext = field(init=False)  # of the channel that is looked at
    dependents: Dependents | None = None

    async def run_all(self) -> None:
        """Look at the user's facts that changed since the last run, channel by channel; each merge is one operation.

        Counts: `merged` facts that others took in. A second run finds nothing to do.
        """
        if not await self.engine.sync_projections(self.scope):  # facts without a vector would be passed over for good
            self.report.pending = 1
            self.report.notes.append("some facts have no vector yet: they are looked at again")
        after = (await self.engine.job_queue.state(NAME, self.scope)).seq
        channels = await self.find_changed_channels("Fact", after)
        for number, channel in enumerate(channels):
            self.options.progress(NAME, number, len(channels))
            self.context, self.dependents = context_for(self.engine, self.scope, channel), None
            for cluster in await find_clusters(self.context, channel, content_signature, after_seq=after):
                taken_back = await self._find_taken_back(cluster)
                if others := [fact for fact in cluster.facts[1:] if fact.id not in taken_back]:
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


JOB = Job(NAME, 1440.0, "changes", build_leased_run(NAME, _DeduplicateFactsRun), watches=("Fact",))
