"""The wheel of this checkout, and one environment per install line, shared by the processes of a run.

By day only the environment without extras is made, and lines with extras get the one of the checkout.
"""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.gates.installed import CHECKOUT, Installed, build, install, list_extras
from tests.scale import NIGHTLY


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of the whole run."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if own.name.startswith("popen-") else own


@contextmanager
def make_once(folder: Path) -> Iterator[bool]:
    """Whether this process is to fill the folder; others wait here until it is filled."""
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = folder.with_suffix(".done")
        yield not done.exists()
        done.touch()


@pytest.fixture(scope="session")
def wheel(shared: Path) -> Path:
    """The wheel of the library, built from its source distribution."""
    folder = shared / "wheel"
    with make_once(folder) as is_first:
        if is_first:
            folder.mkdir()
            build(folder)
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="session")
def installed(request: pytest.FixtureRequest, shared: Path) -> Callable[[str], Installed]:
    """Gives the environment that an install line makes. Lines with the same extras share one."""

    def give(line: str) -> Installed:
        if "[" in line and not NIGHTLY:
            return CHECKOUT
        folder = shared / f"environment-{list_extras(line)}"
        with make_once(folder) as is_first:
            if is_first:
                install(line, request.getfixturevalue("wheel"), folder)
        return Installed(folder)

    return give
