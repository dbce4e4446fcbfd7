"""Turns that tell the same at different times, of which no belief knows: which of them was so at the moment asked for.

Short statements of one user compete when they are alike and about as near to the question. `rival_words.json` has, by
language, words of change, and of what only looks like one. docs/now.md tells the rule and its figures.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache
from importlib.resources import files

import numpy as np

from agentmem.core.clock import to_micros
from agentmem.core.columns import CONTAINS_QUESTION, Bools, Ints
from agentmem.core.ranking import Doubles, Fusion, nan_to_zero
from agentmem.core.records import Turn
from agentmem.recall.request import RecallQuery
from agentmem.recall.scoring import RankedSelection
from agentmem.recall.technique import SearchContext
from agentmem.text.question_time import QuestionTime
from agentmem.text.tokenizer import stop_words, tokenize

LED_HITS = 2  # so many hits are compared with others
COMPARED_TURNS = 20
MAX_WORDS = 25  # of a turn that states one thing
MIN_HOURS_APART = 12.0
MAX_CORRECTION_HOURS = 1.0
# Of a rival: its share of the score, and by how much less near to the question it may be. The second of each is for one
# with a word of change.
MIN_SCORE_SHARE, MIN_CHANGE_SCORE_SHARE = 0.5, 0.3
MAX_LESS_NEAR, MAX_CHANGE_LESS_NEAR = 0.25, 0.38  # cosines
MAX_UNDATED_SHARE = 0.75  # of the best score without dates, of what gives way though it was said on the date
MIN_FORM_RATIO = 0.6
MIN_FORM_COSINE = 0.3
MIN_COSINE, MIN_NEW_COSINE = 0.4, 0.35  # the second for one with a new name or number
MIN_CHANGE_COSINE = 0.5  # of one that is less near to the question and holds no new name or number
MAX_RIVAL_GAP = 0.2  # of the sum of both cosines, to the leading turn and to the question, to that of the nearest rival
_HOUR = 3_600_000_000  # microseconds

Pair = tuple[int, int]

_NUMBER = re.compile(
    r"\d|\b(?:mon|tues|wednes|thurs|fri|satur|sun)days?\b|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|noon)\b",
    re.IGNORECASE,
)
_NAME = re.compile(r"\b[A-Z\u00c0-\u00dd][\w'-]*")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
# The verb of a question and the kind of thing that it asks for, which a change need not name: "Where do I live?" and "I
# moved to Oslo", "Which browser do I use?" and "I switched to Firefox".
_SUBJECT = r"(?:i|we|you|they|he|she|it|there|(?:my|our|the) \w+(?: (?-i:[A-Z])\w+)?|(?-i:[A-Z])\w+(?:'s \w+)?)"
_QUESTION_WORDS = (
    "wer|was|wo|wann|wie(?: viel)?|wohin|womit|d\u00f3nde|qui\u00e9n|cu\u00e1ndo|cu\u00e1nto|c\u00f3mo|o\u00f9|qui"
    "|quand|combien|comment|onde|quem|quando|quanto|como"
)
_WHICH = r"welche\w*|qu\u00e9|quel(?:le)?s?|que|qual"
_FREE_WORDS = (
    rf"\b(?:do|does|did|will|can|am|is|are) {_SUBJECT} ((?-i:[a-z])\w+)",
    r"^\W*(?:who|what|which \w+(?: \w+)?) (?!does\b|is\b|was\b)(\w+s)\b",
    rf"^\W*(?:\w+ )?(?:which|what|{_WHICH}) (\w+)",
    r"^\W*(?:\w+ )?(?:which|what) (\w+ \w+) (?:is|are|do|does|did|will|has|have)\b",
    rf"^\W*(?:\w+ )?(?:cu\u00e1l|{_WHICH}) \w+ (\w+)",
    rf"^\W*(?:{_QUESTION_WORDS})(?: eu)? (\w+)",
    r"(?:est-ce que|o que eu) (?:j')?(\w+)",
)


@dataclass(frozen=True, slots=True)
class _Words:
    """The patterns of `rival_words.json` over all languages; `free` are index terms that no rival need share."""

    change: re.Pattern[str]
    passing: re.Pattern[str]
    others: re.Pattern[str]
    correction: re.Pattern[str]
    instruction: re.Pattern[str]
    free: frozenset[str]


@cache
def _load_words() -> _Words:
    data = json.loads(files("agentmem.recall").joinpath("rival_words.json").read_text("utf-8"))
    free = frozenset(tokenize(" ".join(data.pop("free").values())))
    found = {name: rf"\b(?:{'|'.join(words.values())})(?!\w)" for name, words in data.items()}
    found["instruction"] = rf"^\W*{found['instruction']}"
    return _Words(**{name: re.compile(pattern, re.IGNORECASE) for name, pattern in found.items()}, free=free)


@dataclass(frozen=True, slots=True)
class _Statement:
    """A short turn: its moment, text, sentences as words, index terms, and capitalized words."""

    at: int
    text: str
    sentences: tuple[tuple[str, ...], ...]
    terms: frozenset[str]
    names: frozenset[str]


async def find_turn_moves(
    selection: RankedSelection,
    fusion: Fusion,
    query: RecallQuery,
    context: SearchContext,
    asked: QuestionTime,
    settled: Mapping[int, int],
) -> list[Pair]:
    """Pairs of the turn that tells how it was at the moment asked for and the leading one that it comes before.

    `settled` are turns that give way by what is believed, each with the one that does not.
    """
    found = selection.ordinals_by_kind.get("Turn", selection.items[:0])[:COMPARED_TURNS]
    if not len(found) or context.vectors is None or "whole" not in fusion.lists:
        return []
    turns, scores = found, selection.scores
    if asked.moment == "at" and "date" in fusion.lists:  # what was said on a date is not what held then
        scores = scores - nan_to_zero(fusion.lists["date"].values)
        turns = found[np.argsort(-scores[found], kind="stable")]
    is_short = _find_short(turns, context)
    leader, known = int(turns[0]) if is_short[0] and asked.moment == "at" else -1, {*settled, *settled.values()}
    alike = _find_alike(turns, scores, is_short, fusion, context)
    pairs = {pair: close for pair, close in alike.items() if known.isdisjoint(pair)}
    cosines = await _read_cosines(pairs, context)
    statements = await _read_statements({leader, *(each for pair in cosines for each in pair)}, selection, context)
    groups: dict[int, dict[int, float]] = {leader: {}} if leader in statements else {}
    topic = frozenset(query.parsed.terms) - _find_free_words(query.parsed.text) if cosines else frozenset()
    for (i, j), cosine in cosines.items():
        one, other = statements.get(i), statements.get(j)
        if one is None or other is None or topic & one.terms - other.terms:
            continue
        if _compete(one, other, cosine, query.parsed.text, is_close=pairs[i, j]):
            groups.setdefault(i, {})[j] = cosine + float(fusion.lists["whole"].values[j])
    moves = []
    for i, rivals in groups.items():
        winner = settled.get(i) or _choose(i, rivals, statements, asked)
        moves += [(winner, i)] if winner not in (None, i) else []
        first = int(found[0])
        if winner is not None and i == leader and first not in (i, winner, *known):
            moves += [(winner, first)] if scores[first] <= MAX_UNDATED_SHARE * scores[i] else []
    return moves


def _find_short(turns: Ints, context: SearchContext) -> Bools:
    """Which of these turns are short statements of a user without a name."""
    columns = context.columns
    is_short = (columns.words[turns] <= MAX_WORDS) & (columns.speaker[turns] == columns.speakers.find_code("user"))
    return np.asarray(is_short & ((columns.asks[turns] & CONTAINS_QUESTION) == 0))


def _find_alike(
    turns: Ints, scores: Doubles, is_short: Bools, fusion: Fusion, context: SearchContext
) -> dict[Pair, bool]:
    """Pairs of a leading turn and a rival, which may tell the same at another time, by their columns alone; and whether
    the rival is about as near to the question.
    """
    whole, begins, score = fusion.lists["whole"].values[turns], context.columns.valid_from[turns], scores[turns]
    pairs: dict[Pair, bool] = {}
    for place in np.flatnonzero(is_short[:LED_HITS]):
        apart, less_near = np.abs(begins - begins[place]) / _HOUR, whole[place] - whole
        fits = is_short & ((apart >= MIN_HOURS_APART) | (apart <= MAX_CORRECTION_HOURS))
        fits &= (score >= MIN_CHANGE_SCORE_SHARE * score[place]) & ~(less_near > MAX_CHANGE_LESS_NEAR)
        close = (score >= MIN_SCORE_SHARE * score[place]) & ~(less_near > MAX_LESS_NEAR)
        fits[place] = False
        pairs |= {(int(turns[place]), int(turns[each])): bool(close[each]) for each in np.flatnonzero(fits)}
    return pairs


async def _read_cosines(pairs: Mapping[Pair, bool], context: SearchContext) -> dict[Pair, float]:
    """The cosines of pairs of turns that are alike."""
    if not pairs or context.vectors is None:
        return {}
    left, right = (np.array(side, dtype=np.int64) for side in zip(*pairs, strict=True))
    cosines = await context.vectors.score_pairs(left, right, context.scope)
    return {pair: float(each) for pair, each in zip(pairs, cosines, strict=True) if each >= MIN_FORM_COSINE}


async def _read_statements(
    ordinals: set[int], selection: RankedSelection, context: SearchContext
) -> dict[int, _Statement]:
    """The turns as statements; instructions are none."""
    ordinals = ordinals - {-1}
    missing = [each for each in ordinals if each not in selection.records]
    keys = context.columns.ordinals_by_key
    records = {keys[each.key]: each for each in await context.read(missing)}
    found = {}
    for ordinal in ordinals:
        turn = selection.records.get(ordinal) or records.get(ordinal)
        if isinstance(turn, Turn) and not _load_words().instruction.match(turn.content):
            found[ordinal] = _Statement(
                int(context.columns.valid_from[ordinal]),
                turn.content,
                tuple(tuple(re.findall(r"[\w'-]+", part.lower())) for part in _SENTENCE_END.split(turn.content)),
                frozenset(tokenize(turn.content)),
                frozenset(map(str.casefold, _NAME.findall(turn.content))) - stop_words(),
            )
    return found


def _compete(leading: _Statement, rival: _Statement, cosine: float, question: str, *, is_close: bool) -> bool:
    """Whether the newer of two statements tells what the older one told, as it was later. `is_close`: the rival is
    about as near to the question.
    """
    words = _load_words()
    older, newer = sorted((leading, rival), key=lambda each: each.at)
    if newer.at - older.at < MIN_HOURS_APART * _HOUR and not words.correction.search(newer.text):
        return False
    if words.passing.search(newer.text) and not words.passing.search(older.text):
        return False
    known = f"{older.text} {question}".casefold()
    if any(found[0].casefold() not in known for found in words.others.finditer(newer.text)):
        return False
    is_new = bool(newer.names - older.names) or _NUMBER.search(newer.text) is not None
    if is_close and (
        cosine >= (MIN_NEW_COSINE if is_new else MIN_COSINE) or _find_form_ratio(older, newer) >= MIN_FORM_RATIO
    ):
        return True
    return (is_new or cosine >= MIN_CHANGE_COSINE) and words.change.search(newer.text) is not None


def _find_free_words(question: str) -> frozenset[str]:
    """The index terms of a question that a rival need not hold: of its verb, of the kind of thing that it asks for, and
    common ones.
    """
    found = [re.search(pattern, question, re.IGNORECASE) for pattern in _FREE_WORDS]
    return _load_words().free.union(tokenize(" ".join(each[each.lastindex or 0] for each in found if each)))


def _find_form_ratio(one: _Statement, other: _Statement) -> float:
    """How much of the words of two sentences is the same in the same order, for the two that are most alike; 0 to 1."""
    return max(SequenceMatcher(None, a, z, False).ratio() for a in one.sentences for z in other.sentences)


def _choose(
    leading: int, rivals: Mapping[int, float], statements: Mapping[int, _Statement], asked: QuestionTime
) -> int | None:
    """Of a turn and its nearest rivals the one that tells how it was at the moment asked for; None where none does."""
    nearest = max(rivals.values(), default=0.0) - MAX_RIVAL_GAP
    group: Sequence[int] = [leading, *(each for each, nearness in rivals.items() if nearness >= nearest)]
    by_time = sorted(group, key=lambda each: statements[each].at)
    if asked.moment == "now":
        return by_time[-1]
    if asked.moment == "at" and asked.end is not None:
        end = to_micros(asked.end)
        return next((each for each in reversed(by_time) if statements[each].at < end), None)
    if asked.named:
        terms = frozenset(tokenize(asked.named))
        named = next((statements[each].at for each in by_time if terms & statements[each].terms), None)
        earlier = [each for each in by_time if named is not None and statements[each].at < named]
        return earlier[-1] if earlier else by_time[0]
    return by_time[0] if asked.moment == "first" else by_time[-2:][0]
