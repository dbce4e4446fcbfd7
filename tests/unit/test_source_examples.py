"""Numbers of the source documents against the code, and ours beside them where we differ on purpose.

docs/source-behaviour.md says which test guards which section. What has a test beside its own code is not repeated here.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from agentmem import BufferMemory, Context, Fact, Goal, Status
from agentmem.core import lifecycle
from agentmem.core.lifecycle import BETAS, HALF_LIVES
from agentmem.core.ranking import RRF_K
from agentmem.extraction.reconciler import CONFIDENCE_BY_CERTAINTY, DEFAULT_CONFIDENCE
from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.jobs.job import list_scheduled_jobs
from agentmem.memory.procedural.memory import ProceduralMemory
from agentmem.memory.semantic.memory import SemanticMemory
from agentmem.memory.working.buffer import MIN_CACHED_VECTORS
from agentmem.memory.working.memory import WorkingMemory
from agentmem.models import onnx
from agentmem.recall.cache import MAX_CACHED_QUERIES
from agentmem.recall.options import RankingOptions, parse_options
from agentmem.recall.techniques import entity
from agentmem.settings.overrides import AuditLevel
from agentmem.settings.sections import BufferOptions, DecayOptions, RetentionOptions, SynopsisOptions
from agentmem.settings.settings import load_settings
from agentmem.stores.values import RecordUsage
from tests.flows.given import ManualClock, open_memory

ROOT = Path(__file__).resolve().parents[2]
START = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY_SECONDS = 86_400
NUMBERS = DecayOptions()


def default(verb: Callable[..., Any], argument: str) -> Any:
    """What an argument of a verb is when nobody gives it."""
    return inspect.signature(verb).parameters[argument].default


# -- document 000


def test_importance_weighs_the_documents_parts_and_bounds_its_second() -> None:
    """Forty, thirty, thirty; the document's logarithm of accesses has no end, ours ends at 100 accesses."""

    def documents(recency: float, accesses: int, explicit: float | None) -> float:
        return 0.3 * recency + 0.3 * math.log(accesses + 1) + 0.4 * (0.5 if explicit is None else explicit)

    def ours(accesses: int, explicit: float | None) -> float:
        return lifecycle.importance(START, accesses, explicit, START, NUMBERS)

    assert ours(0, None) == pytest.approx(documents(1.0, 0, None))
    assert ours(0, 1.0) == pytest.approx(documents(1.0, 0, 1.0))
    assert documents(1.0, 100, 1.0) > 2
    assert ours(100, 1.0) == ours(10**6, 1.0) == pytest.approx(1.0)
    assert ours(9, None) == pytest.approx(documents(1.0, 9, None) - 0.3 * math.log(10) * (1 - 1 / math.log(101)))


def test_what_is_important_stands_first_in_the_synopsis(home: Path) -> None:
    """The document lets importance decide what comes up; ours lets it order the synopsis, and salience the ranking."""
    with open_memory(home) as memory:
        tea = memory.learn_fact("The user likes tea")
        nuts = memory.learn_fact("The user avoids nuts")

        def first() -> str:
            return memory.synopsis().identity.sentences[0].text

        assert first() == nuts.claim, "of two alike the one written last"
        memory.semantic.update_fact(tea.id, importance=0.9)
        memory.semantic.update_fact(nuts.id, tags=["food"])
        assert first() == tea.claim


def test_a_synopsis_saves_what_the_document_says() -> None:
    """A history of 5,000 to 50,000 tokens against a synopsis of 500 to 1,000: 80 % in the worst case."""
    most = SynopsisOptions().max_tokens
    assert most == 1_000
    saved = [Context("", tokens, (), full_tokens=history).savings for tokens, history in ((most, 5_000), (500, 10_000))]
    assert saved == pytest.approx([0.80, 0.95])


