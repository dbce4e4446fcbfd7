"""Communities of entities and how central each one is, stored where the graph of a channel changed.

What is stored answers `memory.graph.communities()` and `central_entities()` until the graph changes again.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from agentmem.core.scope import channel_scope
from agentmem.errors import ConfigError, Conflict
from agentmem.jobs.job import Job
from agentmem.jobs.runner import LeasedRun, build_leased_run
from agentmem.memory.context import MemoryContext
from agentmem.memory.graph import analysis
from agentmem.memory.graph.community_records import (
    is_current,
    list_communities,
    read_basis,
    write_communities,
)

NAME = "communities"


@dataclass
class _FindCommunitiesRun(LeasedRun):
    async def run_all(self) -> None:
        """Compute the communities of each channel in which the graph changed, from that channel alone."""
        columns = await self.engine.read_columns(self.scope)
        of_graph = columns.kinds.mask_for(("Entity", "Community"))[columns.kind]
        for channel in sorted({columns.channels.values[code] for code in columns.channel[of_graph].tolist()}):
            scope = channel_scope(self.scope.user_id, channel).with_channels([channel])
            try:
                await self._update_channel(MemoryContext(self.engine, scope))
            except ConfigError as error:  # NetworkX is not installed
                self.report.notes.append(str(error))
                return

    async def _update_channel(self, context: MemoryContext) -> None:
        _, basis = await read_basis(context)
        if is_current(await list_communities(context), basis):
            return
        await asyncio.to_thread(analysis.import_networkx)
        groups = await self._find_groups(context)
        if self.report.dry_run:
            self.report.add_counts(communities=len(groups))
            return
        try:
            entry = await write_communities(context, groups, basis, fence=self.fence)
        except Conflict as error:  # somebody writes on, and is served again for that
            self.report.notes.append(str(error))
            return
        if entry is not None:
            self.report.operation_ids.append(entry.operation_id)
            self.report.add_counts(communities=len(groups))

    async def _find_groups(self, context: MemoryContext) -> list[analysis.RankedIds]:
        """The communities of a channel; none, with a note, where one analysis does not take all of it."""
        if await analysis.count_entities(context) > analysis.MAX_ENTITIES:
            notices: tuple[str, ...] = (f"There are more than {analysis.MAX_ENTITIES:,} entities.",)
        else:
            network = await analysis.read_network(context)
            if not network.notices:
                return await asyncio.to_thread(network.group)
            notices = network.notices
        self.report.notes += [f"{context.scope.channel}: no communities are stored. {notice}" for notice in notices]
        return []


JOB = Job(
    NAME, 360.0, "changes", build_leased_run(NAME, _FindCommunitiesRun), watches=("Entity", "Edge", "Fact", "Turn")
)
