"""Language models on this machine that speak the protocols of OpenAI and Anthropic and misbehave as told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agentmem.errors import ConfigError, InvalidModelOutput, ModelUnavailable
from tests.fakes.http_service import FakeHTTPService, ScriptedResponse

KEY = "sk-very-secret-0123456789"
RETRY_SOON_HEADERS = {"retry-after": "0.01"}


def error_response(status: int, text: str = "as told", **error: Any) -> ScriptedResponse:
    """A refusal in the form that both vendors share, to be tried again soon."""
    return ScriptedResponse(
        status, RETRY_SOON_HEADERS, {"type": "error", "error": {"type": "some_error", "message": text, **error}}
    )


FAILURES = {
    "429 to the end": ([error_response(429)] * 3, ModelUnavailable, "too many requests .*429", 3),
    "503 to the end": ([error_response(503)] * 3, ModelUnavailable, "503", 3),
    "529 to the end": ([error_response(529)] * 3, ModelUnavailable, "529", 3),
    "wait an hour": ([ScriptedResponse(429, {"retry-after": "3600"})], ModelUnavailable, "429", 1),
    "out of quota, in words": (
        [error_response(429, "You reached your API usage limits.")],
        ModelUnavailable,
        "quota",
        1,
    ),
    "out of credit": ([error_response(400, "Your credit balance is too low")] * 2, ModelUnavailable, "quota", 1),
    "dropped": ([ScriptedResponse(drop=True)], ModelUnavailable, "cannot be reached", 1),
    "key refused": ([error_response(401, f"bad key {KEY}")], ConfigError, "API_KEY", 1),
    "key not allowed": ([error_response(403, f"bad key {KEY}")], ConfigError, "API_KEY", 1),
    "no such model": ([error_response(404)], ConfigError, "404", 1),
    "refused as it is": ([error_response(413, "x" * 5_000)], InvalidModelOutput, "413.{0,300}$", 1),
    "half a body": ([ScriptedResponse(body='{"id": "x", "cho')], InvalidModelOutput, "cannot be read", 1),
    "a list": ([ScriptedResponse(body=[])], InvalidModelOutput, "openai|anthropic", 1),
    "an empty object": ([ScriptedResponse(body={})], InvalidModelOutput, "openai|anthropic", 1),
    "a page": (
        [ScriptedResponse(headers={"content-type": "text/html"}, body="<html>")],
        InvalidModelOutput,
        "cannot be read",
        1,
    ),
    "a well": ([ScriptedResponse(body="[" * 100_000)], InvalidModelOutput, "cannot be read", 1),
}
"""What goes wrong with any vendor: the script, the error, what it says, and how many requests were sent."""


def openai_completion(text: Any = "fine", finish: str = "stop", **message: Any) -> dict[str, Any]:
    """A body of OpenAI's chat completions."""
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "gpt-6-luna-2026-09-22",
        "choices": [
            {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text, **message}}
        ],
        "usage": {
            "prompt_tokens": 120,
            "completion_tokens": 30,
            "total_tokens": 150,
            "prompt_tokens_details": {"cached_tokens": 100},
        },
    }


def anthropic_message(*texts: str, stop: str = "end_turn", thinking: str | None = None) -> dict[str, Any]:
    """A body of Anthropic's messages."""
    thought = [{"type": "thinking", "thinking": thinking, "signature": "x"}] if thinking is not None else []
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-haiku-4-5-20251001",
        "content": [*thought, *({"type": "text", "text": text} for text in texts)],
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {
            "input_tokens": 20,
            "cache_read_input_tokens": 90,
            "cache_creation_input_tokens": 10,
            "output_tokens": 30,
        },
    }


@dataclass
class FakeLLMService(FakeHTTPService):
    """Answers "fine", by the protocol it is asked in."""

    def reply(self, asked: dict[str, Any], answer: Any) -> dict[str, Any]:
        return anthropic_message("fine") if "anthropic-version" in self.headers[-1] else openai_completion()
