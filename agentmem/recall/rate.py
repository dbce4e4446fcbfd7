"""How often a user may ask, so that one cannot take what all share."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from agentmem.errors import RateLimited

MAX_TRACKED_USERS = 10_000


@dataclass
class RateLimiter:
    """A token bucket per user: `rate` recalls a second in the long run (0: any number), up to `burst` at once."""

    rate: float
    burst: int
    # a recall costs 1 / rate seconds, a burst ahead
    _theoretical_arrivals: dict[str, float] = field(default_factory=dict)

    def acquire(self, user_id: str) -> None:
        """Count one recall. Raises RateLimited, which says when to come again, and counts nothing then."""
        if not self.rate:
            return
        now, each = asyncio.get_running_loop().time(), 1 / self.rate
        earliest = now - self.burst * each
        spent = max(self._theoretical_arrivals.pop(user_id, earliest), earliest) + each
        if spent > now:
            self._theoretical_arrivals[user_id] = spent - each
            raise RateLimited(
                f"{user_id} recalls more than {self.rate:g} times a second; again in {spent - now:.2f} s, "
                "or set recall_rate",
                retry_after=spent - now,
            )
        self._theoretical_arrivals[user_id] = spent
        while len(self._theoretical_arrivals) > MAX_TRACKED_USERS:  # the one that asked least lately
            self._theoretical_arrivals.pop(next(iter(self._theoretical_arrivals)))
