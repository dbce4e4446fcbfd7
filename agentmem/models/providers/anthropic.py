"""Language models of Anthropic, through its own SDK.

User text leaves the machine, so this vendor is used only when it is named.
"""

from __future__ import annotations

from typing import Any

from agentmem.core.plain_values import replace_surrogates
from agentmem.errors import ConfigError
from agentmem.models.protocols import LLM, LLMOptions, LLMReply, LLMRequest
from agentmem.models.retry import SDKErrors, ServiceLLM, build_client_options, token_count
from agentmem.text.tokenizer import estimate_tokens

DEFAULT_MODEL = "claude-haiku-4-5"

_THINKING_DISABLED_MODELS = ("claude-haiku-5-5",)
"""Models that think by default, but can be switched off; their thoughts would use up `max_tokens`."""

_TRUNCATED_STOP_REASONS = ("max_tokens", "model_context_window_exceeded")


def llm(model: str, options: LLMOptions) -> LLM:
    """Open a Claude model, claude-haiku-4-5 when none is named.

    Raises ConfigError when the SDK or the key is missing.
    """
    try:
        import anthropic
    except ImportError as error:
        raise ConfigError("llm anthropic needs the SDK: pip install 'agentmem-graph[anthropic]'") from error
    client = anthropic.AsyncAnthropic(
        api_key=options.api_key, timeout=options.timeout, max_retries=0, **build_client_options(options.base_url)
    )
    # The SDK also takes tokens and profiles from its own places, and finds none of them only when it sends.
    if not (client.api_key or client.auth_token or getattr(client, "credentials", None)):
        raise ConfigError("llm anthropic needs a key: set ANTHROPIC_API_KEY")
    model = model or DEFAULT_MODEL
    errors = SDKErrors(anthropic, f"anthropic:{model}", "ANTHROPIC_API_KEY", options)
    return AnthropicLLM(model, client, errors, options)


class AnthropicLLM(ServiceLLM):
    """See `LLM`. The system part is marked for the vendor's cache; what the model thinks aloud is passed over.

    No temperature is sent: the vendor's API knows none since its version 2026-10-21 and refuses it.
    """

    def __init__(self, model: str, client: Any, errors: SDKErrors, options: LLMOptions) -> None:
        super().__init__(f"anthropic:{model}", client, errors, options)
        self._model = model

    async def _send(self, request: LLMRequest) -> Any:
        body: dict[str, Any] = {"messages": [{"role": "user", "content": replace_surrogates(request.content)}]}
        if request.system:
            text = {"type": "text", "text": replace_surrogates(request.system), "cache_control": {"type": "ephemeral"}}
            body["system"] = [text]
        if request.schema is not None:
            body["output_config"] = {"format": {"type": "json_schema", "schema": dict(request.schema)}}
        if self._model.startswith(_THINKING_DISABLED_MODELS):
            body["thinking"] = {"type": "disabled"}
        create = self._client.messages.create
        return await self._send_with_retry(create, model=self._model, max_tokens=request.max_tokens, **body)

    def _parse_reply(self, answer: Any, request: LLMRequest) -> LLMReply:
        if answer.stop_reason == "refusal":
            raise self._invalid_output(request, "the model refused to answer")
        is_truncated = answer.stop_reason in _TRUNCATED_STOP_REASONS
        if is_truncated and request.schema is None:
            raise self._invalid_output(request, f"the reply was truncated at {request.max_tokens} tokens")
        text = "".join(block.text for block in answer.content if block.type == "text")
        if not text.strip():
            raise self._invalid_output(request, "the reply was empty")
        usage = answer.usage
        cached = token_count(usage, "cache_read_input_tokens")
        # This vendor counts what went into its cache, and what came from it, beside the input.
        fresh = token_count(usage, "input_tokens", estimate_tokens(request.system + request.content))
        return LLMReply(
            text=text,
            input_tokens=fresh + cached + token_count(usage, "cache_creation_input_tokens"),
            cached_tokens=cached,
            output_tokens=token_count(usage, "output_tokens", estimate_tokens(text)),
            model=str(answer.model or self._model),
            is_truncated=is_truncated,
        )
