"""How the oldest messages of a buffer become one summary: by a language model, or by their own best sentences."""

from __future__ import annotations

import json
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from pydantic import BaseModel

from agentmem.memory.buffer_messages import Message
from agentmem.providers import LLMRequest
from agentmem.providers.asking import Asker
from agentmem.text.blocks import load_blocks
from agentmem.text.features import features
from agentmem.text.passages import passages
from agentmem.text.words import terms

Summarizer = Callable[[Sequence[Message]], str | Awaitable[str]]
LONGEST = 500  # characters of an extractive summary
TOKENS = 400  # of a model's summary
QUESTION = 0.5  # what a question says, beside a statement of the same words
_ENDS = (".", "!", "?", ":", ";", "\u2026", "\u3002", "\uff01", "\uff1f", "\u061f", "\u0964")
SHOWN = 4_000  # characters of a message that the model is shown


def extractive(messages: Sequence[Message], longest: int = LONGEST) -> str:
    """The sentences that say most, in their order, each part of them once: the same for the same messages.

    A sentence says as much as it has words that no chosen one has, those with figures twice, against the root of its
    length, so that neither short nor long ones are favoured. At most `longest` characters.
    """
    said = [(message.role, part) for message in messages for part in _sentences(message.content, longest // 2)]
    words = [frozenset(terms(sentence)) for _, sentence in said]
    chosen: list[int] = []
    known: frozenset[str] = frozenset()
    room = longest
    while True:
        fresh = {
            at: _weight(words[at] - known)
            for at, (role, text) in enumerate(said)
            if at not in chosen and _length(role, text) <= room
        }
        best = max(fresh, key=lambda at: (_gain(fresh[at], said[at][1]), -at), default=None)
        if best is None or not fresh[best]:
            break
        chosen.append(best)
        known |= words[best]
        room -= _length(*said[best])
    if not chosen:  # no words at all, or no room
        return f"{said[0][0]}: {said[0][1]}"[:longest]
    return _joined([said[at] for at in sorted(chosen)])


def _sentences(text: str, longest: int) -> list[str]:
    whole, *parts = passages(text)
    sentences = [part.text.strip() for part in parts or [whole]]
    return [each if len(each) <= longest else f"{each[: longest - 1]}\u2026" for each in sentences]


def _length(role: str, sentence: str) -> int:
    return len(role) + len(sentence) + 3


def _weight(words: frozenset[str]) -> int:
    return len(words) + sum(any(character.isdigit() for character in word) for word in words)


def _gain(weight: int, sentence: str) -> float:
    read = features(sentence)
    return weight / math.sqrt(read.words + 3) * (QUESTION if read.asks else 1.0)  # + 3: one word is no sentence


def _joined(chosen: Sequence[tuple[str, str]]) -> str:
    out = ""
    for at, (role, sentence) in enumerate(chosen):
        if out:
            out += " " if out.endswith(_ENDS) else "; "
        out += sentence if at and role == chosen[at - 1][0] else f"{role}: {sentence}"
    return out


class _Paragraph(BaseModel):
    summary: str


@dataclass(frozen=True)
class ModelSummarizer:
    """Asks a language model for the summary; raises what asking raises."""

    asker: Asker

    async def __call__(self, messages: Sequence[Message]) -> str:
        """One paragraph."""
        told = [{"role": message.role, "text": message.content[:SHOWN]} for message in messages]
        request = LLMRequest(
            purpose="summary", system=load_blocks("agentmem.memory", "buffer_summary.md")["system"],
            content=json.dumps({"messages": told}, ensure_ascii=False), max_tokens=TOKENS,
        )  # fmt: skip
        return (await self.asker.ask(request, _Paragraph)).summary.strip()
