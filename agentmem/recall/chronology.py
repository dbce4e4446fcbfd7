"""The order of what was found by the time that a question is about: what is true now first, or what was.

Beliefs decide where they know both values, else turns that tell the same at different times (`rivals`). Nothing is left
out, and only the first hits give way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from agentmem.core.columns import Ints
from agentmem.core.ranking import Doubles, Fusion
from agentmem.memory.semantic.standing import SlotValue, Standings
from agentmem.recall.request import RecallQuery
from agentmem.recall.rivals import LED_HITS, find_turn_moves
from agentmem.recall.scoring import RankedSelection
from agentmem.recall.technique import SearchContext
from agentmem.text.question_time import QuestionTime, parse_question_time

NOW_FACTOR = "now"
_STEP = 2e-6  # scores are compared to six decimals


def is_answered_by_belief(query: RecallQuery, standings: Standings) -> bool:
    """Whether a plain question about a present state asks for something that is believed."""
    is_present = parse_question_time(query.parsed.text, query.now).moment == "now"
    return is_present and standings.holds_answer(query.parsed.text, query.parsed.terms)


async def order_by_time(
    selection: RankedSelection, fusion: Fusion, query: RecallQuery, context: SearchContext, standings: Standings
) -> RankedSelection:
    """The selection with what holds at the question's moment before what does not; unchanged where no moment is meant.

    Only the first hits give way, each to one other, which comes directly before it.
    """
    asked = parse_question_time(query.parsed.text, query.now)
    if asked.moment == "always":
        return selection
    moves = list(_find_belief_moves(selection, query, context, standings, asked))
    columns = context.columns
    turns = columns.kind == columns.kinds.find_code("Turn")
    settled = {loser: winner for winner, loser in moves if turns[winner] and turns[loser]}
    moves += await find_turn_moves(selection, fusion, query, context, asked, settled)
    return _apply_moves(selection, moves) if moves else selection


def _apply_moves(selection: RankedSelection, moves: Sequence[tuple[int, int]]) -> RankedSelection:
    scores, item_scores = selection.scores.copy(), selection.item_scores.copy()
    kinds, items = dict(selection.ordinals_by_kind), selection.items
    factor: Doubles = np.ones(len(scores))
    for winner, loser in moves:
        for kind, order in kinds.items():
            kinds[kind] = _lift(order, winner, loser)
        items = _lift(items, winner, loser)
        before = scores[winner]
        scores[winner] = max(scores[winner], scores[loser] + _STEP)
        item_scores[winner] = max(item_scores[winner], item_scores[loser] + _STEP)
        if before > 0:
            factor[winner] *= scores[winner] / before
    factors = {**selection.factors, NOW_FACTOR: factor}
    return replace(
        selection, ordinals_by_kind=kinds, items=items, scores=scores, item_scores=item_scores, factors=factors
    )


def _lift(order: Ints, winner: int, loser: int) -> Ints:
    """The order with one ordinal directly before another one, where both are there and it comes later."""
    places = {int(ordinal): place for place, ordinal in enumerate(order)}
    start, end = places.get(loser, -1), places.get(winner, -1)
    if start < 0 or end < start:
        return order
    return np.concatenate([order[:start], order[end : end + 1], order[start:end], order[end + 1 :]])


# -- by beliefs


def _find_belief_moves(
    selection: RankedSelection, query: RecallQuery, context: SearchContext, standings: Standings, asked: QuestionTime
) -> Iterator[tuple[int, int]]:
    """Pairs of a record that tells the value asked for and one that tells another value of the slot, which leads."""
    if not standings.by_slot:
        return
    turns = selection.ordinals_by_kind.get("Turn", selection.items[:0])
    leading = dict.fromkeys(int(each) for each in (*selection.items[:LED_HITS], *turns[:LED_HITS]))
    found = {int(each) for each in selection.items}
    for loser in leading:
        for value in _read_values(loser, selection, query, standings):
            if asked.moment == "now" and value.standing.state == "doubtful":
                winner = context.columns.ordinals_by_key.get(("Turn", value.standing.by), -1)
                if winner in found and winner != loser:
                    yield winner, loser
                    break
            wanted = _find_wanted(standings.by_slot[value.slot_key], asked)
            if not wanted or value in wanted:
                continue
            for winner in _locate(wanted, found, context, excluding=value):
                yield winner, loser
            break


def _read_values(ordinal: int, selection: RankedSelection, query: RecallQuery, standings: Standings) -> list[SlotValue]:
    """The values that a record tells; of several slots those that the question names."""
    record = selection.records.get(ordinal)
    values = standings.read_values(record) if record is not None else []
    if len({each.slot_key for each in values}) < 2:
        return values
    return [each for each in values if each.is_asked_for(query.parsed.terms)]


def _find_wanted(values: Sequence[SlotValue], asked: QuestionTime) -> list[SlotValue]:
    """The values of a slot that held at the moment asked for; [] where none is known."""
    if asked.moment == "now":
        return [each for each in values if each.is_held]
    told = [each for each in values if each.is_held or each.fact.valid_to is not None]
    if asked.start and asked.end:
        return [each for each in told if each.covers(asked.start, asked.end)][-1:]
    former = [each for each in told if not each.is_held]
    if asked.named:
        named = [each for each in values if each.fact.value.casefold() in asked.named.casefold()]
        begun = named[0].fact.valid_from if named else None
        former = [each for each in told if begun and each.fact.valid_to and each.fact.valid_to <= begun]
    former.sort(key=lambda each: each.fact.valid_to.timestamp() if each.fact.valid_to else 0.0)
    return former[:1] if asked.moment == "first" else former[-1:]


def _locate(
    wanted: Sequence[SlotValue], found: set[int], context: SearchContext, excluding: SlotValue
) -> Iterator[int]:
    """The newest turn and the fact that tell a wanted value, as far as they were found."""
    keys = context.columns.ordinals_by_key
    for value in wanted[-1:]:
        told_both = excluding.fact.source_turn_ids
        turns = (keys.get(("Turn", each), -1) for each in reversed(value.fact.source_turn_ids) if each not in told_both)
        yield from [each for each in turns if each in found][:1]
        if (ordinal := keys.get(("Fact", value.fact.id), -1)) in found:
            yield ordinal
