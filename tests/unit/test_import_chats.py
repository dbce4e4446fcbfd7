"""Exports of chat programs: what comes in, what does not and why, with the same ids every time."""

from __future__ import annotations

import json
import zipfile
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmem.errors import InvalidRecord
from agentmem.importers import source as source_module
from agentmem.importers.format import detect_format, load_formats
from agentmem.importers.importer import load_turns
from agentmem.importers.items import ImportedFact
from agentmem.importers.source import list_source_files
from tests.unit import chat_exports as exports
from tests.unit import memory_files as memories
from tests.unit.reading_files import read


def said(items: list[Any]) -> list[tuple[str, str]]:
    """Who said what: the speaker where there is one, else the role."""
    return [(item.get("speaker") or item["role"], item["content"]) for item in items if isinstance(item, dict)]


@pytest.mark.parametrize("name", exports.EXPORTS)
def test_one_format_knows_a_file_and_reads_it_the_same_at_any_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    expected, written = exports.EXPORTS[name]
    whole = read(tmp_path, written, name)
    assert not whole[2]
    source = list_source_files(tmp_path / name)[0]
    assert [each.name for each in load_formats().values() if each.detect(source)][:1] == [expected]
    others = set(load_formats()) - {expected, "messages", "locomo"}
    assert not [each for each in others if load_formats()[each].detect(source)]
    if source.layout == "document":
        monkeypatch.setattr(source_module, "MAX_LINE_BYTES", 64)
    assert read(tmp_path, written, name) == whole
    if whole[0] and expected != "gemini":
        ids = [item["turn_id"] if isinstance(item, dict) else item.id for item in whole[0]]
        assert len(set(ids)) == len(ids)


def test_chatgpt_reads_the_open_branch_with_saved_memories_as_facts(tmp_path: Path) -> None:
    items, left, _ = read(tmp_path, exports.CHATGPT)
    assert said(items) == [("user", "[image]\nA slogan?"), ("assistant", "Warm from the oven")]
    assert [item.claim for item in items if isinstance(item, ImportedFact)] == ["Has a bakery.", "Lives in Turku."]
    assert left == {"hidden message": 1, "message of another branch": 1, "answer of the memory tool": 1}
    assert items[0]["timestamp"] == datetime(2024, 3, 9, 16, 0, 0, 500000, tzinfo=UTC)
    assert items[0]["conversation_id"] == "c-1"
    assert "timestamp" not in items[-1]


@pytest.mark.parametrize("current", [None, "gone"])
def test_chatgpt_without_an_open_node_reads_up_to_the_newest(tmp_path: Path, current: str | None) -> None:
    node = exports.chatgpt_node
    nodes = node("r", None, "Hi", time=1), node("x", "r", "Old", time=2), node("y", "r", "New", time=3)
    assert said(read(tmp_path, exports.chatgpt(*nodes, current=current))[0]) == [("user", "Hi"), ("user", "New")]


def test_chatgpt_reads_one_conversation_by_itself(tmp_path: Path) -> None:
    conversation = exports.CHATGPT[0]
    whole = read(tmp_path, [conversation])[0]
    assert whole
    for indent in (None, 1):
        assert read(tmp_path, json.dumps(conversation, indent=indent))[0] == whole


def test_an_id_with_half_a_character_costs_nothing(tmp_path: Path) -> None:
    node = exports.chatgpt_node
    nodes = node("\ud800", None, "Hi", time=1), node("\ud801", "\ud800", "New", time=2)
    items, _, errors = read(tmp_path, exports.chatgpt(*nodes, current=None))
    assert (said(items), errors) == ([("user", "Hi"), ("user", "New")], [])
    assert items[0]["turn_id"] != items[1]["turn_id"]


def test_chatgpt_ends_a_circle_of_parents(tmp_path: Path) -> None:
    nodes = exports.chatgpt_node("a", "b", "One"), exports.chatgpt_node("b", "a", "Two")
    assert said(read(tmp_path, exports.chatgpt(*nodes, current="b"))[0]) == [("user", "One"), ("user", "Two")]


@pytest.mark.parametrize("field", exports.WRONG)
def test_a_wrong_message_is_named_and_costs_no_other(tmp_path: Path, field: str) -> None:
    items, _, errors = read(tmp_path, exports.WRONG[field])
    assert items
    assert len(errors) == 1
    assert field in errors[0]


def test_claude_reads_attachments_and_tools_for_the_owner(tmp_path: Path) -> None:
    items, left, _ = read(tmp_path, exports.CLAUDE)
    assert said(items) == [
        ("user", "What do I pack?\n[file list.txt]\nThe red tent.\n[file map.png]"),
        ("assistant", '[calls weather {"city": "Turku"}]\n[weather returned] Rain\nA coat.'),
    ]
    assert left == {"message without text": 1}
    assert items[0]["timestamp"].isoformat() == "2025-03-01T10:00:00.250000+02:00"
    assert {item["owner"] for item in items} == {"acc-1"}


