"""What servers are made of is downloaded once per machine, into $AGENTMEM_TEST_CACHE or ~/.cache/agentmem-tests."""

from __future__ import annotations

import fcntl
import os
import pwd
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

MAX_MESSAGE_LINES = 20
MAX_COMMAND_SECONDS = 900  # seconds for one command; a first download over a slow line


class CannotStart(Exception):
    """A server cannot be had on this machine; the message says why, with the end of what was printed."""


def cached_folder(name: str, fill: Callable[[Path], None]) -> Path:
    """The folder of this name in the cache, filled by `fill` when it is not there yet, by one process at a time."""
    cache = Path(os.environ.get("AGENTMEM_TEST_CACHE") or Path.home() / ".cache" / "agentmem-tests")
    folder = cache / name
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with (cache / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.is_dir():
                half = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=cache))
                try:
                    fill(half)
                    half.rename(folder)
                finally:
                    shutil.rmtree(half, ignore_errors=True)
    except OSError as error:
        raise CannotStart(f"the cache of downloads {cache} cannot be used: {error}") from error
    return folder


def run(command: Sequence[str | Path], *, cwd: Path, user: str | None = None) -> str:
    """Run a command to its end and return its output; CannotStart with the end of it when it fails."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=MAX_COMMAND_SECONDS,
            **as_user(user),
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotStart(f"{words[0]}: {error}") from error
    if done.returncode:
        raise CannotStart(f"{' '.join(words[:3])} … failed:\n{last_lines(done.stdout)}")
    return done.stdout


def as_user(name: str | None) -> dict[str, Any]:
    """What makes `subprocess` run a program as this user; None is whoever runs the tests."""
    return {} if name is None else {"user": name, "group": pwd.getpwnam(name).pw_gid, "extra_groups": []}


def last_lines(text: str) -> str:
    """The end of a program's output, as far as a message should hold it."""
    return "\n".join(text.strip().splitlines()[-MAX_MESSAGE_LINES:])


def unpack_packages(into: Path, packages: Sequence[str], *, dependencies: str = "") -> None:
    """Unpack Debian's packages without installing them, and those they depend on whose names match `dependencies`."""
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        raise CannotStart(f"{packages[0]} is not on PATH, and there is no apt-get to fetch it with")
    lists, cache = into / "lists", into / "cache"
    for folder in (lists / "partial", cache / "archives" / "partial"):
        folder.mkdir(parents=True)
    options = ["-o", "APT::Sandbox::User=root"]  # the user that apt would take may not write here
    try:
        _download(into, packages, dependencies, options)
    except CannotStart:  # no package lists on this machine, or old ones: read them into a place of our own
        options += ["-o", f"Dir::State::Lists={lists}", "-o", f"Dir::Cache={cache}"]
        run(["apt-get", "-q", *options, "update"], cwd=into)
        _download(into, packages, dependencies, options)
    for package in into.glob("*.deb"):
        run(["dpkg", "-x", package, into], cwd=into)
        package.unlink()
    shutil.rmtree(lists)
    shutil.rmtree(cache)


def _download(into: Path, packages: Sequence[str], dependencies: str, options: Sequence[str]) -> None:
    names = list(packages)
    if dependencies:  # their names differ between releases
        told = run(["apt-cache", *options, "depends", *packages], cwd=into)
        names += re.findall(rf"Depends: ({dependencies})$", told, re.MULTILINE)
    run(["apt-get", "-q", *options, "download", *names], cwd=into)


def library_path(unpacked: Path) -> dict[str, str]:
    """The variable by which a program finds the libraries of unpacked packages."""
    return {"LD_LIBRARY_PATH": ":".join(map(str, (unpacked / "usr" / "lib").glob("*-linux-gnu*")))}
