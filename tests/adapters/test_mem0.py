"""The classes of mem0 over a memory of ours: its verbs, arguments, answers and errors, without its package."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from agentmem import AgentMemory, Closed, ConfigError, InvalidRecord, ScopeError
from agentmem.adapters.mem0 import AsyncMemory, Memory
from docs.examples.adapters import mem0_memory

PEANUTS = "I am allergic to peanuts."
ALLERGY = "The user is allergic to peanuts"
ANN: dict[str, Any] = {"user_id": "ann"}
BOB: dict[str, Any] = {"user_id": "bob"}
NO_ID = "3f2504e0-4f89-11d3-9a0c-0305e82c3301"
AT_ONCE = 20

# Each is refused by mem0 2.2.1 with a ValueError or an error of its own.
REFUSED: dict[str, tuple[str, tuple[Any, ...], dict[str, Any]]] = {
    "add for nobody": ("add", ("x",), {}),
    "add a number": ("add", (3,), ANN),
    "add numbers": ("add", ([3],), ANN),
    "add with a user of two words": ("add", ("x",), {"user_id": "ann lee"}),
    "add with an empty user": ("add", ("x",), {"user_id": " "}),
    "add with a memory type": ("add", ("x",), {**ANN, "memory_type": "semantic"}),
    "add with a day that is none": ("add", ("x",), {**ANN, "infer": False, "expiration_date": "soon"}),
    "search for nobody": ("search", ("x",), {}),
    "search with a user beside the filters": ("search", ("x",), ANN),
    "search with an empty filter": ("search", ("x",), {"filters": {"user_id": ""}}),
    "search for nothing": ("search", (" ",), {"filters": ANN}),
    "search with a date": ("search", ("x",), {"filters": ANN, "reference_date": "2025-01-01"}),
    "search with a threshold above 1": ("search", ("x",), {"filters": ANN, "threshold": 2}),
    "search with half a result": ("search", ("x",), {"filters": ANN, "top_k": 1.5}),
    "list of nobody": ("get_all", (), {}),
    "list of less than nothing": ("get_all", (), {"filters": ANN, "top_k": -1}),
    "update without a change": ("update", (NO_ID,), {}),
    "update of none": ("update", (NO_ID, "x"), {}),
    "delete of none": ("delete", (NO_ID,), {}),
    "delete all of nobody": ("delete_all", (), {}),
}
# Served by mem0, or ignored, where doing the same would say or lose something else than was asked.
ALSO_REFUSED: dict[str, tuple[str, tuple[Any, ...], dict[str, Any]]] = {
    "add with instructions": ("add", ("x",), {**ANN, "prompt": "Never store health data."}),
    "add with a last day of what is read": ("add", ("x",), {**ANN, "expiration_date": "2099-01-01"}),
    "add with a user who is anybody": ("add", ("x",), {"user_id": "*"}),
    "search with an operator": ("search", ("x",), {"filters": {**ANN, "topic": {"in": ["a"]}}}),
    "search with alternatives": ("search", ("x",), {"filters": {**ANN, "OR": [{"topic": "a"}]}}),
    "search among the expired": ("search", ("x",), {"filters": ANN, "show_expired": True}),
    "update of metadata": ("update", (NO_ID, "x", {"topic": "a"}), {}),
}
HOSTILE = ["", " ", "*", "@", "x@", "@ann", f"{NO_ID}@_system", f"{NO_ID}@*", "\x00", "\ud800", "a\nb", "x" * 10_000]


@pytest.fixture
def memory(home: Path) -> Iterator[Memory]:
    """A memory of mem0's face."""
    with Memory(home, embedder="hash") as opened:
        yield opened


@pytest.fixture
async def async_memory(home: Path) -> AsyncIterator[AsyncMemory]:
    """The same for coroutines."""
    async with AsyncMemory(home, embedder="hash") as opened:
        yield opened


