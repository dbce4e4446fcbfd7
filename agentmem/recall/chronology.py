"""The order of what was found by the time that a question is about: what is true now first, or what was.

Beliefs decide where they know both values. Among turns of which no belief knows, short statements of one speaker that
say the same thing at different times compete: docs/now.md has the rule and its figures. Nothing is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher

import numpy as np

from agentmem.core.clock import to_micros
from agentmem.core.columns import CONTAINS_QUESTION, Ints
from agentmem.core.ranking import Doubles, Fusion
from agentmem.core.records import Turn
from agentmem.memory.semantic.standing import SlotValue, Standings
from agentmem.recall.request import RecallQuery
from agentmem.recall.scoring import RankedSelection
from agentmem.recall.technique import SearchContext
from agentmem.text.question_time import QuestionTime, parse_question_time
from agentmem.text.tokenizer import tokenize

LED_HITS = 2  # so many hits are compared with others
COMPARED_TURNS = 20
MAX_WORDS = 25  # of a turn that states one thing
MIN_HOURS_APART = 12.0
MAX_CORRECTION_HOURS = 1.0
MIN_SCORE_SHARE = 0.5
MAX_LESS_NEAR = 0.25  # cosine to the question
MIN_FORM_RATIO = 0.6
MIN_FORM_COSINE = 0.3
MIN_COSINE = 0.4
NOW_FACTOR = "now"
_STEP = 2e-6  # scores are compared to six decimals
_HOUR = 3_600_000_000  # microseconds

_CORRECTION = re.compile(r"\b(?:actually|sorry|correction|i meant|no,|wrong|instead|scratch that)\b", re.IGNORECASE)
_INSTRUCTION = re.compile(
    r"^\W*(?:always|never|please|from now on|in future|whenever|if |when |make sure|don't|do not|remember to|immer|nie"
    r"|bitte|siempre|nunca|por favor|toujours|jamais|sempre)\b",
    re.IGNORECASE,
)
_CHANGE = re.compile(
    r"\b(?:now|new|moved?|moving|switch\w*|chang\w*|instead|no longer|any ?more|start\w*|join\w*|left|quit|sold|bought"
    r"|became|become|got|since|upgrad\w*|replac\w*|finished|cancell?ed|gave up|broke up|swapped|renamed|raised|bumped"
    r"|jetzt|neu\w*|umgezogen|gewechselt|seit|statt|nicht mehr|mittlerweile"
    r"|ahora|nuev[oa]s?|mud\w+|cambi\w+|desde|ya no"
    r"|maintenant|nouve\w+|d\u00e9m\u00e9nag\w+|chang\w+|depuis|ne \w+ plus|d\u00e9sormais"
    r"|agora|nov[oa]s?|troqu\w+|n\u00e3o \w+ mais)\b",
    re.IGNORECASE,
)
_NUMBER = re.compile(
    r"\d|\b(?:mon|tues|wednes|thurs|fri|satur|sun)days?\b|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|noon)\b",
    re.IGNORECASE,
)
_NAME = re.compile(r"(?<![.!?\u00bf]\s)(?<!^)\b[A-Z\u00c0-\u00dd][\w'-]*")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_STATE_VERBS = frozenset(
    tokenize(
        "live living work working drive use using own cost pay meet train study eat drink call go run take play keep"
        " stay attend see speak plan ride wear read sleep wohne wohnst arbeite fahre nutze vivo vive trabajo trabaja"
        " uso cuesta habite vis travaille utilise moro trabalho custa current currently nowadays today now"
    )
)


@dataclass(frozen=True, slots=True)
class _Statement:
    """A short turn: its moment, its sentences as words, and what the rule asks of it."""

    at: int
    text: str
    sentences: tuple[tuple[str, ...], ...]
    terms: frozenset[str]
    names: frozenset[str]


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
    settled = {each for move in moves for each in move}
    moves += await _find_turn_moves(selection, fusion, query, context, asked, settled)
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


# -- among turns of which no belief knows


async def _find_turn_moves(
    selection: RankedSelection,
    fusion: Fusion,
    query: RecallQuery,
    context: SearchContext,
    asked: QuestionTime,
    settled: set[int],
) -> list[tuple[int, int]]:
    """Pairs of a turn and the leading one that it says again, as it was at the moment asked for."""
    turns = selection.ordinals_by_kind.get("Turn", selection.items[:0])[:COMPARED_TURNS]
    pairs = _find_alike(turns, selection.scores, fusion, context)
    pairs = [(i, j) for i, j in pairs if i not in settled and j not in settled]
    if not pairs or context.vectors is None:
        return []
    left, right = (np.array(side, dtype=np.int64) for side in zip(*pairs, strict=True))
    cosines = await context.vectors.score_pairs(left, right, context.scope)
    near = [(pair, float(cosine)) for pair, cosine in zip(pairs, cosines, strict=True) if cosine >= MIN_FORM_COSINE]
    statements = await _read_statements({each for pair, _ in near for each in pair}, selection, context)
    groups: dict[int, list[int]] = {}
    terms = frozenset(query.parsed.terms) - _STATE_VERBS
    for (i, j), cosine in near:
        if i in statements and j in statements and _compete(statements[i], statements[j], cosine, terms):
            groups.setdefault(i, []).append(j)
    moves = []
    for i, others in groups.items():
        winner = _choose([i, *others], statements, asked)
        if winner not in (i, None):
            moves.append((winner, i))
    return moves


def _find_alike(turns: Ints, scores: Doubles, fusion: Fusion, context: SearchContext) -> list[tuple[int, int]]:
    """Pairs of a leading turn and another one which may say the same thing at another time, by their columns alone."""
    columns = context.columns
    user = columns.speakers.find_code("user")
    is_short = (columns.words[turns] <= MAX_WORDS) & (columns.speaker[turns] == user)
    is_short &= (columns.asks[turns] & CONTAINS_QUESTION) == 0
    whole = fusion.lists["whole"].values[turns] if "whole" in fusion.lists else np.zeros(len(turns))
    begins, score = columns.valid_from[turns], scores[turns]
    pairs = []
    for place in range(min(LED_HITS, len(turns))):
        if is_short[place]:
            apart = np.abs(begins - begins[place]) / _HOUR
            fits = is_short & (score >= MIN_SCORE_SHARE * score[place])
            fits &= (apart >= MIN_HOURS_APART) | (apart <= MAX_CORRECTION_HOURS)
            fits &= ~(whole < whole[place] - MAX_LESS_NEAR)
            fits[place] = False
            pairs += [(int(turns[place]), int(turns[other])) for other in np.flatnonzero(fits)]
    return pairs


async def _read_statements(
    ordinals: set[int], selection: RankedSelection, context: SearchContext
) -> dict[int, _Statement]:
    """The turns as statements; instructions are none."""
    missing = [each for each in ordinals if each not in selection.records]
    records = {context.columns.ordinals_by_key[each.key]: each for each in await context.read(missing)}
    found = {}
    for ordinal in ordinals:
        turn = selection.records.get(ordinal) or records.get(ordinal)
        if isinstance(turn, Turn) and not _INSTRUCTION.match(turn.content):
            parts = _SENTENCE_END.split(turn.content.strip())
            found[ordinal] = _Statement(
                int(context.columns.valid_from[ordinal]),
                turn.content,
                tuple(tuple(re.findall(r"[\w'-]+", part.lower())) for part in parts),
                frozenset(tokenize(turn.content)),
                frozenset(name.casefold() for part in parts for name in _NAME.findall(part)),
            )
    return found


def _compete(one: _Statement, other: _Statement, cosine: float, asked: frozenset[str]) -> bool:
    """Whether two turns say the same thing, so that the one replaces the other."""
    older, newer = (one, other) if one.at <= other.at else (other, one)
    if newer.at - older.at < MIN_HOURS_APART * _HOUR and not _CORRECTION.search(newer.text):
        return False
    if asked & one.terms - other.terms:
        return False
    if cosine >= MIN_FORM_COSINE and _form_ratio(older, newer) >= MIN_FORM_RATIO:
        return True
    if cosine < MIN_COSINE:
        return False
    if _NUMBER.search(older.text) and _NUMBER.search(newer.text):
        return True
    return bool(newer.names - older.names) or _CHANGE.search(newer.text) is not None


def _form_ratio(one: _Statement, other: _Statement) -> float:
    """How much of the words of two sentences is the same in the same order, for the two that are most alike; 0 to 1."""
    return max(SequenceMatcher(None, a, z, False).ratio() for a in one.sentences for z in other.sentences)


def _choose(group: Sequence[int], statements: dict[int, _Statement], asked: QuestionTime) -> int | None:
    """The turn that tells how it was at the moment asked for; None where none does."""
    by_time = sorted(group, key=lambda each: statements[each].at)
    if asked.moment == "now":
        return by_time[-1]
    if asked.moment == "at" and asked.end is not None:
        end = to_micros(asked.end)
        by_then = [each for each in by_time if statements[each].at < end]
        return by_then[-1] if by_then else None
    if asked.named:
        named = [each for each in by_time if frozenset(tokenize(asked.named)) & statements[each].terms]
        earlier = [each for each in by_time if named and statements[each].at < statements[named[0]].at]
        return earlier[-1] if earlier else by_time[0]
    return by_time[0]
