"""Cross-encoders on this machine through onnxruntime: question and text are read together, one pair at a time.

A folder holds `tokenizer.json`, `config.json` and an ONNX graph of a sequence classifier (`model.onnx`,
`onnx/model*.onnx`) with one output for a score or two for "no" and "yes", as the hub keeps them.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from agentmem.errors import Closed, ConfigError, InvalidModelOutput
from agentmem.providers import model_folder as folders
from agentmem.providers.rerankers import RerankerOptions
from agentmem.providers.sentence_model import INPUT_DTYPES, open_onnx_session, open_tokenizer, replace_surrogates

RERANKER_ROLE = "reranker"


class CrossEncoder:
    """A model in memory; thread-safe. Raises ConfigError for one that is no cross-encoder or that lacks a library."""

    def __init__(self, folder: folders.ModelFolder) -> None:
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
            "input_ids": encoding.ids, "attention_mask": encoding.attention_mask, "token_type_ids": encoding.type_ids,
        }  # fmt: skip
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
        if folders.is_path(name):
            folders.find_model(name, variant, options.models_dir, RERANKER_ROLE)  # refuses one without a model at once
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
                    found = folders.find_model(*wanted) or folders.download_model(*wanted)
                    self._cross_encoder = CrossEncoder(found)
        return self._cross_encoder.score(query, text)
