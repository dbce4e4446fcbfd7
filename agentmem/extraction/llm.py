"""Reads a window with a language model: one call for what people said, one more for what an assistant said of itself.

A reply that cannot be used is asked for once more, with the window in two halves; what still fails is told by turn.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from agentmem.errors import BadReply
from agentmem.extraction import Draft, GlossDraft, Window
from agentmem.extraction.drafting import KNOWN_ENTITIES, Labels, drafted, drafted_of_agent
from agentmem.extraction.grounding import LONGEST_READ, speaks_of_itself, turn_time
from agentmem.extraction.reply import AgentReply, Reply
from agentmem.extraction.windows import worth_reading
from agentmem.model.records import Turn
from agentmem.providers import LLMRequest, estimated_tokens
from agentmem.providers.asking import Asker
from agentmem.text.blocks import load_blocks
from agentmem.text.names import slug

PURPOSE = "extract"
PURPOSE_AGENT = "extract agent"
VERSION = 1
"""Of the prompts: stands in the name of the extractor, so that glosses tell what made them."""

_EARLIER_CHARACTERS = 800
_FEWEST, _PER_TURN, _MOST = 1_500, 500, 16_000  # tokens of a reply


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """What was read of a window. `failed` gives the reason for each turn, by id, of which no reply could be used.

    The draft holds nothing of those, and exactly one gloss for each other turn.
    """

    draft: Draft
    failed: Mapping[str, str] = field(default_factory=dict)


def extractor_name(identity: str) -> str:
    """The name of this extractor with a model, by the model's identity."""
    return f"{identity}/{VERSION}"


async def extract(window: Window, asker: Asker) -> Read:
    """Ask for all that a window says; a window with nothing worth reading costs no call.

    Raises ModelUnavailable, BudgetSpent and ConfigError as the asker does; then nothing was read.
    """
    draft, failed = await _twice(window, asker, _ask)
    if window.agent_id is not None and any(_tells_of_itself(turn) for turn in window.turns):
        own, lost = await _twice(window, asker, _ask_agent)
        draft, failed = _joined([draft, own]), {**failed, **lost}
    return Read(draft=_without(draft, failed), failed=failed)


_Ask = Callable[[Window, Asker, int], Awaitable[Draft]]


async def _twice(window: Window, asker: Asker, ask: _Ask) -> tuple[Draft, dict[str, str]]:
    """The draft of a window, in halves where one reply for all could not be used, and the turns that failed."""
    try:
        return await ask(window, asker, 1), {}
    except BadReply:
        drafts, failed = [], dict[str, str]()
    for half in _halves(window):
        try:
            drafts.append(await ask(half, asker, 2))
        except BadReply as error:
            concerned = half.turns if ask is _ask else filter(speaks_of_itself, half.turns)
            failed |= {turn.id: str(error) for turn in concerned}
    return _joined(drafts), failed


async def _ask(window: Window, asker: Asker, room: int) -> Draft:
    if not any(map(worth_reading, window.turns)):
        return Draft(glosses=tuple(GlossDraft(turn_id=turn.id) for turn in window.turns))
    blocks = load_blocks("agentmem.extraction", "extract.md")
    reply = await asker.ask(_request(window, PURPOSE, blocks, room), Reply)
    return await asyncio.to_thread(drafted, reply, window, blocks["system"])  # it may take a while to check


async def _ask_agent(window: Window, asker: Asker, room: int) -> Draft:
    if not any(map(_tells_of_itself, window.turns)):
        return Draft()
    blocks = load_blocks("agentmem.extraction", "extract_agent.md")
    reply = await asker.ask(_request(window, PURPOSE_AGENT, blocks, room), AgentReply)
    return await asyncio.to_thread(drafted_of_agent, reply, window, blocks["system"])


def _tells_of_itself(turn: Turn) -> bool:
    return speaks_of_itself(turn) and worth_reading(turn)


def _halves(window: Window) -> list[Window]:
    """The window in two, the second with the first before it; a single turn is tried again as it is."""
    middle = len(window.turns) // 2
    if not middle:
        return [window]
    first, second = window.turns[:middle], window.turns[middle:]
    return [replace(window, turns=first), replace(window, turns=second, before=(*window.before, *first))]


def _request(window: Window, purpose: str, blocks: Mapping[str, str], room: int) -> LLMRequest:
    data = json.dumps(_data(window), ensure_ascii=False)
    said = sum(estimated_tokens(turn.searchable()[:LONGEST_READ]) for turn in window.turns)
    tokens = min(_MOST, room * (_FEWEST + _PER_TURN * len(window.turns) + 2 * said))
    return LLMRequest(purpose, blocks["system"], f"{blocks['content']}\n{data}", max_tokens=tokens)


def _data(window: Window) -> dict[str, object]:
    """What the model is given: labels and words, never an id."""
    labels = Labels.of(window)
    entities = window.entities[:KNOWN_ENTITIES]
    return {
        "participants": list(window.participants),
        "known_entities": [{"name": one.name, "type": one.type, "also": list(one.aliases)} for one in entities],
        "known_facts": [{"label": label, "claim": fact.claim} for label, fact in labels.facts.items()],
        "earlier": [_shown(label, turn, _EARLIER_CHARACTERS) for label, turn in labels.earlier.items()],
        "turns": [_shown(label, turn, LONGEST_READ) for label, turn in labels.turns.items()],
    }


def _shown(label: str, turn: Turn, longest: int) -> dict[str, str]:
    at = turn_time(turn)
    shown = {"label": label, "role": turn.role, "speaker": turn.speaker or "", "text": turn.content[:longest]}
    if at is not None:
        shown["date"] = f"{at:%A} {at.date().isoformat()}"
    if turn.searchable() != turn.content:
        shown["shares"] = str(turn.metadata["caption"])[:longest]
    return shown


def _joined(drafts: Iterable[Draft]) -> Draft:
    drafts = list(drafts)
    return Draft(
        facts=tuple(fact for draft in drafts for fact in draft.facts),
        entities=tuple(entity for draft in drafts for entity in draft.entities),
        relations=tuple(relation for draft in drafts for relation in draft.relations),
        glosses=tuple(gloss for draft in drafts for gloss in draft.glosses),
        notes=tuple(note for draft in drafts for note in draft.notes),
    )


def _without(draft: Draft, failed: Mapping[str, str]) -> Draft:
    """The draft without anything of the turns that failed: they are to be read again as a whole."""
    entities = tuple(entity for entity in draft.entities if entity.turn_id not in failed)
    lost = {slug(entity.name) for entity in draft.entities} - {slug(entity.name) for entity in entities}
    return Draft(
        facts=tuple(
            replace(fact, entities=tuple(name for name in fact.entities if slug(name) not in lost))
            for fact in draft.facts
            if fact.turn_id not in failed
        ),
        entities=entities,
        relations=tuple(
            each
            for each in draft.relations
            if each.turn_id not in failed and lost.isdisjoint((slug(each.source), slug(each.target)))
        ),
        glosses=tuple(gloss for gloss in draft.glosses if gloss.turn_id not in failed),
        notes=draft.notes,
    )
