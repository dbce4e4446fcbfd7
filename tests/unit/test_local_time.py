"""The user's own time: zones as they are named, moments and days in them, and turns that keep their offset."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from agentmem.cli.render import format_time
from agentmem.core.local_time import LocalTime, read_timezone, to_wall_clock
from agentmem.core.records import Turn, build_record
from agentmem.errors import ConfigError
from agentmem.recall.render import render_turn, render_turn_heading
from agentmem.settings.settings import load_settings

TONGA, HAWAII = ZoneInfo("Pacific/Tongatapu"), ZoneInfo("Pacific/Honolulu")  # 13 hours ahead, 10 behind


@pytest.mark.parametrize(
    "words, hours",
    [
        ("Asia/Kolkata", 5.5),
        ("UTC", 0),
        ("GMT+3", 3),
        ("utc -7", -7),
        ("UTC+05:45", 5.75),
        ("gmt-0330", -3.5),
        ("GMT+25", None),
        ("late at night", None),
        ("../Europe", None),
        ("Europe", None),
        ("", None),
    ],
)
def test_a_zone_is_read_from_its_name(words: str, hours: float | None) -> None:
    zone = read_timezone(words)
    offset = None if zone is None else datetime(2026, 2, 3, tzinfo=zone).utcoffset()
    assert offset == (None if hours is None else timedelta(hours=hours))


@pytest.mark.parametrize(
    "moment, setting, user, day",
    [
        ("2026-02-03T23:30:00+00:00", None, None, 3),
        ("2026-02-03T23:30:00+00:00", None, TONGA, 4),
        ("2026-02-03T05:00:00+00:00", None, HAWAII, 2),
        ("2026-02-03T23:30:00-05:00", None, TONGA, 3),  # its own offset counts before the user's zone
        ("2026-02-03T23:30:00-05:00", HAWAII, TONGA, 3),
        ("2026-02-03T23:30:00-05:00", TONGA, HAWAII, 4),
        ("2026-02-03T00:00:00+00:00", HAWAII, HAWAII, 3),  # midnight UTC stands for the day
        ("2026-02-03T00:00:00+09:00", None, HAWAII, 3),
        ("0001-01-01T01:00:00+00:00", HAWAII, None, 1),
    ],
)
def test_a_moment_is_of_the_day_of_its_zone(
    moment: str, setting: ZoneInfo | None, user: ZoneInfo | None, day: int
) -> None:
    assert LocalTime(setting, user).localize(datetime.fromisoformat(moment)).day == day


@pytest.mark.parametrize("said", ["2026-02-03T23:30:00+05:45", "2026-02-03T23:30:00-07:00"])
def test_a_turn_keeps_its_offset(said: str) -> None:
    turn = build_record(Turn, content="Good night, I saw Bo yesterday.", timestamp=datetime.fromisoformat(said))
    kept = Turn.model_validate_json(turn.model_dump_json())
    assert kept.timestamp is not None
    assert kept.timestamp.isoformat() == said
    assert to_wall_clock(kept.timestamp) == datetime(2026, 2, 3, 23, 30, tzinfo=UTC)
    assert format_time(kept.timestamp) == said.replace("T", " ").replace(":00+", "+").replace(":00-", "-")
    assert render_turn_heading(kept) == "[3 Feb 2026]"
    assert "yesterday = 2 Feb 2026" in render_turn(kept)


def test_turns_of_older_stores_and_without_offset_are_in_utc() -> None:
    old = Turn.model_validate_json('{"content": "Hi", "timestamp": "2026-02-03T23:30:00Z"}')
    naive = build_record(Turn, content="Hi", timestamp=datetime(2026, 2, 3, 23, 30))
    assert [str(turn.timestamp) for turn in (old, naive)] == ["2026-02-03 23:30:00+00:00"] * 2


def test_a_record_is_shown_in_the_zone() -> None:
    turn = build_record(Turn, content="Hi", timestamp=datetime(2026, 2, 3, 23, 30, tzinfo=UTC))
    assert render_turn_heading(LocalTime(user=TONGA).relocate(turn)) == "[4 Feb 2026]"
    assert LocalTime().relocate(turn) is turn


@pytest.mark.parametrize("name", ["Mars/Olympus", "Europe", "12"])
def test_an_unknown_zone_in_the_settings_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="time_zone"):
        load_settings(time_zone=name)
    assert load_settings().zone is None
