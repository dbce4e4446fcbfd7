"""Trying again where that helps, and errors of SDKs in words of ours.

The SDKs are generated from one template and name their errors alike, so the SDK is an argument here.
"""

from __future__ import annotations

import asyncio
import math
import random
from abc import ABC, abstractmethod
from base64 import b64encode
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from agentmem.core.redaction import failure_reason
from agentmem.errors import Closed, ConfigError, InvalidModelOutput, ModelUnavailable
from agentmem.models.protocols import LOG_HINT, EmbedderOptions, LLMOptions, LLMReply, LLMRequest, log_model_error
from agentmem.settings.server_urls import WEB_SCHEMES, parse_basic_login, split_url

_Result = TypeVar("_Result")

INITIAL_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS = 0.5, 8.0
CIRCUIT_OPEN_SECONDS = 30.0
"""Seconds for which a model that kept callers waiting in vain is left alone."""

SLOW_FAILURE_SECONDS = 0.3
"""Seconds in which a refusal costs callers nothing: such a model may be asked again at once."""

MAX_RETRY_AFTER_SECONDS = 60.0
"""Seconds of a server's `retry-after` that are honoured; when it asks for more, the request fails at once."""

MALFORMED_REPLY_ERRORS = (ValueError, AttributeError, TypeError, LookupError, RecursionError)
"""What an SDK raises over an answer of another shape, which it takes apart without looking first."""

_QUOTA_WORDS = ("credit balance", "usage limit")


