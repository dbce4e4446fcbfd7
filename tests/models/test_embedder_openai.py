"""OpenAI's embeddings, through the real SDK against a service on this machine."""

from __future__ import annotations

import logging
import traceback
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from agentmem.errors import Closed, ConfigError, InvalidModelOutput, ModelUnavailable
from agentmem.models.protocols import Embedder, EmbedderOptions
from agentmem.models.providers.openai import MAX_REQUEST_TEXTS, MAX_TEXT_TOKENS
from agentmem.models.registry import open_embedder
from tests.fakes.openai_server import EmbeddingResponse, FakeEmbeddingService, serve

KEY = "sk-very-secret-0123456789"
SOON = {"retry-after": "0.01"}


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


@pytest.fixture
def service() -> Iterator[FakeEmbeddingService]:
    with serve() as service:
        yield service


@pytest.fixture
def options(service: FakeEmbeddingService, tmp_path: Path) -> EmbedderOptions:
    return EmbedderOptions(models_dir=tmp_path, base_url=service.url, api_key=KEY, timeout=60.0)


@pytest.fixture
async def embedder(options: EmbedderOptions) -> AsyncIterator[Embedder]:
    embedder = open_embedder("openai", options)
    yield embedder
    await embedder.close()


async def test_texts_become_unit_vectors_in_their_order(embedder: Embedder, service: FakeEmbeddingService) -> None:
    service.script = [EmbeddingResponse(backwards=True)]
    vectors = await embedder.embed(["a", "bcd", "a"])
    assert vectors.shape == (3, 1536)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-6)
    expected = np.array([service.vector(text, 1536) for text in ("a", "bcd", "a")])
    np.testing.assert_allclose(vectors, expected / np.linalg.norm(expected, axis=1, keepdims=True), atol=1e-6)
    assert [request["input"] for request in service.requests] == [["a", "bcd"]]
    assert service.headers[0]["authorization"] == f"Bearer {KEY}"


async def test_many_texts_go_in_several_requests_and_keep_their_order(
    embedder: Embedder, service: FakeEmbeddingService
) -> None:
    texts = [f"text {number}" for number in range(2 * MAX_REQUEST_TEXTS + 5)]
    vectors = await embedder.embed(texts)
    assert [len(request["input"]) for request in service.requests] == [MAX_REQUEST_TEXTS, MAX_REQUEST_TEXTS, 5]
    assert [text for request in service.requests for text in request["input"]] == texts
    np.testing.assert_allclose(vectors[300], (await embedder.embed(["text 300"]))[0], atol=1e-6)


async def test_long_texts_are_cut_and_spread_over_requests(embedder: Embedder, service: FakeEmbeddingService) -> None:
    await embedder.embed([f"{number} " + "word " * 20_000 for number in range(20)])
    assert len(service.requests) == 2
    assert all(len(text) <= 3 * MAX_TEXT_TOKENS for request in service.requests for text in request["input"])


async def test_no_texts_ask_nothing(embedder: Embedder, service: FakeEmbeddingService) -> None:
    assert (await embedder.embed([])).shape == (0, 1536)
    assert service.requests == []


async def test_an_empty_text_is_sent_as_a_space_and_half_a_character_as_a_question_mark(
    embedder: Embedder, service: FakeEmbeddingService
) -> None:
    assert (await embedder.embed(["", "\ud800", "\0", "😀"])).shape == (4, 1536)
    assert service.requests[0]["input"] == [" ", "?", "\0", "😀"]


async def test_too_many_requests_are_tried_again_after_the_time_the_service_names(
    embedder: Embedder, service: FakeEmbeddingService
) -> None:
    service.script = [
        EmbeddingResponse(429, SOON, body={"error": {"message": "slow down"}}),
        EmbeddingResponse(503, SOON),
        EmbeddingResponse(),
    ]
    assert (await embedder.embed(["a"])).shape == (1, 1536)
    assert len(service.requests) == 3


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_after_the_last_try_the_model_is_unavailable(
    embedder: Embedder, service: FakeEmbeddingService, status: int
) -> None:
    service.script = [EmbeddingResponse(status, SOON, body="busy") for _ in range(4)]
    with pytest.raises(ModelUnavailable, match=str(status)):
        await embedder.embed(["a"])
    assert len(service.requests) == 3


@pytest.mark.parametrize(
    "answer",
    [
        EmbeddingResponse(429, body={"error": {"message": "none left", "code": "insufficient_quota"}}),
        EmbeddingResponse(429, {"retry-after": "3600"}),
        EmbeddingResponse(drop=True),
    ],
)
async def test_what_does_not_pass_is_not_tried_again(
    embedder: Embedder, service: FakeEmbeddingService, answer: EmbeddingResponse
) -> None:
    service.script = [answer]
    with pytest.raises(ModelUnavailable):
        await embedder.embed(["a"])
    assert len(service.requests) == 1


async def test_a_slow_answer_is_given_up_and_tried_again(
    options: EmbedderOptions, service: FakeEmbeddingService
) -> None:
    slow = EmbeddingResponse(delay=600)
    embedder = open_embedder("openai", replace(options, timeout=5, max_attempts=2))
    service.script = [slow]
    assert (await embedder.embed(["a"])).shape == (1, 1536)
    await embedder.close()
    embedder = open_embedder("openai", replace(options, timeout=0.3, max_attempts=2))
    service.script = [slow, slow]
    with pytest.raises(ModelUnavailable, match=r"0\.3 s"):
        await embedder.embed(["a"])
    await embedder.close()


