"""`BufferMemory` as a caller sees it: what it keeps, what it takes, what it refuses, and many threads at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from agentmem import BufferMemory, ConfigError, InvalidRecord
from agentmem.memory.working.buffer_search import Message
from tests.fakes.moody_embedder import FlakyEmbedder
from tests.flows.given import START, ManualClock


def said(messages: list[Message]) -> list[str]:
    return [message.content for message in messages]


def test_a_window_of_5_times_10_keeps_the_last_50_messages() -> None:
    buffer = BufferMemory(max_size=5, buffer_multiplier=10, recency_bias=0.3)
    buffer.add("user", "Hello, my name is Alice.")
    buffer.add("assistant", "Hello Alice! How can I help you today?")
    for number in range(60):
        buffer.add("user", f"Message {number}")
    assert len(buffer) == buffer.sizes.max_messages == 50
    assert said(buffer.messages) == [f"Message {number}" for number in range(10, 60)]
    assert said(buffer.recent()) == [f"Message {number}" for number in range(55, 60)], "the context window"
    assert said(buffer.recent(2)) == ["Message 58", "Message 59"]
    found = buffer.search("Message 12")
    assert said([each.message for each in found]) == [f"Message {number}" for number in range(59, 54, -1)]
    assert buffer.summaries == []


def test_the_defaults_are_the_documents() -> None:
    sizes = BufferMemory().sizes
    assert (sizes.max_size, sizes.buffer_multiplier, sizes.max_messages, sizes.recency_bias) == (10, 10, 100, 0.3)


@pytest.mark.parametrize(
    "preset, window, kept, bias",
    [
        (BufferMemory.high_recall, 15, 300, 0.1),
        (BufferMemory.conversational, 10, 50, 0.6),
        (BufferMemory.balanced, 10, 100, 0.3),
    ],
)
def test_presets(preset: Callable[..., BufferMemory], window: int, kept: int, bias: float) -> None:
    buffer = preset("hash", summary_batch=3)
    assert (buffer.sizes.max_size, buffer.sizes.max_messages, buffer.sizes.recency_bias) == (window, kept, bias)
    assert buffer.sizes.summary_batch == 3
    buffer.close()


def test_both_ways_to_add_say_the_same() -> None:
    buffer = BufferMemory(clock=ManualClock())
    by_role = buffer.add("assistant", "I can.")
    by_name = buffer.add("I can.", role="assistant")
    assert by_role == by_name.model_copy(update={"number": 1})
    plain = buffer.add("Hello")
    assert (plain.role, plain.content, plain.timestamp, plain.metadata, plain.number) == ("user", "Hello", START, {}, 3)
    given = buffer.add("Hi", metadata={"page": [1, (2,)]}, timestamp=datetime(2020, 1, 1))
    assert (given.metadata, given.timestamp) == ({"page": [1, [2]]}, datetime(2020, 1, 1, tzinfo=UTC))


def test_what_was_given_stays_as_it_was_given() -> None:
    metadata = {"tags": ["a"]}
    buffer = BufferMemory()
    buffer.add("Hello", metadata=metadata)
    metadata["tags"].append("b")
    assert buffer.messages[0].metadata == {"tags": ["a"]}


@pytest.mark.parametrize(
    "wrong, field",
    [
        (lambda b: b.add(" "), "content"),
        (lambda b: b.add("x", {"user_id": "a"}), "content"),
        (lambda b: b.add("user", "x", "y"), "content"),
        (lambda b: b.add("user", "x", role="user"), "content"),
        (lambda b: b.add(7), "content"),
        (lambda b: b.add("x", role=""), "role"),
        (lambda b: b.add("x", metadata={"at": datetime(2020, 1, 1, tzinfo=UTC)}), "metadata"),
        (lambda b: b.add("x", metadata={"n": float("nan")}), "metadata"),
        (lambda b: b.add("x", metadata=["a"]), "metadata"),
        (lambda b: b.add("x", timestamp="yesterday"), "timestamp"),
        (lambda b: b.recent(0), "limit"),
        (lambda b: b.search(""), "query"),
        (lambda b: b.search("x" * 10_001), "query"),
        (lambda b: b.search("x", limit=0), "limit"),
        (lambda b: b.search("x", recency_bias=1.5), "recency_bias"),
        (lambda b: b.search("x", filter_metadata=["a"]), "filter_metadata"),
        (lambda b: b.search("x", query_vector=[1.0, 2.0]), "query_vector"),
        (lambda b: b.search("x", query_vector=[0.0] * 128), "query_vector"),
        (lambda b: b.search("x", query_vector=["a"] * 128), "query_vector"),
        (lambda b: BufferMemory(max_size=0), "max_size"),
        (lambda b: BufferMemory(buffer_multiplier=0), "buffer_multiplier"),
        (lambda b: BufferMemory(recency_bias=2), "recency_bias"),
        (lambda b: BufferMemory(capacity=0), "capacity"),
        (lambda b: BufferMemory(summary_batch=0), "summary_batch"),
        (lambda b: BufferMemory(max_summaries=0), "max_summaries"),
    ],
)
def test_bad_input_is_refused_with_the_name_of_the_field(wrong: Callable[[BufferMemory], Any], field: str) -> None:
    buffer = BufferMemory(embedder=FlakyEmbedder())
    buffer.add("before")
    with pytest.raises(InvalidRecord, match=field) as refused:
        wrong(buffer)
    assert refused.value.field == field
    assert said(buffer.messages) == ["before"]


def test_models_that_cannot_be_opened_are_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="nobody"):
        BufferMemory(embedder="nobody:x")
    with pytest.raises(ConfigError, match="nobody"):
        BufferMemory(summarizer="nobody:x")
    with pytest.raises(ConfigError, match="extractive"):
        BufferMemory(summarizer="none")


def test_a_buffer_closes_what_it_opened_and_nothing_else() -> None:
    mine = FlakyEmbedder()
    with BufferMemory(embedder=mine) as buffer:
        buffer.add("Hello")
    assert not mine.closed
    with BufferMemory(embedder="hash") as named:
        named.add("Hello")
        assert named.search("hello")[0].semantic == 1.0
    with pytest.raises(Exception, match="closed"):
        named.search("hello again")


def test_clear_forgets_everything_and_goes_on() -> None:
    buffer = BufferMemory(2, 1, "hash", summarizer="extractive")
    for number in range(5):
        buffer.add(f"Message {number}")
    buffer.clear()
    assert (len(buffer), buffer.summaries, buffer.search("message")) == (0, [], [])
    assert buffer.add("again").number == 6
    assert repr(buffer) == "BufferMemory(1 of 2 messages, 0 summaries)"


THREADS, EACH = 8, 40


@pytest.mark.parametrize("summarizer", [None, "extractive"])
def test_many_threads_add_and_search(summarizer: str | None) -> None:
    buffer = BufferMemory(10, 5, "hash", summarizer=summarizer, summary_batch=7)
    failures: list[BaseException] = []

    def work(thread: int) -> None:
        try:
            for number in range(EACH):
                buffer.add(f"Thread {thread} says {number}", metadata={"thread": thread})
                mine = buffer.search(f"says {number}", 5, {"thread": thread})
                assert all(each.message.metadata == {"thread": thread} for each in mine)
                assert len(buffer.recent()) <= 10
                buffer.to_json(vectors=True)
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    kept = [message.number for message in buffer.messages]
    assert kept == list(range(THREADS * EACH - len(kept) + 1, THREADS * EACH + 1)), "the newest, each once"
    assert len(kept) == 50 if summarizer is None else 44 <= len(kept) <= 50
    if summarizer is not None:
        ranges = [summary.covers for summary in buffer.summaries]
        covered = [number for covers in ranges if covers for number in range(covers[0], covers[1] + 1)]
        assert covered == list(range(1, kept[0])), "each message is kept or in one summary"
