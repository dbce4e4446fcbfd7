"""An embedder that can be told how to fail; found like any other, once this folder is among the providers'."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np

from agentmem.errors import BadReply, ModelUnavailable
from agentmem.providers import Embedder, EmbedderOptions, Vectors
from agentmem.providers.hash import HashEmbedder


def embedder(model: str, options: EmbedderOptions) -> Embedder:
    """Like `hash`, as long as it is well."""
    return Fickle(options.dimensions or 64, options.timeout)


class Fickle:
    """`mood` is `well`, `away`, `silent` (no answer until the time-out), `odd` (a wrong shape), `mad` (no numbers) or
    `broken` (an error of its own). It takes `seconds` for an answer, and gives a bad reply to texts that hold `poison`.
    `asked` counts requests, `reading` those under way.
    """

    grains = ("whole", "sentence")

    def __init__(self, dimensions: int, timeout: float) -> None:
        self._hash = HashEmbedder(dimensions)
        self._timeout = timeout
        self.dimensions = dimensions
        self.identity = f"fickle:v1:{dimensions}"
        self.mood, self.seconds, self.poison = "well", 0.0, ""
        self.asked = self.reading = 0

    async def embed(self, texts: Sequence[str]) -> Vectors:
        self.asked += 1
        self.reading += 1
        try:
            return await self._answer(texts)
        finally:
            self.reading -= 1

    async def _answer(self, texts: Sequence[str]) -> Vectors:
        if self.mood == "away":
            raise ModelUnavailable("the model is away")
        await asyncio.sleep(self._timeout if self.mood == "silent" else self.seconds)
        if self.mood == "silent":
            raise ModelUnavailable(f"the model did not answer within {self._timeout:g} s")
        if self.mood == "broken":
            raise ValueError("the model fell over")
        if self.poison and any(self.poison in text for text in texts):
            raise BadReply("the model answered with nonsense")
        vectors = await self._hash.embed(texts)
        return vectors[:, 1:] if self.mood == "odd" else vectors * np.nan if self.mood == "mad" else vectors

    async def close(self) -> None:
        await self._hash.close()
