"""From fused scores to ranks: what makes a record count more or less, what is asked back, and when nothing fits."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from agentmem.core.clock import to_micros
from agentmem.core.columns import Bools, Floats, Ints, RecordColumns
from agentmem.core.lifecycle import (
    MICROSECONDS_PER_DAY,
    DecayPolicy,
    confidence_now,
    decay_score_now,
    decay_start,
    decay_values,
    is_inferred,
    review_priority,
)
from agentmem.core.ranking import (
    Doubles,
    Fusion,
    ScoreList,
    apply_factors,
    diversify,
    interleave,
    minmax,
    nan_to_zero,
    recency_factor,
    salience_factor,
    temporal_factor,
    top_k,
    trust_factor,
)
from agentmem.core.record import Record
from agentmem.core.records import Fact, Goal
from agentmem.core.truth_maintenance import find_stale
from agentmem.memory.premises import read_grounds
from agentmem.recall.options import RankingOptions
from agentmem.recall.request import RecallQuery
from agentmem.recall.technique import SearchContext
from agentmem.stores.values import RecordUsage
from agentmem.text.tokenizer import tokenize

HIDDEN_PREMISE_TEXT = "something that is not visible from here"

ACTIVE_CHANNEL_FACTOR = 1.2  # of what is in the active channel
STALE_FACTOR = 0.5  # of a fact whose premise fell
GOAL_BOOST = 0.1  # by how much at most that counts more which serves an active goal
REVIEW_FIT = 0.5  # share of the best fact's score that one needs that is raised for review
OTHER_KIND_WEIGHT = 0.2  # of a kind that `recall.ranking.kinds` does not name
MAX_GOALS = 3  # goals that count: what serves every one of many serves none
# how far a record of a goal's conversation serves it, whatever it says; a cosine says the rest
SAME_CONVERSATION_SCORE = 0.5

REVIEW_FACTOR = "review"

# Index terms of English verbs that say nothing of what a question is about.
COMMON_VERBS = frozenset(
    tokenize("like love want need know think say tell get go make take give see look use try ask find keep let mean")
)
NOTICE_NOTHING_RELEVANT = "Nothing relevant was found: what follows is merely the nearest."

NAMED_MATCH_LISTS = ("date", "entities", "linked", "range")
"""Bonuses that only what the question names gets."""


def conversation_prior(scores: NDArray[np.float64], turn_mask: Bools, columns: RecordColumns, top_n: int = 3) -> Floats:
    """For each turn the mean of its conversation's `top_n` highest scores, scaled to [0, 1] over the turns; else 0.

    `turn_mask` are the ordinals that count. A conversation with fewer turns takes the mean of what it has.
    """
    ordinals = columns.conversation_order()
    ordinals = ordinals[turn_mask[ordinals]]
    out = np.zeros(len(scores), dtype=np.float32)
    if not len(ordinals):
        return out
    same = np.diff(columns.conversation[ordinals]) == 0
    same &= np.diff(columns.channel[ordinals]) == 0
    start = np.concatenate(([0], np.flatnonzero(~same) + 1))
    group = np.repeat(np.arange(len(start)), np.diff(start, append=len(ordinals)))
    left, total, count = scores[ordinals].copy(), np.zeros(len(start)), np.zeros(len(start))
    for _ in range(top_n):
        high = np.maximum.reduceat(left, start)
        there = high > -np.inf
        total[there] += high[there]
        count += there
        _, first = np.unique(group[left == high[group]], return_index=True)
        left[np.flatnonzero(left == high[group])[first]] = -np.inf
    mean = total / np.maximum(count, 1)
    known = np.zeros(len(scores), dtype=np.bool_)
    known[ordinals] = True
    spread = np.zeros(len(scores))
    spread[ordinals] = mean[group]
    out[ordinals] = minmax(spread, known)[ordinals]
    return out


async def annotate_stale(records: Mapping[int, Record], context: SearchContext) -> dict[int, Record]:
    """The same records by ordinal; a stale fact says since when, and which premise fell.

    Reads only where a fact names premises: these level by level, and whether what they claimed is known anew.
    """
    facts = [record for record in records.values() if isinstance(record, Fact) and record.depends_on]
    if not facts:
        return dict(records)

    async def read(ids: Sequence[str]) -> Sequence[Record]:
        ordinals = [
            context.columns.ordinals_by_key[key]
            for name in ids
            if (key := ("Fact", name)) in context.columns.ordinals_by_key
        ]
        return await context.read(ordinals)

    readable = context.scope.readable_channels()
    known = await read_grounds(facts, context.log, context.scope, readable, read)
    newest = context.columns.seq if context.through_seq is None else context.through_seq
    found = find_stale({name: fact for name, fact in known.items() if fact.seq <= newest}, context.now)
    out = dict(records)
    for ordinal, record in records.items():
        if isinstance(record, Fact) and (why := found.get(record.id)) is not None:
            stale = {"stale_since": why.invalid_since, "fallen_premise": _name_premise(why.premise, readable)}
            out[ordinal] = record.model_copy(update=stale)
    return out


def _name_premise(premise: Fact | None, readable: Collection[str]) -> str:
    """The claim of a premise that fell; "" where it is gone."""
    if premise is None:
        return ""
    return premise.claim if premise.channel in readable else HIDDEN_PREMISE_TEXT


async def goal_boost(
    shortlists: Mapping[str, Ints], context: SearchContext, records: Mapping[int, Record], weight: float
) -> dict[str, Doubles]:
    """The factor of the shortlisted records, from 1 to 1 + `weight`; nothing where there is no active goal."""
    goals = _active_goals(context, records)
    ordinals = np.concatenate(
        [*(each for kind, each in shortlists.items() if kind != "Goal"), np.zeros(0, dtype=np.int64)]
    )
    if not goals or not weight or not len(ordinals):
        return {}
    serves = np.where(
        _goal_conversation_mask(context, ordinals, [records[ordinal] for ordinal in goals]),
        SAME_CONVERSATION_SCORE,
        0.0,
    )
    if context.vectors is not None:
        left, right = np.repeat(np.array(goals, dtype=np.int64), len(ordinals)), np.tile(ordinals, len(goals))
        cosines = nan_to_zero(await context.vectors.score_pairs(left, right, context.scope)).reshape(
            len(goals), len(ordinals)
        )
        serves = np.maximum(serves, cosines.max(axis=0))
    factor = np.ones(context.columns.size)
    factor[ordinals] = 1.0 + weight * np.clip(serves, 0.0, 1.0)
    return {"goal": factor}


def open_goals_first(ordinals: Ints, context: SearchContext, records: Mapping[int, Record]) -> Ints:
    """Goals with those still to be reached first, of these the one that the conversation pursues, else as they were."""
    here = context.scope.conversation_id

    def place(ordinal: int) -> int:
        goal = records.get(ordinal)
        if not isinstance(goal, Goal) or not goal.is_open:
            return 2
        return 0 if here and goal.pursued_in == here else 1

    return np.array(sorted((int(ordinal) for ordinal in ordinals), key=place), dtype=np.int64)


def _active_goals(context: SearchContext, records: Mapping[int, Record]) -> list[int]:
    """The ordinals of the active goals that count: the one pursued here first, then the most urgent."""
    here = context.scope.conversation_id
    found = [(ordinal, goal) for ordinal, goal in records.items() if isinstance(goal, Goal) and goal.is_open]
    active = [(ordinal, goal) for ordinal, goal in found if goal.goal_status == "active"]
    active.sort(key=lambda each: (not here or each[1].pursued_in != here, -each[1].priority, each[1].seq))
    return [ordinal for ordinal, _ in active[:MAX_GOALS]]


def _goal_conversation_mask(context: SearchContext, ordinals: Ints, goals: Sequence[Record]) -> Bools:
    """Whether a record was said, or learned from what was said, where one of these goals came up or is pursued."""
    columns = context.columns
    named = [name for goal in goals if isinstance(goal, Goal) for name in (goal.conversation_id, goal.pursued_in)]
    codes = [code for name in named if name and (code := columns.conversations.find_code(name)) >= 0]
    source = columns.turn[ordinals]
    place = np.where(source >= 0, columns.conversation[np.maximum(source, 0)], columns.conversation[ordinals])
    return np.isin(place, codes)


def due_reviews(
    records: Mapping[int, Record], usage_by_ordinal: Mapping[int, RecordUsage], now: datetime, decay: DecayPolicy
) -> dict[int, float]:
    """The short-lived facts among these that are in the danger zone now, with their review priority, by ordinal."""
    found = {}
    for ordinal, fact in records.items():
        if isinstance(fact, Fact) and fact.tier == "short":
            score = decay_score_now(fact, usage_by_ordinal.get(ordinal), now, decay)
            found[ordinal] = review_priority(score, decay.danger_low, decay.danger_high)
    return {ordinal: priority for ordinal, priority in found.items() if priority > 0}


def interleave_due(
    order: Ints, lists: Mapping[str, ScoreList], due: Mapping[int, float], options: RankingOptions
) -> Ints:
    """The facts of a ranking with those that are `due` for review raised among them, the most urgent first.

    Only those are raised that fit the question: one of the lists that were fused gives them at least `REVIEW_FIT` of
    what it gives the best fact.
    """
    if not due or not len(order) or not options.review:
        return order
    fit = np.zeros(len(order), dtype=np.bool_)
    for ranked in lists.values():
        if ranked.combine == "normalize":
            values = nan_to_zero(ranked.values[order])
            fit |= (values > 0) & (values >= REVIEW_FIT * values.max())
    places = {int(ordinal): place for place, ordinal in enumerate(order)}
    fitting = [ordinal for ordinal in due if ordinal in places and fit[places[ordinal]]]
    fitting.sort(key=lambda ordinal: (-due[ordinal], places[ordinal]))
    return np.array(interleave([int(ordinal) for ordinal in order], fitting, options.review), dtype=np.int64)


def review_factor(old_order: Ints, new_order: Ints, due: Mapping[int, float], size: int) -> dict[str, Doubles]:
    """Who came to a better place for being due, as a column for the receipt: 1 and the priority, 1 for all others."""
    places = {int(ordinal): place for place, ordinal in enumerate(old_order)}
    column = np.ones(size)
    for place, ordinal in enumerate(int(ordinal) for ordinal in new_order):
        if ordinal in due and place < places[ordinal]:
            column[ordinal] += due[ordinal]
    return {REVIEW_FACTOR: column} if (column > 1).any() else {}


class RelevanceThreshold(NamedTuple):
    """Below both nothing is about the question: the best cosine of `whole`, and the best share of its words.

    The share is the best BM25 score over what all terms of the query could give if each were the rarest.
    """

    cosine: float
    term_coverage: float


# From `python -m tests.benchmarks.floors` over the development half of LoCoMo: docs/techniques.md has the figures.
RELEVANCE_THRESHOLDS: Mapping[str, RelevanceThreshold] = MappingProxyType(
    {
        "local:all-MiniLM-L6-v2": RelevanceThreshold(cosine=0.28, term_coverage=0.16),
        "local:sentence-transformers/all-MiniLM-L6-v2": RelevanceThreshold(cosine=0.28, term_coverage=0.16),
    }
)
"""By the beginning of an embedder's identity; nothing is said of others."""