def keep(memory: Memory, *texts: str, **more: Any) -> list[str]:
    """The ids of messages that are kept as they are, Ann's if nobody else is named."""
    messages = [{"role": "user", "content": text} for text in texts]
    added = memory.add(
        messages, infer=False, **(more if more.keys() & {"user_id", "agent_id", "run_id"} else ANN | more)
    )
    return [each["id"] for each in added["results"]]


def list_texts(memory: Memory, **filters: Any) -> list[str]:
    """The memories that match filters, latest first."""
    return [each["memory"] for each in memory.get_all(filters=filters, top_k=1000)["results"]]


def search_texts(memory: Memory, query: str, **filters: Any) -> list[str]:
    """The memories for a query that match filters, best first."""
    return [each["memory"] for each in memory.search(query, filters=filters)["results"]]


# -- each verb


def test_a_message_kept_as_it_is_looks_as_in_mem0(memory: Memory) -> None:
    said = [{"role": "user", "content": "I like tea", "name": "bob"}, {"role": "assistant", "content": "Noted."}]
    told = memory.add(said, user_id="ann", run_id="r1", metadata={"topic": "food"}, infer=False)
    assert told == {
        "results": [
            {"id": each["id"], "memory": text, "event": "ADD", "actor_id": name, "role": role}
            for each, (text, name, role) in zip(
                told["results"], [("I like tea", "bob", "user"), ("Noted.", None, "assistant")], strict=True
            )
        ]
    }
    tea = memory.get(told["results"][0]["id"])
    assert tea is not None
    assert datetime.fromisoformat(tea.pop("created_at")) <= datetime.fromisoformat(tea.pop("updated_at"))
    assert tea == {
        "id": told["results"][0]["id"],
        "memory": "I like tea",
        "hash": hashlib.md5(b"I like tea").hexdigest(),
        "metadata": {"topic": "food"},
        "score": None,
        "user_id": "ann",
        "run_id": "r1",
        "actor_id": "bob",
        "role": "user",
    }
    [noted, listed] = memory.get_all(filters=ANN)["results"]
    assert (noted["memory"], listed["id"], "actor_id" in noted, "score" in listed) == (
        "Noted.",
        tea["id"],
        False,
        False,
    )


def test_a_text_a_message_and_several_are_taken_and_instructions_are_not(memory: Memory) -> None:
    system = {"role": "system", "content": "You are a helpful assistant. The user likes coffee."}
    for messages in ("I like tea", {"role": "user", "content": "I like rain"}, [system, {"content": "I like snow"}]):
        assert len(memory.add(messages, user_id="ann", infer=False)["results"]) == 1
    assert list_texts(memory, **ANN) == ["I like snow", "I like rain", "I like tea"]
    assert memory.add([system], user_id="ann") == memory.add([], user_id="ann") == {"results": []}


def test_what_a_message_says_is_read_without_a_model(memory: Memory) -> None:
    told = memory.add(f"{PEANUTS} ", user_id="ann", metadata={"topic": "health"})
    assert [(each["memory"], each["event"], set(each)) for each in told["results"]] == [
        (ALLERGY, "ADD", {"id", "memory", "event"})
    ]
    plain = memory.add("The deploy key rotates on Fridays", user_id="ann")
    assert [each["memory"] for each in plain["results"]] == ["The deploy key rotates on Fridays"]
    assert "Nothing was read" in plain["notices"][0]


def test_what_is_said_again_is_known_and_another_value_takes_its_place(memory: Memory) -> None:
    told = [memory.add(text, user_id="ann") for text in ("I live in Paris.", "I live in Paris.", "I live in Oslo now.")]
    assert [each["results"][0]["event"] for each in told] == ["ADD", "NONE", "UPDATE"]
    assert list_texts(memory, **ANN) == ["The user lives in Oslo"]


