"""From fused scores to places: factors, the ranking within each kind, and the one over all kinds."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from agentmem.model.clock import to_micros
from agentmem.model.decay import DecayPolicy, confidence_now, decay_values, is_inferred
from agentmem.model.dues import MICROSECONDS_PER_DAY, decay_start
from agentmem.model.outline import Ints
from agentmem.model.ranking import Doubles, Fusion, diversify, top_k
from agentmem.model.records import Fact, Record
from agentmem.model.scoring import apply_factors, recency_factor, salience_factor, temporal_factor, trust_factor
from agentmem.recall.options import RankingOptions
from agentmem.recall.purpose import goal_boost, open_goals_first
from agentmem.recall.reviewing import due_reviews, interleave_due, review_factor
from agentmem.recall.standing import annotate_stale
from agentmem.recall.technique import SearchContext
from agentmem.stores import RecordUsage


@dataclass(frozen=True, slots=True, eq=False)
class RankedSelection:
    """Places. `ordinals_by_kind`: the slots of each kind, best first; `items`: those of all kinds ranked together.

    `scores` and `item_scores` are by slot, `factors` what was multiplied, `records` what had to be read on the way.
    `below_confidence` are facts that are no longer as certain as is asked for.
    """

    ordinals_by_kind: Mapping[str, Ints]
    scores: Doubles
    items: Ints
    item_scores: Doubles
    factors: Mapping[str, Doubles]
    records: Mapping[int, Record]
    below_confidence: frozenset[int] = frozenset()


def top_per_kind(fusion: Fusion, context: SearchContext, pool: int) -> dict[str, Ints]:
    """The best `pool` visible slots of each kind that has any, best first."""
    columns, lists = context.columns, {}
    for code, kind in sorted(enumerate(columns.kinds.values), key=lambda found: found[1]):  # read in any order
        if len(ordinals := np.flatnonzero(context.mask & (columns.kind == code))):
            lists[kind] = top_k(fusion.scores, ordinals, pool, columns)
    return lists


@dataclass(frozen=True, slots=True)
class EvaluationTime:
    """What a recall takes for now, by which laws memories fade until then, and the least confidence it wants."""

    now: datetime
    decay: DecayPolicy
    min_confidence: float | None = None


async def select(
    fusion: Fusion, shortlists: Mapping[str, Ints], context: SearchContext, options: RankingOptions,
    evaluation: EvaluationTime, read_ahead: int,
) -> RankedSelection:  # fmt: skip
    """Apply the factors to the shortlisted records and rank them again.

    Salience and confidence count as of now. Records of each kind are read `read_ahead`, so many, because they will be
    delivered.
    """
    # Factors seldom change which turns are delivered: those are read with what the factors come from.
    likely = [
        int(ordinal) for kind,
        ordinals in shortlists.items() for ordinal in (ordinals[:read_ahead] if kind == "Turn" else ordinals)
    ]  # fmt: skip
    read, used = await asyncio.gather(context.read(likely), _read_usage(shortlists, context))
    records = await annotate_stale({context.columns.ordinals_by_key[record.key]: record for record in read}, context)
    if unsure := _find_below_confidence(records, used, evaluation):
        shortlists = {kind: ordinals[~np.isin(ordinals, list(unsure))] for kind, ordinals in shortlists.items()}
        records = {ordinal: record for ordinal, record in records.items() if ordinal not in unsure}
    factors = _state_factors(shortlists, context, records, options) | _salience_factors(
        shortlists, context, used, evaluation
    )
    factors |= await goal_boost(shortlists, context, records, options.goal)
    factors = {name: factor for name, factor in factors.items() if (factor != 1.0).any()}
    scores = fusion.scores
    for factor in factors.values():
        scores = apply_factors(scores, factor)
    columns = context.columns
    kinds = {kind: top_k(scores, ordinals, len(ordinals), columns) for kind, ordinals in shortlists.items()}
    if "Turn" in kinds:
        kinds["Turn"] = diversify(kinds["Turn"], columns.conversation, options.per_conversation)
    if "Goal" in kinds:
        kinds["Goal"] = open_goals_first(kinds["Goal"], context, records)
    if "Fact" in kinds and options.review and (due := due_reviews(records, used, evaluation.now, evaluation.decay)):
        before = kinds["Fact"]
        kinds["Fact"] = interleave_due(before, fusion.lists, due, options)
        factors |= review_factor(before, kinds["Fact"], due, columns.size)
    first = [
        int(ordinal) for ordinals in kinds.values() for ordinal in ordinals[:read_ahead] if int(ordinal) not in records
    ]
    weights, more = _cross_kind_weights(kinds, context, options, used, evaluation.now), await context.read(first)
    records |= {context.columns.ordinals_by_key[record.key]: record for record in more}
    item_scores = apply_factors(scores, weights)
    ordinals = np.concatenate([*kinds.values(), np.zeros(0, dtype=np.int64)])
    return RankedSelection(
        kinds, scores, top_k(item_scores, ordinals, len(ordinals), columns), item_scores, factors, records, unsure
    )


def _state_factors(
    shortlists: Mapping[str, Ints], context: SearchContext, records: Mapping[int, Record], options: RankingOptions
) -> dict[str, Doubles]:
    """What a record's own state makes of its score, by slot."""
    columns = context.columns
    ones = np.ones(columns.size)
    ordinals = np.concatenate([*shortlists.values(), np.zeros(0, dtype=np.int64)])
    active = columns.channel == columns.channels.find_code(context.scope.channel)
    factors: dict[str, Doubles] = {}
    if not active[ordinals].all():
        factors["channel"] = np.where(active, options.active_channel, 1.0)
    if records:
        facts = [(ordinal, record) for ordinal, record in records.items() if isinstance(record, Fact)]
        factors |= {name: ones.copy() for name in ("temporal", "trust", "stale")}
        for ordinal, fact in facts:
            factors["temporal"][ordinal] = temporal_factor(fact.temporal_context, options.current, options.past)
            factors["trust"][ordinal] = trust_factor(fact.trust)
            factors["stale"][ordinal] = options.stale if fact.fallen_premise else 1.0
    return factors


