"""Language models on this machine that speak the protocols of OpenAI and Anthropic and misbehave as told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agentmem.errors import BadReply, ConfigError, ModelUnavailable
from tests.fakes.http_service import Answer, Service

KEY = "sk-very-secret-0123456789"
SOON = {"retry-after": "0.01"}


def failing(status: int, text: str = "as told", **error: Any) -> Answer:
    """A refusal in the form that both vendors share, to be tried again soon."""
    return Answer(status, SOON, {"type": "error", "error": {"type": "some_error", "message": text, **error}})


FAILURES = {
    "429 to the end": ([failing(429)] * 3, ModelUnavailable, "too many requests .*429", 3),
    "503 to the end": ([failing(503)] * 3, ModelUnavailable, "503", 3),
    "529 to the end": ([failing(529)] * 3, ModelUnavailable, "529", 3),
    "wait an hour": ([Answer(429, {"retry-after": "3600"})], ModelUnavailable, "429", 1),
    "out of quota, in words": ([failing(429, "You reached your API usage limits.")], ModelUnavailable, "quota", 1),
    "out of credit": ([failing(400, "Your credit balance is too low")] * 2, ModelUnavailable, "quota", 1),
    "dropped": ([Answer(drop=True)], ModelUnavailable, "cannot be reached", 1),
    "key refused": ([failing(401, f"bad key {KEY}")], ConfigError, "API_KEY", 1),
    "key not allowed": ([failing(403, f"bad key {KEY}")], ConfigError, "API_KEY", 1),
    "no such model": ([failing(404)], ConfigError, "404", 1),
    "refused as it is": ([failing(413, "x" * 5_000)], BadReply, "413.{0,300}$", 1),
    "half a body": ([Answer(body='{"id": "x", "cho')], BadReply, "cannot be read", 1),
    "a list": ([Answer(body=[])], BadReply, "openai|anthropic", 1),
    "an empty object": ([Answer(body={})], BadReply, "openai|anthropic", 1),
    "a page": ([Answer(headers={"content-type": "text/html"}, body="<html>")], BadReply, "cannot be read", 1),
    "a well": ([Answer(body="[" * 100_000)], BadReply, "cannot be read", 1),
}
"""What goes wrong with any vendor: the script, the error, what it says, and how many requests were sent."""


def completion(text: Any = "fine", finish: str = "stop", **message: Any) -> dict[str, Any]:
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


def message(*texts: str, stop: str = "end_turn", thinking: str | None = None) -> dict[str, Any]:
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
class LLMService(Service):
    """Answers "fine", by the protocol it is asked in."""

    def reply(self, asked: dict[str, Any], answer: Any) -> dict[str, Any]:
        return message("fine") if "anthropic-version" in self.headers[-1] else completion()
