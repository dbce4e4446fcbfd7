"""Anthropic's memory tool over documents: its commands, exact texts, and what a path cannot do."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from anthropic.lib.tools import ToolError
from hypothesis import given, settings
from hypothesis import strategies as st

from agentmem import AgentMemory, AsyncAgentMemory
from agentmem.adapters.anthropic import FILES, AgentMemAsyncMemoryTool, AgentMemMemoryTool, parse_path
from tests.flows.given import STACKS, open_memory, stack_options

Call = Callable[..., Any]


@pytest.fixture(params=STACKS)
def memory(request: pytest.FixtureRequest, home: Path) -> Iterator[AgentMemory]:
    with open_memory(home, **stack_options(request)) as made:
        yield made


@pytest.fixture
def call(memory: AgentMemory) -> Call:
    """Calls the tool as a model does, with the fields of one command."""
    tool = AgentMemMemoryTool(memory)
    return lambda command, **fields: tool.call({"command": command, **fields})


def test_files_are_written_edited_moved_and_deleted(call: Call) -> None:
    assert (
        call("create", path="/memories/a/x.md", file_text="one\ntwo")
        == "File created successfully at: /memories/a/x.md"
    )
    shown = call("str_replace", path="/memories/a/x.md", old_str="two", new_str="2")
    assert shown.endswith("(with line numbers):\n     1\tone\n     2\t2")
    call("insert", path="/memories/a/x.md", insert_line=1, insert_text="between\n")
    text = (
        "Here's the content of /memories/a/x.md with line numbers:\n     1\tone\n     2\tbetween\n     3\t2\n     4\t"
    )
    assert call("view", path="/memories/a/x.md") == text
    assert call("view", path="/memories/a/x.md", view_range=[2, 2]).splitlines()[1:] == ["     2\tbetween"]
    call("create", path="/memories/a/.hidden", file_text="h")
    call("create", path="/memories/b/c/d/deep.md", file_text="d" * 2048)
    assert call("view", path="/memories").splitlines() == [
        "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items:",
        "2.0K\t/memories",
        "15B\t/memories/a/",
        "14B\t/memories/a/x.md",
        "2K\t/memories/b/",
        "2K\t/memories/b/c/",
    ]
    assert (
        call("rename", old_path="/memories/a", new_path="/memories/z/a")
        == "Successfully renamed /memories/a to /memories/z/a"
    )
    assert "between" in call("view", path="/memories/z/a/x.md")
    assert call("delete", path="/memories/z") == "Successfully deleted /memories/z"
    with pytest.raises(ToolError, match="does not exist"):
        call("view", path="/memories/z")


@pytest.mark.parametrize(
    "command, fields, said",
    [
        ("create", {"path": "/memories/x", "file_text": ""}, "File /memories/x already exists"),
        ("create", {"path": "/memories/x/y", "file_text": ""}, "/memories/x is a file"),
        ("create", {"path": "/memories", "file_text": ""}, "already exists"),
        ("create", {"path": "/memories/d", "file_text": ""}, "already exists"),
        ("str_replace", {"path": "/memories/x", "old_str": "b", "new_str": ""}, "did not appear verbatim"),
        (
            "str_replace",
            {"path": "/memories/x", "old_str": "aa", "new_str": ""},
            "occurrences .* in lines: 1, 1, 2",
        ),
        ("str_replace", {"path": "/memories/x", "old_str": "", "new_str": "y"}, "did not appear verbatim"),
        ("str_replace", {"path": "/memories/d", "old_str": "a", "new_str": ""}, "is not a file"),
        ("insert", {"path": "/memories/x", "insert_line": 3, "insert_text": ""}, r"within the range \[0, 2\]"),
        ("insert", {"path": "/memories/n", "insert_line": 0, "insert_text": ""}, "does not exist"),
        ("delete", {"path": "/memories/"}, "Cannot delete the /memories directory itself"),
        ("delete", {"path": "/memories/n"}, "does not exist"),
        ("rename", {"old_path": "/memories/n", "new_path": "/memories/m"}, "does not exist"),
        ("rename", {"old_path": "/memories/x", "new_path": "/memories/d/y"}, "destination .* already exists"),
        ("rename", {"old_path": "/memories/d", "new_path": "/memories/d/e"}, "into itself"),
        ("view", {"path": "/memories/x/../../etc"}, "would escape"),
        ("view", {"path": "/memories/../memories_2/a"}, "would escape"),
        ("view", {"path": "/memoriesX"}, "must start with"),
        ("view", {"path": "/etc/passwd"}, "must start with"),
    ],
)
def test_what_cannot_be_done_says_why_and_changes_nothing(
    home: Path, command: str, fields: dict[str, Any], said: str
) -> None:
    with open_memory(home) as memory:
        tool = AgentMemMemoryTool(memory)
        tool.call({"command": "create", "path": "/memories/x", "file_text": "aaa\naa"})
        tool.call({"command": "create", "path": "/memories/d/y", "file_text": "y"})
        before = memory.documents.read_values(FILES, 10)
        with pytest.raises(ToolError, match=said):
            tool.call({"command": command, **fields})
        assert memory.documents.read_values(FILES, 10) == before


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(["..", ".", "", "a", "memories", "b c", "ü", "%2e%2e", "\\..\\"]), max_size=6))
def test_no_path_leads_out_of_the_tree(parts: list[str]) -> None:
    try:
        name = parse_path("/memories/" + "/".join(parts))
    except ToolError:
        assert ".." in parts
        return
    assert not name.startswith("/")
    assert ".." not in name.split("/")


def test_edits_of_many_at_once_are_all_kept(memory: AgentMemory) -> None:
    AgentMemMemoryTool(memory).call({"command": "create", "path": "/memories/list", "file_text": "0\n"})

    def work(number: int) -> None:
        tool = AgentMemMemoryTool(memory)
        for n in range(4):
            tool.call({"command": "insert", "path": "/memories/list", "insert_line": 0, "insert_text": f"{number}-{n}"})

    threads = [threading.Thread(target=work, args=(number,)) for number in range(5)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    (file,) = memory.documents.read_values(FILES, 10)
    assert sorted(file["text"].split()) == sorted(["0", *(f"{w}-{n}" for w in range(5) for n in range(4))])


def test_what_is_written_is_remembered_learned_and_forgotten(memory: AgentMemory) -> None:
    tool = AgentMemMemoryTool(memory, learn=True)
    text = "# Ann\n- The user lives in Oslo\n- The user has a dog called Rex\nshort"
    tool.call({"command": "create", "path": "/memories/ann.md", "file_text": text})
    assert "lives in Oslo" in memory.remember("Where does the user live?").documents[0].search_text()
    assert [(each.slot, [fact.value for fact in each.current]) for each in memory.beliefs("user", "home")] == [
        ("home", ["Oslo"])
    ]
    tool.call(
        {
            "command": "str_replace",
            "path": "/memories/ann.md",
            "old_str": "- The user has a dog called Rex\n",
            "new_str": "",
        }
    )
    assert [fact.claim for fact in memory.semantic.facts()] == ["The user lives in Oslo"]
    operation = memory.list_records(["Document"])[0].operation_id
    memory.undo(operation)
    assert "Rex" in tool.call({"command": "view", "path": "/memories/ann.md"})
    tool.clear_all_memory()
    assert memory.semantic.facts() == []
    assert not memory.remember("Where does the user live?").documents


async def test_the_same_with_await_and_by_user(home: Path) -> None:
    async with AsyncAgentMemory("ann", home=home, embedder="hash") as memory:
        ann, bob = AgentMemAsyncMemoryTool(memory), AgentMemAsyncMemoryTool(memory.scoped(user_id="bob"))
        assert ann.to_dict()["type"] == "memory_20250818"
        await ann.call({"command": "create", "path": "/memories/x", "file_text": "ann's"})
        await bob.call({"command": "create", "path": "/memories/x", "file_text": "bob's"})
        await ann.call({"command": "delete", "path": "/memories/x"})
        assert "bob's" in await bob.call({"command": "view", "path": "/memories/x"})
