"""Servers that the tests of one run share: the first process starts each when a test needs it, and stops it at the end.

The processes of a run meet in a folder: one asks by an empty file `<kind>.wanted`, the host answers with `<kind>.json`.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import pytest

from tests.servers.downloads import CannotStart
from tests.servers.local import MAX_STOP_SECONDS, LocalServer, memory_folder
from tests.servers.neo4j import NEWER, Neo4j
from tests.servers.postgres import Postgres
from tests.servers.redis import Redis

KINDS: Mapping[str, Callable[[], LocalServer]] = {"postgres": Postgres, "redis": Redis, "neo4j": Neo4j}
KINDS_OF_RUN: Mapping[str, Callable[[], LocalServer]] = {
    **KINDS,
    "neo4j_scratch": Neo4j,
    "neo4j_2026": partial(Neo4j, NEWER),
}
"""What a run may ask for: the three of a memory, a Neo4j for one test at a time, and one of the newest release."""

POLL_SECONDS = 0.05
MAX_WAIT_SECONDS = 1200.0  # seconds, with a first download


@dataclass(frozen=True, slots=True)
class ServerAnswer:
    """Where a server is, or why there is none."""

    url: str = ""
    reason: str = ""


def url_variable(kind: str) -> str:
    """The environment variable that names a running server of this kind, to be used in place of one of our own."""
    return f"AGENTMEM_TEST_{kind.upper()}_URL"


def request_server(folder: Path, kind: str) -> None:
    """Ask the host for a server, without waiting."""
    (folder / f"{kind}.wanted").touch()


def wait_for(folder: Path, kind: str) -> ServerAnswer:
    """The host's answer, once it is there."""
    request_server(folder, kind)
    give_up = time.monotonic() + MAX_WAIT_SECONDS
    while time.monotonic() < give_up:
        if (folder / f"{kind}.json").exists():
            return ServerAnswer(**json.loads((folder / f"{kind}.json").read_text(encoding="utf-8")))
        time.sleep(POLL_SECONDS)
    return ServerAnswer(reason=f"{kind}: no answer within {MAX_WAIT_SECONDS:.0f} s")


def servers_of(item: pytest.Item) -> list[str]:
    """The kinds of servers shared by the run that a test needs."""
    fixtures = getattr(item, "fixturenames", ())
    marked = {kind for mark in item.iter_markers("server") for kind in mark.args}
    return [kind for kind in KINDS_OF_RUN if kind in marked or f"{kind}_url" in fixtures]


class Host:
    """Starts what is wanted in `folder`, each kind once, and stops everything in the end."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="agentmem-servers-"))
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self._servers: dict[str, LocalServer] = {}

    def start(self) -> None:
        """Look for what is wanted from now on; each server has a thread, which must live as long as it does."""
        if not self._threads:
            self._threads = [threading.Thread(target=self._serve, args=(kind,), daemon=True) for kind in KINDS_OF_RUN]
            for thread in self._threads:
                thread.start()

    def close(self) -> None:
        """Stop the servers, and wait until they are gone."""
        self._stopping.set()
        for server in list(self._servers.values()):
            server.start_timeout = 0  # one that is starting is not waited for
        for thread in self._threads:
            thread.join(MAX_STOP_SECONDS)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _serve(self, kind: str) -> None:
        while not (self.folder / f"{kind}.wanted").exists():
            if self._stopping.wait(POLL_SECONDS):
                return
        if url := os.environ.get(url_variable(kind)):
            self._write_answer(kind, ServerAnswer(url))
            return
        server = self._servers[kind] = KINDS_OF_RUN[kind]()
        server.parent = memory_folder()
        try:
            self._write_answer(kind, ServerAnswer(server.start().url))
            self._stopping.wait()
        except CannotStart as error:
            self._write_answer(kind, ServerAnswer(reason=f"{kind} could not be started: {error}"))
        finally:
            server.close()

    def _write_answer(self, kind: str, answer: ServerAnswer) -> None:
        if not self._stopping.is_set():
            half = self.folder / f"{kind}.half"
            half.write_text(json.dumps(asdict(answer)), encoding="utf-8")
            half.rename(self.folder / f"{kind}.json")
