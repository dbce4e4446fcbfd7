"""OpenAI, and servers that speak its protocol, through its own SDK: embeddings and language models.

User text leaves the machine, so this vendor is used only when it is named.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from agentmem.core.plain_values import replace_surrogates
from agentmem.errors import Closed, ConfigError, InvalidModelOutput
from agentmem.models.endpoint import MAX_STEPS, ContextFull, Endpoint, shrink_reply
from agentmem.models.protocols import (
    LLM,
    Embedder,
    EmbedderOptions,
    LLMOptions,
    LLMReply,
    LLMRequest,
    Vectors,
)
from agentmem.models.retry import (
    MALFORMED_REPLY_ERRORS,
    RequestRefused,
    SDKErrors,
    ServiceLLM,
    build_client_options,
    is_out_of_quota,
    retry,
    token_count,
)
from agentmem.text.tokenizer import estimate_tokens

if TYPE_CHECKING:
    from openai import AsyncOpenAI
    from openai.types import CreateEmbeddingResponse


DEFAULT_LLM = "gpt-6-luna"
"""The vendor's model for small tasks in great numbers."""

_OPENAI_MODEL = re.compile(r"(gpt-|chatgpt-|o)\d")
"""Names of the vendor's own models. They take `max_completion_tokens`; other servers know `max_tokens`."""

_REASONING_DISABLED_MODELS = ("gpt-5.6-luna", "gpt-6-luna")
"""Models that think by default, but can be switched off; their thoughts would use up `max_tokens`."""

_SCHEMA_PROMPT = "Answer with one JSON object and nothing else. It must follow this JSON schema:"
_SCHEMA_REMINDER = "Now answer with the JSON object alone; its first character is {"

_VENDOR_HOST = "api.openai.com"

DEFAULT_EMBEDDER = "text-embedding-3-small"
MODEL_DIMENSIONS = {"text-embedding-3-small": 1536, "text-embedding-3-large": 3072, "text-embedding-ada-002": 1536}
"""Dimensions of the models, from the vendor's documentation; the first two can give fewer."""

MAX_REQUEST_TEXTS, MAX_REQUEST_TOKENS = 256, 100_000
"""Most texts and estimated tokens of one request; the service takes 2,048 and 300,000."""

MAX_TEXT_TOKENS = 8_000
"""Estimated tokens kept of one text; the service takes 8,191."""


def llm(model: str, options: LLMOptions, server: str = "openai") -> LLM:
    """Open a chat model, gpt-6-luna when none is named; `server` is another server than the vendor's own.

    Raises ConfigError when the SDK or the key is missing.
    """
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
    errors = SDKErrors(openai, f"{server}:{model}", "OPENAI_API_KEY", options)
    return OpenAILLM(model, client, errors, options, server)


