"""An embeddings service on this machine that speaks OpenAI's protocol and misbehaves as told.

It stands in for the paid service only; the SDK, the connections and the bytes on the wire are real.
"""

from __future__ import annotations

import base64
import json
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Answer:
    """What the service does with one request; without settings it answers well."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: dict[str, Any] | str | None = None
    delay: float = 0.0
    drop: bool = False
    dimensions: int | None = None
    count: int | None = None
    value: float | None = None
    backwards: bool = False


@dataclass
class Service:
    """`script` is used up one answer a request, then all are good; `requests` and `headers` keep what was asked."""

    url: str
    dimensions: int = 1536
    script: list[Answer] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    def take(self) -> Answer:
        return self.script.pop(0) if self.script else Answer()

    def vector(self, text: str, dimensions: int) -> list[float]:
        """Not of unit length, and another one for every text."""
        return [float(len(text) + 1), *(float(byte) for byte in text.encode()[:8]), *([0.0] * dimensions)][:dimensions]

    def reply(self, asked: dict[str, Any], answer: Answer) -> dict[str, Any]:
        size = answer.dimensions or asked.get("dimensions") or self.dimensions
        texts = asked["input"][: answer.count]
        vectors = [[answer.value] * size if answer.value is not None else self.vector(text, size) for text in texts]
        if asked.get("encoding_format") == "base64":
            shown: list[Any] = [base64.b64encode(struct.pack(f"<{size}f", *vector)).decode() for vector in vectors]
        else:
            shown = list(vectors)
        data = [{"object": "embedding", "index": index, "embedding": value} for index, value in enumerate(shown)]
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        return {
            "object": "list",
            "model": asked["model"],
            "usage": usage,
            "data": data[::-1] if answer.backwards else data,
        }


def _handler(service: Service) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            service.requests.append(asked)
            service.headers.append({name.lower(): value for name, value in self.headers.items()})
            answer = service.take()
            time.sleep(answer.delay)
            if answer.drop:
                self.close_connection = True
                return
            body = answer.body if answer.body is not None else service.reply(asked, answer)
            payload = body.encode() if isinstance(body, str) else json.dumps(body).encode()
            try:
                self.send_response(answer.status)
                for name, value in {"content-type": "application/json", **answer.headers}.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(payload)))
                self.end_headers()
                self.wfile.write(payload)
            except OSError:  # the client gave up waiting, which is what a slow answer is for
                self.close_connection = True

        def log_message(self, format: str, *args: Any) -> None:
            """Keep the test's output quiet."""

    return Handler


@contextmanager
def running() -> Iterator[Service]:
    """Serve on a free port until the block ends."""
    service = Service(url="")
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(service))
    server.daemon_threads = True
    service.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
