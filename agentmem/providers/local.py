"""Sentence embedders on this machine through onnxruntime: `local:all-MiniLM-L6-v2`, a folder, or a hub name.

`local:<name>@<variant>` picks one of several graphs (`onnx/model_<variant>.onnx`), or `fp32` instead of `int8` where
the graph is built here. Constructing is cheap; the first text loads the model, in a thread of its own.
"""

from __future__ import annotations

import asyncio
import importlib.util
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np

from agentmem.errors import Closed, ConfigError
from agentmem.providers import Embedder, EmbedderOptions, TokenVectors, Vectors
from agentmem.providers import model_folder as folders
from agentmem.providers.rerankers import Reranker, RerankerOptions
from agentmem.providers.sentence_model import SentenceModel
from agentmem.providers.token_projection import pack, projection

_Result = TypeVar("_Result")

_CHUNK_TEXTS, _CHUNK_CHARACTERS = 8, 1500
"""Work handed over at a time, some 20 to 40 ms: a query waits no longer than that behind an import."""
_FIXED_CHARACTERS = 40
"""What reading an empty text costs, in characters of a longer one."""


def embedder(model: str, options: EmbedderOptions) -> Embedder:
    """Open a local model, all-MiniLM-L6-v2 when none is named.

    Raises ConfigError for a folder without a model, an impossible name, or dimensions the model does not have.
    """
    name, _, variant = (model or folders.DEFAULT_MODEL).partition("@")
    folder = folders.find(name, variant, options.models)
    if folder:
        _check_dimensions(model, folder, options)
    if folder and folders.is_path(name):
        name = str(folder.path)
    # What is not here yet is most likely an ordinary export, which gives its last hidden states.
    kind = LocalTokenEmbedder if folder is None or folder.gives_tokens() else LocalEmbedder
    return kind(f"{name}@{variant}" if variant else name, folder, options)


def reranker(model: str, options: RerankerOptions) -> Reranker:
    """A cross-encoder: a folder with an ONNX graph, or a hub name with its owner. Raises ConfigError for neither."""
    from agentmem.providers.local_reranker import LocalReranker

    return LocalReranker(model, options)


def is_ready(options: EmbedderOptions) -> bool:
    """Whether the default model can be used at once: weights and libraries are there. Looks at files only."""
    needed = ["onnxruntime", "tokenizers"]
    folder = folders.find(folders.DEFAULT_MODEL, "", options.models)
    if folder and not folder.graph():
        needed.append("onnx")
    return folder is not None and all(importlib.util.find_spec(name) for name in needed)


