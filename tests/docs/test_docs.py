"""The documents are kept true: their code runs, and the tests they name exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAGES = ["README.md", "docs/quickstart.md"]
BLOCKS = [
    (page, number, code) for page in PAGES for number, code in enumerate(PYTHON.findall((ROOT / page).read_text()))
]
NAMED = sorted(set(re.findall(r"`(test_\w+)`", (ROOT / "docs/decisions.md").read_text())))


@pytest.mark.parametrize("page,number,code", BLOCKS, ids=[f"{page}-{number}" for page, number, _ in BLOCKS])
def test_code_in_documents_runs(page: str, number: int, code: str, tmp_path: Path) -> None:
    run = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, f"{page}, block {number}:\n{run.stderr}"


@pytest.mark.parametrize("name", NAMED)
def test_guards_that_decisions_names_exist(name: str) -> None:
    assert any(f"def {name}(" in path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))


def test_every_promise_has_a_guard() -> None:
    text = (ROOT / "docs/decisions.md").read_text().split("## Choices")[0]
    rows = [line for line in text.splitlines() if line.startswith("| **")]
    assert len(rows) >= 12
    assert all("`test_" in row for row in rows)


def test_links_between_documents_lead_somewhere() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page}: {target}"
