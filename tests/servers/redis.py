"""Redis: `redis-server` from PATH, else Debian's packages, unpacked into the cache without installing them."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from tests.servers.downloads import CannotStart, cached_folder, run
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
            self._unpacked = cached_folder("redis", _unpack)

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
        return {"LD_LIBRARY_PATH": ":".join(map(str, (self._unpacked / "usr" / "lib").glob("*-linux-gnu*")))}

    def is_ready(self) -> bool:
        return send_request(self.port, b"PING\r\n", 7) in (b"+PONG\r\n", b"-NOAUTH")


def _unpack(into: Path) -> None:
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        raise CannotStart("redis-server is not on PATH, and there is no apt-get to fetch it with")
    lists, cache = into / "lists", into / "cache"
    for folder in (lists / "partial", cache / "archives" / "partial"):
        folder.mkdir(parents=True)
    sandbox = ["-o", "APT::Sandbox::User=root"]  # the user that apt would take may not write here
    try:
        run(["apt-get", "-q", *sandbox, "download", *PACKAGES], cwd=into)
    except CannotStart:  # no package lists on this machine, or old ones: read them into a place of our own
        own = [*sandbox, "-o", f"Dir::State::Lists={lists}", "-o", f"Dir::Cache={cache}"]
        run(["apt-get", "-q", *own, "update"], cwd=into)
        run(["apt-get", "-q", *own, "download", *PACKAGES], cwd=into)
    for package in into.glob("*.deb"):
        run(["dpkg", "-x", package, into], cwd=into)
        package.unlink()
    shutil.rmtree(lists)
    shutil.rmtree(cache)
