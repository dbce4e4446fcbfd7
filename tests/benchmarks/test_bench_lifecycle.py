"""The simulated life: what matters is recalled, what does not is collected, and it can tell when that is not so."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import astuple, replace
from multiprocessing import active_children
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from agentmem.errors import AgentMemError, ConfigError
from tests.benchmarks import lifecycle_plots, lifecycle_processes, lifecycle_report
from tests.benchmarks.__main__ import command as cli_group
from tests.benchmarks.lifecycle import SimulationPlan, SimulationResult, run_simulation
from tests.benchmarks.lifecycle_people import ACTIVE, RETURNING, SILENT, build_people, distribute, make_name
from tests.benchmarks.target import MemoryFactory
from tests.scale import NIGHTLY

TWO_MONTHS = SimulationPlan(users=20, days=60)
EIGHT_DAYS = SimulationPlan(users=3, days=8)


def test_names_are_nobody_elses() -> None:
    names = [make_name(number) for number in range(20_000)]
    assert len(set(names)) == len(names)
    assert not any(first != second and first in second for first in names[:200] for second in names[:200])


def test_people_do_the_same_again_and_others_under_another_seed() -> None:
    def lives(seed: int) -> list[object]:
        return [[person.plan_visit(day) for day in person.visit_days] for person in build_people(10, 60, seed)]

    assert lives(1) == lives(1)
    assert lives(1) != lives(2)


def test_half_fall_silent_and_some_come_back() -> None:
    everybody = build_people(20, 365, 1)
    assert Counter(person.kind for person in everybody) == {SILENT: 10, ACTIVE: 8, RETURNING: 2}
    last = {
        kind: max(max(person.visit_days) for person in everybody if person.kind == kind) for kind in (SILENT, ACTIVE)
    }
    assert last[SILENT] < 30
    assert last[ACTIVE] > 350
    assert all(
        min(day for day in person.visit_days if day > 30) >= 180 for person in everybody if person.kind == RETURNING
    )


def test_minds_change_and_sometimes_back() -> None:
    person = build_people(1, 365, 1)[0]
    person.kind, person.visit_days = ACTIVE, tuple(range(0, 360, 4))
    told = [truth for day in person.visit_days for truth in person.plan_visit(day).stated]
    homes = [truth.answer for truth in told if truth.topic == told[-1].topic]
    assert homes[0] == homes[-1] != homes[1]
    assert person.former_answers[told[-1].topic] == {homes[1]}


@settings(max_examples=25, derandomize=True, deadline=None)
@given(users=st.integers(1, 60), hands=st.integers(1, 9), seed=st.integers(0, 99))
def test_everybody_is_dealt_once_and_the_work_is_even(users: int, hands: int, seed: int) -> None:
    everybody = build_people(users, 90, seed)
    parts = distribute(everybody, hands)
    numbers = [[person.number for person in part] for part in parts]
    assert sorted(number for part in numbers for number in part) == list(range(users))
    assert all(part == sorted(part) for part in numbers)
    work = [sum(len(person.visit_days) for person in part) for part in parts]
    assert max(work) - min(work) <= max(len(person.visit_days) for person in everybody)


def _every_target_is_met(lived: SimulationResult) -> None:
    missed = [goal for goal in lifecycle_report.check_targets(lived) if not goal.passed]
    assert (missed, lived.final_state.answers.missed[:5]) == ([], [])
    assert lived.final_state.noise > 100
    assert lived.final_state.useful > 5
    assert lived.final_state.answers.important >= 4 * TWO_MONTHS.users
    assert [look.day for look in lived.snapshots] == [13, 27, 41, 55, 59]
    assert sum(look.answers.important for look in lived.snapshots) > 30
    assert all(look.answers.important_share == 1 for look in lived.snapshots)


def _the_idle_cost_no_more_as_time_goes_by(lived: SimulationResult) -> None:
    quarters = lifecycle_report.quarter_rows(lived)
    assert [row["days"] for row in quarters] == ["0-14", "15-29", "30-44", "45-59"]
    assert quarters[-1]["idle users"] > 10
    assert quarters[-1]["jobs per idle user"] <= min(quarters[-2]["jobs per idle user"], lifecycle_report.MAX_IDLE_JOBS)
    assert quarters[-1]["jobs per talk"] > 10 * quarters[-1]["jobs per idle user"]


def _every_kind_of_job_had_something_to_do(lived: SimulationResult) -> None:
    did = sum((day.job_counts for day in lived.days), Counter[str]())
    for what in (
        "consolidate: fact",
        "gc: archived",
        "promote: kept",
        "promote: spread",
        "decay: endangered",
        "distill_procedures: active",
        "patterns: strategies_learned",
    ):
        assert did[what], what


def _what_is_missed_is_told(lived: SimulationResult) -> None:
    end, asked = lived.final_state, lived.final_state.answers
    bad = replace(
        lived,
        final_state=replace(
            end,
            noise_collected=end.noise // 2,
            useful_kept=0,
            leaks=["Ann: Ben"],
            important_stored=0,
            answers=replace(asked, important_found=asked.important - 1, outdated=1, leaks=1),
        ),
        days=[replace(day, failed=Counter({"consolidate: no": 1}), idle=0) for day in lived.days],
    )
    goals = lifecycle_report.check_targets(bad)
    assert not any(goal.passed for goal in goals)
    text = lifecycle_report.render_text(bad)
    assert text.count("MISSED") == len(goals)
    assert "- Ann: Ben" in text


def _pictures_are_the_same_again(lived: SimulationResult, tmp_path: Path) -> None:
    first, second = (lifecycle_plots.draw(lived, tmp_path / name) for name in ("first", "second"))
    assert [path.name for path in first] == ["decay.svg", "lifecycle-facts.svg", "lifecycle-cost.svg"]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    assert all(len(path.read_bytes()) < 100_000 for path in first)


@pytest.mark.nightly
async def test_two_months_of_twenty_people_meet_every_target(tmp_path: Path) -> None:
    """One test, because the life is long: processes that run tests side by side would each live it."""
    lived = await run_simulation(MemoryFactory(str(tmp_path / "life"), "hash"), TWO_MONTHS)
    _every_target_is_met(lived)
    _the_idle_cost_no_more_as_time_goes_by(lived)
    _every_kind_of_job_had_something_to_do(lived)
    _what_is_missed_is_told(lived)
    _pictures_are_the_same_again(lived, tmp_path)


@pytest.mark.long
async def test_shares_of_a_life_joined_are_the_whole_life(tmp_path: Path) -> None:
    async def lived(processes: int) -> SimulationResult:
        shares = [
            await run_simulation(
                MemoryFactory(str(tmp_path / f"{process} of {processes}"), "hash"),
                EIGHT_DAYS,
                process=process,
                processes=processes,
            )
            for process in range(processes)
        ]
        return lifecycle_processes.merge_results(shares)

    counts = (1, 2, 3) if NIGHTLY else (1, 2)
    whole, *joined = lives = [await lived(processes) for processes in counts]
    assert tuple(life.processes for life in lives) == counts
    assert whole.final_state.answers.important > 4
    for parts in joined:
        assert [pair for pair in zip(_count_days(parts), _count_days(whole), strict=True) if len(set(pair)) > 1] == []
        assert _counts(parts) == _counts(whole)
        assert lifecycle_report.check_targets(parts) == lifecycle_report.check_targets(whole)
        assert parts.job_seconds > 0


def _count_days(lived: SimulationResult) -> list[str]:
    """What was counted each day: not the seconds, nor the runs, of which each process has its own."""
    days = [
        (
            day.day,
            day.talked,
            day.idle,
            sorted(day.job_counts.items()),
            sorted(day.failed.items()),
            day.waiting,
            sorted((name, cost.served, cost.idle) for name, cost in day.jobs.items()),
        )
        for day in lived.days
    ]
    return [str(day) for day in days]


def _counts(lived: SimulationResult) -> object:
    """What else was counted."""
    return lived.plan, lived.embedder, [astuple(look) for look in lived.snapshots], astuple(lived.final_state)


@pytest.mark.nightly  # by day test_shares_of_a_life_joined_are_the_whole_life
def test_the_lives_of_two_processes_come_to_one_report(tmp_path: Path) -> None:
    asked = ["lifecycle", "--users", "4", "--days", "3", "--processes", "2", "--home", str(tmp_path / "home")]
    result = CliRunner().invoke(cli_group, [*asked, "--out", str(tmp_path / "out")])
    assert (result.exit_code, list((tmp_path / "home").iterdir())) == (0, [])
    figures = json.loads((tmp_path / "out" / "lifecycle.json").read_text())
    assert (figures["processes"], figures["plan"]["users"], len(figures["days"])) == (2, 4, 3)
    assert (
        sum(day["talked"] for day in figures["days"])
        == sum(len(person.visit_days) for person in build_people(4, 3, 1))
        > 0
    )
    assert all(day["jobs"]["consolidate"]["runs"] >= 2 for day in figures["days"])
    assert "s of CPU in 2 processes" in (tmp_path / "out" / "lifecycle.md").read_text()


def test_an_error_in_one_process_ends_the_others(tmp_path: Path) -> None:
    """The second one would live on for days."""
    (tmp_path / "0").write_text("no folder")
    with pytest.raises(AgentMemError, match="0"):
        lifecycle_processes.run_simulation_in_processes(
            MemoryFactory(str(tmp_path), "hash"), SimulationPlan(20_000, 3650), 2
        )
    assert active_children() == []


def test_an_interruption_ends_all_processes_and_leaves_nothing_there(tmp_path: Path) -> None:
    def interrupt(done: int, total: int) -> None:
        assert (done, total) == (0, 3650)
        raise KeyboardInterrupt

    order = lifecycle_report.SimulationRequest(SimulationPlan(4, 3650), tmp_path / "out", scratch=tmp_path, processes=2)
    with pytest.raises(KeyboardInterrupt):
        lifecycle_report.run(order, interrupt)
    assert (active_children(), list(tmp_path.iterdir())) == ([], [])


def test_stores_of_a_simulation_lie_in_memory_where_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = lifecycle_report.find_shared_memory_dir
    monkeypatch.setattr(lifecycle_report, "SHARED_MEMORY_DIR", tmp_path)
    monkeypatch.setattr(lifecycle_report, "MIN_FREE_BYTES", 1)
    assert found() == tmp_path
    monkeypatch.setattr(lifecycle_report, "MIN_FREE_BYTES", 2**70)
    assert found() is None
    monkeypatch.setattr(lifecycle_report, "MIN_FREE_BYTES", 1)
    monkeypatch.setattr(lifecycle_report, "SHARED_MEMORY_DIR", tmp_path / "none")
    assert found() is None


def test_processes_are_one_a_core_or_as_asked_and_one_for_few_people_and_on_servers() -> None:
    number_of = lifecycle_processes.choose_processes
    cores = min(os.cpu_count() or 1, lifecycle_processes.MAX_PROCESSES)
    assert [number_of(20), number_of(200), number_of(200, servers=True)] == [1, min(cores, 200), 1]
    assert [number_of(200, 3), number_of(2, 3), number_of(9, 1, servers=True)] == [3, 2, 1]
    with pytest.raises(ConfigError, match="leave --processes out, or give 1"):
        number_of(200, 2, servers=True)
    with pytest.raises(ConfigError, match="from 1 to 60, got 0"):
        number_of(200, 0)


def test_the_command_exits_with_3_when_a_target_is_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ["lifecycle", "--users", "2", "--days", "8", "--out", str(tmp_path / "out"), "--seed", "4"]
    runner = CliRunner()
    assert runner.invoke(cli_group, asked).exit_code == 0
    figures = json.loads((tmp_path / "out" / "lifecycle.json").read_text())
    assert figures["plan"] == {"users": 2, "days": 8, "seed": 4}
    assert figures["days"][7]["jobs"]["consolidate"]["runs"] >= 1
    monkeypatch.setattr("tests.benchmarks.lifecycle_look._is_in_top_k", lambda *_: False)
    assert runner.invoke(cli_group, asked).exit_code == 3


def test_a_plan_without_people_and_a_seed_that_is_no_number_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="1 to 20,000 users"):
        SimulationPlan(users=0)
    result = CliRunner().invoke(cli_group, ["lifecycle", "--seed", "x", "--out", str(tmp_path)])
    assert (result.exit_code, list(tmp_path.iterdir())) == (2, [])
