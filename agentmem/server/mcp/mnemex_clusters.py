"""Memories of Mnemex that are alike: clusters of them, and making one of each."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from agentmem.core.clock import derive_id
from agentmem.core.records import Edge
from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.memory.semantic.merge_facts import Cluster
from agentmem.server.mcp.mnemex_graph import move_relations, relate_memories
from agentmem.server.mcp.mnemex_records import Answer, check_at_least, shorten_text
from agentmem.server.mcp.tools import Arguments, ModelTool, ToolFailure

PREVIEW_CHARS = 120
LINK_TYPE = "related"


class ClusterQuery(Arguments):
    """Of `cluster_memories`."""

    strategy: Literal["similarity"] = Field("similarity", description="How to group.")
    threshold: float | None = Field(None, description="Least cohesion, 0 to 1.")
    max_cluster_size: int | None = Field(None, description="Leave out larger ones.")
    find_duplicates: bool = Field(False, description="Only what says the same.")
    duplicate_threshold: float | None = Field(None, description="Least cohesion of duplicates.")


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


class ConsolidateQuery(Arguments):
    """Of `consolidate_memories`."""

    cluster_id: str | None = Field(None, description="From cluster_memories.")
    mode: Literal["preview", "apply", "link"] = Field("preview", description="What to do.")
    auto_detect: bool = Field(False, description="All that hold together well.")
    cohesion_threshold: float = Field(0.75, description="Least cohesion for auto_detect.")


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


async def cluster_memories(memory: AsyncAgentMemory, given: ClusterQuery) -> FoundClusters:
    """Memories that are alike, or those alone that say the same."""
    check_at_least(0, threshold=given.threshold, duplicate_threshold=given.duplicate_threshold)
    check_at_least(2, max_cluster_size=given.max_cluster_size)
    least = given.duplicate_threshold if given.find_duplicates else given.threshold
    clusters = [
        cluster
        for cluster in await memory.curation.clusters()
        if cluster.cohesion >= (least or 0.0)
        and (cluster.is_equal or not given.find_duplicates or given.duplicate_threshold is not None)
    ]
    fitting = [each for each in clusters if given.max_cluster_size is None or len(each.facts) <= given.max_cluster_size]
    return FoundClusters(
        mode="duplicates" if given.find_duplicates else "clustering",
        clusters_found=len(fitting),
        duplicates_found=sum(each.is_equal for each in fitting),
        clusters=[_show_cluster(each) for each in fitting],
        notices=_explain_thresholds(memory, given, len(clusters) - len(fitting)),
    )


def _explain_thresholds(memory: AsyncAgentMemory, given: ClusterQuery, left_out: int) -> list[str]:
    """What a threshold did not do, and what was left out."""
    link, notices = memory.settings.clusters.link, list[str]()
    if given.find_duplicates and given.threshold is not None:
        notices.append("threshold was not used: duplicate_threshold is what find_duplicates goes by.")
    if not given.find_duplicates and given.duplicate_threshold is not None:
        notices.append("duplicate_threshold was not used: it goes with find_duplicates.")
    if given.threshold is not None and not given.find_duplicates:
        notices.append(
            f"threshold is the least cohesion; memories are linked above the setting clusters.link, {link:g}."
        )
    if left_out:
        notices.append(f"Left out for their size: {left_out} clusters of more than {given.max_cluster_size} memories.")
    return notices


async def consolidate_memories(memory: AsyncAgentMemory, given: ConsolidateQuery) -> Consolidation:
    """Merge clusters, or relate their memories, or say what merging would do."""
    if (given.cluster_id is None) != given.auto_detect:
        raise ToolFailure("Give either cluster_id, from cluster_memories, or auto_detect=true. Nothing was done.")
    chosen, notices = await _choose_clusters(memory, given)
    done = [await _consolidate(memory, each, given.mode) for each in chosen]
    return Consolidation(
        mode=given.mode,
        clusters_consolidated=0 if given.mode == "preview" else len(done),
        clusters=done,
        notices=notices,
    )


async def _choose_clusters(memory: AsyncAgentMemory, given: ConsolidateQuery) -> tuple[list[Cluster], list[str]]:
    """The cluster that was named, or all that hold together well; of these only those are merged that surely agree."""
    clusters = await memory.curation.clusters()
    if given.cluster_id is not None:
        named = [each for each in clusters if _cluster_id(each) == given.cluster_id]
        if not named:
            raise ToolFailure("There is no such cluster now. Call cluster_memories for those there are.")
        return named, []
    close = [each for each in clusters if each.cohesion >= given.cohesion_threshold]
    unsure = [each for each in close if not each.is_equal] if given.mode == "apply" else []
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


def _show_cluster(cluster: Cluster) -> ClusterEntry:
    return ClusterEntry(
        id=_cluster_id(cluster),
        size=len(cluster.facts),
        cohesion=cluster.cohesion,
        suggested_action=cluster.action,
        is_equal=cluster.is_equal,
        memory_ids=[fact.id for fact in cluster.facts],
        content_previews=[shorten_text(fact.claim, PREVIEW_CHARS) for fact in cluster.facts],
    )


MNEMEX_CLUSTER_TOOLS = (
    ModelTool(
        "cluster_memories",
        "Cluster memories",
        "Groups of memories that are alike, the closest first.",
        ClusterQuery,
        FoundClusters,
        cluster_memories,
        is_read_only=True,
    ),
    ModelTool(
        "consolidate_memories",
        "Consolidate memories",
        "Make one memory of each cluster (apply), relate its memories (link), or show what would be done (preview). "
        "Ask the user before you apply one whose is_equal is false.",
        ConsolidateQuery,
        Consolidation,
        consolidate_memories,
        is_destructive=True,
    ),
)
