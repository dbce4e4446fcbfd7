"""The command line in a folder that somebody else filled."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from agentmem import AgentMemory

MARK_PROGRAM = "llm = 'command:touch {mark}'\n[recall.hyde]\nenabled = true\n"


@pytest.mark.parametrize("command", [["consolidate"], ["remember", "what do I eat?"]])
def test_a_cloned_repository_runs_no_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    mark, work = tmp_path / "ran", tmp_path / "work"
    work.mkdir()
    monkeypatch.setenv("AGENTMEM_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("AGENTMEM_EMBEDDER", "hash")
    monkeypatch.chdir(work)
    (work / "agentmem.toml").write_text(MARK_PROGRAM.format(mark=mark), encoding="utf-8")
    (work / "agentmem.toml").chmod(0o600)
    with AgentMemory("default") as memory:
        memory.store_turn("I eat no meat.")
    start = [sys.executable, "-c", "import sys; from agentmem.cli.main import main; sys.exit(main())"]
    done = subprocess.run([*start, *command], capture_output=True, text=True)
    assert (done.returncode, mark.exists()) == (0, False), done.stderr
    told = [line for line in done.stderr.splitlines() if line.startswith("agentmem: ")]
    assert len(told) == 1
    assert "Ignored agentmem.toml in the working directory" in told[0]
    assert "use --config or AGENTMEM_CONFIG" in told[0]
    with AgentMemory("default") as memory:
        memory.store_turn("I eat no fish.")
    named = subprocess.run([*start, *command, "--config", "agentmem.toml"], capture_output=True, text=True)
    assert "Ignored" not in named.stderr
    assert mark.exists()
