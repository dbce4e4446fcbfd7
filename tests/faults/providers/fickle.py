"""An embedder that can be told how to fail; found like any other, once this folder is among the providers'."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np

from agentmem.errors import InvalidModelOutput, ModelUnavailable
from agentmem.models.protocols import Embedder, EmbedderOptions, Vectors
from agentmem.models.providers.hash import HashEmbedder


def embedder(model: str, options: EmbedderOptions) -> Embedder:
    """Like `hash`, as long as it is well."""
    return FaultyEmbedder(options.dimensions or 64, options.timeout)


class FaultyEmbedder:
    """`mode` is `well`, `away`, `silent` (no answer until the time-out), `odd` (a wrong shape), `mad` (no numbers) or
    `broken` (an error of its own). It takes `delay_seconds` for an answer, and gives a bad reply to texts that hold
    `poison`. `request_count` counts requests, `active_requests` those under way.
    """

    granularities = ("whole", "sentence")

    def __init__(self, dimensions: int, timeout: float) -> None:
        self._hash = HashEmbedder(dimensions)
        self._timeout = timeout
        self.dimensions = dimensions
        self.identity = f"fickle:v1:{dimensions}"
        self.mode, self.delay_seconds, self.poison = "well", 0.0, ""
        self.request_count = self.active_requests = 0

    async def embed(self, texts: Sequence[str]) -> Vectors:
        self.request_count += 1
        self.active_requests += 1
        try:
            return await self._answer(texts)
        finally:
            self.active_requests -= 1

    async def _answer(self, texts: Sequence[str]) -> Vectors:
        if self.mode == "away":
            raise ModelUnavailable("the model is away")
        await asyncio.sleep(self._timeout if self.mode == "silent" else self.delay_seconds)
        if self.mode == "silent":
            raise ModelUnavailable(f"the model did not answer within {self._timeout:g} s")
        if self.mode == "broken":
            raise ValueError("the model fell over")
        if self.poison and any(self.poison in text for text in texts):
            raise InvalidModelOutput("the model answered with nonsense")
        vectors = await self._hash.embed(texts)
        return vectors[:, 1:] if self.mode == "odd" else vectors * np.nan if self.mode == "mad" else vectors

    async def close(self) -> None:
        await self._hash.close()
