"""Files of other memory programs: what comes in, what does not and why, with the same ids every time."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentmem.errors import InvalidRecord
from agentmem.importers import source as source_module
from agentmem.importers.format import load_formats
from agentmem.importers.items import ImportedEntity, ImportedFact, ImportedRelation
from agentmem.importers.source import list_source_files
from tests.unit import memory_files as files
from tests.unit.reading_files import read

OWN = sorted({name for name, _ in files.FILES.values()})
KEYS = (
    "id uuid name memory data content text user_id agent_id namespace key value fact labels summary source "
    "source_node_uuid valid_at created_at expiration_date relationship agents blocks core_memory messages role type "
    "label tool_calls function arguments entities entityType observations relationType from to categories metadata"
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=5)
    | st.sampled_from(["user", "2025-01-01", "message"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS.split()), inner, max_size=6),
    max_leaves=20,
)


def pick(items: list[Any], cls: type) -> list[Any]:
    return [item for item in items if isinstance(item, cls)]


@pytest.mark.parametrize("name", files.FILES)
def test_one_format_knows_a_file_and_reads_it_the_same_at_any_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    expected, written = files.FILES[name]
    whole = read(tmp_path, written, name)
    assert whole[0]
    assert not whole[2]
    assert read(tmp_path, written, name, indent=None) == whole  # on one line
    source = list_source_files(tmp_path / name)[0]
    assert [each.name for each in load_formats().values() if each.detect(source) and not each.rank] == [expected]
    read(tmp_path, written, name)
    if list_source_files(tmp_path / name)[0].layout == "document":
        monkeypatch.setattr(source_module, "MAX_LINE_BYTES", 64)
    assert read(tmp_path, written, name) == whole


@pytest.mark.parametrize(
    "written, says",
    [
        ([*files.MEM0_LIST, {"id": "m2", "user_id": "alice"}], "file.json: [1]: memory must be text, got nothing"),
        ([files.MEM0_LIST[0] | {"created_at": "soon"}], "file.json: [0]: created_at must be an ISO 8601 time"),
        ([*files.LANGGRAPH, {"namespace": "x", "key": "k", "value": {}}], "file.json: [3]: namespace must be a list"),
        ({"facts": [{"uuid": "u", "fact": ""}]}, "file.json: facts[0]: fact must not be empty"),
        (f'{files.SERVER_MEMORY}\n{{"name": "x", "entityType": "y"}}', "file.json:4: observations must be a list"),
        (
            files.LETTA_OLD | {"core_memory": [{"label": "human", "value": 3}]},
            "file.json: core_memory[0]: value must be",
        ),
        (files.LETTA_OLD | {"messages": [{"role": "x", "content": "y"}]}, "file.json: messages[0]: role must be user"),
    ],
)
def test_a_wrong_record_is_named_with_its_place(tmp_path: Path, written: Any, says: str) -> None:
    _, _, errors = read(tmp_path, written)
    assert len(errors) == 1
    assert errors[0].startswith(says)


def test_mem0_memories_are_facts_that_end_after_the_day_they_expire(tmp_path: Path) -> None:
    items, _, _ = read(tmp_path, files.MEM0)
    assert items == [
        ImportedFact(
            "Bakes rye bread on Sundays",
            id="m1",
            valid_to=datetime(2026, 1, 1, tzinfo=UTC),
            said_at=datetime.fromisoformat("2025-03-01T08:00:00-07:00"),
            tags=("hobbies", "food"),
            owner="alice",
        ),
        ImportedFact("Answers in rhymes", id="m2", subject="poet", said_at=datetime(2025, 3, 1, 9, tzinfo=UTC)),
        ImportedRelation("alice", "knows", "Bo", owner="alice"),
    ]
    assert read(tmp_path, files.MEM0_LIST)[0][0].said_at == datetime(2025, 3, 1, 9, tzinfo=UTC)


def test_graphiti_facts_keep_both_times_and_both_ends(tmp_path: Path) -> None:
    items, left, _ = read(tmp_path, files.GRAPHITI)
    assert pick(items, ImportedEntity) == [
        ImportedEntity("Ana", "person", "A nurse.", "alice"),
        ImportedEntity("Oslo", owner="alice"),
    ]
    assert [(fact.about, fact.valid_from, fact.valid_to) for fact in pick(items, ImportedFact)] == [
        (("Ana", "Oslo"), datetime(2024, 5, 1, tzinfo=UTC), None),
        (("Ana",), datetime(2020, 1, 1, tzinfo=UTC), datetime(2024, 4, 30, tzinfo=UTC)),
        (("Ana", "Oslo"), None, datetime(2023, 1, 1, tzinfo=UTC)),
    ]
    assert [each.kind for each in pick(items, ImportedRelation)] == ["LIVES_IN"]  # not those that ended
    assert left == {"episode that is only a fact": 1, "relation to an entity that is not in the file": 1}


def test_graphiti_episodes_are_split_by_who_speaks(tmp_path: Path) -> None:
    turns = pick(read(tmp_path, files.GRAPHITI)[0], dict)
    assert [(turn["role"], turn.get("speaker"), turn["content"], turn["conversation_id"]) for turn in turns] == [
        ("user", "Ana", "I moved to Oslo.\nIn May.", "alice"),
        ("assistant", None, "Noted.", "alice"),
        ("assistant", "Bo", "Me, too.", "alice"),
        ("tool", None, '{"a": 1}', "alice"),
        ("user", "Ana", "Hi: you", "t"),
    ]
    assert turns[0]["timestamp"] == datetime(2024, 5, 2, 10, tzinfo=UTC)
    assert turns[0]["owner"] == "alice"
    assert len({turn["turn_id"] for turn in turns}) == 5


@pytest.mark.parametrize("written", [files.LETTA_OLD, files.LETTA_NEW])
def test_letta_blocks_are_facts_line_by_line_and_messages_are_what_was_said(tmp_path: Path, written: Any) -> None:
    items, left, _ = read(tmp_path, written)
    facts = pick(items, ImportedFact)
    assert [(fact.claim, fact.subject, fact.tags, fact.is_verbatim) for fact in facts] == [
        ("Name is Sam", "", ("block", "human"), False),
        ("Likes tea", "", ("block", "human"), False),
        ("I am cheerful.", "Iris", ("block", "persona"), False),
        ("Lives in a draft", "Iris", ("block", "plans"), True),
    ]
    turns = pick(items, dict)
    assert [(turn["role"], turn["content"]) for turn in turns] == [
        ("user", "Hi!"),
        ("assistant", "Hello, Sam."),
        ("assistant", '[calls look_up {"q": "rain"}]'),
        ("tool", "[look_up returned] wet"),
        ("assistant", "Take a coat."),
    ]
    assert {turn["timestamp"].tzinfo for turn in turns} == {UTC}
    assert len({turn["turn_id"] for turn in turns}) == 5
    assert left["tool"] == left["system message of the agent"] == left["event of the agent"] == 1


def test_letta_turns_have_the_same_ids_in_both_versions(tmp_path: Path) -> None:
    old, new = (pick(read(tmp_path, each)[0], dict) for each in (files.LETTA_OLD, files.LETTA_NEW))
    assert [turn["turn_id"] for turn in old] == [turn["turn_id"] for turn in new]


def test_server_memory_observations_are_facts_about_their_entity(tmp_path: Path) -> None:
    items, _, _ = read(tmp_path, files.SERVER_MEMORY, "memory.jsonl")
    assert items == [
        ImportedEntity("Ana", "person"),
        ImportedFact("Lives in Turku", about=("Ana",), is_verbatim=True),
        ImportedFact("Sings alto", about=("Ana",), is_verbatim=True),
        ImportedEntity("Choir", "group"),
        ImportedRelation("Ana", "sings in", "Choir"),
    ]
    assert read(tmp_path, files.SERVER_MEMORY_GRAPH)[0] == items


def test_langgraph_items_are_facts_of_the_user_of_their_namespace(tmp_path: Path) -> None:
    items, _, _ = read(tmp_path, files.LANGGRAPH)
    assert [(fact.claim, fact.owner, fact.tags) for fact in items] == [
        ("Prefers aisle seats", "alice", ()),
        ("Has a cat", "alice", ()),
        ('{"city":"Århus","open":true}', "", ("docs", "shop", "eu")),
    ]
    assert items[0].said_at == datetime.fromisoformat("2025-04-02T00:00:00+02:00")
    assert items[1].said_at == datetime(2025, 4, 1, tzinfo=UTC)


def test_a_note_gives_observations_relations_and_sections(tmp_path: Path) -> None:
    items, _, _ = read(tmp_path, files.NOTE, "Pour over.md")
    tags = ("method", "heat", "water", "coffee", "brewing")
    assert items[:4] == [
        ImportedEntity("Pour over", "guide"),
        ImportedFact("Water at 93 °C is best (for light roasts)", about=("Pour over",), tags=tags, is_verbatim=True),
        ImportedRelation("Pour over", "requires", "Kettle"),
        ImportedRelation("Pour over", "learned from", "Ana"),
    ]
    assert [turn["content"] for turn in items[4:]] == [
        "Pour over\n\nSlow but worth it, as my sister says. [file kettle.png]",
        "Pour over: Observations\n\n- [x] buy filters\n- [00:12] the kettle clicks\n- see [the shop](http://example.org)",
        "Pour over: Relations\n\n- so Ana said it",
        "Pour over: Steps\n\n```\n- [code] not an observation\n## no heading\n```",
    ]
    assert items[4]["timestamp"] == datetime.fromisoformat("2025-01-02T10:00:00+01:00")
    assert items[4]["metadata"] == {"title": "Pour over", "tags": ["coffee", "brewing"]}


@pytest.mark.parametrize(
    "note, title, content, wrong",
    [
        ("Just words.", "n", "n\n\nJust words.", 0),
        ("---\ntags:\n  - a\n---\n# n\nWords.", "n", "n\n\nWords.", 0),
        ("---\ntitle: T\ncreated: '{{date}}'\n---\nWords.", "T", "T\n\nWords.", 1),
        ("---\nno end\n\nWords.", "n", "n\n\n---\nno end\n\nWords.", 0),
    ],
)
def test_a_note_is_read_with_any_top(tmp_path: Path, note: str, title: str, content: str, wrong: int) -> None:
    items, _, errors = read(tmp_path, note, "n.md")
    assert [(turn["metadata"]["title"], turn["content"]) for turn in items] == [(title, content)]
    assert len(errors) == wrong


@settings(max_examples=60)
@given(st.lists(VALUES, max_size=3), st.sampled_from(OWN), st.booleans())
def test_any_json_gives_items_or_errors_with_a_place(
    tmp_path_factory: pytest.TempPathFactory, values: list[Any], chosen: str, is_document: bool
) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzz.json"
    path.write_text(json.dumps(values) if is_document else "\n".join(map(json.dumps, values)))
    source, errors = list_source_files(path)[0], list[InvalidRecord]()
    for item in load_formats()[chosen].read(source, errors.append):
        assert not isinstance(item, ImportedFact) or item.claim.strip()
        assert not isinstance(item, dict) or item["content"].strip()
    assert all(str(error).startswith("fuzz.json") and error.field for error in errors)
