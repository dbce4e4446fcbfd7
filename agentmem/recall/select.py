"""From fused scores to places: factors, the ranking within each kind, and the one over all kinds."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from agentmem.model.clock import micros
from agentmem.model.decay import Fading, confidence_now, faded, is_inferred
from agentmem.model.dues import MICROSECONDS_A_DAY, anchor
from agentmem.model.outline import Ints
from agentmem.model.ranking import Doubles, Fusion, best, spread_out
from agentmem.model.records import Fact, Record
from agentmem.model.scoring import recency_factor, salience_factor, scaled_by, temporal_factor, trust_factor
from agentmem.recall.options import RankingOptions
from agentmem.recall.purpose import open_first, purpose
from agentmem.recall.reviewing import raised, urgent, with_reviews
from agentmem.recall.standing import marked
from agentmem.recall.technique import Memory
from agentmem.stores import Usage


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """Places. `kinds`: the slots of each kind, best first; `items`: those of all kinds ranked together.

    `scores` and `item_scores` are by slot, `factors` what was multiplied, `records` what had to be read on the way.
    `unsure` are facts that are no longer as certain as is asked for.
    """

    kinds: Mapping[str, Ints]
    scores: Doubles
    items: Ints
    item_scores: Doubles
    factors: Mapping[str, Doubles]
    records: Mapping[int, Record]
    unsure: frozenset[int] = frozenset()


def shortlist(fusion: Fusion, memory: Memory, pool: int) -> dict[str, Ints]:
    """The best `pool` visible slots of each kind that has any, best first."""
    outline, lists = memory.outline, {}
    for code, kind in sorted(enumerate(outline.kinds.values), key=lambda found: found[1]):  # read in any order
        if len(slots := np.flatnonzero(memory.mask & (outline.kind == code))):
            lists[kind] = best(fusion.scores, slots, pool, outline)
    return lists


@dataclass(frozen=True, slots=True)
class AsOfNow:
    """What a recall takes for now, by which laws memories fade until then, and the least confidence it wants."""

    now: datetime
    decay: Fading
    min_confidence: float | None = None


async def select(
    fusion: Fusion, lists: Mapping[str, Ints], memory: Memory, options: RankingOptions, standing: AsOfNow, ahead: int
) -> Selection:
    """Apply the factors to the shortlisted records and rank them again.

    Salience and confidence count as of now. Records of each kind are read `ahead`, so many, because they will be
    delivered.
    """
    # Factors seldom change which turns are delivered: those are read with what the factors come from.
    likely = [int(slot) for kind, slots in lists.items() for slot in (slots[:ahead] if kind == "Turn" else slots)]
    read, used = await asyncio.gather(memory.read(likely), _usage(lists, memory))
    records = await marked({memory.outline.slots[record.key]: record for record in read}, memory)
    if unsure := _unsure(records, used, standing):
        lists = {kind: slots[~np.isin(slots, list(unsure))] for kind, slots in lists.items()}
        records = {slot: record for slot, record in records.items() if slot not in unsure}
    factors = _factors(lists, memory, records, options) | _salience(lists, memory, used, standing)
    factors |= await purpose(lists, memory, records, options.goal)
    factors = {name: factor for name, factor in factors.items() if (factor != 1.0).any()}
    scores = fusion.scores
    for factor in factors.values():
        scores = scaled_by(scores, factor)
    outline = memory.outline
    kinds = {kind: best(scores, slots, len(slots), outline) for kind, slots in lists.items()}
    if "Turn" in kinds:
        kinds["Turn"] = spread_out(kinds["Turn"], outline.conversation, options.per_conversation)
    if "Goal" in kinds:
        kinds["Goal"] = open_first(kinds["Goal"], memory, records)
    if "Fact" in kinds and options.review and (due := urgent(records, used, standing.now, standing.decay)):
        before = kinds["Fact"]
        kinds["Fact"] = with_reviews(before, fusion.lists, due, options)
        factors |= raised(before, kinds["Fact"], due, outline.size)
    first = [int(slot) for slots in kinds.values() for slot in slots[:ahead] if int(slot) not in records]
    weights, more = _weights(kinds, memory, options, used, standing.now), await memory.read(first)
    records |= {memory.outline.slots[record.key]: record for record in more}
    item_scores = scaled_by(scores, weights)
    slots = np.concatenate([*kinds.values(), np.zeros(0, dtype=np.int64)])
    return Selection(
        kinds, scores, best(item_scores, slots, len(slots), outline), item_scores, factors, records, unsure
    )


def _factors(
    lists: Mapping[str, Ints], memory: Memory, records: Mapping[int, Record], options: RankingOptions
) -> dict[str, Doubles]:
    """What a record's own state makes of its score, by slot."""
    outline = memory.outline
    ones = np.ones(outline.size)
    slots = np.concatenate([*lists.values(), np.zeros(0, dtype=np.int64)])
    active = outline.channel == outline.channels.find(memory.scope.channel)
    factors: dict[str, Doubles] = {}
    if not active[slots].all():
        factors["channel"] = np.where(active, options.active_channel, 1.0)
    if records:
        facts = [(slot, record) for slot, record in records.items() if isinstance(record, Fact)]
        factors |= {name: ones.copy() for name in ("temporal", "trust", "stale")}
        for slot, fact in facts:
            factors["temporal"][slot] = temporal_factor(fact.temporal_context, options.current, options.past)
            factors["trust"][slot] = trust_factor(fact.trust)
            factors["stale"][slot] = options.stale if fact.fallen_premise else 1.0
    return factors


