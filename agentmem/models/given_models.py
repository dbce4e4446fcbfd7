"""Models that a program hands over itself: objects of the protocols, or plain async functions."""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import numpy as np

from agentmem.errors import ConfigError, InvalidModelOutput
from agentmem.models.protocols import LLM, Embedder, LLMReply, LLMRequest, Reranker, Vectors
from agentmem.settings.settings import Settings
from agentmem.text.tokenizer import estimate_tokens

_SCHEMA_PROMPT = "Answer with one JSON object and nothing else. It must follow this JSON schema:"


def is_given(model: object, settings: Settings) -> bool:
    """Whether this very object was handed over: then its owner closes it."""
    return any(model is each for each in settings.model_objects.values())


def to_llm(identity: str, given: Any) -> LLM:
    """The object itself, or one that awaits `given(system, content)` for the text of the reply."""
    found: LLM = _choose(given, "llm", "complete", lambda function: FunctionLLM(identity, function))
    return found


def to_reranker(identity: str, given: Any) -> Reranker:
    """The object itself, or one that awaits `given(query, texts)` for a score of each text."""
    found: Reranker = _choose(given, "reranker", "score", lambda function: FunctionReranker(identity, function))
    return found


def to_embedder(identity: str, given: Any, dimensions: int | None) -> Embedder:
    """The object itself, or one that awaits `given(texts)` for a vector of each text.

    Raises ConfigError for a function whose vectors have no known length.
    """

    def wrap(function: Callable[..., Awaitable[Any]]) -> Embedder:
        if dimensions is None:
            raise ConfigError("embedder: how long are the vectors of this function? set dimensions")
        return FunctionEmbedder(f"{identity}:{dimensions}", dimensions, function)

    found: Embedder = _choose(given, "embedder", "embed", wrap)
    return found


def _choose(given: Any, kind: str, method: str, wrap: Callable[[Any], Any]) -> Any:
    if not inspect.isclass(given) and callable(getattr(given, method, None)):
        return given
    if inspect.iscoroutinefunction(given) or inspect.iscoroutinefunction(getattr(given, "__call__", None)):  # noqa: B004
        return wrap(given)
    raise ConfigError(f"{kind}: must be a name, an object with {method}(), or an async function")


class _FunctionModel:
    def __init__(self, identity: str, function: Callable[..., Awaitable[Any]]) -> None:
        self.identity = identity
        self._function = function

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.identity!r})"

    async def close(self) -> None:
        """The function is its owner's."""


class FunctionLLM(_FunctionModel):
    """See `LLM`. A schema is put into the system part; tokens are estimated."""

    async def complete(self, request: LLMRequest) -> LLMReply:
        """See `LLM.complete`."""
        system = request.system
        if request.schema is not None:
            system = f"{system}\n\n{_SCHEMA_PROMPT}\n{json.dumps(dict(request.schema))}".lstrip()
        text = await self._function(system, request.content)
        if not isinstance(text, str) or not text.strip():
            raise InvalidModelOutput(f"{self.identity}: {request.purpose}: the reply is not text, or empty")
        read, written = estimate_tokens(system + request.content), estimate_tokens(text)
        return LLMReply(text, read, 0, written, self.identity)


class FunctionReranker(_FunctionModel):
    """See `Reranker`."""

    async def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """See `Reranker.score`."""
        return [float(score) for score in await self._function(query, texts)] if texts else []


class FunctionEmbedder(_FunctionModel):
    """See `Embedder`."""

    granularities: tuple[str, ...] = ("whole", "sentence")

    def __init__(self, identity: str, dimensions: int, function: Callable[..., Awaitable[Any]]) -> None:
        super().__init__(identity, function)
        self.dimensions = dimensions

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """See `Embedder.embed`. Vectors are brought to unit length."""
        if not texts:
            return np.empty((0, self.dimensions), np.float32)
        try:
            vectors = np.asarray(await self._function(list(texts)), dtype=np.float32)
        except (TypeError, ValueError):
            raise InvalidModelOutput(f"{self.identity} answered with something else than vectors") from None
        if vectors.shape != (len(texts), self.dimensions):
            raise InvalidModelOutput(f"{self.identity} answered with vectors of the shape {vectors.shape}")
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not np.isfinite(lengths).all() or not lengths.all():
            raise InvalidModelOutput(f"{self.identity} answered with vectors that have no direction")
        return np.asarray(vectors / lengths, dtype=np.float32)