def test_claude_memories_are_facts_and_projects_are_left_out(tmp_path: Path) -> None:
    items, _, _ = read(tmp_path, exports.CLAUDE_MEMORIES)
    assert [item.claim for item in items] == ["Bakes bread.", "Has a dog.", "The site is in Rust."]
    assert {item.owner for item in items} == {"acc-1"}
    assert read(tmp_path, exports.CLAUDE_PROJECTS)[1] == {"project": 1}


def test_gemini_reads_each_day_in_its_order(tmp_path: Path) -> None:
    items, left, _ = read(tmp_path, exports.GEMINI)
    assert said(items) == [
        ("user", "Warum Regen?\n[file sky.png]"),
        ("assistant", "Two reasons:\n- clouds\n- cold"),
        ("user", "And at sea?"),
        ("assistant", "Salt & wind."),
        ("user", "Hello"),
    ]
    assert left == {"activity that is not a prompt": 1}
    assert len({item["conversation_id"] for item in items}) == 2
    assert len({item["turn_id"] for item in items}) == 5


@pytest.mark.parametrize("indent", [None, 1])
def test_gemini_reads_files_of_ai_studio(tmp_path: Path, indent: int | None) -> None:
    items, left, _ = read(tmp_path, json.dumps(exports.AI_STUDIO, indent=indent))
    assert said(items) == [("user", "[image]"), ("user", "What is this?"), ("assistant", "A heron.")]
    assert left == {"reasoning of the model": 1}


def test_claude_code_reads_what_was_said_and_called(tmp_path: Path) -> None:
    items, left, _ = read(tmp_path, "\n".join(map(json.dumps, exports.CLAUDE_CODE)))
    assert said(items) == [
        ("user", "Run the tests"),
        ("assistant", '[calls Bash {"command": "make"}]'),
        ("tool", "[Bash returned] 3 passed"),
    ]
    assert {item["conversation_id"] for item in items} == {"s-1"}
    assert left == {
        "entry of the program": 2,
        "message without text": 1,
        "message of the program": 2,
        "message of a subagent": 1,
        "summary of earlier messages": 1,
    }


def test_claude_code_names_a_session_by_its_file_where_no_line_does(tmp_path: Path) -> None:
    lines = [{name: value for name, value in entry.items() if name != "sessionId"} for entry in exports.CLAUDE_CODE]
    items, _, errors = read(tmp_path, "\n".join(map(json.dumps, lines)), "s-9.jsonl")
    assert not errors
    assert {item["conversation_id"] for item in items} == {"s-9"}


def test_whatsapp_reads_a_chat_of_android(tmp_path: Path) -> None:
    items, left, _ = read(tmp_path, exports.ANDROID, "chat.txt")
    assert said(items) == [
        ("Ana Maria", "Are you coming?\nI have <3 cake."),
        ("Ben", "ok"),
        ("Ben", "ok"),
        ("Ben", "[media]"),
        ("Ben", "[file IMG-1.jpg]\nSo sweet"),
    ]
    assert items[0]["timestamp"] == datetime(2023, 12, 31, 21, 15, tzinfo=UTC)
    assert items[3]["timestamp"] == datetime(2024, 1, 1, 0, 5, tzinfo=UTC)
    assert left == {"message of the program": 2, "deleted message": 1}


def test_whatsapp_reads_a_chat_of_ios(tmp_path: Path) -> None:
    items, left, _ = read(tmp_path, exports.IOS, "_chat.txt")
    assert said(items) == [("Jörg", "Kommst du um 9?"), ("Ana", "[image]"), ("Ana", "[file 0001-PHOTO.jpg]")]
    assert items[0]["timestamp"] == datetime(2023, 12, 3, 21, 15, 4, tzinfo=UTC)
    assert left == {"message of the program": 1}


