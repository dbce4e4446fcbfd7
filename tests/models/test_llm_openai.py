"""OpenAI's models, through the real SDK against a service on this machine."""

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
from tests.fakes.llm_servers import FAILURES, KEY, FakeLLMService, error_response, openai_completion

ASK = LLMRequest(purpose="extract", system="Fixed.", content="Ann lives in Rome.")
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}
NAMES = ["OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ADMIN_KEY"]


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
    return LLMOptions(base_url=f"{service.url}/v1", api_key=KEY, timeout=60.0)


@pytest.fixture
async def llm(options: LLMOptions) -> AsyncIterator[LLM]:
    llm = opened("openai", options)
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
    llm = opened("openai", replace(options, timeout=5, max_attempts=2))
    service.script = [slow]
    assert (await llm.complete(ASK)).text == "fine"
    assert len(service.requests) == 2
    await llm.close()
    llm = opened("openai", replace(options, timeout=0.3, max_attempts=2))
    service.script = [slow, slow]
    with pytest.raises(ModelUnavailable, match=r"0\.3 s"):
        await llm.complete(ASK)
    await llm.close()


async def test_a_key_with_a_line_break_is_named_and_never_shows(options: LLMOptions) -> None:
    llm = opened("openai", replace(options, api_key=KEY + "\nx"))
    with pytest.raises(ConfigError, match="OPENAI_API_KEY") as caught:
        await llm.complete(ASK)
    assert KEY not in "".join(traceback.format_exception(caught.value))
    await llm.close()


async def test_a_service_that_is_not_there_is_unavailable(options: LLMOptions) -> None:
    with serve(FakeLLMService()) as gone:
        url = gone.url
    llm = opened("openai", replace(options, base_url=url))
    with pytest.raises(ModelUnavailable, match="cannot be reached"):
        await llm.complete(ASK)
    await llm.close()


def test_a_missing_key_is_named_at_once(options: LLMOptions) -> None:
    with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
        open_llm("openai", replace(options, api_key=None))


