"""ONNX models on this machine: where their files are, tokenizer and session, and files that are made from them once.

A folder is what sentence-transformers and the hub keep: `tokenizer.json`, `config.json`, and a graph (`model.onnx`,
`onnx/model*.onnx`). `1_Pooling/config.json` says how token vectors become one, `sentence_bert_config.json` how many
tokens count. Neither onnxruntime nor tokenizers is imported before a model is opened.

Two processes that make a file at once both finish and one file remains; one killed on the way leaves a hidden one.

One text a run, and never a padded batch: an int8 graph scales its activations by the largest value of the whole batch,
so that a text's vector would depend on its company (cosine down to .977 between the two for MiniLM). Batches of eight
would save a sixth of the time of short texts.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentmem.core.plain_values import replace_surrogates
from agentmem.errors import ConfigError, InvalidModelOutput, ModelUnavailable
from agentmem.models.protocols import Vectors

EMBEDDER_ROLE = "embedder"
DEFAULT_MODEL = "all-MiniLM-L6-v2"
MODEL_WHEELS = {DEFAULT_MODEL: "agentmem_minilm"}
"""Packages on the package index that carry a model's weights in their folder `model`."""

_MAX_TOKENS = 512
_MIN_TOKEN_DIMENSIONS = 64
_TOKEN_OUTPUTS = (b"last_hidden_state", b"token_embeddings")
_TAIL_BYTES = 1 << 20
_CONFIG_FILES = ["tokenizer.json", "config.json", "modules.json", "sentence_bert_config.json", "1_Pooling/config.json"]
_GRAPH_FILES = ["model.onnx", "onnx/model.onnx"]

_SLICE_COUNT, _SLICE_BYTES = 64, 4096

_INSTALL_HINT = "pip install 'agentmem-graph[local]'"
_SENTENCE_OUTPUT = "sentence_embedding"
_NO_IDS, _NO_STATES = np.empty(0, np.int32), np.empty((0, 0), np.float32)
INPUT_DTYPES = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}


