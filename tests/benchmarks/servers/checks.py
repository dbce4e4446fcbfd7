"""Figures that are no latency of traffic: exactness of the search, one user among few and many, speed of the graph."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from agentmem import AsyncAgentMemory
from agentmem.core.scope import Scope
from agentmem.jobs.builtin.sync_projections import sync_projections
from agentmem.stores.postgres.columns import decode_halfvecs
from agentmem.stores.values import WHOLE, Where
from tests.benchmarks.metrics import percentiles
from tests.benchmarks.servers.load import UserLoader
from tests.benchmarks.servers.town import UserPopulation
from tests.benchmarks.servers.traffic import Traffic
from tests.benchmarks.synthetic import SyntheticConversations

NEAREST = 10
TIE = 0.5e-4  # cosines are rounded to 1e-4 before they are ranked


async def exactness(loader: UserLoader, town: UserPopulation, queries: int) -> dict[str, Any]:
    """Of the nearest ten by float64 from the stored vectors, the share that the index names; ties at the end count."""
    projection, found = loader.memory.engine.vector_projections[0], []
    users = [town.large, *(names[0] for names in town.sizes.values())]
    held: dict[str, tuple[Any, Any]] = {}
    for n, question in enumerate(SyntheticConversations(77).generate_questions(queries)):
        user = users[n % len(users)]
        vector = (await projection.embedder.embed([question]))[0].astype(np.float16).astype(np.float32)
        if user not in held:
            rows = loader.vectors(user)
            halves = decode_halfvecs([blob for _, blob in rows], projection.embedder.dimensions).astype(np.float64)
            held[user] = (
                np.array([ordinal for ordinal, _ in rows]),
                halves / np.linalg.norm(halves, axis=1, keepdims=True),
            )
        ordinals, vectors = held[user]
        cosines = vectors @ (vector.astype(np.float64) / np.linalg.norm(vector))
        tenth = np.sort(cosines)[-min(NEAREST, len(cosines))]
        named = await projection.index.search(vector, Scope(user), Where(), WHOLE, NEAREST)
        good = cosines[np.searchsorted(ordinals, named.ordinals)] >= tenth - TIE
        found.append(good.sum() / min(NEAREST, len(cosines)))
    return {"queries": queries, "users": len(held), "recall": float(np.mean(found)), "worst": float(np.min(found))}


async def growth(few: Traffic, many: Traffic, rounds: int, questions: int) -> dict[str, Any]:
    """Recalls of one user, warm and one after the other, where few users are loaded and where many are.

    Both are asked in turns, because the machine's speed changes within minutes. The medians over the rounds of p50, p95
    and of the ratio of the p95.
    """
    found: dict[str, list[dict[str, float]]] = {"few": [], "many": []}
    for traffic in (few, many):
        await traffic.recall(traffic.town.somebody, time.perf_counter())
    for _ in range(rounds):
        for rows, traffic in zip(found.values(), (few, many), strict=True):
            user = traffic.town.somebody
            samples = [await traffic.recall(user, time.perf_counter()) for _ in range(questions)]
            rows.append(percentiles([sample.seconds - sample.embedding for sample in samples]))
    ratios = [after["p95_ms"] / before["p95_ms"] for before, after in zip(*found.values(), strict=True)]
    medians = {
        loaded: {name: float(np.median([each[name] for each in rows])) for name in ("p50_ms", "p95_ms")}
        for loaded, rows in found.items()
    }
    return {**medians, "ratio": float(np.median(ratios))}


async def graph_speed(loader: UserLoader, user: str, turns: int) -> dict[str, float]:
    """Changes a second that the projector takes into the graph, and records a second that a rebuild does."""
    memory: AsyncAgentMemory = loader.memory
    await loader.store(user, turns, seed=5)
    engine, scope = memory.engine, Scope(user)
    begun = time.perf_counter()
    report = await sync_projections(engine)
    projected = time.perf_counter() - begun
    assert set((await memory.scoped(user_id=user).lag()).values()) == {0}, report
    begun = time.perf_counter()
    assert engine.graph_projection is not None
    edges = await engine.graph_projection.graph.rebuild(scope)
    rebuilt = time.perf_counter() - begun
    records = await engine.log.count(scope, Where())
    return {
        "changes": turns,
        "project_s": projected,
        "changes_per_s": turns / projected,
        "records": records,
        "edges": edges,
        "rebuild_s": rebuilt,
        "records_per_s": records / rebuilt,
    }


async def first_recalls(traffic: Traffic) -> list[dict[str, Any]]:
    """What a process takes that does not know a user yet, one after the other, with nothing else going on."""
    town, found = traffic.town, []
    for user in [names[0] for names in town.sizes.values() if names[0] != town.somebody] + [town.large]:
        sample = await traffic.recall(user, time.perf_counter())
        again = [await traffic.recall(user, time.perf_counter()) for _ in range(5)]
        warm = float(np.median([each.seconds - each.embedding for each in again]))
        first = sample.seconds - sample.embedding
        found.append({"passages": town.turns[user], "first_ms": 1000 * first, "then_p50_ms": 1000 * warm})
    return found
