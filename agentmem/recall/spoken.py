"""What speaks for a turn beside its own words: its gloss, and the facts that were taken from it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from agentmem.model.outline import Ints
from agentmem.recall.technique import Memory

GLOSS, FACT, TURN = "Gloss", "Fact", "Turn"


@dataclass(frozen=True, slots=True, eq=False)
class Speakers:
    """Slots of current records that speak for visible turns, in ascending order, and the slots of those turns."""

    slots: Ints
    turns: Ints


def speaking_for_turns(kinds: Collection[str]) -> tuple[str, ...]:
    """Kinds to be scored beside these, because they speak for turns among them."""
    return tuple(kind for kind in (GLOSS, FACT) if kind not in kinds) if TURN in kinds else ()


def speakers(memory: Memory, kind: str) -> Speakers:
    """What of a kind speaks for the turns of a memory: only what the scope may read and what is not retired."""
    outline = memory.outline

    def find() -> Speakers:
        speaks = memory.current & (outline.kind == outline.kinds.find(kind)) & (outline.turn >= 0)
        speaks &= outline.channels.among(memory.scope.readable())[outline.channel]
        speaks &= memory.turns[outline.turn]
        slots = np.flatnonzero(speaks)
        return Speakers(slots, outline.turn[slots])

    return memory.kept.once(("speakers for turns", kind), outline, memory.mask, find, memory.current)
