"""What a type checker says of programs that use the package."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
USES = """
from pathlib import Path
from agentmem import AgentMemory, AsyncAgentMemory, ForgetReceipt, ScoredRecord, Settings, WhyNot
from agentmem.settings.settings import load_settings
from agentmem.settings.sections import DecayOptions

AgentMemory("ann", home="x", embedder="hash", decay={"beta": "high", "forget": "delete"}, audit_level="reads")
AsyncAgentMemory("ann", settings=load_settings(), home=Path("x"), decay=DecayOptions(), max_cost=1, vault=None)
load_settings(Settings(threads=2), recall={"entity": {"depth": 1}}, worker={"minutes": {"consolidate": 5}})
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
Settings().embedder = "hash"  # wrong for mypy

with AgentMemory("ann") as memory:
    fact = memory.learn_fact("It rains.", tier="short", temporal_context="past", memory_type="preference")
    bundle = memory.remember("rain", include=["semantic"], exclude=[fact.id])
    first: ScoredRecord = next(iter(bundle))
    text: str = memory.context("rain")
    goal = memory.complete_goal("g1", "abandoned")
    why: WhyNot = memory.audit.why_not(bundle.receipt.id, fact.id)
    receipt: ForgetReceipt = memory.forget(fact.id)
    memory.curation.promote(fact.id, "global")
    memory.goals.all("blocked")
    memory.learn_fact("It rains.", tier="medium")  # wrong
    memory.learn_fact("It rains.", teir="short")  # wrong
    memory.learn_fact("It rains.", temporal_context="later")  # wrong
    memory.remember("rain", include=["dreams"])  # wrong
    memory.remember("rain", top_k="5")  # wrong
    memory.complete_goal("g1", "finished")  # wrong
    memory.curation.promote(fact.id, "everywhere")  # wrong
    memory.goals.all("done")  # wrong
    memory.procedural.procedures("new")  # wrong
    memory.semantic.reviews("taste")  # wrong
    memory.semantic.resolve_review("r1", "perhaps")  # wrong
    memory.schedules.add("pulse", every=5, missed="all")  # wrong
    print(bundle.turn)  # wrong
    print(bundle.items[0].rank)  # wrong
    print(fact.text)  # wrong
    print(receipt.deleted)  # wrong
    print(goal.goal_status == "finished")  # wrong for mypy
    print(text, why, first)
"""


def find_wrong_lines(mark: str) -> set[int]:
    return {number for number, line in enumerate(USES.splitlines(), 1) if re.search(mark, line)}


def test_mypy_refuses_wrong_names_types_and_choices(tmp_path: Path) -> None:
    (tmp_path / "uses.py").write_text(USES, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), "--no-error-summary"]
    # `make lint` reads the same cache, and needs a minute without it.
    options = ["--cache-dir", str(ROOT / ".mypy_cache"), "uses.py"]
    environment = {
        **os.environ,
        "MYPYPATH": str(ROOT),
    }  # a module found among installed ones is another one to the cache
    done = subprocess.run([*command, *options], cwd=tmp_path, env=environment, capture_output=True, text=True)
    found = {int(line) for line in re.findall(r"uses\.py:(\d+): error", done.stdout)}
    assert found == find_wrong_lines("# wrong"), done.stdout + done.stderr
    assert done.stdout.count('Unexpected keyword argument "embeder"') == 4


@pytest.mark.nightly
def test_pyright_refuses_them_too(tmp_path: Path) -> None:
    (tmp_path / "uses.py").write_text(USES, encoding="utf-8")
    settings = {"typeCheckingMode": "standard", "venvPath": str(ROOT), "extraPaths": [str(ROOT)]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable, "uses.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    told = [each for each in json.loads(done.stdout)["generalDiagnostics"] if each["severity"] == "error"]
    assert {each["range"]["start"]["line"] + 1 for each in told} == find_wrong_lines("# wrong$"), told
