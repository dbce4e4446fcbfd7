"""What a request may be before any route sees it: its host, its origin, its names, its size and type."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from urllib.parse import unquote_to_bytes

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from agentmem.server.errors import build_problem_response
from agentmem.settings.sections import ServerOptions

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
IMPORT_PATH = "/v1/import"
JSON_TYPES = ("application/json",)
NAMING_HEADERS = frozenset({b"x-agentmem-user", b"idempotency-key"})
IMPORT_TYPES = ("application/x-ndjson", "application/json", "application/jsonl")


class RequestGate:
    """ASGI middleware that refuses other hosts, foreign origins, names that are not UTF-8, large and foreign bodies.

    A page on another site can make a browser send requests here, by a name that it points to this machine: the names in
    `Host` and `Origin` tell (DNS rebinding).
    """

    def __init__(self, app: ASGIApp, options: ServerOptions, hosts: Collection[str] = LOOPBACK_NAMES) -> None:
        self.app = app
        self.options = options
        self.hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it with 400, 403, 413, 415 or 421."""
        if scope["type"] == "http":
            refused = _find_misnaming(scope) or self._find_refusal(Headers(scope=scope), scope["method"], scope["path"])
            if refused is not None:
                await build_problem_response(*refused)(scope, receive, send)
                return
        await self.app(scope, receive, send)

    def _find_refusal(self, headers: Headers, method: str, path: str) -> tuple[int, str] | None:
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
        limit = self.options.import_bytes if path == IMPORT_PATH else self.options.body_bytes
        if int(length) > limit:
            return 413, describe_size_limit(limit)
        has_body = length != "0" or "transfer-encoding" in headers
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        types = IMPORT_TYPES if path == IMPORT_PATH else JSON_TYPES
        if has_body and method in ("POST", "PUT", "PATCH") and kind not in types:
            return 415, f"Send the body as {types[0]}."
        return None


def _find_misnaming(scope: Scope) -> tuple[int, str] | None:
    """The refusal of a request whose path, query or headers that name something are not UTF-8.

    What reads them later would put U+FFFD, or the letters of Latin-1, in place of what was meant.
    """
    named = {name: value for name, value in scope["headers"] if name in NAMING_HEADERS}
    for what, value in (
        ("The path", unquote_to_bytes(scope.get("raw_path") or b"")),
        ("The query", unquote_to_bytes(scope["query_string"])),
        *((name.decode(), value) for name, value in named.items()),
    ):
        try:
            value.decode()
        except UnicodeDecodeError:
            return 400, f"{what} must be UTF-8."
    if sum(name in NAMING_HEADERS for name, _ in scope["headers"]) > len(named):
        return 400, f"Send {' and '.join(name.decode() for name in named)} once."
    return None


def decode_header(value: str | None) -> str | None:
    """A header that names something, as it was sent: the framework reads headers as Latin-1, names are UTF-8."""
    return None if value is None else value.encode("latin-1").decode()


def describe_size_limit(max_bytes: int) -> str:
    """What is said of a body that is too large."""
    return f"The body is larger than {max_bytes:,} bytes."


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
