"""Reading turns from files of other programs: every format, every error with its place, and the same ids every time."""

from __future__ import annotations

import gzip
import json
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from agentmem.errors import ConfigError, InvalidRecord
from agentmem.importers import source as source_module
from agentmem.importers.importer import is_export, load_turns
from agentmem.importers.source import list_source_files

FLAT = {
    "conversations": [
        {
            "id": "d1",
            "turns": [
                {
                    "dia_id": "D1:1",
                    "session": 1,
                    "speaker": "Ana",
                    "timestamp": "2024-05-01T10:00:00",
                    "text": "Hello.",
                },
                {
                    "dia_id": "D1:2",
                    "session": 1,
                    "speaker": "assistant",
                    "timestamp": "2024-05-01T10:00:00+02:00",
                    "text": "Look!",
                    "caption": " a red kite ",
                },
            ],
        }
    ]
}
PUBLISHED = [
    {
        "sample_id": "conv-1",
        "conversation": {
            "speaker_a": "Ana",
            "session_10_date_time": "12:09 am on 13 September, 2023",
            "session_10": [{"speaker": "Ben", "dia_id": "D10:1", "text": "Late already."}],
            "session_2_date_time": "1:56 pm on 8 May, 2023",
            "session_2": [{"speaker": "Ana", "dia_id": "D2:1", "text": "", "blip_caption": "two boats"}],
            "session_3_date_time": "2:00 pm on 9 May, 2023",
        },
        "qa": [],
    }
]


def write(folder: Path, content: object, filename: str = "turns.jsonl") -> Path:
    """A file with text as it is, a list of lines as JSON lines."""
    path = folder / filename
    written = content if isinstance(content, str) else "\n".join(json.dumps(line) for line in content)  # type: ignore[attr-defined]
    path.write_text(written, encoding="utf-8")
    return path


def document(folder: Path, content: object, **options: Any) -> list[Any]:
    """The turns of one JSON document."""
    return list(load_turns(write(folder, json.dumps(content), "document.json"), **options))


def test_plain_lines_keep_every_field(tmp_path: Path) -> None:
    full = {
        "role": "assistant",
        "content": "Grüß dich.",
        "turn_id": "t1",
        "speaker": "Ana",
        "timestamp": "2024-05-01T10:00:00Z",
        "conversation_id": "c1",
        "conversation_title": "Greeting",
        "metadata": {"mood": ["good"]},
    }
    path = write(tmp_path, [full, {"role": "user", "content": "Hi", "timestamp": 0}])
    first, second = load_turns(path)
    assert first == {**full, "timestamp": datetime(2024, 5, 1, 10, tzinfo=UTC)}
    assert second["timestamp"] == datetime(1970, 1, 1, tzinfo=UTC)
    assert second["conversation_id"]
    assert second["turn_id"]


def test_a_file_read_twice_from_two_folders_gives_the_same_ids(tmp_path: Path) -> None:
    lines = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hi"}] * 3
    (tmp_path / "other").mkdir()
    once = list(load_turns(write(tmp_path, lines)))
    again = list(load_turns(write(tmp_path / "other", lines, "renamed.jsonl")))
    assert once == again
    assert len({turn["turn_id"] for turn in once}) == 6
    assert len({turn["conversation_id"] for turn in once}) == 1


def test_a_file_that_grew_keeps_the_ids_it_had(tmp_path: Path) -> None:
    lines = [{"role": "user", "content": f"turn {n}"} for n in range(8)]
    before, after = list(load_turns(write(tmp_path, lines[:5]))), list(load_turns(write(tmp_path, lines)))
    assert after[:5] == before


def test_lines_are_read_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = 0
    original = source_module._read_bounded_lines

    def counted(file: BinaryIO, filename: str) -> Iterator[Any]:
        nonlocal taken
        for piece in original(file, filename):
            taken += 1
            yield piece

    monkeypatch.setattr(source_module, "_read_bounded_lines", counted)
    found = load_turns(write(tmp_path, [{"role": "user", "content": str(n)} for n in range(500)]))
    assert next(found)["content"] == "0"
    assert taken <= source_module.MAX_SAMPLE_LINES + 5
    assert len(list(found)) == 499


