"""How a buffer is searched: the formula, the filter, and what happens while the embedder is away."""

from __future__ import annotations

import json
import logging

import numpy as np
import pytest

from agentmem import BufferMemory
from agentmem.core.event_loop import BACKGROUND_LOOP
from agentmem.memory.working.buffer import MIN_CACHED_VECTORS
from agentmem.memory.working.buffer_search import EmbeddingCache, MessageMatch, blend_scores, cosines, recency
from tests.fakes.moody_embedder import FlakyEmbedder
from tests.flows.given import ManualClock


def said(found: list[MessageMatch]) -> list[str]:
    return [each.message.content for each in found]


def test_recency_rises_with_newness_where_the_documents_formula_rewards_the_oldest() -> None:
    ours = recency(10)
    documents = [1.0 - place / 10 for place in range(10)]  # place 0 is the oldest
    assert documents[0] == max(documents)
    assert [float(value) for value in ours] == pytest.approx(documents[::-1])
    assert (ours[-1], ours[0]) == (1.0, pytest.approx(0.1))
    assert len(recency(0)) == 0


def test_the_score_is_meaning_and_newness_by_their_shares() -> None:
    semantic, newness = np.array([0.8, 0.2, np.nan]), np.array([0.5, 1.0, 1.0])
    assert blend_scores(semantic, newness, 0.3) == pytest.approx([0.7 * 0.8 + 0.3 * 0.5, 0.7 * 0.2 + 0.3, 0.3])
    assert blend_scores(semantic, newness, 0.0) == pytest.approx([0.8, 0.2, 0.0])
    assert list(blend_scores(semantic, newness, 1.0)) == [0.5, 1.0, 1.0]


def test_meaning_is_the_cosine_where_the_document_has_one_over_one_plus_distance() -> None:
    query = np.array([1.0, 0.0], np.float32)
    texts = [np.array([0.6, 0.8], np.float32), np.array([0.0, 1.0], np.float32), None]
    ours = cosines(query, texts)
    assert ours[:2] == pytest.approx([0.6, 0.0])
    assert np.isnan(ours[2])
    documents = [1 / (1 + float(((text - query) ** 2).sum())) for text in texts if text is not None]
    assert documents == pytest.approx([1 / 1.8, 1 / 3])
    assert np.argsort(ours[:2]).tolist() == np.argsort(documents).tolist(), "the same order"
    assert ours[0] - ours[1] > 2 * (documents[0] - documents[1]), "and a wider range beside recency"


def test_a_search_gives_what_is_near_and_new_with_its_reasons() -> None:
    buffer = BufferMemory(embedder="hash")
    for text in ["The harbour is frozen.", "I like tea.", "It rains in Bergen.", "The harbour is open again."]:
        buffer.add(text)
    found = buffer.search("Is the harbour frozen?", recency_bias=0.0)
    assert said(found)[0] == "The harbour is frozen."
    for each in found:
        assert each.semantic is not None
        assert each.score == pytest.approx(each.semantic, abs=1e-6)
    assert said(buffer.search("Is the harbour frozen?", recency_bias=1.0)) == [
        "The harbour is open again.",
        "It rains in Bergen.",
        "I like tea.",
        "The harbour is frozen.",
    ]
    for each in buffer.search("harbour"):
        assert each.semantic is not None
        assert each.score == pytest.approx(0.7 * each.semantic + 0.3 * each.recency, abs=1e-6)
    assert len(buffer.search("harbour", 2)) == 2


def test_equal_scores_go_to_the_newer_message() -> None:
    buffer = BufferMemory(embedder="hash", recency_bias=0.0)
    for _ in range(3):
        buffer.add("tea")
    assert [each.message.number for each in buffer.search("tea")] == [3, 2, 1]


def test_metadata_part_a_buffer_by_user() -> None:
    for embedder in ("hash", None):
        buffer = BufferMemory(max_size=5, buffer_multiplier=10, embedder=embedder)
        buffer.add("I'm Alice", metadata={"user_id": "user1", "team": None})
        buffer.add("I'm Bob", metadata={"user_id": "user2"})
        buffer.add("I'm nobody")
        assert said(buffer.search("alice", filter_metadata={"user_id": "user1"})) == ["I'm Alice"]
        assert said(buffer.search("bob", filter_metadata={"user_id": "user2"})) == ["I'm Bob"]
        assert said(buffer.search("alice", filter_metadata={"team": None})) == ["I'm Alice"]
        assert buffer.search("alice", filter_metadata={"user_id": "user1", "team": "a"}) == []
        assert buffer.search("alice", filter_metadata={"user_id": "user3"}) == []


