"""Reads a window with a language model: one call for what people said, one more for what an assistant said of itself.

Rules read the same window, and what they find is kept. A reply that cannot be used is asked for once more, with the
window in two halves, and one that says nothing as it is; what still fails is read by rules only, and told by turn.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from agentmem.core.records import Entity, Turn
from agentmem.errors import InvalidModelOutput
from agentmem.extraction.drafts import ExtractionDraft, TurnSummaryDraft, Window
from agentmem.extraction.grounding import MAX_TURN_CHARS, is_assistant_turn, turn_time
from agentmem.extraction.labels import LabelMap
from agentmem.extraction.plain import extractor
from agentmem.extraction.reader_union import describe_emptiness, list_turns, merge_readings, select_turns
from agentmem.extraction.reply_parser import MAX_KNOWN_ENTITIES, parse_agent_reply, parse_reply
from agentmem.extraction.reply_schema import AgentExtractionReply, ExtractionReply, SmallExtractionReply
from agentmem.extraction.windows import MAX_TOKENS, MAX_TURNS, is_substantive
from agentmem.models.protocols import LLMRequest
from agentmem.models.structured_llm import StructuredLLM, TruncatedReply
from agentmem.text.normalization import slugify
from agentmem.text.templates import load_templates
from agentmem.text.tokenizer import estimate_tokens

PURPOSE = "extract"
PURPOSE_AGENT = "extract agent"
PROMPT_VERSION = 4
"""Of the prompts: stands in the name of the extractor, so that glosses tell what made them."""

_OWN_WORDS = re.compile(
    r"\b(?:I(?:['’](?:ll|ve|m)| (?:will|shall|won['’]t|am|was|have|had|did|do|made|promise|decided?|learn(?:ed|t)?"
    r"|noted?|notice|noticed|found|sent|wrote|fixed|set|added|changed|ran|tried|tested|checked|forgot"
    r"|remember|should have))"
    r"|(?i:ich (?:werde|habe|hatte|bin|verspreche|merke|lerne)|(?:werde|habe) ich|je (?:vais|suis|promets)|j['’]ai"
    r"|(?:voy|he|prometo|vou|fiz|aprendi|aprendí|hice|enviaré|enviarei|haré|farei)))\b"
)
_MAX_CONTEXT_TURN_CHARS = 800
_BASE_REPLY_TOKENS, _REPLY_TOKENS_PER_TURN, _MAX_REPLY_TOKENS = 1_500, 500, 16_000  # tokens of a reply


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingProfile:
    """How much a model is given and asked for at a time. `prompt` is the file of its prompt, `reply` what it answers.

    `max_turns` and `max_tokens` bound a window, `max_turn_chars` what is shown of a turn, `reply_tokens` the reply
    beside what grows with the turns.
    """

    prompt: str = "extract.md"
    reply: type[ExtractionReply | SmallExtractionReply] = ExtractionReply
    max_turns: int = MAX_TURNS
    max_tokens: int = MAX_TOKENS
    max_turn_chars: int = MAX_TURN_CHARS
    max_context_chars: int = _MAX_CONTEXT_TURN_CHARS
    reply_tokens: int = _MAX_REPLY_TOKENS


FULL = ReadingProfile()
SMALL = ReadingProfile(
    prompt="extract_small.md",
    reply=SmallExtractionReply,
    max_turns=2,
    max_tokens=600,
    max_turn_chars=2_400,
    max_context_chars=200,
    reply_tokens=900,
)
"""For a context of 4,096 tokens, prompt and reply together."""

SMALL_CONTEXT = 8_192
"""A model that reads so many tokens at a time, or fewer, is given the small profile."""


def choose_profile(name: str, context: int | None) -> ReadingProfile:
    """The profile of this name; `auto` goes by the context of the model, and is the full one where nobody knows it."""
    is_small = name == "small" or (name == "auto" and context is not None and context <= SMALL_CONTEXT)
    return SMALL if is_small else FULL


_NOTHING_PROMPT = """
Your last reply was of no use: {wrong}.
Read the turns again and answer with one JSON object. Lists stay empty only where nothing is said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractionResult:
    """What was read of a window. `failed` gives the reason for each turn, by id, that only rules could read.

    Of those the draft holds what rules read, and exactly one gloss for each other turn.
    """

    draft: ExtractionDraft
    failed: Mapping[str, str] = field(default_factory=dict)


