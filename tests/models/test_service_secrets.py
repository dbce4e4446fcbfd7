"""Models behind services: neither a login in their address, nor their keys, nor what they answer is told on."""

from __future__ import annotations

import json
import logging
import traceback
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from agentmem.engine.opening import build_embedder_options
from agentmem.errors import AgentMemError, ConfigError
from agentmem.models.protocols import LLMRequest
from agentmem.models.registry import LLMRegistry, open_embedder
from agentmem.settings.settings import load_settings
from tests.fakes.http_service import ScriptedResponse, serve
from tests.fakes.llm_servers import FakeLLMService
from tests.fakes.openai_server import FakeEmbeddingService as VectorService

KEY, WORDS, LOGIN = "sk-hidden-key-1", "peanut allergy", "login/with@signs"
SENT = WORDS + " of Ann"
NO_LISTENER = "http://127.0.0.1:9"


@dataclass
class Parrot(FakeLLMService):
    """Answers both protocols of language models and of embeddings."""

    def reply(self, asked: dict[str, Any], answer: Any) -> dict[str, Any]:
        return VectorService().reply(asked, answer) if "input" in asked else super().reply(asked, answer)


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Parrot]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    for name in ("OPENAI", "ANTHROPIC"):
        monkeypatch.setenv(f"{name}_API_KEY", KEY)
        monkeypatch.setenv(f"{name}_BASE_URL", NO_LISTENER)
    with serve(Parrot()) as service:
        yield service


async def ask(vendor: str, **given: Any) -> Any:
    """Send something to a model as the settings open it."""
    if vendor == "embedder":
        model = open_embedder("openai", build_embedder_options(load_settings(embedder="openai", **given)))
        try:
            return await model.embed([SENT])
        finally:
            await model.close()
    llms = LLMRegistry(
        load_settings(llm=vendor, **{name.replace("base_url", "llm_base_url"): x for name, x in given.items()})
    )
    llm = llms._get_or_open(vendor)
    assert llm is not None
    try:
        return await llm.complete(LLMRequest("extract", "Fixed.", SENT))
    finally:
        await llms.close()


Ask = Callable[..., Awaitable[Any]]
VENDORS = ["embedder", "openai", "anthropic"]


def parroting(status: int) -> ScriptedResponse:
    """A refusal that repeats what it was sent, and how."""
    told = f"{KEY} sent {SENT}; {LOGIN}"
    error = {"type": told, "code": told, "param": told, "message": told}
    return ScriptedResponse(status, {"retry-after": "0.01"}, {"type": "error", "error": error})


@pytest.mark.parametrize("vendor", VENDORS)
async def test_an_address_of_the_settings_goes_before_the_sdks_own_variables(service: Parrot, vendor: str) -> None:
    await ask(vendor, base_url=f"{service.url}/v1")
    assert len(service.requests) == 1


@pytest.mark.parametrize("vendor", VENDORS)
async def test_a_login_in_an_address_is_sent_and_stands_in_no_log(
    service: Parrot, vendor: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    await ask(vendor, base_url=service.url.replace("://", "://ann:login%2Fwith%40signs@") + "/v1")
    assert service.headers[0]["authorization"] == f"Basic {b64encode(f'ann:{LOGIN}'.encode()).decode()}"
    assert "HTTP Request: POST http://127.0.0.1" in caplog.text
    assert "login" not in caplog.text


@pytest.mark.parametrize("vendor", VENDORS)
@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 413, 418, 422, 429, 500, 529])
async def test_what_a_service_answers_stands_in_no_error_and_no_log(
    service: Parrot, vendor: str, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    service.script = [parroting(status)] * 4
    with pytest.raises(AgentMemError) as caught:
        await ask(vendor, base_url=f"{service.url}/v1")
    told = "".join(traceback.format_exception(caught.value)) + caplog.text + repr(caught.value)
    assert [word for word in (KEY, WORDS, "with@signs") if word in told] == []


@pytest.mark.parametrize("vendor", VENDORS)
async def test_who_asks_for_it_finds_the_answer_in_the_log_alone(
    service: Parrot, vendor: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    service.script = [parroting(422)]
    with pytest.raises(AgentMemError) as caught:
        await ask(vendor, base_url=f"{service.url}/v1", log_model_errors=True)
    (event,) = [json.loads(record.getMessage()) for record in caplog.records if record.name == "agentmem"]
    assert event["event"] == "model_error_text"
    assert WORDS in event["text"]
    assert WORDS not in str(caught.value)


@pytest.mark.parametrize("vendor", VENDORS)
async def test_an_address_that_does_not_answer_is_not_told_with_its_login(service: Parrot, vendor: str) -> None:
    address = NO_LISTENER.replace("://", "://ann:hidden-login@")
    with pytest.raises(AgentMemError, match=r"cannot be reached \(") as caught:
        await ask(vendor, base_url=address)
    assert "hidden-login" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    "url",
    [
        "ftp://h/v1",
        "h/v1",
        "http://",
        "http://ann:pass/word@h/v1",
        "http://ann:pass#word@h/v1",
        "http://a:pa@ss@h/v1",
        "http://ann:pass?word@h/v1",
        "http://ann:pass word@h/v1",
        "http://ann:pass%word@h",
        "http://h:port/v1",
        "http://h/v1?key=password",
        "http://h:99999/v1",
        "http://ann:[pass]@h",
        "http://h\n/v1",
        "https:h",
    ],
)
@pytest.mark.parametrize("name", ["base_url", "llm_base_url"])
def test_an_address_that_can_be_read_in_two_ways_is_refused_without_being_shown(name: str, url: str) -> None:
    with pytest.raises(ConfigError, match=f"setting {name}: ") as caught:
        load_settings(**{name: url})  # type: ignore[arg-type]
    shown = "".join(traceback.format_exception_only(caught.value))
    assert [part for part in ("pass", "word", "ss@") if part in shown.replace("user and password", "")] == []
