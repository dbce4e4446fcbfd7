"""Finding memories by the tools of Mnemex, and looking at a message without storing it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated

from pydantic import BaseModel, Field

from agentmem.core.records import Fact, Turn, build_record
from agentmem.extraction.drafts import ExtractionDraft, Window
from agentmem.extraction.plain.extractor import extract
from agentmem.extraction.reconciler import CONFIDENCE_BY_CERTAINTY, DEFAULT_CONFIDENCE
from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.recall.request import MAX_RESULTS
from agentmem.server.compat.mnemex_records import (
    KNOWN_STATUSES,
    SHORT_TERM,
    Answer,
    PageNumber,
    PageSize,
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
from agentmem.server.mcp.tools import ToolFailure, tool

WORDS_ONLY = ("keyword",)
MAX_REINFORCED = 5  # by one message
Query = Annotated[str | None, "What to find; the latest if left out."]
Tags = Annotated[list[str] | None, "With one of these tags."]
StatusFilter = Annotated[StatusName | None, "Of this status."]
UsedWithin = Annotated[float | None, "Used in so many days."]
LeastScore = Annotated[float | None, "Worth at least this."]
PreviewLength = Annotated[int | None, "Characters of each; 0 for all."]
MessageText = Annotated[str, "The message, word for word."]


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


@tool("Search memories", is_read_only=True)
async def search_memory(
    memory: AsyncAgentMemory,
    *,
    query: Query = None,
    tags: Tags = None,
    status: StatusFilter = None,
    top_k: Annotated[int, "How many results."] = 10,
    window_days: UsedWithin = None,
    min_score: LeastScore = None,
    use_embeddings: Annotated[bool, "By meaning, too."] = False,
    include_review_candidates: Annotated[bool, "Raise what is due for review."] = True,
    page: PageNumber = None,
    page_size: PageSize = None,
    preview_length: PreviewLength = None,
) -> MemoryHits:
    """Find memories by words, or by meaning with use_embeddings; without a query the latest. After you used some, call
    observe_memory_usage.
    """
    check_at_least(1, top_k=top_k)
    check_at_least(0, window_days=window_days, preview_length=preview_length)
    techniques = None if use_embeddings else WORDS_ONLY
    found, fits, notices = await _find(memory, query, tags, status, techniques, raise_due=include_review_candidates)
    used = await _filter_by_use(memory, found, window_days, min_score)
    shown, place = cut_page(used[:top_k], page, page_size)
    hits = [
        MemoryHit(
            id=each.fact.id,
            content=shorten_text(each.fact.claim, preview_length),
            tags=list(each.fact.tags),
            score=each.score,
            similarity=fits.get(each.fact.id, 0.0),
            use_count=each.usage.use_count,
            last_used=each.last_used,
            age_days=each.age_days,
        )
        for each in shown
    ]
    return MemoryHits(count=len(hits), results=hits, pagination=place, notices=notices)


@tool("Search both tiers", is_read_only=True)
async def search_unified(
    memory: AsyncAgentMemory,
    *,
    query: Query = None,
    tags: Tags = None,
    status: StatusFilter = None,
    limit: Annotated[int, "How many results."] = 10,
    stm_weight: Annotated[float, "Weight of short-lived memories."] = 1.0,
    ltm_weight: Annotated[float, "Weight of those kept for long."] = 0.7,
    window_days: UsedWithin = None,
    min_score: LeastScore = None,
    page: PageNumber = None,
    page_size: PageSize = None,
    preview_length: PreviewLength = None,
) -> UnifiedHits:
    """Find memories by meaning, short-lived (stm) and kept for long (ltm), each with a weight."""
    check_at_least(1, limit=limit)
    check_at_least(0, stm_weight=stm_weight, ltm_weight=ltm_weight)
    check_at_least(0, window_days=window_days, preview_length=preview_length)
    found, fits, notices = await _find(memory, query, tags, status, None, raise_due=False)
    weights = {SHORT_TERM: stm_weight}
    scores = {fact.id: fits.get(fact.id, 1.0) * weights.get(fact.tier, ltm_weight) for fact in found}
    used = sorted(await _filter_by_use(memory, found, window_days, min_score), key=lambda each: -scores[each.fact.id])
    shown, place = cut_page(used[:limit], page, page_size)
    hits = [
        UnifiedHit(
            memory_id=each.fact.id,
            content=shorten_text(each.fact.claim, preview_length),
            source="stm" if each.fact.tier == SHORT_TERM else "ltm",
            score=round(scores[each.fact.id], 4),
            tags=list(each.fact.tags),
            path=each.fact.vault_path,
            created_at=format_moment(each.fact.recorded_at),
            last_used=each.last_used,
        )
        for each in shown
    ]
    return UnifiedHits(count=len(hits), results=hits, pagination=place, notices=notices)


async def _find(
    memory: AsyncAgentMemory,
    query: str | None,
    tags: Sequence[str] | None,
    status: StatusName | None,
    techniques: Sequence[str] | None,
    *,
    raise_due: bool,
) -> tuple[list[Fact], dict[str, float], list[str]]:
    """Facts of these tags and this status, best first, how well each fits by id, and notices.

    With `raise_due`, facts due for review come first. Without a query, the latest come first and none has a fit.
    """
    if query is None:
        statuses = KNOWN_STATUSES[:2] if status is None else (status,)
        return await list_memories(memory, statuses, tags), {}, []
    if status == "archived":
        raise ToolFailure("A query finds no archived memories. Leave out query to list them.")
    bundle = await memory.remember(
        query, top_k=MAX_RESULTS, include=("semantic",), techniques=techniques, reinforce=False
    )
    fits = {item.record.id: item.score for item in bundle.items if isinstance(item.record, Fact)}
    ranked = [item.record for item in bundle.items if isinstance(item.record, Fact)]
    facts = [
        fact
        for fact in (bundle.facts if raise_due else ranked)
        if fits.get(fact.id, 0.0) > 0 and has_tag(fact, tags) and status in (None, fact.status)
    ]
    unfit = [] if bundle.relevant or not facts else ["Nothing fits well; these are merely the nearest."]
    return facts, fits, [*bundle.notices, *unfit]


async def _filter_by_use(
    memory: AsyncAgentMemory, facts: Sequence[Fact], window_days: float | None, min_score: float | None
) -> list[UsedFact]:
    """Those used in the window, and worth the least score."""
    return [
        each
        for each in await read_use(memory, facts)
        if (window_days is None or each.is_within(window_days)) and (min_score is None or each.score >= min_score)
    ]


async def extract_drafts(memory: AsyncAgentMemory, message: str) -> ExtractionDraft:
    """What the rules find in a message; nothing is stored."""
    channel, now = memory.scope.channel, memory.engine.clock.now()
    turn = build_record(Turn, id="message", conversation_id="message", channel=channel, content=message, timestamp=now)
    return await asyncio.to_thread(extract, Window(conversation_id="message", channel=channel, turns=(turn,)))


@tool("Analyze a message", is_read_only=True)
async def analyze_message(memory: AsyncAgentMemory, message: MessageText) -> MessageAnalysis:
    """What in a message is worth saving. Stores nothing."""
    drafts = await extract_drafts(memory, message)
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


@tool("Analyze for recall", is_read_only=True)
async def analyze_for_recall(memory: AsyncAgentMemory, message: MessageText) -> RecallAnalysis:
    """Whether a message calls for a search. Changes nothing."""
    drafts = await extract_drafts(memory, message)
    names = [entity.name for entity in drafts.entities]
    known = [name for name in names if await memory.semantic.entities(name, limit=1)]
    asks = "?" in message
    reasons = ["it asks a question"] * asks + [f"memory knows {', '.join(known)}"] * bool(known)
    return RecallAnalysis(
        should_search=bool(reasons),
        suggested_query=message,
        suggested_entities=names,
        reasoning="; ".join(reasons) or "It asks nothing, and names nothing that memory knows.",
    )


@tool("Reinforce by a message")
async def auto_recall_process_message(memory: AsyncAgentMemory, message: MessageText) -> Reinforcement:
    """Count a use of the memories that a message is about, so that they do not fade."""
    drafts = await extract_drafts(memory, message)
    bundle = await memory.remember(
        message, top_k=MAX_RESULTS, include=("semantic",), techniques=WORDS_ONLY, reinforce=False
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


MNEMEX_SEARCH_TOOLS = (search_memory, search_unified, analyze_message, analyze_for_recall, auto_recall_process_message)