async def _read_usage(shortlists: Mapping[str, Ints], context: SearchContext) -> dict[int, RecordUsage]:
    """How the shortlisted records were used, by slot."""
    ids = context.columns.ids
    keys = {(kind, ids[ordinal]): int(ordinal) for kind, ordinals in shortlists.items() for ordinal in ordinals}
    found = await context.log.usage(list(keys), context.scope) if keys else {}
    return {keys[key]: usage for key, usage in found.items()}


def _find_below_confidence(
    records: Mapping[int, Record], usage_by_ordinal: Mapping[int, RecordUsage], evaluation: EvaluationTime
) -> frozenset[int]:
    """The inferred facts of which less confidence is left by now than is wanted; what was stored allowed them."""
    unsure = set()
    for ordinal, record in records.items() if evaluation.min_confidence is not None else ():
        if isinstance(record, Fact) and is_inferred(record.certainty, record.source):
            since = decay_start(record, usage_by_ordinal.get(ordinal))
            left = confidence_now(record.confidence, True, since, evaluation.now, evaluation.decay)
            unsure |= {ordinal} if left < (evaluation.min_confidence or 0.0) else set()
    return frozenset(unsure)


def _salience_factors(
    shortlists: Mapping[str, Ints],
    context: SearchContext,
    usage_by_ordinal: Mapping[int, RecordUsage],
    evaluation: EvaluationTime,
) -> dict[str, Doubles]:
    """The factor of salience: that of entities as of now, of everything else but turns as it is stored."""
    columns = context.columns
    factor = np.ones(columns.size)
    for kind, ordinals in shortlists.items():
        if kind == "Turn":
            continue
        salience = columns.salience[ordinals].astype(np.float64)
        if kind == "Entity":
            accessed = {
                ordinal: usage.last_accessed
                for ordinal, usage in usage_by_ordinal.items()
                if usage.last_accessed is not None
            }
            since = columns.recorded_at[ordinals].copy()
            for place, ordinal in enumerate(ordinals):
                if int(ordinal) in accessed:
                    since[place] = to_micros(accessed[int(ordinal)])
            days = (to_micros(evaluation.now) - since) / MICROSECONDS_PER_DAY
            salience = decay_values(
                salience, evaluation.decay.salience_rate, days, evaluation.decay.salience_after_days
            )
        factor[ordinals] = salience_factor(salience)
    return {"salience": factor}


def _cross_kind_weights(
    ordinals_by_kind: Mapping[str, Ints],
    context: SearchContext,
    options: RankingOptions,
    usage_by_ordinal: Mapping[int, RecordUsage],
    now: datetime,
) -> Doubles:
    """What counts where kinds are ranked together: the kind, and how recently a record was delivered."""
    weights = np.ones(context.columns.size)
    for kind, ordinals in ordinals_by_kind.items():
        weights[ordinals] = options.kinds.get(kind, options.other)
    for ordinal, usage in usage_by_ordinal.items() if options.recency else ():
        weights[ordinal] *= recency_factor(usage.last_accessed, usage.access_count, now, options.recency)
    return weights