async def _usage(lists: Mapping[str, Ints], memory: Memory) -> dict[int, Usage]:
    """How the shortlisted records were used, by slot."""
    ids = memory.outline.ids
    keys = {(kind, ids[slot]): int(slot) for kind, slots in lists.items() for slot in slots}
    found = await memory.log.usage(list(keys), memory.scope) if keys else {}
    return {keys[key]: usage for key, usage in found.items()}


def _unsure(records: Mapping[int, Record], used: Mapping[int, Usage], standing: AsOfNow) -> frozenset[int]:
    """The inferred facts of which less confidence is left by now than is wanted; what was stored allowed them."""
    unsure = set()
    for slot, record in records.items() if standing.min_confidence is not None else ():
        if isinstance(record, Fact) and is_inferred(record.certainty, record.source):
            since = anchor(record, used.get(slot))
            left = confidence_now(record.confidence, True, since, standing.now, standing.decay)
            unsure |= {slot} if left < (standing.min_confidence or 0.0) else set()
    return frozenset(unsure)


def _salience(
    lists: Mapping[str, Ints], memory: Memory, used: Mapping[int, Usage], standing: AsOfNow
) -> dict[str, Doubles]:
    """The factor of salience: that of entities as of now, of everything else but turns as it is stored."""
    outline = memory.outline
    factor = np.ones(outline.size)
    for kind, slots in lists.items():
        if kind == "Turn":
            continue
        salience = outline.salience[slots].astype(np.float64)
        if kind == "Entity":
            accessed = {slot: usage.last_accessed for slot, usage in used.items() if usage.last_accessed is not None}
            since = outline.recorded_at[slots].copy()
            for place, slot in enumerate(slots):
                if int(slot) in accessed:
                    since[place] = micros(accessed[int(slot)])
            days = (micros(standing.now) - since) / MICROSECONDS_A_DAY
            salience = faded(salience, standing.decay.salience_rate, days, standing.decay.salience_after_days)
        factor[slots] = salience_factor(salience)
    return {"salience": factor}


def _weights(
    kinds: Mapping[str, Ints], memory: Memory, options: RankingOptions, used: Mapping[int, Usage], now: datetime
) -> Doubles:
    """What counts where kinds are ranked together: the kind, and how recently a record was delivered."""
    weights = np.ones(memory.outline.size)
    for kind, slots in kinds.items():
        weights[slots] = options.kinds.get(kind, options.other)
    for slot, usage in used.items() if options.recency else ():
        weights[slot] *= recency_factor(usage.last_accessed, usage.access_count, now, options.recency)
    return weights
