"""Redis: `redis-server` from PATH, else Debian's packages, unpacked into the cache without installing them."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from tests.servers.downloads import cached_folder, library_path, unpack_packages
from tests.servers.local import LocalServer, send_request

PACKAGES = ("redis-server", "redis-tools", "libatomic1", "libjemalloc2", "liblzf1")
DATABASES = 1024


class Redis(LocalServer):
    """A Redis that keeps nothing on disk, as a cache; `options` go on its command line."""

    kind = "redis"

    def __init__(self, *options: str) -> None:
        super().__init__()
        self._options = options
        self._unpacked: Path | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def fetch(self) -> None:
        if shutil.which("redis-server") is None:
            self._unpacked = cached_folder("redis", lambda into: unpack_packages(into, PACKAGES))

    def command(self) -> list[str]:
        program = "redis-server" if self._unpacked is None else str(self._unpacked / "usr" / "bin" / "redis-server")
        return [
            program,
            "--port",
            str(self.port),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--appendonly",
            "no",
            "--databases",
            str(DATABASES),
            *self._options,
        ]

    def environment(self) -> Mapping[str, str]:
        if self._unpacked is None:
            return {}
        return library_path(self._unpacked)

    def is_ready(self) -> bool:
        return send_request(self.port, b"PING\r\n", 7) in (b"+PONG\r\n", b"-NOAUTH")
