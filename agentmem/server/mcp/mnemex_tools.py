"""The tools of Mnemex by their names, parameters and results, over the verbs of this memory.

A memory of Mnemex is a fact that fades until it is promoted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import BaseModel, Field

from agentmem.core.lifecycle import promotable_to_long_since
from agentmem.core.plain_values import describe_value
from agentmem.core.records import Entity, Fact, build_record
from agentmem.errors import InvalidRecord
from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.memory.curation import JobReportProtocol
from agentmem.server.mcp.mnemex_clusters import MNEMEX_CLUSTER_TOOLS
from agentmem.server.mcp.mnemex_graph import MNEMEX_GRAPH_TOOLS
from agentmem.server.mcp.mnemex_records import (
    SHORT_TERM,
    Answer,
    check_at_least,
    find_memories,
    get_memory,
    read_use,
    shorten_text,
)
from agentmem.server.mcp.mnemex_search import MNEMEX_SEARCH_TOOLS, extract_drafts
from agentmem.server.mcp.tools import Arguments, ModelTool, ToolFailure

WEAKEST, STRONGEST = 1.0, 2.0  # what a touch can bring the strength to
TOUCH_BOOST = 0.1
NO_VAULT = (
    "The setting `vault` names no folder, so there is nowhere to promote to. The person who runs the server sets "
    "AGENTMEM_VAULT to a folder, for instance that of Obsidian. Nothing was promoted."
)
_COLLECTED = re.compile(r"Fact (\S+): (?:archived|deleted): ")  # a note of the job `gc`
_PROMOTED = re.compile(r"(\S+): (?:kept|spread): (.+)")  # a note of the job `promote`


class SaveMemory(Arguments):
    """Of `save_memory`."""

    content: str = Field(description="One claim, a whole sentence.")
    tags: list[str] | None = Field(None, description="To find it by.")
    entities: list[str] | None = Field(None, description="Names; found by rules if left out.")
    source: str | None = Field(None, description="Where it comes from.")
    context: str | None = Field(None, description="Not kept.")
    meta: dict[str, Any] | None = Field(None, description="Not kept.")
    strength: float | None = Field(None, description="1 to 2.")


class SavedMemory(Answer):
    """Where it is stored."""

    memory_id: str
    message: str
    has_embedding: bool = Field(description="Whether its vector is there by now; a search makes it.")
    enrichment_applied: bool
    auto_entities: list[str]
    calculated_strength: float


class TouchMemory(Arguments):
    """Of `touch_memory`."""

    memory_id: str = Field(description="From a search.")
    boost_strength: bool = Field(False, description="Make it fade more slowly, too.")


class TouchedMemory(Answer):
    """What it is worth now."""

    old_score: float
    new_score: float
    use_count: int
    strength: float


class ObserveUsage(Arguments):
    """Of `observe_memory_usage`."""

    memory_ids: list[str] = Field(description="Ids from a search.")
    context_tags: list[str] | None = Field(None, description="What the conversation is about.")


class ObservedMemory(BaseModel):
    """One memory."""

    id: str
    status: str = Field(description="reinforced or not_found.")
    cross_domain: bool = False
    new_use_count: int = 0
    new_review_count: int = 0
    strength: float = 0.0


class ObservedUsage(Answer):
    """What was counted."""

    reinforced: bool
    count: int
    cross_domain_count: int
    results: list[ObservedMemory]


class CollectGarbage(Arguments):
    """Of `gc`."""

    dry_run: bool = Field(True, description="Only list them.")
    archive_instead: bool = Field(False, description="No effect: it always archives.")
    limit: int | None = Field(None, description="With dry_run alone.")


class CollectedGarbage(Answer):
    """What was put away, or would be."""

    removed_count: int
    archived_count: int
    freed_score_sum: float
    memory_ids: list[str]
    total_affected: int


class PromoteMemory(Arguments):
    """Of `promote_memory`."""

    memory_id: str | None = Field(None, description="From a search.")
    auto_detect: bool = Field(False, description="All that deserve it.")
    dry_run: bool = Field(False, description="Only list them.")
    target: Literal["obsidian"] = Field("obsidian", description="Where the note goes.")
    force: bool = Field(False, description="Also one that does not meet the criteria.")


class PromotionCandidate(BaseModel):
    """One memory that deserves to be kept."""

    id: str
    content: str
    reason: str
    score: float


class PromotedMemories(Answer):
    """What was promoted, or would be."""

    candidates_found: int
    promoted_count: int
    promoted_ids: list[str]
    candidates: list[PromotionCandidate]


async def save_memory(memory: AsyncAgentMemory, given: SaveMemory) -> SavedMemory:
    """A short-lived fact about the entities named, or about those that rules find in it."""
    if given.strength is not None and not WEAKEST <= given.strength <= STRONGEST:
        raise InvalidRecord(f"strength must be within 1 and 2, got {describe_value(given.strength)}", field="strength")
    said: dict[str, Any] = {"tags": given.tags or (), "source": given.source or "user"}
    build_record(Fact, claim=given.content, **said)  # refuses what is wrong before an entity is stored
    fields = [{"name": name} for name in given.entities or ()]
    if given.entities is None:
        drafts = (await extract_drafts(memory, given.content)).entities
        fields = [{"name": draft.name, "type": draft.type} for draft in drafts]
    entities = await _store_entities(memory, fields)
    ids = [entity.id for entity in entities]
    fact = await memory.learn_fact(given.content, tier=SHORT_TERM, entity_ids=ids, **said)
    notices = [
        f"{name} is not kept; put what matters into content." for name in ("context", "meta") if getattr(given, name)
    ]
    (used,) = await read_use(memory, [fact])
    if given.strength is not None and given.strength > used.usage.strength:
        await memory.curation.touch(fact.id, boost=given.strength - used.usage.strength)
        notices.append("The strength was raised by a touch, which counts as one use.")
        (used,) = await read_use(memory, [fact])
    found = [entity.name for entity in entities] if given.entities is None else []
    return SavedMemory(
        memory_id=fact.id,
        message="Saved." if fact.tier == SHORT_TERM else "Known already, and kept for long.",
        has_embedding=not any((await memory.lag()).values()),
        enrichment_applied=bool(found),
        auto_entities=found,
        calculated_strength=used.strength,
        notices=notices,
    )


async def _store_entities(memory: AsyncAgentMemory, fields: Sequence[dict[str, str]]) -> list[Entity]:
    """The entities of these names, stored where nobody has the name yet."""
    for each in fields:
        build_record(Entity, **each)
    stored = list[Entity]()
    for each in fields:
        known = await memory.semantic.entities(each["name"], limit=1)
        stored.append(known[0] if known else await memory.upsert_entity(each))
    return stored


async def touch_memory(memory: AsyncAgentMemory, given: TouchMemory) -> TouchedMemory:
    """Count a use of one memory."""
    fact = await get_memory(memory, given.memory_id)
    before, after = await memory.curation.touch(fact.id, boost=TOUCH_BOOST if given.boost_strength else 0.0)
    (used,) = await read_use(memory, [fact])
    lasting = [] if fact.tier == SHORT_TERM else ["It is kept for long and does not fade; its score decides nothing."]
    return TouchedMemory(
        old_score=round(before, 4),
        new_score=round(after, 4),
        use_count=used.usage.use_count,
        strength=used.strength,
        notices=lasting,
    )


async def observe_memory_usage(memory: AsyncAgentMemory, given: ObserveUsage) -> ObservedUsage:
    """Count a use of the memories that went into an answer."""
    facts, missing = await find_memories(memory, given.memory_ids)
    before = await read_use(memory, facts)
    if facts:
        await memory.observe_usage([fact.id for fact in facts], given.context_tags or ())
    results = [
        ObservedMemory(
            id=now.fact.id,
            status="reinforced",
            cross_domain=now.usage.cross_domain_count > old.usage.cross_domain_count,
            new_use_count=now.usage.use_count,
            new_review_count=now.usage.review_count,
            strength=now.strength,
        )
        for old, now in zip(before, await read_use(memory, facts), strict=True)
    ]
    return ObservedUsage(
        reinforced=bool(results),
        count=len(results),
        cross_domain_count=sum(each.cross_domain for each in results),
        results=[*results, *(ObservedMemory(id=name, status="not_found") for name in missing)],
    )


async def gc(memory: AsyncAgentMemory, given: CollectGarbage) -> CollectedGarbage:
    """Archive what has faded, or say what would be."""
    check_at_least(1, limit=given.limit)
    if not given.dry_run and given.limit is not None:
        raise ToolFailure("limit goes with dry_run=true alone: what has faded is put away all at once. Leave it out.")
    if not given.dry_run and memory.settings.decay.forget == "delete":
        raise ToolFailure(
            "The setting decay.forget is `delete`, and this tool erases nothing. Set it to `archive`, or leave that to "
            "the job `gc` of the worker."
        )
    faded = _read_collected_ids(await memory.curation.gc())
    facts, _ = await find_memories(memory, faded)  # as they stand before, with the score that is freed
    scores = {used.fact.id: used.score for used in await read_use(memory, facts)}
    report = await memory.curation.gc(dry_run=given.dry_run)
    ids = [name for name in _read_collected_ids(report) if name in scores]
    removed, archived = report.counts.get("deleted", 0), report.counts.get("archived", 0)
    notices = (
        [] if given.archive_instead or removed else ["Memories are archived, never removed; undo brings them back."]
    )
    if removed + archived > len(ids):
        notices.append("memory_ids holds only those of your channels, and at most as many as the report of the job.")
    return CollectedGarbage(
        removed_count=removed,
        archived_count=archived,
        freed_score_sum=round(sum(scores[name] for name in ids), 4),
        memory_ids=ids[: given.limit],
        total_affected=removed + archived,
        notices=notices,
    )


def _read_collected_ids(report: JobReportProtocol) -> list[str]:
    return [found[1] for note in report.notes if (found := _COLLECTED.match(note))]


async def promote_memory(memory: AsyncAgentMemory, given: PromoteMemory) -> PromotedMemories:
    """Keep for long, with a note in the vault, one memory or all that deserve it."""
    if memory.settings.vault is None:
        raise ToolFailure(NO_VAULT)
    if (given.memory_id is None) != given.auto_detect:
        raise ToolFailure("Give either memory_id or auto_detect=true. Nothing was promoted.")
    if given.memory_id is None:
        return await _promote_deserving(memory, given)
    fact = await get_memory(memory, given.memory_id)
    (used,) = await read_use(memory, [fact])
    since = promotable_to_long_since(fact, used.usage, memory.settings)
    deserved = since is not None and since <= used.now
    if not deserved and not given.force and not given.dry_run:
        raise ToolFailure(
            "It does not meet the criteria of promotion yet. Pass force=true when the user wants it kept."
        )
    reason = "it meets the criteria" if deserved else "by hand"
    candidate = PromotionCandidate(id=fact.id, content=shorten_text(fact.claim), reason=reason, score=used.score)
    notices = (
        [] if deserved or not given.dry_run or given.force else ["It does not meet the criteria; it takes force=true."]
    )
    if not given.dry_run:
        done = await memory.curation.promote(fact.id, reason=reason)
        notices += [done.note] if done.note else []
        notices += [] if done.note or done.fact.vault_path else ["No note: its channel is private to an agent."]
    return PromotedMemories(
        candidates_found=int(deserved or given.force),
        promoted_count=int(not given.dry_run),
        promoted_ids=[] if given.dry_run else [fact.id],
        candidates=[candidate] if deserved or given.force else [],
        notices=notices,
    )


async def _promote_deserving(memory: AsyncAgentMemory, given: PromoteMemory) -> PromotedMemories:
    """What the job `promote` does: it goes by the settings, whatever `force` says."""
    (report,) = await memory.consolidate("promote", given.dry_run)
    reasons = {found[1]: found[2] for note in report.notes if (found := _PROMOTED.match(note))}
    facts, hidden = await find_memories(memory, list(reasons))
    shown = await read_use(memory, facts)
    notices = [note for note in report.notes if not _PROMOTED.match(note)]
    notices += ["force was not used: it goes with memory_id."] if given.force else []
    notices += [f"{len(hidden)} more are of channels that you cannot read."] if hidden else []
    return PromotedMemories(
        candidates_found=len(shown),
        promoted_count=0 if given.dry_run else len(shown),
        promoted_ids=[] if given.dry_run else [used.fact.id for used in shown],
        candidates=[
            PromotionCandidate(
                id=used.fact.id,
                content=shorten_text(used.fact.claim),
                reason=reasons[used.fact.id],
                score=used.score,
            )
            for used in shown
        ],
        notices=notices,
    )


MNEMEX_TOOLS: tuple[ModelTool, ...] = (
    ModelTool(
        "save_memory",
        "Save a memory",
        "Keep one claim about the user as a short-lived memory, which fades unless it is used.",
        SaveMemory,
        SavedMemory,
        save_memory,
        is_idempotent=True,
    ),
    ModelTool(
        "touch_memory",
        "Touch a memory",
        "Count a use of one memory, so that it fades later.",
        TouchMemory,
        TouchedMemory,
        touch_memory,
    ),
    ModelTool(
        "observe_memory_usage",
        "Observe usage",
        "Count a use of the memories that went into your answer. Call it after the answer.",
        ObserveUsage,
        ObservedUsage,
        observe_memory_usage,
    ),
    ModelTool(
        "gc",
        "Collect garbage",
        "Archive memories that have faded; with dry_run only list them.",
        CollectGarbage,
        CollectedGarbage,
        gc,
        is_whole_user=True,
        is_destructive=True,
        is_idempotent=True,
    ),
    ModelTool(
        "promote_memory",
        "Promote a memory",
        "Keep a memory for long, with a note in the user's vault: one by id, or with auto_detect all that deserve it.",
        PromoteMemory,
        PromotedMemories,
        promote_memory,
        is_whole_user=True,
        is_idempotent=True,
    ),
    *MNEMEX_SEARCH_TOOLS,
    *MNEMEX_CLUSTER_TOOLS,
    *MNEMEX_GRAPH_TOOLS,
)
