"""int8 graphs: no overflow on any processor, and outliers that cost the other channels little."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from agentmem.models.protocols import EmbedderOptions
from agentmem.models.registry import open_embedder
from packages.minilm.bert_export import ActivationRanges, Floats, export_onnx, quantize
from packages.minilm.build_wheel import CHECKSUMS, check_weights
from tests.fakes.sentence_models import bert_states, encode_ids, normalize, write_bert, write_safetensors

TEXT = "peanut allergy . chef avoid peanut"
MATRICES = st.tuples(st.integers(1, 9), st.integers(1, 4)).flatmap(
    lambda shape: arrays(np.float32, shape, elements=st.floats(-100, 100, width=32))
)


@pytest.mark.parametrize("int8, far", [(False, 1e-6), (True, 1e-3)])
async def test_a_graph_built_from_weights_computes_the_model(tmp_path: Path, int8: bool, far: float) -> None:
    weights = write_bert(tmp_path)
    export_onnx(tmp_path, tmp_path / "model.onnx", int8=int8)
    embedder = open_embedder(f"local:{tmp_path}", EmbedderOptions(models_dir=tmp_path / "models"))
    for vector, text in zip(await embedder.embed([TEXT, "rain"]), (TEXT, "rain"), strict=True):
        assert vector @ normalize(bert_states(weights, encode_ids(text)).mean(0)) > 1 - far
    await embedder.close()


def test_weights_of_another_kind_are_refused(tmp_path: Path) -> None:
    write_bert(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "t5"}))
    with pytest.raises(ValueError, match="t5"):
        export_onnx(tmp_path, tmp_path / "model.onnx", int8=True)


def test_weights_that_are_not_as_published_are_refused(tmp_path: Path) -> None:
    for name in CHECKSUMS:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"{}")
    with pytest.raises(ValueError, match=r"model\.safetensors has the SHA-256"):
        check_weights(tmp_path)


@given(MATRICES)
def test_neighbours_of_one_sign_never_overflow_sixteen_bits(weights: Floats) -> None:
    rounded, _ = quantize(weights)
    even = np.pad(rounded.astype(int), ((0, len(rounded) % 2), (0, 0)))
    for part in (np.maximum(even, 0), np.minimum(even, 0)):
        products = 255 * (part[::2] + part[1::2])
        assert products.max() <= np.iinfo(np.int16).max
        assert products.min() >= np.iinfo(np.int16).min


@given(MATRICES)
def test_rounding_moves_a_weight_by_half_a_step_at_most(weights: Floats) -> None:
    rounded, scales = quantize(weights)
    assert (np.abs(rounded * scales - weights) <= scales * 0.501 + 1e-30).all()
    assert (scales <= np.maximum(np.abs(weights).max(axis=0) / 63, 1e-30)).all()


def test_channels_say_what_is_too_wide() -> None:
    low, high = np.full(200, -1, np.float32), np.full(200, 1, np.float32)
    low[3], high[3] = 2, 10
    channels = ActivationRanges(low, high, low + 1)
    assert (channels.center[3], channels.outlier_scale[3], channels.split_counts[3]) == (6, 4, 10)
    assert np.delete(channels.outlier_scale, 3).tolist() == np.delete(channels.split_counts, 3).tolist() == [1] * 199
    assert channels.split_factors.sum() == pytest.approx(200)
    assert channels.split().high.max() == 1


@pytest.mark.parametrize("outlier, close", [("channel", 0.9999), ("neuron", 0.9997)])
async def test_values_far_out_cost_the_others_little(tmp_path: Path, outlier: str, close: float) -> None:
    weights = write_bert(tmp_path / "model")
    for layer in (0, 1):
        name = f"encoder.layer.{layer}."
        wide, narrow = weights[f"{name}intermediate.dense.weight"], weights[f"{name}output.dense.weight"]
        # What reads the large values makes up for their size, so that the others still count.
        if outlier == "channel":
            weights[f"{name}attention.output.LayerNorm.weight"][6] *= 60
            wide[:, 6] /= 60
        else:
            wide[7:9] *= 20
            narrow[:, 7:9] /= 20
    write_safetensors(tmp_path / "model" / "model.safetensors", weights)
    export_onnx(tmp_path / "model", tmp_path / "model" / "model.onnx", int8=True)
    embedder = open_embedder(f"local:{tmp_path / 'model'}", EmbedderOptions(models_dir=tmp_path / "models"))
    vector = (await embedder.embed([TEXT]))[0]
    assert vector @ normalize(bert_states(weights, encode_ids(TEXT)).mean(0)) > close
    await embedder.close()
