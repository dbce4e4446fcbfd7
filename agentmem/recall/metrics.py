"""What each technique took and gave, over the recalls of this process."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from agentmem.recall.receipt import TraceLine

MAX_SAMPLES = 1_000


@dataclass
class TechniqueMetrics:
    """One technique's. `timeouts` are among the `failures`; `results` counts records scored, over all lists.

    `contributions` counts delivered items that one of its lists would have delivered by itself, or lifted by a bonus.
    """

    calls: int = 0
    failures: int = 0
    timeouts: int = 0
    results: int = 0
    contributions: int = 0
    samples: deque[float] = field(default_factory=lambda: deque(maxlen=MAX_SAMPLES), repr=False)

    def percentile_ms(self, percent: float) -> float:
        """A percentile of the latest 1,000 times, as in `percentile_ms(95)`; 0 before the first."""
        return float(np.percentile(self.samples, percent)) if self.samples else 0.0

    def as_dict(self) -> dict[str, float]:
        """The figures as plain values, with the median and the 95th percentile of the time."""
        return {
            "calls": self.calls, "failures": self.failures, "timeouts": self.timeouts, "results": self.results,
            "contributions": self.contributions, "p50_ms": round(self.percentile_ms(50), 3),
            "p95_ms": round(self.percentile_ms(95), 3),
        }  # fmt: skip


@dataclass
class RecallMetrics:
    """All techniques' by name, and the reranker's; of all users together, without any text."""

    techniques: dict[str, TechniqueMetrics] = field(default_factory=dict)
    recalls: int = 0
    irrelevant: int = 0

    def add_recall(self, trace: Iterable[TraceLine], *, relevant: bool = True) -> None:
        """Add one recall; `relevant` tells whether anything was found that the question is about."""
        self.recalls += 1
        self.irrelevant += not relevant
        for line in trace:
            one = self.techniques.setdefault(line.technique, TechniqueMetrics())
            one.calls += 1
            one.failures += bool(line.error)
            one.timeouts += line.late
            one.results += sum(line.lists.values())
            one.contributions += line.contributed
            one.samples.append(line.milliseconds)

    def as_dict(self) -> dict[str, object]:
        """All of it as plain values, ready for JSON."""
        techniques = {name: self.techniques[name].as_dict() for name in sorted(self.techniques)}
        return {"recalls": self.recalls, "irrelevant": self.irrelevant, "techniques": techniques}
