"""Where a store's file lies: its folder, its permissions, and whether the file system keeps SQLite's locks."""

from __future__ import annotations

import os
from pathlib import Path

from agentmem.errors import ConfigError, StoreUnavailable

FILE_MODE = 0o600
FOLDER_MODE = 0o700
NETWORK_FILE_SYSTEMS = frozenset({
    "9p", "afs", "beegfs", "ceph", "cifs", "davfs", "fuse.glusterfs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs",
    "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4", "smb3", "smbfs",
})  # fmt: skip
_MOUNTS = Path("/proc/mounts")


def prepare_folder(path: Path) -> None:
    """Make the folder of a store's file, readable by its owner only. An existing folder is left as it is.

    Raises ConfigError on a network file system and where the folder cannot be made.
    """
    try:
        path.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"the folder {path.parent} cannot be made: {error}; set AGENTMEM_HOME to another one"
        ) from error
    if path.is_dir():
        raise ConfigError(f"{path} is a folder; name a file in it")
    kind = file_system(path.parent.resolve())
    if kind in NETWORK_FILE_SYSTEMS:
        raise ConfigError(
            f"{path} lies on a network file system ({kind}), where locks are not kept and data can be lost; "
            "choose a local folder with AGENTMEM_HOME"
        )


def is_missing(path: Path) -> bool:
    """Whether there is no file yet."""
    return not path.exists()


def make_private(path: Path) -> None:
    """Let only the owner read and write the file, made empty when it is missing.

    SQLite gives the files beside it the same permissions, so this comes before the first connection.
    """
    try:
        path.touch(FILE_MODE)
        path.chmod(FILE_MODE)
    except OSError as error:
        raise StoreUnavailable(f"the permissions of {path} cannot be set: {error}") from error


def check_permissions(path: Path) -> list[str]:
    """Which of the store's files others can read or write; [] when none."""
    beside = [path.with_name(path.name + ending) for ending in ("", "-wal", "-shm")]
    modes = [(file, file.stat().st_mode & 0o777) for file in beside if file.exists()]
    return [
        f"{file} can be used by others (mode {mode:o}); run: chmod 600 {file}" for file, mode in modes if mode & 0o077
    ]


def file_system(folder: Path, mounts: Path = _MOUNTS) -> str:
    """The type of the file system that holds a folder, from the list of mounts; "" where the system has none."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    found, depth = "", -1
    for line in lines:
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = Path(os.fsdecode(fields[1].encode().decode("unicode_escape").encode("latin-1")))  # a space is \040
        if folder.is_relative_to(point) and len(point.parts) >= depth:
            found, depth = fields[2], len(point.parts)
    return found
