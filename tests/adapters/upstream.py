"""`python tests/adapters/upstream.py langgraph CHECKOUT`: a framework's own tests, run against our adapter.

CHECKOUT is a folder with the framework's repository. Nothing of it is copied: a plugin of pytest beside this puts our
class in place of theirs. Tests that look inside of theirs cannot pass; docs/adapters/README.md says which those are.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click

HERE = Path(__file__).resolve().parent
SUITES = {
    "langgraph": [
        ("libs/checkpoint", ["tests/test_store.py"]),
        ("libs/checkpoint-sqlite", ["tests/test_store.py", "tests/test_ttl.py"]),
    ],
    "openai_agents": [("", ["tests/memory/test_session.py", "tests/memory/test_session_limit.py"])],
    "anthropic": [("", ["tests/lib/tools/memory_tools/test_filesystem.py", "--noconftest"])],
}


@click.command(help=__doc__)
@click.argument("framework", type=click.Choice(sorted(SUITES)))
@click.argument("checkout", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("options", nargs=-1)
def main(framework: str, checkout: Path, options: tuple[str, ...]) -> None:
    """Run the suites of one framework; the status is that of the last one that failed."""
    status = 0
    for folder, files in SUITES[framework]:
        root = (checkout / folder).resolve()
        plain = ["-c", os.devnull, f"--rootdir={root}", "-o", "asyncio_mode=auto", "--import-mode=importlib"]
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            f"upstream_{framework}",
            "-p",
            "no:cacheprovider",
            *plain,
        ]
        path = os.pathsep.join([str(root), str(HERE.parents[1]), str(HERE), os.environ.get("PYTHONPATH", "")])
        run = subprocess.run(
            [*command, *files, *options], cwd=root, env={**os.environ, "PYTHONPATH": path}, check=False
        )
        status = run.returncode or status
    sys.exit(status)


if __name__ == "__main__":
    main()
