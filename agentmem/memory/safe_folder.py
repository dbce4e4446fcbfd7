"""Folders and files that people may change too: opened by descriptor, without following links, replaced atomically."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote

MAX_FOLDER_NAME_CHARS = 150  # longer names end in a checksum
READ_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_ROOT_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_OPEN_FOLDER_FLAGS = _ROOT_FLAGS | os.O_NOFOLLOW
_CREATE_FILE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def folder_name(name: str) -> str:
    """A name as that of a folder: percent-encoded, never a path and never hidden."""
    encoded = quote(name, safe="")
    if encoded.startswith("."):
        encoded = f"%2E{encoded[1:]}"
    if len(encoded) <= MAX_FOLDER_NAME_CHARS:
        return encoded
    return f"{encoded[:MAX_FOLDER_NAME_CHARS]}-{sha256(name.encode()).hexdigest()[:16]}"


@contextmanager
def open_folder(root: Path, *parts: str, create: bool) -> Iterator[int]:
    """The folder `parts` below `root`, as a descriptor. Raises OSError when a part is a link."""
    descriptors = [os.open(root, _ROOT_FLAGS)]
    try:
        for part in parts:
            if create:
                with suppress(FileExistsError):
                    os.mkdir(part, 0o700, dir_fd=descriptors[-1])
            descriptors.append(os.open(part, _OPEN_FOLDER_FLAGS, dir_fd=descriptors[-1]))
        yield descriptors[-1]
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


@contextmanager
def create_part(folder: int, part: str) -> Iterator[int]:
    """A new file `part` that its owner alone can read, as a descriptor; removed in the end unless it was renamed."""
    with suppress(FileNotFoundError):  # of a process that had this number and was killed
        os.unlink(part, dir_fd=folder)
    try:
        yield os.open(part, _CREATE_FILE_FLAGS, 0o600, dir_fd=folder)
    finally:
        with suppress(FileNotFoundError):  # it has its new name
            os.unlink(part, dir_fd=folder)
