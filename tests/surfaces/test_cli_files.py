"""Import and export: every kind of file, twice, broken, from a pipe; and the way out and in again."""

from __future__ import annotations

import json
import os
import re
import threading
from pathlib import Path
from typing import Any

import pytest

from agentmem.importers import importer
from tests.unit.chat_exports import CHATGPT

DEMO = Path(__file__).parents[2] / "docs" / "examples" / "demo_conversation.jsonl"


def write(path: Path, *values: Any) -> str:
    path.write_text("".join(f"{json.dumps(value)}\n" for value in values), encoding="utf-8")
    return str(path)


def test_turns_are_imported_once(cli: Any) -> None:
    first = cli.json("import", str(DEMO))
    assert {name: first[name] for name in ("files", "turns", "new_turns", "skipped")} == {
        "files": 1,
        "turns": 60,
        "new_turns": 60,
        "skipped": 0,
    }
    assert len(first["operation_ids"]) == 1
    assert cli("import", str(DEMO)).startswith("0 turns stored (60 were there); 1 file (messages), 3 conversations, ")
    assert "s1-10" in cli("remember", "who is allergic to peanuts?")


def test_a_long_file_is_stored_in_batches(cli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importer, "BATCH_SIZE", 7)
    path = write(tmp_path / "long.jsonl", *({"role": "user", "content": f"Line {n}."} for n in range(30)))
    assert cli.json("import", path)["new_turns"] == 30
    turns = cli.json("remember", "Line 29", "--top-k", "1")["turns"]
    assert turns[0]["index"] == 29


def test_message_lists_and_dialogues_are_understood(cli: Any, tmp_path: Path) -> None:
    chat = {
        "messages": [{"role": "user", "content": "My train is at nine."}, {"role": "assistant", "content": "Noted."}]
    }
    dialogue = {
        "id": "d1",
        "turns": [
            {"dia_id": "D1:1", "session": 1, "speaker": "Ada", "timestamp": "2024-01-02T10:00:00", "text": "Hello!"}
        ],
        "qa": [],
    }
    paths = [write(tmp_path / "chat.json", chat), write(tmp_path / "locomo.json", {"conversations": [dialogue]})]
    found = cli.json("import", *paths)
    assert (found["files"], found["new_turns"]) == (2, 3)
    assert cli.json("remember", "train")["items"][0]["record"]["content"] == "My train is at nine."
    assert cli.json("remember", "Hello")["items"][0]["record"]["id"] == "d1/D1:1"


def test_turns_can_be_put_into_one_conversation(cli: Any, tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", {"role": "user", "content": "One.", "conversation_id": "x"})
    cli("import", path, "--conversation", "mine")
    assert cli.json("remember", "One")["items"][0]["record"]["conversation_id"] == "mine"


def test_a_mistake_anywhere_stores_nothing(cli: Any, tmp_path: Path) -> None:
    good = write(tmp_path / "good.jsonl", {"role": "user", "content": "Kept out too."})
    bad = write(tmp_path / "bad.jsonl", {"role": "user", "content": "Fine."}, {"role": "user", "contents": "?"})
    result = cli.run("import", good, bad)
    assert result.exit_code == 2
    assert "bad.jsonl:2" in result.stderr
    assert cli("remember", "Fine or kept out") == "nothing found\n"


def test_mistakes_can_be_skipped(cli: Any, tmp_path: Path) -> None:
    turns: list[Any] = [
        {"role": "user", "content": "Fine.", "turn_id": "t1"},
        {"role": "user", "contents": "?"},
        {"role": "user", "content": "Not what t1 said.", "turn_id": "t1"},
        {"role": "user", "content": "Fine too.", "turn_id": "t2"},
    ]
    result = cli.run("import", write(tmp_path / "mixed.jsonl", *turns), "--skip-errors", "--json")
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert (found["new_turns"], found["skipped"]) == (2, 2)
    assert result.stderr.count("agentmem: skipped: ") == 2
    assert "mixed.jsonl:2" in result.stderr
    assert "2 skipped" in cli("import", str(tmp_path / "mixed.jsonl"), "--skip-errors")


def test_imported_turns_are_trusted_less_than_spoken_ones(cli: Any, tmp_path: Path) -> None:
    spoken = [{"role": "user", "content": "I'm allergic to peanuts.", "turn_id": "t1", "conversation_id": "x"}]
    own = {"role": "user", "content": "I work at Lumen.", "turn_id": "t2", "metadata": {"imported": False, "page": 3}}
    path = write(tmp_path / "a.jsonl", *spoken, own)
    cli("import", path)
    cli("consolidate")
    facts = [json.loads(line) for line in cli("facts", "--json").splitlines()]
    assert {fact["source_turn_ids"][0]: fact["trust"] for fact in facts} == {"t1": 0.9, "t2": 1.0}
    assert cli.json("remember", "Lumen")["turns"][0]["metadata"] == {"imported": False, "page": 3}


def test_standard_input_and_pipes_are_files_too(cli: Any, tmp_path: Path) -> None:
    line = json.dumps({"role": "user", "content": "Über Nacht fiel Schnee."})
    assert cli("import", "-", stdin=line.encode()).startswith("1 turn stored; 1 file (messages), 1 conversation, ")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(b'{"role": "user", "content": "From a pipe."}\n',))
    writer.start()
    assert cli("import", str(pipe)).startswith("1 turn stored")
    writer.join()
    assert "From a pipe." in cli("remember", "pipe")
    assert "Schnee" in cli("remember", "schnee")