async def has_relevant_result(
    query: RecallQuery, context: SearchContext, fusion: Fusion, min_turns: int
) -> bool | None:
    """False when the best record is below the embedder's floors and nothing fits a date or an entity of the question.

    None where that cannot be told: an embedder without floors, no vectors, fewer than `min_turns` visible turns.
    """
    floor = next((floor for name, floor in RELEVANCE_THRESHOLDS.items() if context.embedder_id.startswith(name)), None)
    if floor is None or "whole" not in fusion.lists or int(context.turn_mask.sum()) < max(min_turns, 1):
        return None
    if any((fusion.lists[name].values > 0).any() for name in NAMED_MATCH_LISTS if name in fusion.lists):
        return True
    return (
        _best_score("whole", context, fusion) >= floor.cosine
        or await _best_term_coverage(query, context, fusion) >= floor.term_coverage
    )


async def _best_term_coverage(query: RecallQuery, context: SearchContext, fusion: Fusion) -> float:
    """The best BM25 score over the most that the terms of the query could give; idf as `keyword` takes it.

    0 where nothing but common verbs is found: "do I like golf?" fits no memory by its "like".
    """
    matches = await context.match([term for term in dict.fromkeys(query.parsed.terms) if term not in COMMON_VERBS])
    if "words" not in fusion.lists or not any(context.mask[each.ordinals].any() for each in matches.values()):
        return 0.0
    rarest = np.log1p((int(context.current_mask.sum()) + 0.5) / 0.5)
    return _best_score("words", context, fusion) / max(float(len(query.parsed.terms) * rarest), 1e-9)


