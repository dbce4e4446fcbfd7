"""Local models: found, built, read and kept, with small models whose answers are known."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from agentmem.errors import Closed, ConfigError, ModelUnavailable
from agentmem.models.onnx import ModelFolder, SentenceModel
from agentmem.models.protocols import EmbedderOptions, TokenEmbedder
from agentmem.models.registry import open_embedder
from agentmem.models.token_compression import PROJECTION_FILE, fit_projection, load_projection, quantize_tokens
from tests.fakes.sentence_models import (
    HIDDEN,
    VOCABULARY,
    encode_ids,
    normalize,
    write_bert,
    write_lookup,
)

TEXT = "peanut allergy . chef avoid peanut"


@pytest.fixture
def options(tmp_path: Path) -> EmbedderOptions:
    return EmbedderOptions(models_dir=tmp_path / "models")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "house-model"


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hub is a port where nobody listens."""
    import huggingface_hub.constants as constants

    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """Set when a model begins to read; it reads when the second event is set."""
    begun, go_on = threading.Event(), threading.Event()
    real = SentenceModel.encode

    def wait(self: SentenceModel, text: str, *, with_tokens: bool = False) -> object:
        begun.set()
        assert go_on.wait(60)
        return real(self, text, with_tokens=with_tokens)

    monkeypatch.setattr(SentenceModel, "encode", wait)
    return begun, go_on


def built(options: EmbedderOptions) -> list[Path]:
    return sorted((options.models_dir / "built").glob("*"))


async def test_a_vector_does_not_depend_on_its_company(folder: Path, options: EmbedderOptions) -> None:
    write_bert(folder)
    one = open_embedder(f"local:{folder}", options)
    two = open_embedder(f"local:{folder}", EmbedderOptions(models_dir=options.models_dir, threads=2))
    texts = [" ".join(VOCABULARY[5 + number % 9] for number in range(size)) for size in range(1, 30)]
    alone = np.concatenate([await one.embed([text]) for text in texts])
    together = await two.embed(texts[::-1] + texts)
    np.testing.assert_array_equal(together, np.concatenate([alone[::-1], alone]))
    await one.close()
    await two.close()


async def test_odd_texts_have_vectors_too(folder: Path, options: EmbedderOptions) -> None:
    write_bert(folder)
    embedder = open_embedder(f"local:{folder}", options)
    odd = ["", " ", "rain " * 20_000, "x" * 100_000, "😀", "a\0b", "\ud800", "雨が降る", "\n\t"]
    vectors = await embedder.embed(odd)
    assert vectors.shape == (len(odd), HIDDEN)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-6)
    assert (await embedder.embed([])).shape == (0, HIDDEN)
    await embedder.close()


async def test_equal_texts_are_read_once(
    folder: Path, options: EmbedderOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_lookup(folder)
    read: list[str] = []
    real = SentenceModel.encode

    def counting(self: SentenceModel, text: str, *, tokens: bool = False) -> object:
        read.append(text)
        return real(self, text, with_tokens=tokens)

    monkeypatch.setattr(SentenceModel, "encode", counting)
    embedder = open_embedder(f"local:{folder}", options)
    vectors = await embedder.embed(["rain", "music", "rain"])
    assert sorted(read) == ["music", "rain"]
    np.testing.assert_array_equal(vectors[0], vectors[2])
    await embedder.close()


async def test_threads_have_about_as_much_to_read(
    folder: Path, options: EmbedderOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_lookup(folder)
    readers: dict[str, str] = {}
    real = SentenceModel.encode
    begun = threading.Barrier(2)  # so that nobody is done before both have begun

    def noting(self: SentenceModel, text: str, *, tokens: bool = False) -> object:
        known = threading.current_thread().name in readers.values()
        readers[text] = threading.current_thread().name
        if not known:
            begun.wait(30)
        return real(self, text, with_tokens=tokens)

    monkeypatch.setattr(SentenceModel, "encode", noting)
    embedder = open_embedder(f"local:{folder}", replace(options, threads=2))
    await embedder.embed(["rain", "music", "rain and music " * 20, "music and rain"])
    long = readers.pop("rain and music " * 20)
    assert set(readers.values()).isdisjoint({long})
    assert len(set(readers.values())) == 1
    await embedder.close()


async def test_an_exported_folder_is_pooled_as_its_files_say(folder: Path, options: EmbedderOptions) -> None:
    table = write_lookup(folder, graph="onnx/model.onnx")
    rows = table[encode_ids(TEXT)]
    for mode, expected in (("mean_tokens", rows.mean(0)), ("cls_token", rows[0])):
        (folder / "1_Pooling").mkdir(exist_ok=True)
        stated = {"word_embedding_dimension": HIDDEN, f"pooling_mode_{mode}": True, "pooling_mode_max_tokens": False}
        (folder / "1_Pooling" / "config.json").write_text(json.dumps(stated))
        embedder = open_embedder(f"local:{folder}", options)
        np.testing.assert_allclose((await embedder.embed([TEXT]))[0], normalize(expected), atol=1e-6)
        await embedder.close()
    assert built(options) == []


@pytest.mark.parametrize("tokens", [True, False])
async def test_a_sentence_output_is_taken_as_it_is(folder: Path, options: EmbedderOptions, tokens: bool) -> None:
    table = write_lookup(folder, sentence=True, tokens=tokens)
    expected = table[encode_ids(TEXT)].sum(0)
    expected[0] *= 2
    embedder = open_embedder(f"local:{folder}", options)
    np.testing.assert_allclose((await embedder.embed([TEXT]))[0], normalize(expected), atol=1e-6)
    assert isinstance(embedder, TokenEmbedder) is tokens
    await embedder.close()


async def test_a_variant_names_one_of_several_graphs(folder: Path, options: EmbedderOptions) -> None:
    write_lookup(folder)
    write_lookup(folder, graph="onnx/model_doubled.onnx", sentence=True)
    plain, doubled = (open_embedder(f"local:{folder}{variant}", options) for variant in ("", "@doubled"))
    assert doubled.identity == f"local:{folder}@doubled:{HIDDEN}"
    assert not np.allclose(await plain.embed([TEXT]), await doubled.embed([TEXT]))
    with pytest.raises(ConfigError, match="tripled"):
        open_embedder(f"local:{folder}@tripled", options)
    await plain.close()
    await doubled.close()


async def test_only_the_first_tokens_count(folder: Path, options: EmbedderOptions) -> None:
    write_lookup(folder)
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 6}))
    embedder = open_embedder(f"local:{folder}", options)
    long, short = await embedder.embed(["rain music train chef garden avoid", "rain music train chef"])
    np.testing.assert_array_equal(long, short)
    await embedder.close()