@pytest.mark.parametrize(
    "line, field, says",
    [
        ('{"role": "user"}', "content", "must be text, got nothing"),
        ('{"role": "user", "content": "  "}', "content", "must not be empty"),
        ('{"role": "wizard", "content": "x"}', "role", "must be user, assistant, system or tool, got 'wizard'"),
        ('{"content": "x"}', "role", "got nothing"),
        ('{"role": "user", "content": "x", "time": 1}', "time", "put it into metadata"),
        ('{"role": "user", "content": "x", "timestamp": "soon"}', "timestamp", "ISO 8601"),
        ('{"role": "user", "content": "x", "timestamp": 1e300}', "timestamp", "ISO 8601"),
        ('{"role": "user", "content": "x", "timestamp": true}', "timestamp", "ISO 8601"),
        ('{"role": "user", "content": "x", "turn_id": ""}', "turn_id", "must be a non-empty string"),
        ('{"role": "user", "content": "x", "speaker": ["a"]}', "speaker", "must be a non-empty string"),
        ('{"role": "user", "content": "x", "conversation_id": "%s"}' % ("c" * 201), "conversation_id", "at most 200"),
        ('{"role": "user", "content": "x", "metadata": [1, 2]}', "metadata", "must be an object, got a list of 2"),
        ('{"role": "user", "content": "x", "metadata": {"a": NaN}}', "line", "NaN"),
        ('{"role": "user", "content": "x', "line", "is not valid JSON"),
        ('"just text"', "turn", "must be an object"),
        ("[" * 5000, "line", "nested too deeply"),
        ('{"role": "user", "content": "x", "metadata": %s}' % ('{"a":' * 60 + "1" + "}" * 60), "metadata", "50 levels"),
        ('{"role": "user", "content": "x", "metadata": {"a": 1%s}}' % ("0" * 400), "metadata", "300 digits"),
    ],
)
def test_a_bad_line_is_named_with_file_line_and_field(tmp_path: Path, line: str, field: str, says: str) -> None:
    path = write(tmp_path, f'{{"role": "user", "content": "fine"}}\n\n{line}\n')
    with pytest.raises(InvalidRecord) as caught:
        list(load_turns(path))
    assert str(caught.value).startswith("turns.jsonl:3: ")
    assert caught.value.field == field
    assert says in str(caught.value)


@pytest.mark.parametrize(
    "content, says",
    [
        (
            '{"role": "user", "content": "hi"}\n{"content": "' + "a" * 100 + '"}\n',
            "turns.jsonl:2: line must have at most 64 bytes",
        ),
        ('[{"role": "user",\n"content": "' + "a" * 100 + '"}]', "document must have at most 64 bytes"),
    ],
)
def test_a_line_and_a_document_have_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str, says: str
) -> None:
    monkeypatch.setattr(source_module, "MAX_LINE_BYTES", 64)
    (tmp_path / "turns.jsonl").write_text(content)
    with pytest.raises(InvalidRecord, match=says):
        list(load_turns(tmp_path / "turns.jsonl"))


def test_bytes_that_are_no_utf8_are_named(tmp_path: Path) -> None:
    path = tmp_path / "latin.jsonl"
    path.write_bytes('{"role": "user", "content": "Grüße"}'.encode("latin-1"))
    with pytest.raises(InvalidRecord, match=r"latin.jsonl:1: line must be UTF-8, byte 32 is not"):
        list(load_turns(path))


def test_with_on_error_reading_goes_on(tmp_path: Path) -> None:
    errors: list[InvalidRecord] = []
    path = write(
        tmp_path, '{"role": "user"}\n{"role": "user", "content": "b"}\nnonsense\n{"role": "user", "content": "d"}'
    )
    assert [turn["content"] for turn in load_turns(path, on_error=errors.append)] == ["b", "d"]
    assert [str(error).split(" ")[0] for error in errors] == ["turns.jsonl:1:", "turns.jsonl:3:"]


@pytest.mark.parametrize("content", ["", "\n \n", "\ufeff\n"])
def test_an_empty_file_has_no_turns(tmp_path: Path, content: str) -> None:
    assert list(load_turns(write(tmp_path, content))) == []


def test_a_byte_order_mark_is_no_part_of_the_first_line(tmp_path: Path) -> None:
    assert [t["content"] for t in load_turns(write(tmp_path, '\ufeff{"role": "user", "content": "a"}'))] == ["a"]


def test_what_cannot_be_read_is_a_config_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        list(load_turns(tmp_path / "missing.jsonl"))
    with pytest.raises(InvalidRecord, match=r"format must be one of .*, messages, got 'csv'"):
        load_turns(tmp_path / "missing.jsonl", format="csv")


