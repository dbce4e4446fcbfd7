"""Models behind protocols; one file per vendor, each the only importer of its SDK, found by its name.

A provider module `agentmem/models/providers/<vendor>.py` offers embeddings by defining
`def embedder(model: str, options: EmbedderOptions) -> Embedder`, and a language model by defining
`def llm(model: str, options: LLMOptions) -> LLM`. `open_embedder("vendor:model", options)` and `open_llm` import the
module by that name and call it, so that a new vendor is one new file.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from agentmem.core.telemetry import WARNING, log_event

if TYPE_CHECKING:
    from pydantic import BaseModel

MAX_LOGGED_CHARS = 500
MAX_REPLY_BYTES = 1_000_000
LOG_HINT = "the setting log_model_errors logs"

Vectors = NDArray[np.float32]
R = TypeVar("R", bound="BaseModel")


@dataclass(frozen=True, slots=True)
class EmbedderOptions:
    """What any embedder may need; secrets never show in repr.

    `models_dir` is the folder of local weights and built graphs, `threads` how many texts a local model reads at a
    time, `timeout` seconds for one request, `max_attempts` how often a request is sent at most, `dimensions` the length
    of the vectors where the model leaves a choice, `base_url` and `api_key` where and as whom a remote model is asked
    (None: as its SDK finds them in the environment). `given` are models that were
    handed over. `log_errors` logs what a failing model says; see `log_model_error`.
    """

    models_dir: Path
    threads: int = 1
    timeout: float = 60.0
    max_attempts: int = 3
    dimensions: int | None = None
    base_url: str | None = field(default=None, repr=False)
    api_key: str | None = field(default=None, repr=False)
    log_errors: bool = False
    given: Mapping[str, Any] = field(default_factory=dict, repr=False)


class Embedder(Protocol):
    """Text becomes unit vectors.

    `identity` is `vendor:model:dimensions`; vectors of different identities are never compared.
    `granularities` names what is worth embedding: `whole` texts, and `sentence` parts where the model gains by them.
    """

    @property
    def identity(self) -> str:
        """Which model this is."""
        ...

    @property
    def dimensions(self) -> int:
        """How many numbers a vector has."""
        ...

    @property
    def granularities(self) -> tuple[str, ...]:
        """What is worth embedding: `whole`, and `sentence` where parts help."""
        ...

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors, shape (len(texts), dimensions), float32, in the order given; shape (0, dimensions) for none.

        Raises ModelUnavailable when the model cannot be reached (try again later) and InvalidModelOutput when it
        answered with something unusable.
        """
        ...

    async def close(self) -> None:
        """Let go of what is held; the work under way is finished or given up."""
        ...


@dataclass(frozen=True, slots=True)
class TokenVectors:
    """Word pieces of one text without the special ones.

    `ids` has shape (n,), int32; `vectors` shape (n, 64), int8: unit vectors in 64 dimensions times 256, cut to
    -127..127.
    """

    ids: NDArray[np.int32]
    vectors: NDArray[np.int8]


@runtime_checkable
class TokenEmbedder(Protocol):
    """An embedder whose forward pass also gives a vector per word piece (late interaction; recall profile `best`)."""

    async def embed_tokens(self, texts: Sequence[str]) -> tuple[Vectors, list[TokenVectors]]:
        """Unit vectors as `embed`, and for each text its word pieces without the special ones, from the same pass.

        Raises ConfigError when the model turns out to give no vectors per word piece, and what `embed` raises.
        """
        ...


class SyncEmbedder(ABC):
    """An embedder without a model: it computes vectors in microseconds and neither waits nor loads.

    So the log may compute them in its own transaction, where a model must never be called. Not a protocol, because a
    method's name alone cannot promise that.
    """

    @abstractmethod
    def embed_sync(self, texts: Sequence[str]) -> Vectors:
        """The same as `embed`, on the calling thread. Thread-safe."""