def test_a_search_ranks_and_scores_relative_to_the_best(memory: Memory) -> None:
    keep(memory, PEANUTS, "The deploy key rotates on Fridays", "It rains in Oslo")
    found = memory.search("peanuts", filters=ANN, explain=True)["results"]
    assert (found[0]["memory"], found[0]["score"], len(found)) == (PEANUTS, 1.0, 3)
    scores = [each["score"] for each in found]
    assert scores == sorted(scores, reverse=True)
    assert scores[-1] < 0.5
    assert found[0]["score_details"]["why"]
    assert "score_details" not in memory.search("peanuts", filters=ANN)["results"][0]
    assert search_texts(memory, "peanuts", **ANN) == [each["memory"] for each in found]
    assert [each["score"] for each in memory.search("peanuts", filters=ANN, threshold=0.5)["results"]] == [1.0]
    assert [each["memory"] for each in memory.search("peanuts", filters=ANN, top_k=1)["results"]] == [PEANUTS]
    assert memory.search("peanuts", filters=ANN, top_k=0) == {"results": []}


def test_filters_choose_by_run_and_metadata(memory: Memory) -> None:
    keep(memory, "It is Monday", user_id="ann", run_id="r1", metadata={"topic": "days"})
    keep(memory, "It is Tuesday", user_id="ann", run_id="r2", metadata={"topic": "days", "kind": 2})
    keep(memory, "It rains", user_id="ann", run_id="r2", metadata={"topic": "weather"})
    assert list_texts(memory, **ANN, run_id="r2") == ["It rains", "It is Tuesday"]
    assert list_texts(memory, **ANN, topic="days", AND=[{"run_id": "*"}]) == ["It is Tuesday", "It is Monday"]
    assert list_texts(memory, **ANN, AND=[{"topic": "days"}, {"kind": 2}]) == ["It is Tuesday"]
    assert search_texts(memory, "It", **ANN, run_id="r2", topic="weather") == ["It rains"]
    assert list_texts(memory, **ANN, topic="food") == search_texts(memory, "It", **ANN, topic="food") == []
    assert len(memory.get_all(filters=ANN, top_k=2)["results"]) == 2


def test_an_update_keeps_the_id_and_the_history_tells_it(memory: Memory) -> None:
    [name] = keep(memory, "I like tea")
    assert memory.update(name, text="I like coffee") == {"message": "Memory updated successfully!"}
    assert memory.update(memory_id=name, data="I like cocoa")["message"]
    found = memory.get(name)
    assert found is not None
    assert (found["id"], found["memory"], list_texts(memory, **ANN)) == (name, "I like cocoa", ["I like cocoa"])
    assert memory.delete(name) == {"message": "Memory deleted successfully!"}
    assert memory.get(name) is None
    assert list_texts(memory, **ANN) == search_texts(memory, "tea coffee cocoa", **ANN) == []
    history = memory.history(name)
    assert [(each["event"], each["old_memory"], each["new_memory"], each["is_deleted"]) for each in history] == [
        ("ADD", None, "I like tea", False),
        ("UPDATE", "I like tea", "I like coffee", False),
        ("UPDATE", "I like coffee", "I like cocoa", False),
        ("DELETE", "I like cocoa", None, True),
    ]
    times = [datetime.fromisoformat(each["updated_at"]) for each in history]
    assert times == sorted(times)
    keys = {"id", "memory_id", "old_memory", "new_memory", "event", "created_at", "updated_at", "is_deleted"}
    assert set(history[0]) == keys | {"actor_id", "role"}
    assert {(each["memory_id"], each["role"]) for each in history} == {(name, "user")}
    with pytest.raises(ValueError, match="no memory"):
        memory.delete(name)


def test_a_memory_ends_after_its_last_day(memory: Memory) -> None:
    [kept] = keep(memory, "I like tea", user_id="ann", expiration_date=date(2099, 1, 1))
    [other] = keep(memory, "I like rain", user_id="ann", expiration_date=datetime(2099, 1, 1, 12, tzinfo=UTC))
    shown = [each["expiration_date"] for each in memory.get_all(filters=ANN)["results"]]
    assert shown == ["2099-01-01", "2099-01-01"]
    memory.update(kept, expiration_date="2020-01-01")
    assert list_texts(memory, **ANN) == ["I like rain"]
    assert "I like tea" not in search_texts(memory, "tea", **ANN)
    everything = memory.get_all(filters=ANN, show_expired=True)["results"]
    assert {each["memory"]: each["expiration_date"] for each in everything} == {
        "I like tea": "2020-01-01",
        "I like rain": "2099-01-01",
    }
    memory.update(kept, expiration_date=None)
    assert "expiration_date" not in (memory.get(kept) or {"expiration_date": ""})
    memory.delete(other)
    assert list_texts(memory, **ANN) == ["I like tea"]


