"""Stored text that tries to command a terminal: whatever lists it, nothing but our own styles gets through."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from agentmem import AgentMemory

EVIL = "a\x1b[2J\x1b]0;own\x07\x9b31m\x85\u202etxt.exe\u2066\u200b\u2028\U000e0041\rz"
OWN_STYLE = re.compile("\x1b\\[(?:0|1|2|3[1-7])m")
HARMFUL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200b\u2028\u2029\U000e0000-\U000e007f]")


def fill(home: Path) -> dict[str, str]:
    """A memory with the text in each field that takes it; ids by kind."""
    with AgentMemory("default", home=home, embedder="hash") as memory:
        said = {"content": EVIL, "speaker": "Ann\u202e", "turn_id": "t", "metadata": {EVIL: EVIL}}
        turn = memory.store_turn(said)
        fact = memory.learn_fact(
            EVIL, tags=[EVIL], source_turn_ids=["t"], source=EVIL, subject="Ann", slot="home", value=EVIL
        )
        entity = memory.upsert_entity({"name": EVIL, "type": "x\u202ey", "aliases": [EVIL], "description": EVIL})
        goal = memory.add_goal({"description": EVIL})
        memory.goals.record_progress(goal.id, 0.5, EVIL)
        memory.procedural.learn_strategy(EVIL, tool_sequence=["tool\u202e"], task_type="x\u202ey")
        memory.procedural.record_invocation("tool\u202e", EVIL, EVIL, error_message=EVIL, success=False)
        memory.procedural.stage_candidate(EVIL, trigger=EVIL)
        memory.schedules.add("daily\u202e", "0 8 * * *", EVIL)
        memory.update_profile(preferences={EVIL: EVIL}, expertise_areas=[EVIL])
        memory.remember(EVIL)
        return {
            "turn": turn.id,
            "fact": fact.id,
            "entity": entity.id,
            "goal": goal.id,
            "conversation": turn.conversation_id,
        }


COMMANDS = [
    "facts",
    "facts --all",
    "facts --history {fact}",
    "beliefs",
    "turns",
    "turns --conversation {conversation}",
    "show {fact}",
    "show {entity}",
    "remember txt.exe",
    "context txt.exe",
    "goals list",
    "schedules list",
    "procedures list",
    "tools",
    "reviews list",
    "audit",
    "stats",
    "admin doctor",
    "users",
    "jobs",
    "curate queue",
    "curate clusters",
    "consolidate --dry-run",
]


@pytest.fixture
def ids(home: Path) -> dict[str, str]:
    return fill(home)


@pytest.mark.parametrize("line", COMMANDS)
def test_no_command_lets_stored_text_command_the_terminal(cli: Any, ids: dict[str, str], line: str) -> None:
    for color in (True, False):
        result = cli.run(*line.format(**ids).split(), color=color)
        assert result.exit_code == 0, result.output
        assert not HARMFUL.search(OWN_STYLE.sub("", result.stdout + result.stderr))
    shown = cli.run(*line.format(**ids).split(), "--json").stdout
    assert not HARMFUL.search(shown)


def test_an_export_on_a_terminal_says_the_same_without_harm(cli: Any, other_home: Any, ids: dict[str, str]) -> None:
    written = cli("export")
    assert not HARMFUL.search(written)
    assert EVIL in {
        version["record"].get("claim")
        for line in map(json.loads, written.splitlines())
        for version in line.get("versions", ())
        if version["record"]
    }
