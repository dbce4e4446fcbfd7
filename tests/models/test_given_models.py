"""Models by the name of a server on this machine, as objects and as functions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agentmem import AsyncAgentMemory
from agentmem.errors import ConfigError, InvalidModelOutput
from agentmem.models.protocols import LLMOptions, LLMReply, LLMRequest
from agentmem.models.registry import LLMRegistry, open_llm
from agentmem.settings.settings import load_settings

ASK = LLMRequest("read", "Fixed.", "Which?", {"type": "object"})


class Own:
    identity = "own:model"
    secret = "s3cret"
    closed = False

    async def complete(self, request: LLMRequest) -> LLMReply:
        return LLMReply("fine", 1, 0, 1, self.identity)

    async def close(self) -> None:
        self.closed = True


async def answer(system: str, content: str) -> str:
    return f"{content} {system}"


async def say_nothing(system: str, content: str) -> str:
    return ""


async def embed(texts: Sequence[str]) -> list[list[float]]:
    return [[3.0, 4.0 * ("cat" in text)] for text in texts]


async def score(query: str, texts: Sequence[str]) -> list[float]:
    return [float("dog" in text) for text in texts]


@pytest.mark.parametrize(
    "spec, address",
    [
        ("ollama:llama3.1", "http://localhost:11434/v1/"),
        ("lmstudio:qwen/qwen3", "http://localhost:1234/v1/"),
        ("vllm:m", "http://localhost:8000/v1/"),
        ("llamacpp:m", "http://localhost:8080/v1/"),
    ],
)
async def test_a_server_on_this_machine_needs_no_address_and_gets_no_key(
    spec: str, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-vendor")
    llm: Any = open_llm(spec, LLMOptions())
    assert (llm.identity, str(llm._client.base_url), llm._client.api_key) == (spec, address, "none")
    await llm.close()
    there: Any = open_llm(spec, LLMOptions(base_url="http://gpu:9/v1"))
    assert (str(there._client.base_url), there._client.api_key) == ("http://gpu:9/v1/", "sk-of-the-vendor")
    await there.close()
    monkeypatch.delenv("OPENAI_API_KEY")
    there = open_llm(spec, LLMOptions(base_url="http://gpu:9/v1"))
    assert there._client.api_key == "none"
    await there.close()


def test_a_server_without_a_model_is_refused() -> None:
    with pytest.raises(ConfigError, match="name the model that ollama serves"):
        open_llm("ollama", LLMOptions())


async def test_an_object_is_asked_not_shown_and_not_closed(tmp_path: Path) -> None:
    own = Own()
    settings = load_settings(load_settings(home=tmp_path, llm=own, recall_llm=answer), threads=1)
    llms = LLMRegistry(settings)
    assert (llms.spec("extraction"), llms.spec("recall")) == ("given:own:model", "given:answer")
    assert llms._get_or_open("given:own:model") is own
    assert "s3cret" not in repr(settings) + str(settings.public_values()) + settings.model_dump_json()
    await llms.close()
    assert not own.closed


async def test_a_function_is_asked_with_the_schema() -> None:
    llms = LLMRegistry(load_settings(llm=answer, recall_llm=say_nothing))
    llm, silent = llms._get_or_open(llms.spec("extraction")), llms._get_or_open(llms.spec("recall"))
    assert llm is not None
    assert silent is not None
    assert '{"type": "object"}' in (await llm.complete(ASK)).text
    with pytest.raises(InvalidModelOutput, match="not text, or empty"):
        await silent.complete(ASK)


@pytest.mark.parametrize("setting", ["llm", "embedder", "reranker"])
async def test_what_is_no_model_is_refused(tmp_path: Path, setting: str) -> None:
    given: Any = {setting: object()}
    with pytest.raises(ConfigError, match=rf"{setting}: must be a name, an object with|async function"):
        async with AsyncAgentMemory("ann", home=tmp_path, **given) as memory:
            memory.engine.llms.for_purpose("extraction")


async def test_a_memory_works_with_functions_and_opens_again(tmp_path: Path) -> None:
    given: Any = {"home": tmp_path, "embedder": embed, "dimensions": 2, "reranker": score}
    for _ in range(2):
        async with AsyncAgentMemory("ann", **given) as memory:
            await memory.store_turn("My cat sleeps.", role="user")
            assert memory.engine.vector_projections[0].embedder.identity == "given:embed:2"
            assert "cat" in (await memory.context("Which cat?")).text
            assert not memory.engine.notices
