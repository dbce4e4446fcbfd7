"""The programs of docs/examples/adapters run as they are, with a scripted model."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

PROGRAMS = sorted((Path(__file__).resolve().parents[2] / "docs/examples/adapters").glob("*.py"))


@pytest.mark.parametrize("program", PROGRAMS, ids=[each.name for each in PROGRAMS])
def test_a_program_finds_what_it_stored(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AGENTMEM_HOME", str(tmp_path))
    monkeypatch.setenv("AGENTMEM_EMBEDDER", "hash")
    monkeypatch.setattr(sys, "argv", [str(program)])
    runpy.run_path(str(program), run_name="__main__")
    printed = capsys.readouterr().out
    assert any(word in printed for word in ("peanuts", "Oslo", "Paris")), printed
