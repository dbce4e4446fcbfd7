"""A buffer as JSON: all of it comes back, with its vectors if wanted, and nothing wrong is taken in."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentmem import BufferMemory, InvalidRecord
from agentmem.core.plain_values import has_visible
from tests.fakes.moody_embedder import FlakyEmbedder
from tests.flows.given import ManualClock

TEXTS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=30).filter(has_visible)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)
MESSAGES = st.tuples(
    TEXTS,
    st.sampled_from(["user", "assistant", "tool"]),
    st.dictionaries(st.text(max_size=5), VALUES, max_size=2),
    st.datetimes(timezones=st.just(UTC)),
)


@settings(max_examples=25)
@given(st.lists(MESSAGES, max_size=12), st.integers(1, 4), st.booleans(), st.booleans())
def test_all_of_a_buffer_comes_back(
    given_messages: list[tuple[str, str, dict[str, Any], datetime]], window: int, summarising: bool, vectors: bool
) -> None:
    summarizer = "extractive" if summarising else None
    buffer = BufferMemory(window, 2, FlakyEmbedder(), 0.4, summarizer, summary_batch=2, max_summaries=3)
    for content, role, metadata, at in given_messages:
        buffer.add(content, role=role, metadata=metadata, timestamp=at)
    found = buffer.search("anything", 100)
    back = BufferMemory.from_json(buffer.to_json(vectors=vectors), embedder=FlakyEmbedder(), summarizer=summarizer)
    assert (back.messages, back.summaries, back.sizes) == (buffer.messages, buffer.summaries, buffer.sizes)
    assert back.search("anything", 100) == found
    assert back.to_json(vectors=vectors) == buffer.to_json(vectors=vectors)
    assert back.add("more").number == len(given_messages) + 1


def filled() -> BufferMemory:
    buffer = BufferMemory(2, 2, FlakyEmbedder(), summarizer="extractive", clock=ManualClock())
    for text in ("green tea", "black coffee", "milk", "water", "juice"):
        buffer.add(text)
    buffer.search("drink")
    return buffer


def test_with_vectors_nothing_is_embedded_again() -> None:
    text = filled().to_json(vectors=True)
    embedder = FlakyEmbedder()
    back = BufferMemory.from_json(text, embedder=embedder)
    assert back.search("juice", 1)[0].message.content == "juice"
    assert embedder.texts == []
    other = BufferMemory.from_json(text, embedder="hash")
    assert other.search("juice", 1)[0].message.content == "juice", "vectors of another embedder are left out"
    assert "vectors" not in json.loads(filled().to_json()) or json.loads(filled().to_json())["vectors"] is None


def test_without_models_a_buffer_still_opens() -> None:
    back = BufferMemory.from_json(filled().to_json(vectors=True))
    assert [each.message.content for each in back.search("x", 2)] == [
        "juice",
        "user: green tea; black coffee; milk; water",
    ]
    back.add("late", timestamp=datetime(2030, 1, 1, tzinfo=UTC) + timedelta(days=1))
    assert len(back) == 2


def changed(change: Callable[[Any], Any]) -> str:
    state = json.loads(filled().to_json(vectors=True))
    change(state)
    return json.dumps(state)


@pytest.mark.parametrize(
    "text, field",
    [
        ("", "buffer"),
        ("[]", "buffer"),
        ("[" * 100_000, "buffer"),
        (changed(lambda s: s.update(version=2)), "version"),
        (changed(lambda s: s.update(more=1)), "more"),
        (changed(lambda s: s.pop("messages")), "messages"),
        (changed(lambda s: s["messages"].reverse() or s["messages"].append(s["messages"][0])), "buffer"),
        (changed(lambda s: s.update(count=1)), "buffer"),
        (changed(lambda s: s["messages"][0].update(content="")), "messages.0.content"),
        (changed(lambda s: s["sizes"].update(max_size=0)), "sizes.max_size"),
        (changed(lambda s: s["vectors"].update(embedder="hash")), "vectors.embedder"),
        (changed(lambda s: s["vectors"]["values"].pop()), "vectors"),
        (changed(lambda s: s["vectors"].update(values=["?"] * len(s["vectors"]["values"]))), "vectors"),
        (changed(lambda s: s["vectors"].update(values=["AAAA"] * len(s["vectors"]["values"]))), "vectors"),
        (changed(lambda s: s["vectors"].update(embedder="hash:v1:1", values=["AADAfw=="] * 2)), "vectors"),
    ],
)
def test_what_is_no_buffer_is_refused_with_the_field(text: str, field: str) -> None:
    with pytest.raises(InvalidRecord) as refused:
        BufferMemory.from_json(text, embedder=FlakyEmbedder())
    assert refused.value.field == field