async def test_word_pieces_come_packed_and_without_the_special_ones(folder: Path, options: EmbedderOptions) -> None:
    table = write_lookup(folder)
    embedder = open_embedder(f"local:{folder}", options)
    assert isinstance(embedder, TokenEmbedder)
    vectors, tokens = await embedder.embed_tokens([TEXT, "", TEXT])
    np.testing.assert_array_equal(vectors, await embedder.embed([TEXT, "", TEXT]))
    assert tokens[0].ids.tolist() == encode_ids(TEXT)[1:-1]
    assert tokens[0].ids.dtype == np.int32
    assert tokens[0].vectors.dtype == np.int8
    assert tokens[0].vectors.shape == (6, 64)
    assert (tokens[1].ids.shape, tokens[1].vectors.shape) == ((0,), (0, 64))
    np.testing.assert_array_equal(tokens[0].vectors, tokens[2].vectors)
    # All 64 dimensions are kept here, so the products are the cosines up to rounding.
    rows = table[tokens[0].ids] / np.linalg.norm(table[tokens[0].ids], axis=1, keepdims=True)
    packed = tokens[0].vectors.astype(np.float32) / 256
    np.testing.assert_allclose(packed @ packed.T, rows @ rows.T, atol=0.1)
    assert (await embedder.embed_tokens([]))[1] == []
    await embedder.close()


def test_the_word_piece_matrix_is_orthonormal_and_fitted_alike_every_time(
    folder: Path, options: EmbedderOptions
) -> None:
    write_lookup(folder)
    model = SentenceModel(ModelFolder(folder), dimensions=HIDDEN)
    matrix = fit_projection(model)
    np.testing.assert_allclose(matrix.T @ matrix, np.eye(64), atol=1e-5)
    np.testing.assert_allclose(fit_projection(model), matrix, atol=1e-5)


async def test_what_is_built_is_kept(folder: Path, options: EmbedderOptions) -> None:
    write_bert(folder)
    times = []
    for _ in range(2):
        embedder = open_embedder(f"local:{folder}", options)
        assert isinstance(embedder, TokenEmbedder)
        await embedder.embed_tokens([TEXT])
        await embedder.close()
        times.append([(path.suffix, path.stat().st_mtime_ns) for path in built(options)])
    assert [suffix for suffix, _ in times[0]] == [".npy"]
    assert times[0] == times[1]


def test_two_that_build_at_once_leave_one_file(folder: Path, options: EmbedderOptions) -> None:
    write_bert(folder)
    start = threading.Barrier(2)

    model = SentenceModel(ModelFolder(folder), dimensions=HIDDEN)

    def load(_: int) -> list[list[float]]:
        start.wait()
        return load_projection(model, options.models_dir).tolist()  # type: ignore[no-any-return]

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(load, range(2))
    assert first == second
    assert len(built(options)) == 1


async def test_the_loop_goes_on_while_a_model_reads(
    folder: Path, options: EmbedderOptions, held: tuple[threading.Event, threading.Event]
) -> None:
    write_bert(folder)
    begun, go_on = held
    embedder = open_embedder(f"local:{folder}", options)
    work = asyncio.ensure_future(embedder.embed(["rain"]))
    await asyncio.to_thread(begun.wait)
    assert not work.done()
    go_on.set()
    await work
    await embedder.close()


