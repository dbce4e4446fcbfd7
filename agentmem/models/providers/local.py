"""Models on this machine through onnxruntime: sentence embedders and cross-encoders.

`local:<name>@<variant>` picks one of several graphs (`onnx/model_<variant>.onnx`). Constructing is cheap; the first
text loads the model, in a thread of its own.

A folder holds `tokenizer.json`, `config.json` and an ONNX graph of a sequence classifier (`model.onnx`,
`onnx/model*.onnx`) with one output for a score or two for "no" and "yes", as the hub keeps them.
"""

from __future__ import annotations

import asyncio
import importlib.util
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np

from agentmem.core.plain_values import replace_surrogates
from agentmem.errors import Closed, ConfigError, InvalidModelOutput
from agentmem.models import onnx
from agentmem.models.onnx import INPUT_DTYPES, SentenceModel, open_onnx_session, open_tokenizer
from agentmem.models.protocols import Embedder, EmbedderOptions, Reranker, RerankerOptions, TokenVectors, Vectors
from agentmem.models.token_compression import load_projection, quantize_tokens

_Result = TypeVar("_Result")

_MAX_BATCH_TEXTS, _MAX_BATCH_CHARS = 8, 1500
"""Work handed over at a time, some 20 to 40 ms: a query waits no longer than that behind an import."""
_TEXT_OVERHEAD_CHARS = 40
"""What reading an empty text costs, in characters of a longer one."""

RERANKER_ROLE = "reranker"


def embedder(model: str, options: EmbedderOptions) -> Embedder:
    """Open a local model, all-MiniLM-L6-v2 when none is named.

    Raises ConfigError for a folder without a model, an impossible name, or dimensions the model does not have.
    """
    name, _, variant = (model or onnx.DEFAULT_MODEL).partition("@")
    folder = onnx.find_model(name, variant, options.models_dir)
    if folder:
        _check_dimensions(model, folder, options)
    if folder and onnx.is_path(name):
        name = str(folder.path)
    # What is not here yet is most likely an ordinary export, which gives its last hidden states.
    kind = LocalTokenEmbedder if folder is None or folder.has_token_outputs() else LocalEmbedder
    return kind(f"{name}@{variant}" if variant else name, folder, options)


def reranker(model: str, options: RerankerOptions) -> Reranker:
    """A cross-encoder: a folder with an ONNX graph, or a hub name with its owner. Raises ConfigError for neither."""
    return LocalReranker(model, options)


def is_ready(options: EmbedderOptions) -> bool:
    """Whether the default model can be used at once: weights and libraries are there. Looks at files only."""
    folder = onnx.find_model(onnx.DEFAULT_MODEL, "", options.models_dir)
    return folder is not None and all(importlib.util.find_spec(name) for name in ("onnxruntime", "tokenizers"))


