"""Empty environments, made from the wheels of this checkout by the install lines that the documents print."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def list_extras(line: str) -> str:
    """The extras of an install line, in the form of a name: environments with the same ones are shared."""
    found = re.fullmatch(r'pip install (?:--quiet )?"?agentmem-graph(?:\[([a-z0-9,-]+)\])?"?', line)
    assert found is not None, f"no install line of agentmem: {line}"
    return "-".join(sorted((found[1] or "none").split(",")))


def read_blocks(page: str, *languages: str) -> list[str]:
    """The fenced blocks of a page of the checkout, in order; of all languages when none is named."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return [code for language, code in FENCE.findall(text) if not languages or language in languages]


def run(*command: str | Path, cwd: Path, environment: dict[str, str] | None = None, stdin: str = "") -> str:
    """What a command printed, errors included; it must end well within five minutes."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env=environment,
        input=stdin,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=300,
    )
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}"
    return done.stdout


def build(into: Path) -> None:
    """Build the source distribution, and the wheel from it, so that both are known to be complete."""
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", into, ROOT, cwd=into)


def list_packed(wheel: Path) -> set[str]:
    """The files of a wheel without its metadata."""
    return {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}


@dataclass(frozen=True)
class Installed:
    """A virtual environment, and how to run programs of it without the checkout at hand."""

    folder: Path

    @property
    def binaries(self) -> Path:
        """Where `agentmem` and `python` are."""
        return self.folder / "bin"

    def environ(self, home: Path, **more: str) -> dict[str, str]:
        """The variables of a shell of a new user whose home is this folder."""
        path = f"{self.binaries}:/usr/local/bin:/usr/bin:/bin"
        compiled = {"PYTHONPYCACHEPREFIX": sys.pycache_prefix or ""} if self == CHECKOUT else {}
        return {"HOME": str(home), "PATH": path, "LANG": "C.UTF-8", **compiled, **more}

    def shell(self, script: str, home: Path, stdin: str = "", **more: str) -> str:
        """What a shell script printed that was run in this folder, its home."""
        command = ("bash", "-euo", "pipefail", "-c", script)
        return run(*command, cwd=home, environment=self.environ(home, **more), stdin=stdin)

    def python(self, code: str, home: Path, **more: str) -> str:
        """What a Python program printed."""
        program = home / "program.py"
        program.write_text(code, encoding="utf-8")
        return run(self.binaries / "python", program, cwd=home, environment=self.environ(home, **more))


CHECKOUT = Installed(Path(sys.prefix))


def install(line: str, wheel: Path, folder: Path) -> None:
    """Make an environment by an install line as printed. The embedder's wheel is the one that `make` built."""
    venv.create(folder)
    # An older set of packages may have left its folder.
    model = max(Path(sys.prefix).glob("wheels-*/agentmem_minilm-*.whl"), key=lambda path: path.stat().st_mtime)
    places = [wheel.parent, model.parent, *os.environ.get("PIP_FIND_LINKS", "").split()]
    links = " ".join(f"--find-links {place}" for place in places)
    # Installed by uv, which takes a sixth of the time, or by the checkout's pip where uv finds no index.
    pip = folder / "bin" / "pip"
    uv = f'"{CHECKOUT.binaries}/uv" pip "$@" --quiet --system-certs --python "{folder}" {links} 2>/dev/null'
    pip.write_text(
        f'#!/bin/sh\n{uv} || exec {sys.executable} -m pip --python {folder} "$@" {links}\n', encoding="utf-8"
    )
    pip.chmod(0o755)
    given = ("PIP_", "UV_", "SSL_", "PYTHONPYCACHEPREFIX")
    index = {name: value for name, value in os.environ.items() if name.startswith(given) or "_proxy" in name}
    cache = {"PIP_CACHE_DIR": os.environ.get("PIP_CACHE_DIR", str(Path.home() / ".cache" / "pip"))}
    cache["UV_CACHE_DIR"] = os.environ.get("UV_CACHE_DIR", str(Path.home() / ".cache" / "uv"))
    index |= cache | {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_QUIET": "1", "PIP_NO_COMPILE": "1"}
    Installed(folder).shell(line, folder, **index)