@pytest.mark.parametrize(
    "head, expected",
    [
        ("3/4/23, 9:15 PM - ", "2023-04-03T21:15"),  # the second line has a 13th day
        ("3/4/23, 9:15 PM - ", "2023-03-04T21:15"),
        ("3/4/2023, 21:15 - ", "2023-04-03T21:15"),
        ("3/4/23, 9:15 pm - ", "2023-04-03T21:15"),
        ("3/4/2023 à 21:15 - ", "2023-04-03T21:15"),
        ("3/4/23 9:15 p. m. - ", "2023-04-03T21:15"),
        ("[3/4/23, 9:15:00\u202fAM] ", "2023-03-04T09:15"),
        ("2023/4/3 下午9:15 - ", "2023-04-03T21:15"),
        ("\u200f3\u200f/4\u200f/2023, 21:15 - ", "2023-04-03T21:15"),
        ("03.04.23, 21.15 - ", "2023-04-03T21:15"),
        ("[2023-04-03, 21:15:00] ", "2023-04-03T21:15"),
    ],
)
def test_whatsapp_reads_times_as_phones_write_them(
    tmp_path: Path, request: pytest.FixtureRequest, head: str, expected: str
) -> None:
    more = "13/4/23, 9:16 PM - Ana: Bye\n" if expected == "2023-04-03T21:15" and "9:15 PM" in head else ""
    items, _, errors = read(tmp_path, f"{head}Ana: Hi\n{more}", "chat.txt")
    assert not errors
    assert items[0]["timestamp"].isoformat().startswith(expected)


def test_whatsapp_names_turns_by_what_they_say_so_that_a_chat_can_grow(tmp_path: Path) -> None:
    before = read(tmp_path, exports.ANDROID, "a.txt")[0]
    after = read(tmp_path, exports.ANDROID + "1/1/24, 9:00\u202fAM - Ben: Bye\n", "b.txt")[0]
    assert after[:-1] == before


@pytest.mark.parametrize(
    "written",
    [
        "2023-12-31 21:15:03,123 - root: started\n",
        "[2023-12-31 21:15:03] local.ERROR: failed\n",
        "Dear Ana,\n12/31/23, 9:15 PM - Ben: quoted\n",
        "12/31/23, 9:15 PM - no sender\n",
    ],
)
def test_whatsapp_is_not_a_log_or_a_letter(tmp_path: Path, written: str) -> None:
    (tmp_path / "a.txt").write_text(written)
    assert detect_format(list_source_files(tmp_path / "a.txt")[0]) is None


def test_telegram_reads_a_chat(tmp_path: Path) -> None:
    items, left, _ = read(tmp_path, exports.TELEGRAM)
    assert said(items) == [
        ("Ana", "[forwarded from Cleo]\nSee this!"),
        ("Ana", "[voice message]"),
        ("user7", "[image]\nLook"),
    ]
    assert items[0]["timestamp"] == datetime(2024, 2, 1, 11, tzinfo=UTC)
    assert items[1]["metadata"] == {"reply_to": items[0]["turn_id"]}
    assert left == {"service message": 1, "message without text": 1}


def test_telegram_reads_all_chats_of_an_account(tmp_path: Path) -> None:
    items, _, _ = read(tmp_path, exports.TELEGRAM_ACCOUNT)
    assert Counter(item["conversation_id"] for item in items) == {"telegram-77": 3, "telegram-78": 3}


@pytest.mark.parametrize("written", [exports.LIBRECHAT, exports.LIBRECHAT_TREE])
def test_librechat_reads_the_newest_branch_of_a_list_or_a_tree(tmp_path: Path, written: Any) -> None:
    items, left, _ = read(tmp_path, written)
    assert said(items) == [
        ("user", "Which tea?\n[file a.pdf]"),
        ("assistant", '[calls search {"q": "tea"}]\n[search returned] Assam\nAssam, then.'),
    ]
    assert items[0]["conversation_id"] == "lc-1"
    assert items[1]["timestamp"] - items[0]["timestamp"] == timedelta(minutes=2)
    assert left == {"message of another branch": 1}


def test_open_webui_reads_the_open_branch_for_its_owner(tmp_path: Path) -> None:
    items, left, _ = read(tmp_path, exports.OPEN_WEBUI)
    assert said(items) == [("user", "Tea?"), ("assistant", "[calls web]\nYes\n[image]")]
    assert {item["owner"] for item in items} == {"bo"}
    assert items[0]["timestamp"] == datetime(2024, 2, 1, 11, tzinfo=UTC)
    assert left == {"message of another branch": 1}


