"""Anthropic's models, through the real SDK against a service on this machine."""

from __future__ import annotations

import sys
import traceback
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentmem.errors import Closed, ConfigError, InvalidModelOutput, ModelUnavailable
from agentmem.models.protocols import LLM, LLMOptions, LLMRequest
from agentmem.models.registry import open_llm
from tests.fakes.http_service import ScriptedResponse, serve
from tests.fakes.llm_servers import FAILURES, KEY, FakeLLMService, anthropic_message, error_response

ASK = LLMRequest(purpose="extract", system="Fixed.", content="Ann lives in Rome.")
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}
NAMES = ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "ANTHROPIC_PROFILE", "XDG_CONFIG_HOME"]


@pytest.fixture(autouse=True)
def _nothing_from_outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def service() -> Iterator[FakeLLMService]:
    with serve(FakeLLMService()) as service:
        yield service


@pytest.fixture
def options(service: FakeLLMService) -> LLMOptions:
    return LLMOptions(base_url=service.url, api_key=KEY, timeout=60.0)


@pytest.fixture
async def llm(options: LLMOptions) -> AsyncIterator[LLM]:
    llm = opened("anthropic", options)
    yield llm
    await llm.close()


def opened(spec: str, options: LLMOptions) -> LLM:
    llm = open_llm(spec, options)
    assert llm is not None
    return llm


@pytest.mark.parametrize("case", FAILURES)
async def test_what_goes_wrong_is_told_in_our_terms(llm: LLM, service: FakeLLMService, case: str) -> None:
    script, error, words, requests = FAILURES[case]
    service.script = list(script)
    with pytest.raises(error, match=words) as caught:
        await llm.complete(ASK)
    assert len(service.requests) == requests
    assert KEY not in "".join(traceback.format_exception(caught.value)) + repr(llm)


async def test_failures_that_pass_are_tried_again(llm: LLM, service: FakeLLMService) -> None:
    service.script = [error_response(429), error_response(503)]
    assert (await llm.complete(ASK)).text == "fine"
    assert len(service.requests) == 3


@pytest.mark.parametrize("slow", [ScriptedResponse(delay=600), ScriptedResponse(drip=1)], ids=["late", "byte by byte"])
async def test_a_slow_answer_is_given_up_and_tried_again(
    options: LLMOptions, service: FakeLLMService, slow: ScriptedResponse
) -> None:
    llm = opened("anthropic", replace(options, timeout=5, max_attempts=2))
    service.script = [slow]
    assert (await llm.complete(ASK)).text == "fine"
    assert len(service.requests) == 2
    await llm.close()
    llm = opened("anthropic", replace(options, timeout=0.3, max_attempts=2))
    service.script = [slow, slow]
    with pytest.raises(ModelUnavailable, match=r"0\.3 s"):
        await llm.complete(ASK)
    await llm.close()


async def test_a_key_with_a_line_break_is_named_and_never_shows(options: LLMOptions) -> None:
    llm = opened("anthropic", replace(options, api_key=KEY + "\nx"))
    with pytest.raises(ConfigError, match="ANTHROPIC_API_KEY") as caught:
        await llm.complete(ASK)
    assert KEY not in "".join(traceback.format_exception(caught.value))
    await llm.close()


async def test_a_service_that_is_not_there_is_unavailable(options: LLMOptions) -> None:
    with serve(FakeLLMService()) as gone:
        url = gone.url
    llm = opened("anthropic", replace(options, base_url=url))
    with pytest.raises(ModelUnavailable, match="cannot be reached"):
        await llm.complete(ASK)
    await llm.close()


def test_a_missing_key_is_named_at_once(options: LLMOptions) -> None:
    with pytest.raises(ConfigError, match="ANTHROPIC_API_KEY"):
        open_llm("anthropic", replace(options, api_key=None))


def test_a_missing_sdk_is_named_at_once(options: LLMOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "anthropic", None)
    with pytest.raises(ConfigError, match=r"agentmem-graph\[anthropic\]"):
        open_llm("anthropic", options)


async def test_after_close_nothing_is_sent(options: LLMOptions, service: FakeLLMService) -> None:
    llm = opened("anthropic", options)
    await llm.close()
    with pytest.raises(Closed):
        await llm.complete(ASK)
    assert service.requests == []


async def test_half_characters_are_sent_as_replacement_characters(llm: LLM, service: FakeLLMService) -> None:
    await llm.complete(replace(ASK, system="\ud800", content="a\udfffb"))
    assert "a\ufffdb" in str(service.requests[0])


async def test_a_good_answer_and_what_it_used_up(llm: LLM, service: FakeLLMService) -> None:
    service.script = [ScriptedResponse(body=anthropic_message("It is ", "fine.", thinking="hm"))]
    reply = await llm.complete(ASK)
    assert reply.text == "It is fine."
    assert (reply.input_tokens, reply.cached_tokens, reply.output_tokens) == (120, 90, 30)
    assert (llm.identity, reply.model) == ("anthropic:claude-haiku-4-5", "claude-haiku-4-5-20251001")
    assert service.requests == [
        {
            "model": "claude-haiku-4-5",
            "max_tokens": 1024,
            "system": [{"type": "text", "text": "Fixed.", "cache_control": {"type": "ephemeral"}}],
            "messages": [{"role": "user", "content": "Ann lives in Rome."}],
        }
    ]
    assert KEY in (service.headers[0].get("x-api-key"), service.headers[0].get("authorization", "")[7:])


async def test_the_schema_is_sent_as_the_vendor_wants_it(llm: LLM, service: FakeLLMService) -> None:
    await llm.complete(replace(ASK, schema=SCHEMA, temperature=0.0, max_tokens=50, system=""))
    sent = service.requests[0]  # without the temperature, which the vendor knows no more
    assert sent["output_config"] == {"format": {"type": "json_schema", "schema": SCHEMA}}
    assert (sent["max_tokens"], sorted(sent)) == (50, ["max_tokens", "messages", "model", "output_config"])
    assert "anthropic-beta" not in service.headers[0]


async def test_a_small_model_that_thinks_by_itself_is_told_not_to(options: LLMOptions, service: FakeLLMService) -> None:
    llm = opened("anthropic:claude-haiku-5-5", options)
    await llm.complete(ASK)
    assert service.requests[0]["thinking"] == {"type": "disabled"}
    await llm.close()


@pytest.mark.parametrize(
    "body, words",
    [
        (anthropic_message('{"a": "b', stop="max_tokens"), "extract: the reply was truncated at 1024 tokens"),
        (anthropic_message("{", stop="model_context_window_exceeded"), "truncated"),
        (anthropic_message("no", stop="refusal"), "extract: the model refused"),
        (anthropic_message(), "extract: the reply was empty"),
        (anthropic_message("  "), "empty"),
        (anthropic_message(thinking="only thoughts"), "empty"),
    ],
)
async def test_an_unusable_answer_is_a_bad_reply(llm: LLM, service: FakeLLMService, body: Any, words: str) -> None:
    service.script = [ScriptedResponse(body=body)]
    with pytest.raises(InvalidModelOutput, match=words):
        await llm.complete(ASK)
    assert len(service.requests) == 1
