"""Time: what began on a date or in a span that the query names, and what speaks of time when the query asks when."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo

import numpy as np

from agentmem.core.clock import to_micros
from agentmem.core.columns import MENTIONS_TIME, Bools, Floats, Ints
from agentmem.core.lifecycle import MICROSECONDS_PER_DAY
from agentmem.core.local_time import to_wall_clock, to_zone
from agentmem.core.ranking import ScoreList
from agentmem.core.records import Turn
from agentmem.memory.user_zone import read_user_zone
from agentmem.recall.cache import split_days
from agentmem.recall.request import RecallQuery
from agentmem.recall.technique import ScoreLists, SearchContext, TechniqueOptions
from agentmem.text.temporal import TimeRange, parse_relative_range

# Tuned on the dialogues (786 questions, LoCoMo-shaped) and messages (170, BEAM-shaped) of docs/recall.md. Without both,
# R@10 changes by -.026 and -.003.
DATE_BONUS = 0.4  # for what fits a date or span of the query
WHEN_BONUS = 0.05  # for what holds a word of time, where the query asks when


class Options(TechniqueOptions):
    """Nothing beside what every technique has."""


async def search(query: RecallQuery, context: SearchContext, options: Options) -> ScoreLists:
    """The lists `date` and `when`, each only where the query calls for it."""
    lists: dict[str, ScoreList] = {}
    columns = context.columns
    if (dated := await _date_match(query, context)) is not None:
        lists["date"] = ScoreList(DATE_BONUS * dated, "bonus")
    if query.parsed.asks_when:
        telling = (columns.asks & MENTIONS_TIME) != 0
        lists["when"] = ScoreList((WHEN_BONUS * telling).astype(np.float32), "bonus")
    return lists


async def _date_match(query: RecallQuery, context: SearchContext) -> Floats | None:
    """How well each record's time fits the dates of the query, 0 to 1; matched once per day, not per record."""
    hint = query.parsed.date_hint
    if hint is None and parse_relative_range(query.parsed.text, query.now) is None:
        return None
    now = to_zone(query.now, await find_zone(query, context))
    if hint is not None:
        days, place = context.cache.distinct_days(context.columns, find_offset(now))
        return hint.match(**split_days(days))[place].astype(np.float32)
    begins = context.columns.valid_from
    fits = np.where(
        begins % MICROSECONDS_PER_DAY == 0,
        _lies_in_range(begins, parse_relative_range(query.parsed.text, to_wall_clock(now))),
        _lies_in_range(begins, parse_relative_range(query.parsed.text, now)),
    )
    return fits.astype(np.float32)


def find_offset(now: datetime) -> int:
    """Microseconds by which the clock there is ahead of UTC."""
    return (now.utcoffset() or timedelta(0)) // timedelta(microseconds=1)


def _lies_in_range(begins: Ints, span: TimeRange | None) -> Bools:
    if span is None:  # a day before the first year of the calendar there
        return np.zeros(len(begins), dtype=np.bool_)
    return np.asarray((begins >= to_micros(span[0])) & (begins < to_micros(span[1])))


async def find_zone(query: RecallQuery, context: SearchContext) -> tzinfo:
    """Where the user asks: by the settings, the moment asked for, the last turn, or what is believed; else UTC."""
    if context.zone:
        return context.zone
    asked = query.request.as_of
    if asked and asked.tzinfo and asked.utcoffset():
        return asked.tzinfo
    turns = np.flatnonzero(context.turn_mask)
    last = turns[np.argmax(context.columns.valid_from[turns])] if len(turns) else None
    for turn in await context.read([] if last is None else [int(last)]):
        if isinstance(turn, Turn) and turn.timestamp and turn.timestamp.utcoffset():
            return turn.timestamp.tzinfo or UTC
    channels = context.scope.readable_channels()
    return await read_user_zone(context.log, context.scope, channels, query.now) or UTC
