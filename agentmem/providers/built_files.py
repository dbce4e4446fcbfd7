"""Files that are computed once from a model and kept: built under another name, synced, then renamed.

Two processes that build at once both finish and one file remains; a process killed on the way leaves a hidden one.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path

from agentmem.errors import ConfigError

_SLICE_COUNT, _SLICE_BYTES = 64, 4096


def fingerprint(path: Path) -> str:
    """16 hex digits that change with a file's size or content; reads 64 slices, so that 100 MB take a millisecond."""
    size = path.stat().st_size
    digest = blake2b(str(size).encode(), digest_size=8)
    with path.open("rb") as file:
        for number in range(_SLICE_COUNT):
            file.seek(max(0, size - _SLICE_BYTES) * number // (_SLICE_COUNT - 1))
            digest.update(file.read(_SLICE_BYTES))
    return digest.hexdigest()


def build_once(target: Path, write: Callable[[Path], None]) -> Path:
    """Return `target`, after `write(temporary path)` made it if it was missing.

    Raises ConfigError when its folder cannot be written, and whatever `write` raises; a partial file is removed.
    """
    if target.is_file():
        return target
    # The ending stays last, because writers choose the format by it.
    part = target.with_name(f".{secrets.token_hex(8)}{target.suffix}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _write_error(target, error) from error
    try:
        write(part)
        _fsync(part)
        os.replace(part, target)
        if os.name == "posix":  # elsewhere a folder cannot be opened
            _fsync(target.parent)
    except OSError as error:
        raise _write_error(target, error) from error
    finally:
        part.unlink(missing_ok=True)
    return target


def _write_error(target: Path, error: OSError) -> ConfigError:
    return ConfigError(f"models: cannot write {target}: {error}; choose another folder for models")


def _fsync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
