"""The profile: what is believed of the user with its sources, and what a program set."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from agentmem import AgentMemory
from tests.flows.given import open_memory


@pytest.fixture
def memory(home: Path) -> AgentMemory:
    with open_memory(home, audit_level="reads") as made:
        yield made


def test_the_profile_tells_what_is_believed_and_what_was_set(memory: AgentMemory) -> None:
    turn = memory.store_turn("I moved to Oslo.")
    said = {"slot": "home", "value": "Oslo", "source_turn_ids": [turn.id]}
    fact = memory.learn_fact("The user lives in Oslo", valid_from=datetime(2026, 5, 3, tzinfo=UTC), **said)
    memory.learn_fact("Mira lives in Porto", subject="Mira", slot="home", value="Porto")
    memory.update_profile(preferences={"tone": "short"}, expertise_areas=["law", "tax"])
    found = memory.profile()
    assert [(each.slot, [one.id for one in each.current]) for each in found.beliefs] == [("home", [fact.id])]
    assert found.preferences == {"tone": "short"}
    assert str(found).splitlines() == [
        f"home: Oslo [since 3 May 2026, by turn {turn.id}]",
        "tone: short (set by a program)",
        "expertise areas: law, tax (set by a program)",
    ]
    (row,) = memory.audit.query(operation="profile")
    assert row["metadata"]["ids"] == ["profile", fact.id]
    assert memory.update_profile(preferences={"units": "metric"}).preferences == {"tone": "short", "units": "metric"}


def test_the_profile_of_a_user_of_whom_nothing_is_held_is_empty(memory: AgentMemory) -> None:
    assert (str(memory.profile()), memory.profile().beliefs) == ("", ())
