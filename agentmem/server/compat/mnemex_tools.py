"""The tools of Mnemex by their names, parameters and results, over the verbs of this memory.

A memory of Mnemex is a fact that fades until it is promoted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from agentmem.core.lifecycle import promotable_to_long_since
from agentmem.core.plain_values import describe_value
from agentmem.core.records import Entity, Fact, build_record
from agentmem.errors import InvalidRecord
from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.jobs.job import RecordNote
from agentmem.memory.curation import JobReportProtocol
from agentmem.server.compat.mnemex_clusters import MNEMEX_CLUSTER_TOOLS
from agentmem.server.compat.mnemex_graph import MNEMEX_GRAPH_TOOLS
from agentmem.server.compat.mnemex_records import (
    SHORT_TERM,
    Answer,
    UsedFact,
    check_at_least,
    find_memories,
    get_memory,
    read_use,
    shorten_text,
)
from agentmem.server.compat.mnemex_search import MNEMEX_SEARCH_TOOLS, extract_drafts
from agentmem.server.mcp.tools import ToolFailure, tool

WEAKEST, STRONGEST = 1.0, 2.0  # what a touch can bring the strength to
TOUCH_BOOST = 0.1
NO_VAULT = (
    "The setting `vault` names no folder, so there is nowhere to promote to. The person who runs the server sets "
    "AGENTMEM_VAULT to a folder, for instance that of Obsidian. Nothing was promoted."
)


class SavedMemory(Answer):
    """Where it is stored."""

    memory_id: str
    message: str
    has_embedding: bool = Field(description="Whether its vector is there by now; a search makes it.")
    enrichment_applied: bool
    auto_entities: list[str]
    calculated_strength: float


class TouchedMemory(Answer):
    """What it is worth now."""

    old_score: float
    new_score: float
    use_count: int
    strength: float


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


class CollectedGarbage(Answer):
    """What was put away, or would be."""

    removed_count: int
    archived_count: int
    freed_score_sum: float
    memory_ids: list[str]
    total_affected: int


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


@tool("Save a memory", is_idempotent=True)
async def save_memory(
    memory: AsyncAgentMemory,
    *,
    content: Annotated[str, "One claim, a whole sentence."],
    tags: Annotated[list[str] | None, "To find it by."] = None,
    entities: Annotated[list[str] | None, "Names; found by rules if left out."] = None,
    source: Annotated[str | None, "Where it comes from."] = None,
    context: Annotated[str | None, "Not kept."] = None,
    meta: Annotated[dict[str, Any] | None, "Not kept."] = None,
    strength: Annotated[float | None, "1 to 2."] = None,
) -> SavedMemory:
    """Keep one claim about the user as a short-lived memory, which fades unless it is used."""
    if strength is not None and not WEAKEST <= strength <= STRONGEST:
        raise InvalidRecord(f"strength must be within 1 and 2, got {describe_value(strength)}", field="strength")
    said: dict[str, Any] = {"tags": tags or (), "source": source or "user"}
    build_record(Fact, claim=content, **said)  # refuses what is wrong before an entity is stored
    fields = [{"name": name} for name in entities or ()]
    if entities is None:
        drafts = (await extract_drafts(memory, content)).entities
        fields = [{"name": draft.name, "type": draft.type} for draft in drafts]
    stored = await _store_entities(memory, fields)
    ids = [entity.id for entity in stored]
    fact = await memory.learn_fact(content, tier=SHORT_TERM, entity_ids=ids, **said)
    notices = [
        f"{name} is not kept; put what matters into content."
        for name, value in (("context", context), ("meta", meta))
        if value
    ]
    (used,) = await read_use(memory, [fact])
    if strength is not None and strength > used.usage.strength:
        await memory.curation.touch(fact.id, boost=strength - used.usage.strength)
        notices.append("The strength was raised by a touch, which counts as one use.")
        (used,) = await read_use(memory, [fact])
    found = [entity.name for entity in stored] if entities is None else []
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


@tool("Touch a memory")
async def touch_memory(
    memory: AsyncAgentMemory,
    memory_id: Annotated[str, "From a search."],
    boost_strength: Annotated[bool, "Make it fade more slowly, too."] = False,
) -> TouchedMemory:
    """Count a use of one memory, so that it fades later."""
    fact = await get_memory(memory, memory_id)
    before, after = await memory.curation.touch(fact.id, boost=TOUCH_BOOST if boost_strength else 0.0)
    (used,) = await read_use(memory, [fact])
    lasting = [] if fact.tier == SHORT_TERM else ["It is kept for long and does not fade; its score decides nothing."]
    return TouchedMemory(
        old_score=round(before, 4),
        new_score=round(after, 4),
        use_count=used.usage.use_count,
        strength=used.strength,
        notices=lasting,
    )


@tool("Observe usage")
async def observe_memory_usage(
    memory: AsyncAgentMemory,
    memory_ids: Annotated[list[str], "Ids from a search."],
    context_tags: Annotated[list[str] | None, "What the conversation is about."] = None,
) -> ObservedUsage:
    """Count a use of the memories that went into your answer. Call it after the answer."""
    facts, missing = await find_memories(memory, memory_ids)
    before = await read_use(memory, facts)
    if facts:
        await memory.observe_usage([fact.id for fact in facts], context_tags or ())
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


@tool("Collect garbage", is_whole_user=True, is_destructive=True, is_idempotent=True)
async def gc(
    memory: AsyncAgentMemory,
    dry_run: Annotated[bool, "Only list them."] = True,
    archive_instead: Annotated[bool, "No effect: it always archives."] = False,
    limit: Annotated[int | None, "With dry_run alone."] = None,
) -> CollectedGarbage:
    """Archive memories that have faded; with dry_run only list them."""
    check_at_least(1, limit=limit)
    if not dry_run and limit is not None:
        raise ToolFailure("limit goes with dry_run=true alone: what has faded is put away all at once. Leave it out.")
    if not dry_run and memory.settings.decay.forget == "delete":
        raise ToolFailure(
            "The setting decay.forget is `delete`, and this tool erases nothing. Set it to `archive`, or leave that to "
            "the job `gc` of the worker."
        )
    faded = _read_collected_ids(await memory.curation.gc())
    facts, _ = await find_memories(memory, faded)  # as they stand before, with the score that is freed
    scores = {used.fact.id: used.score for used in await read_use(memory, facts)}
    report = await memory.curation.gc(dry_run=dry_run)
    ids = [name for name in _read_collected_ids(report) if name in scores]
    removed, archived = report.counts.get("deleted", 0), report.counts.get("archived", 0)
    notices = [] if archive_instead or removed else ["Memories are archived, never removed; undo brings them back."]
    if removed + archived > len(ids):
        notices.append("memory_ids holds only those of your channels, and at most as many as the report of the job.")
    return CollectedGarbage(
        removed_count=removed,
        archived_count=archived,
        freed_score_sum=round(sum(scores[name] for name in ids), 4),
        memory_ids=ids[:limit],
        total_affected=removed + archived,
        notices=notices,
    )


def _read_collected_ids(report: JobReportProtocol) -> list[str]:
    notes = [note for note in report.notes if isinstance(note, RecordNote) and note.action in ("archived", "deleted")]
    return [note.record.id for note in notes if note.record.kind == "Fact"]


@tool("Promote a memory", is_whole_user=True, is_idempotent=True)
async def promote_memory(
    memory: AsyncAgentMemory,
    memory_id: Annotated[str | None, "From a search."] = None,
    auto_detect: Annotated[bool, "All that deserve it."] = False,
    dry_run: Annotated[bool, "Only list them."] = False,
    target: Annotated[Literal["obsidian"], "Where the note goes."] = "obsidian",
    force: Annotated[bool, "Also one that does not meet the criteria."] = False,
) -> PromotedMemories:
    """Keep a memory for long, with a note in the user's vault: one by id, or with auto_detect all that deserve it."""
    if memory.settings.vault is None:
        raise ToolFailure(NO_VAULT)
    if (memory_id is None) != auto_detect:
        raise ToolFailure("Give either memory_id or auto_detect=true. Nothing was promoted.")
    if memory_id is None:
        return await _promote_deserving(memory, dry_run, force)
    fact = await get_memory(memory, memory_id)
    (used,) = await read_use(memory, [fact])
    since = promotable_to_long_since(fact, used.usage, memory.settings)
    deserved = since is not None and since <= used.now
    if not deserved and not force and not dry_run:
        raise ToolFailure(
            "It does not meet the criteria of promotion yet. Pass force=true when the user wants it kept."
        )
    reason = "it meets the criteria" if deserved else "by hand"
    notices = [] if deserved or not dry_run or force else ["It does not meet the criteria; it takes force=true."]
    if not dry_run:
        done = await memory.curation.promote(fact.id, reason=reason)
        notices += [done.note] if done.note else []
        notices += [] if done.note or done.fact.vault_path else ["No note: its channel is private to an agent."]
    return PromotedMemories(
        candidates_found=int(deserved or force),
        promoted_count=int(not dry_run),
        promoted_ids=[] if dry_run else [fact.id],
        candidates=[_describe_candidate(used, reason)] if deserved or force else [],
        notices=notices,
    )


