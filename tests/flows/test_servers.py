"""The same three lines on Postgres, Neo4j and Redis."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest

from agentmem import AgentMemory, StoreUnavailable
from agentmem.stores.postgres.vectors import PostgresVectors
from tests.fakes.as_a_model import AsyncOnlyEmbedder
from tests.flows.given import bundle_ids, engine_of
from tests.servers.stack import Stack

# Stores that have just started are slow.
PATIENT = {"catch_up_ms": 60_000, "recall": {name: {"deadline": 60} for name in ("entity", "keyword")}}


def opened(home: Path, stack: Stack, user: str = "alice", **more: Any) -> AgentMemory:
    return AgentMemory(stack.user(user), home=home, **{"embedder": "hash", **stack.urls, **PATIENT, **more})


def test_what_was_stored_is_remembered_by_words_vectors_and_links(home: Path, stack: Stack) -> None:
    with opened(home, stack) as memory:
        anna = memory.upsert_entity({"name": "Anna", "type": "person"})
        turn = memory.store_turn("Anna is allergic to peanuts.")
        fact = memory.learn_fact("The sister of the chef must avoid nuts", entity_ids=[anna.id])
        found = memory.remember("what must Anna avoid?")
        assert {turn.id, fact.id, anna.id} <= bundle_ids(found)
        assert found.notices == ()
        whys = {item.record.id: item.why for item in found.items}
        assert "entities" in whys[fact.id]
        memory.flush()
        assert set(memory.lag().values()) == {0}
    with opened(home, stack) as memory:
        assert {turn.id, fact.id, anna.id} <= bundle_ids(memory.remember("what must Anna avoid?"))
        graph = memory.semantic.get_entity_graph([anna.id])
        assert [found.id for found in graph.facts] == [fact.id]


def test_what_was_erased_is_nowhere(home: Path, stack: Stack) -> None:
    with opened(home, stack) as memory:
        anna = memory.upsert_entity({"name": "Anna"})
        memory.learn_fact("Anna keeps bees", entity_ids=[anna.id])
        memory.store_turn("Anna keeps bees.")
        memory.flush()
        gone = memory.forget(anna.id, hard=True)
        assert gone.scan is not None
        assert "graph" in gone.scan.checked
        assert dict(gone.scan.leftovers) == {}
        receipt = memory.erase()
        assert dict(receipt.scan.leftovers) == {}
        assert bundle_ids(memory.remember("bees")) == set()
        memory.flush()
        assert set(memory.lag().values()) == {0}


def test_a_turn_is_one_transaction_of_the_log_and_its_vectors(
    home: Path, stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(index: PostgresVectors, batches: object) -> dict[str, int]:
        raise StoreUnavailable("no second transaction")

    with opened(home, stack) as memory:
        memory.store_turn("Anna is allergic to peanuts.")  # a user's first vectors follow
        monkeypatch.setattr(PostgresVectors, "apply", refused)
        turn = memory.store_turn("The sister of the chef avoids nuts.")
        memory.learn_fact("The sister of the chef has a boat")
        assert {name: lag for name, lag in memory.lag().items() if name != "graph"} == {"vectors/hash:v1:512": 0}
        found = memory.remember("what does the sister avoid?")
        assert found.notices == ()
        assert "whole" in {item.record.id: item.why for item in found.items}[turn.id]


def test_vectors_that_a_failing_postgres_lost_are_made_again_by_the_next_recall(home: Path, stack: Stack) -> None:
    """Their commit does not wait for the disk. The process that wrote them does not trust what it remembers."""
    with opened(home, stack) as memory, psycopg.connect(stack.log_url, autocommit=True) as owner:
        served = engine_of(memory).vector_projections[0]
        served.embedder = AsyncOnlyEmbedder(served.embedder)
        memory.store_turn("Anna is allergic to peanuts.")
        turn = memory.store_turn("The sister of the chef avoids nuts.")
        user = {"user_id": stack.user()}
        kept = "SELECT seq FROM projection_watermarks WHERE user_id = %(user_id)s AND projection LIKE 'vectors/%%'"
        written = "SELECT count(*) FROM passages_512 WHERE user_id = %(user_id)s"
        before = owner.execute(kept, user).fetchall(), owner.execute(written, user).fetchall()
        with owner.transaction():
            owner.execute("UPDATE projection_watermarks SET seq = seq - 1 WHERE user_id = %(user_id)s", user)
            owner.execute(
                "DELETE FROM passages_512 p USING memory_records r WHERE r.user_id = p.user_id AND"
                " r.slot = p.slot AND p.user_id = %(user_id)s AND r.id = %(id)s",
                {**user, "id": turn.id},
            )
        assert memory.lag()[next(name for name in memory.lag() if name.startswith("vectors/"))] == 1
        found = memory.remember("what does the sister avoid?")
        assert found.notices == ()
        assert "whole" in {item.record.id: item.why for item in found.items}[turn.id]
        assert (owner.execute(kept, user).fetchall(), owner.execute(written, user).fetchall()) == before
