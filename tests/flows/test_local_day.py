"""The user's own day: what "yesterday" and a day heading mean, on both stacks and after an export."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agentmem.admin.export_import import export_user, import_user
from agentmem.core.scope import Scope
from tests.flows.given import STACKS, ManualClock, engine_of, open_memory, run, stack_options

LATE = datetime(2026, 2, 3, 23, 30, tzinfo=UTC)
CASES = [  # the setting, the belief, when it was said, and the day of it
    ("", "", "2026-02-03T23:30:00+00:00", 3),
    ("", "", "2026-02-04T01:30:00+11:00", 4),
    ("", "", "2026-02-03T23:30:00-08:00", 3),
    ("", "Pacific/Auckland", "2026-02-03T23:30:00+00:00", 4),
    ("", "GMT-5", "2026-02-03T03:30:00+00:00", 2),
    ("", "after lunch", "2026-02-03T23:30:00+00:00", 3),
    ("", "Pacific/Auckland", "2026-02-03T23:30:00-08:00", 3),
    ("Asia/Tokyo", "GMT-5", "2026-02-03T10:30:00-08:00", 4),
]


@pytest.mark.parametrize("setting, belief, said, day", CASES)
def test_a_turn_is_of_its_speakers_day(home: Path, setting: str, belief: str, said: str, day: int) -> None:
    with open_memory(home, clock=ManualClock(LATE + timedelta(days=1)), time_zone=setting) as memory:
        if belief:
            memory.learn_fact(
                f"The time zone is {belief}", slot="time_zone", value=belief, valid_from=LATE.replace(day=1)
            )
        memory.store_turn("I've lived in Turku since yesterday.", timestamp=datetime.fromisoformat(said))
        memory.consolidate("consolidate")
        (home_belief,) = memory.beliefs("user", "home")
        assert home_belief.current[0].valid_from == datetime(2026, 2, day - 1, tzinfo=UTC)
        text = memory.context("Turku").text
        assert f"[{day} Feb 2026]" in text
        assert f"yesterday = {day - 1} Feb 2026" in text


def test_what_holds_from_today_on_holds_east_of_utc_too(home: Path) -> None:
    said = datetime.fromisoformat("2026-02-04T00:30:00+09:00")
    with open_memory(home, clock=ManualClock(said + timedelta(minutes=5))) as memory:
        memory.store_turn("I've lived in Turku since today.", timestamp=said)
        memory.consolidate("consolidate")
        (home_belief,) = memory.beliefs("user", "home")
        assert [(fact.value, fact.valid_from) for fact in home_belief.current] == [("Turku", said)]


@pytest.mark.parametrize("order, month", [("day_first", 7), ("month_first", 5), ("", None)])
def test_a_setting_tells_the_order_of_an_ambiguous_date(home: Path, order: str, month: int | None) -> None:
    with open_memory(home, clock=ManualClock(LATE), date_order=order) as memory:
        memory.store_turn("I've lived in Turku since 05/07/2025.", timestamp=LATE)
        memory.consolidate("consolidate")
        begun = [fact.valid_from for home_belief in memory.beliefs("user", "home") for fact in home_belief.current]
        assert begun == ([datetime(2025, month, 12 - month, tzinfo=UTC)] if month else [])


@pytest.mark.parametrize("setting, offset", [("", "-08:00"), ("America/Los_Angeles", "+00:00")])
def test_yesterday_in_a_question_is_the_users(home: Path, setting: str, offset: str) -> None:
    """At 03:30 UTC it is 4 February in Los Angeles, and the 3rd ends at 08:00 UTC on the 4th."""
    clock = ManualClock(datetime(2026, 2, 5, 3, 30, tzinfo=UTC))
    with open_memory(home, clock=clock, time_zone=setting) as memory:
        zone = datetime.fromisoformat(f"2026-02-04T00:00{offset}").tzinfo
        for hour, what in ((4, "a kettle"), (9, "a lamp")):
            moment = datetime(2026, 2, 4, hour, tzinfo=UTC)
            memory.store_turn(f"Bought {what}.", timestamp=moment.astimezone(zone))
        for day in (3, 4):
            memory.learn_fact(f"Trip number {day}", valid_from=datetime(2026, 2, day, tzinfo=UTC))
        for when, expected in (
            ("yesterday", ["Bought a kettle.", "Trip number 3"]),
            ("on 4 February 2026", ["Bought a lamp.", "Trip number 4"]),
        ):
            found = memory.remember(f"What came {when}?")
            assert sorted(item.record.search_text() for item in found if "date +0.40" in item.why) == expected


@pytest.mark.parametrize("setting, belief", [("Pacific/Auckland", ""), ("", "Pacific/Auckland")])
def test_days_of_beliefs_are_the_users(home: Path, setting: str, belief: str) -> None:
    with open_memory(home, clock=ManualClock(LATE + timedelta(days=1)), time_zone=setting) as memory:
        if belief:
            memory.learn_fact(f"The time zone is {belief}", slot="time_zone", value=belief)
        memory.learn_fact("The user lives in Turku", slot="home", value="Turku", valid_from=LATE)
        memory.learn_fact(
            "The user works at Acme", slot="employer", value="Acme", valid_from=LATE.replace(hour=0, minute=0)
        )
        memory.consolidate("synopsis")
        for text in (memory.context("Turku Acme").text, str(memory.synopsis())):
            assert "Turku (since 4 Feb 2026)" in text
            assert "Acme (since 3 Feb 2026)" in text


@pytest.fixture(params=STACKS)
def options(request: pytest.FixtureRequest) -> dict[str, Any]:
    return stack_options(request)


def test_the_offset_comes_back_from_the_store_and_from_an_export(
    home: Path, tmp_path: Path, options: dict[str, Any]
) -> None:
    said = "2026-02-04T01:30:00+05:45"
    lines = list[str]()
    options = {"user": "alice", **options}
    scope = Scope(options["user"])
    with open_memory(home, **options) as memory:
        memory.store_turn({"content": "Good night.", "timestamp": said, "turn_id": "night"})
    with open_memory(home, **options) as memory:
        assert [turn.timestamp and turn.timestamp.isoformat() for turn in memory.episodic.recent_turns()] == [said]
        run(export_user(engine_of(memory), scope, lines.append))
    with open_memory(tmp_path / "other", user=scope.user_id) as memory:
        run(import_user(engine_of(memory), scope, iter(lines)))
        assert [turn.timestamp and turn.timestamp.isoformat() for turn in memory.episodic.recent_turns()] == [said]
