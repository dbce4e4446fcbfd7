"""Writing the ONNX graph of a BERT encoder, and quantizing its weights.

The graph has the shape of an ordinary export (`input_ids`, `attention_mask` in, `last_hidden_state` out), so that a
built model and a downloaded one are loaded by the same code. Attention and GELU are onnxruntime's fused operators. In
int8, weights have one scale per output channel, fixed here, and inputs one per layer and run, found by onnxruntime.

onnxruntime scales a layer's input by its smallest and largest value, so one channel of 28 among channels below 3 costs
all others three bits. So every channel is centred, and the few that range too widely are divided by their excess; the
weights and biases around undo both (Wei et al., "Outlier Suppression+", 2023). After an activation nothing can undo it
for free; there a neuron is written n times and each copy divided by n (channel splitting: Zhao et al., "Improving
Neural Network Quantization without Retraining", 2019). What rounding the weights adds on average is taken out of the
bias (Nagel et al., "Data-Free Quantization", 2019). For MiniLM the mean cosine to float32 goes from .992 to .998.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentmem.models.token_compression import generate_sentences

Floats = NDArray[np.float32]

_CALIBRATION_SENTENCES = 100
_OUTLIER_QUANTILE = 0.99
"""The share of channels that counts as usual; the widest of them is the limit for all."""
_MAX_WEIGHT = 127
_MAX_PAIR_SUM = 128

_FUSED_DOMAIN = "com.microsoft"

Weights = dict[str, Floats]


@dataclass(frozen=True, slots=True)
class ActivationRanges:
    """Smallest, largest and mean value of every channel of a layer's input, each of shape (channels,)."""

    low: Floats
    high: Floats
    mean: Floats

    @property
    def center(self) -> Floats:
        """The middle of each channel's range."""
        return np.asarray((self.low + self.high) / 2, dtype=np.float32)

    @property
    def outlier_scale(self) -> Floats:
        """How many times each centred channel exceeds the usual range; 1 for most."""
        return _outlier_scale(self.high - self.low)

    @property
    def split_counts(self) -> NDArray[np.int_]:
        """How many copies bring each channel, not centred, into the usual range; 1 for most."""
        return np.ceil(_outlier_scale(np.maximum(np.abs(self.low), np.abs(self.high)))).astype(int)

    @property
    def split_factors(self) -> Floats:
        """What each copy keeps of its channel, in the order of copies."""
        return np.repeat(1 / self.split_counts, self.split_counts).astype(np.float32)

    def split(self) -> ActivationRanges:
        """The channels that the copies make."""
        low, high, mean = (
            np.repeat(part, self.split_counts) * self.split_factors for part in (self.low, self.high, self.mean)
        )
        return ActivationRanges(low, high, mean)


def calibrate(model: Any, names: list[str], folder: Path) -> dict[str, ActivationRanges]:
    """The channels of the values named in an ONNX model, over made-up sentences; `folder` holds its `tokenizer.json`.

    Raises ValueError when the vocabulary holds no words to make sentences of.
    """
    import onnx
    import onnxruntime
    from tokenizers import Tokenizer

    watched = onnx.ModelProto()
    watched.CopyFrom(model)
    watched.graph.output.extend(onnx.helper.make_tensor_value_info(name, 1, None) for name in names)
    session = onnxruntime.InferenceSession(watched.SerializeToString(), providers=["CPUExecutionProvider"])
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    seen: list[list[Floats]] = [[] for _ in names]
    for text in generate_sentences(tokenizer.get_vocab(), _CALIBRATION_SENTENCES):
        ids = np.array([tokenizer.encode(text).ids], np.int32)
        values = session.run(names, {"input_ids": ids, "attention_mask": np.ones_like(ids)})
        for rows, value in zip(seen, values, strict=True):
            rows.append(value[0])
    joined = {name: np.concatenate(rows) for name, rows in zip(names, seen, strict=True)}
    return {name: ActivationRanges(rows.min(0), rows.max(0), rows.mean(0)) for name, rows in joined.items()}


