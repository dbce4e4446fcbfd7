"""The wheel holds the package and nothing else, and works alone.

Catches what a checkout hides: a file that is not packed, an undeclared dependency, a module that needs an extra.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.gates.installed import ROOT, Installed, list_packed, run


def list_files(folder: Path) -> set[str]:
    """Names, relative to the folder, of all that belongs into a wheel."""
    found = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(folder).as_posix() for path in found}


def test_the_wheel_holds_the_package_and_the_schema(wheel: Path) -> None:
    package = {f"agentmem/{name}" for name in list_files(ROOT / "agentmem")}
    assert list_packed(wheel) == package | {f"agentmem/_schema/{name}" for name in list_files(ROOT / "schema")}


def test_the_wheel_works_without_extras(installed: Callable[[str], Installed], tmp_path: Path) -> None:
    environment = installed("pip install agentmem-graph")
    script = tmp_path / "smoke.py"
    script.write_text((ROOT / "tests" / "gates" / "smoke.py").read_text(encoding="utf-8"), encoding="utf-8")
    run(environment.binaries / "python", "-I", script, cwd=tmp_path, environment=environment.environ(tmp_path))
    assert "Usage: agentmem" in environment.shell("agentmem --help", tmp_path)
