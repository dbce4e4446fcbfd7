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

from agentmem.events import WARNING, tell
from agentmem.resources import Resources

FOLDER, NAME, DEFAULT = "agents", "current.md", "default"
LONGEST = 150  # characters of a folder's name before a checksum takes the place of the rest
AGENTS_KNOWN = 10_000
_HERE = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_TAIL = 4096  # bytes at the end of a page in which its last line lies


def folder_name(agent_id: str | None) -> str:
    """The agent's name as a folder: percent-encoded, never a path; `default` for None."""
    if agent_id is None:
        return DEFAULT
    name = quote(agent_id, safe="")
    if name.startswith("."):  # no path upwards, and no hidden folder
        name = f"%2E{name[1:]}"
    return name if len(name) <= LONGEST else f"{name[:LONGEST]}-{sha256(agent_id.encode()).hexdigest()[:16]}"


class Pages:
    """The pages that this process writes. An older state never takes the place of a newer one."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.pid = os.getpid()
        self._tickets = count(1)
        self._written: dict[str, int] = {}
        self._lock = Lock()

    def ticket(self) -> int:
        """To be taken before the session is read: the later one wins."""
        return next(self._tickets)

    def write(self, agent_id: str | None, user_id: str, text: str, ticket: int) -> Path:
        """Put the page in the place of the former one, readable by its owner only. Raises OSError."""
        name = folder_name(agent_id)
        self.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _opened(self.home, name) as folder:
            part = f"{NAME}.{os.getpid()}.{ticket}.part"
            with suppress(FileNotFoundError):  # of a process that had this number and was killed
                os.unlink(part, dir_fd=folder)
            try:
                with open(os.open(part, _NEW, 0o600, dir_fd=folder), "w", encoding="utf-8", newline="\n") as file:
                    file.write(f"{text}\n{_owner(user_id)}\n")
                with self._lock:
                    if ticket > self._written.get(name, 0):
                        os.replace(part, NAME, src_dir_fd=folder, dst_dir_fd=folder)
                        self._written[name] = ticket
                    if len(self._written) > AGENTS_KNOWN:
                        self._written.clear()
            finally:
                with suppress(FileNotFoundError):  # it has its new name
                    os.unlink(part, dir_fd=folder)
        return self.home / FOLDER / name / NAME


def pages(resources: Resources) -> Pages:
    """Those of an opened memory, shared by all of its views, and anew after a fork."""
    found: Pages | None = resources.kept.get(NAME)
    if found is None or found.pid != os.getpid():
        if found is None:
            resources.on_erasure.append(partial(_forget, resources.settings.home))
        found = resources.kept[NAME] = Pages(resources.settings.home)
    return found


def _forget(home: Path, user_id: str) -> None:
    """Another process erased something of the user: remove the pages of this host, beside the loop."""
    asyncio.get_running_loop().run_in_executor(None, _forget_here, home, user_id)


def _forget_here(home: Path, user_id: str) -> None:
    try:
        remove_pages(home, user_id)
    except OSError as error:
        tell(WARNING, "page_not_removed", user_id=user_id, error=str(error))


def remove_page(home: Path, agent_id: str | None, user_id: str) -> bool:
    """Remove the agent's page when it is one of this user; whether there was one. Raises OSError."""
    return _remove(home, folder_name(agent_id), user_id)


def remove_pages(home: Path, user_id: str) -> int:
    """Remove every agent's page that is one of this user; how many there were. Raises OSError."""
    try:
        names = sorted(entry.name for entry in os.scandir(home / FOLDER) if entry.is_dir(follow_symlinks=False))
    except FileNotFoundError:
        return 0
    return sum(_remove(home, name, user_id) for name in names)


def _remove(home: Path, name: str, user_id: str) -> bool:
    with suppress(FileNotFoundError), _opened(home, name, make=False) as folder:
        with open(os.open(NAME, _READ, dir_fd=folder), "rb") as file:
            file.seek(-min(_TAIL, os.fstat(file.fileno()).st_size), os.SEEK_END)
            last = file.read().rstrip(b"\n").rpartition(b"\n")[2]
        if last == _owner(user_id).encode():
            os.unlink(NAME, dir_fd=folder)
            return True
    return False


def _owner(user_id: str) -> str:
    """The last line of a page: whose it is."""
    return f"<!-- agentmem: session of {quote(user_id, safe='')} -->"


@contextmanager
def _opened(home: Path, name: str, *, make: bool = True) -> Iterator[int]:
    """The folder of an agent, as a descriptor; where a link stands in its place, nothing is written through it."""
    descriptors = [os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)]
    try:
        for part in (FOLDER, name):
            if make:
                with suppress(FileExistsError):
                    os.mkdir(part, 0o700, dir_fd=descriptors[-1])
            descriptors.append(os.open(part, _HERE, dir_fd=descriptors[-1]))
        yield descriptors[-1]
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
