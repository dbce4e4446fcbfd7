"""`current.md`: the session of an agent as a readable page on disk, for people who look over its shoulder."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from hashlib import sha256
from itertools import count
from pathlib import Path
from threading import Lock
from urllib.parse import quote

from agentmem.core.telemetry import WARNING, log_event
from agentmem.engine.engine import Engine

AGENTS_FOLDER, PAGE_FILE_NAME, DEFAULT_AGENT_FOLDER = "agents", "current.md", "default"
MAX_FOLDER_NAME_CHARS = 150  # characters of a folder's name before a checksum takes the place of the rest
MAX_TRACKED_AGENTS = 10_000
_OPEN_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CREATE_FILE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_TAIL_BYTES = 4096  # bytes at the end of a page in which its last line lies


def folder_name(agent_id: str | None) -> str:
    """The agent's name as a folder: percent-encoded, never a path; `default` for None."""
    if agent_id is None:
        return DEFAULT_AGENT_FOLDER
    name = quote(agent_id, safe="")
    if name.startswith("."):  # no path upwards, and no hidden folder
        name = f"%2E{name[1:]}"
    return (
        name
        if len(name) <= MAX_FOLDER_NAME_CHARS
        else f"{name[:MAX_FOLDER_NAME_CHARS]}-{sha256(agent_id.encode()).hexdigest()[:16]}"
    )


class SessionPages:
    """The pages that this process writes. An older state never takes the place of a newer one."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.pid = os.getpid()
        self._versions = count(1)
        self._written_versions: dict[str, int] = {}
        self._lock = Lock()

    def next_version(self) -> int:
        """To be taken before the session is read: the later one wins."""
        return next(self._versions)

    def write(self, agent_id: str | None, user_id: str, text: str, version: int) -> Path:
        """Put the page in the place of the former one, readable by its owner only. Raises OSError."""
        name = folder_name(agent_id)
        self.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _open_folder(self.home, name) as folder:
            part = f"{PAGE_FILE_NAME}.{os.getpid()}.{version}.part"
            with suppress(FileNotFoundError):  # of a process that had this number and was killed
                os.unlink(part, dir_fd=folder)
            try:
                with open(
                    os.open(part, _CREATE_FILE_FLAGS, 0o600, dir_fd=folder), "w", encoding="utf-8", newline="\n"
                ) as file:
                    file.write(f"{text}\n{_owner_line(user_id)}\n")
                with self._lock:
                    if version > self._written_versions.get(name, 0):
                        os.replace(part, PAGE_FILE_NAME, src_dir_fd=folder, dst_dir_fd=folder)
                        self._written_versions[name] = version
                    if len(self._written_versions) > MAX_TRACKED_AGENTS:
                        self._written_versions.clear()
            finally:
                with suppress(FileNotFoundError):  # it has its new name
                    os.unlink(part, dir_fd=folder)
        return self.home / AGENTS_FOLDER / name / PAGE_FILE_NAME


def get_session_pages(engine: Engine) -> SessionPages:
    """Those of an opened memory, shared by all of its views, and anew after a fork."""
    found: SessionPages | None = engine.process_state.get(PAGE_FILE_NAME)
    if found is None or found.pid != os.getpid():
        if found is None:
            engine.erasure_callbacks.append(partial(_schedule_page_removal, engine.settings.home))
        found = engine.process_state[PAGE_FILE_NAME] = SessionPages(engine.settings.home)
    return found


def _schedule_page_removal(home: Path, user_id: str) -> None:
    """Another process erased something of the user: remove the pages of this host, beside the loop."""
    asyncio.get_running_loop().run_in_executor(None, _remove_pages_or_log, home, user_id)


def _remove_pages_or_log(home: Path, user_id: str) -> None:
    try:
        remove_pages(home, user_id)
    except OSError as error:
        log_event(WARNING, "page_not_removed", user_id=user_id, error=str(error))


def remove_page(home: Path, agent_id: str | None, user_id: str) -> bool:
    """Remove the agent's page when it is one of this user; whether there was one. Raises OSError."""
    return _remove_if_owned(home, folder_name(agent_id), user_id)


def remove_pages(home: Path, user_id: str) -> int:
    """Remove every agent's page that is one of this user; how many there were. Raises OSError."""
    try:
        names = sorted(entry.name for entry in os.scandir(home / AGENTS_FOLDER) if entry.is_dir(follow_symlinks=False))
    except FileNotFoundError:
        return 0
    return sum(_remove_if_owned(home, name, user_id) for name in names)


def _remove_if_owned(home: Path, name: str, user_id: str) -> bool:
    with suppress(FileNotFoundError), _open_folder(home, name, create=False) as folder:
        with open(os.open(PAGE_FILE_NAME, _READ_FILE_FLAGS, dir_fd=folder), "rb") as file:
            file.seek(-min(_TAIL_BYTES, os.fstat(file.fileno()).st_size), os.SEEK_END)
            last = file.read().rstrip(b"\n").rpartition(b"\n")[2]
        if last == _owner_line(user_id).encode():
            os.unlink(PAGE_FILE_NAME, dir_fd=folder)
            return True
    return False


def _owner_line(user_id: str) -> str:
    """The last line of a page: whose it is."""
    return f"<!-- agentmem: session of {quote(user_id, safe='')} -->"


@contextmanager
def _open_folder(home: Path, name: str, *, create: bool = True) -> Iterator[int]:
    """The folder of an agent, as a descriptor; where a link stands in its place, nothing is written through it."""
    descriptors = [os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)]
    try:
        for part in (AGENTS_FOLDER, name):
            if create:
                with suppress(FileExistsError):
                    os.mkdir(part, 0o700, dir_fd=descriptors[-1])
            descriptors.append(os.open(part, _OPEN_FOLDER_FLAGS, dir_fd=descriptors[-1]))
        yield descriptors[-1]
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
