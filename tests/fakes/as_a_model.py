"""An embedder as if it were a model: it can only be waited for, so its vectors follow in a transaction of their own."""

from __future__ import annotations

from collections.abc import Sequence

from agentmem.models.protocols import Embedder, Vectors


class AsyncOnlyEmbedder:
    """Answers as the embedder behind it does."""

    def __init__(self, inner: Embedder) -> None:
        self._inner = inner
        self.identity, self.dimensions, self.granularities = inner.identity, inner.dimensions, inner.granularities

    async def embed(self, texts: Sequence[str]) -> Vectors:
        return await self._inner.embed(texts)

    async def close(self) -> None:
        await self._inner.close()