def test_true_is_not_one_in_a_filter() -> None:
    buffer = BufferMemory()
    buffer.add("x", metadata={"user_id": 1, "at": {"a": 1, "b": 2}})
    assert buffer.search("x", filter_metadata={"user_id": True}) == []
    assert len(buffer.search("x", filter_metadata={"at": {"b": 2, "a": 1}})) == 1


def test_a_given_vector_spares_the_query() -> None:
    embedder = FlakyEmbedder()
    buffer = BufferMemory(embedder=embedder, recency_bias=0.0)
    for text in ("green tea", "black coffee"):
        buffer.add(text)
    vector = 5 * BACKGROUND_LOOP.run(embedder.embed(["green tea"]))[0]
    found = buffer.search("", query_vector=vector)
    assert (said(found)[0], found[0].semantic) == ("green tea", 1.0)
    assert BufferMemory().search("", query_vector=vector) == []


def test_each_text_is_embedded_once() -> None:
    embedder = FlakyEmbedder()
    buffer = BufferMemory(embedder=embedder)
    for text in ("tea", "coffee", "tea"):
        buffer.add(text)
    assert embedder.texts == [], "adding asks no model"
    buffer.search("drink")
    buffer.add("milk")
    buffer.search("drink")
    assert embedder.texts == ["tea", "coffee", "drink", "milk"]


def test_the_cache_keeps_the_last_used() -> None:
    assert MIN_CACHED_VECTORS == 1000
    embedder = FlakyEmbedder()
    cache = EmbeddingCache(embedder, 3)
    cache.get_or_embed(["a", "b", "c"])
    cache.get_or_embed(["a", "d"])
    assert (len(cache), sorted(cache.find_cached(["a", "b", "c", "d"]))) == (3, ["a", "c", "d"])
    cache.get_or_embed(["b"])
    assert embedder.texts == ["a", "b", "c", "d", "b"]


def test_while_the_embedder_is_away_the_newest_are_found_and_nothing_is_lost(caplog: pytest.LogCaptureFixture) -> None:
    clock, embedder = ManualClock(), FlakyEmbedder(unavailable=True)
    buffer = BufferMemory(3, 10, embedder, clock=clock)
    for text in ["The harbour is frozen.", "I like tea.", "It rains.", "Good night.", "Good morning."]:
        buffer.add(text)
    with caplog.at_level(logging.WARNING, logger="agentmem"):
        found = buffer.search("harbour")
        assert said(found) == ["Good morning.", "Good night.", "It rains."]
        assert [(each.score, each.semantic) for each in found] == [(1.0, None), (0.8, None), (pytest.approx(0.6), None)]
        asked = len(embedder.texts)
        buffer.search("harbour")
        assert len(embedder.texts) == asked, "for a while it is left alone"
        clock.advance(seconds=31)
        buffer.search("harbour")
        assert len(embedder.texts) > asked
    told = [json.loads(record.getMessage()) for record in caplog.records]
    assert [(event["event"], event["part"]) for event in told] == [("model_away", "buffer")], "said once"
    assert "harbour" not in caplog.text
    assert buffer.notices == ("Messages are found by their newness alone: the model is away",)
    embedder.unavailable = False
    clock.advance(seconds=31)
    assert said(buffer.search("harbour", 1)) == ["The harbour is frozen."]
    assert buffer.notices == ()


def test_a_text_that_cannot_be_read_costs_the_others_nothing() -> None:
    embedder = FlakyEmbedder(poison="\N{SKULL}")
    buffer = BufferMemory(embedder=embedder, recency_bias=0.0)
    for text in ("green tea", "a \N{SKULL} pirate", "black coffee", "milk"):
        buffer.add(text)
    found = buffer.search("green tea")
    assert (said(found)[0], found[0].semantic) == ("green tea", 1.0)
    assert [each.semantic for each in found if "pirate" in each.message.content] == [None]
    assert said(buffer.search("\N{SKULL}", 1)) == ["milk"], "by newness"
    assert buffer.search("coffee", 1)[0].message.content == "black coffee", "nor does such a query"
