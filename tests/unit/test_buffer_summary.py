"""What becomes of the oldest messages: a summary first, then they go."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentmem import BufferMemory, ModelUnavailable
from agentmem.core.plain_values import has_visible
from agentmem.memory.working.buffer_search import LLMSummarizer, Message, summarize_extractive
from agentmem.settings.settings import load_settings
from tests.fakes.recorded_llm import RecordedLLM
from tests.flows.given import START

PROJECT = [
    "Hello!",
    "Let's set up the project Heron in Python 3.12.",
    "Which database?",
    "We take Postgres 16.",
    "ok",
    "The deadline is 4 May.",
    "Thanks!",
    "Anna reviews every change.",
    "Anna reviews every change.",
    "Good.",
]


def counted(first: int, last: int) -> list[str]:
    return [str(number) for number in range(first, last + 1)]


def filled(buffer: BufferMemory, count: int) -> BufferMemory:
    for number in range(1, count + 1):
        buffer.add(str(number))
    return buffer


def messages(texts: Sequence[str]) -> list[Message]:
    return [Message(role="user", content=text, timestamp=START, number=at) for at, text in enumerate(texts, 1)]


def test_message_51_makes_a_summary_of_the_first_10() -> None:
    asked: list[list[str]] = []

    def summarizer(batch: Sequence[Message]) -> str:
        asked.append([message.content for message in batch])
        return "User discussed project setup..."

    buffer = filled(BufferMemory.summarizing(summarizer=summarizer), 50)
    assert ([message.content for message in buffer.messages], buffer.summaries) == (counted(1, 50), [])
    buffer.add("51")
    assert asked == [counted(1, 10)]
    assert [message.content for message in buffer.messages] == counted(11, 51)
    (summary,) = buffer.summaries
    assert (summary.role, summary.content, summary.covers) == ("summary", "User discussed project setup...", (1, 10))


def test_the_sizes_are_those_of_the_settings() -> None:
    sizes = BufferMemory.summarizing().sizes
    assert (sizes.max_messages, sizes.summary_batch, sizes.max_summaries, sizes.max_size) == (50, 10, 500, 50)
    options = load_settings(buffer={"size": 4, "multiplier": 3, "batch": 2, "recency_bias": 0.5}).buffer
    buffer = BufferMemory.summarizing(options=options)
    sizes = buffer.sizes
    assert (sizes.max_messages, sizes.summary_batch, sizes.max_summaries, sizes.recency_bias) == (4, 2, 12, 0.5)
    filled(buffer, 60)
    assert len(buffer.summaries) == 12, "the oldest summaries go"
    assert [summary.covers for summary in buffer.summaries][-1] == (55, 56)


def test_summaries_are_found_like_messages() -> None:
    buffer = BufferMemory.summarizing("hash", lambda batch: "They set up Heron with Postgres.")
    filled(buffer, 51)
    found = buffer.search("Which database does Heron use, Postgres?", 1)
    assert (found[0].message.role, found[0].message.covers) == ("summary", (1, 10))


def test_a_summary_bears_only_the_metadata_that_all_of_its_messages_have() -> None:
    buffer = BufferMemory(2, 1, summarizer="extractive", summary_batch=2)
    for user, text in (("a", "one"), ("b", "two"), ("b", "three"), ("b", "four"), ("b", "five")):
        buffer.add(text, metadata={"user_id": user, "team": 1})
    assert [summary.metadata for summary in buffer.summaries] == [{"team": 1}, {"user_id": "b", "team": 1}]
    assert [each.message.content for each in buffer.search("x", filter_metadata={"user_id": "a"})] == []


@pytest.mark.parametrize("bad", [ValueError("secret words"), " ", None, 7, ModelUnavailable("away")])
def test_a_summarizer_that_fails_loses_nothing_and_is_told(bad: object, caplog: pytest.LogCaptureFixture) -> None:
    answers: list[object] = [bad, bad, "At last."]

    def summarizer(batch: Sequence[Message]) -> str:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[return-value]

    buffer = BufferMemory.summarizing(summarizer=summarizer)
    with caplog.at_level(logging.WARNING, logger="agentmem"):
        filled(buffer, 61)
    assert [summary.covers for summary in buffer.summaries] == [(1, 10), (11, 20)]
    assert buffer.summaries[0].content == summarize_extractive(messages(counted(1, 10)))
    assert [message.content for message in buffer.messages] == counted(21, 61)
    assert len(buffer.notices) == 1
    assert "summarizer failed" in buffer.notices[0]
    events = [json.loads(record.getMessage())["event"] for record in caplog.records]
    assert events == ["summarizer_failed"], "said once"
    assert "secret words" not in caplog.text
    filled(buffer, 10)
    assert (buffer.summaries[-1].content, buffer.notices) == ("At last.", ())


def test_messages_stay_until_their_summary_is_there() -> None:
    asked, answer = threading.Event(), threading.Event()

    async def summarizer(batch: Sequence[Message]) -> str:
        asked.set()
        await asyncio.to_thread(answer.wait, 10)
        return "Late."

    buffer = filled(BufferMemory.summarizing(summarizer=summarizer), 50)
    thread = threading.Thread(target=buffer.add, args=("51",))
    thread.start()
    assert asked.wait(10)
    buffer.add("52")
    assert [message.content for message in buffer.messages] == counted(1, 52)
    assert buffer.search("anything", 1)[0].message.content == "52", "a search does not wait"
    answer.set()
    thread.join()
    assert [message.content for message in buffer.messages] == counted(11, 52)
    assert [summary.content for summary in buffer.summaries] == ["Late."]


def test_what_was_cleared_meanwhile_gets_no_summary() -> None:
    def summarizer(batch: Sequence[Message]) -> str:
        buffer.clear()
        return "Of what was cleared."

    buffer = BufferMemory(2, 1, summarizer=summarizer, summary_batch=2)
    filled(buffer, 3)
    assert (len(buffer), buffer.summaries) == (0, [])


def test_a_language_model_is_asked_with_the_messages_as_data() -> None:
    model = RecordedLLM({"summary": " They chose Postgres 16. "})
    buffer = BufferMemory.summarizing(summarizer=LLMSummarizer(model.structured()))
    for text in [*PROJECT, *counted(11, 51)]:
        buffer.add(text, role="user")
    assert [summary.content for summary in buffer.summaries] == ["They chose Postgres 16."]
    (request,) = model.requests
    assert request.purpose == "summary"
    assert [message["text"] for message in json.loads(request.content)["messages"]] == PROJECT
    silent = BufferMemory.summarizing(summarizer=LLMSummarizer(RecordedLLM(ModelUnavailable("away")).structured()))
    assert filled(silent, 51).summaries[0].content == summarize_extractive(messages(counted(1, 10)))


def test_a_summarizer_that_would_wait_for_itself_fails_instead() -> None:
    async def summarizer(batch: Sequence[Message]) -> str:
        return buffer.search("who waits for whom?")[0].message.content  # blocks the loop that it runs on

    buffer = BufferMemory(2, 1, "hash", summarizer=summarizer)
    filled(buffer, 3)
    assert "RuntimeError" in buffer.notices[0]
    assert buffer.summaries[0].covers == (1, 2)


def test_an_extractive_summary_takes_the_sentences_that_say_most() -> None:
    short = summarize_extractive(messages(PROJECT), max_chars=110)
    assert short == "user: Let's set up the project Heron in Python 3.12. We take Postgres 16. The deadline is 4 May."
    whole = summarize_extractive(messages(PROJECT))
    assert whole.count("Anna reviews every change.") == 1, "each part once"
    assert "Which database? We take Postgres 16." in whole, "where there is room, nothing is left out"
    log = [Message(role="tool", content="word " * 200, timestamp=START), *messages(["Deploy on 4 May", "Yes"])]
    assert summarize_extractive(log, max_chars=100) == f"tool: {('word ' * 10)[:49]}\u2026 user: Deploy on 4 May; Yes"


@settings(max_examples=25)
@given(st.lists(st.text(min_size=1).filter(has_visible), min_size=1, max_size=8), st.integers(20, 300))
def test_an_extractive_summary_of_anything_is_short_and_repeatable(texts: list[str], longest: int) -> None:
    of = messages([text.encode("utf-8", "ignore").decode().strip() or "x" for text in texts])
    made = summarize_extractive(of, longest)
    assert made.strip()
    assert len(made) <= longest
    assert made == summarize_extractive(of, longest)