class LocalEmbedder:
    """See `Embedder`. Each text is read by itself, so its vector never depends on its company."""

    def __init__(self, model: str, folder: folders.ModelFolder | None, options: EmbedderOptions) -> None:
        self._model = model
        self._folder = folder
        self._options = options
        self._threads = max(1, options.threads)
        self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="agentmem-local")
        self._loading = threading.Lock()
        self._loaded: SentenceModel | None = None
        self._closed = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._model!r})"

    @property
    def identity(self) -> str:
        """`local:model:dimensions`. Downloads a hub model that is not here yet, unless its dimensions were given."""
        return f"local:{self._model}:{self.dimensions}"

    @property
    def dimensions(self) -> int:
        found = self._options.dimensions or self._found().dimensions
        if not found:
            raise ConfigError(f"local:{self._model} does not state its dimensions; write local:{self._model}:384 or so")
        return found

    @property
    def grains(self) -> tuple[str, ...]:
        return ("whole", "sentence")

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """See `Embedder.embed`; the first tokens of a long text count. Raises Closed after `close`.

        ModelUnavailable: the weights are not here and cannot be fetched. ConfigError: a library or a usable model is
        missing.
        """
        return self._stacked(await self._each(texts, lambda model, text: model.read(text).vector))

    async def close(self) -> None:
        """Let go of the model; what is being read is finished first."""
        self._closed = True
        await asyncio.to_thread(self._pool.shutdown)
        self._loaded = None

    async def _each(self, texts: Sequence[str], read: Callable[[SentenceModel, str], _Result]) -> list[_Result]:
        """`read(model, text)` of every text, in order; equal texts are read once."""
        self._check_open()
        unique = list(dict.fromkeys(texts))
        found = await asyncio.gather(*(self._lane(lane, read) for lane in _lanes(unique, self._threads)))
        known = {text: result for lane in found for text, result in lane.items()}
        return [known[text] for text in texts]

    async def _lane(self, texts: list[str], read: Callable[[SentenceModel, str], _Result]) -> dict[str, _Result]:
        def work(chunk: list[str]) -> dict[str, _Result]:
            model = self._ready()
            return {text: read(model, text) for text in chunk}

        found: dict[str, _Result] = {}
        for chunk in _chunks(texts):
            self._check_open()
            found |= await asyncio.get_running_loop().run_in_executor(self._pool, work, chunk)
        return found

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("the embedder was closed")

    def _ready(self) -> SentenceModel:
        if self._loaded is None:
            with self._loading:
                if self._loaded is None:
                    self._loaded = SentenceModel(self._found(), self._options.models, dimensions=self.dimensions)
        return self._loaded

    def _found(self) -> folders.ModelFolder:
        if self._folder is None:
            name, _, variant = self._model.partition("@")
            models = self._options.models
            found = folders.find(name, variant, models) or folders.download(name, variant, models)
            _check_dimensions(self._model, found, self._options)
            self._folder = found
        return self._folder

    def _stacked(self, vectors: list[Vectors]) -> Vectors:
        return np.stack(vectors) if vectors else np.empty((0, self.dimensions), np.float32)


class LocalTokenEmbedder(LocalEmbedder):
    """See `TokenEmbedder`; for graphs that also give their last hidden states."""

    _matrix: Vectors | None = None

    async def embed_tokens(self, texts: Sequence[str]) -> tuple[Vectors, list[TokenVectors]]:
        """See `TokenEmbedder.embed_tokens`. The first call on a machine also fits the model's matrix, some 4 s."""
        matrix = await self._projection()

        def read(model: SentenceModel, text: str) -> tuple[Vectors, TokenVectors]:
            reading = model.read(text, tokens=True)
            return reading.vector, TokenVectors(reading.ids, pack(reading.states, matrix))

        found = await self._each(texts, read)
        return self._stacked([vector for vector, _ in found]), [tokens for _, tokens in found]

    async def _projection(self) -> Vectors:
        self._check_open()
        if self._matrix is None:
            loop = asyncio.get_running_loop()
            self._matrix = await loop.run_in_executor(
                self._pool, lambda: projection(self._ready(), self._options.models)
            )
        return self._matrix


def _check_dimensions(model: str, folder: folders.ModelFolder, options: EmbedderOptions) -> None:
    if folder.dimensions and options.dimensions not in (None, folder.dimensions):
        raise ConfigError(f"embedder local:{model} has {folder.dimensions} dimensions, not {options.dimensions}")


def _lanes(texts: list[str], most: int) -> list[list[str]]:
    """The texts in so many parts that take about as long as one another: the longest first, to who has least."""
    lanes: list[list[str]] = [[] for _ in range(min(most, len(texts)))]
    loads = [0] * len(lanes)
    for text in sorted(texts, key=len, reverse=True):
        least = loads.index(min(loads))
        lanes[least].append(text)
        loads[least] += len(text) + _FIXED_CHARACTERS
    return lanes


def _chunks(texts: list[str]) -> Iterator[list[str]]:
    chunk: list[str] = []
    size = 0
    for text in texts:
        if chunk and (len(chunk) == _CHUNK_TEXTS or size + len(text) > _CHUNK_CHARACTERS):
            yield chunk
            chunk, size = [], 0
        chunk.append(text)
        size += len(text)
    if chunk:
        yield chunk