async def test_close_ends_the_work_and_refuses_more(
    folder: Path, options: EmbedderOptions, held: tuple[threading.Event, threading.Event]
) -> None:
    write_bert(folder)
    begun, go_on = held
    embedder = open_embedder(f"local:{folder}", options)
    work = asyncio.ensure_future(embedder.embed([f"rain {number}" for number in range(50)]))
    await asyncio.to_thread(begun.wait)
    go_on.set()
    await embedder.close()  # nothing more is begun: the loop had no turn since
    with pytest.raises(Closed):
        await work
    with pytest.raises(Closed):
        await embedder.embed(["rain"])


def test_constructing_loads_nothing(folder: Path, options: EmbedderOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    write_bert(folder)
    for name in ("onnxruntime", "tokenizers", "onnx"):
        monkeypatch.setitem(sys.modules, name, None)
    assert open_embedder(f"local:{folder}", options).identity == f"local:{folder}:{HIDDEN}"
    assert built(options) == []


@pytest.mark.parametrize("library", ["onnxruntime", "tokenizers"])
async def test_a_missing_library_is_named_with_the_fix(
    folder: Path, options: EmbedderOptions, monkeypatch: pytest.MonkeyPatch, library: str
) -> None:
    write_bert(folder)
    monkeypatch.setitem(sys.modules, library, None)
    embedder = open_embedder(f"local:{folder}", options)
    with pytest.raises(ConfigError, match=rf"{library}.*agentmem-graph\[local\]"):
        await embedder.embed([TEXT])
    await embedder.close()


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("model.onnx", b"no graph", "onnxruntime"),
        ("tokenizer.json", b"{}", r"tokenizer\.json"),
        ("config.json", b"{", "not JSON"),
        ("1_Pooling/config.json", b'{"pooling_mode_max_tokens": true}', "max_tokens"),
        ("modules.json", b'[{"type": "sentence_transformers.models.Dense"}]', "dense"),
    ],
)
async def test_a_model_that_cannot_be_used_says_why(
    folder: Path, options: EmbedderOptions, name: str, content: bytes, message: str
) -> None:
    write_lookup(folder)
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        await open_embedder(f"local:{folder}:{HIDDEN}", options).embed([TEXT])


async def test_a_folder_that_cannot_be_written_is_named(folder: Path, tmp_path: Path) -> None:
    write_bert(folder)
    (tmp_path / "file").write_text("no folder")
    embedder = open_embedder(f"local:{folder}", EmbedderOptions(models_dir=tmp_path / "file"))
    assert isinstance(embedder, TokenEmbedder)
    with pytest.raises(ConfigError, match="cannot write"):
        await embedder.embed_tokens([TEXT])


async def test_the_matrix_beside_a_graph_is_taken(folder: Path, options: EmbedderOptions) -> None:
    write_bert(folder)
    np.save(folder / PROJECTION_FILE, np.eye(HIDDEN, 64, dtype=np.float32))
    embedder = open_embedder(f"local:{folder}", options)
    assert isinstance(embedder, TokenEmbedder)
    _, (tokens,) = await embedder.embed_tokens([TEXT])
    states = SentenceModel(ModelFolder(folder), dimensions=HIDDEN).encode(TEXT, with_tokens=True).states
    np.testing.assert_array_equal(tokens.vectors, quantize_tokens(states, np.eye(HIDDEN, 64, dtype=np.float32)))
    assert built(options) == []
    await embedder.close()


def test_an_empty_folder_and_wrong_dimensions_are_refused_at_once(folder: Path, options: EmbedderOptions) -> None:
    with pytest.raises(ConfigError, match=r"tokenizer\.json"):
        open_embedder(f"local:{folder}", options)
    write_lookup(folder)
    with pytest.raises(ConfigError, match="100"):
        open_embedder(f"local:{folder}:100", options)


def test_a_name_that_is_neither_folder_nor_hub_name_is_refused(options: EmbedderOptions) -> None:
    with pytest.raises(ConfigError, match="owner/model"):
        open_embedder("local:a/b/c", options)


@pytest.mark.usefixtures("offline")
async def test_without_network_a_hub_name_says_what_to_do(options: EmbedderOptions) -> None:
    embedder = open_embedder("local:somebody/some-model:384", options)
    assert embedder.identity == "local:somebody/some-model:384"
    with pytest.raises(ModelUnavailable, match="local:/path/to/model"):
        await embedder.embed([TEXT])
    await embedder.close()


@pytest.mark.usefixtures("offline")
async def test_a_downloaded_model_is_found_without_network(options: EmbedderOptions) -> None:
    table = write_lookup(options.models_dir / "hub" / "models--somebody--some-model" / "snapshots" / "0123")
    embedder = open_embedder("local/somebody/some-model", options)
    np.testing.assert_allclose(
        (await embedder.embed(["rain"]))[0], normalize(table[encode_ids("rain")].mean(0)), atol=1e-6
    )
    await embedder.close()