def test_openai_messages_become_readable_turns(tmp_path: Path) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Bergen"}'}}
    found = document(
        tmp_path,
        [
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "name": "Ana", "content": [{"type": "text", "text": "Rain?"}, {"type": "image_url"}]},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "12 degrees"},
            {"role": "assistant", "content": None, "refusal": "I would rather not say."},
            {"role": "assistant", "content": ""},
        ],
    )
    assert [(turn["role"], turn["content"]) for turn in found] == [
        ("system", "Be brief."),
        ("user", "Rain?\n[image]"),
        ("assistant", '[calls weather {"city": "Bergen"}]'),
        ("tool", "[weather returned] 12 degrees"),
        ("assistant", "I would rather not say."),
    ]
    assert found[1]["speaker"] == "Ana"


def test_anthropic_messages_become_readable_turns(tmp_path: Path) -> None:
    result = {
        "type": "tool_result",
        "tool_use_id": "u1",
        "content": [{"type": "text", "text": "12"}, {"type": "image"}],
    }
    found = document(
        tmp_path,
        {
            "model": "any",
            "system": [{"type": "text", "text": "Be brief."}],
            "messages": [
                {"role": "user", "content": "Rain?"},
                {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "secret"},
                        {"type": "text", "text": "Let me see."},
                        {"type": "tool_use", "id": "u1", "name": "weather", "input": {"city": "Bergen"}},
                        {"type": "tool_use", "id": "u2", "name": "clock", "input": {}},
                    ],
                },
                {"role": "user", "content": [result]},
                {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "x"}]},
                {"role": "user", "content": [{"type": "document", "title": "Plan"}, {"type": "tool_result"}, "ok"]},
            ],
        },
    )
    assert [(turn["role"], turn["content"]) for turn in found] == [
        ("system", "Be brief."),
        ("user", "Rain?"),
        ("assistant", 'Let me see.\n[calls weather {"city": "Bergen"}]\n[calls clock]'),
        ("tool", "[weather returned] 12\n[image]"),
        ("user", "[document Plan]\n[a tool returned]\nok"),
    ]


def test_lists_one_a_line_are_conversations_of_their_own(tmp_path: Path) -> None:
    hello = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    path = write(tmp_path, [{"messages": hello}, {"messages": hello}, {"id": 7, "messages": hello}, hello])
    found = list(load_turns(path))
    assert len(found) == 8
    assert len({turn["turn_id"] for turn in found}) == 8
    assert [turn["conversation_id"] for turn in found[4:6]] == ["7", "7"]
    assert len({turn["conversation_id"] for turn in found}) == 4


def test_messages_one_a_line_are_one_conversation(tmp_path: Path) -> None:
    lines = [{"role": "user", "content": [{"type": "text", "text": "a"}]}, {"role": "assistant", "content": "b"}]
    assert len({turn["conversation_id"] for turn in load_turns(write(tmp_path, lines))}) == 1


def test_own_fields_of_a_message_are_kept(tmp_path: Path) -> None:
    message = {
        "role": "user",
        "content": "Hi",
        "created_at": 60,
        "turn_id": "t",
        "speaker": "Ana",
        "conversation_id": "c",
        "metadata": {"a": 1},
    }
    assert document(tmp_path, [message, {"role": "user", "name": "Ben", "content": "Hi"}])[0] == {
        "role": "user",
        "content": "Hi",
        "timestamp": datetime(1970, 1, 1, 0, 1, tzinfo=UTC),
        "turn_id": "t",
        "speaker": "Ana",
        "conversation_id": "c",
        "metadata": {"a": 1},
    }


@pytest.mark.parametrize(
    "message, field, place",
    [
        ({"role": "user"}, "content", "messages[1]"),
        ({"role": "user", "content": {"text": "x"}}, "content", "messages[1]"),
        ({"role": "user", "content": [7]}, "content", "messages[1].content[0]"),
        ({"role": "user", "content": [{"type": 7}]}, "type", "messages[1].content[0]"),
        ({"role": "user", "content": [{"type": "text"}]}, "text", "messages[1].content[0]"),
        ({"role": "assistant", "tool_calls": "x"}, "tool_calls", "messages[1]"),
        (7, "messages[1]", ""),
    ],
)
def test_a_bad_message_is_named_with_its_place(tmp_path: Path, message: object, field: str, place: str) -> None:
    pretty = json.dumps([{"role": "user", "content": "fine"}, message], indent=2)
    errors: list[InvalidRecord] = []
    found = list(load_turns(write(tmp_path, pretty), on_error=errors.append))
    assert [turn["content"] for turn in found] == ["fine"]
    assert [error.field for error in errors] == [field]
    assert str(errors[0]).startswith(f"turns.jsonl: {place}")