def test_an_export_comes_back_whole(cli: Any, other_home: Any, tmp_path: Path) -> None:
    cli("import", str(DEMO))
    cli("forget", "s1-04")
    cli("remember", "peanuts")
    path = tmp_path / "alice.jsonl"
    assert cli("export", str(path)).startswith("exported ")
    assert path.stat().st_mode & 0o777 == 0o600
    other = other_home("other")
    assert other.json("import", str(path))["exports"] == 1
    assert other("export") == path.read_text(encoding="utf-8") == cli("export")
    assert other("remember", "peanuts", "--no-reinforce") == cli("remember", "peanuts", "--no-reinforce")
    assert "0 changes of an export stored (" in other("import", str(path))


def test_an_export_to_standard_output_is_nothing_but_lines(cli: Any) -> None:
    cli("add", "One.")
    result = cli.run("export")
    assert all(json.loads(line) for line in result.stdout.splitlines())
    assert result.stderr.startswith("agentmem: exported ")
    assert cli.run("export", "--user", "nobody").exit_code == 0


def test_an_export_writes_to_no_link_and_keeps_no_mode_of_another(cli: Any, tmp_path: Path) -> None:
    cli("add", "The key is under the mat.")
    victim, target = tmp_path / "victim.txt", tmp_path / "mine.jsonl"
    victim.write_text("untouched")
    target.symlink_to(victim)
    for name in (f"{target.name}.part", f".{target.name}.part"):
        (tmp_path / name).symlink_to(victim)
    cli("export", str(target))
    assert victim.read_text() == "untouched"
    assert not target.is_symlink()
    assert "mat" in target.read_text()
    target.chmod(0o666)
    cli("export", str(target))
    assert target.stat().st_mode & 0o777 == 0o600
    assert sorted(each.name for each in tmp_path.iterdir() if each.is_file() and not each.is_symlink()) == [
        "mine.jsonl",
        "victim.txt",
    ]


def test_an_export_to_a_device_goes_there(cli: Any) -> None:
    cli("add", "Hello.")
    assert cli("export", "/dev/null").startswith("exported ")
    assert Path("/dev/null").is_char_device()


def test_a_failed_export_leaves_no_file(cli: Any, tmp_path: Path) -> None:
    cli("add", "One.")
    assert cli.run("export", str(tmp_path / "missing" / "a.jsonl")).exit_code == 1
    folder = tmp_path / "full"
    folder.mkdir()
    (folder / "a.jsonl").mkdir()
    assert cli.run("export", str(folder / "a.jsonl")).exit_code == 2
    assert [path.name for path in folder.iterdir()] == ["a.jsonl"]


def test_a_damaged_export_is_refused(cli: Any, other_home: Any, tmp_path: Path) -> None:
    cli("add", "One.")
    lines = cli("export").splitlines(keepends=True)
    path = tmp_path / "cut.jsonl"
    path.write_text("".join(lines[:-1]), encoding="utf-8")
    other = other_home("other")
    assert other.run("import", str(path)).exit_code == 2
    path.write_bytes(lines[0].encode() + b"\xff\xfe\n")
    refused = other.run("import", str(path))
    assert refused.exit_code == 2
    assert "UTF-8" in refused.stderr
    assert other("remember", "One") == "nothing found\n"


def test_an_import_can_be_taken_back(cli: Any) -> None:
    out = cli("import", str(DEMO))
    assert "read it now: agentmem consolidate --all" in out
    (operation,) = re.findall(r"operation (\S+)", out)
    cli("undo", operation)
    assert cli("remember", "peanuts") == "nothing found\n"


def test_a_trial_tells_what_would_come_in_and_stores_nothing(cli: Any, tmp_path: Path) -> None:
    path = write(tmp_path / "chatgpt.json", CHATGPT)
    found = cli.json("import", path, "--dry-run")
    assert (found["dry_run"], found["formats"], found["turns"], found["facts"]) == (True, {"chatgpt": 1}, 2, 2)
    assert found["left_out"]["hidden message"] == 1
    assert cli("remember", "slogan") == "nothing found\n"
    out = cli("import", path)
    assert out.startswith("2 turns stored, 2 facts stored; 1 file (chatgpt), 1 conversation, ")
    assert "left out: 1 × hidden message" in out


def test_a_file_of_no_known_format_names_those_that_are(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Dear diary,\n", encoding="utf-8")
    result = cli.run("import", str(tmp_path / "a.txt"))
    assert result.exit_code == 2
    assert "format is not known. Known are chatgpt: ChatGPT export" in result.stderr
