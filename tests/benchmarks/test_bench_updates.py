"""Numbered statements of which later ones replace earlier ones: the newest value is held, and no old one is told."""

from __future__ import annotations

from pathlib import Path

from tests.benchmarks.updates import make_statements, play_updates


async def test_the_newest_of_numbered_statements_is_held(tmp_path: Path) -> None:
    scores = await play_updates(tmp_path, count=250, seed=3)
    assert scores.one_link >= 0.95
    assert scores.two_links >= 0.95
    assert scores.outdated == 0.0


def test_later_statements_replace_earlier_ones() -> None:
    said = make_statements(250, 3)
    assert len({(subject, relation) for subject, relation, _ in said}) < 0.75 * len(said)
