"""The simulated year as tables, figures with targets, and data."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.benchmarks import lifecycle_plots, lifecycle_processes, report
from tests.benchmarks.lifecycle import ProgressCallback, SimulatedDay, SimulationPlan, SimulationResult
from tests.benchmarks.lifecycle_look import TOP_K
from tests.benchmarks.target import MemoryFactory

QUARTERS = 4
MIN_NOISE_COLLECTED = 0.95
MIN_USEFUL_KEPT = 0.95
MAX_IDLE_JOBS = 0.25  # jobs that serve an idle user on a day, of all that there are
MAX_SHOWN_SNAPSHOTS = 12
SHARED_MEMORY_DIR = Path("/dev/shm")
MIN_FREE_BYTES = 4 * 2**30  # bytes free there; the stores of 200 people and a year take a small part


@dataclass(frozen=True, slots=True)
class TargetResult:
    """One figure that is asked for, and what came out."""

    name: str
    target: str
    value: float
    passed: bool


def check_targets(result: SimulationResult) -> list[TargetResult]:
    """What the year is measured by."""
    end = result.final_state
    noise = end.noise_collected / end.noise if end.noise else 1.0
    useful = end.useful_kept / end.useful if end.useful else 1.0
    missing = abs(end.important_wanted - end.important_stored)
    failed = sum(sum(day.failed.values()) for day in result.days)
    idle = _quarter_row(result.days[-max(1, len(result.days) // QUARTERS) :])["jobs per idle user"]
    return [
        TargetResult(
            f"important facts among the first {TOP_K}",
            "all",
            end.answers.important_share,
            end.answers.important_share == 1,
        ),
        TargetResult("important facts lost or doubled", "0", missing, missing == 0),
        TargetResult("answers with a fact that is so no more", "0", end.answers.outdated, end.answers.outdated == 0),
        TargetResult(
            "noise of the short tier collected", f">= {MIN_NOISE_COLLECTED:g}", noise, noise >= MIN_NOISE_COLLECTED
        ),
        TargetResult(
            "short-lived facts of use kept for long", f">= {MIN_USEFUL_KEPT:g}", useful, useful >= MIN_USEFUL_KEPT
        ),
        TargetResult("memories that name another user", "0", len(end.leaks), not end.leaks),
        TargetResult("answers that name another user", "0", end.answers.leaks, end.answers.leaks == 0),
        TargetResult("failed turns", "0", failed, failed == 0),
        TargetResult(
            "jobs that serve an idle user on a day, at last", f"<= {MAX_IDLE_JOBS:g}", idle, idle <= MAX_IDLE_JOBS
        ),
    ]


def quarter_rows(result: SimulationResult) -> list[dict[str, Any]]:
    """The cost of a day, by quarter: of who talked, and of who was idle."""
    size = max(1, -(-len(result.days) // QUARTERS))
    parts = [result.days[start : start + size] for start in range(0, len(result.days), size)]
    return [{"days": f"{part[0].day}-{part[-1].day}", **_quarter_row(part)} for part in parts]


def _quarter_row(days: Sequence[SimulatedDay]) -> dict[str, Any]:
    costs = [cost for day in days for cost in day.jobs.values()]
    talks, idle = max(1, sum(day.talked for day in days)), max(1, sum(day.idle for day in days))
    seconds, resting = sum(cost.seconds for cost in costs), sum(cost.idle_seconds for cost in costs)
    served = sum(cost.served for cost in costs)
    resting_served = sum(cost.idle for cost in costs)
    return {
        "talks a day": sum(day.talked for day in days) / len(days),
        "idle users": sum(day.idle for day in days) / len(days),
        "jobs, s a day": seconds / len(days),
        "jobs per talk": (served - resting_served) / talks,
        "ms per talk": 1000 * (seconds - resting) / talks,
        "jobs per idle user": resting_served / idle,
        "ms per idle user": 1000 * resting / idle,
    }


def job_rows(result: SimulationResult) -> list[dict[str, Any]]:
    """What each job cost and did in all."""
    done = sum((day.job_counts for day in result.days), Counter[str]())
    rows = []
    for name in result.days[0].jobs:
        costs = [day.jobs[name] for day in result.days if name in day.jobs]
        did = {what.split(": ")[1]: count for what, count in done.items() if what.startswith(f"{name}: ")}
        said = ", ".join(f"{count:,} {what}" for what, count in sorted(did.items(), key=lambda item: -item[1])[:4])
        rows.append(
            {
                "job": name,
                "runs": sum(cost.runs for cost in costs),
                "served": sum(cost.served for cost in costs),
                "idle": sum(cost.idle for cost in costs),
                "s": sum(cost.seconds for cost in costs),
                "s a day": sum(cost.seconds for cost in costs) / len(costs),
                "did": said,
            }
        )
    return rows


def snapshot_rows(result: SimulationResult) -> list[dict[str, Any]]:
    """How things stood, at about twelve looks of all."""
    step = max(1, len(result.snapshots) // MAX_SHOWN_SNAPSHOTS)
    shown = result.snapshots[::step]
    if result.snapshots[-1] not in shown:
        shown = [*shown, result.snapshots[-1]]
    return [
        {
            "day": look.day,
            "turns": look.records["Turn"],
            "long": look.facts["long"],
            "short": look.facts["short"],
            "archived": look.facts["archived"],
            "superseded": look.facts["superseded"],
            "entities": look.records["Entity"],
            "procedures": look.records["Procedure"],
            "important found": look.answers.important_share,
            "told found": look.answers.stated_share,
        }
        for look in shown
    ]


def render_text(result: SimulationResult) -> str:
    """All of it as Markdown."""
    plan, end = result.plan, result.final_state
    goals = [
        {"target": each.name, "wanted": each.target, "found": each.value, "": "pass" if each.passed else "MISSED"}
        for each in check_targets(result)
    ]
    visits = sum(day.talked for day in result.days)
    per = 1000 * result.seconds / (plan.users * plan.days)
    where = "one process" if result.processes == 1 else f"{result.processes} processes"
    kept = ", ".join(f"{count} {what}" for what, count in end.noise_kept.items())
    spent = (
        f"{visits:,} visits, {result.seconds:,.0f} s of CPU in {where}: {result.talk_seconds:,.0f} s of talk and "
        f"recall, "
        f"{result.job_seconds:,.0f} s of jobs, the rest for looking; {per:.1f} ms for a user and a day."
    )
    rest = (
        f"Noise due: {end.noise:,}, collected {end.noise_collected:,}{f'; still there: {kept}' if kept else ''}. "
        f"Short-lived facts used just once: {end.used_once:,}, of which {end.used_once_kept:,} are kept for long. "
        f"Told in talk and found: {end.answers.stated_found} of {end.answers.stated}."
    )
    said = [
        f"# A simulated life of {plan.users} users in {plan.days} days, with {result.embedder}, seed {plan.seed}",
        report.render_table(goals),
        spent,
        rest,
        "## How it stands, by look",
        report.render_table(snapshot_rows(result)),
        "## What a day costs, by quarter",
        report.render_table(quarter_rows(result)),
        "## By job",
        report.render_table(job_rows(result)),
    ]
    missed = [f"- {line}" for line in (*end.answers.missed[:20], *end.leaks[:20])]
    return "\n\n".join([*said, *(["## What was missed", "\n".join(missed)] if missed else [])]) + "\n"


def to_data(result: SimulationResult) -> dict[str, Any]:
    """All of it as data."""
    return {
        "plan": asdict(result.plan),
        "embedder": result.embedder,
        "seconds": result.seconds,
        "processes": result.processes,
        "targets": [asdict(each) for each in check_targets(result)],
        "looks": [_to_plain_dict(asdict(look)) for look in result.snapshots],
        "days": [_to_plain_dict(asdict(day)) for day in result.days],
        "jobs": job_rows(result),
        "quarters": quarter_rows(result),
        "asked": asdict(result.final_state.answers),
        "noise": result.final_state.noise,
        "noise_collected": result.final_state.noise_collected,
        "once": result.final_state.used_once,
        "once_kept": result.final_state.used_once_kept,
        "noise_kept": dict(result.final_state.noise_kept),
        "strangers": result.final_state.leaks,
    }


def _to_plain_dict(found: Mapping[str, Any]) -> dict[str, Any]:
    return {name: dict(value) if isinstance(value, Mapping) else value for name, value in found.items()}


@dataclass(frozen=True)
class SimulationRequest:
    """What is to be simulated, where the figures go, and where the pictures go if any are wanted."""

    plan: SimulationPlan
    out: Path
    embedder: str = "hash"
    plots: Path | None = None
    scratch: Path | None = None
    processes: int = 1
    config: str | None = None


def find_shared_memory_dir() -> Path | None:
    """Where files lie in memory, if the system says so and there is room to spare.

    What is simulated need not outlive the run, so nobody has to wait for a disk: 40 % of the time was that.
    """
    try:
        room = shutil.disk_usage(SHARED_MEMORY_DIR).free if os.access(SHARED_MEMORY_DIR, os.W_OK) else 0
    except OSError:
        return None
    return SHARED_MEMORY_DIR if room >= MIN_FREE_BYTES else None


def run(request: SimulationRequest, progress: ProgressCallback | None = None) -> tuple[list[Path], bool]:
    """Simulate, write `lifecycle.md`, `lifecycle.json` and the pictures; the files written, and whether all passed."""
    if request.plots is not None:
        lifecycle_plots.check_matplotlib()
    with tempfile.TemporaryDirectory(
        prefix="agentmem-lifecycle-", dir=request.scratch or find_shared_memory_dir()
    ) as home:
        target = MemoryFactory(home, request.embedder, config=request.config)
        lived = lifecycle_processes.run_simulation_in_processes(target, request.plan, request.processes, progress)
    written = list(report.write_report(request.out, "lifecycle", render_text(lived), to_data(lived)))
    if request.plots is not None:
        written += lifecycle_plots.draw(lived, request.plots)
    return written, all(each.passed for each in check_targets(lived))