def test_a_missing_sdk_is_named_at_once(options: LLMOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(ConfigError, match=r"agentmem-graph\[openai\]"):
        open_llm("openai", options)


async def test_after_close_nothing_is_sent(options: LLMOptions, service: FakeLLMService) -> None:
    llm = opened("openai", options)
    await llm.close()
    with pytest.raises(Closed):
        await llm.complete(ASK)
    assert service.requests == []


async def test_half_characters_are_sent_as_replacement_characters(llm: LLM, service: FakeLLMService) -> None:
    await llm.complete(replace(ASK, system="\ud800", content="a\udfffb"))
    assert "a\ufffdb" in str(service.requests[0])


async def test_a_good_answer_and_what_it_used_up(llm: LLM, service: FakeLLMService) -> None:
    reply = await llm.complete(ASK)
    assert reply.text == "fine"
    assert (reply.input_tokens, reply.cached_tokens, reply.output_tokens) == (120, 100, 30)
    assert (llm.identity, reply.model) == ("openai:gpt-6-luna", "gpt-6-luna-2026-09-22")
    assert service.requests == [
        {
            "model": "gpt-6-luna",
            "max_completion_tokens": 1024,
            "reasoning_effort": "none",
            "messages": [
                {"role": "system", "content": "Fixed."},
                {"role": "user", "content": "Ann lives in Rome."},
            ],
        }
    ]
    assert service.headers[0]["authorization"] == f"Bearer {KEY}"


async def test_the_schema_is_sent_as_the_vendor_wants_it(llm: LLM, service: FakeLLMService) -> None:
    await llm.complete(replace(ASK, purpose="what is new?", schema=SCHEMA, temperature=0.0, system=""))
    sent = service.requests[0]
    assert sent["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "what_is_new_", "strict": True, "schema": SCHEMA},
    }
    assert (sent["temperature"], len(sent["messages"])) == (0.0, 1)


@pytest.mark.parametrize("model", ["llama3:8b", "gpt-oss-20b", "qwen/qwen3"])
async def test_other_servers_are_sent_what_they_know(options: LLMOptions, service: FakeLLMService, model: str) -> None:
    llm = opened(f"openai:{model}", options)
    await llm.complete(replace(ASK, max_tokens=7))
    sent = service.requests[0]
    assert llm.identity == f"openai:{model}"
    assert (sent["model"], sent["max_tokens"]) == (model, 7)
    assert sent.keys() & {"max_completion_tokens", "reasoning_effort"} == set()
    await llm.close()


STEPS = {
    "no schema, 400": ([error_response(400, "unknown type json_schema")], "json_object"),
    "no schema, 422": ([error_response(422, "permitted: 'text', 'json_object'")], "json_object"),
    "no schema, 500": ([error_response(500, "literal_error")] * 3, "json_object"),
    "no schema, 501": ([error_response(501, "not implemented")] * 3, "json_object"),
    "schema or text": ([error_response(400, "bad schema"), error_response(400, "must be 'json_schema'")], "text"),
    "no format at all": ([error_response(400, "unknown field response_format")] * 2, "text"),
    "no system role": ([error_response(400, "System role not supported")], "json_schema"),
    "roles in turn": ([error_response(500, "Conversation roles must alternate user/assistant")] * 3, "json_schema"),
    "no temperature": ([error_response(400, "Unsupported value: 'temperature'")], "json_schema"),
}


@pytest.mark.parametrize("case", STEPS)
async def test_a_server_is_asked_for_less_and_what_it_takes_is_remembered(
    llm: LLM, service: FakeLLMService, case: str
) -> None:
    service.script, rung = list(STEPS[case][0]), STEPS[case][1]
    for _ in range(2):
        assert (await llm.complete(replace(ASK, schema=SCHEMA))).text == "fine"
    assert len(service.requests) == len(STEPS[case][0]) + 2
    for sent in service.requests[-2:]:
        told = "\n".join(message["content"] for message in sent["messages"])
        assert sent.get("response_format", {"type": "text"})["type"] == rung
        assert ('"additionalProperties": false' in told) == (rung != "json_schema")
        assert ("temperature" in sent) == (case != "no temperature")
        roles = [message["role"] for message in sent["messages"]]
        assert roles == (["user"] if "role" in case else ["system", "user"])
        assert "Fixed." in told


async def test_what_is_refused_in_any_form_changes_nothing(llm: LLM, service: FakeLLMService) -> None:
    service.script = [error_response(400, "too long")] * 3
    with pytest.raises(InvalidModelOutput, match=r"refused \(HTTP 400\); the setting log_model_errors"):
        await llm.complete(replace(ASK, schema=SCHEMA))
    await llm.complete(replace(ASK, schema=SCHEMA))
    assert service.requests[3]["response_format"]["type"] == "json_schema"


async def test_a_failure_after_a_good_answer_costs_no_rung(llm: LLM, service: FakeLLMService) -> None:
    await llm.complete(replace(ASK, schema=SCHEMA))
    service.script = [error_response(500)] * 3
    with pytest.raises(ModelUnavailable, match="500"):
        await llm.complete(replace(ASK, schema=SCHEMA))
    assert (await llm.complete(replace(ASK, schema=SCHEMA))).text == "fine"
    assert service.requests[-1]["response_format"]["type"] == "json_schema"


CONTEXTS = {
    "vLLM": "maximum context length is 4096 tokens. However, you requested 5600 tokens (1600 in the messages, "
    "4000 in the completion).",
    "vLLM, newer": "'max_tokens' is too large: 4000. This model's maximum context length is 4096 tokens and your "
    "request has 1600 input tokens",
    "sum alone": "This model's maximum context length is 4096 tokens. However, you requested 5600 tokens",
}


@pytest.mark.parametrize("case", CONTEXTS)
async def test_a_reply_is_bounded_by_what_the_context_leaves(llm: LLM, service: FakeLLMService, case: str) -> None:
    service.script = [error_response(400, CONTEXTS[case])]
    assert (await llm.complete(replace(ASK, schema=SCHEMA, max_tokens=4000))).text == "fine"
    assert [sent["max_completion_tokens"] for sent in service.requests] == [4000, 2480]


@pytest.mark.parametrize(
    "text, bounds",
    [
        ("the request exceeds the available context size (5000 > 4096)", [4000]),
        ("Requested tokens (5000) exceed context window of 4096", [4000, 3000, 2080, 1160, 240]),
        ("the context window is exceeded", [4000, 2000, 1000, 500, 250]),
    ],
)
async def test_a_prompt_beyond_the_context_is_told_after_a_few_tries(
    llm: LLM, service: FakeLLMService, text: str, bounds: list[int]
) -> None:
    service.script = [error_response(400, text)] * 9
    with pytest.raises(InvalidModelOutput, match="leaves no room for a reply in the context"):
        await llm.complete(replace(ASK, schema=SCHEMA, max_tokens=4000))
    assert [sent["max_completion_tokens"] for sent in service.requests] == bounds


async def test_what_a_server_thinks_is_its_reply_where_nothing_else_is(llm: LLM, service: FakeLLMService) -> None:
    service.script = [ScriptedResponse(body=openai_completion(None, reasoning_content='{"a": "b"}'))]
    assert (await llm.complete(replace(ASK, schema=SCHEMA))).text == '{"a": "b"}'


async def test_an_empty_quota_is_not_asked_again(llm: LLM, service: FakeLLMService) -> None:
    service.script = [error_response(429, code="insufficient_quota")]
    with pytest.raises(ModelUnavailable, match="quota"):
        await llm.complete(ASK)
    assert len(service.requests) == 1


async def test_a_server_that_keeps_no_account_is_estimated(llm: LLM, service: FakeLLMService) -> None:
    service.script = [ScriptedResponse(body={**openai_completion("x" * 9), "usage": None})]
    reply = await llm.complete(ASK)
    assert (reply.input_tokens, reply.cached_tokens, reply.output_tokens) == (6, 0, 3)


@pytest.mark.parametrize(
    "body, words",
    [
        (openai_completion('{"a": "b', "length"), "extract: the reply was truncated at 1024 tokens"),
        (openai_completion(None, refusal="I cannot"), "extract: the model refused"),
        (openai_completion("", "content_filter"), "refused"),
        (openai_completion(""), "extract: the reply was empty"),
        (openai_completion(None), "empty"),
        (openai_completion([1, 2]), "empty"),
        ({**openai_completion(), "choices": []}, "cannot be read"),
    ],
)
async def test_an_unusable_answer_is_a_bad_reply(llm: LLM, service: FakeLLMService, body: Any, words: str) -> None:
    service.script = [ScriptedResponse(body=body)]
    with pytest.raises(InvalidModelOutput, match=words):
        await llm.complete(ASK)
    assert len(service.requests) == 1
