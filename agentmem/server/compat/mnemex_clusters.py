"""Memories of Mnemex that are alike: clusters of them, and making one of each."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from agentmem.core.clock import derive_id
from agentmem.core.records import Edge
from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.memory.semantic.merge_facts import Cluster
from agentmem.server.compat.mnemex_graph import move_relations, relate_memories
from agentmem.server.compat.mnemex_records import Answer, check_at_least, shorten_text
from agentmem.server.mcp.tools import ToolFailure, tool

PREVIEW_CHARS = 120
LINK_TYPE = "related"


class ClusterEntry(BaseModel):
    """Memories that are alike."""

    id: str
    size: int
    cohesion: float
    suggested_action: str = Field(description="merge, ask or keep_apart, by cohesion; only a proposal.")
    is_equal: bool = Field(description="Whether all say the same.")
    memory_ids: list[str]
    content_previews: list[str]


class FoundClusters(Answer):
    """The closest first."""

    mode: str
    clusters_found: int
    duplicates_found: int
    clusters: list[ClusterEntry]


class ConsolidatedCluster(BaseModel):
    """What became of a cluster, or would."""

    cluster_id: str
    cohesion: float
    suggested_action: str
    memory_ids: list[str]
    kept_id: str = Field(description="The memory that stays, and takes in the others.")
    content: str
    relation_ids: list[str] = []


class Consolidation(Answer):
    """What was done, or would be."""

    mode: str
    clusters_consolidated: int
    clusters: list[ConsolidatedCluster]


@tool("Cluster memories", is_read_only=True)
async def cluster_memories(
    memory: AsyncAgentMemory,
    strategy: Annotated[Literal["similarity"], "How to group."] = "similarity",
    threshold: Annotated[float | None, "Least cohesion, 0 to 1."] = None,
    max_cluster_size: Annotated[int | None, "Leave out larger ones."] = None,
    find_duplicates: Annotated[bool, "Only what says the same."] = False,
    duplicate_threshold: Annotated[float | None, "Least cohesion of duplicates."] = None,
) -> FoundClusters:
    """Groups of memories that are alike, the closest first."""
    check_at_least(0, threshold=threshold, duplicate_threshold=duplicate_threshold)
    check_at_least(2, max_cluster_size=max_cluster_size)
    least = duplicate_threshold if find_duplicates else threshold
    clusters = [
        cluster
        for cluster in await memory.curation.clusters()
        if cluster.cohesion >= (least or 0.0)
        and (cluster.is_equal or not find_duplicates or duplicate_threshold is not None)
    ]
    fitting = [each for each in clusters if max_cluster_size is None or len(each.facts) <= max_cluster_size]
    notices = _explain_thresholds(memory.settings.clusters.link, find_duplicates, threshold, duplicate_threshold)
    if left_out := len(clusters) - len(fitting):
        notices.append(f"Left out for their size: {left_out} clusters of more than {max_cluster_size} memories.")
    return FoundClusters(
        mode="duplicates" if find_duplicates else "clustering",
        clusters_found=len(fitting),
        duplicates_found=sum(each.is_equal for each in fitting),
        clusters=[
            ClusterEntry(
                id=_cluster_id(each),
                size=len(each.facts),
                cohesion=each.cohesion,
                suggested_action=each.action,
                is_equal=each.is_equal,
                memory_ids=[fact.id for fact in each.facts],
                content_previews=[shorten_text(fact.claim, PREVIEW_CHARS) for fact in each.facts],
            )
            for each in fitting
        ],
        notices=notices,
    )


def _explain_thresholds(
    link: float, find_duplicates: bool, threshold: float | None, duplicate_threshold: float | None
) -> list[str]:
    """What a threshold did not do."""
    notices = list[str]()
    if find_duplicates and threshold is not None:
        notices.append("threshold was not used: duplicate_threshold is what find_duplicates goes by.")
    if not find_duplicates and duplicate_threshold is not None:
        notices.append("duplicate_threshold was not used: it goes with find_duplicates.")
    if not find_duplicates and threshold is not None:
        notices.append(
            f"threshold is the least cohesion; memories are linked above the setting clusters.link, {link:g}."
        )
    return notices


@tool("Consolidate memories", is_destructive=True)
async def consolidate_memories(
    memory: AsyncAgentMemory,
    cluster_id: Annotated[str | None, "From cluster_memories."] = None,
    mode: Annotated[Literal["preview", "apply", "link"], "What to do."] = "preview",
    auto_detect: Annotated[bool, "All that hold together well."] = False,
    cohesion_threshold: Annotated[float, "Least cohesion for auto_detect."] = 0.75,
) -> Consolidation:
    """Make one memory of each cluster (apply), relate its memories (link), or show what would be done (preview). Ask
    the user before you apply one whose is_equal is false.
    """
    if (cluster_id is None) != auto_detect:
        raise ToolFailure("Give either cluster_id, from cluster_memories, or auto_detect=true. Nothing was done.")
    chosen, notices = await _choose_clusters(memory, cluster_id, mode, cohesion_threshold)
    done = [await _consolidate(memory, each, mode) for each in chosen]
    return Consolidation(
        mode=mode,
        clusters_consolidated=0 if mode == "preview" else len(done),
        clusters=done,
        notices=notices,
    )


async def _choose_clusters(
    memory: AsyncAgentMemory, cluster_id: str | None, mode: str, least: float
) -> tuple[list[Cluster], list[str]]:
    """The cluster that was named, or all that hold together well; of these only those are merged that surely agree."""
    clusters = await memory.curation.clusters()
    if cluster_id is not None:
        named = [each for each in clusters if _cluster_id(each) == cluster_id]
        if not named:
            raise ToolFailure("There is no such cluster now. Call cluster_memories for those there are.")
        return named, []
    close = [each for each in clusters if each.cohesion >= least]
    unsure = [each for each in close if not each.is_equal] if mode == "apply" else []
    notices = [
        f"Not merged: cluster {_cluster_id(each)}. Ask the user, then call with its cluster_id." for each in unsure
    ]
    return [each for each in close if each not in unsure], notices


async def _consolidate(memory: AsyncAgentMemory, cluster: Cluster, mode: str) -> ConsolidatedCluster:
    keep, *others = cluster.facts
    edges = list[Edge]()
    if mode == "apply":
        keep = await memory.curation.merge(cluster)
        edges = await move_relations(memory, keep, [fact for fact in cluster.facts if fact.id != keep.id])
    elif mode == "link":
        edges = [await relate_memories(memory, (keep, other), LINK_TYPE, cluster.cohesion) for other in others]
    return ConsolidatedCluster(
        cluster_id=_cluster_id(cluster),
        cohesion=cluster.cohesion,
        suggested_action=cluster.action,
        memory_ids=[fact.id for fact in cluster.facts],
        kept_id=keep.id,
        content=shorten_text(keep.claim),
        relation_ids=[edge.id for edge in edges],
    )


def _cluster_id(cluster: Cluster) -> str:
    """The same for the same memories."""
    return derive_id("cluster", *sorted(fact.id for fact in cluster.facts))


MNEMEX_CLUSTER_TOOLS = (cluster_memories, consolidate_memories)