TITLES: dict[str, tuple[Any, str]] = {  # what the file is called and holds, and the title
    "conversations-000.json": (exports.CHATGPT, "Bakery"),
    "conversations.json": (exports.CLAUDE, "Trip"),
    "Heron.json": (exports.AI_STUDIO, "Heron"),
    "Dr. Heron": (exports.AI_STUDIO, "Dr. Heron"),
    "0-stdin": (exports.AI_STUDIO, ""),
    "MyActivity.json": (exports.GEMINI, ""),
    "WhatsApp Chat with Ana Maria.txt": (exports.ANDROID, "Ana Maria"),
    "WhatsApp Chat with Ana (2).txt": (exports.ANDROID, "Ana"),
    "WhatsApp-Chat mit Kuchen.txt": (exports.IOS, "Kuchen"),
    "_chat.txt": (exports.IOS, ""),
    "result.json": (exports.TELEGRAM, "Ana"),
    "account.json": (exports.TELEGRAM_ACCOUNT, "Ana"),
    "tea.json": (exports.LIBRECHAT, "Tea"),
    "tree.json": (exports.LIBRECHAT_TREE, ""),
    "chats.json": (exports.OPEN_WEBUI, "Tea"),
    "Iris.af": (memories.LETTA_OLD, "Iris"),
    "new.af": (memories.LETTA_NEW, "Iris"),
    "Pour over.md": (memories.NOTE, "Pour over"),
    "turns.jsonl": ('{"role": "user", "content": "Hi", "conversation_title": "Talk"}', "Talk"),
    "list.json": ({"title": "Talk", "messages": [{"role": "user", "content": "Hi"}]}, "Talk"),
}


@pytest.mark.parametrize("name", TITLES)
def test_the_turns_of_a_conversation_have_the_title_that_a_file_gives_it(tmp_path: Path, name: str) -> None:
    written, title = TITLES[name]
    found = {item.get("conversation_title", "") for item in read(tmp_path, written, name)[0] if isinstance(item, dict)}
    assert found == {title}


@pytest.mark.parametrize("title", ["New chat", "Untitled", "", None, 7, ["Bakery"]])
def test_a_placeholder_or_another_value_than_text_is_no_title(tmp_path: Path, title: Any) -> None:
    items, _, errors = read(tmp_path, [{**exports.CHATGPT[0], "title": title}])
    assert not errors
    assert not [item for item in items if isinstance(item, dict) and "conversation_title" in item]


def test_a_chat_of_ios_has_the_title_of_its_archive(tmp_path: Path) -> None:
    path = tmp_path / "WhatsApp Chat - Ana Maria.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("_chat.txt", exports.IOS)
    assert {turn["conversation_title"] for turn in load_turns(path)} == {"Ana Maria"}


def test_a_group_of_graphiti_names_its_conversation_and_a_thread_has_no_name(tmp_path: Path) -> None:
    turns = [item for item in read(tmp_path, memories.GRAPHITI)[0] if isinstance(item, dict)]
    assert {item["conversation_id"]: item.get("conversation_title") for item in turns} == {"alice": "alice", "t": None}


def test_an_archive_of_chatgpt_holds_other_files_too(tmp_path: Path) -> None:
    others = {
        "chat.html": "<html><head><title>ChatGPT Data Export</title></head></html>",
        "user.json": '{"id": "user-1", "email": "a@b.example", "chatgpt_plus_user": true}',
        "shared_conversations.json": '[{"id": "s", "conversation_id": "c", "title": "Bakery", "is_anonymous": true}]',
    }
    with zipfile.ZipFile(tmp_path / "export.zip", "w") as archive:
        for name, written in {**others, "conversations-000.json": json.dumps(exports.CHATGPT)}.items():
            archive.writestr(name, written)
    known = {each.name: detect_format(each) for each in list_source_files(tmp_path / "export.zip")}
    assert {name: each.name for name, each in known.items() if each} == {"conversations-000.json": "chatgpt"}


ODD: tuple[Any, ...] = (None, True, 0, -1.5, 10**400, "", " ", "\ud800", "2025-13-01", [], [[]], {}, {"type": []})


@given(st.data(), st.sampled_from(sorted(name for name in exports.EXPORTS if not name.endswith(".txt"))))
def test_any_odd_value_gives_turns_or_errors_with_a_place(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, name: str
) -> None:
    chosen, written = exports.EXPORTS[name]
    documents = (
        [json.loads(line) for line in written.splitlines()] if chosen == "claude_code" else [json.loads(written)]
    )
    holder: Any = documents
    while True:
        key = data.draw(st.sampled_from(sorted(holder) if isinstance(holder, dict) else range(len(holder))))
        if not (isinstance(holder[key], dict | list) and holder[key] and data.draw(st.booleans())):
            break
        holder = holder[key]
    holder[key] = data.draw(st.sampled_from(ODD) | st.text())
    path = tmp_path_factory.getbasetemp() / "odd.json"
    path.write_text("\n".join(map(json.dumps, documents)), encoding="utf-8")
    errors: list[InvalidRecord] = []
    for item in load_formats()[chosen].read(list_source_files(path)[0], errors.append):
        if isinstance(item, dict):
            assert item["content"].strip()
            assert 0 < len(item["turn_id"] if chosen != "gemini" else "1") <= 200
    assert all(str(error).startswith("odd.json") and error.field for error in errors)
