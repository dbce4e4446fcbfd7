"""What is held about a user, as `profile()` gives it."""

from __future__ import annotations

from agentmem.core.records import User
from agentmem.memory.semantic.belief_view import SlotBeliefs
from agentmem.text.plain_line import to_plain_line
from agentmem.text.relative_dates import render_day

MAX_SHOWN_SOURCES = 3  # turns of a slot that a line names


class UserProfile(User):
    """What is held about the user: what is believed, slot by slot with its sources, and what a program set.

    `print` shows one line for each slot and each value that was set.
    """

    beliefs: tuple[SlotBeliefs, ...] = ()

    @property
    def kind(self) -> str:
        """That of the record with what was set."""
        return User.__name__

    def __str__(self) -> str:
        """One line for each slot, then for each value that was set."""
        areas = {"expertise areas": ", ".join(self.expertise_areas)} if self.expertise_areas else {}
        parts = (self.preferences, self.communication_style, areas, self.metadata)
        lines = [f"{name}: {value} (set by a program)" for part in parts for name, value in part.items()]
        return "\n".join(map(to_plain_line, [*map(_render_slot, self.beliefs), *lines]))


def _render_slot(slot: SlotBeliefs) -> str:
    """What is believed of a slot, since when, and the turns that say so."""
    facts = slot.current or slot.facts()
    since = min((fact.valid_from for fact in slot.current if fact.valid_from), default=None)
    turns = list(dict.fromkeys(name for fact in facts for name in fact.source_turn_ids))
    notes = [f"since {render_day(since.date())}"] if since else []
    notes += (
        [f"by turn {', '.join(turns[:MAX_SHOWN_SOURCES])}{' …' * (len(turns) > MAX_SHOWN_SOURCES)}"] if turns else []
    )
    return str(slot).removeprefix(f"{slot.subject}.") + (f" [{', '.join(notes)}]" if notes else "")
