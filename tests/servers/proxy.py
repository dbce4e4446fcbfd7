"""A proxy on loopback between clients and a server, whose lines can be cut in several ways while it runs."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from tests.servers.local import free_port

PASS, RESET, SLOW, HALF_OPEN, REFUSED = "pass", "reset", "slow", "half-open", "refused"
MODES = (PASS, RESET, SLOW, HALF_OPEN, REFUSED)
SLOW_DELAY_SECONDS = 0.1  # seconds for each piece of data on a slow line
CHUNK_BYTES = 65_536
MAX_SWITCH_SECONDS = 10.0  # seconds for a change of mode
RESET_LINGER = struct.pack("ii", 1, 0)  # SO_LINGER: closing sends a reset


@dataclass(eq=False, slots=True)
class _Connection:
    """A client's connection with ours to the server."""

    task: asyncio.Task[Any]
    writers: list[asyncio.StreamWriter]
    is_half_open: bool
    closed: asyncio.Event = field(default_factory=asyncio.Event)

    def reset(self) -> None:
        """End it as a host does that does not know the connection."""
        for end in self.writers:
            with suppress(OSError):
                end.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_LINGER)
            end.transport.abort()
        self.closed.set()


class Proxy:
    """Listens on `port` and passes everything on to another port of loopback, as a context manager.

    `switch` sets what happens to all lines, present and future: `pass`; `reset`: they are reset, new ones at once;
    `slow`: each piece of data is late by `delay`; `half-open`: they stay open and nothing passes, not even their end,
    and when that is over they are reset; `refused`: they are reset, and nobody listens.
    """

    def __init__(self, target: int, delay: float = SLOW_DELAY_SECONDS) -> None:
        self.port = free_port()
        self._target = target
        self._delay = delay
        self._mode = PASS
        self._connections: set[_Connection] = set()
        self._listener: asyncio.Server | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"proxy {self.port}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._run(self._listen())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.switch(REFUSED)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(MAX_SWITCH_SECONDS)
        self._loop.close()

    def switch(self, mode: str) -> None:
        """Go over to another mode; it holds when this returns."""
        assert mode in MODES, mode
        self._run(self._switch(mode))

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(MAX_SWITCH_SECONDS)

    async def _listen(self) -> None:
        self._listener = await asyncio.start_server(self._serve, "127.0.0.1", self.port, backlog=200)

    async def _switch(self, mode: str) -> None:
        self._mode = mode
        for line in list(self._connections):
            if line.is_half_open or mode in (RESET, REFUSED):
                line.reset()
            line.is_half_open = line.is_half_open or mode == HALF_OPEN
        await asyncio.gather(*(line.task for line in self._connections if line.closed.is_set()))
        if mode == REFUSED and self._listener is not None:
            self._listener.close()
            self._listener = None
        elif mode != REFUSED and self._listener is None:
            await self._listen()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        line = _Connection(task, [writer], is_half_open=self._mode == HALF_OPEN)
        self._connections.add(line)
        try:
            if self._mode in (RESET, REFUSED):
                line.reset()
            elif line.is_half_open:
                await line.closed.wait()
            else:
                await self._connect(line, reader, writer)
        finally:
            self._connections.discard(line)

    async def _connect(self, line: _Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:  # the server is not there
            line.reset()
            return
        line.writers.append(far_writer)
        if line.closed.is_set():  # cut while we connected
            line.reset()
            return
        ways = [self._pump(line, reader, far_writer), self._pump(line, far_reader, writer)]
        pumps = [asyncio.ensure_future(way) for way in (*ways, line.closed.wait())]
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
        for end in line.writers:
            end.close()  # what was written to it still goes out

    async def _pump(self, line: _Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass on until one side ends; on a lost line the end does not pass either."""
        with suppress(OSError):
            while data := await reader.read(CHUNK_BYTES):
                if self._mode == SLOW:
                    await asyncio.sleep(self._delay)
                if line.is_half_open:
                    break
                writer.write(data)
                await writer.drain()
        if line.is_half_open:
            await line.closed.wait()