@dataclass(frozen=True)
class ModelFolder:
    """A folder that holds a model. `variant` names one of several graphs; "" takes the usual one. `role` is what the
    model is to be, as errors name it."""

    path: Path
    variant: str = ""
    role: str = EMBEDDER_ROLE

    @cached_property
    def dimensions(self) -> int | None:
        """Length of the model's vectors as its files state it; None when they do not."""
        found = self._load_json("1_Pooling/config.json").get("word_embedding_dimension")
        config = self._load_json("config.json")
        for key in ("hidden_size", "d_model", "dim"):
            found = found or config.get(key)
        return int(found) if found else None

    @cached_property
    def pooling(self) -> str:
        """`mean` or `cls`; `mean` when the files say nothing. Raises ConfigError for any other."""
        stated = self._load_json("1_Pooling/config.json")
        modes = [
            key.removeprefix("pooling_mode_") for key, on in stated.items() if key.startswith("pooling_mode_") and on
        ]
        kinds = {"mean_tokens": "mean", "cls_token": "cls"}
        if not modes:
            return "mean"
        if len(modes) > 1 or modes[0] not in kinds:
            raise ConfigError(
                f"{self.role} local:{self.path}: pooling {', '.join(modes)} is not known; mean and cls are"
            )
        return kinds[modes[0]]

    @cached_property
    def max_tokens(self) -> int:
        """Tokens read of one text, special ones included; 512 at most."""
        stated = self._load_json("sentence_bert_config.json").get("max_seq_length")
        stated = stated or self._load_json("config.json").get("max_position_embeddings")
        return min(int(stated), _MAX_TOKENS) if stated else _MAX_TOKENS

    @property
    def has_dense_layer(self) -> bool:
        """Whether a dense layer follows the pooling, which only a graph with a sentence output contains."""
        modules = self._load_json("modules.json", [])
        return any(str(module.get("type", "")).endswith("Dense") for module in modules)

    def find_graph(self) -> Path | None:
        """The ONNX graph of the variant in this folder; None when there is none."""
        if self.variant:
            names = [f"{place}{start}{self.variant}.onnx" for place in ("onnx/", "") for start in ("", "model_")]
        else:
            names = _GRAPH_FILES + sorted(f"onnx/{found.name}" for found in (self.path / "onnx").glob("model*.onnx"))
        return next((self.path / name for name in names if (self.path / name).is_file()), None)

    def has_token_outputs(self) -> bool:
        """Whether word pieces get vectors too, wide enough to be projected. Looks for the output's name in the file."""
        graph = self.find_graph()
        if graph is None:
            return False
        with graph.open("rb") as file:
            # A graph's outputs follow its weights.
            file.seek(max(0, graph.stat().st_size - _TAIL_BYTES))
            tail = file.read()
        return (self.dimensions or 0) >= _MIN_TOKEN_DIMENSIONS and any(name in tail for name in _TOKEN_OUTPUTS)

    def is_complete(self) -> bool:
        """Whether everything is here that loading needs."""
        return (self.path / "tokenizer.json").is_file() and self.find_graph() is not None

    def _load_json(self, name: str, default: Any = None) -> Any:
        try:
            return json.loads((self.path / name).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {} if default is None else default
        except ValueError as error:
            raise ConfigError(f"{self.role} local:{self.path}: {name} is not JSON ({error})") from error


def is_path(name: str) -> bool:
    """Whether a model's name means a folder: absolute, or beginning with `.` or `~`; others may be hub names."""
    return name.startswith((".", "~")) or Path(name).is_absolute()


def find_model(name: str, variant: str, models_dir: Path, role: str = EMBEDDER_ROLE) -> ModelFolder | None:
    """The model's folder on this machine, or None: a path, a folder under `models_dir`, a wheel, an earlier download.

    Raises ConfigError when `name` is a path that holds no model.
    """
    if is_path(name):
        folder = ModelFolder(Path(name).expanduser().resolve(), variant, role)
        if not folder.is_complete():
            raise ConfigError(
                f"{role} local:{name}: needs tokenizer.json and an ONNX graph (model.onnx, onnx/model.onnx)"
                f" in {folder.path}" + (f" for the variant {variant!r}" if variant else "")
            )
        return folder
    places = [models_dir / name, *_find_wheel_dirs(name), *_list_downloads(name, models_dir, role)]
    return next((found for place in places if (found := ModelFolder(place, variant, role)).is_complete()), None)


def download_model(name: str, variant: str, models_dir: Path, role: str = EMBEDDER_ROLE) -> ModelFolder:
    """Fetch a model from the hub into `models_dir`.

    Raises ConfigError when huggingface_hub is not installed or the repository holds no usable model, and
    ModelUnavailable when it cannot be reached or does not exist.
    """
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise ConfigError(
            f"{role} local:{name}: downloading needs huggingface_hub: pip install 'agentmem-graph[local]'"
        ) from error
    repository = _hub_repository(name, role)
    wanted = _CONFIG_FILES + ([f"*{variant}.onnx"] if variant else _GRAPH_FILES)
    try:
        path = snapshot_download(repository, cache_dir=_hub_dir(models_dir), allow_patterns=wanted)
    except Exception as error:  # the hub's client raises its HTTP library's errors, OSError and ValueError alike
        raise ModelUnavailable(_download_error_text(name, error)) from error
    folder = ModelFolder(Path(path), variant, role)
    if not folder.is_complete():
        raise ConfigError(f"{role} local:{name}: {repository} holds no ONNX graph" + f" {variant}" * bool(variant))
    return folder


def _download_error_text(name: str, error: Exception) -> str:
    wheel = MODEL_WHEELS.get(name.rpartition("/")[2])
    way = f"pip install {wheel.replace('_', '-')}, or " if wheel else ""
    reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return (
        f"the weights of {name} are not on this machine and could not be downloaded ({reason}):"
        f" {way}go online once, or name a folder that holds them: local:/path/to/model"
    )


def _find_wheel_dirs(name: str) -> list[Path]:
    package = MODEL_WHEELS.get(name.removeprefix("sentence-transformers/"))
    spec = importlib.util.find_spec(package) if package else None
    return [Path(place) / "model" for place in (spec.submodule_search_locations or [])] if spec else []


def _list_downloads(name: str, models_dir: Path, role: str) -> list[Path]:
    snapshots = _hub_dir(models_dir) / f"models--{_hub_repository(name, role).replace('/', '--')}" / "snapshots"
    return sorted(snapshots.glob("*"), key=lambda path: path.stat().st_mtime, reverse=True)


def _hub_repository(name: str, role: str) -> str:
    """The hub's name; one without an owner is sentence-transformers' own."""
    if not re.fullmatch(r"[\w.-]+(?:/[\w.-]+)?", name):
        raise ConfigError(f"{role} local:{name}: not a folder and not a hub name like owner/model")
    return name if "/" in name else f"sentence-transformers/{name}"


def _hub_dir(models_dir: Path) -> Path:
    return models_dir / "hub"


def fingerprint(path: Path) -> str:
    """16 hex digits that change with a file's size or content; reads 64 slices, so that 100 MB take a millisecond."""
    size = path.stat().st_size
    digest = blake2b(str(size).encode(), digest_size=8)
    with path.open("rb") as file:
        for number in range(_SLICE_COUNT):
            file.seek(max(0, size - _SLICE_BYTES) * number // (_SLICE_COUNT - 1))
            digest.update(file.read(_SLICE_BYTES))
    return digest.hexdigest()


def build_once(target: Path, write: Callable[[Path], None]) -> Path:
    """Return `target`, after `write(temporary path)` made it if it was missing.

    Raises ConfigError when its folder cannot be written, and whatever `write` raises; a partial file is removed.
    """
    if target.is_file():
        return target
    # The ending stays last, because writers choose the format by it.
    part = target.with_name(f".{secrets.token_hex(8)}{target.suffix}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _write_error(target, error) from error
    try:
        write(part)
        _fsync(part)
        os.replace(part, target)
        if os.name == "posix":  # elsewhere a folder cannot be opened
            _fsync(target.parent)
    except OSError as error:
        raise _write_error(target, error) from error
    finally:
        part.unlink(missing_ok=True)
    return target


def _write_error(target: Path, error: OSError) -> ConfigError:
    return ConfigError(f"models: cannot write {target}: {error}; choose another folder for models")


def _fsync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@dataclass(frozen=True, slots=True)
class EncodedText:
    """What the model made of one text: its unit vector, and per word piece (special ones left out) id and state.

    `states` has shape (pieces, hidden), not normalized. Both are empty when they were not asked for.
    """

    vector: Vectors
    ids: NDArray[np.int32]
    states: Vectors


class SentenceModel:
    """Read with `encode`; thread-safe. Loading takes about 0.2 s.

    Raises ConfigError when a library or the graph is missing, or the model is of a kind that cannot be used.
    """

    def __init__(self, folder: ModelFolder, *, dimensions: int) -> None:
        self._name = f"local:{folder.path.name}"
        self._dimensions = dimensions
        self._pooling = folder.pooling
        graph = folder.find_graph()
        if graph is None:
            raise ConfigError(f"{self._name}: its ONNX graph is not there any more")
        self.graph_path, self._session = graph, open_onnx_session(graph)
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
