"""What is asked of a recall, checked, and how often it may be asked."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from agentmem.core.clock import add_time, to_utc
from agentmem.core.plain_values import describe_value, has_visible
from agentmem.core.record import MAX_TEXT_CHARS
from agentmem.errors import InvalidRecord, RateLimited
from agentmem.text.query_parser import ParsedQuery

RecallGroup = Literal["episodic", "semantic", "procedural", "documents"]
MAX_QUERY_CHARS = 10_000  # that are searched by
MAX_RESULTS = 100
MAX_EXCLUDED = 1000  # ids
KINDS_BY_GROUP = {
    "episodic": ("Turn",),
    "semantic": ("Fact", "Entity"),
    "procedural": ("Strategy", "Procedure"),
    "documents": ("Document",),
}
ALWAYS_INCLUDED_KINDS = ("Goal",)

MAX_TRACKED_USERS = 10_000


@dataclass(frozen=True, slots=True)
class RecallRequest:
    """The arguments of one recall, as the caller gave them.

    `as_of` is a moment of the world, `known_at` a moment of the record; `since` and `until` bound, half open, where the
    world time of a record begins, and `time_window_hours` is `since` counted back from now (or `as_of`). `exclude` are
    ids of records to leave out; None leaves out the turn that asks, see `visibility.find_asking_turn`. Raises
    InvalidRecord naming the argument.
    """

    query: str
    top_k: int = 10
    channels: Sequence[str] | None = None
    as_of: datetime | None = None
    known_at: datetime | None = None
    since: datetime | None = None
    until: datetime | None = None
    time_window_hours: float | None = None
    min_confidence: float | None = None
    include: Sequence[str] = tuple(KINDS_BY_GROUP)
    techniques: Sequence[str] | None = None
    exclude: Sequence[str] | None = None

    def __post_init__(self) -> None:
        for name in ("channels", "include", "techniques", "exclude"):
            if (given := getattr(self, name)) is not None:
                object.__setattr__(self, name, (given,) if isinstance(given, str) else tuple(given))
        _check_query(self.query)
        for name in ("as_of", "known_at", "since", "until"):
            if (moment := getattr(self, name)) is not None:
                to_utc(moment, name)
        if type(self.top_k) is not int or not 1 <= self.top_k <= MAX_RESULTS:
            raise InvalidRecord(
                f"top_k must be between 1 and {MAX_RESULTS}, got {describe_value(self.top_k)}", field="top_k"
            )
        wrong = next((group for group in self.include if group not in KINDS_BY_GROUP), None)
        if not self.include or wrong is not None:
            raise InvalidRecord(
                f"include must name some of {', '.join(KINDS_BY_GROUP)}, got {describe_value(wrong or self.include)}",
                field="include",
            )
        if self.time_window_hours is not None and not self.time_window_hours > 0:
            raise InvalidRecord(
                f"time_window_hours must be above 0, got {self.time_window_hours}", field="time_window_hours"
            )
        if self.min_confidence is not None and not 0 <= self.min_confidence <= 1:
            raise InvalidRecord(
                f"min_confidence must be between 0 and 1, got {self.min_confidence}", field="min_confidence"
            )
        if self.exclude is not None and not (
            len(self.exclude) <= MAX_EXCLUDED and all(isinstance(name, str) for name in self.exclude)
        ):
            raise InvalidRecord(f"exclude must be at most {MAX_EXCLUDED:,} ids of records", field="exclude")
        if self.since and self.until and to_utc(self.since) >= to_utc(self.until):
            raise InvalidRecord(f"since must be before until, got {self.since} and {self.until}", field="since")

    @property
    def search_text(self) -> str:
        """What is searched by: the query, of a long one its beginning and its end."""
        if len(self.query) <= MAX_QUERY_CHARS:
            return self.query
        return f"{self.query[: MAX_QUERY_CHARS // 2]}\n…\n{self.query[-(MAX_QUERY_CHARS // 2 - 3) :]}"

    @property
    def notices(self) -> tuple[str, ...]:
        """That a long query was read in part; () for others."""
        if len(self.query) <= MAX_QUERY_CHARS:
            return ()
        return (f"The query has {len(self.query):,} characters: the first and last {MAX_QUERY_CHARS // 2:,} count.",)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of record that may be found."""
        asked = [kind for group, kinds in KINDS_BY_GROUP.items() if group in self.include for kind in kinds]
        return (*asked, *ALWAYS_INCLUDED_KINDS)

    def window_start(self, now: datetime) -> datetime | None:
        """The later of `since` and the beginning of the time window."""
        if self.time_window_hours is None:
            return self.since
        hours = min(self.time_window_hours, 24 * 365 * 1000)
        window = add_time(to_utc(self.as_of or now), -timedelta(hours=hours))
        return window if self.since is None else max(window, to_utc(self.since))


@dataclass(frozen=True, slots=True)
class RecallQuery:
    """What a technique sees: the request, its text as read (`parse_query`), and the moment that counts as now."""

    request: RecallRequest
    parsed: ParsedQuery
    now: datetime


def _check_query(text: object) -> None:
    if not isinstance(text, str):
        raise InvalidRecord(f"query must be a string, got {type(text).__name__}", field="query")
    if not has_visible(text) or len(text) > MAX_TEXT_CHARS:
        raise InvalidRecord(
            f"query must have 1 to {MAX_TEXT_CHARS:,} characters, not all of them blank, got {len(text):,}",
            field="query",
        )


@dataclass
class RateLimiter:
    """A token bucket per user: `rate` recalls a second in the long run (0: any number), up to `burst` at once.

    `verb` and `setting` are for its message, where it counts something else.
    """

    rate: float
    burst: int
    verb: str = "recalls"
    setting: str = "recall_rate"
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
                f"{user_id} {self.verb} more than {self.rate:g} times a second; again in {spent - now:.2f} s, "
                f"or set {self.setting}",
                retry_after=spent - now,
            )
        self._theoretical_arrivals[user_id] = spent
        while len(self._theoretical_arrivals) > MAX_TRACKED_USERS:  # the one that asked least lately
            self._theoretical_arrivals.pop(next(iter(self._theoretical_arrivals)))
