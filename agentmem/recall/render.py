"""Records as lines of a prompt: short, readable, with dates and speakers; with ids where they are asked for.

Every stored value goes through `to_plain_line`, so that it starts no line, section or turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from agentmem.core.procedural_records import Procedure, Strategy
from agentmem.core.record import Record
from agentmem.core.records import Entity, Fact, Goal, Turn
from agentmem.text.plain_line import to_plain_line, to_plain_name
from agentmem.text.relative_dates import render_day, resolve_relative_dates

if TYPE_CHECKING:
    from agentmem.memory.working.tool_outputs import ToolOutput

SHORT_ID_CHARS = 8
UUID_CHARS = 36


def shorten_id(record_id: str) -> str:
    """The end of an id that we made or that is very long, where such ids differ; a caller's own id as it is."""
    ours = len(record_id) == UUID_CHARS and record_id.count("-") == 4
    return record_id[-SHORT_ID_CHARS:] if ours or len(record_id) > UUID_CHARS else record_id


def render_date(moment: datetime) -> str:
    """A date as `7 May 2023`, with the month in short."""
    return render_day(moment.date())


def render_turn(turn: Turn, *, with_id: bool = False) -> str:
    """`Ann: what she said`: who spoke, the text with what was shared, and the dates that relative ones mean.

    `with_id` puts the turn's index in front and its id behind.
    """
    speaker = to_plain_name(turn.speaker or "", turn.role)
    text, moment = to_plain_line(turn.search_text()), turn.timestamp or turn.recorded_at
    dates = resolve_relative_dates(text, moment.date()) if moment else []
    line = f"{speaker}: {text}" + (f" [{'; '.join(dates)}]" if dates else "")
    return f"{turn.index} {line} [{to_plain_line(shorten_id(turn.id))}]" if with_id else line


def render_turn_heading(turn: Turn, *, with_id: bool = False) -> str:
    """`[7 May 2023]`: what the turns of one conversation and day stand under; `with_id` tells the conversation."""
    moment = turn.timestamp or turn.recorded_at
    day = render_date(moment) if moment else "undated"
    return f"[{day}, conversation {to_plain_line(shorten_id(turn.conversation_id))}]" if with_id else f"[{day}]"


def render_record(record: Record, *, is_unknown: bool = False, with_id: bool = False) -> str:
    """One line for a record that is no turn. `is_unknown`: a stale fact beside which nothing current is known."""
    text = to_plain_line(_render_text(record, is_unknown=is_unknown))
    return f"- {text} [{to_plain_line(shorten_id(record.id))}]" if with_id else f"- {text}"


def _render_text(record: Record, *, is_unknown: bool) -> str:
    if isinstance(record, Fact):
        known = f"unknown since {render_date(record.stale_since)}: " if is_unknown and record.stale_since else ""
        return f"{known}{record.claim}{_render_qualifiers(_fact_qualifiers(record))}"
    if isinstance(record, Entity):
        aliases = [f"also {', '.join(record.aliases)}"] if record.aliases else []
        text = f": {record.description}" if record.description else ""
        return f"{record.name}{_render_qualifiers([record.type, *aliases])}{text}"
    if isinstance(record, Goal):
        status = [] if record.goal_status == "active" else [record.goal_status]
        due = [f"by {render_date(record.deadline)}"] if record.deadline else []
        return f"{record.description}{_render_qualifiers([*status, *due])}"
    if isinstance(record, Procedure):
        return f"{record.instruction}{_render_qualifiers([record.trigger] if record.trigger else [])}"
    if isinstance(record, Strategy):
        tools = f": {', then '.join(record.tool_sequence)}" if record.tool_sequence else ""
        when = [record.context_pattern] if record.context_pattern else []
        tries = record.success_count + record.failure_count
        worked = f"worked in {record.success_count} of {tries}"
        return f"{record.description.rstrip('.')}{tools}{_render_qualifiers([*when, worked])}"
    return record.search_text()


def render_output(output: ToolOutput) -> str:
    """`- search, 7 May 2023: what it gave back`, on one line."""
    return f"- {to_plain_line(f'{output.source}, {render_date(output.at)}: {output.text}')}"


def render_profile(profile: Mapping[str, Any]) -> list[str]:
    """The parts of a profile that say something, one line each."""
    return [
        "- " + to_plain_line(f"{name.replace('_', ' ')}: {_render_value(value)}")
        for name, value in profile.items()
        if value
    ]


def _fact_qualifiers(fact: Fact) -> list[str]:
    """From when to when a fact is true, and what to beware of."""
    parts = []
    if fact.valid_from is not None:
        parts.append(f"from {render_date(fact.valid_from)}")
    if fact.valid_to is not None:
        parts.append(f"until {render_date(fact.valid_to)}")
    if fact.temporal_context in ("past", "future"):
        parts.append(fact.temporal_context)
    if fact.confidence < 0.7:
        parts.append(f"confidence {fact.confidence:.2f}")
    if fact.fallen_premise and fact.stale_since is not None:
        parts.append(f'stale since {render_date(fact.stale_since)}: it rested on "{fact.fallen_premise}"')
    elif fact.stale_since is not None:  # one of its sources was erased
        parts.append("may be out of date")
    return parts


def _render_qualifiers(parts: list[str]) -> str:
    return f" ({'; '.join(parts)})" if parts else ""


def _render_value(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_render_value(each)}" for name, each in value.items())
    return ", ".join(str(each) for each in value) if isinstance(value, list | tuple) else str(value)
