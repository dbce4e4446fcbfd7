"""How a buffer is searched: what lies near the query, and how new it is, weighed against each other."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from agentmem.errors import InvalidModelOutput, InvalidRecord
from agentmem.events import WARNING, log_event
from agentmem.model.loop import BACKGROUND_LOOP
from agentmem.providers import Embedder

Vector = NDArray[np.float32]
Scores = NDArray[np.float64]
MAX_QUERY_CHARS = 10_000


class EmbeddingCache:
    """Vectors by their text, the last used `size` of them; what is missing is embedded, once.

    Works from many threads. A text that the embedder cannot read has None in place of a vector.
    """

    def __init__(self, embedder: Embedder, size: int) -> None:
        self.embedder = embedder
        self._size = size
        self._vectors: OrderedDict[str, Vector | None] = OrderedDict()
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
            for text, vector in vectors.items():
                self._vectors[text] = vector
                self._vectors.move_to_end(text)
            while len(self._vectors) > self._size:
                self._vectors.popitem(last=False)

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
    """By place; NaN where there is no vector."""
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
    if not isinstance(query, str) or not query.strip() or len(query) > MAX_QUERY_CHARS:
        got = f"{len(query):,} characters" if isinstance(query, str) else type(query).__name__
        raise InvalidRecord(f"query must be text of 1 to {MAX_QUERY_CHARS:,} characters, got {got}", field="query")


def check_recency_bias(given: object) -> float:
    """A recency bias; InvalidRecord for what is not within 0 and 1."""
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given <= 1:
        raise InvalidRecord(f"recency_bias must be within 0 and 1, got {given!r}", field="recency_bias")
    return float(given)


def normalize_query_vector(given: ArrayLike, dimensions: int | None) -> Vector:
    """A query's vector with length 1; InvalidRecord for what is no vector, or not one of the embedder's."""
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
