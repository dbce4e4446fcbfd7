"""From fused scores to places: factors, the ranking within each kind, and the one over all kinds."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from agentmem.model.outline import Ints
from agentmem.model.ranking import Doubles, Fusion, best, spread_out
from agentmem.model.records import Fact, Record
from agentmem.model.scoring import recency_factor, salience_factor, scaled_by, temporal_factor, trust_factor
from agentmem.recall.options import RankingOptions
from agentmem.recall.standing import marked
from agentmem.recall.technique import Memory


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """Places. `kinds`: the slots of each kind, best first; `items`: those of all kinds ranked together.

    `scores` and `item_scores` are by slot, `factors` what was multiplied, `records` what had to be read on the way.
    """

    kinds: Mapping[str, Ints]
    scores: Doubles
    items: Ints
    item_scores: Doubles
    factors: Mapping[str, Doubles]
    records: Mapping[int, Record]


def shortlist(fusion: Fusion, memory: Memory, pool: int) -> dict[str, Ints]:
    """The best `pool` visible slots of each kind that has any, best first."""
    outline, lists = memory.outline, {}
    for code, kind in sorted(enumerate(outline.kinds.values), key=lambda found: found[1]):  # read in any order
        if len(slots := np.flatnonzero(memory.mask & (outline.kind == code))):
            lists[kind] = best(fusion.scores, slots, pool, outline)
    return lists


async def select(
    fusion: Fusion, lists: Mapping[str, Ints], memory: Memory, options: RankingOptions, now: datetime, ahead: int
) -> Selection:
    """Apply the factors to the shortlisted records and rank them again.

    So many records of each kind as `ahead` are read beside, because they will be delivered.
    """
    others = [int(slot) for kind, slots in lists.items() if kind != "Turn" for slot in slots]
    records = await marked({memory.outline.slots[record.key]: record for record in await memory.read(others)}, memory)
    factors = _factors(lists, memory, records, options)
    scores = fusion.scores
    for factor in factors.values():
        scores = scaled_by(scores, factor)
    outline = memory.outline
    kinds = {kind: best(scores, slots, len(slots), outline) for kind, slots in lists.items()}
    if "Turn" in kinds:
        kinds["Turn"] = spread_out(kinds["Turn"], outline.conversation, options.per_conversation)
    first = [int(slot) for slots in kinds.values() for slot in slots[:ahead] if int(slot) not in records]
    weights, more = await asyncio.gather(_weights(kinds, memory, options, now), memory.read(first))
    records |= {memory.outline.slots[record.key]: record for record in more}
    item_scores = scaled_by(scores, weights)
    slots = np.concatenate([*kinds.values(), np.zeros(0, dtype=np.int64)])
    return Selection(kinds, scores, best(item_scores, slots, len(slots), outline), item_scores, factors, records)


def _factors(
    lists: Mapping[str, Ints], memory: Memory, records: Mapping[int, Record], options: RankingOptions
) -> dict[str, Doubles]:
    """What a record's own state makes of its score, by slot; factors that are 1 everywhere are left out."""
    outline = memory.outline
    ones = np.ones(outline.size)
    slots = np.concatenate([*lists.values(), np.zeros(0, dtype=np.int64)])
    active = outline.channel == outline.channels.find(memory.scope.channel)
    factors: dict[str, Doubles] = {}
    if not active[slots].all():
        factors["channel"] = np.where(active, options.active_channel, 1.0)
    if records:
        facts = [(slot, record) for slot, record in records.items() if isinstance(record, Fact)]
        factors |= {name: ones.copy() for name in ("salience", "temporal", "trust", "stale")}
        for slot in records:
            factors["salience"][slot] = salience_factor(float(outline.salience[slot]))
        for slot, fact in facts:
            factors["temporal"][slot] = temporal_factor(fact.temporal_context, options.current, options.past)
            factors["trust"][slot] = trust_factor(fact.trust)
            factors["stale"][slot] = options.stale if fact.fallen_premise else 1.0
    return {name: factor for name, factor in factors.items() if (factor != 1.0).any()}


async def _weights(kinds: Mapping[str, Ints], memory: Memory, options: RankingOptions, now: datetime) -> Doubles:
    """What counts where kinds are ranked together: the kind, and how recently a record was delivered."""
    weights = np.ones(memory.outline.size)
    for kind, slots in kinds.items():
        weights[slots] = options.kinds.get(kind, options.other)
    if options.recency:
        ids = memory.outline.ids
        keys = {(kind, ids[slot]): slot for kind, slots in kinds.items() for slot in slots}
        for key, usage in (await memory.log.usage(list(keys), memory.scope)).items():
            weights[keys[key]] *= recency_factor(usage.last_accessed, usage.access_count, now, options.recency)
    return weights