@pytest.mark.parametrize(
    "answer",
    [
        EmbeddingResponse(dimensions=7),
        EmbeddingResponse(count=1),
        EmbeddingResponse(count=0),
        EmbeddingResponse(value=float("nan")),
        EmbeddingResponse(value=0.0),
        EmbeddingResponse(body='{"data": [{"index": 0, "embed'),
        EmbeddingResponse(body={"data": "no"}),
        EmbeddingResponse(body={"object": "list"}),
        EmbeddingResponse(body=[]),  # type: ignore[arg-type]
        EmbeddingResponse(body={"data": [{"index": 0, "embedding": [1.0]}, {"index": 1, "embedding": [1.0, 2.0]}]}),
        EmbeddingResponse(400, body={"error": {"message": "unheard of"}}),
    ],
    ids=lambda answer: str(answer.body or answer)[:40],
)
async def test_an_unusable_answer_is_a_bad_reply(
    embedder: Embedder, service: FakeEmbeddingService, answer: EmbeddingResponse
) -> None:
    service.script = [answer]
    with pytest.raises(InvalidModelOutput, match="openai:text-embedding-3-small"):
        await embedder.embed(["a", "b"])
    assert len(service.requests) == 1


async def test_a_text_the_service_finds_too_long_is_sent_again_shorter(
    embedder: Embedder, service: FakeEmbeddingService
) -> None:
    service.script = [EmbeddingResponse(400, body={"error": {"message": "maximum context length is 8192 tokens"}})]
    await embedder.embed(["é" * 10_000])
    assert [len(request["input"][0].encode()) for request in service.requests] == [20_000, MAX_TEXT_TOKENS]


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_key_names_the_setting_and_never_shows(
    embedder: Embedder, service: FakeEmbeddingService, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    service.script = [EmbeddingResponse(status, body={"error": {"message": f"bad key {KEY}"}})]
    with pytest.raises(ConfigError, match="OPENAI_API_KEY") as caught:
        await embedder.embed(["a"])
    assert KEY not in "".join(traceback.format_exception(caught.value))
    assert KEY not in repr(embedder) + caplog.text


async def test_an_unknown_model_is_a_matter_of_settings(embedder: Embedder, service: FakeEmbeddingService) -> None:
    service.script = [EmbeddingResponse(404, body={"error": {"message": "no such model"}})]
    with pytest.raises(ConfigError, match="404"):
        await embedder.embed(["a"])


async def test_a_service_that_is_not_there_is_unavailable(options: EmbedderOptions) -> None:
    with serve() as gone:
        url = gone.url
    embedder = open_embedder("openai", replace(options, base_url=url))
    with pytest.raises(ModelUnavailable, match="cannot be reached"):
        await embedder.embed(["a"])
    await embedder.close()


async def test_dimensions_are_sent_only_when_they_differ_from_the_models_own(
    options: EmbedderOptions, service: FakeEmbeddingService
) -> None:
    for spec, sent, shape in (
        ("openai:text-embedding-3-small:256", 256, 256),
        ("openai:text-embedding-3-small:1536", None, 1536),
        ("openai:house-model:1536", None, 1536),
    ):
        embedder = open_embedder(spec, options)
        assert embedder.identity == spec
        assert (await embedder.embed(["a"])).shape == (1, shape)
        assert service.requests[-1].get("dimensions") == sent
        await embedder.close()


@pytest.mark.parametrize(
    "spec, identity",
    [
        ("openai", "openai:text-embedding-3-small:1536"),
        ("openai/text-embedding-3-large", "openai:text-embedding-3-large:3072"),
        ("openai:text-embedding-ada-002", "openai:text-embedding-ada-002:1536"),
    ],
)
def test_known_models_state_their_dimensions_without_a_request(
    options: EmbedderOptions, service: FakeEmbeddingService, spec: str, identity: str
) -> None:
    assert open_embedder(spec, options).identity == identity
    assert service.requests == []


@pytest.mark.parametrize(
    "spec, message",
    [
        ("openai:house-model", "openai:house-model:1024"),
        ("openai:text-embedding-3-small:3072", "1536"),
        ("openai:text-embedding-ada-002:256", "1536"),
    ],
)
def test_impossible_dimensions_are_refused_at_once(options: EmbedderOptions, spec: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        open_embedder(spec, options)


def test_a_missing_key_is_named_at_once(options: EmbedderOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
        open_embedder("openai", replace(options, api_key=None))


def test_a_missing_sdk_is_named_at_once(options: EmbedderOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "openai", None)
    with pytest.raises(ConfigError, match=r"agentmem-graph\[openai\]"):
        open_embedder("openai", options)


def test_the_key_is_not_in_what_options_print(options: EmbedderOptions) -> None:
    assert KEY not in repr(options)


async def test_after_close_nothing_is_sent(options: EmbedderOptions, service: FakeEmbeddingService) -> None:
    embedder = open_embedder("openai", options)
    await embedder.close()
    with pytest.raises(Closed):
        await embedder.embed(["a"])
    assert service.requests == []
