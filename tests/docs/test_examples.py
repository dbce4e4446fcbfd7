"""The programs of docs/examples that people start from: each does what it is about, with a scripted model."""

from __future__ import annotations

import ast
import asyncio
import io
import json
import re
import runpy
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import BaseMessage
from pydantic import Field

from agentmem import AgentMemory
from agentmem.core.changes import AuditEntry
from agentmem.core.scope import Scope
from agentmem.models.protocols import LLMRequest
from agentmem.stores.postgres import open_log
from docs.examples import audit, chat, import_chat, langgraph_agent, nightly_worker, two_agents
from tests.conformance.writing import SettableClock
from tests.fakes.http_service import serve
from tests.fakes.llm_servers import KEY, FakeLLMService, anthropic_message
from tests.fakes.scribe import FakeExtractionLLM
from tests.flows.read_turns import LIVES, REPLIES

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "docs/examples"
RUN_ELSEWHERE = {"demo.py": "test_cli_demo.py", "serve.py": "test_serve.py"}
WITHOUT_A_KEY = {"nightly_worker.py": ["none"]}
PEANUTS = "I'm allergic to peanuts."
WHICH = "What am I allergic to?"
FREE_PORT_OF_NOBODY = "bolt://neo4j:unused@127.0.0.1:1"


def has_main(path: Path) -> bool:
    """Whether a file defines `main` at its top level."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    return any(isinstance(node, ast.FunctionDef) and node.name == "main" for node in body)


PROGRAMS = sorted(path.name for path in EXAMPLES.glob("*.py") if has_main(path) and path.name not in RUN_ELSEWHERE)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The memory's folder, as a user's environment names it."""
    monkeypatch.setenv("AGENTMEM_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("AGENTMEM_EMBEDDER", "hash")
    return tmp_path / "home"


def type_lines(monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in lines)))


