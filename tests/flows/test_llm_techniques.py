"""Recall with a language model behind it, from the settings to the receipt: a program that answers, fails or hangs."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from agentmem import AgentMemory, ModelUnavailable
from agentmem.recall.bundle import MemoryBundle
from tests.flows.given import ManualClock, open_memory, visible_content

LINES = [
    "I keep a cello beside the window.",
    "Chess is what Sundays are for.",
    "The train to Leeds was late.",
    "It rained.",
]
QUERY = "What is my hobby, and what do I own?"
TECHNIQUES = ("decompose", "expansion", "hyde", "self_query")
ALL = {name: {"enabled": True} for name in TECHNIQUES}
REPLIES = {
    "hyde": {"sentence": "You own a cello that stands beside the window."},
    "expansion": {"statements": ["Somebody plays chess.", "Somebody owns a cello."]},
    "decompose": {"parts": ["Who plays chess on Sundays?", "Who keeps a cello?"]},
    "self_query": {
        "first_day": None,
        "last_day": None,
        "kinds": ["turn"],
        "entities": [],
        "keywords": ["cello", "chess"],
    },
}
PROGRAM = """
import json, sys, time
from pathlib import Path
asked = json.load(sys.stdin)
with Path({log!r}).open("a") as log:
    log.write(json.dumps(asked) + "\\n")
{before}
print(json.dumps({replies!r}[asked["purpose"]]))
"""


class Program:
    """A program as a language model, and what it was asked."""

    def __init__(self, folder: Path, before: str = "") -> None:
        self.log, path = folder / "asked.jsonl", folder / "answer.py"
        path.write_text(PROGRAM.format(log=str(self.log), replies=REPLIES, before=before))
        self.spec = f"command:{shlex.join([sys.executable, str(path)])}"

    def asked(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []


def told(home: Path, **more: Any) -> AgentMemory:
    memory = open_memory(home, **more)
    memory.store_turns([{"role": "user", "content": line, "turn_id": line} for line in LINES])
    return memory


def recalled(memory: AgentMemory, **more: Any) -> MemoryBundle:
    return memory.remember(QUERY, reinforce=False, **more)


def test_a_program_behind_the_settings_serves_every_technique(home: Path, tmp_path: Path) -> None:
    program = Program(tmp_path)
    with told(home, llm=program.spec, recall=ALL, seed=7, clock=ManualClock(), audit_level="reads") as memory:
        bundle = recalled(memory)
        assert bundle.notices == ()
        assert {"hyde", "expansion", "parts", "keywords"} <= set(bundle.receipt.pool.list_names)
        assert {turn.content for turn in bundle.turns[:2]} == set(LINES[:2])
        assert sorted(asked["purpose"] for asked in program.asked()) == sorted(TECHNIQUES)
        assert not any(line in json.dumps(program.asked()) for line in LINES)  # only the question leaves the memory
        (row,) = memory.audit.query(operation="retrieve")
        assert {name for name, _, error in json.loads(json.dumps(row["metadata"]))["trace"] if not error} >= {
            *TECHNIQUES
        }
        recalled(memory)
        memory.context(QUERY)
        assert len(program.asked()) == 4  # the same question is not asked again


def test_a_model_for_recall_alone_is_enough(home: Path, tmp_path: Path) -> None:
    program = Program(tmp_path)
    with told(home, recall_llm=program.spec, recall={"hyde": {"enabled": True}}, seed=7) as memory:
        assert "hyde" in recalled(memory).receipt.pool.list_names
        assert [asked["purpose"] for asked in program.asked()] == ["hyde"]


def test_a_model_that_is_set_costs_nothing_until_a_technique_is_switched_on(home: Path, tmp_path: Path) -> None:
    program, clock = Program(tmp_path), ManualClock()
    with told(home, seed=7, clock=clock) as memory:
        plain = visible_content(recalled(memory))
    with open_memory(home, seed=7, clock=clock, llm=program.spec) as memory:
        again = visible_content(recalled(memory))
    for receipt in (plain[-1], again[-1]):
        receipt.pop("settings")  # a digest of them
    assert again == plain
    assert program.asked() == []


def test_without_a_model_one_notice_says_what_to_set(home: Path) -> None:
    with told(home, recall=ALL) as memory:
        bundle = recalled(memory)
        (notice,) = bundle.notices
        assert notice.startswith("Recalled without expansion, hyde, self_query: needs a language model: set llm")
        assert len(bundle.turns) == len(LINES)


@pytest.mark.parametrize(
    "before, said",
    [("sys.exit('out of order')", "ModelUnavailable: "), ("print('no JSON'); sys.exit()", "InvalidModelOutput: ")],
)
def test_a_program_that_fails_costs_notices_only(home: Path, tmp_path: Path, before: str, said: str) -> None:
    clock = ManualClock()
    with told(home, seed=7, clock=clock) as memory:
        plain = recalled(memory)
    with open_memory(home, llm=Program(tmp_path, before).spec, recall=ALL, seed=7, clock=clock) as memory:
        bundle = recalled(memory)
        assert [(item.record.id, item.score) for item in bundle.items] == [
            (item.record.id, item.score) for item in plain.items
        ]
        errors = {line.technique: line.error for line in bundle.receipt.trace}
        assert all(errors[name].startswith(said) for name in TECHNIQUES)
        assert sum(name in notice for name in TECHNIQUES for notice in bundle.notices) >= 4
        with pytest.raises(Exception, match="command") as caught:
            recalled(memory, techniques=["hyde"])
        assert type(caught.value).__name__ == said.removesuffix(": ")


def test_a_program_that_hangs_is_not_waited_for(home: Path, tmp_path: Path) -> None:
    hurried = {"hyde": {"enabled": True, "deadline": 0.5}}
    with told(home, llm=Program(tmp_path, "time.sleep(60)").spec, recall=hurried) as memory:
        bundle = recalled(memory)
        assert bundle.notices == ("Recalled without hyde: no answer within 0.5 s",)
        assert len(bundle.turns) == len(LINES)
        with pytest.raises(ModelUnavailable, match="left alone"):
            recalled(memory, techniques=["hyde"])


def test_what_a_model_said_reaches_no_record(home: Path, tmp_path: Path) -> None:
    with told(home, llm=Program(tmp_path).spec, recall=ALL, seed=7) as memory:
        bundle = recalled(memory)
        memory.flush()
        everything = f"{bundle} {[item.record for item in bundle.items]} {memory.semantic.facts()}"
        assert "stands beside the window" not in everything
        assert memory.semantic.facts() == []
