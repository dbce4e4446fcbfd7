"""A run of tests shares its servers, leaves none behind, and says loudly which tests it could not run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.nightly

ASKING = """
import os, pathlib
import pytest

@pytest.mark.parametrize("n", range(6))
def test_asks(n, redis_url):
    (pathlib.Path(os.environ["SEEN"]) / f"{os.getpid()}-{n}").write_text(redis_url)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a test that asks for Redis, and one where it leaves what it was given."""
    (tmp_path / "test_asking.py").write_text(ASKING)
    (tmp_path / "seen").mkdir()
    return tmp_path


def begun(folder: Path, *options: str, **environment: str) -> subprocess.Popen[str]:
    """A run of the tests in a folder, in a process of its own."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV", "CI"))}
    command = [sys.executable, "-m", "pytest", "-p", "tests.servers.plugin", "-q", "-ra", *options, str(folder)]
    return subprocess.Popen(
        command,
        cwd=folder,
        env={**own, "PYTHONPATH": str(ROOT), "SEEN": str(folder / "seen"), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def finished(run: subprocess.Popen[str]) -> tuple[int, str]:
    """Its exit code, and what it said."""
    said, _ = run.communicate(timeout=100)
    return run.returncode, said


def listening(url: str) -> bool:
    """Whether anybody on this machine takes connections at the port of a URL."""
    port = int(url.rpartition(":")[2].partition("/")[0])
    return any(line.laddr.port == port for line in psutil.net_connections("tcp") if line.status == "LISTEN")


@pytest.mark.parametrize("workers", ["0", "2"])
def test_all_processes_of_a_run_share_one_server(redis_url: str, folder: Path, workers: str) -> None:
    code, said = finished(begun(folder, "-n", workers))
    assert code == 0, said
    seen = {path.name.partition("-")[0]: path.read_text() for path in (folder / "seen").iterdir()}
    assert len(seen) == max(1, int(workers))
    (url,) = set(seen.values())
    assert url != redis_url
    assert not listening(url)


def test_a_server_that_runs_already_is_used(redis_url: str, folder: Path) -> None:
    code, said = finished(begun(folder, AGENTMEM_TEST_REDIS_URL=redis_url))
    assert code == 0, said
    assert {path.read_text() for path in (folder / "seen").iterdir()} == {redis_url}
    assert listening(redis_url)


@pytest.mark.parametrize("workers", ["0", "2"])
def test_what_could_not_be_run_is_said_loudly(folder: Path, workers: str) -> None:
    code, said = finished(begun(folder, "-n", workers, **nothing_at_hand(folder)))
    assert code == 0, said
    assert "TESTS NOT RUN, for want of a server" in said
    assert "6 not run: redis could not be started: redis-server is not on PATH" in said


def test_a_missing_server_fails_the_tests_on_ci(folder: Path) -> None:
    code, said = finished(begun(folder, CI="true", **nothing_at_hand(folder)))
    assert code == 1, said
    assert "redis could not be started" in said
    assert "6 errors" in said


def nothing_at_hand(folder: Path) -> dict[str, str]:
    """An environment with neither programs nor downloads."""
    return {"PATH": str(folder), "AGENTMEM_TEST_CACHE": str(folder / "cache")}


def test_a_run_that_is_killed_leaves_no_server_behind(redis_url: str, folder: Path) -> None:
    (folder / "test_asking.py").write_text(
        ASKING + "    print(redis_url, flush=True)\n    import time; time.sleep(60)\n"
    )
    run = begun(folder, "-s", TMPDIR=str(folder))  # what nobody is left to remove
    assert run.stdout is not None
    url = next(line for line in run.stdout if line.startswith("redis://")).strip()
    assert listening(url)
    os.killpg(run.pid, signal.SIGKILL)
    run.communicate()
    while listening(url):
        pass
