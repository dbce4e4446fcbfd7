"""Facts that say the same become one, and what makes a difference stays apart."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentmem import AgentMemory, Cluster, Fact, InvalidRecord, JobReport, ModelUnavailable, Review, Status
from agentmem.core.changes import Change, WriteAttempt
from agentmem.core.records import build_record
from agentmem.engine import vector_projection
from agentmem.memory.semantic import merge_facts
from agentmem.memory.semantic.equal_claims import contrast_signature
from agentmem.memory.semantic.merge_facts import cohesion, find_clusters
from agentmem.settings.sections import ClusterOptions
from tests.fakes.as_a_model import AsyncOnlyEmbedder
from tests.flows.given import ManualClock, context_of, engine_of, open_memory, read_head, read_state, run
from tests.scale import scaled

SAME = ("Ann likes a strong black coffee in the morning", "Ann likes the strong black coffee in the morning")


def job(memory: AgentMemory, *, dry_run: bool = False) -> JobReport:
    return memory.consolidate("clusters", dry_run)[0]


def claims(memory: AgentMemory) -> set[str]:
    return {fact.claim for fact in memory.semantic.facts()}


def actions(found: list[Cluster]) -> list[tuple[str, int]]:
    return [(cluster.action, len(cluster.facts)) for cluster in found]


def test_facts_are_linked_and_proposed_by_the_numbers_of_the_document() -> None:
    assert ClusterOptions().model_dump() == {"link": 0.83, "merge": 0.9, "ask": 0.75}


def test_cohesion_is_the_mean_cosine_of_all_pairs() -> None:
    angles = np.deg2rad([0.0, 20.0, 50.0])
    three = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    pairs = [np.cos(np.deg2rad(degrees)) for degrees in (20, 30, 50)]
    assert cohesion(three) == pytest.approx(sum(pairs) / 3, abs=1e-4)
    assert cohesion(np.ones((3, 1), dtype=np.float32)) == 1.0


def test_clear_duplicates_become_one_with_all_that_they_had(memory: AgentMemory, clock: ManualClock) -> None:
    turns = memory.store_turns(["one", "two"])
    first = memory.learn_fact(SAME[0], source_turn_ids=[turns[0].id], tags=["drinks"], confidence=0.7)
    clock.advance(days=1)
    second = memory.learn_fact(SAME[1], source_turn_ids=[turns[1].id], tags=["home"], confidence=0.9, salience=0.8)
    resting = memory.learn_fact("Buy beans for her", depends_on=[first.id])
    ann, cafe = (memory.upsert_entity({"name": name}).id for name in ("Ann", "Café"))
    edge = memory.semantic.relate(ann, "LIKES", cafe, fact_id=first.id)
    report = job(memory)
    assert (report.counts, len(report.operation_ids), report.notes) == ({"merged": 1}, 1, [])
    kept, gone = memory.semantic.get_fact(second.id), memory.semantic.get_fact(first.id)
    assert kept.source_turn_ids == (turns[1].id, turns[0].id)
    assert (kept.tags, kept.confidence, kept.salience) == (("home", "drinks"), 0.9, 0.8)
    assert (gone.status, gone.superseded_by, gone.reason) == (Status.SUPERSEDED, kept.id, f"merged into {kept.id}")
    assert claims(memory) == {SAME[1], resting.claim}
    assert memory.semantic.get_fact(resting.id).depends_on == (kept.id,), "its premise did not fall"
    (moved,) = run(engine_of(memory).log.read_records("Edge", [edge.id], context_of(memory).scope))
    assert moved.fact_id == kept.id
    assert memory.remember("What coffee does Ann like?").facts[0].claim == SAME[1]
    assert memory.semantic.update_fact(first.id, tags=["x"]).id == kept.id, "the one merged away passes calls on"


@pytest.mark.parametrize(
    "one, other",
    [
        ("Ann likes strong black coffee in the morning", "Ann does not like strong black coffee in the morning"),
        ("Ann ran 5 km along the river on the path", "Ann ran 8 km along the river on the path"),
        ("Ann taught Ben to play the grand piano", "Ben taught Ann to play the grand piano"),
        ("The team meets in the big room on Monday", "The team meets in the big room on Tuesday"),
    ],
)
def test_what_makes_a_difference_is_neither_merged_nor_asked_about(memory: AgentMemory, one: str, other: str) -> None:
    memory.learn_fact(one)
    memory.learn_fact(other)
    assert memory.curation.clusters() == []
    assert job(memory).counts == {}
    assert claims(memory) == {one, other}


def test_the_same_words_in_another_order_are_not_merged(memory: AgentMemory) -> None:
    both = {"the big dog bit the old man in the park", "the old man bit the big dog in the park"}
    for claim in both:
        memory.learn_fact(claim)
    assert job(memory).counts == {}
    assert claims(memory) == both


@pytest.mark.parametrize(
    "numbers, action", [({"merge": 0.84}, "merge"), ({"merge": 1.0}, "ask"), ({"merge": 1.0, "ask": 1.0}, "keep_apart")]
)
def test_near_duplicates_are_proposed_by_cohesion_and_left_as_they_are(
    home: Path, clock: ManualClock, numbers: dict[str, float], action: str
) -> None:
    both = {"Ann likes strong black coffee in the morning sun", "Ann likes strong black coffee in the morning light"}
    with open_memory(home, clock=clock, seed=7, clusters=numbers) as memory:
        for claim in both:
            memory.learn_fact(claim)
        (cluster,) = memory.curation.clusters()
        assert (cluster.action, cluster.is_equal) == (action, False)
        assert (job(memory).counts, memory.semantic.reviews(), claims(memory)) == ({}, [], both)


@pytest.mark.parametrize("others", [(), ("The choir at noon votes for the new tram line in town",)])
def test_contrasts_stay_two_facts_whatever_stands_near_by(memory: AgentMemory, others: tuple[str, ...]) -> None:
    both = ("The choir votes for the new tram line in town", "The choir votes against the new tram line in town")
    for claim in (*both, *others):
        memory.learn_fact(claim)
    assert job(memory).counts == {}
    assert claims(memory) == {*both, *others}
    assert not any(set(both) <= {fact.claim for fact in cluster.facts} for cluster in memory.curation.clusters())


def test_values_of_a_slot_are_not_merged(memory: AgentMemory) -> None:
    one, other = (memory.learn_fact(f"I like {value}", slot="likes", value=value) for value in ("tea", "teas"))
    with pytest.raises(InvalidRecord, match="slot"):
        memory.curation.merge([one.id, other.id])


@pytest.mark.parametrize("field", ["entity_ids", "valid_from", "temporal_context", "channel"])
def test_facts_about_others_of_other_times_and_other_channels_stay_apart(
    memory: AgentMemory, clock: ManualClock, field: str
) -> None:
    ann = memory.upsert_entity({"name": "Ann"}).id
    said: dict[str, dict[str, Any]] = {
        "entity_ids": {"entity_ids": [ann]},
        "valid_from": {"valid_from": clock.time},
        "temporal_context": {"temporal_context": "past"},
        "channel": {},
    }
    memory.learn_fact(SAME[0])
    memory.scoped(channel="roof" if field == "channel" else "_global").learn_fact(SAME[1], **said[field])
    assert job(memory).counts == {}


@pytest.fixture
def asking(memory: AgentMemory, clock: ManualClock) -> AgentMemory:
    """A memory with a question about two facts, as older versions asked them."""
    first = memory.learn_fact("Ann likes strong black coffee in the morning")
    clock.advance(seconds=1)
    second = memory.learn_fact("Ann likes strong black coffee at her desk in the morning sun")
    asked = {"about": "same_fact", "question": "Do these say the same?", "record_ids": [first.id, second.id]}
    review = build_record(Review, id="question", channel="_global", **asked)

    async def put(write: WriteAttempt) -> Change:
        return write.build_change(review)

    run(engine_of(memory).write(context_of(memory).scope, "clusters", put, kind="Review"))
    return memory


@pytest.mark.parametrize("decision, left", [("merge", 1), ("keep_apart", 2)])
def test_an_older_question_is_decided(asking: AgentMemory, decision: str, left: int) -> None:
    before = read_state(asking)
    decided: Review = asking.semantic.resolve_review("question", decision)
    assert decided.review_status == ("accepted" if decision == "merge" else "rejected")
    assert len(claims(asking)) == left
    asking.undo(decided.operation_id)
    assert read_state(asking) == before


def test_two_that_became_one_meanwhile_need_no_merge(asking: AgentMemory) -> None:
    (review,) = asking.semantic.reviews()
    asking.curation.merge(review.record_ids)
    before = claims(asking)
    assert asking.semantic.resolve_review(review.id, "merge").review_status == "accepted"
    assert claims(asking) == before


def test_erasing_the_one_that_stayed_erases_what_says_the_same(memory: AgentMemory) -> None:
    gone, kept = (memory.learn_fact(claim, confidence=sure) for claim, sure in zip(SAME, (0.7, 0.9), strict=True))
    job(memory)
    receipt = memory.forget(kept.id, hard=True)
    assert receipt.derived == (gone.id,)
    assert memory.semantic.facts({"retired": True}) == []


def test_a_loose_chain_is_kept_apart(home: Path, clock: ManualClock) -> None:
    words = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda"]
    with open_memory(home, clock=clock, seed=7, clusters={"link": 0.6}) as memory:
        for start in range(0, 7, 2):
            memory.learn_fact(" ".join(words[start : start + 5]))
        (cluster,) = memory.curation.clusters()
        assert (cluster.action, len(cluster.facts)) == ("keep_apart", 4)
        assert job(memory).counts == {}


def test_only_what_changed_is_compared_with_the_rest(memory: AgentMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []
    near = merge_facts._SingleLinkage._find_neighbors

    def counting(self: Any, block: Any) -> Any:
        compared.append(len(block))
        return near(self, block)

    monkeypatch.setattr(merge_facts._SingleLinkage, "_find_neighbors", counting)
    for number in range(20):
        memory.learn_fact(f"Guest number {number} likes {'tea' * (number + 1)}")
    job(memory)
    assert sum(compared) == 20
    job(memory)
    assert sum(compared) == 20
    memory.learn_fact("Ann sings")
    job(memory)
    assert sum(compared) == 21


def test_a_chain_is_followed_through_facts_that_did_not_change(memory: AgentMemory) -> None:
    sign: dict[str, Hashable] = {}
    old = [memory.learn_fact(claim) for claim in SAME]
    after = read_head(memory)
    memory.learn_fact("Ann likes a strong black coffee in a morning")
    memory.flush()

    def same(fact: Fact) -> Hashable:
        return sign.setdefault("all", contrast_signature(fact))

    (cluster,) = run(find_clusters(context_of(memory), "_global", same, after_seq=after))
    assert {fact.id for fact in old} < {fact.id for fact in cluster.facts}
    assert run(find_clusters(context_of(memory), "_global", same, after_seq=read_head(memory))) == []


@settings(max_examples=scaled(10, least=3), derandomize=True)
@given(
    st.lists(st.sampled_from([0, 1, 2]), min_size=2, max_size=6), st.permutations(["black", "strong", "hot", "sweet"])
)
def test_twice_is_once_and_undo_gives_the_former_state(
    tmp_path_factory: pytest.TempPathFactory, who: list[int], words: list[str]
) -> None:
    with open_memory(tmp_path_factory.mktemp("home"), clock=ManualClock(), seed=7) as memory:
        for number, person in enumerate(who):
            one, when = ("a", "the")[number % 2], ("a", "the")[number // 2 % 2]
            memory.learn_fact(f"{('Ann', 'Ben', 'Cleo')[person]} likes {one} {' '.join(words)} coffee in {when} hall")
        before = read_state(memory)
        report = job(memory)
        after = read_state(memory)
        assert len(claims(memory)) == len(set(who))
        assert (job(memory).counts, read_state(memory)) == ({}, after)
        for operation in reversed(report.operation_ids):
            memory.undo(operation)
        assert read_state(memory) == before
        assert (job(memory).counts, read_state(memory)) == ({}, before), "what a person took back is not done again"


def test_facts_without_a_vector_are_looked_at_when_they_have_one(
    memory: AgentMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = engine_of(memory).vector_projections[0]
    embedder = served.embedder = AsyncOnlyEmbedder(served.embedder)
    embed = embedder.embed

    async def away(*args: Any, **more: Any) -> Any:
        raise ModelUnavailable("the embedder does not answer")

    monkeypatch.setattr(embedder, "embed", away)
    for claim in SAME:
        memory.learn_fact(claim)
    assert (job(memory).counts, job(memory).pending) == ({}, 1)
    monkeypatch.setattr(embedder, "embed", embed)
    monkeypatch.setattr(vector_projection, "BACKOFF_SECONDS", 0.0)  # one that failed is left in peace for a while
    assert (job(memory).counts, job(memory).pending) == ({"merged": 1}, 0)


def test_a_dry_run_writes_nothing(memory: AgentMemory) -> None:
    for claim in SAME:
        memory.learn_fact(claim)
    before = read_head(memory)
    assert job(memory, dry_run=True).counts == {"merged": 1}
    assert read_head(memory) == before


def test_merging_by_hand(memory: AgentMemory, clock: ManualClock) -> None:
    facts = []
    for claim in ("Ann drinks coffee", "Coffee is what Ann drinks", "Ann sings"):
        facts.append(memory.learn_fact(claim))
        clock.advance(seconds=1)  # the oldest stays
    merged = memory.curation.merge([facts[1].id, facts[0].id], idempotency_key="k")
    assert (merged.id, claims(memory)) == (facts[0].id, {"Ann drinks coffee", "Ann sings"})
    assert memory.curation.merge([facts[1].id, facts[0].id], idempotency_key="k") == merged
    memory.undo(merged.operation_id)
    assert len(claims(memory)) == 3
    for claim in SAME:
        memory.learn_fact(claim)
    (cluster,) = memory.curation.clusters()
    assert memory.curation.merge(cluster).id == cluster.facts[0].id


def test_what_cannot_be_merged_is_refused(memory: AgentMemory) -> None:
    fact, other = memory.learn_fact("Ann sings"), memory.learn_fact("Ben sings")
    roof = memory.scoped(channel="roof")
    elsewhere = roof.learn_fact("Cleo sings")
    memory.forget(other.id)
    for face, ids in (
        (memory, [fact.id]),
        (memory, [fact.id, "none"]),
        (memory, [fact.id, other.id]),
        (roof, [fact.id, elsewhere.id]),
        (memory, fact.id),
        (memory, [fact.id, fact.id]),
    ):
        with pytest.raises(InvalidRecord) as caught:
            face.curation.merge(ids)
        assert caught.value.field == "cluster"


def test_a_premise_merged_into_what_rests_on_it_leaves_no_circle(memory: AgentMemory) -> None:
    first = memory.learn_fact(SAME[0])
    second = memory.learn_fact(SAME[1], depends_on=[first.id], confidence=0.95)
    assert memory.curation.merge([first.id, second.id]).depends_on == ()
