"""Titles of conversations: given with the turn that begins one, and filled in by imports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentmem import AgentMemory, AsyncAgentMemory, Conflict, InvalidRecord
from agentmem.core.telemetry import no_progress
from agentmem.importers.importer import Importer
from tests.unit import chat_exports as exports


def list_titles(memory: AgentMemory) -> dict[str, str]:
    """The titles of all conversations by id."""
    return {each.id: each.title for each in memory.episodic.conversations()}


def test_the_turn_that_begins_a_conversation_names_it(memory: AgentMemory) -> None:
    for title in ("Trip", "Another trip"):
        memory.store_turn({"content": title, "conversation_id": "c", "conversation_title": title})
    memory.store_turn({"role": "user", "content": [{"type": "text", "text": "Hi"}], "conversation_title": "Message"})
    assert sorted(list_titles(memory).values()) == ["Message", "Trip"]
    assert list_titles(memory)["c"] == "Trip"


@pytest.mark.parametrize(
    "given, title",
    [
        ("\tTrip\nto\x1b Turku\u2028now ", "Trip to Turku now"),
        ("t" * 250, "t" * 200),
        ("t" * 199 + " cut", "t" * 199),
        ("half \ud83d", "half \ufffd"),
        (" \u200b\n", ""),
        (None, ""),
    ],
)
def test_a_title_is_one_line_of_at_most_200_characters(memory: AgentMemory, given: str | None, title: str) -> None:
    memory.store_turn({"content": "Hi", "conversation_id": "c", "conversation_title": given})
    assert list_titles(memory) == {"c": title}


@pytest.mark.parametrize("value", [7, ["Trip"], {"title": "Trip"}, b"Trip"])
def test_a_title_that_is_no_text_is_refused_before_anything_is_written(memory: AgentMemory, value: Any) -> None:
    with pytest.raises(InvalidRecord, match=r"turns\[1\]: conversation_title must be text") as caught:
        memory.store_turns(["Hi", {"content": "Hi", "conversation_title": value}])
    assert caught.value.field == "conversation_title"
    with pytest.raises(InvalidRecord) as refused:
        memory.episodic.start_session("s", value)
    assert refused.value.field == "title"
    assert not memory.episodic.conversations()


def test_a_turn_sent_again_with_a_title_is_the_same_turn(memory: AgentMemory) -> None:
    turn = {"content": "Hi", "turn_id": "t", "conversation_id": "c"}
    assert memory.store_turn(turn) == memory.store_turn({**turn, "conversation_title": "Trip"})


def test_a_session_begins_with_its_title(memory: AgentMemory) -> None:
    begun = memory.episodic.start_session("s", "A\ntrip", idempotency_key="k")
    assert begun.title == "A trip"
    assert memory.episodic.start_session("s", "A trip", idempotency_key="k") == begun
    with pytest.raises(Conflict):
        memory.episodic.start_session("s", "Another", idempotency_key="k")
    memory.store_turn({"content": "Hi", "conversation_id": "s", "conversation_title": "Later"})
    assert list_titles(memory) == {"s": "A trip"}


def write_export(folder: Path, **fields: Any) -> Path:
    """ChatGPT's export of one conversation."""
    path = folder / "conversations.json"
    path.write_text(json.dumps([{**exports.CHATGPT[0], **fields}]), encoding="utf-8")
    return path


def test_an_import_names_conversations_once(memory: AgentMemory, tmp_path: Path) -> None:
    path = write_export(tmp_path)
    assert memory.import_file(path).new_turns == 2
    assert list_titles(memory) == {"c-1": "Bakery"}
    again = memory.import_file(path)
    assert (again.new_turns, again.operation_ids) == (0, [])


def test_a_later_import_adds_a_title_that_is_missing_and_changes_none(memory: AgentMemory, tmp_path: Path) -> None:
    memory.import_file(write_export(tmp_path, title=None))
    assert list_titles(memory) == {"c-1": ""}
    report = memory.import_file(write_export(tmp_path))
    assert (report.new_turns, list_titles(memory)) == (0, {"c-1": "Bakery"})
    memory.import_file(write_export(tmp_path, title="Other"))
    assert list_titles(memory) == {"c-1": "Bakery"}
    (operation,) = report.operation_ids
    memory.undo(operation)
    assert list_titles(memory) == {"c-1": ""}


def test_a_later_import_names_no_conversation_of_another_channel(memory: AgentMemory, tmp_path: Path) -> None:
    memory.import_file(write_export(tmp_path, title=None))
    memory.scoped(channel="roof").import_file(write_export(tmp_path))
    assert list_titles(memory) == {"c-1": ""}


async def test_turns_that_come_into_one_conversation_bring_no_title(home: Path, tmp_path: Path) -> None:
    async with AsyncAgentMemory("alice", home=home, embedder="hash") as memory:
        await Importer(conversation="all").import_files(memory, [write_export(tmp_path)], no_progress)
        assert [(each.id, each.title) for each in await memory.episodic.conversations()] == [("all", "")]