def quantize(weights: Floats) -> tuple[NDArray[np.int8], Floats]:
    """Round a matrix (in, out) to int8 with one scale per column; returns both.

    Processors without VNNI add the products of two neighboring weights in 16 bits: 255 * 128 is the most that fits. So
    neighbors of one sign stay below 128 together, which costs less than seven bits for every weight would.
    """
    even = np.pad(weights, ((0, len(weights) % 2), (0, 0)))
    pairs = np.abs([np.maximum(even, 0), np.minimum(even, 0)])
    pair = (pairs[:, ::2] + pairs[:, 1::2]).max(axis=(0, 1))
    # Two roundings add at most one to a pair.
    scales = np.maximum(np.abs(weights).max(axis=0) / _MAX_WEIGHT, pair / (_MAX_PAIR_SUM - 1))
    scales = np.maximum(scales, np.finfo(np.float32).tiny).astype(np.float32)
    return np.rint(weights / scales).astype(np.int8), scales


def _outlier_scale(widths: NDArray[np.floating[Any]]) -> Floats:
    usual = np.sort(widths)[int(len(widths) * _OUTLIER_QUANTILE) - 1]
    return np.asarray(np.maximum(widths / max(float(usual), 1e-6), 1), dtype=np.float32)


@dataclass(frozen=True, slots=True)
class BertConfig:
    """The numbers of a model's `config.json` that its graph needs."""

    layers: int
    heads: int
    epsilon: float

    @classmethod
    def load(cls, path: Path) -> BertConfig:
        """Read `config.json`; raises ValueError for anything but BERT with absolute positions and exact GELU."""
        config = json.loads(path.read_text(encoding="utf-8"))
        kind = (config.get("model_type"), config.get("hidden_act"), config.get("position_embedding_type", "absolute"))
        if kind != ("bert", "gelu", "absolute"):
            raise ValueError(f"{path} describes {kind}, only BERT with GELU and absolute positions can be built")
        return cls(config["num_hidden_layers"], config["num_attention_heads"], config["layer_norm_eps"])


def load_safetensors(path: Path) -> Weights:
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


def export_onnx(folder: Path, target: Path, *, int8: bool) -> None:
    """Write the graph of the model in `folder` (`model.safetensors`, `config.json`) to `target`, quantized when `int8`.

    Raises OSError when a file cannot be read or written, ValueError and KeyError when the model is of another kind.
    """
    import onnx

    weights = load_safetensors(folder / "model.safetensors")
    shape = BertConfig.load(folder / "config.json")
    graph = _GraphBuilder(weights, shape)
    model = graph.build_model()
    if int8:
        model = _Int8GraphBuilder(weights, shape, calibrate(model, graph.matmul_inputs, folder)).build_model()
    onnx.save(model, str(target))


