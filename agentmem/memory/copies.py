"""The copy of a project's fact in `_global`: it says what the fact says, and ends with it."""

from __future__ import annotations

from collections.abc import Iterable

from agentmem.memory import Seat
from agentmem.model.records import Fact, Record


async def copies_of(seat: Seat, records: Iterable[Record]) -> list[Fact]:
    """The copies that stand for nothing but these facts; one that gained sources of its own stands by itself."""
    spread = {each.promoted_to: each for each in records if isinstance(each, Fact) and each.promoted_to}
    found = await seat.resources.log.get("Fact", list(spread), seat.scope) if spread else []
    return [copy for copy in found if isinstance(copy, Fact) and _rests_on(copy, spread[copy.id])]


def _rests_on(copy: Fact, fact: Fact) -> bool:
    return copy.promoted_from == fact.id and set(copy.source_turn_ids) <= set(fact.source_turn_ids)
