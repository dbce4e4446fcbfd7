"""The copy of a project's fact in `_global`: it says what the fact says, and ends with it."""

from __future__ import annotations

from collections.abc import Iterable

from agentmem.memory import MemoryContext
from agentmem.model.records import Fact, Record


async def find_global_copies(context: MemoryContext, records: Iterable[Record]) -> list[Fact]:
    """The copies that stand for nothing but these facts; one that gained sources of its own stands by itself."""
    spread = {each.promoted_to: each for each in records if isinstance(each, Fact) and each.promoted_to}
    found = await context.engine.log.read_records("Fact", list(spread), context.scope) if spread else []
    return [copy for copy in found if isinstance(copy, Fact) and _is_pure_copy(copy, spread[copy.id])]


def _is_pure_copy(copy: Fact, fact: Fact) -> bool:
    return copy.promoted_from == fact.id and set(copy.source_turn_ids) <= set(fact.source_turn_ids)
