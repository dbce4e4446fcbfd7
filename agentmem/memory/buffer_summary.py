"""How the oldest messages of a buffer become one summary: by a language model, or by their own best sentences."""

from __future__ import annotations

import json
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from pydantic import BaseModel

from agentmem.memory.buffer_messages import Message
from agentmem.providers import LLMRequest
from agentmem.providers.asking import StructuredLLM
from agentmem.text.blocks import load_templates
from agentmem.text.features import extract_features
from agentmem.text.passages import chunk_text
from agentmem.text.words import tokenize

Summarizer = Callable[[Sequence[Message]], str | Awaitable[str]]
MAX_SUMMARY_CHARS = 500  # characters of an extractive summary
MAX_SUMMARY_TOKENS = 400  # of a model's summary
QUESTION_WEIGHT = 0.5  # what a question says, beside a statement of the same words
_SENTENCE_ENDS = (".", "!", "?", ":", ";", "\u2026", "\u3002", "\uff01", "\uff1f", "\u061f", "\u0964")
MAX_MESSAGE_CHARS = 4_000  # characters of a message that the model is shown


def summarize_extractive(messages: Sequence[Message], max_chars: int = MAX_SUMMARY_CHARS) -> str:
    """The sentences that say most, in their order, each part of them once: the same for the same messages.

    A sentence says as much as it has words that no chosen one has, those with figures twice, against the root of its
    length, so that neither short nor long ones are favoured. At most `max_chars` characters.
    """
    said = [(message.role, part) for message in messages for part in _split_sentences(message.content, max_chars // 2)]
    words = [frozenset(tokenize(sentence)) for _, sentence in said]
    chosen: list[int] = []
    known: frozenset[str] = frozenset()
    room = max_chars
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
        return f"{said[0][0]}: {said[0][1]}"[:max_chars]
    return _join_sentences([said[at] for at in sorted(chosen)])


def _split_sentences(text: str, max_chars: int) -> list[str]:
    whole, *parts = chunk_text(text)
    sentences = [part.text.strip() for part in parts or [whole]]
    return [each if len(each) <= max_chars else f"{each[: max_chars - 1]}\u2026" for each in sentences]


def _length(role: str, sentence: str) -> int:
    return len(role) + len(sentence) + 3


def _weight(words: frozenset[str]) -> int:
    return len(words) + sum(any(character.isdigit() for character in word) for word in words)


def _gain(weight: int, sentence: str) -> float:
    read = extract_features(sentence)
    # + 3: one word is no sentence
    return weight / math.sqrt(read.word_count + 3) * (QUESTION_WEIGHT if read.ends_with_question else 1.0)


def _join_sentences(chosen: Sequence[tuple[str, str]]) -> str:
    out = ""
    for at, (role, sentence) in enumerate(chosen):
        if out:
            out += " " if out.endswith(_SENTENCE_ENDS) else "; "
        out += sentence if at and role == chosen[at - 1][0] else f"{role}: {sentence}"
    return out


class _Paragraph(BaseModel):
    summary: str


@dataclass(frozen=True)
class LLMSummarizer:
    """Asks a language model for the summary; raises what asking raises."""

    llm: StructuredLLM

    async def __call__(self, messages: Sequence[Message]) -> str:
        """One paragraph."""
        told = [{"role": message.role, "text": message.content[:MAX_MESSAGE_CHARS]} for message in messages]
        request = LLMRequest(
            purpose="summary", system=load_templates("agentmem.memory", "buffer_summary.md")["system"],
            content=json.dumps({"messages": told}, ensure_ascii=False), max_tokens=MAX_SUMMARY_TOKENS,
        )  # fmt: skip
        return (await self.llm.ask(request, _Paragraph)).summary.strip()
