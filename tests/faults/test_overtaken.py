"""Writes that overtake each other at the worst moment; the simulation found them, here they are small."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from agentmem.core.records import Fact
from agentmem.engine.vector_projection import VectorProjection
from agentmem.errors import InvalidRecord
from agentmem.facade.async_memory import AsyncAgentMemory
from tests.faults import checks

Act = Callable[[], Awaitable[Any]]
SECRET = "My password is swordfish."


@pytest.fixture(params=["at once", "followed"])
async def memory(
    request: pytest.FixtureRequest, home: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[AsyncAgentMemory]:
    """Vectors come with the log, or follow as those of a model do."""
    monkeypatch.setattr(VectorProjection, "is_synchronous", request.param == "at once")
    async with AsyncAgentMemory("ann", home=home, embedder="hash", dimensions=64, conversation_id="talk") as opened:
        yield opened
        await checks.check_settled(opened)
        await checks.check_rebuild_equal(opened.engine, [opened.scope])
        await checks.check_healthy(opened.engine)


class _Overtaken:
    """A log in which something else happens once: right after the first write, or right before an erasure."""

    def __init__(self, log: Any, *, after_append: Act | None = None, before_erase: Act | None = None) -> None:
        self._log, self._after, self._before = log, after_append, before_erase

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    async def append(self, *args: Any, **kwargs: Any) -> Any:
        entries = await self._log.append(*args, **kwargs)
        act, self._after = self._after, None
        if act is not None:
            await act()
        return entries

    async def erase(self, *args: Any, **kwargs: Any) -> Any:
        act, self._before = self._before, None
        if act is not None:
            await act()
        return await self._log.erase(*args, **kwargs)


async def _nothing_left(memory: AsyncAgentMemory) -> None:
    entries = await checks.check_journal(memory.engine, memory.scope)
    assert "swordfish" not in repr(entries)
    assert (await checks.read_projections(memory.engine, memory.scope))["words"] == {}


async def test_what_was_undone_can_still_be_erased(memory: AsyncAgentMemory) -> None:
    turn = await memory.store_turn(SECRET, turn_id="t0")
    await memory.undo(turn.operation_id)
    receipt = await memory.forget("t0", hard=True)
    assert receipt.ids == ("t0",)
    await _nothing_left(memory)


async def test_an_undo_in_the_middle_of_an_erasure_hides_nothing_from_it(memory: AsyncAgentMemory) -> None:
    turn = await memory.store_turn(SECRET, turn_id="t0")
    engine: Any = memory.engine
    engine.log = _Overtaken(engine.log, after_append=lambda: memory.undo(turn.operation_id))
    await memory.forget("t0", hard=True)
    await _nothing_left(memory)


async def test_a_fact_learned_in_the_middle_of_an_erasure_goes_with_its_source(memory: AsyncAgentMemory) -> None:
    await memory.store_turn(SECRET, turn_id="t0")
    engine: Any = memory.engine
    engine.log = _Overtaken(
        engine.log, before_erase=lambda: memory.learn_fact("The password is swordfish", source_turn_ids=["t0"])
    )
    receipt = await memory.forget("t0", hard=True)
    assert len(receipt.derived) == 1
    await _nothing_left(memory)


async def test_a_fact_is_not_learned_from_what_is_erased_meanwhile(memory: AsyncAgentMemory) -> None:
    await memory.store_turn(SECRET, turn_id="t0")
    facts = memory.semantic
    drafted = facts._find_duplicate

    async def erased_meanwhile(fact: Fact) -> Fact | None:
        if await memory.engine.log.read_records("Turn", ["t0"], memory.scope):
            await memory.forget("t0", hard=True)
        return await drafted(fact)

    facts._find_duplicate = erased_meanwhile  # type: ignore[method-assign]
    with pytest.raises(InvalidRecord, match="no Turn 't0' is stored"):
        await memory.learn_fact("The password is swordfish", source_turn_ids=["t0"])
    await _nothing_left(memory)


async def test_a_restored_fact_does_not_rest_on_what_was_erased(memory: AsyncAgentMemory) -> None:
    await memory.store_turns([{"turn_id": "t0", "content": SECRET}, {"turn_id": "t1", "content": "I keep bees."}])
    fact = await memory.learn_fact("Ann keeps bees", source_turn_ids=["t0", "t1"])
    await memory.forget(fact.id)
    await memory.forget("t0", hard=True)
    (restored,) = await memory.restore(fact.id)
    assert (restored.status, restored.source_turn_ids) == ("active", ("t1",))
    assert [one.id for one in await memory.semantic.facts()] == [fact.id]