def test_a_moment_can_be_given(memory: Memory) -> None:
    memory.add("It rains", user_id="ann", infer=False, timestamp=1_700_000_000)
    assert memory.get_all(filters=ANN)["results"][0]["created_at"] == "2023-11-14T22:13:20+00:00"


def test_an_agent_has_memories_of_its_own_and_goes_with_its_user(memory: Memory) -> None:
    keep(memory, "I like tea")
    [plan] = keep(memory, "The plan is secret", user_id="ann", agent_id="scout")
    keep(memory, "A run of no user", run_id="r9")
    assert list_texts(memory, **ANN) == ["I like tea"]
    assert list_texts(memory, **ANN, agent_id="scout") == search_texts(memory, "plan", **ANN, agent_id="scout")
    found = memory.get(plan)
    assert found is not None
    assert (found["memory"], found["agent_id"]) == ("The plan is secret", "scout")
    assert list_texts(memory, run_id="r9") == ["A run of no user"]
    assert memory.delete_all(user_id="ann") == {"message": "Memories deleted successfully!"}
    assert list_texts(memory, **ANN) == list_texts(memory, **ANN, agent_id="scout") == []
    assert memory.get(plan) is None
    assert list_texts(memory, run_id="r9") == ["A run of no user"]


def test_only_what_is_named_is_deleted(memory: Memory) -> None:
    keep(memory, "I like tea", user_id="ann", run_id="r1")
    keep(memory, "I like rain", user_id="ann", run_id="r2")
    keep(memory, "My plan", user_id="ann", agent_id="scout", run_id="r2")
    memory.delete_all(user_id="ann", run_id="r2")
    assert (list_texts(memory, **ANN), list_texts(memory, **ANN, agent_id="scout")) == (["I like tea"], [])
    keep(memory, "My plan", user_id="ann", agent_id="scout")
    memory.delete_all("ann", "scout")
    assert (list_texts(memory, **ANN), list_texts(memory, **ANN, agent_id="scout")) == (["I like tea"], [])
    memory.delete_all(user_id="nobody")


# -- users


def test_users_see_nothing_of_each_other(memory: Memory) -> None:
    [anns] = keep(memory, "I like tea", user_id="ann", run_id="r1", metadata={"topic": "x"})
    keep(memory, "I like rum", user_id="bob", run_id="r1", metadata={"topic": "x"})
    keep(memory, "I like rain", user_id=7)
    for user, text in ((ANN, "I like tea"), (BOB, "I like rum"), ({"user_id": "7"}, "I like rain")):
        assert list_texts(memory, **user) == search_texts(memory, "What do I like?", **user) == [text]
    assert list_texts(memory, **BOB, topic="x", run_id="r1") == ["I like rum"]
    assert list_texts(memory, run_id="r1") == []  # nobody is named: the user of the constructor
    record_id = anns.partition("@")[0]
    for wrong in (f"{record_id}@bob", record_id):
        assert memory.get(wrong) is None
        with pytest.raises(ValueError, match="no memory"):
            memory.update(wrong, text="I like beer")
    memory.delete_all(user_id="bob")
    assert (list_texts(memory, **ANN), list_texts(memory, **BOB)) == (["I like tea"], [])


def test_a_user_with_an_at_sign_and_one_of_200_characters_have_ids_that_work(memory: Memory) -> None:
    for user in ("ann@example.com", "u" * 200):
        [name] = keep(memory, f"I am {user[:5]}", user_id=user)
        found = memory.get(name)
        assert found is not None
        assert found["user_id"] == user
        assert memory.update(name, text="I am here")["message"]
        assert [each["event"] for each in memory.history(name)] == ["ADD", "UPDATE"]
        memory.delete(name)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_ids_name_no_memory(memory: Memory, name: str) -> None:
    keep(memory, "I like tea")
    assert (memory.get(name), memory.history(name)) == (None, [])
    for verb in (memory.delete, lambda each: memory.update(each, text="x")):
        with pytest.raises(ValueError, match="no memory"):
            verb(name)
    assert list_texts(memory, **ANN) == ["I like tea"]


