"""Records as lines of a prompt: short, readable, with dates, speakers and ids."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from agentmem.core.procedural_records import Procedure, Strategy
from agentmem.core.record import Record
from agentmem.core.records import Entity, Fact, Goal, Turn

if TYPE_CHECKING:
    from agentmem.memory.working.tool_outputs import ToolOutput

SHORT_ID_CHARS = 8
UUID_CHARS = 36
SECTION_TITLES = {
    "User": "About the user",
    "Goal": "Goals",
    "Fact": "Facts",
    "Entity": "People, places and things",
    "Procedure": "Standing instructions",
    "Strategy": "What has worked",
}
OTHER_SECTION_TITLE = "Ways of doing"


def shorten_id(record_id: str) -> str:
    """The end of an id that we made or that is very long, where such ids differ; a caller's own id as it is."""
    ours = len(record_id) == UUID_CHARS and record_id.count("-") == 4
    return record_id[-SHORT_ID_CHARS:] if ours or len(record_id) > UUID_CHARS else record_id


def render_date(moment: datetime) -> str:
    """A date as `7 May 2023`."""
    return f"{moment.day} {moment:%B %Y}"


def render_turn(turn: Turn) -> str:
    """`3 Ann: what she said`: the turn's index, who spoke, and the text with what was shared."""
    place = f"{turn.index} " if turn.index >= 0 else ""
    return f"{place}{turn.speaker or turn.role}: {turn.search_text()}"


def render_turn_heading(turn: Turn) -> str:
    """`# 7 May 2023, conversation 1`: what the turns of one conversation and day stand under."""
    moment = turn.timestamp or turn.recorded_at
    return f"# {render_date(moment)}, conversation {shorten_id(turn.conversation_id)}" if moment else "# undated"


def render_record(record: Record, *, is_unknown: bool = False) -> str:
    """One line for a record that is no turn. `is_unknown`: a stale fact beside which nothing current is known."""
    if isinstance(record, Fact):
        known = f"unknown since {render_date(record.stale_since)}: " if is_unknown and record.stale_since else ""
        return f"- {known}{record.claim}{_render_qualifiers(_fact_qualifiers(record))} [{shorten_id(record.id)}]"
    if isinstance(record, Entity):
        aliases = [f"also {', '.join(record.aliases)}"] if record.aliases else []
        text = f": {record.description}" if record.description else ""
        return f"- {record.name}{_render_qualifiers([record.type, *aliases])}{text} [{shorten_id(record.id)}]"
    if isinstance(record, Goal):
        due = [f"by {render_date(record.deadline)}"] if record.deadline else []
        return f"- {record.description}{_render_qualifiers([record.goal_status, *due])} [{shorten_id(record.id)}]"
    if isinstance(record, Procedure):
        return (
            f"- {record.instruction}{_render_qualifiers([record.trigger] if record.trigger else [])} "
            f"[{shorten_id(record.id)}]"
        )
    if isinstance(record, Strategy):
        tools = f": {', then '.join(record.tool_sequence)}" if record.tool_sequence else ""
        when = [record.context_pattern] if record.context_pattern else []
        tries = record.success_count + record.failure_count
        worked = f"worked in {record.success_count} of {tries}"
        return (
            f"- {record.description.rstrip('.')}{tools}{_render_qualifiers([*when, worked])} [{shorten_id(record.id)}]"
        )
    return f"- {record.search_text()} [{shorten_id(record.id)}]"


def render_output(output: ToolOutput) -> str:
    """`- search, 7 May 2023: what it gave back`, on one line."""
    return f"- {output.source}, {render_date(output.at)}: {' '.join(output.text.split())}"


def section_heading(record: Record) -> str:
    """The heading that a record other than a turn stands under."""
    if isinstance(record, Goal) and not record.is_open:
        return "# Goals that ended"
    return f"# {SECTION_TITLES.get(record.kind, OTHER_SECTION_TITLE)}"


def render_profile(profile: Mapping[str, Any]) -> list[str]:
    """The parts of a profile that say something, one line each."""
    return [f"- {name.replace('_', ' ')}: {_render_value(value)}" for name, value in profile.items() if value]


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
