"""Links: what the graph ties to the people, places and things that the query names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from pydantic import Field

from agentmem.model.outline import Floats
from agentmem.model.ranking import Ranked
from agentmem.model.records import RELATIONS, Edge, EdgeKind, Entity, Key
from agentmem.recall.technique import Hits, Memory, Query
from agentmem.recall.technique import Options as TechniqueOptions
from agentmem.stores import Neighbour
from agentmem.text.words import terms

PERSON = "person"
TOLD = frozenset({EdgeKind.ABOUT, EdgeKind.MENTIONS})
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]")


class Options(TechniqueOptions):
    """`named` is added to an entity that the query names, `linked` to what tells of it.

    From there it spreads over relations, up to `depth` of them and `related` entities: a step keeps the share `step`.
    Where the query has a word of the relation ("her manager"), whoever it leads to is asked about, and counts `asked`
    times what the query names. The more tells of an entity, the less each
    says: beyond `few` records the bonus shrinks in proportion. `limit` is the most records told of named entities, and
    as many of related ones; `candidates` the most entities looked at.
    """

    named: float = Field(default=0.2, ge=0)
    linked: float = Field(default=0.1, ge=0)
    few: int = Field(default=10, ge=1)
    depth: int = Field(default=2, ge=1, le=3)
    related: int = Field(default=50, ge=1, le=1000)
    step: float = Field(default=0.4, ge=0, le=1)
    asked: float = Field(default=3.0, ge=0)
    limit: int = Field(default=200, ge=1, le=1000)
    candidates: int = Field(default=50, ge=1, le=1000)


async def search(query: Query, memory: Memory, options: Options) -> Hits:
    """The list `entities`; nothing when the query names none that is visible."""
    slots = await _candidates(query, memory, options.candidates)
    if not slots:
        return {}
    named = named_in([record for record in await memory.read(slots) if isinstance(record, Entity)], query.read.text)
    if not named:
        return {}
    bonus = np.zeros(memory.outline.size, dtype=np.float32)
    _raise(bonus, memory, (entity.key for entity in named), options.named)
    start = [entity.key for entity in named]
    reached = await memory.graph.neighbours(start, memory.scope, RELATIONS, options.depth, options.related)
    near = dict.fromkeys(start, 1.0)
    words = set(terms(query.read.text))
    for neighbour in reached:  # nearest first, so that where it was reached from is known
        before = max(_ends(neighbour), key=lambda end: near.get(end, 0.0))
        near.setdefault(before, 0.0)
        asked = bool(words & set(terms(_relation(neighbour.edge))))
        near[before] = min(near[before], 1.0) if asked else near[before]  # only on the way to who is asked about
        near[neighbour.key] = options.asked if asked and near[before] >= 1 else options.step * near[before]
    for keys in (start, [neighbour.key for neighbour in reached]):
        for told, worth in (await _told_of(keys, near, memory, options)).items():
            _raise(bonus, memory, [told], options.linked * worth)
    for neighbour in reached:
        _raise(bonus, memory, [neighbour.key], options.linked * near[neighbour.key])
    return {"entities": Ranked(bonus, "added")}


def _ends(neighbour: Neighbour) -> list[Key]:
    """The other end of the relation by which an entity was found."""
    ends = (("Entity", neighbour.edge.source), ("Entity", neighbour.edge.target))
    return [end for end in ends if end != neighbour.key]


def _relation(edge: Edge) -> str:
    """What a relation is called."""
    return str(edge.properties.get("name", "")) or edge.edge_kind.replace("_", " ").lower()


async def _told_of(
    keys: Sequence[Key], near: Mapping[Key, float], memory: Memory, options: Options
) -> dict[Key, float]:  # fmt: skip
    """Facts about these entities and turns that name them, with what reaches each."""
    if not keys:
        return {}
    edges = await memory.graph.edges(keys, memory.scope, TOLD, options.limit)
    crowd = Counter(edge.target for edge in edges)
    worth: dict[Key, float] = {}
    for edge in edges:
        told = ("Fact" if edge.edge_kind is EdgeKind.ABOUT else "Turn", edge.source)
        share = near.get(("Entity", edge.target), 0.0) * min(1.0, options.few / crowd[edge.target])
        worth[told] = max(worth.get(told, 0.0), share)
    return worth


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


def named_in(entities: Sequence[Entity], text: str) -> list[Entity]:
    """Those of these that a text names; a person also by one part of the name that no other person here has."""
    parts = Counter(part for entity in entities if entity.type == PERSON for part in set(entity.name.split()))
    return [
        entity for entity in entities
        if occurs(entity, text)
        or (entity.type == PERSON and any(
            parts[part] == 1 and len(part) > 2 and _holds(text, part) for part in entity.name.split()
        ))
    ]  # fmt: skip


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