class OpenAILLM(ServiceLLM):
    """See `LLM`. A server that refuses a request is asked for less, as `Endpoint` says, and what it took is kept."""

    def __init__(self, model: str, client: Any, errors: SDKErrors, options: LLMOptions, vendor: str = "openai") -> None:
        super().__init__(f"{vendor}:{model}", client, errors, options)
        self._model = model
        self.takes_bounds = str(client.base_url).split("/")[2] != _VENDOR_HOST
        self.endpoint = Endpoint()

    async def _send(self, request: LLMRequest) -> Any:
        create, endpoint = self._client.chat.completions.create, self.endpoint
        for left in range(MAX_STEPS, -1, -1):
            try:
                answer = await self._send_with_retry(create, **self._build_body(request, endpoint))
            except self._errors.base_error as error:
                step = self._ask_for_less(error, request, endpoint) if left else None
                if step is None:
                    raise
                request, endpoint = step
                continue
            self.endpoint = replace(endpoint, is_proven=endpoint.is_proven or request.schema is not None)
            return answer
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _ask_for_less(
        self, error: Exception, request: LLMRequest, endpoint: Endpoint
    ) -> tuple[LLMRequest, Endpoint] | None:
        status, message = int(getattr(error, "status_code", 0)), str(getattr(error, "message", error))
        if is_out_of_quota(error):
            return None
        kind = f"{getattr(error, 'code', None)} {getattr(error, 'type', None)}"
        try:
            room = shrink_reply(status, kind, message, request.max_tokens)
        except ContextFull as full:
            limit = f" of {full.limit:,} tokens" if full.limit else ""
            raise RequestRefused(
                f"{self.identity}: {request.purpose}: the prompt leaves no room for a reply in the context{limit} of "
                "the model; start its server with a longer one"
            ) from None
        if room is not None:
            return replace(request, max_tokens=room), endpoint
        if status >= 500 and not self.takes_bounds:
            return None
        heat = self._temperature(request, endpoint) is not None
        step = endpoint.step_down(
            status, message, has_schema=request.schema is not None, has_system=bool(request.system), heat=heat
        )
        return None if step is None else (request, step)

    def _temperature(self, request: LLMRequest, endpoint: Endpoint) -> float | None:
        if not endpoint.takes_temperature:
            return None
        own = 0.0 if request.schema is not None else None  # servers' own default is made for prose
        return own if request.temperature is None else request.temperature

    def _build_body(self, request: LLMRequest, endpoint: Endpoint) -> dict[str, Any]:
        system, content = request.system, request.content
        own = _OPENAI_MODEL.match(self._model)
        body: dict[str, Any] = {"max_completion_tokens" if own else "max_tokens": request.max_tokens}
        if self._model.startswith(_REASONING_DISABLED_MODELS):
            body["reasoning_effort"] = "none"
        if (temperature := self._temperature(request, endpoint)) is not None:
            body["temperature"] = temperature
        if request.schema is not None and endpoint.rung == "json_schema":
            name = re.sub(r"[^A-Za-z0-9_-]", "_", request.purpose)[:64] or "reply"
            schema = {"name": name, "strict": True, "schema": dict(request.schema)}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        elif request.schema is not None:
            system = f"{system}\n\n{_SCHEMA_PROMPT}\n{json.dumps(dict(request.schema))}".lstrip()
            content = f"{content}\n\n{_SCHEMA_REMINDER}"
            if endpoint.rung == "json_object":
                body["response_format"] = {"type": "json_object"}
        if endpoint.folds_system:
            system, content = "", f"{content}\n\n{system}"
        messages = [{"role": "system", "content": replace_surrogates(system)}] if system else []
        messages.append({"role": "user", "content": replace_surrogates(content)})
        return {"model": self._model, "messages": messages, **body}

    def _parse_reply(self, answer: Any, request: LLMRequest) -> LLMReply:
        choice = answer.choices[0]
        text = choice.message.content
        if text is None or text == "":  # some servers put the whole reply of a model that thinks there
            text = getattr(choice.message, "reasoning_content", None) or getattr(choice.message, "reasoning", None)
        if getattr(choice.message, "refusal", None) or choice.finish_reason == "content_filter":
            raise self._invalid_output(request, "the model refused to answer")
        is_truncated = choice.finish_reason == "length"
        if is_truncated and request.schema is None:
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
            is_truncated=is_truncated,
        )


def embedder(model: str, options: EmbedderOptions) -> Embedder:
    """Open an OpenAI embedding model, text-embedding-3-small when none is named.

    Raises ConfigError when the SDK or the key is missing, when the dimensions of an unknown model are not given, and
    when a known model cannot give the dimensions asked for.
    """
    model = model or DEFAULT_EMBEDDER
    dimensions = _resolve_dimensions(model, options.dimensions)
    try:
        import openai
    except ImportError as error:
        raise ConfigError("embedder openai needs the SDK: pip install 'agentmem-graph[openai]'") from error
    try:
        # The SDK's own retries cannot be counted on to leave other failures alone.
        client = openai.AsyncOpenAI(
            api_key=options.api_key, timeout=options.timeout, max_retries=0, **build_client_options(options.base_url)
        )
    except openai.OpenAIError:
        raise ConfigError("embedder openai needs a key: set OPENAI_API_KEY") from None
    return OpenAIEmbedder(model, dimensions, client, options)


def _resolve_dimensions(model: str, requested: int | None) -> int:
    known = MODEL_DIMENSIONS.get(model)
    if known is None and requested is None:
        raise ConfigError(f"embedder openai:{model}: dimensions are not known; write openai:{model}:1024 or so")
    if known and requested and (requested > known or (requested != known and model.endswith("ada-002"))):
        raise ConfigError(f"embedder openai:{model} gives {known} dimensions, not {requested}")
    return requested or known or 0


