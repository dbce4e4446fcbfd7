"""What the doctor finds out about language models."""

from __future__ import annotations

import re

import pytest

from agentmem.admin.check_llm import check_llms
from agentmem.core.clock import SystemClock
from agentmem.settings.settings import load_settings
from tests.fakes.http_service import ScriptedResponse, serve
from tests.fakes.llm_servers import FakeLLMService, error_response, openai_completion

RIGHT = ScriptedResponse(body=openai_completion('{"person": "Ines", "city": "Porto"}'))
WRONG = ScriptedResponse(body=openai_completion('{"person": "the user", "city": "Porto"}'))
CASES = {
    "reads well": ([RIGHT], "ok", "ollama:m read a sentence in .* 1 request.*asked for json_schema", "^$"),
    "takes no schema": ([error_response(400), RIGHT], "ok", "asked for json_object", "^$"),
    "reads wrongly": ([WRONG], "warning", "but wrongly", "larger model"),
    "gives no JSON": ([ScriptedResponse(body=openai_completion("Hm."))] * 2, "error", "not JSON", "cannot give JSON"),
    "unknown model": ([error_response(404)], "error", "knows no such model", "check llm"),
    "not ready": ([error_response(503)] * 3, "error", "HTTP 503", "start its server"),
}


@pytest.mark.parametrize("case", CASES)
async def test_a_model_is_asked_to_read_one_sentence(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    script, level, detail, fix = CASES[case]
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serve(FakeLLMService(script=list(script))) as service:
        settings = load_settings(llm="ollama:m", llm_base_url=f"{service.url}/v1")
        (found,) = await check_llms(settings, SystemClock())
    assert found.level == level
    assert re.search(detail, found.detail)
    assert re.search(fix, found.fix or "")


async def test_nothing_is_asked_without_a_model() -> None:
    assert await check_llms(load_settings(llm="none"), SystemClock()) == []
