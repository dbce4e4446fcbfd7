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

from agentmem.bench import lifecycle_plots, lifecycle_processes, report
from agentmem.bench.lifecycle import Day, Lived, Plan, Progress
from agentmem.bench.lifecycle_look import TOP_K
from agentmem.bench.target import Target

QUARTERS = 4
NOISE = 0.95
USEFUL = 0.95
IDLE = 0.25  # jobs that serve an idle user on a day, of all that there are
SHOWN_LOOKS = 12
MEMORY = Path("/dev/shm")  # noqa: S108 - where Linux keeps files in memory; the folder made there is private
ROOM = 4 * 2**30  # bytes free there; the stores of 200 people and a year take a small part


@dataclass(frozen=True, slots=True)
class Goal:
    """One figure that is asked for, and what came out."""

    what: str
    wanted: str
    found: float
    passed: bool


def targets(lived: Lived) -> list[Goal]:
    """What the year is measured by."""
    end = lived.end
    noise = end.noise_collected / end.noise if end.noise else 1.0
    useful = end.useful_kept / end.useful if end.useful else 1.0
    missing = abs(end.important_wanted - end.important_stored)
    failed = sum(sum(day.failed.values()) for day in lived.days)
    idle = _quarter(lived.days[-max(1, len(lived.days) // QUARTERS) :])["jobs per idle user"]
    return [
        Goal(f"important facts among the first {TOP_K}", "all", end.asked.share, end.asked.share == 1),
        Goal("important facts lost or doubled", "0", missing, missing == 0),
        Goal("answers with a fact that is so no more", "0", end.asked.outdated, end.asked.outdated == 0),
        Goal("noise of the short tier collected", f">= {NOISE:g}", noise, noise >= NOISE),
        Goal("short-lived facts of use kept for long", f">= {USEFUL:g}", useful, useful >= USEFUL),
        Goal("memories that name another user", "0", len(end.strangers), not end.strangers),
        Goal("answers that name another user", "0", end.asked.strangers, end.asked.strangers == 0),
        Goal("failed turns", "0", failed, failed == 0),
        Goal("jobs that serve an idle user on a day, at last", f"<= {IDLE:g}", idle, idle <= IDLE),
    ]


def quarters(lived: Lived) -> list[dict[str, Any]]:
    """The cost of a day, by quarter: of who talked, and of who was idle."""
    size = max(1, -(-len(lived.days) // QUARTERS))
    parts = [lived.days[start : start + size] for start in range(0, len(lived.days), size)]
    return [{"days": f"{part[0].day}-{part[-1].day}", **_quarter(part)} for part in parts]


def _quarter(days: Sequence[Day]) -> dict[str, Any]:
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


def job_rows(lived: Lived) -> list[dict[str, Any]]:
    """What each job cost and did in all."""
    done = sum((day.did for day in lived.days), Counter[str]())
    rows = []
    for name in lived.days[0].jobs:
        costs = [day.jobs[name] for day in lived.days if name in day.jobs]
        did = {what.split(": ")[1]: count for what, count in done.items() if what.startswith(f"{name}: ")}
        said = ", ".join(f"{count:,} {what}" for what, count in sorted(did.items(), key=lambda item: -item[1])[:4])
        rows.append({
            "job": name, "runs": sum(cost.runs for cost in costs), "served": sum(cost.served for cost in costs),
            "idle": sum(cost.idle for cost in costs), "s": sum(cost.seconds for cost in costs),
            "s a day": sum(cost.seconds for cost in costs) / len(costs), "did": said,
        })  # fmt: skip
    return rows


def look_rows(lived: Lived) -> list[dict[str, Any]]:
    """How things stood, at about twelve looks of all."""
    step = max(1, len(lived.looks) // SHOWN_LOOKS)
    shown = lived.looks[::step]
    if lived.looks[-1] not in shown:
        shown = [*shown, lived.looks[-1]]
    return [
        {
            "day": look.day, "turns": look.records["Turn"], "long": look.facts["long"], "short": look.facts["short"],
            "archived": look.facts["archived"], "superseded": look.facts["superseded"],
            "entities": look.records["Entity"], "procedures": look.records["Procedure"],
            "important found": look.asked.share, "told found": look.asked.told_share,
        }
        for look in shown
    ]  # fmt: skip


def text(lived: Lived) -> str:
    """All of it as Markdown."""
    plan, end = lived.plan, lived.end
    goals = [
        {"target": each.what, "wanted": each.wanted, "found": each.found, "": "pass" if each.passed else "MISSED"}
        for each in targets(lived)
    ]
    visits = sum(day.talked for day in lived.days)
    per = 1000 * lived.seconds / (plan.users * plan.days)
    where = "one process" if lived.processes == 1 else f"{lived.processes} processes"
    kept = ", ".join(f"{count} {what}" for what, count in end.noise_kept.items())
    spent = (
        f"{visits:,} visits, {lived.seconds:,.0f} s of CPU in {where}: {lived.talk_seconds:,.0f} s of talk and recall, "
        f"{lived.job_seconds:,.0f} s of jobs, the rest for looking; {per:.1f} ms for a user and a day."
    )
    rest = (
        f"Noise due: {end.noise:,}, collected {end.noise_collected:,}{f'; still there: {kept}' if kept else ''}. "
        f"Short-lived facts used just once: {end.once:,}, of which {end.once_kept:,} are kept for long. "
        f"Told in talk and found: {end.asked.told_found} of {end.asked.told}."
    )
    said = [
        f"# A simulated life of {plan.users} users in {plan.days} days, with {lived.embedder}, seed {plan.seed}",
        report.table(goals), spent, rest,
        "## How it stands, by look", report.table(look_rows(lived)),
        "## What a day costs, by quarter", report.table(quarters(lived)),
        "## By job", report.table(job_rows(lived)),
    ]  # fmt: skip
    missed = [f"- {line}" for line in (*end.asked.missed[:20], *end.strangers[:20])]
    return "\n\n".join([*said, *(["## What was missed", "\n".join(missed)] if missed else [])]) + "\n"


def data(lived: Lived) -> dict[str, Any]:
    """All of it as data."""
    return {
        "plan": asdict(lived.plan), "embedder": lived.embedder, "seconds": lived.seconds,
        "processes": lived.processes,
        "targets": [asdict(each) for each in targets(lived)], "looks": [_plain(asdict(look)) for look in lived.looks],
        "days": [_plain(asdict(day)) for day in lived.days], "jobs": job_rows(lived), "quarters": quarters(lived),
        "asked": asdict(lived.end.asked), "noise": lived.end.noise, "noise_collected": lived.end.noise_collected,
        "once": lived.end.once, "once_kept": lived.end.once_kept,
        "noise_kept": dict(lived.end.noise_kept), "strangers": lived.end.strangers,
    }  # fmt: skip


def _plain(found: Mapping[str, Any]) -> dict[str, Any]:
    return {name: dict(value) if isinstance(value, Mapping) else value for name, value in found.items()}


@dataclass(frozen=True)
class Order:
    """What is to be simulated, where the figures go, and where the pictures go if any are wanted."""

    plan: Plan
    out: Path
    embedder: str = "hash"
    plots: Path | None = None
    scratch: Path | None = None
    processes: int = 1
    config: str | None = None


def in_memory() -> Path | None:
    """Where files lie in memory, if the system says so and there is room to spare.

    What is simulated need not outlive the run, so nobody has to wait for a disk: 40 % of the time was that.
    """
    try:
        room = shutil.disk_usage(MEMORY).free if os.access(MEMORY, os.W_OK) else 0
    except OSError:
        return None
    return MEMORY if room >= ROOM else None


def run(order: Order, progress: Progress | None = None) -> tuple[list[Path], bool]:
    """Simulate, write `lifecycle.md`, `lifecycle.json` and the pictures; the files written, and whether all passed."""
    if order.plots is not None:
        lifecycle_plots.check()
    with tempfile.TemporaryDirectory(prefix="agentmem-lifecycle-", dir=order.scratch or in_memory()) as home:
        target = Target(home, order.embedder, config=order.config)
        lived = lifecycle_processes.live_all(target, order.plan, order.processes, progress)
    written = list(report.write(order.out, "lifecycle", text(lived), data(lived)))
    if order.plots is not None:
        written += lifecycle_plots.draw(lived, order.plots)
    return written, all(each.passed for each in targets(lived))