class _GraphBuilder:
    """Nodes and weights in the order they are added; methods that add a node return the name of its output."""

    def __init__(self, weights: Weights, config: BertConfig) -> None:
        self.weights = weights
        self.config = config
        self.matmul_inputs: list[str] = []
        """The values that are multiplied by weights."""
        self._nodes: list[Any] = []
        self._initializers: list[Any] = []

    def build_model(self) -> Any:
        """The whole model; call it once."""
        from onnx import TensorProto, helper

        state = self._add_embeddings()
        for layer in range(self.config.layers):
            output = "last_hidden_state" if layer == self.config.layers - 1 else f"layer{layer}"
            state = self._add_layer(state, f"encoder.layer.{layer}.", output)
        width = self.weights["embeddings.LayerNorm.weight"].shape[0]
        whole = helper.make_graph(
            self._nodes,
            "bert",
            [
                helper.make_tensor_value_info(name, TensorProto.INT32, ["batch", "sequence"])
                for name in ("input_ids", "attention_mask")
            ],
            [helper.make_tensor_value_info(state, TensorProto.FLOAT, ["batch", "sequence", width])],
            self._initializers,
        )
        model = helper.make_model(
            whole, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(_FUSED_DOMAIN, 1)]
        )
        model.ir_version = 9
        return model

    def add_initializer(self, name: str, values: NDArray[Any]) -> str:
        """Keep a tensor in the file; returns its name."""
        from onnx import numpy_helper

        self._initializers.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def add_node(self, op_type: str, inputs: list[str], *outputs: str, domain: str = "", **attributes: Any) -> str:
        """Add an operator, standard or (`domain`) fused."""
        from onnx import helper

        self._nodes.append(helper.make_node(op_type, inputs, list(outputs), outputs[0], domain=domain, **attributes))
        return outputs[0]

    def add_word_embeddings(self, table: Floats) -> str:
        """The rows of `table` for the ids."""
        return self.add_node("Gather", [self.add_initializer("words.table", table), "input_ids"], "words")

    def add_layer_norm(self, source: str, name: str, output: str) -> str:
        """Layer normalization. Bias and skip connection are added before it: the operator for all three took longer."""
        weight, bias = self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]
        inputs = [source, self.add_initializer(f"{name}.weight", weight), self.add_initializer(f"{name}.bias", bias)]
        return self.add_node("LayerNormalization", inputs, output, axis=-1, epsilon=self.config.epsilon)

    def add_attention(self, state: str, name: str) -> str:
        weights, biases = self._concat_qkv(name)
        inputs = [
            state,
            self.add_initializer(f"{name}.weight", weights),
            self.add_initializer(f"{name}.bias", biases),
            "lengths",
        ]
        self.matmul_inputs.append(state)
        return self.add_node("Attention", inputs, f"{name}.mixed", domain=_FUSED_DOMAIN, num_heads=self.config.heads)

    def add_dense(self, source: str, name: str, skip: str = "") -> str:
        """A dense layer, whose weights the file keeps as (out, in), and the state `skip` added to what it gives."""
        self.matmul_inputs.append(source)
        weights = self.add_initializer(f"{name}.weight", self.weights[f"{name}.weight"].T)
        product = self.add_node("MatMul", [source, weights], f"{name}.product")
        biased = self.add_node(
            "Add", [product, self.add_initializer(f"{name}.bias", self.weights[f"{name}.bias"])], name
        )
        return self.add_node("Add", [biased, skip], f"{name}.sum") if skip else biased

    def add_feed_forward(self, state: str, name: str) -> str:
        """Two dense layers with GELU between them, and the state before them added."""
        wide = self.add_dense(state, f"{name}intermediate.dense")
        return self.add_dense(self.add_gelu(wide, f"{name}gelu"), f"{name}output.dense", state)

    def add_gelu(self, source: str, name: str) -> str:
        return self.add_node("Gelu", [source], name, domain=_FUSED_DOMAIN)

    def _concat_qkv(self, name: str) -> tuple[Floats, Floats]:
        """Weights (in, 3 * out) and biases of query, key and value."""
        parts = [f"{name}.{part}" for part in ("query", "key", "value")]
        weights = np.concatenate([self.weights[f"{part}.weight"].T for part in parts], axis=1)
        return weights, np.concatenate([self.weights[f"{part}.bias"] for part in parts])

    def _add_embeddings(self) -> str:
        # One segment only, so its type embedding can be added to every position once.
        types = self.weights["embeddings.token_type_embeddings.weight"][0]
        positions = self.add_initializer("positions", self.weights["embeddings.position_embeddings.weight"] + types)
        words = self.add_word_embeddings(self.weights["embeddings.word_embeddings.weight"])
        length = self.add_node("Shape", ["input_ids"], "length", start=1)
        here = self.add_node("Slice", [positions, self.add_initializer("zero", np.array([0])), length], "here")
        self.add_node(
            "ReduceSum", ["attention_mask", self.add_initializer("one", np.array([1]))], "lengths", keepdims=0
        )
        return self.add_layer_norm(self.add_node("Add", [words, here], "sum"), "embeddings.LayerNorm", "embedded")

    def _add_layer(self, state: str, name: str, output: str) -> str:
        mixed = self.add_attention(state, f"{name}attention.self")
        attended = self.add_dense(mixed, f"{name}attention.output.dense", state)
        state = self.add_layer_norm(attended, f"{name}attention.output.LayerNorm", f"{name}attended")
        return self.add_layer_norm(self.add_feed_forward(state, name), f"{name}output.LayerNorm", output)


