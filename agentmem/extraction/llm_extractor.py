"""Reads a window with a language model: one call for what people said, one more for what an assistant said of itself.

A reply that cannot be used is asked for once more, with the window in two halves; what still fails is told by turn.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from agentmem.core.records import Entity, Turn
from agentmem.errors import InvalidModelOutput
from agentmem.extraction.drafts import ExtractionDraft, TurnSummaryDraft, Window
from agentmem.extraction.grounding import MAX_TURN_CHARS, is_assistant_turn, turn_time
from agentmem.extraction.labels import LabelMap
from agentmem.extraction.reply_parser import MAX_KNOWN_ENTITIES, parse_agent_reply, parse_reply
from agentmem.extraction.reply_schema import AgentExtractionReply, ExtractionReply
from agentmem.extraction.windows import is_substantive
from agentmem.models.protocols import LLMRequest
from agentmem.models.structured_llm import StructuredLLM
from agentmem.text.normalization import slugify
from agentmem.text.templates import load_templates
from agentmem.text.tokenizer import estimate_tokens

PURPOSE = "extract"
PURPOSE_AGENT = "extract agent"
PROMPT_VERSION = 3
"""Of the prompts: stands in the name of the extractor, so that glosses tell what made them."""

_MAX_CONTEXT_TURN_CHARS = 800
_BASE_REPLY_TOKENS, _REPLY_TOKENS_PER_TURN, _MAX_REPLY_TOKENS = 1_500, 500, 16_000  # tokens of a reply


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractionResult:
    """What was read of a window. `failed` gives the reason for each turn, by id, of which no reply could be used.

    The draft holds nothing of those, and exactly one gloss for each other turn.
    """

    draft: ExtractionDraft
    failed: Mapping[str, str] = field(default_factory=dict)


def extractor_name(identity: str) -> str:
    """The name of this extractor with a model, by the model's identity."""
    return f"{identity}/{PROMPT_VERSION}"


async def extract(window: Window, llm: StructuredLLM) -> ExtractionResult:
    """Ask for all that a window says; a window with nothing worth reading costs no call.

    Raises ModelUnavailable, BudgetExceeded and ConfigError as the asker does; then nothing was read.
    """
    draft, failed = await _extract_with_retry(window, llm, _extract_statements)
    if window.agent_id is not None and any(_is_readable_assistant_turn(turn) for turn in window.turns):
        own, lost = await _extract_with_retry(window, llm, _extract_agent_statements)
        draft, failed = _merge_drafts([draft, own]), {**failed, **lost}
    return ExtractionResult(draft=_drop_failed_turns(draft, failed), failed=failed)


_ExtractPass = Callable[[Window, StructuredLLM, int], Awaitable[ExtractionDraft]]


async def _extract_with_retry(
    window: Window, llm: StructuredLLM, extract_pass: _ExtractPass
) -> tuple[ExtractionDraft, dict[str, str]]:
    """The draft of a window, in halves where one reply for all could not be used, and the turns that failed."""
    try:
        return await extract_pass(window, llm, 1), {}
    except InvalidModelOutput:
        drafts, failed = [], dict[str, str]()
    for half in _split_window(window):
        try:
            drafts.append(await extract_pass(half, llm, 2))
        except InvalidModelOutput as error:
            concerned = half.turns if extract_pass is _extract_statements else filter(is_assistant_turn, half.turns)
            failed |= {turn.id: str(error) for turn in concerned}
    return _merge_drafts(drafts), failed


async def _extract_statements(window: Window, llm: StructuredLLM, token_factor: int) -> ExtractionDraft:
    if not any(map(is_substantive, window.turns)):
        return ExtractionDraft(summaries=tuple(TurnSummaryDraft(turn_id=turn.id) for turn in window.turns))
    blocks = load_templates("agentmem.extraction", "extract.md")
    reply = await llm.ask(_build_request(window, PURPOSE, blocks, token_factor), ExtractionReply)
    return await asyncio.to_thread(parse_reply, reply, window, blocks["system"])  # it may take a while to check


async def _extract_agent_statements(window: Window, llm: StructuredLLM, token_factor: int) -> ExtractionDraft:
    if not any(map(_is_readable_assistant_turn, window.turns)):
        return ExtractionDraft()
    blocks = load_templates("agentmem.extraction", "extract_agent.md")
    reply = await llm.ask(_build_request(window, PURPOSE_AGENT, blocks, token_factor), AgentExtractionReply)
    return await asyncio.to_thread(parse_agent_reply, reply, window, blocks["system"])


