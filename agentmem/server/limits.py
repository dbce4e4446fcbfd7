"""What a request may be before any route sees it: its host, its origin, its size, its time."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Collection, Mapping

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agentmem.server.errors import build_problem_response
from agentmem.settings.sections import ServerOptions

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
BUSY_HEADERS: Mapping[str, str] = {"Retry-After": "1"}


class RequestGate:
    """ASGI middleware that refuses other hosts, foreign origins, large and slow bodies, and more than it can take on.

    A page on another site can make a browser send requests here, by a name that it points to this machine: the names in
    `Host` and `Origin` tell (DNS rebinding).
    """

    def __init__(
        self,
        app: ASGIApp,
        options: ServerOptions,
        hosts: Collection[str] = LOOPBACK_NAMES,
    ) -> None:
        self.app = app
        self.options = options
        self.hosts = hosts
        self._under_way = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it with 403, 408, 413, 415, 421 or 503."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        refused = self._find_refusal(Headers(scope=scope), scope["method"])
        if refused is not None:
            await build_problem_response(*refused)(scope, receive, send)
        elif self._under_way >= self.options.concurrency:
            busy = build_problem_response(503, "Too many requests are under way.", headers=BUSY_HEADERS)
            await busy(scope, receive, send)
        else:
            self._under_way += 1
            try:
                await self._call_in_time(scope, receive, send)
            finally:
                self._under_way -= 1

    def _find_refusal(self, headers: Headers, method: str) -> tuple[int, str] | None:
        if _host_name(headers.get("host", "")) not in self.hosts:
            return 421, "This server does not answer to this host name."
        origin = headers.get("origin")
        if origin is not None and origin not in self.options.origins:
            return 403, "Web pages of this origin may not ask this server."
        length = headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit():
            return 400, "Content-Length must be a number of bytes."
        if int(length) > self.options.body_bytes:
            return 413, self._size_text()
        has_body = length != "0" or "transfer-encoding" in headers
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if has_body and method in ("POST", "PUT", "PATCH") and kind != "application/json":
            return 415, "Send the body as application/json."
        return None

    async def _call_in_time(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the application; it is given up when it takes too long before it answers."""
        body = _LimitedBody(receive, self.options, self._size_text())
        has_begun = False

        async def send_noted(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            async with asyncio.timeout(self.options.request_seconds):
                await self.app(scope, body.receive, send_noted)
        except TimeoutError:
            if has_begun:
                raise
            limit = self.options.request_seconds
            detail = f"The request took longer than {limit:g} s; a retry with an Idempotency-Key is safe."
            await build_problem_response(503, detail, headers=BUSY_HEADERS)(scope, receive, send)

    def _size_text(self) -> str:
        return f"The body is larger than {self.options.body_bytes:,} bytes."


class _LimitedBody:
    """The body of a request as it arrives. What reads it gets an HTTPException when it is too large or too slow."""

    def __init__(self, receive: Receive, options: ServerOptions, size_text: str) -> None:
        self._receive = receive
        self._options = options
        self._size_text = size_text
        self._received = 0
        self._ends_at = asyncio.get_running_loop().time() + options.body_seconds
        self._is_complete = False

    async def receive(self) -> Message:
        if self._is_complete:
            return await self._receive()  # waits for the client to go away
        try:
            async with asyncio.timeout_at(self._ends_at):
                message = await self._receive()
        except TimeoutError:
            raise HTTPException(408, f"The body did not arrive within {self._options.body_seconds:g} s.") from None
        self._is_complete = not message.get("more_body", False)
        self._received += len(message.get("body", b""))
        if self._received > self._options.body_bytes:
            raise HTTPException(413, self._size_text)
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
