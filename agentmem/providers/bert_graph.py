"""Writes the ONNX graph of a BERT encoder from its safetensors weights, for models that come without one.

The graph has the shape of an ordinary export (`input_ids`, `attention_mask` in, `last_hidden_state` out), so that a
built model and a downloaded one are loaded by the same code. Attention and GELU are onnxruntime's fused operators. In
int8, weights have one scale per output channel, fixed here, and inputs one per layer and run, found by onnxruntime.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentmem.providers.int8_weights import Channels, Floats, measure, quantise

RECIPE = 3
"""Goes up when the graph changes in a way that changes its vectors; part of the name under which it is kept."""

_FUSED = "com.microsoft"

Weights = dict[str, Floats]


@dataclass(frozen=True, slots=True)
class BertShape:
    """The numbers of a model's `config.json` that its graph needs."""

    layers: int
    heads: int
    epsilon: float

    @classmethod
    def read(cls, path: Path) -> BertShape:
        """Read `config.json`; raises ValueError for anything but BERT with absolute positions and exact GELU."""
        config = json.loads(path.read_text(encoding="utf-8"))
        kind = (config.get("model_type"), config.get("hidden_act"), config.get("position_embedding_type", "absolute"))
        if kind != ("bert", "gelu", "absolute"):
            raise ValueError(f"{path} describes {kind}, only BERT with GELU and absolute positions can be built")
        return cls(config["num_hidden_layers"], config["num_attention_heads"], config["layer_norm_eps"])


def read_safetensors(path: Path) -> Weights:
    """The float32 tensors of a file, by name; others are left out. Layout: 8 bytes header length, JSON header, data."""
    raw = path.read_bytes()
    start = 8 + int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:start])
    return {
        name: np.frombuffer(raw[start + about["data_offsets"][0] : start + about["data_offsets"][1]], "<f4").reshape(
            about["shape"]
        )
        for name, about in header.items()
        if about.get("dtype") == "F32"
    }


def build(folder: Path, target: Path, *, int8: bool) -> None:
    """Write the graph of the model in `folder` (`model.safetensors`, `config.json`) to `target`, quantised when `int8`.

    Raises OSError when a file cannot be read or written, ValueError and KeyError when the model is of another kind.
    """
    import onnx

    weights = read_safetensors(folder / "model.safetensors")
    shape = BertShape.read(folder / "config.json")
    graph = _Graph(weights, shape)
    model = graph.model()
    if int8:
        model = _Int8Graph(weights, shape, measure(model, graph.sources, folder)).model()
    onnx.save(model, str(target))


class _Graph:
    """Nodes and weights in the order they are added; methods that add a node return the name of its output."""

    def __init__(self, weights: Weights, shape: BertShape) -> None:
        self.weights = weights
        self.shape = shape
        self.sources: list[str] = []
        """The values that are multiplied by weights."""
        self._nodes: list[Any] = []
        self._stored: list[Any] = []

    def model(self) -> Any:
        """The whole model; call it once."""
        from onnx import TensorProto, helper

        state = self._embeddings()
        for layer in range(self.shape.layers):
            output = "last_hidden_state" if layer == self.shape.layers - 1 else f"layer{layer}"
            state = self._layer(state, f"encoder.layer.{layer}.", output)
        width = self.weights["embeddings.LayerNorm.weight"].shape[0]
        whole = helper.make_graph(
            self._nodes,
            "bert",
            [
                helper.make_tensor_value_info(name, TensorProto.INT32, ["batch", "sequence"])
                for name in ("input_ids", "attention_mask")
            ],
            [helper.make_tensor_value_info(state, TensorProto.FLOAT, ["batch", "sequence", width])],
            self._stored,
        )
        model = helper.make_model(whole, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(_FUSED, 1)])
        model.ir_version = 9
        return model

    def store(self, name: str, values: NDArray[Any]) -> str:
        """Keep a tensor in the file; returns its name."""
        from onnx import numpy_helper

        self._stored.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def node(self, kind: str, inputs: list[str], *outputs: str, domain: str = "", **attributes: Any) -> str:
        """Add an operator, standard or (`domain`) fused."""
        from onnx import helper

        self._nodes.append(helper.make_node(kind, inputs, list(outputs), outputs[0], domain=domain, **attributes))
        return outputs[0]

    def words(self, table: Floats) -> str:
        """The rows of `table` for the ids."""
        return self.node("Gather", [self.store("words.table", table), "input_ids"], "words")

    def norm(self, source: str, name: str, output: str) -> str:
        """Layer normalisation. Bias and skip connection are added before it: the operator for all three took longer."""
        weight, bias = self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]
        inputs = [source, self.store(f"{name}.weight", weight), self.store(f"{name}.bias", bias)]
        return self.node("LayerNormalization", inputs, output, axis=-1, epsilon=self.shape.epsilon)

    def attention(self, state: str, name: str) -> str:
        weights, biases = self._projections(name)
        inputs = [state, self.store(f"{name}.weight", weights), self.store(f"{name}.bias", biases), "lengths"]
        self.sources.append(state)
        return self.node("Attention", inputs, f"{name}.mixed", domain=_FUSED, num_heads=self.shape.heads)

    def dense(self, source: str, name: str, skip: str = "") -> str:
        """A dense layer, whose weights the file keeps as (out, in), and the state `skip` added to what it gives."""
        self.sources.append(source)
        weights = self.store(f"{name}.weight", self.weights[f"{name}.weight"].T)
        product = self.node("MatMul", [source, weights], f"{name}.product")
        biased = self.node("Add", [product, self.store(f"{name}.bias", self.weights[f"{name}.bias"])], name)
        return self.node("Add", [biased, skip], f"{name}.sum") if skip else biased

    def feed_forward(self, state: str, name: str) -> str:
        """Two dense layers with GELU between them, and the state before them added."""
        wide = self.dense(state, f"{name}intermediate.dense")
        return self.dense(self.gelu(wide, f"{name}gelu"), f"{name}output.dense", state)

    def gelu(self, source: str, name: str) -> str:
        return self.node("Gelu", [source], name, domain=_FUSED)

    def _projections(self, name: str) -> tuple[Floats, Floats]:
        """Weights (in, 3 * out) and biases of query, key and value."""
        parts = [f"{name}.{part}" for part in ("query", "key", "value")]
        weights = np.concatenate([self.weights[f"{part}.weight"].T for part in parts], axis=1)
        return weights, np.concatenate([self.weights[f"{part}.bias"] for part in parts])

    def _embeddings(self) -> str:
        # One segment only, so its type embedding can be added to every position once.
        types = self.weights["embeddings.token_type_embeddings.weight"][0]
        positions = self.store("positions", self.weights["embeddings.position_embeddings.weight"] + types)
        words = self.words(self.weights["embeddings.word_embeddings.weight"])
        length = self.node("Shape", ["input_ids"], "length", start=1)
        here = self.node("Slice", [positions, self.store("zero", np.array([0])), length], "here")
        self.node("ReduceSum", ["attention_mask", self.store("one", np.array([1]))], "lengths", keepdims=0)
        return self.norm(self.node("Add", [words, here], "sum"), "embeddings.LayerNorm", "embedded")

    def _layer(self, state: str, name: str, output: str) -> str:
        mixed = self.attention(state, f"{name}attention.self")
        attended = self.dense(mixed, f"{name}attention.output.dense", state)
        state = self.norm(attended, f"{name}attention.output.LayerNorm", f"{name}attended")
        return self.norm(self.feed_forward(state, name), f"{name}output.LayerNorm", output)


