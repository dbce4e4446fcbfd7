"""Finding memories by the tools of Mnemex, and looking at a message without storing it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import BaseModel, Field

from agentmem.core.records import Fact, Turn, build_record
from agentmem.extraction.drafts import ExtractionDraft, Window
from agentmem.extraction.plain.extractor import extract
from agentmem.extraction.reconciler import CONFIDENCE_BY_CERTAINTY, DEFAULT_CONFIDENCE
from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.recall.request import MAX_RESULTS
from agentmem.server.mcp.mnemex_records import (
    KNOWN_STATUSES,
    SHORT_TERM,
    Answer,
    Pagination,
    StatusName,
    UsedFact,
    check_at_least,
    cut_page,
    format_moment,
    has_tag,
    list_memories,
    read_use,
    shorten_text,
)
from agentmem.server.mcp.tools import Arguments, ModelTool, ToolFailure

WORDS_ONLY = ("keyword",)
MAX_REINFORCED = 5  # by one message


class MemorySearch(Arguments):
    """Of `search_memory`."""

    query: str | None = Field(None, description="What to find; the latest if left out.")
    tags: list[str] | None = Field(None, description="With one of these tags.")
    status: StatusName | None = Field(None, description="Of this status.")
    top_k: int = Field(10, description="How many results.")
    window_days: float | None = Field(None, description="Used in so many days.")
    min_score: float | None = Field(None, description="Worth at least this.")
    use_embeddings: bool = Field(False, description="By meaning, too.")
    include_review_candidates: bool = Field(True, description="Raise what is due for review.")
    page: int | None = Field(None, description="Which page, from 1; all if left out.")
    page_size: int | None = Field(None, description="How many on a page.")
    preview_length: int | None = Field(None, description="Characters of each; 0 for all.")


class UnifiedSearch(Arguments):
    """Of `search_unified`."""

    query: str | None = Field(None, description="What to find; the latest if left out.")
    tags: list[str] | None = Field(None, description="With one of these tags.")
    status: StatusName | None = Field(None, description="Of this status.")
    limit: int = Field(10, description="How many results.")
    stm_weight: float = Field(1.0, description="Weight of short-lived memories.")
    ltm_weight: float = Field(0.7, description="Weight of those kept for long.")
    window_days: float | None = Field(None, description="Used in so many days.")
    min_score: float | None = Field(None, description="Worth at least this.")
    page: int | None = Field(None, description="Which page, from 1; all if left out.")
    page_size: int | None = Field(None, description="How many on a page.")
    preview_length: int | None = Field(None, description="Characters of each; 0 for all.")


class MessageText(Arguments):
    """Of the tools that look at a message."""

    message: str = Field(description="The message, word for word.")


class MemoryHit(BaseModel):
    """One memory."""

    id: str
    content: str
    tags: list[str]
    score: float = Field(description="What it is worth now; 1 for one that does not fade.")
    similarity: float = Field(description="How well it fits; 0 without a query.")
    use_count: int
    last_used: str = Field(description="Empty for never.")
    age_days: float


class MemoryHits(Answer):
    """Best first."""

    count: int
    results: list[MemoryHit]
    pagination: Pagination


class UnifiedHit(BaseModel):
    """One memory, short-lived (stm) or kept for long (ltm)."""

    memory_id: str
    content: str
    source: str
    score: float = Field(description="How well it fits, times the weight of its source.")
    tags: list[str]
    path: str = Field(description="Of its note in the vault; empty for none.")
    created_at: str
    last_used: str


class UnifiedHits(Answer):
    """Best first."""

    count: int
    results: list[UnifiedHit]
    pagination: Pagination


class MessageAnalysis(Answer):
    """What is worth saving in a message."""

    should_save: bool
    confidence: float
    claims: list[str] = Field(description="What it states; save these.")
    suggested_entities: list[str]
    suggested_tags: list[str]
    reasoning: str


class RecallAnalysis(Answer):
    """Whether a message calls for a search."""

    should_search: bool
    suggested_query: str
    suggested_entities: list[str]
    reasoning: str


class Reinforcement(Answer):
    """Which memories a message strengthened."""

    topics_found: list[str]
    memories_found: int
    memories_reinforced: list[str]
    message: str


@dataclass(frozen=True, slots=True)
class _Found:
    """What was found, best first: facts with how well they fit."""

    facts: list[tuple[Fact, float]]
    notices: Sequence[str] = ()


async def search_memory(memory: AsyncAgentMemory, given: MemorySearch) -> MemoryHits:
    """Memories by words, or by meaning too; without a query the latest ones. It changes nothing."""
    check_at_least(1, top_k=given.top_k)
    check_at_least(0, window_days=given.window_days, preview_length=given.preview_length)
    techniques = None if given.use_embeddings else WORDS_ONLY
    found = await _find(memory, given, techniques, raise_due=given.include_review_candidates)
    fits = {fact.id: fit for fact, fit in found.facts}
    used = await _filter_by_use(memory, found.facts, given)
    page, place = cut_page(used[: given.top_k], given.page, given.page_size)
    hits = [
        MemoryHit(
            id=each.fact.id,
            content=shorten_text(each.fact.claim, given.preview_length),
            tags=list(each.fact.tags),
            score=each.score,
            similarity=fits[each.fact.id],
            use_count=each.usage.use_count,
            last_used=each.last_used,
            age_days=each.age_days,
        )
        for each in page
    ]
    return MemoryHits(count=len(hits), results=hits, pagination=place, notices=list(found.notices))


async def search_unified(memory: AsyncAgentMemory, given: UnifiedSearch) -> UnifiedHits:
    """One recall over both tiers, each weighted. It changes nothing."""
    check_at_least(1, limit=given.limit)
    check_at_least(
        0,
        stm_weight=given.stm_weight,
        ltm_weight=given.ltm_weight,
        window_days=given.window_days,
        preview_length=given.preview_length,
    )
    found = await _find(memory, given, None, raise_due=False)
    weights = {SHORT_TERM: given.stm_weight}
    fits = {fact.id: (fit or 1.0) * weights.get(fact.tier, given.ltm_weight) for fact, fit in found.facts}
    used = sorted(await _filter_by_use(memory, found.facts, given), key=lambda each: -fits[each.fact.id])
    page, place = cut_page(used[: given.limit], given.page, given.page_size)
    hits = [
        UnifiedHit(
            memory_id=each.fact.id,
            content=shorten_text(each.fact.claim, given.preview_length),
            source="stm" if each.fact.tier == SHORT_TERM else "ltm",
            score=round(fits[each.fact.id], 4),
            tags=list(each.fact.tags),
            path=each.fact.vault_path,
            created_at=format_moment(each.fact.recorded_at),
            last_used=each.last_used,
        )
        for each in page
    ]
    return UnifiedHits(count=len(hits), results=hits, pagination=place, notices=list(found.notices))


async def _find(
    memory: AsyncAgentMemory, given: MemorySearch | UnifiedSearch, techniques: Sequence[str] | None, *, raise_due: bool
) -> _Found:
    """Facts of the tags and status asked for: those that fit a query, or the latest; `raise_due` those due first."""
    if given.query is None:
        statuses = KNOWN_STATUSES[:2] if given.status is None else (given.status,)
        return _Found(facts=[(fact, 0.0) for fact in await list_memories(memory, statuses, given.tags)])
    if given.status == "archived":
        raise ToolFailure("A query finds no archived memories. Leave out query to list them.")
    bundle = await memory.remember(
        given.query, top_k=MAX_RESULTS, include=("semantic",), techniques=techniques, reinforce=False
    )
    fits = {item.record.id: item.score for item in bundle.items if isinstance(item.record, Fact)}
    ranked = [item.record for item in bundle.items if isinstance(item.record, Fact)]
    facts = [
        (fact, fits[fact.id])
        for fact in (bundle.facts if raise_due else ranked)
        if fits.get(fact.id, 0.0) > 0 and has_tag(fact, given.tags) and given.status in (None, fact.status)
    ]
    unfit = [] if bundle.relevant or not facts else ["Nothing fits well; these are merely the nearest."]
    return _Found(facts=facts, notices=[*bundle.notices, *unfit])


async def _filter_by_use(
    memory: AsyncAgentMemory, facts: Sequence[tuple[Fact, float]], given: MemorySearch | UnifiedSearch
) -> list[UsedFact]:
    """Those used in the window, and worth the least score."""
    return [
        each
        for each in await read_use(memory, [fact for fact, _ in facts])
        if (given.window_days is None or each.is_within(given.window_days))
        and (given.min_score is None or each.score >= given.min_score)
    ]


async def extract_drafts(memory: AsyncAgentMemory, message: str) -> ExtractionDraft:
    """What the rules find in a message; nothing is stored."""
    channel, now = memory.scope.channel, memory.engine.clock.now()
    turn = build_record(Turn, id="message", conversation_id="message", channel=channel, content=message, timestamp=now)
    return await asyncio.to_thread(extract, Window(conversation_id="message", channel=channel, turns=(turn,)))


async def analyze_message(memory: AsyncAgentMemory, given: MessageText) -> MessageAnalysis:
    """What the rules would learn from a message."""
    drafts = await extract_drafts(memory, given.message)
    sure = [CONFIDENCE_BY_CERTAINTY.get(fact.certainty, DEFAULT_CONFIDENCE) for fact in drafts.facts]
    tags = [tag.partition(":")[2] for fact in drafts.facts for tag in fact.tags]  # without the kind of rule
    return MessageAnalysis(
        should_save=bool(drafts.facts),
        confidence=max(sure, default=0.0),
        claims=[fact.claim for fact in drafts.facts],
        suggested_entities=[entity.name for entity in drafts.entities],
        suggested_tags=list(dict.fromkeys(tags)),
        reasoning=f"The rules found {len(drafts.facts)} plain statements of the speaker about themselves.",
    )


async def analyze_for_recall(memory: AsyncAgentMemory, given: MessageText) -> RecallAnalysis:
    """Whether a message asks something, or names what memory knows."""
    drafts = await extract_drafts(memory, given.message)
    names = [entity.name for entity in drafts.entities]
    known = [name for name in names if await memory.semantic.entities(name, limit=1)]
    asks = "?" in given.message
    reasons = ["it asks a question"] * asks + [f"memory knows {', '.join(known)}"] * bool(known)
    return RecallAnalysis(
        should_search=bool(reasons),
        suggested_query=given.message,
        suggested_entities=names,
        reasoning="; ".join(reasons) or "It asks nothing, and names nothing that memory knows.",
    )


async def auto_recall_process_message(memory: AsyncAgentMemory, given: MessageText) -> Reinforcement:
    """Find the memories that share words with a message, and count a use of the best."""
    drafts = await extract_drafts(memory, given.message)
    bundle = await memory.remember(
        given.message, top_k=MAX_RESULTS, include=("semantic",), techniques=WORDS_ONLY, reinforce=False
    )
    ids = [item.record.id for item in bundle.items if isinstance(item.record, Fact) and item.score > 0]
    best = ids[:MAX_REINFORCED]
    count = await memory.observe_usage(best) if best else 0
    return Reinforcement(
        topics_found=[entity.name for entity in drafts.entities],
        memories_found=len(ids),
        memories_reinforced=best,
        message=f"Found {len(ids)} memories; counted a use of {count}.",
        notices=list(bundle.notices),
    )


MNEMEX_SEARCH_TOOLS = (
    ModelTool(
        "search_memory",
        "Search memories",
        "Find memories by words, or by meaning with use_embeddings; without a query the latest. After you used some, "
        "call observe_memory_usage.",
        MemorySearch,
        MemoryHits,
        search_memory,
        is_read_only=True,
    ),
    ModelTool(
        "search_unified",
        "Search both tiers",
        "Find memories by meaning, short-lived (stm) and kept for long (ltm), each with a weight.",
        UnifiedSearch,
        UnifiedHits,
        search_unified,
        is_read_only=True,
    ),
    ModelTool(
        "analyze_message",
        "Analyze a message",
        "What in a message is worth saving. Stores nothing.",
        MessageText,
        MessageAnalysis,
        analyze_message,
        is_read_only=True,
    ),
    ModelTool(
        "analyze_for_recall",
        "Analyze for recall",
        "Whether a message calls for a search. Changes nothing.",
        MessageText,
        RecallAnalysis,
        analyze_for_recall,
        is_read_only=True,
    ),
    ModelTool(
        "auto_recall_process_message",
        "Reinforce by a message",
        "Count a use of the memories that a message is about, so that they do not fade.",
        MessageText,
        Reinforcement,
        auto_recall_process_message,
    ),
)
