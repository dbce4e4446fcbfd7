"""Windows as the clocks beside their speakers showed them: readers of dates do arithmetic with days alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from agentmem.core.clock import add_time
from agentmem.core.local_time import LocalTime, is_calendar_day, to_wall_clock
from agentmem.core.records import Turn
from agentmem.extraction.drafts import ExtractionDraft, Window


def to_wall_window(window: Window, local: LocalTime) -> Window:
    """The window with the day and hour of each turn in its own zone, as if they were UTC; for readers alone."""

    def move(turn: Turn) -> Turn:
        at = turn.timestamp or turn.recorded_at
        return turn.model_copy(update={"timestamp": to_wall_clock(local.localize(at))}) if at else turn

    turns, before = map(move, window.turns), map(move, window.context_turns)
    return replace(window, turns=tuple(turns), context_turns=tuple(before))


def restore_moments(draft: ExtractionDraft, window: Window, local: LocalTime) -> ExtractionDraft:
    """What was read of such a window, with hours as moments again; days stay as they are, but that nothing begins later
    than it was said to hold: east of UTC a day begins before its midnight there.
    """
    spoken = {turn.id: turn.timestamp or turn.recorded_at for turn in window.turns}

    def move(moment: datetime | None, turn_id: str) -> datetime | None:
        at = spoken.get(turn_id)
        if moment is None or at is None:
            return moment
        if is_calendar_day(moment):
            is_today = moment > at and moment.date() == local.localize(at).date()
            return at if is_today else moment
        return add_time(moment, -(local.localize(at).utcoffset() or timedelta(0)))

    facts = (
        replace(fact, valid_from=move(fact.valid_from, fact.turn_id), valid_to=move(fact.valid_to, fact.turn_id))
        for fact in draft.facts
    )
    return replace(draft, facts=tuple(facts))
