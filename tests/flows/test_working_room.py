"""Values and thoughts of a user take a limited number of bytes, on both session caches."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentmem import InvalidRecord
from agentmem.settings.settings import load_settings
from tests.flows.given import ManualClock, open_memory


@pytest.mark.parametrize("backend", ["sqlite", pytest.param("redis", marks=pytest.mark.server("redis"))])
def test_values_and_thoughts_share_the_room_and_the_oldest_go_first(
    request: pytest.FixtureRequest, home: Path, backend: str
) -> None:
    url = request.getfixturevalue("redis_database") if backend == "redis" else None
    clock = ManualClock()
    with open_memory(home, clock=clock, working_mb=0.01, session_url=url, conversation_id="c") as memory:
        working = memory.working
        for name in ("first", "second"):
            working.set(name, "x" * 3000, ttl=60)
            clock.advance(seconds=1)
        working.push_thought("y" * 3000)
        clock.advance(seconds=1)
        assert working.get("first") == "x" * 3000
        memory.scoped(conversation_id="d").working.set("third", "x" * 3000)
        assert (working.get("first"), working.get("second")) == (None, "x" * 3000)
        assert working.thoughts() == ["y" * 3000]
        for field, call in (
            ("value", lambda: working.set("third", "x" * 20_000)),
            ("thought", lambda: working.push_thought("x" * 20_000)),
        ):
            with pytest.raises(InvalidRecord, match="working_mb") as refused:
                call()
            assert refused.value.field == field
        assert list(working.context()) == ["second"], "what cannot be kept costs nothing that is"


def test_the_documents_number_is_the_default() -> None:
    assert load_settings().working_mb == 10