async def _promote_deserving(memory: AsyncAgentMemory, dry_run: bool, force: bool) -> PromotedMemories:
    """What the job `promote` does: it goes by the settings, whatever `force` says."""
    (report,) = await memory.consolidate("promote", dry_run)
    reasons = {note.record.id: note.reason for note in report.notes if isinstance(note, RecordNote)}
    facts, hidden = await find_memories(memory, list(reasons))
    shown = await read_use(memory, facts)
    notices = [note for note in report.notes if not isinstance(note, RecordNote)]
    notices += ["force was not used: it goes with memory_id."] if force else []
    notices += [f"{len(hidden)} more are of channels that you cannot read."] if hidden else []
    return PromotedMemories(
        candidates_found=len(shown),
        promoted_count=0 if dry_run else len(shown),
        promoted_ids=[] if dry_run else [used.fact.id for used in shown],
        candidates=[_describe_candidate(used, reasons[used.fact.id]) for used in shown],
        notices=notices,
    )


def _describe_candidate(used: UsedFact, reason: str) -> PromotionCandidate:
    return PromotionCandidate(id=used.fact.id, content=shorten_text(used.fact.claim), reason=reason, score=used.score)


MNEMEX_TOOLS = (
    save_memory,
    touch_memory,
    observe_memory_usage,
    gc,
    promote_memory,
    *MNEMEX_SEARCH_TOOLS,
    *MNEMEX_CLUSTER_TOOLS,
    *MNEMEX_GRAPH_TOOLS,
)