def _is_readable_assistant_turn(turn: Turn) -> bool:
    return is_assistant_turn(turn) and is_substantive(turn)


def _split_window(window: Window) -> list[Window]:
    """The window in two, the second with the first before it; a single turn is tried again as it is."""
    middle = len(window.turns) // 2
    if not middle:
        return [window]
    first, second = window.turns[:middle], window.turns[middle:]
    return [replace(window, turns=first), replace(window, turns=second, context_turns=(*window.context_turns, *first))]


def _build_request(window: Window, purpose: str, blocks: Mapping[str, str], token_factor: int) -> LLMRequest:
    data = json.dumps(_build_payload(window), ensure_ascii=False)
    said = sum(estimate_tokens(turn.search_text()[:MAX_TURN_CHARS]) for turn in window.turns)
    tokens = min(
        _MAX_REPLY_TOKENS, token_factor * (_BASE_REPLY_TOKENS + _REPLY_TOKENS_PER_TURN * len(window.turns) + 2 * said)
    )
    return LLMRequest(purpose, blocks["system"], f"{blocks['content']}\n{data}", max_tokens=tokens)


def _build_payload(window: Window) -> dict[str, object]:
    """What the model is given: labels and words, never an id."""
    labels = LabelMap.from_window(window)
    entities = window.known_entities[:MAX_KNOWN_ENTITIES]
    slots = {"more_slots": sorted(window.slots)} if window.slots else {}
    return {
        "participants": list(window.participants),
        "people": labels.describe_people(),
        "known_entities": [_describe_entity(one) for one in entities],
        "known_facts": labels.describe_facts(),
        **slots,
        "earlier": [_render_turn(label, turn, _MAX_CONTEXT_TURN_CHARS) for label, turn in labels.context_turns.items()],
        "turns": [_render_turn(label, turn, MAX_TURN_CHARS) for label, turn in labels.turns.items()],
    }


def _describe_entity(entity: Entity) -> str:
    also = f"; also {', '.join(entity.aliases)}" if entity.aliases else ""
    return f"{entity.name} ({entity.type}{also})"


def _render_turn(label: str, turn: Turn, max_chars: int) -> dict[str, str]:
    at = turn_time(turn)
    shown = {"label": label, "role": turn.role}
    if turn.speaker:
        shown["speaker"] = turn.speaker
    shown["text"] = turn.content[:max_chars]
    if at is not None:
        shown["date"] = f"{at:%A} {at.date().isoformat()}"
    if turn.search_text() != turn.content:
        shown["shares"] = str(turn.metadata["caption"])[:max_chars]
    return shown


def _merge_drafts(drafts: Iterable[ExtractionDraft]) -> ExtractionDraft:
    drafts = list(drafts)
    return ExtractionDraft(
        facts=tuple(fact for draft in drafts for fact in draft.facts),
        entities=tuple(entity for draft in drafts for entity in draft.entities),
        relations=tuple(relation for draft in drafts for relation in draft.relations),
        summaries=tuple(gloss for draft in drafts for gloss in draft.summaries),
        notes=tuple(note for draft in drafts for note in draft.notes),
    )


def _drop_failed_turns(draft: ExtractionDraft, failed: Mapping[str, str]) -> ExtractionDraft:
    """The draft without anything of the turns that failed: they are to be read again as a whole."""
    entities = tuple(entity for entity in draft.entities if entity.turn_id not in failed)
    lost = {slugify(entity.name) for entity in draft.entities} - {slugify(entity.name) for entity in entities}
    return ExtractionDraft(
        facts=tuple(
            replace(fact, entities=tuple(name for name in fact.entities if slugify(name) not in lost))
            for fact in draft.facts
            if fact.turn_id not in failed
        ),
        entities=entities,
        relations=tuple(
            each
            for each in draft.relations
            if each.turn_id not in failed and lost.isdisjoint((slugify(each.source), slugify(each.target)))
        ),
        summaries=tuple(gloss for gloss in draft.summaries if gloss.turn_id not in failed),
        notes=draft.notes,
    )
