"""What a request may be before any route sees it: its host, its origin, its size."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agentmem.server.errors import build_problem_response

MAX_BODY_BYTES = 1 << 20
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Names that the server answers to, origins of web pages that may ask, and the largest body."""

    hosts: Collection[str] = LOOPBACK_NAMES
    origins: Collection[str] = ()
    max_body_bytes: int = MAX_BODY_BYTES


class RequestGate:
    """ASGI middleware that refuses other hosts, foreign origins and large bodies.

    A page on another site can make a browser send requests here, by a name that it points to this machine: the names in
    `Host` and `Origin` tell (DNS rebinding).
    """

    def __init__(self, app: ASGIApp, limits: RequestLimits) -> None:
        self.app = app
        self.limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it with 403, 413, 415 or 421."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refused = self._find_refusal(headers, scope["method"])
        if refused is not None:
            await build_problem_response(*refused)(scope, receive, send)
            return
        await self._call_within_limit(scope, receive, send)

    def _find_refusal(self, headers: Headers, method: str) -> tuple[int, str] | None:
        if _host_name(headers.get("host", "")) not in self.limits.hosts:
            return 421, "This server does not answer to this host name."
        origin = headers.get("origin")
        if origin is not None and origin not in self.limits.origins:
            return 403, "Web pages of this origin may not ask this server."
        length = headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit():
            return 400, "Content-Length must be a number of bytes."
        if int(length) > self.limits.max_body_bytes:
            return 413, f"The body is larger than {self.limits.max_body_bytes:,} bytes."
        has_body = length != "0" or "transfer-encoding" in headers
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if has_body and method in ("POST", "PUT", "PATCH") and kind != "application/json":
            return 415, "Send the body as application/json."
        return None

    async def _call_within_limit(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the application, which gets an HTTPException while it reads a body that is larger than it said."""
        received = 0

        async def receive_counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self.limits.max_body_bytes:
                raise HTTPException(413, f"The body is larger than {self.limits.max_body_bytes:,} bytes.")
            return message

        await self.app(scope, receive_counted, send)


def _host_name(host: str) -> str:
    """The name in a Host header, without the port."""
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdigit() else host).lower()