@pytest.mark.parametrize(
    "name", ["", " ", "*", "a b", "\x00", "a\nb", "\ud800", "x" * 201, "_system", True, ["ann"], 1.5]
)
def test_names_that_no_user_can_have_are_refused(memory: Memory, name: Any) -> None:
    filters = {"user_id": name}
    calls: list[Callable[[], Any]] = [
        lambda: memory.add("x", user_id=name),
        lambda: memory.delete_all(user_id=name),
        lambda: memory.get_all(filters=filters),
        lambda: memory.search("x", filters=filters),
    ]
    for call in calls:
        with pytest.raises((InvalidRecord, ScopeError)):
            call()


# -- errors


@pytest.mark.parametrize("case", [*REFUSED, *ALSO_REFUSED])
async def test_what_is_wrong_is_a_value_error_and_changes_nothing(home: Path, case: str) -> None:
    verb, args, named = {**REFUSED, **ALSO_REFUSED}[case]
    with Memory(home, embedder="hash") as memory:
        keep(memory, "I like tea")
        with pytest.raises(ValueError, match=r"\w"):
            await asyncio.to_thread(getattr(memory, verb), *args, **named)
        assert list_texts(memory, **ANN) == ["I like tea"]
    async with AsyncMemory(home, embedder="hash") as memory:
        with pytest.raises(ValueError, match=r"\w"):
            await getattr(memory, verb)(*args, **named)


def test_what_neither_knows_is_told_in_the_log(memory: Memory, caplog: pytest.LogCaptureFixture) -> None:
    keep(memory, "I like tea")
    assert memory.search("tea", filters=ANN, limit=5, rerank=True)["results"]
    assert [("mem0_argument_ignored" in each, '"limit"' in each) for each in caplog.messages] == [(True, True)]


def test_a_closed_memory_says_so(home: Path) -> None:
    memory = Memory(home, embedder="hash")
    memory.close()
    memory.close()
    with pytest.raises(Closed):
        memory.get_all(filters=ANN)


# -- opening


def test_all_is_there_after_a_restart_and_agentmem_reads_it(home: Path) -> None:
    with Memory(home, embedder="hash") as memory:
        [kept] = keep(memory, "I like tea", metadata={"topic": "food"})
        told = memory.add(PEANUTS, user_id="ann")["results"]
        memory.update(kept, text="I like coffee")
        before = memory.get_all(filters=ANN)
    with Memory(home, embedder="hash") as memory:
        assert memory.get_all(filters=ANN) == before
        assert [each["event"] for each in memory.history(kept)] == ["ADD", "UPDATE"]
        assert search_texts(memory, "peanuts", **ANN)[0] == told[0]["memory"] == ALLERGY
    with AgentMemory("ann", home=home, embedder="hash") as memory:
        assert ALLERGY in [fact.claim for fact in memory.remember("allergic?").facts]


def test_the_user_of_the_constructor_is_meant_where_none_is_named(home: Path) -> None:
    with Memory(home, user_id="ann", embedder="hash") as memory:
        [kept] = keep(memory, "I like tea", run_id="r1")
        assert "@" not in kept
        assert list_texts(memory, run_id="r1") == list_texts(memory, **ANN) == ["I like tea"]
        memory.delete(kept)


