"""The HTTP server under the application: uvicorn with this project's settings, and deadlines for idle connections."""

from __future__ import annotations

import asyncio
import gc
import socket
from typing import Any

import uvicorn
from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

HEAD_SECONDS = 10.0  # from a connection, or the end of an answer, to the head of the next request
MAX_CONNECTIONS = 800  # beyond, the one that is idle longest is closed; processes have 1,024 files by default


class DeadlineProtocol(H11Protocol):
    """uvicorn's HTTP protocol with a deadline for heads, and without patience for clients that take no answer.

    uvicorn alone waits for ever for the rest of a head, and closes a stalled connection only when its client reads on.
    """

    _app: ASGIApp
    _deadline: asyncio.TimerHandle | None = None
    _silent_since = 0.0  # on the clock of the event loop
    _unsent_bytes = 0
    _has_asked = False

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._app, self.app = self.app, self._call_app

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a head."""
        super().connection_made(transport)
        self._expect_head()
        if len(self.connections) > MAX_CONNECTIONS:
            self._close_an_idle_connection()

    def _close_an_idle_connection(self) -> None:
        """Close the connection that waits longest for a head, one that never asked if there is any."""
        idle = [each for each in self.connections if isinstance(each, DeadlineProtocol) and not each._is_busy()]
        oldest = min(idle, key=lambda each: (each._has_asked, each._silent_since))  # this one is idle, too
        self.connections.discard(oldest)
        oldest.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting, and refer to itself no more.

        A cycle of references would stay until a full garbage collection, which stops all requests; clients that come
        and go would leave tens of thousands of objects to it.
        """
        super().connection_lost(exc)
        if self._deadline is not None:
            self._deadline.cancel()
        self._unset_keepalive_if_required()
        self.app = self._app

    def on_response_complete(self) -> None:
        """Wait for the next head."""
        self._has_asked = True
        super().on_response_complete()
        self._expect_head()

    def _expect_head(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._silent_since, self._unsent_bytes = self.loop.time(), self.transport.get_write_buffer_size()
        self._deadline = self.loop.call_later(HEAD_SECONDS, self._end_waiting)

    def _end_waiting(self) -> None:
        """Close the connection, unless a request is under way or the client still takes the last answer."""
        if self._is_busy():
            return
        if 0 < self.transport.get_write_buffer_size() < self._unsent_bytes:
            self._expect_head()
        else:
            self.transport.abort()

    def _is_busy(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle  # None before the first request, whatever uvicorn declares
        return cycle is not None and not cycle.response_complete

    async def _call_app(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the application. What it could not finish ends the connection at once.

        The application logs its errors; uvicorn would print them with words that may be a memory's.
        """
        cycle = self.cycle
        try:
            await self._app(scope, receive, send)
        except Exception:  # noqa: BLE001
            if not cycle.response_complete:
                self.transport.abort()
                await asyncio.sleep(0)  # for `connection_lost`


class HttpServer(uvicorn.Server):
    """Serves the application at one address. It drains at SIGTERM and then raises the signal again."""

    def __init__(self, app: FastAPI, *, host: str, port: int) -> None:
        options = app.state.memory.settings.server
        config = uvicorn.Config(
            app,
            host=host,
            port=port,
            http=DeadlineProtocol,
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=options.drain_seconds,
        )
        super().__init__(config)
        self._app = app

    def listen(self) -> socket.socket:
        """The socket for `run`, already listening: a client that connects waits until the memory is open."""
        listening = self.config.bind_socket()
        # Accepted connections inherit it. asyncio sets it only where a socket names its protocol, which uvicorn's does
        # not; without it, the body of an answer waits for the client's delayed acknowledgment, about 40 ms.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listening.listen()
        return listening

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Open the memory, prepare the routes, then take what is loaded out of garbage collection.

        FastAPI prepares routes when they are first looked at, for half a second in all, in which no request is
        answered. Modules and indexes stay until the end. A full collection that visits them stops all requests under
        way.
        """
        await super().startup(sockets)
        await asyncio.to_thread(self._prepare_routes)
        gc.collect()
        gc.freeze()

    def _prepare_routes(self) -> None:
        nowhere = {"type": "http", "method": "GET", "path": "", "root_path": "", "headers": []}
        for route in self._app.routes:
            route.matches(nowhere)

    def stop(self) -> None:
        """Drain and end, now or as soon as the server has started."""
        self.should_exit = True
