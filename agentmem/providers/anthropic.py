"""Language models of Anthropic, through its own SDK.

User text leaves the machine, so this vendor is used only when it is named.
"""

from __future__ import annotations

from typing import Any

from agentmem.errors import ConfigError
from agentmem.providers import LLM, LLMOptions, LLMReply, LLMRequest, estimated_tokens
from agentmem.providers.services import ServiceErrors, ServiceLLM, address_options, counted, sendable

DEFAULT_MODEL = "claude-haiku-4-5"

_UNTHINKING = ("claude-haiku-5-5",)
"""Models that think unless told not to, and that can be told; their thoughts would use up `max_tokens`."""

_CUT_OFF = ("max_tokens", "model_context_window_exceeded")


def llm(model: str, options: LLMOptions) -> LLM:
    """Open a Claude model, claude-haiku-4-5 when none is named.

    Raises ConfigError when the SDK or the key is missing.
    """
    try:
        import anthropic
    except ImportError as error:
        raise ConfigError("llm anthropic needs the SDK: pip install 'agentmem-graph[anthropic]'") from error
    client = anthropic.AsyncAnthropic(
        api_key=options.api_key, timeout=options.timeout, max_retries=0, **address_options(options.base_url)
    )
    # The SDK also takes tokens and profiles from its own places, and finds none of them only when it sends.
    if not (client.api_key or client.auth_token or getattr(client, "credentials", None)):
        raise ConfigError("llm anthropic needs a key: set ANTHROPIC_API_KEY")
    model = model or DEFAULT_MODEL
    errors = ServiceErrors(anthropic, f"anthropic:{model}", "ANTHROPIC_API_KEY", options)
    return AnthropicLLM(model, client, errors, options)


class AnthropicLLM(ServiceLLM):
    """See `LLM`. The system part is marked for the vendor's cache; what the model thinks aloud is passed over.

    No temperature is sent: the vendor's API knows none since its version 2026-10-21 and refuses it.
    """

    def __init__(self, model: str, client: Any, errors: ServiceErrors, options: LLMOptions) -> None:
        super().__init__(f"anthropic:{model}", client, errors, options)
        self._model = model

    async def _send(self, request: LLMRequest) -> Any:
        body: dict[str, Any] = {"messages": [{"role": "user", "content": sendable(request.content)}]}
        if request.system:
            text = {"type": "text", "text": sendable(request.system), "cache_control": {"type": "ephemeral"}}
            body["system"] = [text]
        if request.schema is not None:
            body["output_config"] = {"format": {"type": "json_schema", "schema": dict(request.schema)}}
        if self._model.startswith(_UNTHINKING):
            body["thinking"] = {"type": "disabled"}
        create = self._client.messages.create
        return await self._tried(create, model=self._model, max_tokens=request.max_tokens, **body)

    def _read(self, answer: Any, request: LLMRequest) -> LLMReply:
        if answer.stop_reason == "refusal":
            raise self._unusable(request, "the model refused to answer")
        if answer.stop_reason in _CUT_OFF:
            raise self._unusable(request, f"the reply was truncated at {request.max_tokens} tokens")
        text = "".join(block.text for block in answer.content if block.type == "text")
        if not text.strip():
            raise self._unusable(request, "the reply was empty")
        usage = answer.usage
        cached = counted(usage, "cache_read_input_tokens")
        # This vendor counts what went into its cache, and what came from it, beside the input.
        fresh = counted(usage, "input_tokens", estimated_tokens(request.system + request.content))
        return LLMReply(
            text=text,
            input_tokens=fresh + cached + counted(usage, "cache_creation_input_tokens"),
            cached_tokens=cached,
            output_tokens=counted(usage, "output_tokens", estimated_tokens(text)),
            model=str(answer.model or self._model),
        )
