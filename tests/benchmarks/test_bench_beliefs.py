"""Scripted lives of people who type as they talk, read without a model: what is believed on days with known answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks.belief_life import play_life
from tests.scale import NIGHTLY

LIVES = Path(__file__).with_name("lives")
MIN_CURRENT = {"craftsman": 0.02, "researcher": 0.1}  # rules leave dialect and allusions to a model
MAX_OUTDATED = 0.15
DAYS = 1_000 if NIGHTLY else 18  # of a careful life


@pytest.mark.nightly
@pytest.mark.parametrize("name", sorted(folder.name for folder in LIVES.iterdir()))
async def test_a_life_is_believed_as_it_was(name: str, tmp_path: Path) -> None:
    shares = await play_life(LIVES / name, tmp_path, show=False)
    assert shares["current"] >= MIN_CURRENT[name.partition("_")[0]]
    assert shares["outdated"] <= MAX_OUTDATED
    assert (shares["must not"], shares["reviews"]) == (0, 0)


CAREFUL = ("craftsman_4", "craftsman_7", "researcher_2", "researcher_5")


@pytest.mark.long
@pytest.mark.parametrize("name", ["researcher_6", *(pytest.param(name, marks=pytest.mark.nightly) for name in CAREFUL)])
async def test_what_a_careful_model_reads_is_believed(name: str, tmp_path: Path) -> None:
    shares = await play_life(LIVES / name, tmp_path, is_careful=True, days=DAYS)
    assert shares["current"] >= 0.8
    assert shares["planned"] >= 0.25
    assert shares["outdated"] <= 0.1
    assert (shares["must not"], shares["reviews"]) == (0, 0)
