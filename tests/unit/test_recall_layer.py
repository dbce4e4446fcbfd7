"""Recall over an embedded memory: what is found, what stays hidden, and what is said about it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from agentmem.core.scope import Scope
from agentmem.errors import InvalidRecord
from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.recall.request import MAX_QUERY_CHARS, RecallRequest
from tests.unit.talking import (
    DEFAULT_TECHNIQUES,
    START,
    ManualClock,
    build_recall_layer,
    open_memory,
    store_lines,
    turn_contents,
)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def memory(home: Path, clock: ManualClock) -> AsyncIterator[AsyncAgentMemory]:
    async with open_memory(home, clock) as alice:
        yield alice


async def test_an_answer_inherits_the_words_of_its_question(memory: AsyncAgentMemory) -> None:
    await store_lines(
        memory,
        "Ann: Hello there, nice weather.",
        "Bob: Which instrument do you play?",
        "Ann: The cello, since school.",
        "Bob: Great.",
        "Ann: Trains were late again.",
    )
    bundle = await memory.remember("which instrument does Ann play?", techniques=["keyword", "dialogue"])
    assert turn_contents(bundle)[0] == "The cello, since school."


async def test_every_item_says_why(memory: AsyncAgentMemory) -> None:
    await store_lines(memory, "Ann: I play the cello.", "Bob: I play chess.", days=3)
    bundle = await memory.remember("what does Bob play in May 2023?")
    assert turn_contents(bundle)[0] == "I play chess."
    assert bundle.items[0].record == bundle.turns[0]
    for part in ("words #", "whole #", "speaker +0.25", "date +0.40"):
        assert part in bundle.items[0].why
    assert [line.technique for line in bundle.receipt.trace] == DEFAULT_TECHNIQUES


@pytest.mark.parametrize(
    "query", ["the of and", "что любит Анна?", "彼女は何が好きですか", "?!", "word " * 1_999, "SELECT * FROM t; --"]
)
async def test_any_query_gets_a_bundle(memory: AsyncAgentMemory, query: str) -> None:
    assert (await memory.remember(query)).items == ()
    await store_lines(memory, "Ann: I play the cello.")
    assert len((await memory.remember(query)).turns) == 1


@pytest.mark.parametrize(
    "arguments, field",
    [
        ({"query": " "}, "query"),
        ({"query": "x" * 1_000_001}, "query"),
        ({"query": "x", "top_k": 0}, "top_k"),
        ({"query": "x", "top_k": 101}, "top_k"),
        ({"query": "x", "include": ("turns",)}, "include"),
        ({"query": "x", "include": ()}, "include"),
        ({"query": "x", "time_window_hours": 0}, "time_window_hours"),
        ({"query": "x", "min_confidence": 2}, "min_confidence"),
        ({"query": "x", "since": START, "until": START}, "since"),
    ],
)
def test_a_bad_request_names_its_field(arguments: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRecord) as caught:
        RecallRequest(**arguments)
    assert caught.value.field == field


def test_of_a_long_query_the_beginning_and_the_end_count() -> None:
    request = RecallRequest("where is the heron? " + "x" * 20_000 + " the bridge")
    assert request.search_text.startswith("where is the heron?")
    assert request.search_text.endswith(" the bridge")
    assert len(request.search_text) == MAX_QUERY_CHARS
    assert request.notices == ("The query has 20,031 characters: the first and last 5,000 count.",)
    assert RecallRequest("x" * MAX_QUERY_CHARS).notices == ()
    with pytest.raises(ValueError, match=r"1 to 1,000,000 .* got 1,000,001"):
        RecallRequest("x" * 1_000_001)


@pytest.mark.parametrize("technique", [None, *DEFAULT_TECHNIQUES])
async def test_superseded_facts_are_absent_on_every_technique(
    memory: AsyncAgentMemory, clock: ManualClock, technique: str | None
) -> None:
    ann = await memory.upsert_entity({"name": "Ann", "type": "person"})
    old = await memory.learn_fact("Ann sings in Oslo since May 2023", entity_ids=[ann.id], valid_from=START)
    before = clock.time
    clock.time += timedelta(days=10)
    new = await memory.semantic.supersede_fact(old.id, "Ann sings in Rome since May 2023")
    chosen = None if technique is None else [technique]

    async def found(**at: Any) -> list[str]:
        bundle = await memory.remember("Where does Ann sing in May 2023?", techniques=chosen, **at)
        seen = {item.record.id for item in bundle.items} | {candidate.id for candidate in bundle.receipt.pool}
        assert {fact.id for fact in bundle.facts} <= seen
        return sorted(fact.claim for fact in bundle.facts)

    assert await found() == [new.claim]
    assert await found(known_at=before) == [old.claim]


async def test_as_of_and_known_at_bound_turns_too(memory: AsyncAgentMemory, clock: ManualClock) -> None:
    await store_lines(memory, "Ann: I moved to Oslo.")
    clock.time += timedelta(days=1)
    await store_lines(memory, "Ann: I moved to Rome.", conversation="c2", days=30)
    both = {"I moved to Oslo.", "I moved to Rome."}
    assert set(turn_contents(await memory.remember("where did Ann move?"))) == both
    first = {"I moved to Oslo."}
    assert set(turn_contents(await memory.remember("where did Ann move?", as_of=START + timedelta(days=1)))) == first
    assert set(turn_contents(await memory.remember("where did Ann move?", known_at=START))) == first
    assert set(turn_contents(await memory.remember("where did Ann move?", until=START + timedelta(days=1)))) == first
    assert (
        set(turn_contents(await memory.remember("where did Ann move?", since=START + timedelta(days=1))))
        == both - first
    )


async def test_a_time_window_counts_back_from_now_and_from_as_of(memory: AsyncAgentMemory, clock: ManualClock) -> None:
    await store_lines(memory, "Ann: I moved to Oslo.")
    clock.time += timedelta(hours=5)
    assert turn_contents(await memory.remember("moved?", time_window_hours=6)) == ["I moved to Oslo."]
    assert turn_contents(await memory.remember("moved?", time_window_hours=4)) == []
    earlier = START + timedelta(hours=1)
    assert turn_contents(await memory.remember("moved?", time_window_hours=4, as_of=earlier)) == ["I moved to Oslo."]


async def test_a_hidden_turn_lends_nothing_to_its_neighbour(memory: AsyncAgentMemory, clock: ManualClock) -> None:
    ids = await store_lines(memory, "Bob: Which instrument do you play?", "Ann: The cello.")
    clock.time += timedelta(minutes=1)
    await memory.forget(ids[0])
    bundle = await memory.remember("which instrument?", techniques=["keyword"])
    assert turn_contents(bundle) == ["The cello."]
    assert bundle.items[0].score == 0


async def test_channels_include_and_confidence_bound_what_is_found(memory: AsyncAgentMemory) -> None:
    await store_lines(memory, "Ann: I play the cello.")
    other = memory.scoped(channel="project")
    await store_lines(other, "Ann: I play the flute.", conversation="c9")
    await memory.learn_fact("Ann plays the cello", confidence=0.6)
    assert turn_contents(await memory.remember("what does Ann play?")) == ["I play the cello."]
    assert set(turn_contents(await other.remember("what does Ann play?"))) == {"I play the cello.", "I play the flute."}
    assert turn_contents(await other.remember("what does Ann play?", channels=["project"])) == ["I play the flute."]
    assert (await memory.remember("what does Ann play?", include=["semantic"])).turns == ()
    assert (await memory.remember("what does Ann play?", min_confidence=0.7)).facts == ()


async def test_the_active_channel_is_ahead_and_other_channels_are_named(memory: AsyncAgentMemory) -> None:
    await store_lines(memory, "Ann: I play the cello.")
    project = memory.scoped(channel="project")
    await store_lines(project, "Ann: I play the cello.", conversation="c9")
    bundle = await project.remember("cello")
    assert [turn.channel for turn in bundle.turns] == ["project", "_global"]
    assert bundle.receipt.elsewhere == {bundle.turns[1].key: "_global"}


async def test_links_lift_what_the_graph_ties_to_a_named_entity(memory: AsyncAgentMemory) -> None:
    trip = await memory.upsert_entity({"name": "Big Adventure", "type": "event", "aliases": ["the voyage"]})
    for number in range(3):
        await memory.learn_fact(f"Somebody packed item {number}")
    linked = await memory.learn_fact("A tent was bought", entity_ids=[trip.id])
    bundle = await memory.remember("tell me of The Voyage", techniques=["entity"])
    assert bundle.entities[0].id == trip.id
    assert bundle.facts[0].id == linked.id
    assert "entities +0.10" in next(item.why for item in bundle.items if item.record.id == linked.id)
    assert "entities" not in str((await memory.remember("of the voyagers", techniques=["entity"])).items)


async def test_links_of_a_rare_entity_hold_beside_a_hub(memory: AsyncAgentMemory) -> None:
    hub = await memory.upsert_entity({"name": "Ann", "type": "person"})
    rare = await memory.upsert_entity({"name": "Big Adventure", "type": "event"})
    for number in range(30):
        await memory.learn_fact(f"Something happened {number}", entity_ids=[hub.id])
    told = {(await memory.learn_fact(f"Tent {number} was bought", entity_ids=[rare.id])).id for number in range(10)}
    request = RecallRequest(query="what did Ann take to the Big Adventure?", techniques=["entity"])
    bundle = await build_recall_layer(memory, entity={"limit": 20}).recall(request, memory.scope)
    assert {fact.id for fact in bundle.facts} == told


@pytest.mark.parametrize(
    "field, best_last",
    [("temporal_context", ("past", "", "current")), ("trust", (0.2, 0.6, 1.0)), ("salience", (0.1, 0.5, 1.0))],
)
async def test_labels_trust_and_salience_move_facts(
    memory: AsyncAgentMemory, field: str, best_last: tuple[Any, ...]
) -> None:
    for colour, value in zip(("green", "black", "white"), best_last, strict=True):
        given: Any = {field: value}
        await memory.semantic.learn_fact(f"Ann drinks {colour} tea", **given)
    facts = (await memory.remember("what tea does Ann drink?", techniques=["keyword"])).facts
    assert [getattr(fact, field) for fact in facts] == list(reversed(best_last))


async def test_reading_does_not_move_turns_but_lifts_items(memory: AsyncAgentMemory) -> None:
    await store_lines(memory, "Ann: I play the cello.", "Ann: I play the flute.")
    first = await memory.remember("play", top_k=1)
    again = await memory.remember("play", reinforce=False)
    assert again.turns[0].id == first.turns[0].id
    assert again.items[0].score == pytest.approx(first.items[0].score * 1.1, abs=1e-3)
    assert (await memory.remember("play", reinforce=False)).items == again.items


async def test_diversity_demotes_beyond_the_quota(memory: AsyncAgentMemory) -> None:
    await store_lines(memory, *(f"Ann: I play the cello {word}." for word in ("daily", "weekly", "monthly")))
    await store_lines(memory, "Ann: Somebody plays.", conversation="c2")
    request = RecallRequest(query="Ann cello")
    ids = {}
    for most in (0, 2):
        bundle = await build_recall_layer(memory, ranking={"per_conversation": most}).recall(request, memory.scope)
        ids[most] = [turn.conversation_id for turn in bundle.turns]
    assert ids[0] == ["c1", "c1", "c1", "c2"]
    assert ids[2] == ["c1", "c1", "c2", "c1"]


async def test_goals_profile_and_thread_leads_come_along(memory: AsyncAgentMemory, clock: ManualClock) -> None:
    ids = await store_lines(memory, "Ann: I play the cello.", "Ann: The cello is old.")
    await memory.add_goal("play the cello in public")
    done = await memory.add_goal("buy a cello")
    clock.time += timedelta(minutes=1)
    await memory.complete_goal(done.id)
    await memory.update_profile(preferences={"language": "English"})
    bundle = await memory.remember("cello")
    assert [goal.description for goal in bundle.goals] == ["play the cello in public"]
    assert bundle.user_context == {"preferences": {"language": "English"}}
    (lead,) = bundle.thread_leads
    assert (lead.conversation_id, lead.center_turn in ids, lead.matches) == ("c1", True, 2)
    assert "- preferences: language English" in str(bundle)
    assert "Ann: I play the cello." in bundle.to_context(max_tokens=100)


async def test_top_k_bounds_every_kind_and_the_items(memory: AsyncAgentMemory) -> None:
    await store_lines(memory, *(f"Ann: tea number {number}" for number in range(8)))
    for number in range(8):
        await memory.learn_fact(f"tea fact number {number}")
    bundle = await memory.remember("tea", top_k=3)
    assert (len(bundle.turns), len(bundle.facts), len(bundle.items)) == (3, 3, 3)
    assert set(bundle.receipt.delivered) == {record.key for record in (*bundle.turns, *bundle.facts)}


async def test_context_packs_wide_and_changes_nothing(memory: AsyncAgentMemory) -> None:
    await store_lines(memory, *(f"Ann: tea number {number} in the long list" for number in range(60)))
    context = await memory.context("tea", max_tokens=300)
    assert 25 < len(context.records) < 60
    assert context.tokens <= 300
    assert context.left_out == 50 - len(context.records)  # of the candidates of the pool
    assert str(context) == context.text
    with pytest.raises(InvalidRecord, match="max_tokens"):
        await memory.context("tea", max_tokens=0)


async def test_why_not_tells_every_reason(memory: AsyncAgentMemory, clock: ManualClock) -> None:
    (first, second) = await store_lines(memory, "Ann: I play the cello.", "Ann: I play the flute.")
    (hidden,) = await store_lines(memory.scoped(channel="project"), "Ann: I play the drums.", conversation="c9")
    fact = await memory.learn_fact("Ann plays")
    clock.time += timedelta(minutes=1)
    await memory.forget(fact.id)
    receipt = (await memory.remember("cello", top_k=1)).receipt
    await store_lines(memory, "Ann: I play the cello too.", conversation="c3")
    layer = build_recall_layer(memory)
    said = {name: await layer.why_not(receipt, name) for name in (first, second, hidden, fact.id, "nobody")}
    assert said[first].delivered
    assert str(said[second]).startswith("cut: place 2 of its kind")
    assert str(said[hidden]) == "not visible: its channel 'project' is not read here"
    assert str(said[fact.id]) == "not visible: it is forgotten"
    assert str(said["nobody"]) == "no record of this id was known then"
    assert said[second].candidate is not None
    assert said[second].candidate.lists["words"].value < said[first].candidate.lists["words"].value  # type: ignore[union-attr]


async def test_why_not_tells_how_far_behind(memory: AsyncAgentMemory) -> None:
    ids = await store_lines(memory, *(f"Ann: tea number {number}" for number in range(60)), "Ann: Nothing of that.")
    receipt = (await memory.remember("tea")).receipt
    assert (
        str(await build_recall_layer(memory).why_not(receipt, ids[-1])) == "too far behind: place 61 among Turn records"
    )


async def test_replay_gives_what_was_delivered_as_it_was(memory: AsyncAgentMemory, clock: ManualClock) -> None:
    await store_lines(memory, "Ann: I play the cello.")
    goal = await memory.add_goal("play the cello in public")
    bundle = await memory.remember("cello")
    clock.time += timedelta(days=1)
    await memory.complete_goal(goal.id)
    again = await build_recall_layer(memory).replay(bundle.receipt)
    assert str(again) == str(bundle)
    assert [(item.score, item.why, item.record) for item in again.items] == [
        (item.score, item.why, item.record) for item in bundle.items
    ]


async def test_a_receipt_is_plain_data(memory: AsyncAgentMemory) -> None:
    await store_lines(memory, "Ann: I play the cello.")
    receipt = (await memory.remember("cello", since=START)).receipt
    plain = receipt.as_dict()
    assert plain["request"]["since"] == START.isoformat()
    assert plain["seq"] == receipt.seq > 0
    assert plain["candidates"][0]["lists"]["words"] == [
        1,
        pytest.approx(plain["candidates"][0]["lists"]["words"][1]),
        False,
    ]
    assert plain["delivered"] == [list(key) for key in receipt.delivered]


async def test_other_users_change_nothing(memory: AsyncAgentMemory) -> None:
    await store_lines(memory, "Ann: I play the cello.", "Bob: Nice.", "Ann: I drink tea.")
    before = await memory.remember("who plays the cello?", reinforce=False)
    stranger = memory.scoped(user_id="mallory")
    await store_lines(stranger, *(f"Ann: who plays the cello? {number}" for number in range(50)))
    after = await memory.remember("who plays the cello?", reinforce=False)
    assert after.items == before.items
    assert str(after) == str(before)


async def test_forgetting_a_user_empties_what_is_kept(memory: AsyncAgentMemory) -> None:
    await store_lines(memory, "Ann: I play the cello.", "Ann: I drink tea.")
    layer = build_recall_layer(memory)
    await layer.recall(RecallRequest(query="cello"), memory.scope)
    kept = layer.cache.for_user("alice")
    layer.drop_user_caches("alice")
    assert layer.cache.for_user("alice") is not kept
    assert turn_contents(await layer.recall(RecallRequest(query="cello"), Scope("alice")))[0] == "I play the cello."
