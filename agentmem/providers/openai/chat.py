"""Language models of OpenAI, and of servers that speak its protocol (vLLM, Ollama, llama.cpp and others)."""

from __future__ import annotations

import json
import re
from typing import Any

from agentmem.errors import ConfigError
from agentmem.providers import LLM, LLMOptions, LLMReply, LLMRequest, estimate_tokens
from agentmem.providers.services import SDKErrors, ServiceLLM, build_client_options, replace_surrogates, token_count

DEFAULT_LLM = "gpt-6-luna"
"""The vendor's model for small tasks in great numbers."""

_OPENAI_MODEL = re.compile(r"(gpt-|chatgpt-|o)\d")
"""Names of the vendor's own models. They take `max_completion_tokens`; other servers know `max_tokens`."""

_REASONING_DISABLED_MODELS = ("gpt-5.6-luna", "gpt-6-luna")
"""Models that think unless told not to, and that can be told; their thoughts would use up `max_tokens`."""

_SCHEMA_PROMPT = "Answer with one JSON object and nothing else. It must follow this JSON schema:"


def llm(model: str, options: LLMOptions) -> LLM:
    """Open a chat model, gpt-6-luna when none is named. Raises ConfigError when the SDK or the key is missing."""
    try:
        import openai
    except ImportError as error:
        raise ConfigError("llm openai needs the SDK: pip install 'agentmem-graph[openai]'") from error
    try:
        client = openai.AsyncOpenAI(
            api_key=options.api_key, timeout=options.timeout, max_retries=0, **build_client_options(options.base_url)
        )
    except openai.OpenAIError:
        raise ConfigError("llm openai needs a key: set OPENAI_API_KEY") from None
    model = model or DEFAULT_LLM
    errors = SDKErrors(openai, f"openai:{model}", "OPENAI_API_KEY", options)
    return OpenAILLM(model, client, errors, options)


class OpenAILLM(ServiceLLM):
    """See `LLM`. A server that takes no schema is asked for any JSON object, with the schema in the prompt."""

    def __init__(self, model: str, client: Any, errors: SDKErrors, options: LLMOptions) -> None:
        super().__init__(f"openai:{model}", client, errors, options)
        self._model = model
        self._supports_schema = True

    async def _send(self, request: LLMRequest) -> Any:
        import openai

        create = self._client.chat.completions.create
        if request.schema is None or not self._supports_schema:
            return await self._send_with_retry(create, **self._build_body(request))
        try:
            return await self._send_with_retry(create, **self._build_body(request))
        except openai.BadRequestError:
            answer = await self._send_with_retry(create, **self._build_body(request, schema_in_prompt=True))
            self._supports_schema = False
            return answer

    def _build_body(self, request: LLMRequest, schema_in_prompt: bool = False) -> dict[str, Any]:
        system = request.system
        own = _OPENAI_MODEL.match(self._model)
        body: dict[str, Any] = {"max_completion_tokens" if own else "max_tokens": request.max_tokens}
        if self._model.startswith(_REASONING_DISABLED_MODELS):
            body["reasoning_effort"] = "none"
        if request.temperature is not None:
            body["temperature"] = request.temperature
        if request.schema is not None and (schema_in_prompt or not self._supports_schema):
            system = f"{system}\n\n{_SCHEMA_PROMPT}\n{json.dumps(dict(request.schema))}".lstrip()
            body["response_format"] = {"type": "json_object"}
        elif request.schema is not None:
            name = re.sub(r"[^A-Za-z0-9_-]", "_", request.purpose)[:64] or "reply"
            schema = {"name": name, "strict": True, "schema": dict(request.schema)}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        messages = [{"role": "system", "content": replace_surrogates(system)}] if system else []
        messages.append({"role": "user", "content": replace_surrogates(request.content)})
        return {"model": self._model, "messages": messages, **body}

    def _parse_reply(self, answer: Any, request: LLMRequest) -> LLMReply:
        choice = answer.choices[0]
        text = choice.message.content
        if getattr(choice.message, "refusal", None) or choice.finish_reason == "content_filter":
            raise self._invalid_output(request, "the model refused to answer")
        if choice.finish_reason == "length":
            raise self._invalid_output(request, f"the reply was truncated at {request.max_tokens} tokens")
        if not isinstance(text, str) or not text.strip():
            raise self._invalid_output(request, "the reply was empty")
        usage = answer.usage
        details = getattr(usage, "prompt_tokens_details", None)
        return LLMReply(
            text=text,
            input_tokens=token_count(usage, "prompt_tokens", estimate_tokens(request.system + request.content)),
            cached_tokens=token_count(details, "cached_tokens"),
            output_tokens=token_count(usage, "completion_tokens", estimate_tokens(text)),
            model=str(answer.model or self._model),
        )
