"""`current.md`: the session of an agent as a readable page on disk, for people who look over its shoulder."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from itertools import count
from pathlib import Path
from threading import Lock
from urllib.parse import quote

from agentmem.core.telemetry import WARNING, log_event
from agentmem.engine.engine import Engine
from agentmem.memory.safe_folder import READ_FILE_FLAGS, create_part, folder_name, open_folder
from agentmem.text.plain_line import to_plain_line

AGENTS_FOLDER, PAGE_FILE_NAME, DEFAULT_AGENT_FOLDER = "agents", "current.md", "default"
MAX_TRACKED_AGENTS = 10_000
_TAIL_BYTES = 4096  # bytes at the end of a page in which its last line lies
_TAB_WIDTH = 4


def quote_lines(text: str) -> str:
    """A stored text as the page shows it: lines and indentation kept, every line but the first behind `> `.

    So no stored text starts a line, heading or turn of its own, and a block of code ends with its message.
    """
    first, *more = text.strip().splitlines() or [""]
    return "\n".join([to_plain_line(first), *(f"> {_indent_plain(line)}".rstrip() for line in more)])


def _indent_plain(line: str) -> str:
    shown = line.expandtabs(_TAB_WIDTH)
    return " " * (len(shown) - len(shown.lstrip())) + to_plain_line(shown)


def _agent_folder(agent_id: str | None) -> str:
    return DEFAULT_AGENT_FOLDER if agent_id is None else folder_name(agent_id)


class SessionPages:
    """The pages that this process writes. An older state never takes the place of a newer one."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.reset()

    def reset(self) -> None:
        """Start with versions and a lock of this process."""
        self.pid = os.getpid()
        self._versions = count(1)
        self._written_versions: dict[str, int] = {}
        self._lock = Lock()

    def next_version(self) -> int:
        """To be taken before the session is read: the later one wins."""
        return next(self._versions)

    def write(self, agent_id: str | None, user_id: str, text: str, version: int) -> Path:
        """Put the page in the place of the former one, readable by its owner only. Raises OSError."""
        name = _agent_folder(agent_id)
        self.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        part = f"{PAGE_FILE_NAME}.{os.getpid()}.{version}.part"
        with (
            open_folder(self.home, AGENTS_FOLDER, name, create=True) as folder,
            create_part(folder, part) as descriptor,
        ):
            with open(descriptor, "w", encoding="utf-8", newline="\n") as file:
                file.write(f"{text}\n{_owner_line(user_id)}\n")
            with self._lock:
                if version > self._written_versions.get(name, 0):
                    os.replace(part, PAGE_FILE_NAME, src_dir_fd=folder, dst_dir_fd=folder)
                    self._written_versions[name] = version
                if len(self._written_versions) > MAX_TRACKED_AGENTS:
                    self._written_versions.clear()
        return self.home / AGENTS_FOLDER / name / PAGE_FILE_NAME

    def forget(self, user_id: str) -> None:
        """Remove the pages of this host, beside the loop: another process erased something of the user."""
        asyncio.get_running_loop().run_in_executor(None, _remove_pages_or_log, self.home, user_id)


def get_session_pages(engine: Engine) -> SessionPages:
    """Those of an opened memory, shared by all of its views; reset after a fork."""
    found = engine.get_shared(SessionPages, lambda: SessionPages(engine.settings.home))
    if found.pid != os.getpid():
        found.reset()
    return found


def _remove_pages_or_log(home: Path, user_id: str) -> None:
    try:
        remove_pages(home, user_id)
    except OSError as error:
        log_event(WARNING, "page_not_removed", user_id=user_id, error=str(error))


def remove_page(home: Path, agent_id: str | None, user_id: str) -> bool:
    """Remove the agent's page when it is one of this user; whether there was one. Raises OSError."""
    return _remove_if_owned(home, _agent_folder(agent_id), user_id)


def remove_pages(home: Path, user_id: str) -> int:
    """Remove every agent's page that is one of this user; how many there were. Raises OSError."""
    try:
        names = sorted(entry.name for entry in os.scandir(home / AGENTS_FOLDER) if entry.is_dir(follow_symlinks=False))
    except FileNotFoundError:
        return 0
    return sum(_remove_if_owned(home, name, user_id) for name in names)


def _remove_if_owned(home: Path, name: str, user_id: str) -> bool:
    with suppress(FileNotFoundError), open_folder(home, AGENTS_FOLDER, name, create=False) as folder:
        with open(os.open(PAGE_FILE_NAME, READ_FILE_FLAGS, dir_fd=folder), "rb") as file:
            file.seek(-min(_TAIL_BYTES, os.fstat(file.fileno()).st_size), os.SEEK_END)
            last = file.read().rstrip(b"\n").rpartition(b"\n")[2]
        if last == _owner_line(user_id).encode():
            os.unlink(PAGE_FILE_NAME, dir_fd=folder)
            return True
    return False


def _owner_line(user_id: str) -> str:
    """The last line of a page: whose it is."""
    return f"<!-- agentmem: session of {quote(user_id, safe='')} -->"