async def retry(
    send: Callable[[], Awaitable[_Result]],
    *,
    max_attempts: int,
    retry_after: Callable[[Exception], float | None],
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> _Result:
    """Await `send()` up to `max_attempts` times and return its first result; raises the last error as it came.

    `retry_after(error)` says whether the error may pass: None when not, else the seconds the server asked to wait (0
    when it named none). Pauses double from 0.5 to 8 s, a random quarter shorter so that clients do not come back
    together.
    """
    pause = INITIAL_BACKOFF_SECONDS
    for left in range(max(1, max_attempts) - 1, -1, -1):
        try:
            return await send()
        except Exception as error:
            asked = retry_after(error)
            if asked is None or asked > MAX_RETRY_AFTER_SECONDS or not left:
                raise
            await sleep(asked or pause * random.uniform(0.75, 1.0))  # noqa: S311  no secret
            pause = min(2 * pause, MAX_BACKOFF_SECONDS)
    raise AssertionError("unreachable: the last attempt returns or raises")


class RequestRefused(InvalidModelOutput):
    """A service refused a request: no model has answered it, so it cost nothing."""


class CircuitBreaker:
    """Asks one model for callers that cannot wait for long. Once they waited in vain, it is left alone for 30 s.

    A request that nobody waits for any longer goes on: an answer that comes late, as from a model that has to be loaded
    first, ends the rest.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._open_until = float("-inf")
        self._reason = ""
        self._tasks: set[asyncio.Task[Any]] = set()  # the loop itself would let go of them

    async def call(self, send: Callable[[], Coroutine[Any, Any, _Result]], timeout: float) -> _Result:
        """What `send()` gives. Raises ModelUnavailable after so many seconds or, without asking, while the model rests;
        besides that what `send` raises.
        """
        now = asyncio.get_running_loop().time
        began = now()
        if (left := self._open_until - began) > 0:
            raise ModelUnavailable(f"{self._reason}; it is left alone for {left:.0f} s more")
        task = asyncio.create_task(send())
        self._tasks.add(task)
        task.add_done_callback(self._on_done)
        try:
            await asyncio.wait({task}, timeout=timeout)
        except asyncio.CancelledError:
            task.cancel()
            raise
        try:
            if not task.done():
                raise ModelUnavailable(f"{self._name} did not answer within {timeout:g} s")
            return task.result()
        except ModelUnavailable as error:
            if now() - began > SLOW_FAILURE_SECONDS:
                self._reason, self._open_until = str(error), now() + CIRCUIT_OPEN_SECONDS
            raise

    def _on_done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is None:
            self._open_until = float("-inf")


def build_client_options(base_url: str | None) -> dict[str, Any]:
    """The arguments of an SDK's client for an address. A login in it becomes a header: clients log whole addresses.

    Raises ConfigError for an address that cannot be read.
    """
    try:
        login = None if base_url is None else parse_basic_login(base_url)
        if base_url is None or login is None:
            return {"base_url": base_url}
        address = split_url(base_url, WEB_SCHEMES, "").without_login
    except ValueError as error:
        raise ConfigError(f"base_url {error}") from None
    token = b64encode(":".join(login).encode()).decode("ascii")
    return {"base_url": address, "default_headers": {"Authorization": f"Basic {token}"}}


class SDKErrors:
    """Says of an SDK's errors whether they pass, and what they are in our terms.

    `identity` is that of the model and `key_variable` names the variable that holds its key, for the messages. What a
    service says about a request it refuses stands in no message: it may repeat the request.
    """

    def __init__(self, sdk: Any, identity: str, key_variable: str, options: EmbedderOptions | LLMOptions) -> None:
        self._sdk = sdk
        self.base_error: type[Exception] = sdk.APIError.__base__  # AnthropicError, OpenAIError
        self._identity = identity
        self._key_variable = key_variable
        self._options = options

    def retry_after(self, error: Exception) -> float | None:
        """For `retry`: time-outs, failures of the service and too many requests pass, an empty quota does not."""
        if self._is_timeout(error):
            return 0.0
        status = self._status(error)
        if status >= 500 or (status == 429 and not is_out_of_quota(error)):
            return _parse_retry_after(error)
        return None

    def translate(self, error: Exception) -> ConfigError | ModelUnavailable | InvalidModelOutput:
        """The error in our terms. Raise it `from None`: the SDK's may repeat the key or the prompt."""
        log_model_error(self._options, self._identity, str(getattr(error, "message", error)))
        if self._is_timeout(error):
            timeout = "llm_timeout" if isinstance(self._options, LLMOptions) else "model_timeout"
            return ModelUnavailable(
                f"{self._identity}: no answer within {self._options.timeout:g} s; the setting {timeout} allows more"
            )
        if status := self._status(error):
            return self._translate_status(error, status)
        if isinstance(error, self._sdk.APIConnectionError):
            cause = error.__cause__ or error
            if type(cause).__name__ == "LocalProtocolError":  # its words hold the header, and so the key
                return ConfigError(
                    f"{self._identity}: no valid request; check {self._key_variable} for line breaks and the like"
                )
            return ModelUnavailable(f"{self._identity}: cannot be reached ({failure_reason(cause)})")
        if isinstance(error, self.base_error) and not isinstance(error, self._sdk.APIError):
            return ConfigError(
                f"{self._identity}: the request cannot be signed ({type(error).__name__}); set {self._key_variable}"
            )
        return InvalidModelOutput(f"{self._identity}: the answer cannot be read ({type(error).__name__})")

    def _translate_status(self, error: Exception, status: int) -> ConfigError | ModelUnavailable | InvalidModelOutput:
        if status in (401, 403):
            return ConfigError(f"{self._identity}: the key was refused (HTTP {status}); check {self._key_variable}")
        if status == 404:
            return ConfigError(f"{self._identity}: the service knows no such model or address (HTTP 404)")
        if is_out_of_quota(error):
            return ModelUnavailable(f"{self._identity}: the quota is used up (HTTP {status})")
        if status == 429:
            return ModelUnavailable(f"{self._identity}: too many requests (HTTP 429)")
        if status == 408 or status >= 500:
            return ModelUnavailable(f"{self._identity}: the service failed (HTTP {status})")
        return RequestRefused(
            f"{self._identity}: the request was refused (HTTP {status}); {LOG_HINT} the service's answer"
        )

    def _is_timeout(self, error: Exception) -> bool:
        return isinstance(error, TimeoutError | self._sdk.APITimeoutError)

    def _status(self, error: Exception) -> int:
        """The HTTP status of a refusal, 0 for any other error."""
        return int(error.status_code) if isinstance(error, self._sdk.APIStatusError) else 0


class ServiceLLM(ABC):
    """See `LLM`. A vendor says how a request is sent, and how the answer is read."""

    def __init__(self, identity: str, client: Any, errors: SDKErrors, options: LLMOptions) -> None:
        self.identity = identity
        self._client = client
        self._errors = errors
        self._options = options
        self._closed = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.identity!r})"

    async def complete(self, request: LLMRequest) -> LLMReply:
        """See `LLM.complete`. Time-outs, HTTP 429 and 5xx are tried again, as `retry` says."""
        if self._closed:
            raise Closed("the language model was closed")
        try:
            return self._parse_reply(await self._send(request), request)
        except (self._errors.base_error, TimeoutError, *MALFORMED_REPLY_ERRORS) as error:
            raise self._errors.translate(error) from None

    async def close(self) -> None:
        """Let go of the connections."""
        self._closed = True
        await self._client.close()

    @abstractmethod
    async def _send(self, request: LLMRequest) -> Any:
        """The SDK's answer; `_send_with_retry` sends."""

    @abstractmethod
    def _parse_reply(self, answer: Any, request: LLMRequest) -> LLMReply:
        """The answer in our terms. Raises InvalidModelOutput for one that is of no use."""

    async def _send_with_retry(self, create: Callable[..., Awaitable[Any]], **body: Any) -> Any:
        async def once() -> Any:
            # The SDK's own limit starts again with every byte that arrives.
            async with asyncio.timeout(self._options.timeout):
                return await call_sdk(create, body)

        return await retry(once, max_attempts=self._options.max_attempts, retry_after=self._errors.retry_after)

    def _invalid_output(self, request: LLMRequest, reason: str) -> InvalidModelOutput:
        return InvalidModelOutput(f"{self.identity}: {request.purpose}: {reason}")


def token_count(usage: object, name: str, default: int = 0) -> int:
    """A number of tokens of a service's account; `default` when it keeps none."""
    found = getattr(usage, name, None)
    return found if isinstance(found, int) and found >= 0 else default


def call_sdk(create: Callable[..., Awaitable[Any]], body: dict[str, Any]) -> Awaitable[Any]:
    """The call, not yet under way. Raises ConfigError when the SDK knows other parameters."""
    try:
        return create(**body)
    except TypeError as error:
        raise ConfigError(f"the SDK that is installed is of another version: {error}") from error


def _parse_retry_after(error: Exception) -> float:
    """Seconds the server asked to wait; 0 when it named none, or a date."""
    response = getattr(error, "response", None)
    try:
        seconds = float(response.headers["retry-after"]) if response is not None else 0.0
    except (KeyError, ValueError):
        return 0.0
    return max(0.0, seconds) if math.isfinite(seconds) else 0.0


def is_out_of_quota(error: Exception) -> bool:
    """Whether waiting does not help: OpenAI says so by a code, Anthropic by HTTP 402 or in words."""
    status, message = getattr(error, "status_code", 0), str(getattr(error, "message", "")).lower()
    if status == 402 or getattr(error, "code", None) == "insufficient_quota":
        return True
    return status in (400, 429) and any(words in message for words in _QUOTA_WORDS)
