"""A memory whose session cache is a Redis: the same verbs, its keys as documented, and nothing lost when it is gone."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import redis

from agentmem import AgentMemory
from agentmem.admin.doctor import diagnose
from agentmem.errors import NotFound
from agentmem.settings.settings import load_settings
from tests.servers.local import LocalServer


def opened(home: Path, url: str, user: str = "ann lee") -> AgentMemory:
    return AgentMemory(user, home=home, session_url=url, embedder="hash", conversation_id="talk")


def keys(url: str) -> set[str]:
    with redis.Redis.from_url(url, decode_responses=True) as client:
        return {str(key) for key in client.scan_iter()}


def test_working_memory_lies_in_redis_under_its_documented_keys(home: Path, redis_database: str) -> None:
    with opened(home, redis_database) as memory:
        memory.store_turn("I keep bees.", speaker="Ann")
        memory.working.set("city", "Oslo")
        memory.working.push_thought("ask about honey")
    with opened(home, redis_database) as memory:
        assert [turn.content for turn in memory.working.turns()] == ["I keep bees."]
        assert (memory.working.get("city"), memory.working.thoughts()) == ("Oslo", ["ask about honey"])
        found = keys(redis_database)
        assert found
        assert all("{ann%20lee}" in key for key in found)
        assert any(key.startswith("working:{ann%20lee}:_global:talk") for key in found)
        memory.erase()
        assert keys(redis_database) == set()


def test_a_redis_that_is_gone_costs_the_session_and_nothing_else(home: Path, own_redis: LocalServer) -> None:
    with opened(home, own_redis.url) as memory:
        memory.store_turn("I keep bees.")
        own_redis.kill()
        memory.store_turn("I keep goats.")
        assert {turn.content for turn in memory.remember("what do I keep?").turns} == {"I keep bees.", "I keep goats."}
        assert memory.working.get("city") is None
        own_redis.restart()
        memory.working.set("city", "Oslo")
        assert memory.working.get("city") == "Oslo"


def test_an_erasure_says_what_it_could_not_reach(home: Path, own_redis: LocalServer) -> None:
    with opened(home, own_redis.url) as memory:
        memory.store_turn("I keep bees.")
        receipt = memory.remember("bees").receipt
        own_redis.kill()
        scan = memory.erase().scan
        assert scan.leftovers == {}
        assert [place for place in scan.deferred if place.startswith("session cache")]
        with pytest.raises(NotFound):
            memory.audit.receipt(receipt.id)
        own_redis.restart()
        assert memory.erase().scan.deferred == ()


def test_the_doctor_looks_at_the_redis(home: Path, own_redis: LocalServer) -> None:
    with opened(home, own_redis.url) as memory:
        memory.store_turn("I keep bees.")
    settings = load_settings(home=home, session_url=own_redis.url)

    def session() -> tuple[str, str]:
        (found,) = [finding for finding in asyncio.run(diagnose(settings)) if finding.check == "session"]
        return found.level, found.detail

    assert "Redis 7" in session()[1]
    own_redis.kill()
    level, detail = session()
    assert (level, "cannot be used" in detail) == ("warning", True)
