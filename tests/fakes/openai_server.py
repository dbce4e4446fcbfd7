"""An embeddings service on this machine that speaks OpenAI's protocol and misbehaves as told."""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.fakes import http_service


@dataclass
class EmbeddingResponse(http_service.ScriptedResponse):
    """Adds what can be wrong with vectors."""

    dimensions: int | None = None
    count: int | None = None
    value: float | None = None
    backwards: bool = False


@dataclass
class FakeEmbeddingService(http_service.FakeHTTPService):
    """Answers with vectors that can be foretold."""

    dimensions: int = 1536

    def vector(self, text: str, dimensions: int) -> list[float]:
        """Not of unit length, and another one for every text."""
        return [float(len(text) + 1), *(float(byte) for byte in text.encode()[:8]), *([0.0] * dimensions)][:dimensions]

    def reply(self, asked: dict[str, Any], answer: Any) -> dict[str, Any]:
        if not isinstance(answer, EmbeddingResponse):
            answer = EmbeddingResponse()
        size = answer.dimensions or asked.get("dimensions") or self.dimensions
        texts = asked["input"][: answer.count]
        vectors = [[answer.value] * size if answer.value is not None else self.vector(text, size) for text in texts]
        if asked.get("encoding_format") == "base64":
            shown: list[Any] = [base64.b64encode(struct.pack(f"<{size}f", *vector)).decode() for vector in vectors]
        else:
            shown = list(vectors)
        data = [{"object": "embedding", "index": index, "embedding": value} for index, value in enumerate(shown)]
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        return {
            "object": "list",
            "model": asked["model"],
            "usage": usage,
            "data": data[::-1] if answer.backwards else data,
        }


@contextmanager
def serve() -> Iterator[FakeEmbeddingService]:
    """Serve on a free port until the block ends."""
    with http_service.serve(FakeEmbeddingService()) as service:
        service.url += "/v1"
        yield service