def test_searches_return_as_many_as_the_documents_say() -> None:
    assert default(WorkingMemory.search_outputs, "limit") == 5  # document 000
    assert default(AsyncAgentMemory.context, "max_tokens") == 4_000
    assert default(BufferMemory.search, "limit") == 10  # document 001
    assert default(AsyncAgentMemory.remember, "top_k") == 10  # documents 000 and 004 say 5: ours gives more
    assert default(SemanticMemory.get_entity_graph, "depth") == 2  # document 002: two or three
    assert default(SemanticMemory.get_entity_graph, "limit") == 50
    assert default(ProceduralMemory.find_strategies, "top_k") == 5


def test_vectors_of_a_thousand_texts_are_kept() -> None:
    assert MAX_CACHED_QUERIES == MIN_CACHED_VECTORS == 1_000


def test_the_local_model_is_the_documents() -> None:
    assert onnx.DEFAULT_MODEL == "all-MiniLM-L6-v2"  # documents 000 and 003
    assert default(BufferMemory.__init__, "embedder") is None  # nothing is loaded that was not asked for


# -- document 001


@pytest.mark.parametrize(
    "preset, window, multiplier, bias",
    [
        (BufferMemory.high_recall, (10, 15), (15, 20), (0.1, 0.3)),  # technical, much knowledge
        (BufferMemory.conversational, (8, 12), (5, 8), (0.5, 0.7)),  # little memory, the newest counts
        (BufferMemory.balanced, (8, 12), (10, 10), (0.3, 0.3)),  # the defaults
    ],
)
def test_presets_lie_within_the_documents_advice(
    preset: Callable[..., BufferMemory],
    window: tuple[int, int],
    multiplier: tuple[int, int],
    bias: tuple[float, float],
) -> None:
    sizes = preset().sizes
    assert window[0] <= sizes.max_size <= window[1]
    assert multiplier[0] * sizes.max_size <= sizes.max_messages <= multiplier[1] * sizes.max_size
    assert bias[0] <= sizes.recency_bias <= bias[1]


def test_the_buffer_of_documents_000_and_001_are_two_shapes_of_one() -> None:
    """000 keeps 50 and sums up beyond; 001 keeps 10 × 10 and drops beyond: `BufferMemory` has both."""
    options = BufferOptions()
    assert (options.size, options.multiplier, options.size * options.multiplier) == (50, 10, 500)
    assert (default(BufferMemory.__init__, "max_size"), default(BufferMemory.__init__, "buffer_multiplier")) == (10, 10)
    assert (options.recency_bias, default(BufferMemory.__init__, "recency_bias")) == (0.3, 0.3)


# -- document 002


def test_jobs_run_as_often_as_the_document_says() -> None:
    minutes = {name: job.minutes for name, job in list_scheduled_jobs().items()}
    documents = {
        "consolidate": 15,
        "patterns": 60,
        "promote": 60,
        "decay": 1440,
        "cleanup": 1440,
        "audit_partitions": 1440,
    }
    ours = {
        "project": 1,
        "schedules": 1,
        "distill_procedures": 30,
        "entity_linking": 60,
        "synopsis": 60,
        "communities": 360,
        "clusters": 1440,
        "gc": 1440,
        "check": 1440,
    }
    assert minutes == documents | ours


def test_retrieval_weighs_as_the_document_says() -> None:
    """The fourth weight is that of procedural memory, which has two kinds here; the fifth is recency."""
    ranking = RankingOptions()
    procedural = {ranking.kinds["Strategy"], ranking.kinds["Procedure"]}
    assert (ranking.kinds["Turn"], ranking.kinds["Fact"], ranking.kinds["Entity"]) == (0.3, 0.25, 0.2)
    assert (procedural, ranking.recency) == ({0.15}, 0.1)
    shares = [ranking.kinds[kind] for kind in ("Turn", "Fact", "Entity", "Strategy")]
    assert sum(shares) + ranking.recency == pytest.approx(1.0)
    assert (ranking.current, ranking.past) == (1.2, 0.7)
    assert (ranking.fusion, RRF_K) == ("minmax", 60)  # the document fuses by reciprocal ranks; that is an option