def test_an_error_in_a_document_names_its_line(tmp_path: Path) -> None:
    with pytest.raises(InvalidRecord, match=r"turns.jsonl: document is not valid JSON: .* \(line 4, column"):
        list(load_turns(write(tmp_path, '\n[\n{"role": "user",\n"content": }]')))


def test_a_flat_locomo_file(tmp_path: Path) -> None:
    first, second = document(tmp_path, FLAT)
    assert first == {
        "role": "user",
        "content": "Hello.",
        "turn_id": "d1/D1:1",
        "timestamp": datetime(2024, 5, 1, 10, tzinfo=UTC),
        "conversation_id": "d1/session-1",
        "speaker": "Ana",
    }
    assert second["content"] == "Look! [shares a red kite]"
    assert second["role"] == "assistant"
    assert "speaker" not in second
    assert second["timestamp"] == datetime(2024, 5, 1, 8, tzinfo=UTC)


def test_the_published_locomo_shape(tmp_path: Path) -> None:
    first, second = document(tmp_path, PUBLISHED)
    assert (first["turn_id"], first["conversation_id"]) == ("conv-1/D2:1", "conv-1/session-2")
    assert first["content"] == "[shares two boats]"
    assert first["timestamp"] == datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
    assert second["conversation_id"] == "conv-1/session-10"
    assert second["timestamp"] == datetime(2023, 9, 13, 0, 9, tzinfo=UTC)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"text": None}, r"conversations\[0\].turns\[0\]: text must be text, got nothing"),
        ({"text": " "}, r"conversations\[0\].turns\[0\]: text must not be empty"),
        ({"dia_id": "D1:2"}, r"conversations\[0\]: dia_id must be unique in a dialogue, 'D1:2' comes twice"),
        ({"timestamp": "1:56 pm on 8 May, 2023"}, r"turns\[0\]: timestamp must be an ISO 8601 time"),
        ({"speaker": ""}, r"turns\[0\]: speaker must be a non-empty string"),
    ],
)
def test_a_bad_locomo_turn_is_named(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    content = json.loads(json.dumps(FLAT))
    content["conversations"][0]["turns"][0].update(change)
    with pytest.raises(InvalidRecord, match=message):
        document(tmp_path, content)


def test_a_format_that_is_given_is_not_detected(tmp_path: Path) -> None:
    with pytest.raises(InvalidRecord, match="conversations is not a field of a turn"):
        document(tmp_path, FLAT, format="messages")
    assert document(tmp_path, {"role": "user", "content": "a", "usage": {}}, format="messages")[0]["content"] == "a"


def test_a_first_line_that_is_nested_too_deeply_is_no_export(tmp_path: Path) -> None:
    assert not is_export(list_source_files(write(tmp_path, "[" * 50_000))[0])


def test_json_that_was_written_as_a_text_of_json_is_read(tmp_path: Path) -> None:
    inner = json.dumps({"messages": [{"role": "user", "content": "A \ud83d."}]})
    assert [turn["content"] for turn in document(tmp_path, inner)] == ["A \ufffd."]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_files_of_every_unicode_encoding_are_read(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "turns.jsonl"
    path.write_bytes('{"role": "user", "content": "Grüße 🎉"}\r\n{"role": "user", "content": "b"}'.encode(encoding))
    assert [turn["content"] for turn in load_turns(path)] == ["Grüße 🎉", "b"]


def test_folders_archives_and_compressed_files_are_read(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (folder / ".hidden").mkdir(parents=True)
    written = write(folder, [{"role": "user", "content": "a"}]).read_bytes()
    (folder / ".hidden/turns.jsonl").write_bytes(written)
    (folder / "notes.bin").write_bytes(b"\x00\x01")
    (tmp_path / "turns.jsonl.gz").write_bytes(gzip.compress(written))
    with zipfile.ZipFile(tmp_path / "turns.zip", "w") as archive:
        archive.write(folder / "turns.jsonl", "deep/turns.jsonl")
        archive.writestr("__MACOSX/turns.jsonl", written)
    for path in (folder, tmp_path / "turns.jsonl.gz", tmp_path / "turns.zip"):
        errors: list[InvalidRecord] = []
        assert [turn["content"] for turn in load_turns(path, on_error=errors.append)] == ["a"], path
    (tmp_path / "cut.gz").write_bytes(gzip.compress(written)[:-9])
    with pytest.raises(InvalidRecord, match="archive cannot be read, because it is damaged"):
        list(load_turns(tmp_path / "cut.gz"))
