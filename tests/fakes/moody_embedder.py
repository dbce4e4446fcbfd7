"""The lexical embedder, which can be away, refuse a text, and counts what it was asked."""

from __future__ import annotations

from collections.abc import Sequence

from agentmem.errors import InvalidModelOutput, ModelUnavailable
from agentmem.models.protocols import Vectors
from agentmem.models.providers.hash import HashEmbedder


class FlakyEmbedder:
    """`unavailable` makes it unavailable; it cannot read a text that holds `poison`. `texts` are the texts it was
    given.

    It stands for a model, so it can only be waited for.
    """

    def __init__(self, *, unavailable: bool = False, poison: str = "\0") -> None:
        self._hash = HashEmbedder(128)
        self.identity, self.dimensions, self.granularities = (
            self._hash.identity,
            self._hash.dimensions,
            self._hash.granularities,
        )
        self.unavailable = unavailable
        self.poison = poison
        self.texts: list[str] = []
        self.closed = False

    async def embed(self, texts: Sequence[str]) -> Vectors:
        self.texts += texts
        if self.unavailable:
            raise ModelUnavailable("the model is away")
        if any(self.poison in text for text in texts):
            raise InvalidModelOutput("the model cannot read this")
        return await self._hash.embed(texts)

    async def close(self) -> None:
        self.closed = True
        await self._hash.close()