class OpenAIEmbedder:
    """See `Embedder`. Requests are sent one after the other, each retried as `retry` says."""

    def __init__(self, model: str, dimensions: int, client: AsyncOpenAI, options: EmbedderOptions) -> None:
        import openai

        self._model = model
        self._dimensions = dimensions
        self._client = client
        self._max_attempts = options.max_attempts
        self._errors = SDKErrors(openai, self.identity, "OPENAI_API_KEY", options)
        self._closed = False

    def __repr__(self) -> str:
        return f"OpenAIEmbedder({self.identity!r})"

    @property
    def identity(self) -> str:
        return f"openai:{self._model}:{self._dimensions}"

    @property
    def dimensions(self) -> int:
        return self._dimensions

    @property
    def granularities(self) -> tuple[str, ...]:
        return ("whole", "sentence")

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """See `Embedder.embed`. The service takes no empty text, so one is sent as a space; a long one is cut.

        Raises ConfigError for a refused key or unknown model, ModelUnavailable when the service cannot be reached, is
        overloaded or out of quota after all tries, InvalidModelOutput for vectors that are too few, of another length
        or not numbers.
        """
        if self._closed:
            raise Closed("the embedder was closed")
        unique = list(dict.fromkeys(texts))
        found: dict[str, Vectors] = {}
        for batch in _iter_batches(unique):
            found.update(zip(batch, await self._request(batch), strict=True))
        if not texts:
            return np.empty((0, self._dimensions), np.float32)
        return np.stack([found[text] for text in texts])

    async def close(self) -> None:
        self._closed = True
        await self._client.close()

    async def _request(self, batch: list[str]) -> Vectors:
        try:
            return self._parse_vectors(await self._send_truncating([_truncate(text) for text in batch]), len(batch))
        except (self._errors.base_error, *MALFORMED_REPLY_ERRORS) as error:
            raise self._errors.translate(error) from None

    async def _send_truncating(self, texts: list[str]) -> CreateEmbeddingResponse:
        import openai

        try:
            return await self._send(texts)
        except openai.BadRequestError:
            # A token is at least one byte, so this cut always fits; the estimate before it may be wrong.
            shorter = [text.encode()[:MAX_TEXT_TOKENS].decode(errors="ignore") for text in texts]
            if shorter == texts:
                raise
            return await self._send(shorter)

    async def _send(self, texts: list[str]) -> CreateEmbeddingResponse:
        from openai import omit

        # Only where it changes something: compatible servers and older models refuse the option.
        native = MODEL_DIMENSIONS.get(self._model, self._dimensions)
        dimensions = omit if self._dimensions == native else self._dimensions
        return await retry(
            lambda: self._client.embeddings.create(model=self._model, input=texts, dimensions=dimensions),
            max_attempts=self._max_attempts,
            retry_after=self._errors.retry_after,
        )

    def _parse_vectors(self, reply: CreateEmbeddingResponse, count: int) -> Vectors:
        """The reply's vectors in the order of the texts, at unit length."""
        what = f"{self.identity} answered {count} texts with"
        try:
            rows = sorted(reply.data, key=lambda item: item.index)
            vectors = np.array([row.embedding for row in rows], dtype=np.float64)
        except (AttributeError, TypeError, ValueError):
            raise InvalidModelOutput(f"{what} something else than vectors of one length") from None
        if [row.index for row in rows] != list(range(count)):
            raise InvalidModelOutput(f"{what} {len(rows)} vectors, not one for each")
        if vectors.shape != (count, self._dimensions):
            raise InvalidModelOutput(f"{what} vectors of {vectors.shape[1:]} dimensions")
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not np.isfinite(lengths).all() or not lengths.all():
            raise InvalidModelOutput(
                f"{self.identity} answered with vectors that have no direction (zeros, NaN or infinity)"
            )
        return np.asarray(vectors / lengths, dtype=np.float32)


def _iter_batches(texts: list[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    tokens = 0
    for text in texts:
        estimate = min(_estimate_tokens(text), MAX_TEXT_TOKENS)
        if batch and (len(batch) == MAX_REQUEST_TEXTS or tokens + estimate > MAX_REQUEST_TOKENS):
            yield batch
            batch, tokens = [], 0
        batch.append(text)
        tokens += estimate
    if batch:
        yield batch


def _estimate_tokens(text: str) -> int:
    """An estimate on the high side, three bytes a token; English has four, other scripts two to three."""
    return len(text.encode("utf-8", "replace")) // 3 + 1


def _truncate(text: str) -> str:
    """What is sent of a text: valid UTF-8, not empty, not too long."""
    kept = text.encode("utf-8", "replace")[: 3 * MAX_TEXT_TOKENS].decode(errors="ignore")
    return kept if kept.strip() else " "
