"""Sentence embedders on this machine through onnxruntime: `local:all-MiniLM-L6-v2`, a folder, or a hub name.

`local:<name>@<variant>` picks one of several graphs (`onnx/model_<variant>.onnx`), or `fp32` instead of `int8` where
the graph is built here. Constructing is cheap; the first text loads the model, in a thread of its own.
"""

from __future__ import annotations

import asyncio
import importlib.util
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from agentmem.errors import Closed, ConfigError
from agentmem.providers import Embedder, EmbedderOptions, TokenVectors, Vectors
from agentmem.providers import model_folder as folders
from agentmem.providers.sentence_model import Reading, SentenceModel
from agentmem.providers.token_projection import pack, projection

_CHUNK_TEXTS, _CHUNK_CHARACTERS = 8, 1500
"""Work handed over at a time, some 20 to 40 ms: a query waits no longer than that behind an import."""


def embedder(model: str, options: EmbedderOptions) -> Embedder:
    """Open a local model, all-MiniLM-L6-v2 when none is named.

    Raises ConfigError for a folder without a model, an impossible name, or dimensions the model does not have.
    """
    name, _, variant = (model or folders.DEFAULT_MODEL).partition("@")
    folder = folders.find(name, variant, options.models)
    if folder and folder.dimensions and options.dimensions not in (None, folder.dimensions):
        raise ConfigError(f"embedder local:{model} has {folder.dimensions} dimensions, not {options.dimensions}")
    if folder and folders.is_path(name):
        name = str(folder.path)
    # What is not here yet is most likely an ordinary export, which gives its last hidden states.
    kind = LocalTokenEmbedder if folder is None or folder.gives_tokens() else LocalEmbedder
    return kind(f"{name}@{variant}" if variant else name, folder, options)


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
        return self._stacked(await self._read(texts))

    async def close(self) -> None:
        """Let go of the model; what is being read is finished first."""
        self._closed = True
        await asyncio.to_thread(self._pool.shutdown)
        self._loaded = None

    async def _read(self, texts: Sequence[str], *, tokens: bool = False) -> list[Reading]:
        if self._closed:
            raise Closed("the embedder was closed")
        if not texts:
            return []
        unique = list(dict.fromkeys(texts))
        lanes = [unique[start :: self._threads] for start in range(min(self._threads, len(unique)))]
        read = await asyncio.gather(*(self._lane(lane, tokens) for lane in lanes))
        known = {text: reading for found in read for text, reading in found.items()}
        return [known[text] for text in texts]

    async def _lane(self, texts: list[str], tokens: bool) -> dict[str, Reading]:
        loop = asyncio.get_running_loop()
        found: dict[str, Reading] = {}
        for chunk in _chunks(texts):
            readings = await loop.run_in_executor(self._pool, self._chunk, chunk, tokens)
            found.update(zip(chunk, readings, strict=True))
        return found

    def _chunk(self, texts: list[str], tokens: bool) -> list[Reading]:
        model = self._ready()
        return [model.read(text, tokens=tokens) for text in texts]

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
            self._folder = folders.find(name, variant, models) or folders.download(name, variant, models)
        return self._folder

    def _stacked(self, readings: list[Reading]) -> Vectors:
        return np.stack([reading.vector for reading in readings]) if readings else self._none()

    def _none(self) -> Vectors:
        return np.empty((0, self.dimensions), np.float32)


class LocalTokenEmbedder(LocalEmbedder):
    """See `TokenEmbedder`; for graphs that also give their last hidden states."""

    _matrix: Vectors | None = None

    async def embed_tokens(self, texts: Sequence[str]) -> tuple[Vectors, list[TokenVectors]]:
        """See `TokenEmbedder.embed_tokens`. The first call on a machine also fits the model's matrix, some 2 s."""
        matrix = await self._projection()
        readings = await self._read(texts, tokens=True)
        tokens = [TokenVectors(reading.ids, pack(reading.states, matrix)) for reading in readings]
        return self._stacked(readings), tokens

    async def _projection(self) -> Vectors:
        if self._closed:
            raise Closed("the embedder was closed")
        if self._matrix is None:
            loop = asyncio.get_running_loop()
            self._matrix = await loop.run_in_executor(
                self._pool, lambda: projection(self._ready(), self._options.models)
            )
        return self._matrix


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
