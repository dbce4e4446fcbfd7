"""Language models of OpenAI, and of servers that speak its protocol (vLLM, Ollama, llama.cpp and others)."""

from __future__ import annotations

import json
import re
from typing import Any

from agentmem.errors import ConfigError
from agentmem.providers import LLM, LLMOptions, LLMReply, LLMRequest, estimated_tokens
from agentmem.providers.services import ServiceErrors, ServiceLLM, address_options, counted, sendable

DEFAULT_MODEL = "gpt-6-luna"
"""The vendor's model for small tasks in great numbers."""

_OWN = re.compile(r"(gpt-|chatgpt-|o)\d")
"""Names of the vendor's own models. They take `max_completion_tokens`; other servers know `max_tokens`."""

_UNTHINKING = ("gpt-5.6-luna", "gpt-6-luna")
"""Models that think unless told not to, and that can be told; their thoughts would use up `max_tokens`."""

_IN_WORDS = "Answer with one JSON object and nothing else. It must follow this JSON schema:"


def llm(model: str, options: LLMOptions) -> LLM:
    """Open a chat model, gpt-6-luna when none is named. Raises ConfigError when the SDK or the key is missing."""
    try:
        import openai
    except ImportError as error:
        raise ConfigError("llm openai needs the SDK: pip install 'agentmem-graph[openai]'") from error
    try:
        client = openai.AsyncOpenAI(
            api_key=options.api_key, timeout=options.timeout, max_retries=0, **address_options(options.base_url)
        )
    except openai.OpenAIError:
        raise ConfigError("llm openai needs a key: set OPENAI_API_KEY") from None
    model = model or DEFAULT_MODEL
    errors = ServiceErrors(openai, f"openai:{model}", "OPENAI_API_KEY", options)
    return OpenAILLM(model, client, errors, options)


class OpenAILLM(ServiceLLM):
    """See `LLM`. A server that takes no schema is asked for any JSON object, with the schema in the prompt."""

    def __init__(self, model: str, client: Any, errors: ServiceErrors, options: LLMOptions) -> None:
        super().__init__(f"openai:{model}", client, errors, options)
        self._model = model
        self._takes_schema = True

    async def _send(self, request: LLMRequest) -> Any:
        import openai

        create = self._client.chat.completions.create
        if request.schema is None or not self._takes_schema:
            return await self._tried(create, **self._body(request))
        try:
            return await self._tried(create, **self._body(request))
        except openai.BadRequestError:
            answer = await self._tried(create, **self._body(request, in_words=True))
            self._takes_schema = False
            return answer

    def _body(self, request: LLMRequest, in_words: bool = False) -> dict[str, Any]:
        system = request.system
        own = _OWN.match(self._model)
        body: dict[str, Any] = {"max_completion_tokens" if own else "max_tokens": request.max_tokens}
        if self._model.startswith(_UNTHINKING):
            body["reasoning_effort"] = "none"
        if request.temperature is not None:
            body["temperature"] = request.temperature
        if request.schema is not None and (in_words or not self._takes_schema):
            system = f"{system}\n\n{_IN_WORDS}\n{json.dumps(dict(request.schema))}".lstrip()
            body["response_format"] = {"type": "json_object"}
        elif request.schema is not None:
            name = re.sub(r"[^A-Za-z0-9_-]", "_", request.purpose)[:64] or "reply"
            schema = {"name": name, "strict": True, "schema": dict(request.schema)}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        messages = [{"role": "system", "content": sendable(system)}] if system else []
        messages.append({"role": "user", "content": sendable(request.content)})
        return {"model": self._model, "messages": messages, **body}

    def _read(self, answer: Any, request: LLMRequest) -> LLMReply:
        choice = answer.choices[0]
        text = choice.message.content
        if getattr(choice.message, "refusal", None) or choice.finish_reason == "content_filter":
            raise self._unusable(request, "the model refused to answer")
        if choice.finish_reason == "length":
            raise self._unusable(request, f"the reply was truncated at {request.max_tokens} tokens")
        if not isinstance(text, str) or not text.strip():
            raise self._unusable(request, "the reply was empty")
        usage = answer.usage
        details = getattr(usage, "prompt_tokens_details", None)
        return LLMReply(
            text=text,
            input_tokens=counted(usage, "prompt_tokens", estimated_tokens(request.system + request.content)),
            cached_tokens=counted(details, "cached_tokens"),
            output_tokens=counted(usage, "completion_tokens", estimated_tokens(text)),
            model=str(answer.model or self._model),
        )