def test_twice_as_many_are_looked_at_as_are_delivered(home: Path) -> None:
    """The document over-fetches 2 × top_k; ours looks at 50 of each kind at least."""
    assert RankingOptions().pool == 50
    with open_memory(home, recall={"ranking": {"pool": 1}}) as memory:
        memory.store_turns([f"Note {number} about tea." for number in range(20)])
        receipt = memory.remember("tea", top_k=3, reinforce=False).receipt
    assert (len(receipt.delivered), len(receipt.pool.keys)) == (3, 6)


def test_the_graph_is_walked_two_steps_and_never_more_than_three() -> None:
    options = parse_options({})
    (walk,) = [each.options for each in options.techniques if each.name == "entity"]
    assert isinstance(walk, entity.Options)
    assert (walk.depth, walk.limit, entity.MAX_RELATED_ENTITIES) == (2, 200, 50)
    with pytest.raises(ValueError, match="less than or equal to 3"):
        entity.Options(depth=4)


def test_techniques_of_the_document_can_each_be_switched() -> None:
    """Those without a language model are on, those that ask one are off until somebody switches them on."""
    enabled = {each.name: each.options.enabled for each in parse_options({}).techniques}
    assert {name: enabled[name] for name in ("keyword", "vector", "entity", "temporal")} == dict.fromkeys(
        ("keyword", "vector", "entity", "temporal"), True
    )
    asking = ("expansion", "hyde", "self_query")
    assert {name: enabled[name] for name in asking} == dict.fromkeys(asking, False)
    switched = parse_options({"hyde": {"enabled": True}, "keyword": {"enabled": False}}).select_techniques(None)
    assert {"hyde"} <= {each.name for each in switched}
    assert "keyword" not in {each.name for each in switched}


def test_certainty_becomes_confidence_by_the_documents_table() -> None:
    own = {"doubtful": 0.30}  # a certainty that the document does not have
    by_document = {"explicit": 0.95, "implied": 0.85, "inferred": 0.70, "uncertain": 0.50}
    assert dict(CONFIDENCE_BY_CERTAINTY) == {**by_document, **own}
    assert DEFAULT_CONFIDENCE == 0.70  # where the document says nothing


def test_retention_is_the_documents() -> None:
    settings = load_settings()
    assert RetentionOptions().model_dump() == {
        "conversation_days": 90,
        "entity_salience": 0.1,
        "entity_days": 30,
        "ltm_retention_days": None,
    }
    assert (settings.working_ttl, settings.working_turns) == (3_600, 50)
    assert settings.audit_days == 365 > 90  # "longer" than conversations


def test_audit_levels_are_the_documents_and_writes_is_the_default() -> None:
    assert get_args(AuditLevel) == ("off", "writes", "reads", "verbose")
    assert load_settings().audit_level == "writes"


def test_a_goal_has_the_documents_states() -> None:
    for state in ("active", "completed", "abandoned", "blocked"):
        assert Goal(id="g", description="x", goal_status=state).goal_status == state
    assert Goal(id="g", description="x").goal_status == "active"
    assert Goal(id="g", description="x").priority == 3


def test_the_turns_of_the_last_hours(home: Path) -> None:
    with open_memory(home, clock=ManualClock(START)) as memory:
        for hours in (30, 5, 1):
            memory.store_turn(f"{hours} hours ago", timestamp=START - timedelta(hours=hours))
        found = [[turn.content for turn in memory.episodic.recent_turns(hours=hours)] for hours in (24, 2, None)]
    assert found == [["5 hours ago", "1 hours ago"], ["1 hours ago"], ["30 hours ago", "5 hours ago", "1 hours ago"]]


def test_the_servers_of_the_compose_file_have_the_documents_sizes() -> None:
    services = yaml.safe_load((ROOT / "docker/compose.yaml").read_text(encoding="utf-8"))["services"]
    neo4j, redis = services["neo4j"]["environment"], services["redis"]["command"][-1].split()
    assert neo4j["NEO4J_server_memory_heap_max__size"] in ("2G", "3G", "4G")
    assert int(neo4j["NEO4J_server_memory_pagecache_size"].removesuffix("G")) >= 1
    assert 512 <= int(redis[redis.index("--maxmemory") + 1].removesuffix("mb")) <= 2048
    postgres = " ".join(services["postgres"]["command"])
    assert all(f"-c{name}=" in postgres for name in ("shared_buffers", "work_mem", "effective_cache_size"))


