"""Writes the ONNX graph of a BERT encoder from its safetensors weights, for models that come without one.

The graph has the shape of an ordinary export (`input_ids`, `attention_mask` in, `last_hidden_state` out), so that a
built model and a downloaded one are loaded by the same code. Attention and GELU are onnxruntime's fused operators. int8
weights have one scale per output channel: one scale per matrix is too coarse for this kind of model.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentmem.providers.outliers import share_out

RECIPE = 2
"""Goes up when the graph changes in a way that changes its vectors; part of the name under which it is kept."""

_FUSED = "com.microsoft"
_QUANTISED = ["MatMul", "Attention", "EmbedLayerNormalization"]

Weights = dict[str, NDArray[np.float32]]


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

    model = _model(read_safetensors(folder / "model.safetensors"), BertShape.read(folder / "config.json"))
    if not int8:
        onnx.save(model, str(target))
        return
    from onnxruntime.quantization import QuantType, quantize_dynamic

    share_out(model, folder)
    quantize_dynamic(
        model,
        target,
        op_types_to_quantize=_QUANTISED,
        per_channel=True,
        # Seven bits: older processors add pairs of products in 16 bits, where eight would overflow.
        reduce_range=True,
        weight_type=QuantType.QInt8,
        extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT},
    )


class _Graph:
    """Nodes and weights in the order they are added; every method returns the name of what it made."""

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        self.nodes: list[Any] = []
        self.stored: list[Any] = []

    def weight(self, *names: str, turned: bool = False) -> str:
        """Store the tensors joined along their last axis; `turned` for dense layers, which files keep as (out, in)."""
        from onnx import numpy_helper

        parts = [self.weights[name].T if turned else self.weights[name] for name in names]
        self.stored.append(numpy_helper.from_array(np.ascontiguousarray(np.concatenate(parts, -1)), "+".join(names)))
        return "+".join(names)

    def node(self, kind: str, inputs: list[str], *outputs: str, domain: str = _FUSED, **attributes: Any) -> str:
        from onnx import helper

        self.nodes.append(helper.make_node(kind, inputs, list(outputs), outputs[0], domain=domain, **attributes))
        return outputs[0]

    def dense(self, source: str, name: str) -> str:
        """A dense layer without its bias, which the fused operator after it adds."""
        return self.node("MatMul", [source, self.weight(f"{name}.weight", turned=True)], name, domain="")

    def norm(self, source: str, skip: str, dense: str, name: str, epsilon: float, output: str = "") -> str:
        """Add bias and skip connection and normalise; plain operators, as the fused one took a fifth of the time."""
        biased = self.node("Add", [source, self.weight(f"{dense}.bias")], f"{name}.biased", domain="")
        summed = self.node("Add", [biased, skip], f"{name}.summed", domain="")
        inputs = [summed, self.weight(f"{name}.weight"), self.weight(f"{name}.bias")]
        return self.node("LayerNormalization", inputs, output or name, domain="", axis=-1, epsilon=epsilon)


def _model(weights: Weights, shape: BertShape) -> Any:
    import onnx
    from onnx import TensorProto, helper

    # One segment only, so its type embedding can be added to every position once.
    weights["positions"] = (
        weights["embeddings.position_embeddings.weight"] + weights["embeddings.token_type_embeddings.weight"][0]
    )
    graph = _Graph(weights)
    state = _embeddings(graph, shape)
    for layer in range(shape.layers):
        output = "last_hidden_state" if layer == shape.layers - 1 else f"layer{layer}"
        state = _layer(graph, state, f"encoder.layer.{layer}.", shape, output)
    width = weights["positions"].shape[1]
    whole = helper.make_graph(
        graph.nodes,
        "bert",
        [
            helper.make_tensor_value_info(name, TensorProto.INT32, ["batch", "sequence"])
            for name in ("input_ids", "attention_mask")
        ],
        [helper.make_tensor_value_info(state, TensorProto.FLOAT, ["batch", "sequence", width])],
        graph.stored,
    )
    model = helper.make_model(whole, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(_FUSED, 1)])
    model.ir_version = 9
    # The quantiser warns unless its own preprocessing ran, which only tidies exported graphs.
    onnx.helper.set_model_props(model, {"onnx.quant.pre_process": "onnxruntime.quant"})
    return model


def _embeddings(graph: _Graph, shape: BertShape) -> str:
    inputs = ["input_ids", "", graph.weight("embeddings.word_embeddings.weight"), graph.weight("positions"), ""]
    inputs += [graph.weight("embeddings.LayerNorm.weight"), graph.weight("embeddings.LayerNorm.bias"), "attention_mask"]
    return graph.node("EmbedLayerNormalization", inputs, "embedded", "lengths", epsilon=shape.epsilon)


def _layer(graph: _Graph, state: str, name: str, shape: BertShape, output: str) -> str:
    parts = [f"{name}attention.self.{part}" for part in ("query", "key", "value")]
    projections = graph.weight(*[f"{part}.weight" for part in parts], turned=True)
    biases = graph.weight(*[f"{part}.bias" for part in parts])
    attention = f"{name}attention.output"
    mixed = graph.node("Attention", [state, projections, biases, "lengths"], f"{name}mixed", num_heads=shape.heads)
    mixed = graph.dense(mixed, f"{attention}.dense")
    state = graph.norm(mixed, state, f"{attention}.dense", f"{attention}.LayerNorm", shape.epsilon)
    wide = graph.dense(state, f"{name}intermediate.dense")
    wide = graph.node("BiasGelu", [wide, graph.weight(f"{name}intermediate.dense.bias")], f"{name}gelu")
    narrow = graph.dense(wide, f"{name}output.dense")
    return graph.norm(narrow, state, f"{name}output.dense", f"{name}output.LayerNorm", shape.epsilon, output)
