"""Builds the wheel, installs it into an empty environment and uses it there. Run by `make lint`.

Catches what a checkout hides: a file that is not packed, an undeclared dependency, a module that needs an extra.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(*command: str | Path, cwd: Path, environment: dict[str, str] | None = None) -> None:
    """Run a command and end the gate with what it said, if it fails."""
    done = subprocess.run(
        command, cwd=cwd, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    if done.returncode:
        sys.exit(f"{done.stdout}\nwheel: failed: {' '.join(map(str, command))}")


def built(into: Path) -> Path:
    """Build the source distribution, and the wheel from it, so that both are known to be complete."""
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", into, ROOT, cwd=into)
    (wheel,) = into.glob("*.whl")
    return wheel


def files(folder: Path) -> set[str]:
    """Names, relative to the folder, of all that belongs into a wheel."""
    found = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(folder).as_posix() for path in found}


def expected() -> set[str]:
    """Every file of the package, and of schema/ under its name in the wheel."""
    package = {f"agentmem/{name}" for name in files(ROOT / "agentmem")}
    return package | {f"agentmem/_schema/{name}" for name in files(ROOT / "schema")}


def check_names(wheel: Path) -> None:
    """The wheel holds the package, its metadata, and nothing else."""
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    if missing := expected() - names:
        sys.exit(f"wheel: not packed: {sorted(missing)}")
    if foreign := names - expected():
        sys.exit(f"wheel: should not be packed: {sorted(foreign)}")


def check_use(wheel: Path, within: Path) -> None:
    """Install without extras, then import every module and hold a conversation, away from the checkout."""
    environment, home = within / "environment", within / "home"
    home.mkdir()
    venv.create(environment, with_pip=True)
    binaries = environment / "bin"
    run(binaries / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel, cwd=home)
    outside = {"HOME": str(home), "PATH": str(binaries), "LANG": "C.UTF-8"}
    script = home / "smoke.py"
    script.write_text((ROOT / "tests" / "gates" / "smoke.py").read_text(encoding="utf-8"), encoding="utf-8")
    run(binaries / "python", "-I", script, cwd=home, environment=outside)
    run(binaries / "agentmem", "--help", cwd=home, environment=outside)


def main() -> None:
    """Build, look, install, use; say so."""
    with tempfile.TemporaryDirectory(prefix="agentmem-wheel-") as folder:
        within = Path(folder)
        wheel = built(within)
        check_names(wheel)
        check_use(wheel, within)
        print(f"wheel: {wheel.name} holds only the package and works in an empty environment")


if __name__ == "__main__":
    main()
