"""LangGraph's store and chat history: what their interfaces promise, in one memory."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.store.base import GetOp, ListNamespacesOp, PutOp, SearchOp

from agentmem import AgentMemory, AsyncAgentMemory, ConfigError, InvalidRecord
from agentmem.adapters.langgraph import AgentMemChatHistory, AgentMemStore
from tests.flows.given import STACKS, ManualClock, open_memory, stack_options

HOSTILE = ("a/b", "-", "a:b", "\x1f", "O'Brien; --", "ключ", "🗝️", "*", "%", "_", " ")


@pytest.fixture(params=STACKS)
def memory(request: pytest.FixtureRequest, home: Path, clock: ManualClock) -> Iterator[AgentMemory]:
    with open_memory(home, clock=clock, **stack_options(request)) as made:
        yield made


def keys(items: Any) -> list[str]:
    return [each.key for each in items]


def test_a_batch_answers_in_order_from_what_was_there_before(memory: AgentMemory) -> None:
    store = AgentMemStore(memory)
    store.put(("a",), "x", {"n": 1})
    results = store.batch(
        [
            PutOp(("a",), "x", {"n": 2}),
            GetOp(("a",), "x"),
            PutOp(("a",), "y", {"n": 3}),
            PutOp(("a",), "y", {"n": 4}),
            SearchOp(("a",), filter={"n": {"$gte": 1}}),
            ListNamespacesOp(),
            GetOp(("a",), "y"),
        ]
    )
    assert results[0] is results[2] is results[3] is results[6] is None
    assert results[1].value == {"n": 1}  # type: ignore[union-attr]
    assert [(each.key, each.value) for each in results[4]] == [("x", {"n": 1})]  # type: ignore[union-attr]
    assert results[5] == [("a",)]
    assert {each.key: each.value["n"] for each in store.search(("a",))} == {"x": 2, "y": 4}
    store.delete(("a",), "x")
    assert store.get(("a",), "x") is None


def test_hostile_names_and_filters_match_only_themselves(memory: AgentMemory) -> None:
    store = AgentMemStore(memory)
    for label in HOSTILE:
        for key in HOSTILE:
            store.put((label,), key, {"k": key, "l": label})
    for label in HOSTILE:
        assert sorted(keys(store.search((label,), limit=100))) == sorted(HOSTILE)
        assert keys(store.search((label,), filter={"k": label})) == [label]
    with pytest.raises(ValueError, match="Invalid filter key"):
        store.search(("%",), filter={"k') OR ('1'='1": 1})
    with pytest.raises(ValueError, match="Unsupported operator"):
        store.search(("%",), filter={"k": {"$where": 1}})


@pytest.mark.parametrize(
    "wanted, found",
    [
        ({"flag": True}, ["a"]),
        ({"flag": 1}, ["b"]),
        ({"n": 1.0}, ["a"]),
        ({"n": {"$gt": 1, "$lt": 3}}, ["b"]),
        ({"n": {"$gt": "1"}}, []),
        ({"tag": {"$ne": "x"}}, ["b"]),
        ({"tag": {"$gte": "x"}}, ["a", "b"]),
        ({"deep": {"list": [1, 2]}}, ["a"]),
        ({"deep": {"list": [1]}}, []),
        ({"deep.city": "Oslo"}, ["b"]),
        ({"dotted.key": "own"}, ["b"]),
        ({"gone": None}, ["a", "b"]),
        ({"flag": True, "n": 2}, []),
    ],
)
def test_a_filter_compares_as_json_does(home: Path, wanted: dict[str, Any], found: list[str]) -> None:
    with open_memory(home) as memory:
        store = AgentMemStore(memory)
        store.put(("f",), "a", {"flag": True, "n": 1, "tag": "x", "deep": {"list": [1, 2], "more": 1}})
        store.put(("f",), "b", {"flag": 1, "n": 2, "tag": "y", "deep": {"city": "Oslo"}, "dotted.key": "own"})
        assert sorted(keys(store.search(("f",), filter=wanted))) == found


def test_search_is_by_the_nearest_of_the_chosen_texts(memory: AgentMemory) -> None:
    store = AgentMemStore(memory, fields=["title", "parts[*].text"])
    store.put(
        ("d",),
        "bees",
        {"title": "Notes", "parts": [{"text": "Bees on the roof"}, {"text": "Rain in May"}], "x": "boat"},
    )
    store.put(("d",), "boat", {"title": "A boat"})
    store.put(("d",), "apart", {"title": "Rain in May"}, index=False)
    store.put(("d",), "own", {"title": "Nothing", "x": "Snow in June"}, index=["x"])
    near = keys(store.search(("d",), query="Rain in May"))
    assert (near[0], near[-1], len(near)) == ("bees", "apart", 4)
    assert keys(store.search(("d",), query="Snow in June", limit=1)) == ["own"]
    scores = [each.score for each in store.search(("d",), query="Bees on the roof")]
    assert scores[0] == pytest.approx(1.0, abs=1e-3)
    assert scores[-1] is None
    pages = [keys(store.search(("d",), query="boat", limit=1, offset=n)) for n in range(5)]
    assert sorted(key for page in pages for key in page) == ["apart", "bees", "boat", "own"]
    assert [document.name for document in memory.remember("bees on the roof").documents][:1] == ["bees"]


def test_items_live_for_minutes_and_longer_when_read(memory: AgentMemory, clock: ManualClock) -> None:
    store = AgentMemStore(memory, ttl={"default_ttl": 10, "refresh_on_read": True})
    store.put(("t",), "default", {"a": 1})
    store.put(("t",), "own", {"a": 1}, ttl=60)
    store.put(("t",), "ever", {"a": 1}, ttl=None)
    store.put(("t",), "silent", {"a": 1})
    clock.advance(minutes=9)
    assert store.get(("t",), "default") is not None
    assert store.get(("t",), "silent", refresh_ttl=False) is not None
    clock.advance(minutes=9)
    assert store.get(("t",), "silent") is None
    assert sorted(keys(store.search(("t",)))) == ["default", "ever", "own"]
    assert store.sweep_ttl() == 1
    clock.advance(minutes=100)
    assert keys(store.search(("t",))) == ["ever"]


def test_namespaces_are_listed_by_beginning_end_and_depth(memory: AgentMemory) -> None:
    store = AgentMemStore(memory)
    for namespace in [("a", "b", "c"), ("a", "b", "d", "e"), ("a", "c", "f"), ("ab",), ("z", "c")]:
        store.put(namespace, "k", {})
    assert store.list_namespaces(prefix=("a",), max_depth=2) == [("a", "b"), ("a", "c")]
    assert store.list_namespaces(suffix=("c",)) == [("a", "b", "c"), ("z", "c")]
    assert store.list_namespaces(prefix=("a", "*", "f")) == [("a", "c", "f")]
    assert store.list_namespaces(limit=2, offset=3) == [("ab",), ("z", "c")]


def test_a_label_can_name_the_user(memory: AgentMemory) -> None:
    store = AgentMemStore(memory, user_label=1)
    me, other = memory.async_view.scope.user_id, f"{memory.async_view.scope.user_id}-2"
    store.batch([PutOp(("memories", user), "x", {"text": f"the cat of {user}"}) for user in (me, other)])
    assert [store.get(("memories", user), "x").value["text"] for user in (me, other)] == [  # type: ignore[union-attr]
        f"the cat of {user}" for user in (me, other)
    ]
    assert len(store.search(("memories", other), query="cat")) == 1
    memory.scoped(user_id=other).erase()
    assert store.get(("memories", other), "x") is None
    assert store.get(("memories", me), "x") is not None
    with pytest.raises(InvalidRecord, match="names the user"):
        store.search(("memories",))


def test_threads_and_loops_use_one_store_at_once(memory: AgentMemory) -> None:
    store = AgentMemStore(memory)

    def work(number: int) -> None:
        for n in range(5):
            store.put(("w", str(number)), str(n), {"n": n})
            asyncio.run(store.aput(("w", str(number)), f"a{n}", {"n": n}))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(store.search(("w",), limit=100)) == 60


async def test_an_async_memory_serves_coroutines_alone(home: Path) -> None:
    async with AsyncAgentMemory("ann", home=home, embedder="hash") as memory:
        store = AgentMemStore(memory)
        await store.aput(("a",), "x", {"n": 1})
        assert (await store.aget(("a",), "x")).value == {"n": 1}  # type: ignore[union-attr]
        with pytest.raises(ConfigError, match="without await"):
            store.get(("a",), "x")


async def test_a_cancelled_call_is_done_whole(home: Path) -> None:
    with open_memory(home) as memory:
        store = AgentMemStore(memory)
        for number in range(20):
            ops = [PutOp((str(number),), str(n), {"n": n}) for n in range(50)]
            task = asyncio.ensure_future(store.abatch(ops))
            await asyncio.sleep(0.001 * (number % 5))
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await asyncio.sleep(0.5)
        sizes = {len(await store.asearch((str(number),), limit=100)) for number in range(20)}
        assert sizes <= {0, 50}


# -- chat history

MESSAGES: list[BaseMessage] = [
    HumanMessage("I moved to Oslo last week.", id="1", name="ann"),
    AIMessage("", tool_calls=[{"name": "weather", "args": {"city": "Oslo"}, "id": "c1", "type": "tool_call"}]),
    ToolMessage("rain", tool_call_id="c1", artifact={"mm": 3}),
    AIMessage([{"type": "text", "text": "It rains in Oslo."}, {"type": "reasoning", "summary": []}]),
    HumanMessage([{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]),
]


def test_messages_come_back_equal_and_are_remembered(memory: AgentMemory) -> None:
    history, other = AgentMemChatHistory(memory, "monday"), AgentMemChatHistory(memory, "tuesday")
    history.add_messages(MESSAGES)
    other.add_messages(MESSAGES[:1])
    assert history.messages == MESSAGES
    assert [(turn.role, turn.content) for turn in memory.episodic.get_conversation("monday")] == [
        ("user", "I moved to Oslo last week."),
        ("assistant", "It rains in Oslo."),
    ]
    history.clear()
    assert history.messages == []
    assert other.messages == MESSAGES[:1]
    assert [turn.conversation_id for turn in memory.remember("Oslo").turns] == ["tuesday"]


async def test_the_same_with_await(home: Path) -> None:
    async with AsyncAgentMemory("ann", home=home, embedder="hash") as memory:
        history = AgentMemChatHistory(memory, "monday")
        await history.aadd_messages(MESSAGES)
        assert await history.aget_messages() == MESSAGES
        await history.aclear()
        assert await history.aget_messages() == []