class LocalEmbedder:
    """See `Embedder`. Each text is read by itself, so its vector never depends on its company."""

    def __init__(self, model: str, folder: onnx.ModelFolder | None, options: EmbedderOptions) -> None:
        self._model_name = model
        self._folder = folder
        self._options = options
        self._threads = max(1, options.threads)
        self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="agentmem-local")
        self._load_lock = threading.Lock()
        self._sentence_model: SentenceModel | None = None
        self._closed = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._model_name!r})"

    @property
    def identity(self) -> str:
        """`local:model:dimensions`. Downloads a hub model that is not here yet, unless its dimensions were given."""
        return f"local:{self._model_name}:{self.dimensions}"

    @property
    def dimensions(self) -> int:
        found = self._options.dimensions or self._ensure_folder().dimensions
        if not found:
            raise ConfigError(
                f"local:{self._model_name} does not state its dimensions; write local:{self._model_name}:384 or so"
            )
        return found

    @property
    def granularities(self) -> tuple[str, ...]:
        return ("whole", "sentence")

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """See `Embedder.embed`; the first tokens of a long text count. Raises Closed after `close`.

        ModelUnavailable: the weights are not here and cannot be fetched. ConfigError: a library or a usable model is
        missing.
        """
        return self._stack(await self._encode_each(texts, lambda model, text: model.encode(text).vector))

    async def close(self) -> None:
        """Let go of the model; what is being read is finished first."""
        self._closed = True
        await asyncio.to_thread(self._pool.shutdown)
        self._sentence_model = None

    async def _encode_each(
        self, texts: Sequence[str], encode: Callable[[SentenceModel, str], _Result]
    ) -> list[_Result]:
        """`encode(model, text)` of every text, in order; equal texts are read once."""
        self._check_open()
        unique = list(dict.fromkeys(texts))
        found = await asyncio.gather(
            *(self._encode_share(lane, encode) for lane in _balance_texts(unique, self._threads))
        )
        known = {text: result for lane in found for text, result in lane.items()}
        return [known[text] for text in texts]

    async def _encode_share(
        self, texts: list[str], encode: Callable[[SentenceModel, str], _Result]
    ) -> dict[str, _Result]:
        def work(chunk: list[str]) -> dict[str, _Result]:
            model = self._ensure_loaded()
            return {text: encode(model, text) for text in chunk}

        found: dict[str, _Result] = {}
        for chunk in _iter_batches(texts):
            self._check_open()
            found |= await asyncio.get_running_loop().run_in_executor(self._pool, work, chunk)
        return found

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("the embedder was closed")

    def _ensure_loaded(self) -> SentenceModel:
        if self._sentence_model is None:
            with self._load_lock:
                if self._sentence_model is None:
                    self._sentence_model = SentenceModel(self._ensure_folder(), dimensions=self.dimensions)
        return self._sentence_model

    def _ensure_folder(self) -> onnx.ModelFolder:
        if self._folder is None:
            name, _, variant = self._model_name.partition("@")
            models = self._options.models_dir
            found = onnx.find_model(name, variant, models) or onnx.download_model(name, variant, models)
            _check_dimensions(self._model_name, found, self._options)
            self._folder = found
        return self._folder

    def _stack(self, vectors: list[Vectors]) -> Vectors:
        return np.stack(vectors) if vectors else np.empty((0, self.dimensions), np.float32)


class LocalTokenEmbedder(LocalEmbedder):
    """See `TokenEmbedder`; for graphs that also give their last hidden states."""

    _projection_matrix: Vectors | None = None

    async def embed_tokens(self, texts: Sequence[str]) -> tuple[Vectors, list[TokenVectors]]:
        """See `TokenEmbedder.embed_tokens`. A model without its matrix has it fitted once, some 4 s."""
        matrix = await self._ensure_projection()

        def read(model: SentenceModel, text: str) -> tuple[Vectors, TokenVectors]:
            reading = model.encode(text, with_tokens=True)
            return reading.vector, TokenVectors(reading.ids, quantize_tokens(reading.states, matrix))

        found = await self._encode_each(texts, read)
        return self._stack([vector for vector, _ in found]), [tokens for _, tokens in found]

    async def _ensure_projection(self) -> Vectors:
        self._check_open()
        if self._projection_matrix is None:
            loop = asyncio.get_running_loop()
            self._projection_matrix = await loop.run_in_executor(
                self._pool, lambda: load_projection(self._ensure_loaded(), self._options.models_dir)
            )
        return self._projection_matrix


def _check_dimensions(model: str, folder: onnx.ModelFolder, options: EmbedderOptions) -> None:
    if folder.dimensions and options.dimensions not in (None, folder.dimensions):
        raise ConfigError(f"embedder local:{model} has {folder.dimensions} dimensions, not {options.dimensions}")


def _balance_texts(texts: list[str], max_shares: int) -> list[list[str]]:
    """The texts in so many parts that take about as long as one another: the longest first, to who has least."""
    lanes: list[list[str]] = [[] for _ in range(min(max_shares, len(texts)))]
    loads = [0] * len(lanes)
    for text in sorted(texts, key=len, reverse=True):
        least = loads.index(min(loads))
        lanes[least].append(text)
        loads[least] += len(text) + _TEXT_OVERHEAD_CHARS
    return lanes


def _iter_batches(texts: list[str]) -> Iterator[list[str]]:
    chunk: list[str] = []
    size = 0
    for text in texts:
        if chunk and (len(chunk) == _MAX_BATCH_TEXTS or size + len(text) > _MAX_BATCH_CHARS):
            yield chunk
            chunk, size = [], 0
        chunk.append(text)
        size += len(text)
    if chunk:
        yield chunk


