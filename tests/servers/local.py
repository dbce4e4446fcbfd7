"""A server as a child process: on loopback, on a free port, with its data and log in a folder that goes in the end."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

import psutil

from tests.servers.downloads import CannotStart, as_user, last_lines

# Below the ports that outgoing connections get. A client that keeps knocking at a dead server's port from among those
# may meet itself there, and then the server cannot come back.
PORTS = range(20_000, 30_000)
MAX_STOP_SECONDS = 20.0
MEMORY_FILES = Path("/dev/shm")
MIN_FREE_MEMORY_BYTES = 4 << 30


@dataclass(frozen=True, slots=True)
class Server:
    """A running server: where it answers, and where its log and data lie."""

    url: str
    port: int
    pid: int
    folder: Path


class LocalServer:
    """One server. It may be stopped, killed, paused and started again; its data stay until `close`.

    As a context manager it is started and, in the end, closed. What starts a server must live as long as it does: a
    server whose thread has ended is stopped, so that none is left behind by a run of tests that was killed.
    """

    kind: ClassVar[str]
    start_timeout = 30.0  # seconds until the first answer
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM
    user: str | None = None  # whom the process runs as, when not as whoever runs the tests
    parent: Path | None = Path(
        tempfile.gettempdir()
    )  # where its folder is made; tests move temporary files into memory

    def __init__(self) -> None:
        self.port = free_port()
        self._folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None

    # -- what a kind of server says about itself

    @property
    def url(self) -> str:
        """Where clients find it, with user and password."""
        raise NotImplementedError

    def fetch(self) -> None:
        """Download what is missing on this machine."""
        raise NotImplementedError

    def prepare(self) -> None:
        """Make the data folder; once, before the first start."""

    def command(self) -> list[str]:
        """The command that runs it in the foreground."""
        raise NotImplementedError

    def environment(self) -> Mapping[str, str]:
        """Variables that its process needs beside those of the tests."""
        return {}

    def is_ready(self) -> bool:
        """Whether it takes requests now."""
        raise NotImplementedError

    # -- life

    @property
    def folder(self) -> Path:
        """The folder of its data and its log."""
        assert self._folder is not None, "it was not started yet"
        return self._folder

    @property
    def pid(self) -> int:
        """The number of its first process."""
        assert self._process is not None, "it does not run"
        return self._process.pid

    def start(self) -> Server:
        """Start it and wait for its first answer; CannotStart with the end of its log when there is none."""
        assert self._process is None, "it is running"
        self.fetch()
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix=f"agentmem-{self.kind}-", dir=self.parent))
            if self.user is not None:
                shutil.chown(self._folder, self.user)
            self.prepare()
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*_die_with_parent(), *self.command()],
                cwd=self.folder,
                env={**os.environ, **self.environment()},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                **as_user(self.user),
            )
        self._wait(self._process)
        return Server(self.url, self.port, self.pid, self.folder)

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        give_up = time.monotonic() + self.start_timeout
        while not self.is_ready():
            if process.poll() is not None or time.monotonic() > give_up:
                ended = "gave no answer in time" if process.poll() is None else f"ended with {process.returncode}"
                said = last_lines((self.folder / "log").read_text(encoding="utf-8", errors="replace"))
                self.kill()
                raise CannotStart(f"{self.kind} {ended}:\n{said}")
            time.sleep(0.05)

    def stop(self) -> None:
        """End it in order; nothing happens when it does not run."""
        if self._process is None:
            return
        self.resume()
        self._process.send_signal(self.stop_signal)
        try:
            self._process.wait(MAX_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process = None

    def kill(self) -> None:
        """Kill it with all its processes at once, as a lost machine would."""
        everything = self._suspend_all()
        _for_each(everything, psutil.Process.kill)
        if self._process is not None:
            self._process.wait()
        psutil.wait_procs(everything, timeout=MAX_STOP_SECONDS)
        self._process = None

    def pause(self) -> None:
        """Let it stand still: connections stay open, nothing is answered."""
        self._suspend_all()

    def resume(self) -> None:
        """Let it go on after `pause`."""
        _for_each(self._tree(), psutil.Process.resume)

    def restart(self) -> Server:
        """Stop it if it runs, and start it again with its data on the same port."""
        self.stop()
        return self.start()

    def close(self) -> None:
        """Stop it and remove its folder."""
        self.stop()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _tree(self) -> list[psutil.Process]:
        if self._process is None or self._process.poll() is not None:
            return []
        first = psutil.Process(self._process.pid)
        try:
            return [first, *first.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def _suspend_all(self) -> list[psutil.Process]:
        """All its processes, standing still: the first one before its children are counted, so that none are added."""
        _for_each(self._tree()[:1], psutil.Process.suspend)
        everything = self._tree()
        _for_each(everything, psutil.Process.suspend)
        return everything


def memory_folder() -> Path | None:
    """Where files are kept in memory, if there is room: Postgres copies a database there in 0.03 s instead of 0.4 s."""
    try:
        state = os.statvfs(MEMORY_FILES)
    except OSError:
        return None
    roomy = state.f_bavail * state.f_frsize >= MIN_FREE_MEMORY_BYTES
    return MEMORY_FILES if roomy and not state.f_flag & os.ST_NOEXEC else None


def free_port() -> int:
    """A port of loopback that nobody listens on."""
    for port in random.sample(PORTS, 200):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise CannotStart("no free port on loopback")


def send_request(port: int, request: bytes, size: int) -> bytes:
    """The first bytes that a server answers to a request; nothing when it does not."""
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as connection:
            connection.settimeout(5)
            connection.sendall(request)
            return connection.recv(size)
    except OSError:
        return b""


def _for_each(processes: Iterable[psutil.Process], do: Callable[[psutil.Process], None]) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):  # those of a server come and go
            do(process)


def _die_with_parent() -> list[str]:
    return ["setpriv", "--pdeathsig", "TERM"] if shutil.which("setpriv") else []
