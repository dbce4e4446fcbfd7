"""The HTTP server under the application: uvicorn with this project's settings."""

from __future__ import annotations

import gc
import socket

import uvicorn
from fastapi import FastAPI


class HttpServer(uvicorn.Server):
    """Serves the application at one address. It drains at SIGTERM and then raises the signal again."""

    def __init__(self, app: FastAPI, *, host: str, port: int) -> None:
        options = app.state.memory.settings.server
        config = uvicorn.Config(
            app,
            host=host,
            port=port,
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=options.drain_seconds,
        )
        super().__init__(config)

    def listen(self) -> socket.socket:
        """The socket for `run`, already listening: a client that connects waits until the memory is open."""
        listening = self.config.bind_socket()
        # Accepted connections inherit it. asyncio sets it only where a socket names its protocol, which uvicorn's does
        # not; without it, the body of an answer waits for the client's delayed acknowledgment, about 40 ms.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listening.listen()
        return listening

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Open the memory, then take what is loaded out of garbage collection.

        Modules and indexes stay until the end. A full collection that visits them stops all requests under way.
        """
        await super().startup(sockets)
        gc.collect()
        gc.freeze()

    def stop(self) -> None:
        """Drain and end, now or as soon as the server has started."""
        self.should_exit = True
