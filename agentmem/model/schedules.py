"""Records of what is to be done at a time: scheduled jobs and heartbeats."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from agentmem.model.record import Identifier, Record, UtcDatetime


class Schedule(Record):
    """A prompt for an agent at the times of a cron expression, or a heartbeat: an interval without a prompt.

    `next_at` is when it is due. A run that somebody has taken on and not yet reported as done is `running`: when it was
    due; it is given up for lost at `lost_at`.
    """

    name: str = Field(min_length=1, max_length=200)
    cron: str = Field(default="", max_length=200)
    every_seconds: float | None = Field(default=None, gt=0)
    timezone: str = Field(default="UTC", max_length=100)
    prompt: str = Field(default="", max_length=100_000)
    source: str = Field(default="user", max_length=200)
    created_at: UtcDatetime | None = None
    paused: bool = False
    missed: str = Field(default="once", pattern="^(once|skip)$")  # of several missed runs: one now, or none
    next_at: UtcDatetime | None = None
    last_at: UtcDatetime | None = None
    running: UtcDatetime | None = None
    lost_at: UtcDatetime | None = None
    agent_id: Identifier | None = None

    def dedup_key(self) -> str:
        """One current schedule per name."""
        return self.name if self.superseded_at is None else ""

    @property
    def due_at(self) -> datetime | None:
        """When somebody has to look at it: for its next run, or for one that is lost by then; None for never."""
        if self.superseded_at is not None:
            return None
        return self.lost_at if self.running is not None else self.next_at
