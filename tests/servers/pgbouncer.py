"""PgBouncer in front of a Postgres: from PATH, else Debian's packages, unpacked into the cache without installing them.

It gives a connection to another client after every transaction, and has few of them.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tests.servers.downloads import cached_folder, library_path, unpack_packages
from tests.servers.local import LocalServer
from tests.servers.postgres import NOBODY

SERVER_CONNECTIONS = 2
CONFIGURATION = """
[databases]
* = host={server.hostname} port={server.port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
pool_mode = transaction
default_pool_size = {size}
auth_type = scram-sha-256
auth_file = users
"""


class PgBouncer(LocalServer):
    """A pooler for the databases of the server at this URL, for the user it names."""

    kind = "pgbouncer"

    def __init__(self, server_url: str) -> None:
        super().__init__()
        self._server_url = server_url
        self._unpacked: Path | None = None
        if os.geteuid() == 0:  # it refuses to run as root
            self.user = NOBODY

    @property
    def url(self) -> str:
        return self.reach(self._server_url)

    def reach(self, url: str) -> str:
        """The URL of a database of the server, through the pooler."""
        parts = urlsplit(url)
        return parts._replace(netloc=f"{parts.netloc.rpartition('@')[0]}@127.0.0.1:{self.port}").geturl()

    def fetch(self) -> None:
        if shutil.which("pgbouncer") is None:
            self._unpacked = cached_folder("pgbouncer", _unpack)

    def prepare(self) -> None:
        server = urlsplit(self._server_url)
        text = CONFIGURATION.format(server=server, port=self.port, size=SERVER_CONNECTIONS)
        (self.folder / "pgbouncer.ini").write_text(text, encoding="ascii")
        (self.folder / "users").write_text(
            f'"{server.username}" "{unquote(server.password or "")}"\n', encoding="utf-8"
        )
        if self._unpacked is not None:  # to where another user finds it
            shutil.copytree(self._unpacked, self.folder / "package", symlinks=True)
            (self.folder / "package").chmod(0o755)

    def command(self) -> list[str]:
        program = "pgbouncer" if self._unpacked is None else str(self.folder / "package/usr/sbin/pgbouncer")
        return [program, "pgbouncer.ini"]

    def environment(self) -> Mapping[str, str]:
        return {} if self._unpacked is None else library_path(self.folder / "package")

    def is_ready(self) -> bool:
        import psycopg

        try:
            with psycopg.connect(self.url, connect_timeout=2, prepare_threshold=None) as connection:
                return connection.execute("SELECT 1").fetchone() == (1,)
        except psycopg.OperationalError:
            return False


def _unpack(into: Path) -> None:
    unpack_packages(into, ["pgbouncer"], dependencies=r"lib(?:c-ares|cares|event)\S*")
