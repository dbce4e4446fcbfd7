"""What a request may be before any route sees it: its host, its origin, its size, its time."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agentmem.server.errors import build_problem_response
from agentmem.settings.sections import ServerOptions

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
IMPORT_PATH = "/v1/import"
IMPORT_TYPES = ("application/x-ndjson", "application/json", "application/jsonl")
BUSY_HEADERS: Mapping[str, str] = {"Retry-After": "1"}


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """What the body of a request may be. A `streamed` one may be any time under way, as long as it moves on."""

    max_bytes: int
    content_types: tuple[str, ...]
    streamed: bool = False

    @property
    def size_text(self) -> str:
        """What is said of a body that is too large."""
        return f"The body is larger than {self.max_bytes:,} bytes."


class RequestGate:
    """ASGI middleware that refuses other hosts, foreign origins, large and slow bodies, and more than it can take on.

    A page on another site can make a browser send requests here, by a name that it points to this machine: the names in
    `Host` and `Origin` tell (DNS rebinding).
    """

    def __init__(self, app: ASGIApp, options: ServerOptions, hosts: Collection[str] = LOOPBACK_NAMES) -> None:
        self.app = app
        self.options = options
        self.hosts = hosts
        self._under_way = 0
        self._usual = BodyLimits(options.body_bytes, ("application/json",))
        self._import = BodyLimits(options.import_bytes, IMPORT_TYPES, streamed=True)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it with 400, 403, 408, 413, 415, 421 or 503."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        limits = self._import if scope["path"] == IMPORT_PATH else self._usual
        refused = self._find_refusal(Headers(scope=scope), scope["method"], limits)
        if refused is not None:
            await build_problem_response(*refused)(scope, receive, send)
        elif self._under_way >= self.options.concurrency:
            busy = build_problem_response(503, "Too many requests are under way.", headers=BUSY_HEADERS)
            await busy(scope, receive, send)
        else:
            self._under_way += 1
            try:
                await self._call_in_time(scope, receive, send, limits)
            finally:
                self._under_way -= 1

    def _find_refusal(self, headers: Headers, method: str, limits: BodyLimits) -> tuple[int, str] | None:
        host = headers.get("host", "")
        if _host_name(host) not in self.hosts:
            return 421, "This server does not answer to this host name."
        own = (f"http://{host}", f"https://{host}")  # a page of this server itself
        origin = headers.get("origin")
        if origin is not None and origin not in (*own, *self.options.origins):
            return 403, "Web pages of this origin may not ask this server."
        length = headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit():
            return 400, "Content-Length must be a number of bytes."
        if int(length) > limits.max_bytes:
            return 413, limits.size_text
        has_body = length != "0" or "transfer-encoding" in headers
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if has_body and method in ("POST", "PUT", "PATCH") and kind not in limits.content_types:
            return 415, f"Send the body as {limits.content_types[0]}."
        return None

    async def _call_in_time(self, scope: Scope, receive: Receive, send: Send, limits: BodyLimits) -> None:
        """Call the application. It is given up when it takes too long to answer, or to go on with its answer."""
        loop, seconds = asyncio.get_running_loop(), self.options.request_seconds
        body = _LimitedBody(receive, self.options.body_seconds, limits)
        has_begun = False

        async def receive_noted() -> Message:
            message = await body.receive()
            if limits.streamed:
                timer.reschedule(loop.time() + seconds)
            return message

        async def send_noted(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)
            timer.reschedule(loop.time() + seconds)

        try:
            async with asyncio.timeout(seconds) as timer:
                await self.app(scope, receive_noted, send_noted)
        except TimeoutError:
            if has_begun:
                raise
            detail = f"The request took longer than {seconds:g} s; a retry with an Idempotency-Key is safe."
            await build_problem_response(503, detail, headers=BUSY_HEADERS)(scope, receive, send)


class _LimitedBody:
    """The body of a request as it arrives. What reads it gets an HTTPException when it is too large or too slow."""

    def __init__(self, receive: Receive, max_seconds: float, limits: BodyLimits) -> None:
        self._receive = receive
        self._max_seconds = max_seconds
        self._limits = limits
        self._received = 0
        self._ends_at = asyncio.get_running_loop().time() + max_seconds
        self._is_complete = False

    async def receive(self) -> Message:
        if self._is_complete:
            return await self._receive()  # waits for the client to go away
        if self._limits.streamed:
            self._ends_at = asyncio.get_running_loop().time() + self._max_seconds
        try:
            async with asyncio.timeout_at(self._ends_at):
                message = await self._receive()
        except TimeoutError:
            raise HTTPException(408, f"The body did not arrive within {self._max_seconds:g} s.") from None
        self._is_complete = not message.get("more_body", False)
        self._received += len(message.get("body", b""))
        if self._received > self._limits.max_bytes:
            raise HTTPException(413, self._limits.size_text)
        return message


def is_loopback(host: str) -> bool:
    """Whether an address of this machine is reached by its own programs alone."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _host_name(host: str) -> str:
    """The name in a Host header, without the port."""
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdigit() else host).lower()
