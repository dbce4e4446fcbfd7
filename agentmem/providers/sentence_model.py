"""A sentence embedder in memory: tokenizer and onnxruntime session, one text at a time.

One text a run, and never a padded batch: an int8 graph scales its activations by the largest value of the whole batch,
so that a text's vector would depend on its company (cosine down to .977 between the two for MiniLM). Batches of eight
would save a sixth of the time of short texts.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentmem.errors import ConfigError, InvalidModelOutput
from agentmem.providers import Vectors
from agentmem.providers.bert_graph import GRAPH_VERSION, export_onnx
from agentmem.providers.built_files import build_once, fingerprint
from agentmem.providers.model_folder import BUILDABLE_VARIANTS, ModelFolder

_INSTALL_HINT = "pip install 'agentmem-graph[local]'"
_SENTENCE_OUTPUT = "sentence_embedding"
_NO_IDS, _NO_STATES = np.empty(0, np.int32), np.empty((0, 0), np.float32)
INPUT_DTYPES = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}


@dataclass(frozen=True, slots=True)
class EncodedText:
    """What the model made of one text: its unit vector, and per word piece (special ones left out) id and state.

    `states` has shape (pieces, hidden), not normalised. Both are empty when they were not asked for.
    """

    vector: Vectors
    ids: NDArray[np.int32]
    states: Vectors


class SentenceModel:
    """Read with `encode`; thread-safe. Loading takes about 0.2 s, the first time on a machine some seconds more.

    Raises ConfigError when a library is missing, the folder for built graphs cannot be written, or the model is of a
    kind that cannot be used.
    """

    def __init__(self, folder: ModelFolder, models_dir: Path, *, dimensions: int) -> None:
        self._name = f"local:{folder.path.name}"
        self._dimensions = dimensions
        self._pooling = folder.pooling
        self.graph_path, self._session = _open_session(folder, models_dir)
        self._tokenizer = open_tokenizer(folder)
        self._input_dtypes = {node.name: INPUT_DTYPES.get(node.type) for node in self._session.get_inputs()}
        outputs = {node.name: len(node.shape) for node in self._session.get_outputs()}
        tokens = [name for name, axes in outputs.items() if axes == 3]
        self._output_names = [name for name in (_SENTENCE_OUTPUT, *tokens[:1]) if name in outputs]
        self._has_token_outputs = bool(tokens)
        self._check_graph(folder, outputs)

    @property
    def vocabulary(self) -> dict[str, int]:
        """Word pieces and their ids."""
        return dict(self._tokenizer.get_vocab(with_added_tokens=False))

    @property
    def has_token_outputs(self) -> bool:
        """Whether `encode` can give states per word piece."""
        return self._has_token_outputs

    def encode(self, text: str, *, with_tokens: bool = False) -> EncodedText:
        """Read one text of any length (its first tokens count); `with_tokens` asks for the word pieces too.

        Raises InvalidModelOutput when the model's answer is unusable, and ConfigError when it gives no states per word
        piece.
        """
        if with_tokens and not self._has_token_outputs:
            raise ConfigError(f"{self._name} gives no vector per word piece")
        encoding = self._tokenizer.encode(replace_surrogates(text))
        ids = np.array([encoding.ids])
        feeds = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        given = self._run({name: feeds[name].astype(kind) for name, kind in self._input_dtypes.items()})
        vector = self._normalize(
            given[_SENTENCE_OUTPUT][0] if _SENTENCE_OUTPUT in given else self._pool(given[self._output_names[-1]][0])
        )
        if not with_tokens:
            return EncodedText(vector, _NO_IDS, _NO_STATES)
        own = np.flatnonzero(np.array(encoding.special_tokens_mask) == 0)
        return EncodedText(vector, ids[0][own].astype(np.int32), given[self._output_names[-1]][0][own])

    def _run(self, feeds: dict[str, Any]) -> dict[str, Any]:
        try:
            return dict(zip(self._output_names, self._session.run(self._output_names, feeds), strict=True))
        except Exception as error:  # onnxruntime raises classes of its own, without a common one
            raise InvalidModelOutput(
                f"{self._name} failed on a text of {feeds['input_ids'].shape[1]} tokens: {error}"
            ) from error

    def _pool(self, states: Any) -> Any:
        # The sum has the direction of the mean; as a product it takes a fifth of the time.
        return states[0] if self._pooling == "cls" else np.ones(len(states), np.float32) @ states

    def _normalize(self, vector: Any) -> Vectors:
        if vector.shape != (self._dimensions,):
            raise InvalidModelOutput(
                f"{self._name} gave a vector of shape {vector.shape}, expected ({self._dimensions},)"
            )
        length = float(np.linalg.norm(vector))
        if not (0 < length < np.inf):
            raise InvalidModelOutput(f"{self._name} gave a vector of length {length}")
        return np.asarray(vector / length, dtype=np.float32)

    def _check_graph(self, folder: ModelFolder, outputs: dict[str, int]) -> None:
        known = {"input_ids", "attention_mask", "token_type_ids"}
        if (
            not set(self._input_dtypes) <= known
            or "input_ids" not in self._input_dtypes
            or None in self._input_dtypes.values()
        ):
            raise ConfigError(f"{self._name}: inputs {sorted(self._input_dtypes)} are not those of a text encoder")
        if not self._output_names:
            raise ConfigError(f"{self._name}: outputs {sorted(outputs)} hold no vector per token or sentence")
        if folder.has_dense_layer and _SENTENCE_OUTPUT not in outputs:
            raise ConfigError(
                f"{self._name}: a dense layer follows the pooling; export it with a {_SENTENCE_OUTPUT} output"
            )


def replace_surrogates(text: str) -> str:
    """The text as the tokenizer takes it."""
    # Half a surrogate pair can stand in a str, but in no UTF-8, which the tokenizer needs.
    return text.encode("utf-8", "replace").decode("utf-8")


def open_tokenizer(folder: ModelFolder) -> Any:
    """The model's tokenizer, which cuts at its longest text and pads nothing. Raises ConfigError when there is none."""
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise ConfigError(f"local models need tokenizers: {_INSTALL_HINT}") from error
    try:
        tokenizer = Tokenizer.from_file(str(folder.path / "tokenizer.json"))
    except Exception as error:  # the library raises plain Exception
        raise ConfigError(f"local:{folder.path}: tokenizer.json cannot be read: {error}") from error
    tokenizer.no_padding()
    tokenizer.enable_truncation(folder.max_tokens)
    return tokenizer


