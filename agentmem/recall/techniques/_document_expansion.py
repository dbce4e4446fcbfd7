"""What speaks for a turn beside its own words: its gloss, and the facts that were taken from it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from agentmem.core.columns import Ints
from agentmem.recall.technique import SearchContext

TURN_SUMMARY, FACT, TURN = "Gloss", "Fact", "Turn"


@dataclass(frozen=True, slots=True, eq=False)
class DocumentExpansion:
    """Ordinals of current records that speak for visible turns, in ascending order, and the ordinals of those turns."""

    ordinals: Ints
    turn_ordinals: Ints


def expansion_kinds(kinds: Collection[str]) -> tuple[str, ...]:
    """Kinds to be scored beside these, because they speak for turns among them."""
    return tuple(kind for kind in (TURN_SUMMARY, FACT) if kind not in kinds) if TURN in kinds else ()


def find_expansions(context: SearchContext, kind: str) -> DocumentExpansion:
    """What of a kind speaks for the turns of a memory: only what the scope may read and what is not retired."""
    columns = context.columns

    def find() -> DocumentExpansion:
        speaks = context.current_mask & (columns.kind == columns.kinds.find_code(kind)) & (columns.turn >= 0)
        speaks &= columns.channels.mask_for(context.scope.readable_channels())[columns.channel]
        speaks &= context.turn_mask[columns.turn]
        ordinals = np.flatnonzero(speaks)
        return DocumentExpansion(ordinals, columns.turn[ordinals])

    return context.cache.get_or_compute(("speakers for turns", kind), columns, context.mask, find, context.current_mask)
