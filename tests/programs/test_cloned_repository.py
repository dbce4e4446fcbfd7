"""The command line in a folder that somebody else filled."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentmem import AgentMemory
from tests.surfaces.conftest import Cli

MARK_PROGRAM = "llm = 'command:touch {mark}'\n[recall.hyde]\nenabled = true\n"


@pytest.mark.parametrize("command", [["consolidate"], ["remember", "what do I eat?"]])
def test_a_cloned_repository_runs_no_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    mark, work, cli = tmp_path / "ran", tmp_path / "work", Cli(tmp_path / "home")
    work.mkdir()
    monkeypatch.chdir(work)
    (work / "agentmem.toml").write_text(MARK_PROGRAM.format(mark=mark), encoding="utf-8")
    (work / "agentmem.toml").chmod(0o600)
    with AgentMemory("default", home=cli.home, embedder="hash") as memory:
        memory.store_turn("I eat no meat.")
    done = cli.run(*command)
    assert (done.exit_code, mark.exists()) == (0, False), done.stderr
    told = [line for line in done.stderr.splitlines() if line.startswith("agentmem: ")]
    assert len(told) == 1
    assert "Ignored agentmem.toml in the working directory" in told[0]
    assert "use --config or AGENTMEM_CONFIG" in told[0]
    with AgentMemory("default", home=cli.home, embedder="hash") as memory:
        memory.store_turn("I eat no fish.")
    named = cli.run(*command, "--config", "agentmem.toml")
    assert "Ignored" not in named.stderr
    assert mark.exists()