class CrossEncoder:
    """A model in memory; thread-safe. Raises ConfigError for other model types or a missing library."""

    def __init__(self, folder: onnx.ModelFolder) -> None:
        self._name = f"local:{folder.path.name}"
        graph = folder.find_graph()
        if graph is None:
            raise ConfigError(f"reranker {self._name}: needs an ONNX graph (model.onnx, onnx/model.onnx)")
        self._session, self._tokenizer = open_onnx_session(graph), open_tokenizer(folder)
        self._input_dtypes = {node.name: INPUT_DTYPES.get(node.type) for node in self._session.get_inputs()}
        outputs = self._session.get_outputs()
        self._output = next((node.name for node in outputs if node.name == "logits"), outputs[0].name)
        known = {"input_ids", "attention_mask", "token_type_ids"}
        if (
            not set(self._input_dtypes) <= known
            or "input_ids" not in self._input_dtypes
            or None in self._input_dtypes.values()
        ):
            raise ConfigError(
                f"reranker {self._name}: inputs {sorted(self._input_dtypes)} are not those of a cross-encoder"
            )

    def score(self, query: str, text: str) -> float:
        """How well the text answers the query; what is too long loses its end. Raises InvalidModelOutput for no
        score.
        """
        encoding = self._tokenizer.encode(replace_surrogates(query), replace_surrogates(text))
        feeds = {
            "input_ids": encoding.ids,
            "attention_mask": encoding.attention_mask,
            "token_type_ids": encoding.type_ids,
        }
        given = {name: np.array([feeds[name]]).astype(kind) for name, kind in self._input_dtypes.items()}
        try:
            logits = np.asarray(self._session.run([self._output], given)[0], dtype=np.float64).reshape(-1)
        except Exception as error:  # onnxruntime raises classes of its own, without a common one
            raise InvalidModelOutput(f"{self._name} failed on a pair of {len(encoding.ids)} tokens: {error}") from error
        if len(logits) not in (1, 2) or not np.isfinite(logits).all():
            raise InvalidModelOutput(
                f"{self._name} should give one or two finite numbers for a pair, gave {len(logits)}"
            )
        return float(logits[-1] - (logits[0] if len(logits) == 2 else 0.0))


class LocalReranker:
    """See `Reranker`. Constructing is cheap; the first text loads the model, in a thread of its own."""

    def __init__(self, model: str, options: RerankerOptions) -> None:
        name, _, variant = model.partition("@")
        if not name:
            raise ConfigError("reranker local: name a folder or a model of the hub, as in 'local:/path/to/it'")
        self.identity = f"local:{model}"
        self._name, self._variant, self._models_dir = name, variant, options.models_dir
        if onnx.is_path(name):
            onnx.find_model(name, variant, options.models_dir, RERANKER_ROLE)  # refuses one without a model at once
        self._pool = ThreadPoolExecutor(max(1, options.threads), thread_name_prefix="agentmem-reranker")
        self._load_lock = threading.Lock()
        self._cross_encoder: CrossEncoder | None = None
        self._closed = False

    def __repr__(self) -> str:
        return f"LocalReranker({self.identity!r})"

    async def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """See `Reranker.score`. ModelUnavailable: the weights are not here and cannot be fetched."""
        if self._closed:
            raise Closed("the reranker was closed")
        loop = asyncio.get_running_loop()
        work = (loop.run_in_executor(self._pool, self._score, query, text) for text in texts)
        return list(await asyncio.gather(*work))

    async def close(self) -> None:
        """Let go of the model; what is being read is finished first."""
        self._closed = True
        await asyncio.to_thread(self._pool.shutdown, cancel_futures=True)
        self._cross_encoder = None

    def _score(self, query: str, text: str) -> float:
        if self._cross_encoder is None:
            with self._load_lock:
                if self._cross_encoder is None:
                    wanted = (self._name, self._variant, self._models_dir, RERANKER_ROLE)
                    found = onnx.find_model(*wanted) or onnx.download_model(*wanted)
                    self._cross_encoder = CrossEncoder(found)
        return self._cross_encoder.score(query, text)