# -- all


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_starts_from_its_file_without_a_key(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with AgentMemory("alice") as memory:
        memory.store_turn(PEANUTS)
    monkeypatch.setattr(sys, "argv", [name, *WITHOUT_A_KEY.get(name, ())])
    type_lines(monkeypatch, "Hello!", "")
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    assert len(capsys.readouterr().out.splitlines()) > 1


def test_a_program_that_is_run_elsewhere_is_named_there() -> None:
    tests = {name: (ROOT / "tests/surfaces" / test).read_text(encoding="utf-8") for name, test in RUN_ELSEWHERE.items()}
    assert [name for name, text in tests.items() if f"docs.examples.{name.removesuffix('.py')}" not in text] == []


def test_the_page_lists_every_program_with_the_install_line_of_its_docstring() -> None:
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    rows = {line.split("`")[1]: line for line in page.splitlines() if line.startswith("| [`")}
    assert sorted(rows) == PROGRAMS
    for name, row in rows.items():
        (line,) = [line for line in (EXAMPLES / name).read_text().splitlines() if line.startswith("Install:")]
        assert f"`{line.removeprefix('Install:').split('  (')[0].strip()}`" in row


# -- chat


def test_a_later_chat_shows_what_was_said_in_an_earlier_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    type_lines(monkeypatch, PEANUTS)
    chat.main()
    assert "nothing yet" in capsys.readouterr().out
    type_lines(monkeypatch, WHICH)
    chat.main()
    assert PEANUTS in capsys.readouterr().out


@pytest.mark.parametrize("vendor", ["anthropic", "openai"])
def test_the_chat_gives_memory_to_the_model_as_data_and_stores_its_answer(
    vendor: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with AgentMemory("alice") as memory:
        memory.store_turn(PEANUTS)
    type_lines(monkeypatch, WHICH)
    with serve(FakeLLMService()) as service:
        monkeypatch.setenv(f"{vendor.upper()}_API_KEY", KEY)
        monkeypatch.setenv(f"{vendor.upper()}_BASE_URL", service.url)
        chat.main()
    (asked,) = service.requests
    given = json.loads(asked["messages"][-1].pop("content"))
    assert (PEANUTS in given["memory"], given["question"]) == (True, WHICH)
    assert "peanuts" not in json.dumps(asked)
    assert "fine" in capsys.readouterr().out
    with AgentMemory("alice") as memory:
        assert [turn.content for turn in memory.remember(WHICH).turns if turn.role == "assistant"] == ["fine"]


# -- LangGraph


class ListeningModel(GenericFakeChatModel):
    """Answers as scripted, and keeps what it was asked."""

    asked: list[list[BaseMessage]] = Field(default_factory=list)

    def _generate(self, messages: list[BaseMessage], *more: Any, **options: Any) -> Any:
        self.asked.append(messages)
        return super()._generate(messages, *more, **options)


def test_the_graph_recalls_in_one_thread_what_was_said_in_another() -> None:
    model = ListeningModel(messages=iter(["Noted.", "Peanuts."]))
    with AgentMemory("alice") as memory:
        agent = langgraph_agent.build_agent(memory, model)
        agent.invoke({"question": PEANUTS}, {"configurable": {"thread_id": "monday"}})
        done = agent.invoke({"question": WHICH}, {"configurable": {"thread_id": "friday"}})
        stored = memory.episodic.recent_turns()
    assert done["answer"] == "Peanuts."
    assert [turn.content for turn in stored if turn.conversation_id == "friday"] == [WHICH, "Peanuts."]
    rules, question = model.asked[-1]
    assert PEANUTS in json.loads(str(question.content))["memory"]
    assert PEANUTS not in str(rules.content)


# -- two agents


def test_agents_share_the_project_and_keep_what_is_private(capsys: pytest.CaptureFixture[str]) -> None:
    two_agents.main()
    parts = re.split(r"^(?=\w)", capsys.readouterr().out, flags=re.MULTILINE)[1:]
    shown = {part.split()[0]: {line.split()[0] for line in part.splitlines()[1:]} for part in parts}
    assert shown == {
        "planner": {"apollo", "_self_planner", "_swarm"},
        "coder": {"apollo", "_swarm"},
        "writer": {"_swarm"},
    }


# -- the nightly worker


@dataclass
class ReadingService(FakeLLMService):
    """Answers Anthropic's protocol with what a book says about the turns that stand in a request."""

    reader: FakeExtractionLLM = field(default_factory=lambda: FakeExtractionLLM(REPLIES))

    def reply(self, asked: dict[str, Any], answer: Any) -> dict[str, Any]:
        request = LLMRequest("extract", "", asked["messages"][0]["content"])
        return anthropic_message(asyncio.run(self.reader.complete(request)).text)


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> Iterator[ReadingService]:
    """The vendor's service, with a key for it in the environment."""
    with serve(ReadingService()) as service:
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        monkeypatch.setenv("AGENTMEM_LLM_BASE_URL", service.url)
        yield service


def test_the_nightly_worker_reads_the_day_of_all_users_with_the_named_model(
    reader: ReadingService, capsys: pytest.CaptureFixture[str]
) -> None:
    with AgentMemory("bob") as memory:
        memory.store_turn(LIVES)
        nightly_worker.main()
        assert [fact.claim for fact in memory.semantic.facts()] == ["The user lives in Lisbon."]
    assert [asked["model"] for asked in reader.requests] == ["claude-haiku-4-5"]
    assert "consolidate     users 1, calls 1, tokens 150, dollars 0.0002; " in capsys.readouterr().out


def test_the_nightly_worker_asks_no_more_than_its_cap_allows(
    reader: ReadingService, capsys: pytest.CaptureFixture[str]
) -> None:
    with AgentMemory("bob") as memory:
        memory.store_turn(LIVES)
        asyncio.run(nightly_worker.run_night(nightly_worker.MODEL, max_calls=0))
        assert (reader.requests, memory.semantic.facts()) == ([], [])
    assert "stopped early" in capsys.readouterr().out


def test_the_nightly_worker_names_the_key_that_is_missing() -> None:
    with pytest.raises(SystemExit, match="ANTHROPIC_API_KEY"):
        nightly_worker.main()


# -- audit


def read_sections(out: str) -> dict[str, list[list[str]]]:
    """The rows that the program printed, by the question before the colon, without their times."""
    parts = [part.splitlines() for part in out.strip().split("\n\n")]
    return {title.split(":")[0]: [row.strip().split(" | ") for row in rows] for title, *rows in parts}


def test_the_audit_names_who_read_and_erased_by_key(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AGENTMEM_AUDIT_LEVEL", "reads")
    with AgentMemory("alice") as memory:
        phone, desk = memory.scoped(key_id="phone"), memory.scoped(key_id="desk")
        pin = desk.store_turn("My PIN is 4711.")
        phone.remember("PIN")
        desk.forget(pin.id, hard=True)
        phone.remember(WHICH)
    audit.main()
    found = read_sections(capsys.readouterr().out)
    assert [row[1:4] for row in found["Who read what"]] == [["phone", "retrieve", "-"], ["phone", "retrieve", WHICH]]
    assert [row[1:] for row in found["Who erased what"]] == [["desk", "delete", "1", f'["{pin.id}"]']]
    assert [row[:5] for row in found["By which key"]] == [["desk", "3", "0", "1", "0"], ["phone", "0", "2", "0", "0"]]


async def leave_rows(url: str) -> None:
    """Write two rows to the log of a server: a read and an erasure, each by a key."""
    log = await open_log(url, SettableClock())
    try:
        phone, desk = Scope("alice", key_id="phone"), Scope("alice", key_id="desk")
        read = AuditEntry(operation="retrieve", memory_type="recall", scope=phone, query_text=WHICH, result_count=1)
        ids = {"ids": ["t1"]}
        gone = AuditEntry(operation="erase", memory_type="system", scope=desk, metadata=ids, result_count=1)
        await log.write_audit([read, gone])
    finally:
        await log.close()


def test_the_audit_asks_postgres_where_the_settings_name_it(
    postgres_migrated: tuple[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, leave_rows(postgres_migrated[1])).result()
    monkeypatch.setenv("AGENTMEM_LOG_URL", postgres_migrated[0])
    monkeypatch.setenv("AGENTMEM_GRAPH_URL", FREE_PORT_OF_NOBODY)
    audit.main()
    found = read_sections(capsys.readouterr().out)
    assert ["phone", "retrieve", WHICH, "1", "-"] in [row[1:] for row in found["Who read what"]]
    assert ["desk", "erase", "1", '["t1"]'] in [row[1:] for row in found["Who erased what"]]
    assert {"desk", "phone"} <= {row[0] for row in found["By which key"]}


# -- import

CLAUDE_EXPORT = [
    {
        "uuid": "c1",
        "name": "Plans",
        "chat_messages": [
            {"uuid": "h1", "sender": "human", "text": "We go to Porto.", "created_at": "2026-01-05T10:00:00Z"},
            {"uuid": "a1", "sender": "assistant", "text": "", "content": [{"type": "text", "text": "By train?"}]},
        ],
    }
]
PLAIN_LINES = "\n".join(json.dumps({"role": "user", "content": text}) for text in ("We go to Porto.", "By train?"))


def test_the_sample_of_the_import_is_found_and_stored_once(capsys: pytest.CaptureFixture[str]) -> None:
    import_chat.main()
    counts, _, _, *found = capsys.readouterr().out.splitlines()
    assert counts == "2 turns read, 2 of them new"
    assert any("My sister Anna lives in Lisbon." in line for line in found)
    import_chat.main()
    assert "2 turns read, 0 of them new" in capsys.readouterr().out


@pytest.mark.parametrize("text", [json.dumps(CLAUDE_EXPORT), PLAIN_LINES], ids=["of Claude", "lines"])
def test_other_exports_are_imported_too(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "conversations.json"
    file.write_text(text, encoding="utf-8")
    import_chat.main([str(file), "Where do we go?"])
    out = capsys.readouterr().out
    assert ("2 turns read, 2 of them new" in out, "user: We go to Porto." in out, "By train?" in out) == (True,) * 3
