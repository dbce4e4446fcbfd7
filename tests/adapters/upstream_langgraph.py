"""A plugin of pytest that puts our store in place of LangGraph's SQLite stores, for their own tests.

See `tests/adapters/upstream.py`.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import ModuleType
from typing import Any

import langgraph.store.memory
import numpy as np
from langchain_core.embeddings import Embeddings
from numpy.typing import NDArray

from agentmem import AgentMemory, AsyncAgentMemory
from agentmem.adapters.langgraph import AgentMemStore


class GivenEmbedder:
    """Embeddings of LangChain as an embedder of ours."""

    granularities = ("whole",)

    def __init__(self, inner: Embeddings, dimensions: int) -> None:
        self.inner, self.dimensions, self.identity = inner, dimensions, f"langchain-{dimensions}"

    async def embed(self, texts: list[str]) -> NDArray[np.float32]:
        vectors = np.array(self.inner.embed_documents(list(texts)), dtype=np.float32).reshape(-1, self.dimensions)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.asarray(vectors / np.where(lengths > 0, lengths, 1), dtype=np.float32)

    async def close(self) -> None:
        """Nothing is open."""


class UpstreamStore(AgentMemStore):
    """Opened as their stores are."""

    __slots__ = ("conn", "embeddings", "index_config")

    def __init__(self, memory: AgentMemory | AsyncAgentMemory, **options: Any) -> None:
        index = options.pop("index", None)
        fields = (index or {}).get("text_fields") or (index or {}).get("fields") or ["$"]
        super().__init__(memory, fields=fields, ttl=options.pop("ttl", None))
        self.index_config, self.embeddings = index, (index or {}).get("embed")

    @classmethod
    @contextmanager
    def from_conn_string(cls, path: str, **options: Any) -> Iterator[UpstreamStore]:
        with tempfile.TemporaryDirectory() as home, AgentMemory("u", home=home, **_embedder(options)) as memory:
            yield cls(memory, **options)

    def setup(self) -> None:
        """The memory is set up."""


class AsyncUpstreamStore(UpstreamStore):
    """The same for coroutines."""

    @classmethod
    @asynccontextmanager
    async def from_conn_string(cls, path: str, **options: Any) -> AsyncIterator[AsyncUpstreamStore]:  # type: ignore[override]
        with tempfile.TemporaryDirectory() as home:
            async with AsyncAgentMemory("u", home=home, **_embedder(options)) as memory:
                yield cls(memory, **options)

    async def setup(self) -> None:  # type: ignore[override]
        """The memory is set up."""

    async def sweep_ttl(self) -> int:  # type: ignore[override]
        return await self.asweep_ttl()


class MemoryStore(UpstreamStore):
    """Made without a file, as their store in memory."""

    def __init__(self, *, index: Any = None, **options: Any) -> None:
        memory = AgentMemory("u", home=tempfile.mkdtemp(), **_embedder({"index": index}))
        super().__init__(memory, index=index, **options)


def _embedder(options: Any) -> dict[str, Any]:
    index = options.get("index")
    return {"embedder": GivenEmbedder(index["embed"], index["dims"]) if index else "hash"}


def _put_in_place() -> None:
    names = {"SqliteStore": UpstreamStore, "AsyncSqliteStore": AsyncUpstreamStore, "BaseSqliteStore": UpstreamStore}
    for name in ("langgraph.store.sqlite", "langgraph.store.sqlite.base", "langgraph.store.sqlite.aio"):
        module = ModuleType(name)
        for key, value in {**names, "SqliteIndexConfig": dict}.items():
            setattr(module, key, value)
        for key in ("NS_MATCH_FUNCTION", "_escape_glob_literal", "_namespace_match_pattern"):
            setattr(module, key, None)  # of their SQL: the tests of these cannot pass
        sys.modules[name] = module
    langgraph.store.memory.InMemoryStore = MemoryStore  # type: ignore[misc,assignment]


_put_in_place()
