"""Builds the wheels, installs them into empty environments and uses them there. Run by `make lint`.

Catches what a checkout hides: a file that is not packed, an undeclared dependency, a module that needs an extra, an
install line that does not give what the documents say. The embedder's wheel is the one that `make` built.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
OTHER_WORDS = """
with AgentMemory("bob") as memory:
    for text in ("The train to Leeds leaves at nine.", "I'm allergic to peanuts.", "My sister plays the cello."):
        memory.store_turn(text)
    bundle = memory.remember("what must the cook avoid?")
    assert bundle.items[0].record.content == "I'm allergic to peanuts.", bundle.items
    assert bundle.notices == (), bundle.notices
    assert bundle.receipt.embedder == "local:all-MiniLM-L6-v2:384"
"""


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


def check_readme(wheel: Path, within: Path) -> None:
    """Install by the first line of the README, and run its first program, asked in other words, too.

    Then install by the line of the operations page, and run the worker as that page does, on the embedded file.
    """
    environment, home = within / "readme", within / "readme-home"
    home.mkdir()
    venv.create(environment, with_pip=True)
    outside = {"HOME": str(home), "PATH": f"{environment / 'bin'}:/usr/bin:/bin", "LANG": "C.UTF-8"}
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (line,) = re.findall(r'^(pip install "agentmem-graph\[local\]")', readme, re.MULTILINE)
    (model,) = Path(sys.prefix).glob("wheels-*/agentmem_minilm-*.whl")
    places = [str(wheel.parent), str(model.parent), os.environ.get("PIP_FIND_LINKS", "")]
    wheels = {"PIP_FIND_LINKS": " ".join(places).strip(), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    index = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "UV_")) or "_proxy" in name}
    installing = {**index, **outside, **wheels}
    run("sh", "-c", f"{line} --quiet", cwd=home, environment=installing)
    program = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)[0]
    (home / "first.py").write_text(program + OTHER_WORDS, encoding="utf-8")
    run(environment / "bin" / "python", "first.py", cwd=home, environment=outside)
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    (line,) = re.findall(r'^(pip install --quiet "agentmem-graph\[[^"]*worker[^"]*")', page, re.MULTILINE)
    run("sh", "-c", line, cwd=home, environment=installing)
    for words in re.findall(r"^agentmem (worker --once|admin doctor)$", page, re.MULTILINE)[:2]:
        run(environment / "bin" / "agentmem", *words.split(), cwd=home, environment=outside)


def main() -> None:
    """Build, look, install, use; say so."""
    with tempfile.TemporaryDirectory(prefix="agentmem-wheel-") as folder:
        within = Path(folder)
        wheel = built(within)
        check_names(wheel)
        check_use(wheel, within)
        check_readme(wheel, within)
        print(f"wheel: {wheel.name} holds only the package and works in empty environments")


if __name__ == "__main__":
    main()
