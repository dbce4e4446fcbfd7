"""Events of the package, through structlog to the logger `agentmem` of the standard library, as JSON.

Ids, counts and times only, never text of a memory. Each event of a request includes the values bound with
`structlog.contextvars.bound_contextvars(request_id=…)`.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from structlog.stdlib import BoundLogger

DEBUG, INFO, WARNING = logging.DEBUG, logging.INFO, logging.WARNING
_LOGGER = logging.getLogger("agentmem")


ProgressCallback = Callable[[str, int, int], None]
"""Called with the stage, how much is done, and of how much."""


def no_progress(stage: str, done: int, total: int) -> None:
    """A ProgressCallback for callers who do not watch."""


def log_event(level: int, event: str, **values: Any) -> None:
    """Log an event; costs next to nothing when the level is disabled."""
    if _LOGGER.isEnabledFor(level):
        _logger().log(level, event, **values)


@cache
def _logger() -> BoundLogger:
    import structlog  # here, because few programs listen

    # Bound to its own processors: how the application configured structlog for itself changes nothing here.
    logger: BoundLogger = structlog.wrap_logger(
        _LOGGER,
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.stdlib.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.JSONRenderer(default=str),
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
    )
    return logger


MAX_SAMPLES = 1000


@dataclass
class LatencyStats:
    """How long things took in this process: the latest 1,000 of each name, in milliseconds."""

    samples: dict[str, deque[float]] = field(default_factory=dict)

    def add(self, name: str, milliseconds: float) -> None:
        """Note one duration."""
        self.samples.setdefault(name, deque(maxlen=MAX_SAMPLES)).append(milliseconds)

    def percentiles(self) -> dict[str, dict[str, float]]:
        """Median, 95th and 99th percentile by name; nothing for what never happened."""
        held = {name: sorted(durations) for name, durations in self.samples.items()}
        return {
            name: {part: _percentile(values, share) for part, share in _PERCENTILES.items()}
            for name, values in held.items()
        }


_PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


def _percentile(values: list[float], fraction: float) -> float:
    return values[min(len(values) - 1, int(fraction * len(values)))]


@dataclass
class CacheStats:
    """How often something was looked for in a cache of this process and was there, or not, by the cache's name."""

    hits: Counter[str] = field(default_factory=Counter)
    misses: Counter[str] = field(default_factory=Counter)

    def add(self, cache: str, found: bool) -> None:
        """Note one look."""
        (self.hits if found else self.misses)[cache] += 1