def _open_session(folder: ModelFolder, models_dir: Path) -> tuple[Path, Any]:
    """The graph's file and a session on it; a kept graph that cannot be opened is built once more."""
    graph = folder.find_graph()
    if graph is not None:
        return graph, open_onnx_session(graph)
    graph = _build_graph(folder, models_dir)
    try:
        return graph, open_onnx_session(graph)
    except ConfigError:
        graph.unlink(missing_ok=True)
        graph = _build_graph(folder, models_dir)
        return graph, open_onnx_session(graph)


def _build_graph(folder: ModelFolder, models_dir: Path) -> Path:
    weights = folder.find_weights()
    if weights is None:
        raise ConfigError(f"local:{folder.path}: neither a graph nor model.safetensors is there any more")
    precision = folder.variant or BUILDABLE_VARIANTS[0]
    target = models_dir / "built" / f"{precision}-{GRAPH_VERSION}-{fingerprint(weights)}.onnx"

    def write(part: Path) -> None:
        try:
            export_onnx(folder.path, part, int8=precision == "int8")
        except ImportError as error:
            raise ConfigError(f"building a graph needs {error.name}: {_INSTALL_HINT}") from error
        except (KeyError, ValueError) as error:
            raise ConfigError(f"local:{folder.path}: no graph can be built from its weights: {error}") from error

    return build_once(target, write)


def open_onnx_session(graph: Path) -> Any:
    """A session on an ONNX graph, in one thread. Raises ConfigError when it cannot be opened."""
    try:
        import onnxruntime
    except ImportError as error:
        raise ConfigError(f"local models need onnxruntime: {_INSTALL_HINT}") from error
    options = onnxruntime.SessionOptions()
    # Texts are read side by side instead: sharing one short text among threads costs more than it gains.
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(
            str(graph),
            options,
            providers=["CPUExecutionProvider"],
            # The fused operator is slower than the plain ones it replaces.
            disabled_optimizers=["SkipLayerNormFusion"],
        )
    except Exception as error:  # onnxruntime raises classes of its own, without a common one
        raise ConfigError(f"{graph} is no model that onnxruntime can open: {error}") from error
