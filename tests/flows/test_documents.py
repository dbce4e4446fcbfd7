"""Documents: kept exactly as given, by namespace and name, in one channel of one user."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentmem import AgentMemory, InvalidRecord
from agentmem.admin.export_import import export_user
from agentmem.core.documents import build_path, dump_value
from agentmem.memory.documents import DocumentDraft
from tests.flows.given import STACKS, ManualClock, engine_of, open_memory, run, stack_options

HOSTILE = ("a/b", "..", "a:b", "a%1Fb", "\x1f", "a\x1fb", "O'Brien; --", "ключ", "🗝️", "*", "[a]", "%", "_", " ")
VALUES: list[Any] = [
    {"text": "as \x00 is", "half": "\ud83d", "deep": [{"a": [1, 2.5, None, True]}], "big": 10**40, "": {}},
    [],
    "",
    0,
    None,
    {"image": "A" * 200_000},
]


@pytest.fixture(params=STACKS)
def memory(request: pytest.FixtureRequest, home: Path, clock: ManualClock) -> Iterator[AgentMemory]:
    with open_memory(home, clock=clock, **stack_options(request)) as made:
        yield made


def names(documents: Any) -> list[str]:
    return [each.name for each in documents]


def test_a_value_comes_back_as_it_was_given(memory: AgentMemory) -> None:
    for number, value in enumerate(VALUES):
        memory.documents.put(("values",), str(number), value)
    found = [memory.documents.get(("values",), str(number)) for number in range(len(VALUES))]
    assert [each and each.load() for each in found] == VALUES
    assert [each.load() for each in memory.documents.find(newest_first=False)] == VALUES


def test_names_and_labels_are_no_patterns_and_no_paths(memory: AgentMemory) -> None:
    for label in HOSTILE:
        for name in HOSTILE:
            memory.documents.put((label, "x"), name, [label, name])
    for label in HOSTILE:
        assert sorted(names(memory.documents.find((label,), limit=None))) == sorted(HOSTILE)
        assert [memory.documents.get((label, "x"), name).load() for name in HOSTILE] == [[label, n] for n in HOSTILE]  # type: ignore[union-attr]
    assert memory.documents.list_namespaces() == sorted((label, "x") for label in HOSTILE)


def test_a_namespace_holds_what_is_below_it_and_not_what_begins_alike(memory: AgentMemory) -> None:
    for namespace in [("a",), ("a", "b"), ("ab",), ("a", "b", "c"), ("A",)]:
        memory.documents.put(namespace, ".".join(namespace), 1)
    assert names(memory.documents.find(("a",), newest_first=False)) == ["a", "a.b", "a.b.c"]
    assert memory.documents.list_namespaces(("a", "b")) == [("a", "b"), ("a", "b", "c")]
    assert memory.documents.clear(("a", "b")) == 2
    assert sorted(names(memory.documents.find())) == ["A", "a", "ab"]


def test_the_last_write_counts_and_the_first_time_stays(memory: AgentMemory, clock: ManualClock) -> None:
    first = memory.documents.put(("a",), "x", 1)
    clock.advance(hours=1)
    memory.documents.put(("a",), "y", 1)
    clock.advance(hours=1)
    again = memory.documents.put(("a",), "x", 2)
    assert (again.created_at, again.updated_at) == (first.created_at, clock.now())
    assert names(memory.documents.find(("a",))) == ["x", "y"]
    memory.documents.delete(("a",), "x")
    assert memory.documents.get(("a",), "x") is None
    assert memory.documents.put(("a",), "x", 3).created_at == clock.now()
    assert [each.load() for each in memory.documents.find(offset=1, limit=1)] == [1]  # type: ignore[attr-defined]


def test_a_write_of_many_is_one_transaction_and_can_be_taken_back(memory: AgentMemory) -> None:
    memory.documents.put(("a",), "old", 0)
    with pytest.raises(InvalidRecord):
        memory.documents.write([DocumentDraft(("a",), "new", 1), DocumentDraft(("a",), "bad", {1, 2})])
    assert names(memory.documents.find()) == ["old"]
    written = memory.documents.write([DocumentDraft(("a",), str(n), n) for n in range(3)], [(("a",), "old")])
    assert names(written) == ["0", "1", "2"]
    assert names(memory.documents.find(newest_first=False)) == ["0", "1", "2"]
    memory.undo(written[0].operation_id)
    assert names(memory.documents.find()) == ["old"]


def test_documents_expire_live_on_when_refreshed_and_are_removed(memory: AgentMemory, clock: ManualClock) -> None:
    for name in ("short", "kept"):
        memory.documents.put(("t",), name, name, texts=["the code of the door is 7"], ttl_minutes=10)
    clock.advance(minutes=9)
    memory.documents.refresh(memory.documents.find(matches=lambda value: value == "kept"))
    clock.advance(minutes=2)
    assert names(memory.documents.find()) == ["kept"]
    assert [each.document.name for each in memory.documents.search("code of the door")] == ["kept"]
    assert names(memory.remember("code of the door").documents) == ["kept"]
    assert [names(memory.documents.remove_expired()), memory.documents.remove_expired()] == [["short"], []]
    clock.advance(days=1)
    memory.consolidate("cleanup")
    assert memory.list_records(["Document"]) == []


def test_recall_finds_texts_where_it_may(memory: AgentMemory) -> None:
    memory.documents.put(("a",), "open", {"id": 1}, texts=["Ann keeps bees on the roof"])
    memory.documents.put(("a",), "apart", {"id": 2}, texts=["Ann keeps bees in the garden"], in_recall=False)
    memory.documents.put(("a",), "silent", {"text": "Ann keeps bees in the cellar"})
    assert names(memory.remember("where does Ann keep bees").documents) == ["open"]
    assert "bees on the roof" in memory.context("where does Ann keep bees").text
    found = memory.documents.search("Ann keeps bees in the garden", ("a",))
    assert [each.document.name for each in found] == ["apart", "open"]
    assert found[0].score > 0.9 > found[1].score
    memory.documents.put(("a",), "open", {"id": 1}, texts=["Ann sold her boat"])
    assert names(memory.remember("boat").documents) == ["open"]
    assert "bees" not in str(memory.remember("where does Ann keep bees"))


def test_items_at_the_end_keep_their_order_and_take_their_turns_along(memory: AgentMemory) -> None:
    turn = {"content": "I moved to Bergen", "conversation_id": "s"}
    memory.documents.append(("s",), [{"n": n} for n in range(20)])
    memory.documents.append(("s",), [{"n": 20}, {"n": 21}], turns={1: turn})
    assert [each.load()["n"] for each in memory.documents.find(("s",), limit=None, newest_first=False)] == [*range(22)]
    assert [each.content for each in memory.episodic.recent_turns()] == ["I moved to Bergen"]
    assert memory.documents.pop(("s",)).load() == {"n": 21}  # type: ignore[union-attr]
    assert memory.episodic.recent_turns() == []
    memory.documents.append(("s",), ["last"], turns={0: turn})
    (last,) = memory.documents.find(("s",), limit=1)
    memory.documents.delete(("s",), last.name)
    assert memory.episodic.recent_turns() == []
    assert memory.documents.clear(("s",)) == 21
    assert memory.documents.pop(("s",)) is None


def test_a_long_conversation_comes_in_at_once(memory: AgentMemory) -> None:
    words = [f"message {n}" for n in range(2_100)]
    memory.documents.append(("s",), words, turns={n: {"content": text} for n, text in enumerate(words)})
    assert memory.documents.read_values(("s",)) == words
    assert [turn.content for turn in memory.episodic.recent_turns(2)] == words[-2:]


def test_a_list_that_is_read_again_is_as_it_stands(memory: AgentMemory) -> None:
    path, other = ("s",), memory.scoped(conversation_id="another view")

    def check(*values: int) -> None:
        assert memory.documents.read_values(path) == other.documents.read_values(path) == list(values)
        assert memory.documents.read_values(path, 2) == list(values)[-2:]

    check()
    memory.documents.append(path, [1, 2])
    check(1, 2)
    other.documents.append(path, [3])
    memory.store_turn("something else")
    check(1, 2, 3)
    other.documents.pop(path)
    memory.documents.append(path, [4])
    check(1, 2, 4)
    memory.documents.put(path, "named", 5)
    check(1, 2, 4, 5)
    operation = memory.documents.put(path, "named", 6).operation_id
    check(1, 2, 4, 6)
    memory.undo(operation)
    check(1, 2, 4, 5)
    memory.documents.clear(path)
    check()
    secret = memory.documents.append(path, [7])[0]
    check(7)
    memory.forget(secret.id, hard=True)
    check()


def test_pages_of_a_large_namespace_have_each_document_once(memory: AgentMemory) -> None:
    for start in range(0, 1_200, 600):
        drafts = [DocumentDraft(("large",), str(n), {"n": n, "odd": n % 2}) for n in range(start, start + 600)]
        memory.documents.write(drafts)
    memory.documents.put(("small",), "s", {"n": -1, "odd": 1})
    last = [each.load()["n"] for each in memory.documents.find(("large",), limit=3, offset=2)]
    assert last == [1_197, 1_196, 1_195]
    odd = memory.documents.find(("large",), matches=lambda value: value["odd"] == 1, limit=3, offset=400)
    assert [each.load()["n"] for each in odd] == [399, 397, 395]
    assert memory.documents.find(("large",), matches=lambda value: value["n"] < 0) == []
    assert names(memory.documents.find(("small",), matches=lambda value: value["odd"] == 1)) == ["s"]
    assert len(memory.documents.find(limit=None)) == 1_201


def test_users_and_channels_keep_their_own(memory: AgentMemory) -> None:
    other, channel = memory.scoped(user_id="other"), memory.scoped(channel="work")
    for number, each in enumerate((memory, other, channel)):
        each.documents.put(("a",), "x", number, texts=["the password is a bee"])
    assert [each.documents.get(("a",), "x").load() for each in (memory, other, channel)] == [0, 1, 2]  # type: ignore[union-attr]
    assert [len(each.documents.search("password")) for each in (memory, other, channel)] == [1, 1, 1]
    channel.documents.clear(("a",))
    assert [len(each.documents.find()) for each in (memory, other, channel)] == [1, 1, 0]


def test_nothing_is_left_of_what_is_erased(memory: AgentMemory) -> None:
    made = memory.documents.put(("a",), "x", {"secret": "zanzibar"}, texts=["zanzibar"])
    memory.documents.put(("a",), "x", {"secret": "zanzibar two"}, texts=["zanzibar two"])
    receipt = memory.forget(made.id, hard=True)
    assert receipt.scan is not None
    assert not receipt.scan.leftovers
    assert memory.documents.get(("a",), "x") is None
    assert not memory.remember("zanzibar").documents


def test_an_export_brings_documents_into_another_memory(home: Path, tmp_path: Path) -> None:
    with open_memory(home, user="ann") as ann:
        ann.documents.put(("a",), "x", {"half": "\ud800"}, texts=["bees on the roof"])
        ann.documents.append(("s",), [1, 2])
        with (tmp_path / "export.jsonl").open("w") as file:
            run(export_user(engine_of(ann), ann.async_view.scope, file.write))
    with open_memory(tmp_path / "other", user="bob") as bob:
        bob.import_file(tmp_path / "export.jsonl")
        assert bob.documents.get(("a",), "x").load() == {"half": "\ud800"}  # type: ignore[union-attr]
        assert bob.documents.read_values(("s",)) == [1, 2]
        assert names(bob.remember("bees").documents) == ["x"]


def test_threads_take_every_item_once(memory: AgentMemory) -> None:
    taken = list[int]()

    def work(number: int) -> None:
        memory.documents.append(("q",), [number * 10 + n for n in range(5)])
        taken.extend(each.load() for _ in range(3) if (each := memory.documents.pop(("q",))))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    left = [each.load() for each in memory.documents.find(("q",), limit=None)]
    assert sorted([*taken, *left]) == sorted(number * 10 + n for number in range(8) for n in range(5))
    assert len(taken) == 24


@pytest.mark.parametrize(
    "call, field",
    [
        ({"namespace": "a"}, "namespace"),
        ({"namespace": ()}, "namespace"),
        ({"namespace": ("",)}, "namespace"),
        ({"namespace": (1,)}, "namespace"),
        ({"namespace": ("a", "\x00")}, "namespace"),
        ({"name": "\x00"}, "name"),
        ({"namespace": ("a" * 500,)}, "namespace"),
        ({"name": ""}, "name"),
        ({"name": 5}, "name"),
        ({"name": "x" * 2000}, "Document.name"),
        ({"value": {1, 2}}, "value"),
        ({"value": object()}, "value"),
        ({"ttl_minutes": 0}, "Document.ttl_minutes"),
        ({"ttl_minutes": float("inf")}, "Document.ttl_minutes"),
    ],
)
def test_bad_input_names_its_field(home: Path, call: dict[str, Any], field: str) -> None:
    with open_memory(home) as memory:
        with pytest.raises(InvalidRecord) as raised:
            memory.documents.put(**{"namespace": ("a",), "name": "x", "value": 1, **call})
        assert raised.value.field in (field, field.removeprefix("Document."))
        assert memory.documents.find() == []


@settings(deadline=None)
@given(st.lists(st.text(min_size=1, max_size=20), min_size=1, max_size=4), st.lists(st.text(min_size=1), min_size=1))
def test_one_path_begins_with_another_where_its_namespace_does(one: list[str], other: list[str]) -> None:
    assert build_path(one).startswith(build_path(other)) == (one[: len(other)] == other)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
    )
)
def test_every_value_of_json_comes_back(value: object) -> None:
    assert json.loads(dump_value(value)) == value
