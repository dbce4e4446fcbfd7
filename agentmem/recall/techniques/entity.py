"""Links: what the graph ties to the people, places and things that the query names."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
from pydantic import Field

from agentmem.model.outline import Floats
from agentmem.model.ranking import Ranked
from agentmem.model.records import RELATIONS, EdgeKind, Entity
from agentmem.recall.technique import Hits, Memory, Query
from agentmem.recall.technique import Options as TechniqueOptions
from agentmem.text.words import terms

WALKED = frozenset({EdgeKind.ABOUT, EdgeKind.MENTIONS, EdgeKind.DEPENDS_ON, *RELATIONS})
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]")


class Options(TechniqueOptions):
    """`named` is added to an entity that the query names, `linked` to what is one step from it, half of it at two.

    The more is linked, the less a link says: beyond `few` linked records the bonus shrinks in proportion. `depth` is in
    steps, `limit` the most records reached, `candidates` the most entities looked at.
    """

    named: float = Field(default=0.2, ge=0)
    linked: float = Field(default=0.1, ge=0)
    few: int = Field(default=10, ge=1)
    depth: int = Field(default=2, ge=1, le=3)
    limit: int = Field(default=50, ge=1, le=1000)
    candidates: int = Field(default=50, ge=1, le=1000)


async def search(query: Query, memory: Memory, options: Options) -> Hits:
    """The list `entities`; nothing when the query names none that is visible."""
    slots = await _candidates(query, memory, options.candidates)
    if not slots:
        return {}
    records = await memory.read(slots)
    named = [entity for entity in records if isinstance(entity, Entity) and occurs(entity, query.read.text)]
    if not named:
        return {}
    bonus = np.zeros(memory.outline.size, dtype=np.float32)
    _raise(bonus, memory, (entity.key for entity in named), options.named)
    reached = await memory.graph.neighbours(
        [entity.key for entity in named], memory.scope, WALKED, options.depth, options.limit
    )
    share = options.linked * min(1.0, options.few * len(named) / max(len(reached), 1))
    for neighbour in reached:
        _raise(bonus, memory, [neighbour.key], share / max(neighbour.distance, 1))
    return {"entities": Ranked(bonus, "added")}


async def _candidates(query: Query, memory: Memory, most: int) -> list[int]:
    """Slots of visible entities that share words with the query, those that share most first."""
    outline = memory.outline
    entities = memory.mask & (outline.kind == outline.kinds.find("Entity"))
    words = list(dict.fromkeys(terms(query.read.text)))
    if not words or not entities.any():
        return []
    shared = np.zeros(outline.size, dtype=np.int64)
    for postings in (await memory.match(words)).values():
        shared[postings.slots] += 1
    found = np.flatnonzero(entities & (shared > 0))
    return [int(slot) for slot in found[np.lexsort((found, -shared[found]))][:most]]


def occurs(entity: Entity, text: str) -> bool:
    """Whether the text holds the entity's name, slug or an alias, as whole words in any case."""
    folded = text.casefold()
    return any(_holds(folded, name.casefold().strip()) for name in (entity.name, entity.slug, *entity.aliases))


def _holds(text: str, name: str) -> bool:
    if not name or name not in text:
        return False
    before = "" if _UNSPACED.match(name) else r"(?<!\w)"
    after = "" if _UNSPACED.match(name[-1]) else r"(?!\w)"
    return re.search(before + re.escape(name) + after, text) is not None


def _raise(bonus: Floats, memory: Memory, keys: Iterable[tuple[str, str]], worth: float) -> None:
    for key in keys:
        slot = memory.outline.slots.get(key)
        if slot is not None and slot < len(bonus):
            bonus[slot] = max(bonus[slot], worth)