def extractor_name(identity: str) -> str:
    """The name of this extractor with a model, by the model's identity."""
    return f"{identity}/{PROMPT_VERSION}"


async def extract(window: Window, llm: StructuredLLM, profile: ReadingProfile = FULL) -> ExtractionResult:
    """Ask for all that a window says; a window with nothing worth reading costs no call.

    Raises ModelUnavailable, BudgetExceeded and ConfigError as the asker does; then nothing was read.
    """
    rules = await asyncio.to_thread(extractor.extract, window)
    reader = _ModelReader(llm, rules, profile)
    draft, failed = await reader.read(window, reader.read_statements)
    if window.agent_id is not None and any(_is_readable_assistant_turn(turn) for turn in window.turns):
        own, lost = await reader.read(window, reader.read_agent_statements)
        failed = {**failed, **lost}
        draft = _merge_drafts([_drop_failed_turns(draft, failed), _drop_failed_turns(own, lost)])
    else:
        draft = _drop_failed_turns(draft, failed)
    return ExtractionResult(draft=merge_readings(window, draft, rules), failed=failed)


class _SaysNothing(InvalidModelOutput):
    """Two replies that say nothing of their window."""


_ReadWindow = Callable[[Window, int], Awaitable[ExtractionDraft]]


@dataclass(frozen=True, slots=True)
class _ModelReader:
    """The calls about one window, of which `rules` is what rules read."""

    llm: StructuredLLM
    rules: ExtractionDraft
    profile: ReadingProfile

    async def read(self, window: Window, read_window: _ReadWindow) -> tuple[ExtractionDraft, dict[str, str]]:
        """The draft of a window, in halves where one reply for all could not be used, and the turns that failed."""
        try:
            return await read_window(window, 1), {}
        except _SaysNothing as error:
            return ExtractionDraft(), self._fail(window, read_window, error)
        except InvalidModelOutput:
            drafts, failed = [], dict[str, str]()
        for half in _split_window(window):
            try:
                drafts.append(await read_window(half, 2))
            except InvalidModelOutput as error:
                kept = await self._parse_partial(half, error)
                drafts.append(kept)
                said = list_turns(replace(kept, summaries=()))  # every turn of the window has a summary
                failed |= {name: why for name, why in self._fail(half, read_window, error).items() if name not in said}
        return _merge_drafts(drafts), failed

    def _fail(self, window: Window, read_window: _ReadWindow, error: InvalidModelOutput) -> dict[str, str]:
        concerned = window.turns if read_window == self.read_statements else filter(is_assistant_turn, window.turns)
        return {turn.id: str(error) for turn in concerned}

    async def _parse_partial(self, window: Window, error: InvalidModelOutput) -> ExtractionDraft:
        """What was whole of a reply that was cut off."""
        partial = error.partial if isinstance(error, TruncatedReply) else None
        if isinstance(partial, SmallExtractionReply):
            partial = partial.to_full()
        if isinstance(partial, ExtractionReply):
            return await asyncio.to_thread(parse_reply, partial, window, _load(self.profile.prompt)["system"])
        if isinstance(partial, AgentExtractionReply):
            return await asyncio.to_thread(parse_agent_reply, partial, window, _load("extract_agent.md")["system"])
        return ExtractionDraft()

    async def read_statements(self, window: Window, token_factor: int) -> ExtractionDraft:
        """What people said."""
        if not any(map(is_substantive, window.turns)):
            return ExtractionDraft(summaries=tuple(TurnSummaryDraft(turn_id=turn.id) for turn in window.turns))
        blocks = _load(self.profile.prompt)
        request = _build_request(window, PURPOSE, blocks, token_factor, self.profile)
        draft, wrong = await self._ask(request, window, blocks["system"])
        if wrong:
            again = _NOTHING_PROMPT.format(wrong=wrong)
            draft, wrong = await self._ask(
                replace(request, content=f"{request.content}\n{again}"), window, blocks["system"]
            )
        if wrong:
            raise _SaysNothing(f"the reply says nothing: {wrong}")
        return draft

    async def _ask(self, request: LLMRequest, window: Window, system: str) -> tuple[ExtractionDraft, str]:
        """The draft of a reply, and why it says nothing; "" when it says something."""
        told = await self.llm.ask(request, self.profile.reply, LabelMap.from_window(window).list_choices())
        reply = told.to_full() if isinstance(told, SmallExtractionReply) else told
        draft = await asyncio.to_thread(parse_reply, reply, window, system)  # it may take a while to check
        rules = select_turns(self.rules, (turn.id for turn in window.turns))
        return draft, describe_emptiness(reply, draft, rules, window)

    async def read_agent_statements(self, window: Window, token_factor: int) -> ExtractionDraft:
        """What the assistant said of itself."""
        if not any(map(_is_readable_assistant_turn, window.turns)):
            return ExtractionDraft()
        blocks = _load("extract_agent.md")
        reply = await self.llm.ask(
            _build_request(window, PURPOSE_AGENT, blocks, token_factor, self.profile),
            AgentExtractionReply,
            LabelMap.from_window(window).list_choices(),
        )
        return await asyncio.to_thread(parse_agent_reply, reply, window, blocks["system"])


