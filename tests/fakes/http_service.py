"""An HTTP service on this machine that keeps what it was asked and misbehaves as told.

It stands in for paid services only; the SDKs, the connections and the bytes on the wire are real.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar

_Service = TypeVar("_Service", bound="FakeHTTPService")


@dataclass
class ScriptedResponse:
    """What the service does with one request; without settings it answers well."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: Any = None
    delay: float = 0.0
    drop: bool = False
    drip: float = 0.0  # seconds between the bytes of the body


@dataclass
class FakeHTTPService:
    """`script` is used up one answer a request, then all are good; `requests` and `headers` keep what was asked."""

    url: str = ""
    script: list[Any] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    stopped: threading.Event = field(default_factory=threading.Event)

    def reply(self, asked: dict[str, Any], answer: Any) -> Any:
        """The body of a good answer."""
        return {}


def _handler(service: FakeHTTPService) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            service.requests.append(asked)
            service.headers.append({name.lower(): value for name, value in self.headers.items()})
            answer = service.script.pop(0) if service.script else ScriptedResponse()
            service.stopped.wait(answer.delay)
            if answer.drop:
                self.close_connection = True
                return
            body = answer.body if answer.body is not None else service.reply(asked, answer)
            payload = body.encode() if isinstance(body, str) else json.dumps(body).encode()
            step = 1 if answer.drip else max(1, len(payload))
            try:
                self.send_response(answer.status)
                for name, value in {"content-type": "application/json", **answer.headers}.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(payload)))
                self.end_headers()
                for start in range(0, len(payload), step):
                    service.stopped.wait(answer.drip)
                    self.wfile.write(payload[start : start + step])
            except OSError:  # the client gave up waiting, which is what a slow answer is for
                self.close_connection = True

        def log_message(self, format: str, *args: Any) -> None:
            """Keep the test's output quiet."""

    return Handler


@contextmanager
def serve(service: _Service) -> Iterator[_Service]:
    """Serve on a free port until the block ends."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(service))
    server.daemon_threads = True
    service.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield service
    finally:
        service.stopped.set()
        server.shutdown()
        server.server_close()
        thread.join()
