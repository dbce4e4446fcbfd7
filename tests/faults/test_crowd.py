"""Several processes on one file: `python -m tests.faults.crowd --seconds 60` is the long run of the same."""

from __future__ import annotations

from tests.faults.crowd import run_processes


def test_two_writers_and_a_reader_lose_nothing() -> None:
    done = run_processes(3.0)
    assert len(done) == 3
    assert min(done.values()) > 0