def _load(name: str) -> Mapping[str, str]:
    return load_templates("agentmem.extraction", name)


def _is_readable_assistant_turn(turn: Turn) -> bool:
    """Whether an assistant's turn may say what it promised, did or learned: it speaks of itself."""
    return is_assistant_turn(turn) and is_substantive(turn) and _OWN_WORDS.search(turn.content) is not None


def _split_window(window: Window) -> list[Window]:
    """The window in two, the second with the first before it; a single turn is tried again as it is."""
    middle = len(window.turns) // 2
    if not middle:
        return [window]
    first, second = window.turns[:middle], window.turns[middle:]
    return [replace(window, turns=first), replace(window, turns=second, context_turns=(*window.context_turns, *first))]


def _build_request(
    window: Window, purpose: str, blocks: Mapping[str, str], token_factor: int, profile: ReadingProfile
) -> LLMRequest:
    data = json.dumps(_build_payload(window, profile), ensure_ascii=False)
    said = sum(estimate_tokens(turn.search_text()[: profile.max_turn_chars]) for turn in window.turns)
    tokens = min(
        profile.reply_tokens,
        token_factor * (_BASE_REPLY_TOKENS + _REPLY_TOKENS_PER_TURN * len(window.turns) + 2 * said),
    )
    return LLMRequest(purpose, blocks["system"], f"{blocks['content']}\n{data}", max_tokens=tokens)


def _build_payload(window: Window, profile: ReadingProfile) -> dict[str, object]:
    """What the model is given: labels and words, never an id."""
    labels = LabelMap.from_window(window)
    entities = window.known_entities[:MAX_KNOWN_ENTITIES]
    slots = {"more_slots": sorted(window.slots)} if window.slots else {}
    known = {
        "participants": list(window.participants),
        "known_entities": [_describe_entity(one) for one in entities],
        **slots,
        "earlier": _render_turns(labels.context_turns, profile.max_context_chars),
    }
    return {
        "people": labels.describe_people(),
        "known_facts": labels.describe_facts(),
        **{name: some for name, some in known.items() if some},
        "turns": _render_turns(labels.turns, profile.max_turn_chars),
    }


def _describe_entity(entity: Entity) -> str:
    also = f"; also {', '.join(entity.aliases)}" if entity.aliases else ""
    return f"{entity.name} ({entity.type}{also})"


def _render_turns(turns: Mapping[str, Turn], max_chars: int) -> list[dict[str, str]]:
    """The turns by their labels; the date of a turn is that of the one before where it says none."""
    shown, before = [_render_turn(label, turn, max_chars) for label, turn in turns.items()], ""
    for turn in shown:
        date = turn.get("date", "")
        if date == before:
            turn.pop("date", None)
        before = date
    return shown


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
    """The draft without anything of the turns that failed."""
    kept = select_turns(draft, list_turns(draft) - failed.keys())
    lost = {slugify(entity.name) for entity in draft.entities} - {slugify(entity.name) for entity in kept.entities}
    return replace(
        kept,
        facts=tuple(
            replace(fact, entities=tuple(name for name in fact.entities if slugify(name) not in lost))
            for fact in kept.facts
        ),
        relations=tuple(
            each for each in kept.relations if lost.isdisjoint((slugify(each.source), slugify(each.target)))
        ),
    )