def _best_score(name: str, context: SearchContext, fusion: Fusion) -> float:
    values = fusion.lists[name].values[context.mask]
    return float(np.fmax.reduce(values, initial=-1.0))


@dataclass(frozen=True, slots=True, eq=False)
class RankedSelection:
    """Places. `ordinals_by_kind`: the ordinals of each kind, best first; `items`: those of all kinds ranked together.

    `scores` and `item_scores` are by ordinal, `factors` what was multiplied, `records` what had to be read on the way.
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
    """The best `pool` visible ordinals of each kind that has any, best first."""
    columns, lists = context.columns, {}
    for code, kind in sorted(enumerate(columns.kinds.values), key=lambda found: found[1]):  # read in any order
        if len(ordinals := np.flatnonzero(context.mask & (columns.kind == code))):
            lists[kind] = top_k(fusion.scores, ordinals, pool, columns)
    return lists


@dataclass(frozen=True, slots=True)
class EvaluationTime:
    """What a recall takes for now, by which policy memories fade until then, and the least confidence it wants."""

    now: datetime
    decay: DecayPolicy
    min_confidence: float | None = None


async def select(
    fusion: Fusion,
    shortlists: Mapping[str, Ints],
    context: SearchContext,
    options: RankingOptions,
    evaluation: EvaluationTime,
    read_ahead: int,
) -> RankedSelection:
    """Apply the factors to the shortlisted records and rank them again.

    Salience and confidence count as of now. Records of each kind are read `read_ahead`, so many, because they will be
    delivered.
    """
    # Factors seldom change which turns are delivered: those are read with what the factors come from.
    likely = [
        int(ordinal)
        for kind, ordinals in shortlists.items()
        for ordinal in (ordinals[:read_ahead] if kind == "Turn" else ordinals)
    ]
    read, used = await asyncio.gather(context.read_by_ordinal(likely), _read_usage(shortlists, context))
    records = await annotate_stale(read, context)
    if unsure := _find_below_confidence(records, used, evaluation):
        shortlists = {kind: ordinals[~np.isin(ordinals, list(unsure))] for kind, ordinals in shortlists.items()}
        records = {ordinal: record for ordinal, record in records.items() if ordinal not in unsure}
    factors = _state_factors(shortlists, context, records, options) | _salience_factors(
        shortlists, context, used, evaluation
    )
    factors |= await goal_boost(shortlists, context, records, GOAL_BOOST)
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
    weights = _cross_kind_weights(kinds, context, options, used, evaluation.now)
    records |= await context.read_by_ordinal(first)
    item_scores = apply_factors(scores, weights)
    ordinals = np.concatenate([*kinds.values(), np.zeros(0, dtype=np.int64)])
    return RankedSelection(
        kinds, scores, top_k(item_scores, ordinals, len(ordinals), columns), item_scores, factors, records, unsure
    )


def _state_factors(
    shortlists: Mapping[str, Ints], context: SearchContext, records: Mapping[int, Record], options: RankingOptions
) -> dict[str, Doubles]:
    """What a record's own state makes of its score, by ordinal."""
    columns = context.columns
    ones = np.ones(columns.size)
    ordinals = np.concatenate([*shortlists.values(), np.zeros(0, dtype=np.int64)])
    active = columns.channel == columns.channels.find_code(context.scope.channel)
    factors: dict[str, Doubles] = {}
    if not active[ordinals].all():
        factors["channel"] = np.where(active, ACTIVE_CHANNEL_FACTOR, 1.0)
    if records:
        facts = [(ordinal, record) for ordinal, record in records.items() if isinstance(record, Fact)]
        factors |= {name: ones.copy() for name in ("temporal", "trust", "stale")}
        for ordinal, fact in facts:
            factors["temporal"][ordinal] = temporal_factor(fact.temporal_context, options.current, options.past)
            factors["trust"][ordinal] = trust_factor(fact.trust)
            factors["stale"][ordinal] = STALE_FACTOR if fact.fallen_premise else 1.0
    return factors


async def _read_usage(shortlists: Mapping[str, Ints], context: SearchContext) -> dict[int, RecordUsage]:
    """How the shortlisted records were used, by ordinal."""
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
        weights[ordinals] = options.kinds.get(kind, OTHER_KIND_WEIGHT)
    for ordinal, usage in usage_by_ordinal.items() if options.recency else ():
        weights[ordinal] *= recency_factor(usage.last_accessed, usage.access_count, now, options.recency)
    return weights
