"""The proxy passes everything on, and cuts lines in the way it is told."""

from __future__ import annotations

import socket
import socketserver
import threading
import time
from collections.abc import Iterator

import pytest

from tests.servers.local import free_port
from tests.servers.proxy import HALF_OPEN, PASS, REFUSED, RESET, SLOW, Proxy

BIG = bytes(range(256)) * 4000


class Echo(socketserver.BaseRequestHandler):
    """Sends back what it gets."""

    def handle(self) -> None:
        self.server.ended.clear()  # type: ignore[attr-defined]
        try:
            while data := self.request.recv(65_536):
                self.request.sendall(data)
        except ConnectionError:
            pass
        self.server.ended.set()  # type: ignore[attr-defined]


class EchoServer(socketserver.ThreadingTCPServer):
    daemon_threads = True

    def __init__(self) -> None:
        self.ended = threading.Event()
        super().__init__(("127.0.0.1", free_port()), Echo)


@pytest.fixture
def echo() -> Iterator[EchoServer]:
    with EchoServer() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def proxy(echo: EchoServer) -> Iterator[Proxy]:
    with Proxy(echo.server_address[1], delay=0.05) as proxy:
        yield proxy


def connect(proxy: Proxy) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", proxy.port), 5)
    connection.settimeout(5)
    return connection


def said(connection: socket.socket, data: bytes) -> bytes:
    """What comes back."""
    sender = threading.Thread(target=connection.sendall, args=(data,))
    sender.start()
    found = b""
    while len(found) < len(data) and (piece := connection.recv(65_536)):
        found += piece
    sender.join()
    return found


def test_everything_passes_and_so_does_the_end(proxy: Proxy, echo: EchoServer) -> None:
    with connect(proxy) as one, connect(proxy) as two:
        assert said(one, BIG) == BIG
        assert said(two, b"two") == b"two"
        one.shutdown(socket.SHUT_WR)
        assert one.recv(1) == b""
    assert echo.ended.wait(5)


def test_a_slow_line_is_late_and_whole(proxy: Proxy) -> None:
    with connect(proxy) as line:
        proxy.switch(SLOW)
        began = time.monotonic()
        assert said(line, b"late") == b"late"
        assert time.monotonic() - began >= 0.1  # once there and once back
        proxy.switch(PASS)
        assert said(line, BIG) == BIG


@pytest.mark.parametrize("mode", [RESET, REFUSED])
def test_a_cut_line_is_reset_on_both_sides(proxy: Proxy, echo: EchoServer, mode: str) -> None:
    with connect(proxy) as line:
        assert said(line, b"before") == b"before"
        proxy.switch(mode)
        with pytest.raises(ConnectionResetError):
            line.recv(1)
        assert echo.ended.wait(5)
    if mode == REFUSED:
        with pytest.raises(ConnectionRefusedError):
            connect(proxy)
    else:
        # It may come while the line is being made, too.
        with pytest.raises(ConnectionResetError), connect(proxy) as fresh:
            fresh.recv(1)
    proxy.switch(PASS)
    with connect(proxy) as line:
        assert said(line, b"after") == b"after"


def test_on_a_half_open_line_nothing_passes_and_afterwards_it_is_unknown(proxy: Proxy, echo: EchoServer) -> None:
    with connect(proxy) as old, connect(proxy) as left:
        assert said(old, b"before") == b"before"
        assert said(left, b"before") == b"before"
        proxy.switch(HALF_OPEN)
        left.close()
        with connect(proxy) as fresh:
            for line in (old, fresh):
                line.sendall(b"anybody?")
                line.settimeout(0.2)
                with pytest.raises(TimeoutError):
                    line.recv(1)
                line.settimeout(5)
            assert not echo.ended.is_set(), "the server does not hear that one has left"
            proxy.switch(PASS)
            for line in (old, fresh):
                with pytest.raises(ConnectionResetError):
                    line.recv(1)
    assert echo.ended.wait(5)
    with connect(proxy) as line:
        assert said(line, b"after") == b"after"


def test_a_server_that_is_not_there_is_a_reset() -> None:
    # It may come while the line is being made, too.
    with Proxy(free_port()) as proxy, pytest.raises(ConnectionResetError), connect(proxy) as line:
        line.recv(1)
