"""Searching the messages at hand by likeness and recency, and summing up old ones."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import BaseModel, ConfigDict, Field

from agentmem.core.event_loop import BACKGROUND_LOOP
from agentmem.core.lru import LruDict
from agentmem.core.plain_values import copy_json, describe_value, has_visible
from agentmem.core.record import Text, UtcDatetime
from agentmem.core.telemetry import WARNING, log_event
from agentmem.errors import InvalidModelOutput, InvalidRecord
from agentmem.models.protocols import Embedder, LLMRequest
from agentmem.models.structured_llm import StructuredLLM
from agentmem.text.chunking import chunk_text
from agentmem.text.templates import load_templates
from agentmem.text.tokenizer import extract_features, tokenize

SUMMARY_ROLE = "summary"

Vector = NDArray[np.float32]
Scores = NDArray[np.float64]
MAX_QUERY_CHARS = 10_000

MAX_SUMMARY_CHARS = 500  # characters of an extractive summary
MAX_SUMMARY_TOKENS = 400  # of a model's summary
QUESTION_WEIGHT = 0.5  # what a question says, beside a statement of the same words
_SENTENCE_ENDS = (".", "!", "?", ":", ";", "\u2026", "\u3002", "\uff01", "\uff1f", "\u061f", "\u0964")
MAX_MESSAGE_CHARS = 4_000  # characters of a message that the model is shown


class Message(BaseModel):
    """One message, verbatim, or a summary (role `summary`) of those that `covers` names.

    `number` counts what the buffer was ever given, from 1; a summary bears the number of the last message in it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    role: str = Field(min_length=1, max_length=20)
    content: Text
    timestamp: UtcDatetime
    metadata: dict[str, Any] = Field(default_factory=dict)
    number: int = Field(default=0, ge=0)
    covers: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class MessageMatch:
    """A message that a search found, its score, and what that is made of.

    `semantic` is the cosine with the query, None where nothing could be compared; `recency` is 1 for the newest.
    """

    message: Message
    score: float
    semantic: float | None
    recency: float


def to_json_dict(value: Mapping[str, Any] | None, field: str = "metadata") -> dict[str, Any]:
    """A copy of a mapping as JSON has it; InvalidRecord naming the field for what JSON cannot hold."""
    if value is not None and not isinstance(value, Mapping):
        raise InvalidRecord(f"{field} must be a mapping, got {type(value).__name__}", field=field)
    copied: dict[str, Any] = copy_json(value or {}, field)
    return copied


def matches_metadata(metadata: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether every wanted entry is there with the same value; true and 1 are not the same."""
    return all(name in metadata and _is_same_json(metadata[name], value) for name, value in wanted.items())


def _is_same_json(one: Any, other: Any) -> bool:
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def build_summary_message(batch: Sequence[Message], text: str) -> Message:
    """The message that replaces messages; its metadata is what all of them have in common."""
    first, *rest = batch
    shared = {
        name: value
        for name, value in first.metadata.items()
        if all(matches_metadata(m.metadata, {name: value}) for m in rest)
    }
    last = batch[-1]
    return Message(
        role=SUMMARY_ROLE,
        content=text,
        timestamp=last.timestamp,
        metadata=shared,
        number=last.number,
        covers=(first.number, last.number),
    )


def check_positive_int(value: object, field: str) -> int:
    """The whole number, which must be 1 or more; InvalidRecord naming the field otherwise."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidRecord(f"{field} must be a whole number from 1, got {describe_value(value)}", field=field)
    return value


class EmbeddingCache:
    """Vectors by their text, the last used `size` of them; what is missing is embedded, once.

    Works from many threads. A text that the embedder cannot read has None in place of a vector.
    """

    def __init__(self, embedder: Embedder, size: int) -> None:
        self.embedder = embedder
        self._vectors: LruDict[str, Vector | None] = LruDict(size)
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._vectors)

    def find_cached(self, texts: Sequence[str]) -> dict[str, Vector | None]:
        """What is kept of these texts."""
        with self._lock:
            found = {text: self._vectors[text] for text in dict.fromkeys(texts) if text in self._vectors}
            for text in found:
                self._vectors.move_to_end(text)
        return found

    def add(self, vectors: Mapping[str, Vector | None]) -> None:
        """Add vectors; the longest unused ones make room."""
        with self._lock:
            self._vectors.update(vectors)

    def get_or_embed(self, texts: Sequence[str]) -> list[Vector | None]:
        """A unit vector for each text. Raises ModelUnavailable when the embedder cannot be reached."""
        found = self.find_cached(texts)
        missing = [text for text in dict.fromkeys(texts) if text not in found]
        if missing:  # without a lock: a model takes its time, and at worst two threads ask for the same
            fresh = BACKGROUND_LOOP.run(embed_texts(self.embedder, missing))
            self.add(fresh)
            found |= fresh
        return [found[text] for text in texts]


