"""The benchmark of the servers from end to end, with little in them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.benchmarks.servers.__main__ import shown
from tests.benchmarks.servers.run import SMALL, TARGETS, BenchmarkStores, ServerBenchmarkPlan, measure
from tests.benchmarks.servers.shares import MIXES
from tests.benchmarks.servers.town import plan_population
from tests.servers.stack import Stack, copy_database

QUICK = replace(SMALL, passages=1500, large=300, seconds=1, warming=0.2, rounds=1, questions=10, projected=60)


@pytest.mark.nightly
async def test_everything_is_loaded_and_measured(home: Path, stack: Stack, migrated: str, postgres_url: str) -> None:
    said: list[str] = []
    plan_ = replace(QUICK, mark=f" {stack.user_suffix}")
    with copy_database(postgres_url, migrated) as log_url:
        few, many = (
            BenchmarkStores({**stack.urls, "log_url": log_url}, log_url),
            BenchmarkStores(stack.urls, stack.log_url),
        )
        document = await measure(plan_, few, many, home, said.append)
    load = document["load"]
    town = plan_population(plan_.users, plan_.passages, plan_.large, plan_.mark)
    assert load["users"] == len(town.turns) == 20
    assert load["passages"] == sum(town.turns.values())
    assert abs(load["passages"] - plan_.passages) < plan_.passages / 10
    assert document["vector_recall"] == {"queries": 20, "users": len(town.sizes) + 1, "recall": 1.0, "worst": 1.0}
    assert [row["asked"] for row in document["asked"]] == [name for name, _ in TARGETS]
    operations = {(row["mix"], row["operation"]): row["n"] for row in document["latency"]}
    assert all(operations[mix, "remember, small, all"] > 0 for mix in MIXES)
    assert operations["users alike", "remember, small, cold"] == 0
    assert {row["technique"] for row in document["techniques"]} >= {"vector", "keyword", "entity"}
    assert {"log.append", "vectors.apply", "session.push"} <= {row["step"] for row in document["steps"]}
    assert [row["clients"] for row in document["clients"]] == [1, 8, 32]
    assert [row["passages"] for row in document["first"]][-1] == plan_.large
    assert document["graph"]["edges"] > plan_.projected
    assert min(document["growth"][loaded]["p95_ms"] for loaded in ("few", "many")) > 0
    assert document["growth"]["ratio"] > 0
    assert "remember, large, warm" in shown(json.loads(json.dumps(document)))
    assert said


def test_sizes_lie_between_the_smallest_and_the_largest_and_their_sum_is_what_was_asked_for() -> None:
    full = ServerBenchmarkPlan()
    town = plan_population(full.users, full.passages, full.large)
    assert (min(town.sizes), max(town.sizes), len(town.sizes)) == (100, 5000, 12)
    assert len(town.turns) == full.users
    assert abs(sum(town.turns.values()) - full.passages) < full.passages / 100
    early = [name for template, others in town.first() for name in (template, *others)]
    late = [name for _, others in town.later_users() for name in others]
    assert abs(len(early) - full.users / 10) <= len(town.sizes)
    assert sorted([*early, *late, town.large]) == sorted(town.turns)
    assert town.somebody in early