class _Int8Graph(_Graph):
    """The same in int8, with the measures of `int8_weights`; only the last state leaves as it is in the model."""

    def __init__(self, weights: Weights, shape: BertShape, channels: dict[str, Channels]) -> None:
        super().__init__(dict(weights), shape)
        self._channels = channels
        self._centred: set[str] = set()

    def words(self, table: Floats) -> str:
        scale = np.float32(np.abs(table).max() / 127)
        rounded = self.store("words.table", np.rint(table / scale).astype(np.int8))
        rows = self.node("Gather", [rounded, "input_ids"], "words.int8")
        return self.node("DequantizeLinear", [rows, self.store("words.scale", np.array(scale))], "words")

    def norm(self, source: str, name: str, output: str) -> str:
        if output in self._channels:
            channels = self._channels[output]
            bias = self.weights[f"{name}.bias"] - channels.centre
            self.weights[f"{name}.weight"] = self.weights[f"{name}.weight"] / channels.excess
            self.weights[f"{name}.bias"] = bias / channels.excess
            self._centred.add(output)
        return super().norm(source, name, output)

    def attention(self, state: str, name: str) -> str:
        weights, scales, bias = self._rounded(state, name, *self._projections(name))
        inputs = [f"{state}.int8", weights, bias, f"{state}.scale", scales, "lengths", f"{state}.zero"]
        self.node("DynamicQuantizeLinear", [state], inputs[0], inputs[3], inputs[6])
        return self.node("QAttention", inputs, f"{name}.mixed", domain=_FUSED, num_heads=self.shape.heads)

    def dense(self, source: str, name: str, skip: str = "") -> str:
        bias = self.weights[f"{name}.bias"]
        if skip:
            bias = bias + self._channels[skip].centre
        weights, scales, offset = self._rounded(source, name, self.weights[f"{name}.weight"].T, bias)
        biased = self.node("DynamicQuantizeMatMul", [source, weights, scales, "", offset], name, domain=_FUSED)
        if not skip:
            return biased
        state = self.node("Mul", [skip, self.store(f"{name}.excess", self._channels[skip].excess)], f"{name}.skip")
        return self.node("Add", [biased, state], f"{name}.sum")

    def feed_forward(self, state: str, name: str) -> str:
        copies = self._channels[f"{name}gelu"].copies
        wide, narrow = f"{name}intermediate.dense", f"{name}output.dense"
        for part, axis in ((f"{wide}.weight", 0), (f"{wide}.bias", 0), (f"{narrow}.weight", 1)):
            self.weights[part] = np.repeat(self.weights[part], copies, axis)
        return super().feed_forward(state, name)

    def gelu(self, source: str, name: str) -> str:
        shared = f"{name}.shared"
        self._channels[shared] = self._channels[name].shared()
        shares = self.store(f"{shared}.shares", self._channels[name].shares)
        return self.node("Mul", [super().gelu(source, name), shares], shared)

    def _rounded(self, source: str, name: str, weights: Floats, bias: Floats) -> tuple[str, str, str]:
        """Store weights (in, out), their scales and the bias of a layer that reads `source`; returns the names."""
        channels = self._channels[source]
        mean = channels.mean
        if source in self._centred:
            mean = (mean - channels.centre) / channels.excess
            bias = bias + channels.centre @ weights
            weights = weights * channels.excess[:, np.newaxis]
        rounded, scales = quantise(weights)
        bias = bias + mean @ (weights - rounded * scales)
        return (
            self.store(f"{name}.weight", rounded),
            self.store(f"{name}.scales", scales),
            self.store(f"{name}.bias", bias.astype(np.float32)),
        )
