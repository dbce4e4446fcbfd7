"""A worker beside two agents for a minute, killed and restarted; `make soak` is the long run of the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.soak import KILLS, soak


@pytest.mark.nightly
def test_a_worker_that_is_killed_loses_nothing_and_reads_nothing_twice(home: Path) -> None:
    home.mkdir(exist_ok=True)
    seen = soak(home, 60.0)
    assert seen.problems == []
    assert seen.kills == KILLS
    assert seen.turns > 50
    assert seen.glosses == seen.turns
    assert seen.facts > 0