async def embed_texts(embedder: Embedder, texts: Sequence[str]) -> dict[str, Vector | None]:
    """A unit vector by text, None for a text that the embedder cannot read. Raises ModelUnavailable when it is away."""
    try:
        rows = np.asarray(await embedder.embed(texts), dtype=np.float32)
        if rows.shape != (len(texts), embedder.dimensions) or not np.isfinite(rows).all():
            raise InvalidModelOutput(f"{embedder.identity} gave no {len(texts)} vectors of finite numbers")
    except InvalidModelOutput as error:
        if len(texts) == 1:
            log_event(WARNING, "text_not_embedded", embedder=embedder.identity, error=type(error).__name__)
            return {texts[0]: None}
        half = len(texts) // 2  # so that one text that cannot be read costs the others nothing
        return {**await embed_texts(embedder, texts[:half]), **await embed_texts(embedder, texts[half:])}
    return dict(zip(texts, rows, strict=True))


def recency(count: int) -> Scores:
    """By place, oldest first: 1 for the newest, then less by 1 / count with each older one."""
    return 1.0 - np.arange(count - 1, -1, -1) / max(1, count)


def cosines(query: Vector, vectors: Sequence[Vector | None]) -> Scores:
    """By index; NaN where there is no vector."""
    out = np.full(len(vectors), np.nan)
    there = [at for at, vector in enumerate(vectors) if vector is not None]
    if there:
        out[there] = np.stack([vector for vector in vectors if vector is not None]) @ query
    return np.clip(np.round(out, 4), -1.0, 1.0)


def blend_scores(semantic: Scores, newness: Scores, bias: float) -> Scores:
    """(1 - bias) · semantic + bias · recency; what could not be compared counts as unlike."""
    return (1.0 - bias) * np.nan_to_num(semantic, nan=0.0) + bias * newness


def check_query(query: object) -> None:
    """Raise InvalidRecord unless a query is text of 1 to 10,000 characters."""
    if not isinstance(query, str) or not has_visible(query) or len(query) > MAX_QUERY_CHARS:
        got = f"{len(query):,} characters" if isinstance(query, str) else type(query).__name__
        raise InvalidRecord(f"query must be text of 1 to {MAX_QUERY_CHARS:,} characters, got {got}", field="query")


def check_recency_bias(given: object) -> float:
    """A recency bias; InvalidRecord for what is not within 0 and 1."""
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given <= 1:
        raise InvalidRecord(f"recency_bias must be within 0 and 1, got {describe_value(given)}", field="recency_bias")
    return float(given)


def normalize_query_vector(given: ArrayLike, dimensions: int | None) -> Vector:
    """A query's vector with length 1; InvalidRecord for other values, or for another embedder's vector."""
    try:
        vector = np.asarray(given, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise InvalidRecord(f"query_vector must be numbers: {error}", field="query_vector") from error
    length = float(np.linalg.norm(vector)) if vector.ndim == 1 else 0.0
    if not np.isfinite(length) or length == 0 or dimensions not in (None, len(vector)):
        raise InvalidRecord(
            f"query_vector must be {dimensions or 'some'} finite numbers, not all zero, got shape {vector.shape}",
            field="query_vector",
        )
    return np.asarray(vector / np.float32(length), dtype=np.float32)


Summarizer = Callable[[Sequence[Message]], str | Awaitable[str]]


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
    # + 3: one word is not a sentence
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
            purpose="summary",
            system=load_templates("agentmem.memory.working", "buffer_search.md")["system"],
            content=json.dumps({"messages": told}, ensure_ascii=False),
            max_tokens=MAX_SUMMARY_TOKENS,
        )
        return (await self.llm.ask(request, _Paragraph)).summary.strip()
