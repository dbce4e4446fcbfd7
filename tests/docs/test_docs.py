"""The documents are kept true: their code runs, and the tests they name exist."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from agentmem.text.templates import load_templates
from docs.examples.picture import draw, run_demo
from tests.servers.stack import Stack

ROOT = Path(__file__).resolve().parents[2]


# A block of text right after a program of these pages is what it prints.
EXACT = ("README.md", "docs/quickstart.md", "docs/adapters/adk.md", "docs/adapters/mem0.md")
PYTHON = re.compile(r"^```python\n(.*?)^```(?:\n\n```text\n(.*?)^```)?", re.MULTILINE | re.DOTALL)
PAGES = [
    "README.md",
    "docs/quickstart.md",
    "docs/extraction.md",
    "docs/rules.md",
    "docs/working.md",
    "docs/goals.md",
    "docs/procedural.md",
    "docs/schedules.md",
    "docs/swarm.md",
    "docs/lifecycle.md",
    "docs/context.md",
    "docs/monitoring.md",
    "docs/beliefs.md",
    "docs/documents.md",
    "docs/adapters/anthropic.md",
    "docs/adapters/langgraph.md",
    "docs/adapters/openai-agents.md",
    "docs/adapters/pydantic-ai.md",
    "docs/adapters/llama-index.md",
    "docs/adapters/adk.md",
    "docs/adapters/mem0.md",
]
BLOCKS = [
    (page, number, code, shown if page in EXACT else "")
    for page in PAGES
    for number, (code, shown) in enumerate(PYTHON.findall((ROOT / page).read_text()))
]
EMBEDDED = [block for block in BLOCKS if "log_url" not in block[2]]
ON_SERVERS = [block for block in BLOCKS if block not in EMBEDDED]
NAMED = sorted(
    {name for page in (ROOT / "docs").rglob("*.md") for name in re.findall(r"`(test_\w+)`", page.read_text())}
)


def names(blocks: list[tuple[str, int, str, str]]) -> list[str]:
    return [f"{page}-{number}" for page, number, _, _ in blocks]


# Runs each block in a folder of its own, and all in one process: to start one takes longer than most blocks.
RUNNER = """
import contextlib, io, json, os, sys, traceback
failed = 0
for page, number, code, shown in json.load(sys.stdin):
    os.makedirs(folder := f"{sys.argv[1]}/{page}/{number}")
    os.chdir(folder)
    os.environ["AGENTMEM_HOME"] = f"{sys.argv[1]}/{page}/home"  # as typed from top to bottom
    try:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(code, f"{page}, block {number}", "exec"), {"__name__": "__main__"})
        if shown and shown != printed.getvalue():
            raise AssertionError(f"{page}, block {number} prints:\\n{printed.getvalue()}")
    except BaseException:
        traceback.print_exc()
        failed += 1
sys.exit(failed)
"""


def test_code_in_documents_runs(tmp_path: Path) -> None:
    assert {page for page, _, _, _ in EMBEDDED} == set(PAGES)
    command = [sys.executable, "-c", RUNNER, str(tmp_path)]
    run = subprocess.run(command, input=json.dumps(EMBEDDED), capture_output=True, text=True, timeout=180)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("page,number,code,shown", ON_SERVERS, ids=names(ON_SERVERS))
def test_code_in_documents_runs_on_servers(
    page: str, number: int, code: str, shown: str, tmp_path: Path, stack: Stack
) -> None:
    for name, url in stack.urls.items():
        code, changed = re.subn(f'"{name}": "[^"]+"', f'"{name}": "{url}"', code)
        assert changed == 1
    code = "from agentmem import AgentMemory\n" + code.replace('"alice"', repr(stack.user()))  # as the page began
    run = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (run.returncode, "peanuts" in run.stdout) == (0, True), f"{page}, block {number}:\n{run.stderr}"


def test_tests_that_documents_name_exist() -> None:
    texts = (path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    known = {name for text in texts for name in re.findall(r"^(?:async )?def (test_\w+)\(", text, re.MULTILINE)}
    assert len(NAMED) > 100
    assert set(NAMED) - known == set()


def test_the_picture_of_the_readme_shows_what_the_demo_prints() -> None:
    assert (ROOT / "docs/pictures/demo.svg").read_text(encoding="utf-8") == draw(run_demo()), "run: make picture"


@pytest.mark.parametrize("prompt", ["extract.md", "extract_agent.md"])
def test_the_prompts_that_are_shown_are_those_that_are_sent(prompt: str) -> None:
    sent = load_templates("agentmem.extraction", prompt)["system"]
    assert f"```text\n{sent}\n```" in (ROOT / "docs/extraction.md").read_text()


def test_every_promise_has_a_guard() -> None:
    text = (ROOT / "docs/decisions.md").read_text().split("## Choices")[0]
    rows = [line for line in text.splitlines() if line.startswith("| **")]
    assert len(rows) >= 12
    assert all("`test_" in row for row in rows)


def anchors(page: Path) -> set[str]:
    """Where links into a page may lead: its headings, as forges write them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def test_links_between_documents_lead_somewhere() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]+))?\)", page.read_text()):
            there = page.parent / target if target else page
            assert there.exists(), f"{page}: {target}"
            assert not anchor or anchor in anchors(there), f"{page}: {target}#{anchor}"


def test_extras_that_texts_name_exist() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").rglob("*.py")]
    pages += [*(ROOT / "agentmem").rglob("*.py"), *(ROOT / "docker").rglob("*.*")]
    named = {
        extra.strip()
        for page in pages
        for extras in re.findall(r"agentmem-graph\[([a-z0-9, -]+)\]", page.read_text(encoding="utf-8"))
        for extra in extras.split(",")
    }
    assert {"local", "worker", "server"} <= named <= set(project["optional-dependencies"])