class _Int8GraphBuilder(_GraphBuilder):
    """The same in int8, with the measured `ranges`; only the last state leaves as it is in the model."""

    def __init__(self, weights: Weights, config: BertConfig, ranges: dict[str, ActivationRanges]) -> None:
        super().__init__(dict(weights), config)
        self._ranges = ranges
        self._centered: set[str] = set()

    def add_word_embeddings(self, table: Floats) -> str:
        scale = np.float32(np.abs(table).max() / 127)
        rounded = self.add_initializer("words.table", np.rint(table / scale).astype(np.int8))
        rows = self.add_node("Gather", [rounded, "input_ids"], "words.int8")
        return self.add_node("DequantizeLinear", [rows, self.add_initializer("words.scale", np.array(scale))], "words")

    def add_layer_norm(self, source: str, name: str, output: str) -> str:
        if output in self._ranges:
            channels = self._ranges[output]
            bias = self.weights[f"{name}.bias"] - channels.center
            self.weights[f"{name}.weight"] = self.weights[f"{name}.weight"] / channels.outlier_scale
            self.weights[f"{name}.bias"] = bias / channels.outlier_scale
            self._centered.add(output)
        return super().add_layer_norm(source, name, output)

    def add_attention(self, state: str, name: str) -> str:
        weights, scales, bias = self._add_quantized_weights(state, name, *self._concat_qkv(name))
        inputs = [f"{state}.int8", weights, bias, f"{state}.scale", scales, "lengths", f"{state}.zero"]
        self.add_node("DynamicQuantizeLinear", [state], inputs[0], inputs[3], inputs[6])
        return self.add_node("QAttention", inputs, f"{name}.mixed", domain=_FUSED_DOMAIN, num_heads=self.config.heads)

    def add_dense(self, source: str, name: str, skip: str = "") -> str:
        bias = self.weights[f"{name}.bias"]
        if skip:
            bias = bias + self._ranges[skip].center
        weights, scales, offset = self._add_quantized_weights(source, name, self.weights[f"{name}.weight"].T, bias)
        biased = self.add_node(
            "DynamicQuantizeMatMul", [source, weights, scales, "", offset], name, domain=_FUSED_DOMAIN
        )
        if not skip:
            return biased
        state = self.add_node(
            "Mul", [skip, self.add_initializer(f"{name}.excess", self._ranges[skip].outlier_scale)], f"{name}.skip"
        )
        return self.add_node("Add", [biased, state], f"{name}.sum")

    def add_feed_forward(self, state: str, name: str) -> str:
        copies = self._ranges[f"{name}gelu"].split_counts
        wide, narrow = f"{name}intermediate.dense", f"{name}output.dense"
        for part, axis in ((f"{wide}.weight", 0), (f"{wide}.bias", 0), (f"{narrow}.weight", 1)):
            self.weights[part] = np.repeat(self.weights[part], copies, axis)
        return super().add_feed_forward(state, name)

    def add_gelu(self, source: str, name: str) -> str:
        shared = f"{name}.shared"
        self._ranges[shared] = self._ranges[name].split()
        shares = self.add_initializer(f"{shared}.shares", self._ranges[name].split_factors)
        return self.add_node("Mul", [super().add_gelu(source, name), shares], shared)

    def _add_quantized_weights(self, source: str, name: str, weights: Floats, bias: Floats) -> tuple[str, str, str]:
        """Store weights (in, out), their scales and the bias of a layer that reads `source`; returns the names."""
        channels = self._ranges[source]
        mean = channels.mean
        if source in self._centered:
            mean = (mean - channels.center) / channels.outlier_scale
            bias = bias + channels.center @ weights
            weights = weights * channels.outlier_scale[:, np.newaxis]
        rounded, scales = quantize(weights)
        bias = bias + mean @ (weights - rounded * scales)
        return (
            self.add_initializer(f"{name}.weight", rounded),
            self.add_initializer(f"{name}.scales", scales),
            self.add_initializer(f"{name}.bias", bias.astype(np.float32)),
        )
