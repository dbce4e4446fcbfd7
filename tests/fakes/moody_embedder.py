"""The lexical embedder, which can be away, refuse a text, and counts what it was asked."""

from __future__ import annotations

from collections.abc import Sequence

from agentmem.errors import BadReply, ModelUnavailable
from agentmem.providers import Vectors
from agentmem.providers.hash import HashEmbedder


class MoodyEmbedder(HashEmbedder):
    """`away` makes it unavailable; it cannot read a text that holds `poison`. `asked` are the texts it was given."""

    def __init__(self, *, away: bool = False, poison: str = "\0") -> None:
        super().__init__(128)
        self.away = away
        self.poison = poison
        self.asked: list[str] = []
        self.closed = False

    async def embed(self, texts: Sequence[str]) -> Vectors:
        self.asked += texts
        if self.away:
            raise ModelUnavailable("the model is away")
        if any(self.poison in text for text in texts):
            raise BadReply("the model cannot read this")
        return await super().embed(texts)

    async def close(self) -> None:
        self.closed = True
        await super().close()