def test_a_configuration_of_mem0_opens_a_memory_and_says_what_it_leaves_out(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config: dict[str, Any] = {
        "vector_store": {"provider": "qdrant", "config": {"host": "localhost", "port": 6333}},
        "llm": {"provider": "openai", "config": {"model": "gpt-5-mini", "api_key": "secret"}},
        "embedder": {"provider": "openai", "config": {"model": "text-embedding-3-small"}},
        "history_db_path": "history.db",
        "version": "v1.1",
        "custom_instructions": None,
        "agentmem": {"home": home, "embedder": "hash", "user_id": "ann"},
    }
    with Memory.from_config(config) as memory:
        keep(memory, "I like tea")
    assert {name for each in caplog.messages for name in config if f'"{name}"' in each} == {
        *("vector_store", "llm", "embedder", "history_db_path", "version")
    }
    assert "secret" not in caplog.text
    again = AsyncMemory.from_config(config)
    assert [each["memory"] for each in asyncio.run(again.get_all(filters=ANN))["results"]] == ["I like tea"]
    again.close()


@pytest.mark.parametrize("wrong", [{"custom_instructions": "Never store health data."}, {"graph_store": {}}])
def test_a_configuration_that_would_mean_something_else_is_refused(wrong: dict[str, Any], home: Path) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        Memory.from_config({**wrong, "agentmem": {"home": home}})
    assert not home.exists()


def test_the_default_home_is_that_of_agentmem_and_is_not_reset(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTMEM_HOME", str(home))
    with pytest.raises(ConfigError, match="from_config"):
        Memory({"version": "v1.1"})  # type: ignore[arg-type]
    with Memory(embedder="hash") as memory:
        keep(memory, "I like tea")
        with pytest.raises(ConfigError, match="all users"):
            memory.reset()
        assert list_texts(memory, **ANN) == ["I like tea"]
    assert (home / "memory.db").exists()


def test_a_reset_leaves_nothing_of_anybody(memory: Memory, home: Path) -> None:
    names = [*keep(memory, "I like tea"), *keep(memory, "I like rum", user_id="bob"), *keep(memory, "x", run_id="r")]
    memory.delete(names[1])
    assert memory.reset() is None
    assert list_texts(memory, **ANN) == list_texts(memory, **BOB) == list_texts(memory, run_id="r") == []
    assert [memory.history(name) for name in names] == [[], [], []]
    assert not any(b"I like" in path.read_bytes() for path in home.rglob("*") if path.is_file())
    keep(memory, "I like tea")
    assert list_texts(memory, **ANN) == ["I like tea"]


def test_the_package_of_mem0_and_the_server_are_not_loaded(home: Path) -> None:
    script = (
        "import sys; from agentmem.adapters.mem0 import Memory; m = Memory(sys.argv[1], embedder='hash')\n"
        "m.add('I like tea', user_id='ann', infer=False); print({'mem0', 'fastapi', 'mcp'} & {*sys.modules})"
    )  # and without close, as programs of mem0 end
    run = subprocess.run([sys.executable, "-W", "error", "-c", script, str(home)], capture_output=True, text=True)
    assert (run.stdout, run.stderr) == ("set()\n", "")
    with Memory(home, embedder="hash") as memory:
        assert list_texts(memory, **ANN) == ["I like tea"]


# -- both classes


async def test_every_verb_does_the_same_for_coroutines(async_memory: AsyncMemory) -> None:
    told = await async_memory.add(PEANUTS, user_id="ann")
    kept = await async_memory.add("I like tea", user_id="ann", infer=False)
    [name] = [each["id"] for each in kept["results"]]
    assert [each["memory"] for each in (await async_memory.get_all(filters=ANN))["results"]] == ["I like tea", ALLERGY]
    found = await async_memory.search("peanuts", filters=ANN, top_k=1)
    assert [each["id"] for each in found["results"]] == [told["results"][0]["id"]]
    await async_memory.update(name, text="I like coffee")
    assert (await async_memory.get(name) or {})["memory"] == "I like coffee"
    await async_memory.delete(name)
    assert [each["event"] for each in await async_memory.history(name)] == ["ADD", "UPDATE", "DELETE"]
    await async_memory.delete_all(user_id="ann")
    assert await async_memory.get_all(filters=ANN) == {"results": []}
    await async_memory.reset()


def test_both_classes_have_the_same_verbs_and_arguments() -> None:
    verbs = ["add", "get", "get_all", "search", "update", "delete", "delete_all", "history", "reset", "close"]
    for verb in [*verbs, "from_config"]:
        assert inspect.signature(getattr(Memory, verb)) == inspect.signature(getattr(AsyncMemory, verb))
        assert getattr(Memory, verb).__doc__
    names = list(inspect.signature(Memory.add).parameters)[1:]
    assert names == [
        *("messages", "user_id", "agent_id", "run_id", "metadata", "timestamp", "expiration_date", "infer"),
        *("memory_type", "prompt"),
    ]
    assert list(inspect.signature(Memory.update).parameters)[1:] == [
        *("memory_id", "text", "metadata", "expiration_date", "data")
    ]


def test_an_async_memory_serves_several_event_loops(home: Path) -> None:
    memory = AsyncMemory(home, embedder="hash")
    for number in range(3):
        asyncio.run(memory.add(f"Number {number}", user_id="ann", infer=False))
    found = asyncio.run(memory.get_all(filters=ANN))
    assert [each["memory"] for each in found["results"]] == ["Number 2", "Number 1", "Number 0"]
    memory.close()


# -- many at once


def test_twenty_threads_lose_nothing_and_mix_nothing(memory: Memory) -> None:
    def use(number: int) -> list[str]:
        user = f"user{number % 4}"
        [name] = keep(memory, f"Thread {number} said this", user_id=user)
        memory.update(name, text=f"Thread {number} says that")
        memory.search("Thread", filters={"user_id": user})
        found = memory.get(name)
        return [name, found["memory"] if found is not None else ""]

    with ThreadPoolExecutor(AT_ONCE) as pool:
        results = list(pool.map(use, range(AT_ONCE)))
    assert [text for _, text in results] == [f"Thread {number} says that" for number in range(AT_ONCE)]
    assert len({name for name, _ in results}) == AT_ONCE
    for user in range(4):
        mine = {f"Thread {number} says that" for number in range(user, AT_ONCE, 4)}
        assert set(list_texts(memory, user_id=f"user{user}")) == mine


async def test_many_coroutines_read_facts_at_once(async_memory: AsyncMemory) -> None:
    async def add(number: int) -> None:
        await async_memory.add(f"I live in Town{number}.", user_id=f"user{number}")

    await asyncio.gather(*(add(number) for number in range(AT_ONCE)))
    for number in range(AT_ONCE):
        found = (await async_memory.get_all(filters={"user_id": f"user{number}"}))["results"]
        assert [each["memory"] for each in found] == [f"The user lives in Town{number}"]


# -- programs


def test_the_program_of_mem0s_readme_runs_with_the_import_changed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its shape: search, build a prompt, ask, add the whole conversation with the prompt."""
    monkeypatch.setenv("AGENTMEM_HOME", str(home))
    monkeypatch.setenv("AGENTMEM_EMBEDDER", "hash")
    memory, prompts = Memory(), []

    def chat(message: str, user_id: str = "default_user") -> None:
        found = memory.search(query=message, filters={"user_id": user_id}, top_k=3)
        known = "\n".join(f"- {entry['memory']}" for entry in found["results"])
        prompts.append(f"Answer from these memories.\n{known}")
        messages = [{"role": "system", "content": prompts[-1]}, {"role": "user", "content": message}]
        messages.append({"role": "assistant", "content": "Fine."})
        memory.add(messages, user_id=user_id)

    chat(PEANUTS)
    chat("What may I not eat?")
    memory.close()
    assert ALLERGY in prompts[-1]
    with Memory() as again:
        assert not any("Answer from" in text for text in list_texts(again, user_id="default_user"))


def test_the_example_knows_in_a_second_run_what_it_was_told(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AGENTMEM_HOME", str(home))
    monkeypatch.setenv("AGENTMEM_EMBEDDER", "hash")
    mem0_memory.main()
    assert "The user lives in Paris" in capsys.readouterr().out
    mem0_memory.main(["bob"])
    monkeypatch.setattr(mem0_memory, "SAID", ("Where do I live?",))
    mem0_memory.main()
    assert "The user lives in Paris" in capsys.readouterr().out.splitlines()[-1]
