"""Two things that every route leaves to the server: HEAD requests, and the encoding of JSON bodies."""

from __future__ import annotations

import json

from fastapi import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agentmem.server.errors import RequestError
from agentmem.server.limits import IMPORT_PATH

UTF_8 = ("utf-8", "utf-8-sig")  # without and with a byte order mark


class HeadAnswer:
    """ASGI middleware that answers HEAD as GET is answered, without the body."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through; HEAD as GET."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self.app(scope, receive, send)
            return

        async def send_head(message: Message) -> None:
            if message["type"] == "http.response.start":
                scope["method"] = "HEAD"  # for what is outside, which also reads the scope
                await send(message)
                await send({"type": "http.response.body"})

        scope["method"] = "GET"
        await self.app(scope, receive, send_head)


async def require_utf8(request: Request) -> None:
    """Refuse JSON in UTF-16 or UTF-32, which Python would read. Raises RequestError 400."""
    if request.url.path == IMPORT_PATH or not request.headers.get("content-type", "").startswith("application/json"):
        return
    if json.detect_encoding(await request.body()) not in UTF_8:
        raise RequestError(400, "The body must be UTF-8.")