# -- document 003


@pytest.mark.parametrize("name, constant", [("fast", 8.02e-6), ("default", 2.673e-6), ("slow", 1.145e-6)])
def test_the_score_follows_the_documents_formula_with_each_half_life(name: str, constant: float) -> None:
    """score = use_count^β · exp(-λ · Δt) · strength; ours has use_count + 1, so that what is new does not score 0."""
    options = DecayOptions.model_validate({"half_life_days": name})
    assert lifecycle.decay_constant(options.half_life_days) == pytest.approx(constant, rel=2e-3)
    exact = math.log(2) / (HALF_LIVES[name] * DAY_SECONDS)
    for days, uses, strength in ((1, 1, 1.0), (3, 5, 1.1), (14, 9, 2.0)):
        documents = uses**0.6 * math.exp(-exact * days * DAY_SECONDS) * strength
        now = START + timedelta(days=days)
        assert lifecycle.decay_score(uses - 1, START, strength, now, options) == pytest.approx(documents)


@pytest.mark.parametrize("name, six", [("low", 6**0.3), ("default", 6**0.6), ("high", 6.0)])
def test_beta_says_how_much_use_counts(name: str, six: float) -> None:
    options = DecayOptions.model_validate({"beta": name})
    assert options.beta == BETAS[name]
    assert lifecycle.decay_score(5, START, 1.0, START, options) == pytest.approx(six)
    assert lifecycle.decay_score(0, START, 1.0, START, options) == 1.0


def test_the_numbers_of_fading_are_the_documents() -> None:
    assert (NUMBERS.half_life_days, NUMBERS.beta, NUMBERS.strongest) == (3.0, 0.6, 2.0)
    assert (NUMBERS.danger_low, NUMBERS.danger_high) == (0.15, 0.35)
    assert lifecycle.review_priority((NUMBERS.danger_low + NUMBERS.danger_high) / 2) == 1.0
    assert (NUMBERS.cross_domain, NUMBERS.cross_domain_boost) == (0.3, 0.1)
    assert (NUMBERS.forget_threshold, NUMBERS.forget) == (0.05, "archive")  # the document deletes by itself
    assert (NUMBERS.salience_rate, NUMBERS.salience_after_days) == (0.95, 1.0)  # document 002: daily, from 24 h
    assert (NUMBERS.confidence_rate, NUMBERS.confidence_after_days) == (0.95, 7.0)  # weekly


def test_a_new_memory_has_the_documents_fields_and_values() -> None:
    usage, fact = RecordUsage("Fact", "f"), Fact(id="f", claim="x", tier="short")
    assert (usage.use_count, usage.strength, fact.status) == (0, 1.0, Status.ACTIVE)
    assert (usage.review_priority, usage.last_review_at, usage.review_count, usage.cross_domain_count) == (
        0,
        None,
        0,
        0,
    )
    assert {Status.ACTIVE, Status.PROMOTED, Status.ARCHIVED} < set(Status)
    for kind in ("fact", "preference", "context"):  # document 000
        assert Fact(id="f", claim="x", memory_type=kind).memory_type == kind


# -- document 004


def test_the_window_and_the_retention_of_the_document_can_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (
        ("WORKING_TURNS", "20"),
        ("EMBEDDER", "openai:text-embedding-3-small"),
        ("RETENTION__LTM_RETENTION_DAYS", "30"),
    ):
        monkeypatch.setenv(f"AGENTMEM_{name}", value)
    settings = load_settings()
    assert (settings.working_turns, settings.retention.ltm_retention_days) == (20, 30)
    assert settings.embedder == "openai:text-embedding-3-small"
