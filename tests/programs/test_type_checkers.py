"""What a type checker says of programs that use the package."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
USES = """
from pathlib import Path
from agentmem import AgentMemory, AsyncAgentMemory, Settings
from agentmem.settings.settings import load_settings
from agentmem.settings.sections import DecayOptions

AgentMemory("ann", home="x", embedder="hash", decay={"beta": "high", "forget": "delete"}, audit_level="reads")
AsyncAgentMemory("ann", settings=load_settings(), home=Path("x"), decay=DecayOptions(), max_cost=1, vault=None)
load_settings(Settings(threads=2), recall={"vector": {"near": 0.1}}, worker={"minutes": {"consolidate": 5}})
AgentMemory("ann", embeder="hash")  # wrong
AsyncAgentMemory("ann", embeder="hash")  # wrong
load_settings(embeder="hash")  # wrong
Settings(embeder="hash")  # wrong
AgentMemory("ann", threads="two")  # wrong
AsyncAgentMemory("ann", audit_level="loud")  # wrong
load_settings(recall_profile="fast")  # wrong
load_settings(decay={"beta": "hihg"})  # wrong
load_settings(decay={"bta": 1.0})  # wrong
load_settings(worker={"minutes": {"consolidate": "5"}})  # wrong
Settings(home=5)  # wrong
Settings(clock="now")  # wrong
Settings().embedder = "hash"  # wrong
"""


def test_a_type_checker_refuses_wrong_names_and_types(tmp_path: Path) -> None:
    (tmp_path / "uses.py").write_text(USES, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), "--no-error-summary"]
    options = ["--cache-dir", str(tmp_path / "cache"), "--follow-imports", "silent", "uses.py"]
    done = subprocess.run([*command, *options], cwd=tmp_path, capture_output=True, text=True)
    wrong = {number for number, line in enumerate(USES.splitlines(), 1) if line.endswith("# wrong")}
    assert {int(line) for line in re.findall(r"uses\.py:(\d+): error", done.stdout)} == wrong, done.stdout + done.stderr
    assert done.stdout.count('Unexpected keyword argument "embeder"') == 4
