"""Records of what was done and how: tools, invocations, outcomes, strategies, procedures, schedules."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field

from agentmem.core.record import Identifier, MissedRuns, ProcedureStatus, Record, Text, UnitInterval, UtcDatetime

MAX_REFERENCES = 32  # conversations, calls or outcomes that a learned record names; counts go on


class Tool(Record):
    """A tool that agents call, unique per user by its name. `id` is derived from the name.

    The counts are from the last run of the job `patterns`; `tool_stats` counts again. `counted` is the journal position
    up to which calls are in them.
    """

    name: str = Field(min_length=1, max_length=200)
    usage_count: int = Field(strict=True, default=0, ge=0)
    success_count: int = Field(strict=True, default=0, ge=0)
    latency_ms_sum: float = Field(strict=True, default=0.0, ge=0)
    avg_latency_ms: float | None = Field(strict=True, default=None, ge=0)
    timed_count: int = Field(strict=True, default=0, ge=0)  # calls of known latency
    counted: int = Field(strict=True, default=0, ge=0)

    def dedup_key(self) -> str:
        """One per name."""
        return self.name


class ToolInvocation(Record):
    """One call of a tool: what went in, what came out, and whether it did what it should."""

    conversation_id: Identifier = ""
    turn_index: int = Field(strict=True, default=-1, ge=-1)
    turn_id: Identifier = ""
    timestamp: UtcDatetime | None = None
    tool_name: str = Field(min_length=1, max_length=200)
    tool_id: Identifier = ""
    tool_input: Any = None
    tool_output: Any = None
    success: bool | None = None
    latency_ms: float | None = Field(strict=True, default=None, ge=0)
    error_message: str = ""
    task_type: str = Field(default="", max_length=200)
    agent_id: Identifier | None = None

    def valid_interval(self) -> tuple[datetime | None, datetime | None]:
        """From its timestamp on."""
        return self.timestamp, None

    def position_key(self) -> tuple[str, int]:
        """Its conversation, and the index of the turn that called."""
        return self.conversation_id, self.turn_index


class Outcome(Record):
    """How a conversation or a task ended, as somebody said: what strategies are learned from."""

    conversation_id: Identifier = ""
    goal_id: Identifier | None = None
    success: bool
    score: UnitInterval | None = None
    feedback: str = ""
    task_type: str = Field(default="", max_length=200)
    strategy_ids: tuple[str, ...] = ()
    learned: bool = False  # whether the job `patterns` has looked at it
    agent_id: Identifier | None = None
    timestamp: UtcDatetime | None = None

    def valid_interval(self) -> tuple[datetime | None, datetime | None]:
        """From its timestamp on."""
        return self.timestamp, None

    def position_key(self) -> tuple[str, int]:
        """Its conversation."""
        return self.conversation_id, -1


class Strategy(Record):
    """A way of doing a kind of task that has worked: which tools, in which order, how often with success."""

    description: Text
    context_pattern: str = ""
    task_type: str = Field(default="", max_length=200)
    tool_sequence: tuple[str, ...] = ()
    success_count: int = Field(strict=True, default=0, ge=0)
    failure_count: int = Field(strict=True, default=0, ge=0)
    last_failed: bool = False  # how it went the last time
    created_at: UtcDatetime | None = None
    last_used: UtcDatetime | None = None
    conversation_ids: tuple[str, ...] = ()  # where it succeeded, at most MOST_NAMED
    tool_ids: tuple[str, ...] = ()
    source_turn_ids: tuple[str, ...] = ()  # the turns whose words the description has, if any
    strategy_hash: str = ""

    def search_text(self) -> str:
        """The description and when it applies."""
        return f"{self.description} {self.context_pattern}".strip()

    def dedup_key(self) -> str:
        """One current strategy per description and sequence of tools."""
        return self.strategy_hash if self.superseded_at is None else ""


class Procedure(Record):
    """A standing instruction distilled from what the user asked for: what an agent always does, or never."""

    instruction: Text
    trigger: str = ""  # when it applies; empty for always
    strength: int = Field(strict=True, default=1, ge=1)  # how often it was asked for
    confidence: UnitInterval = 0.8
    source: str = "user"
    source_turn_ids: tuple[str, ...] = ()
    procedure_status: ProcedureStatus = "candidate"
    created_at: UtcDatetime | None = None
    last_asked: UtcDatetime | None = None
    instruction_hash: str = ""

    def search_text(self) -> str:
        """The instruction and when it applies."""
        return f"{self.instruction} {self.trigger}".strip()

    def dedup_key(self) -> str:
        """One current procedure per normalized instruction."""
        return self.instruction_hash if self.superseded_at is None else ""


class Schedule(Record):
    """A prompt for an agent at the times of a cron expression, or a heartbeat: an interval without a prompt.

    `next_at` is when it is due. A run that somebody has taken on and not yet reported as done is `running`: when it was
    due; it is given up for lost at `lost_at`.
    """

    name: str = Field(min_length=1, max_length=200)
    cron: str = Field(default="", max_length=200)
    every_seconds: float | None = Field(strict=True, default=None, gt=0)
    timezone: str = Field(default="UTC", max_length=100)
    prompt: str = Field(default="", max_length=100_000)
    source: str = Field(default="user", max_length=200)
    created_at: UtcDatetime | None = None
    paused: bool = False
    missed: MissedRuns = "once"  # of several missed runs: one now, or none
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
