"""The simulated life: what matters is recalled, what does not is collected, and it can tell when that is not so."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from agentmem.bench import lifecycle_plots, lifecycle_report
from agentmem.bench.lifecycle import Lived, Plan, live
from agentmem.bench.lifecycle_people import ACTIVE, RETURNING, SILENT, name_of, people
from agentmem.bench.target import Target
from agentmem.cli.program import program
from agentmem.errors import ConfigError

TWO_MONTHS = Plan(users=20, days=60)


def test_names_are_nobody_elses() -> None:
    names = [name_of(number) for number in range(20_000)]
    assert len(set(names)) == len(names)
    assert not any(first != second and first in second for first in names[:200] for second in names[:200])


def test_people_do_the_same_again_and_others_under_another_seed() -> None:
    def lives(seed: int) -> list[object]:
        return [[person.visit(day) for day in person.talks] for person in people(10, 60, seed)]

    assert lives(1) == lives(1)
    assert lives(1) != lives(2)


def test_half_fall_silent_and_some_come_back() -> None:
    everybody = people(20, 365, 1)
    assert Counter(person.kind for person in everybody) == {SILENT: 10, ACTIVE: 8, RETURNING: 2}
    last = {kind: max(max(person.talks) for person in everybody if person.kind == kind) for kind in (SILENT, ACTIVE)}
    assert last[SILENT] < 30
    assert last[ACTIVE] > 350
    assert all(min(day for day in person.talks if day > 30) >= 180 for person in everybody if person.kind == RETURNING)


def test_minds_change_and_sometimes_back() -> None:
    person = people(1, 365, 1)[0]
    person.kind, person.talks = ACTIVE, tuple(range(0, 360, 4))
    told = [truth for day in person.talks for truth in person.visit(day).told]
    homes = [truth.answer for truth in told if truth.topic == told[-1].topic]
    assert homes[0] == homes[-1] != homes[1]
    assert person.former[told[-1].topic] == {homes[1]}


def _every_target_is_met(lived: Lived) -> None:
    missed = [goal for goal in lifecycle_report.targets(lived) if not goal.passed]
    assert (missed, lived.end.asked.missed[:5]) == ([], [])
    assert lived.end.noise > 100
    assert lived.end.useful > 5
    assert lived.end.asked.important >= 4 * TWO_MONTHS.users
    assert sum(week.asked.important for week in lived.weeks) > 50
    assert all(week.asked.share == 1 for week in lived.weeks)


def _the_idle_cost_no_more_as_time_goes_by(lived: Lived) -> None:
    quarters = lifecycle_report.quarters(lived)
    assert [row["days"] for row in quarters] == ["0-14", "15-29", "30-44", "45-59"]
    assert quarters[-1]["idle users"] > 10
    assert quarters[-1]["jobs per idle user"] <= min(quarters[-2]["jobs per idle user"], lifecycle_report.IDLE)
    assert quarters[-1]["jobs per talk"] > 10 * quarters[-1]["jobs per idle user"]


def _every_kind_of_job_had_something_to_do(lived: Lived) -> None:
    did = sum((day.did for day in lived.days), Counter[str]())
    for what in ("consolidate: fact", "gc: archived", "promote: kept", "promote: spread", "decay: endangered",
                 "distill_procedures: active", "patterns: strategies_learned"):  # fmt: skip
        assert did[what], what


def _what_is_missed_is_told(lived: Lived) -> None:
    end, asked = lived.end, lived.end.asked
    bad = replace(
        lived,
        end=replace(
            end, noise_collected=end.noise // 2, useful_kept=0, strangers=["Ann: Ben"], important_stored=0,
            asked=replace(asked, important_found=asked.important - 1, outdated=1, strangers=1),
        ),
        days=[replace(day, failed=Counter({"consolidate: no": 1}), idle=0) for day in lived.days],
    )  # fmt: skip
    goals = lifecycle_report.targets(bad)
    assert not any(goal.passed for goal in goals)
    text = lifecycle_report.text(bad)
    assert text.count("MISSED") == len(goals)
    assert "- Ann: Ben" in text


def _pictures_are_the_same_again(lived: Lived, tmp_path: Path) -> None:
    first, second = (lifecycle_plots.draw(lived, tmp_path / name) for name in ("first", "second"))
    assert [path.name for path in first] == ["decay.svg", "lifecycle-facts.svg", "lifecycle-cost.svg"]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    assert all(len(path.read_bytes()) < 100_000 for path in first)


@pytest.mark.long
async def test_two_months_of_twenty_people_meet_every_target(tmp_path: Path) -> None:
    """One test, because the life is long: processes that run tests side by side would each live it."""
    lived = await live(Target(str(tmp_path / "life"), "hash"), TWO_MONTHS)
    _every_target_is_met(lived)
    _the_idle_cost_no_more_as_time_goes_by(lived)
    _every_kind_of_job_had_something_to_do(lived)
    _what_is_missed_is_told(lived)
    _pictures_are_the_same_again(lived, tmp_path)


def test_the_command_exits_with_3_when_a_target_is_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ["bench", "lifecycle", "--users", "2", "--days", "8", "--out", str(tmp_path / "out"), "--seed", "4"]
    runner = CliRunner()
    assert runner.invoke(program, asked).exit_code == 0
    figures = json.loads((tmp_path / "out" / "lifecycle.json").read_text())
    assert figures["plan"] == {"users": 2, "days": 8, "seed": 4}
    assert figures["days"][7]["jobs"]["consolidate"]["runs"] >= 1
    monkeypatch.setattr("agentmem.bench.lifecycle_look._among_first", lambda *_: False)
    assert runner.invoke(program, asked).exit_code == 3


def test_a_plan_without_people_and_a_seed_that_is_no_number_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="1 to 20,000 users"):
        Plan(users=0)
    result = CliRunner().invoke(program, ["bench", "lifecycle", "--seed", "x", "--out", str(tmp_path)])
    assert (result.exit_code, list(tmp_path.iterdir())) == (2, [])
