"""Links: what the graph ties to the people, places and things that the query names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from pydantic import Field

from agentmem.core.columns import Floats
from agentmem.core.ranking import ScoreList
from agentmem.core.record import Key
from agentmem.core.records import RELATION_KINDS, Edge, EdgeKind, Entity
from agentmem.recall.request import RecallQuery
from agentmem.recall.technique import ScoreLists, SearchContext, TechniqueOptions
from agentmem.stores.values import Neighbor
from agentmem.text.query_parser import whole_word_pattern
from agentmem.text.tokenizer import tokenize

PERSON_TYPE = "person"
EVIDENCE_EDGE_KINDS = frozenset({EdgeKind.ABOUT, EdgeKind.MENTIONS})


# `python -m tests.benchmarks multihop --embedder local`: R@10 .068 without links, .977 with them. By the graph of the
# rules (`python -m tests.benchmarks.ablation DATA.json`), R@10 without links changes by +.001 [+.000, +.002] on the
# dialogues (LoCoMo-shaped, 786 questions) and by +.001 [-.009, +.011] on LifeBench (307), where most name a hub.
NAMED_BONUS = 0.2  # for an entity that the query names
LINKED_BONUS = 0.1  # for what tells of it
STEP_SHARE = 0.4  # what is left of the bonus after a step over a relation
ASKED_FACTOR = 3.0  # for whoever a relation leads to that the query has a word of ("her manager")
MAX_UNDIVIDED_RECORDS = 10  # where more tell of an entity, the bonus of each shrinks in proportion
MAX_RELATED_ENTITIES = 50  # reached over relations
MAX_CANDIDATES = 50  # entities looked at that share a word with the query


class Options(TechniqueOptions):
    """How far links are followed."""

    depth: int = Field(default=2, ge=1, le=3, description="How many relations are followed, in steps.")
    limit: int = Field(
        default=200,
        ge=1,
        le=1000,
        description="How many of the records that tell of a named entity are used at most.",
    )


async def search(query: RecallQuery, context: SearchContext, options: Options) -> ScoreLists:
    """The list `entities`; nothing when the query names none that is visible."""
    return await search_links(query, context, options)


async def search_links(
    query: RecallQuery,
    context: SearchContext,
    options: Options,
    *,
    named_bonus: float = NAMED_BONUS,
    linked_bonus: float = LINKED_BONUS,
) -> ScoreLists:
    """The same with other bonuses."""
    ordinals = await _find_candidates(query, context)
    if not ordinals:
        return {}
    named = find_named_entities(
        [record for record in await context.read(ordinals) if isinstance(record, Entity)], query.parsed.text
    )
    if not named:
        return {}
    bonus = np.zeros(context.columns.size, dtype=np.float32)
    _raise_bonus(bonus, context, (entity.key for entity in named), named_bonus)
    start = [entity.key for entity in named]
    reached = await context.graph.neighbors(start, context.scope, RELATION_KINDS, options.depth, MAX_RELATED_ENTITIES)
    reached = [neighbor for neighbor in reached if neighbor.key[0] == Entity.__name__]  # not the user
    near = dict.fromkeys(start, 1.0)
    words = set(tokenize(query.parsed.text))
    for neighbor in reached:  # nearest first, so that where it was reached from is known
        before = max(_other_ends(neighbor), key=lambda end: near.get(end, 0.0))
        near.setdefault(before, 0.0)
        asked = bool(words & set(tokenize(_relation_name(neighbor.edge))))
        near[before] = min(near[before], 1.0) if asked else near[before]  # only on the way to who is asked about
        near[neighbor.key] = ASKED_FACTOR if asked and near[before] >= 1 else STEP_SHARE * near[before]
    around = [neighbor.key for neighbor in reached]
    share = max(options.limit // max(len(around), 1), 2 * MAX_UNDIVIDED_RECORDS)
    for keys, limit in ((start, options.limit), (around, min(share, options.limit))):
        for told, worth in (await _find_evidence(keys, near, context, limit)).items():
            _raise_bonus(bonus, context, [told], linked_bonus * worth)
    for neighbor in reached:
        _raise_bonus(bonus, context, [neighbor.key], linked_bonus * near[neighbor.key])
    return {"entities": ScoreList(bonus, "bonus")}


def _other_ends(neighbor: Neighbor) -> list[Key]:
    """The other end of the relation by which an entity was found."""
    ends = (("Entity", neighbor.edge.source), ("Entity", neighbor.edge.target))
    return [end for end in ends if end != neighbor.key]


def _relation_name(edge: Edge) -> str:
    """What a relation is called."""
    return str(edge.properties.get("name", "")) or edge.edge_kind.replace("_", " ").lower()


async def _find_evidence(
    keys: Sequence[Key], entity_weights: Mapping[Key, float], context: SearchContext, limit: int
) -> dict[Key, float]:
    """Facts about these entities and turns that name them, with what reaches each; of each entity `limit` at most."""
    links = await context.graph.links(keys, context.scope, EVIDENCE_EDGE_KINDS, limit) if keys else []
    crowd = Counter(entity for _, _, entity in links)
    worth: dict[Key, float] = {}
    for _, told, entity in links:
        share = entity_weights.get(entity, 0.0) * min(1.0, MAX_UNDIVIDED_RECORDS / crowd[entity])
        worth[told] = max(worth.get(told, 0.0), share)
    return worth


async def _find_candidates(query: RecallQuery, context: SearchContext) -> list[int]:
    """Ordinals of visible entities that share words with the query, those that share most first."""
    columns = context.columns
    entities = context.mask & (columns.kind == columns.kinds.find_code("Entity"))
    words = list(dict.fromkeys(tokenize(query.parsed.text)))
    if not words or not entities.any():
        return []
    shared = np.zeros(columns.size, dtype=np.int64)
    for postings in (await context.match(words)).values():
        shared[postings.ordinals] += 1
    found = np.flatnonzero(entities & (shared > 0))
    return [int(ordinal) for ordinal in found[np.lexsort((found, -shared[found]))][:MAX_CANDIDATES]]


def find_named_entities(entities: Sequence[Entity], text: str) -> list[Entity]:
    """Those of these that a text names; a person also by one part of the name that no other person here has."""
    parts = Counter(part for entity in entities if entity.type == PERSON_TYPE for part in set(entity.name.split()))
    return [
        entity
        for entity in entities
        if is_mentioned(entity, text)
        or (
            entity.type == PERSON_TYPE
            and any(parts[part] == 1 and len(part) > 2 and _contains_name(text, part) for part in entity.name.split())
        )
    ]


def is_mentioned(entity: Entity, text: str) -> bool:
    """Whether the text holds the entity's name, slug or an alias, as whole words in any case."""
    folded = text.casefold()
    return any(_contains_name(folded, name.casefold().strip()) for name in (entity.name, entity.slug, *entity.aliases))


def _contains_name(text: str, name: str) -> bool:
    if not name or name not in text:
        return False
    return re.search(whole_word_pattern(name), text) is not None


def _raise_bonus(bonus: Floats, context: SearchContext, keys: Iterable[tuple[str, str]], value: float) -> None:
    for key in keys:
        ordinal = context.columns.ordinals_by_key.get(key)
        if ordinal is not None and ordinal < len(bonus):
            bonus[ordinal] = max(bonus[ordinal], value)
