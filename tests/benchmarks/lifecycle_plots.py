"""Pictures of the lifecycle as SVG: the same data gives the same bytes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from agentmem.core.lifecycle import decay_score, salience_now
from agentmem.errors import ConfigError
from agentmem.settings.sections import DecayOptions, PromotionOptions
from tests.benchmarks.lifecycle import START, SimulationResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURE_SIZE = (7.0, 3.6)
STYLE: Any = {
    "svg.hashsalt": "agentmem",
    "svg.fonttype": "none",
    "font.size": 9,
    "font.sans-serif": ["DejaVu Sans"],
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
}
TIER_COLORS = {"long": "#2b6cb0", "short": "#dd6b20", "superseded": "#a0aec0", "archived": "#e2e8f0"}
QUARTER_OF_A_DAY = timedelta(hours=6)


def check_matplotlib() -> None:
    """Raise ConfigError, with the fix, where pictures cannot be drawn."""
    try:
        import matplotlib as mpl  # noqa: F401
    except ImportError as error:
        raise ConfigError("--plots needs matplotlib; run: pip install matplotlib") from error


def draw(result: SimulationResult, folder: Path) -> list[Path]:
    """Write decay.svg, lifecycle-facts.svg and lifecycle-cost.svg into a folder, which is made when missing."""
    with _use_style():
        return [
            _save(plot_decay(), folder / "decay.svg"),
            _save(plot_facts(result), folder / "lifecycle-facts.svg"),
            _save(plot_cost(result), folder / "lifecycle-cost.svg"),
        ]


def plot_decay() -> Figure:
    """Both laws of decay over time."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=FIGURE_SIZE)
    left, right = figure.subplots(1, 2)
    moments = [START + n * QUARTER_OF_A_DAY for n in range(4 * 45 + 1)]
    days = [(moment - START) / timedelta(days=1) for moment in moments]
    options = DecayOptions()
    left.plot(days, [salience_now(1.0, START, moment, options) for moment in moments], color=TIER_COLORS["long"])
    left.axvline(1, color="#a0aec0", linewidth=0.8, linestyle=":")
    left.set(title="Salience of an entity, × 0.95 a day", xlabel="days since last access", ylim=(0, 1.05))
    for half_life, colour in zip((1.0, 3.0, 7.0), ("#c53030", "#2b6cb0", "#2f855a"), strict=True):
        law = DecayOptions(half_life_days=half_life)
        right.plot(
            days,
            [decay_score(0, START, 1.0, moment, law) for moment in moments],
            color=colour,
            label=f"half-life {half_life:g} d",
        )
    named = {
        "promote": PromotionOptions().score,
        "review": options.danger_high,
        "": options.danger_low,
        "collect": options.forget_threshold,
    }
    for name, threshold in named.items():
        right.axhline(threshold, color="#a0aec0", linewidth=0.8, linestyle=":")
        right.text(30, threshold, f"{name} {threshold:g}", ha="right", va="bottom", fontsize=7, color="#4a5568")
    right.set(title="Score of a short-lived fact, unused", xlabel="days since last use", xlim=(0, 30), ylim=(0, 1.05))
    right.legend(loc="upper right")
    return figure


def plot_facts(result: SimulationResult) -> Figure:
    """Facts by tier, and those put away, look by look; below, what is recalled of what matters."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=FIGURE_SIZE)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    days = [look.day for look in result.snapshots]
    upper.stackplot(
        days,
        *([look.facts[tier] for look in result.snapshots] for tier in TIER_COLORS),
        labels=list(TIER_COLORS),
        colors=list(TIER_COLORS.values()),
    )
    upper.set(title=f"Facts of {result.plan.users} users: what stays, what fades", ylabel="facts")
    upper.legend(loc="upper left")
    lower.plot(
        days,
        [look.answers.important_share for look in result.snapshots],
        color=TIER_COLORS["long"],
        marker=".",
        markersize=3,
    )
    lower.set(xlabel="simulated day", ylabel="recalled", ylim=(0, 1.08))
    return figure


def plot_cost(result: SimulationResult) -> Figure:
    """Seconds of jobs on a day against who talked, and what the idle cost as time goes by."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=FIGURE_SIZE)
    left, right = figure.subplots(1, 2)
    spent = [sum(each.seconds for each in day.jobs.values()) for day in result.days]
    points = left.scatter(
        [day.talked for day in result.days], spent, c=[day.day for day in result.days], s=6, cmap="viridis"
    )
    figure.colorbar(points, ax=left, label="simulated day")
    left.set(title="Jobs of a day", xlabel="users who talked", ylabel="seconds of CPU", ylim=(0, None))
    served = [sum(each.idle for each in day.jobs.values()) / max(1, day.idle) for day in result.days]
    busy = [sum(each.served - each.idle for each in day.jobs.values()) / max(1, day.talked) for day in result.days]
    days = [day.day for day in result.days]
    right.plot(days, _smooth(busy), color=TIER_COLORS["long"], label="per user who talked")
    right.plot(days, _smooth(served), color=TIER_COLORS["short"], label="per idle user")
    right.set(title="Jobs that served a user, a day", xlabel="simulated day", ylim=(0, None))
    right.legend(loc="center right")
    return figure


def _smooth(values: list[float]) -> list[float]:
    """The mean of each week so far."""
    sums = np.cumsum([0.0, *values])
    return [float((sums[n + 1] - sums[max(0, n - 6)]) / (n + 1 - max(0, n - 6))) for n in range(len(values))]


@contextmanager
def _use_style() -> Iterator[None]:
    import matplotlib as mpl

    with mpl.rc_context(STYLE):
        yield


def _save(figure: Figure, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
    return path