@dataclass(frozen=True, slots=True)
class LLMOptions:
    """What any language model may need; secrets never show in repr.

    `timeout` seconds for one request, `max_attempts` how often a request is sent at most, `concurrency` how many
    requests a `StructuredLLM` keeps under way, `base_url` and `api_key` where and as whom a remote model is asked
    (None: as its SDK finds them in the environment). `work_dir` is where a program works, `log_errors` as in
    `EmbedderOptions`.
    """

    timeout: float = 60.0
    max_attempts: int = 3
    concurrency: int = 4
    base_url: str | None = field(default=None, repr=False)
    api_key: str | None = field(default=None, repr=False)
    work_dir: Path | None = None
    log_errors: bool = False


@dataclass(frozen=True, slots=True)
class LLMRequest:
    """One question to a language model. Neither prompt shows in repr.

    `purpose` says what it is for, as in "extract", in accounts and errors. `system` is the fixed part of the prompt,
    which vendors that can keep in a cache, `content` the variable part. `schema` is the JSON schema of the reply, None
    for plain text. `max_tokens` bounds the reply, including what a model thinks before it; `temperature` is the
    vendor's own when None, or when the vendor lets nobody choose.
    """

    purpose: str
    system: str = field(repr=False)
    content: str = field(repr=False)
    schema: Mapping[str, Any] | None = field(default=None, repr=False)
    max_tokens: int = 1024
    temperature: float | None = None


@dataclass(frozen=True, slots=True)
class LLMReply:
    """What a language model answered, and what was used up: `cached_tokens` of the input came from a cache.

    `is_truncated`: it was cut off at `max_tokens`; only a request with a schema is answered so.
    """

    text: str = field(repr=False)
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    model: str
    is_truncated: bool = False


class LLM(Protocol):
    """A language model that answers one request at a time and remembers nothing. `identity` is `vendor:model`."""

    @property
    def identity(self) -> str:
        """Which model this is."""
        ...

    async def complete(self, request: LLMRequest) -> LLMReply:
        """The whole answer; its text is not empty, and not yet known to follow the schema.

        Raises ModelUnavailable when the model cannot be reached, is overloaded, too slow or out of quota (try again
        later), InvalidModelOutput when it answered with something unusable (cut off at `max_tokens`, refused, empty),
        ConfigError when the key was refused or the model is unknown, and Closed after `close`.
        """
        ...

    async def close(self) -> None:
        """Let go of what is held; the work under way is finished or given up."""
        ...


def parse_dimensions(identity: str) -> int:
    """How many numbers the vectors of an embedder have, by its identity."""
    return int(identity.rpartition(":")[2])


def log_model_error(options: EmbedderOptions | LLMOptions, model: str, text: str) -> None:
    """Log the beginning of what a failing model said, where the setting `log_model_errors` asks for it.

    Nothing else does: the text may repeat the user's words or the key.
    """
    if options.log_errors:
        log_event(WARNING, "model_error_text", model=model, text=text[:MAX_LOGGED_CHARS])


class LLMAsker(Protocol):
    """Asks a language model and returns its reply as a model of pydantic; `StructuredLLM` is one."""

    async def ask(self, request: LLMRequest, reply_type: type[R]) -> R:
        """The reply as a `reply_type`. Raises BudgetExceeded, InvalidModelOutput, and what `LLM.complete` raises."""
        ...


class Reranker(Protocol):
    """Gives each text a score for a question, higher for better; scores of different questions are not comparable.

    `identity` is `vendor:model`.
    """

    @property
    def identity(self) -> str:
        """Which model this is."""
        ...

    async def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """A finite score for each text, in order; [] for none.

        Raises ModelUnavailable when the model cannot be reached (try again later), InvalidModelOutput when it answered
        with something unusable, ConfigError when it cannot be used as it is set up, and Closed after `close`.
        """
        ...

    async def close(self) -> None:
        """Let go of what is held; the work under way is finished or given up."""
        ...


@dataclass(frozen=True, slots=True)
class RerankerOptions:
    """What any reranker may need: `models_dir` is the folder of local weights, `threads` how many texts a local model
    reads at a time, `llm_factory` gives what asks the language model, None for none."""

    models_dir: Path
    threads: int = 1
    llm_factory: Callable[[], LLMAsker | None] = lambda: None
