"""Invocations of tools, and how often each succeeds."""

from __future__ import annotations

import json
import math
from array import array
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np

from agentmem.core.arguments import check_arguments
from agentmem.core.changes import Change, WriteAttempt
from agentmem.core.clock import derive_id
from agentmem.core.plain_values import MAX_JSON_DEPTH, copy_json, describe_value
from agentmem.core.procedural_records import Tool, ToolInvocation
from agentmem.core.record import Key
from agentmem.core.records import Conversation, Turn, build_record
from agentmem.core.scope import GLOBAL, check_identifier, is_self_channel
from agentmem.errors import InvalidRecord
from agentmem.memory.context import MemoryContext

Z95 = 1.959963984540054  # of the normal distribution: 95 % lie within so many deviations

MAX_GIVEN_DEPTH = 500  # lists and objects inside of one another, of what is kept in part

CALL_PAGE_SIZE = 500
MAX_LATENCY_SAMPLES = 10_000  # of each tool the latest calls of known latency, over which quantiles are taken


class ConfidenceInterval(NamedTuple):
    """Between these two the true rate lies with 95 % probability."""

    low: float
    high: float


def wilson_interval(successes: int, trials: int, z: float = Z95) -> ConfidenceInterval:
    """The Wilson score interval (Wilson 1927); (0, 1) before the first try.

    Unlike the plain rate it does not take one success of one try for certain: that gives .21 to 1.
    """
    if not 0 <= successes <= trials:
        raise ValueError(f"there cannot be {successes} successes in {trials} tries")
    if trials == 0:
        return ConfidenceInterval(0.0, 1.0)
    rate, square = successes / trials, z * z
    middle = (rate + square / (2 * trials)) / (1 + square / trials)
    reach = z / (1 + square / trials) * math.sqrt(rate * (1 - rate) / trials + square / (4 * trials * trials))
    low = 0.0 if successes == 0 else max(0.0, middle - reach)  # exact at the ends, where rounding would show
    return ConfidenceInterval(low, 1.0 if successes == trials else min(1.0, middle + reach))


def term_overlap(texts_by_term: Mapping[str, set[int]], text_count: int) -> dict[int, float]:
    """How much of what was asked each text has, within 0 and 1: of its words, the rare ones counting more.

    `texts_by_term` maps each word to the texts that have it, `text_count` is how many texts there are; texts without
    any are left out. A word that no text has counts, too.
    """
    rarity = {
        word: math.log1p((text_count - len(texts) + 0.5) / (len(texts) + 0.5)) for word, texts in texts_by_term.items()
    }
    whole = sum(rarity.values())
    shares: dict[int, float] = {}
    for word, texts in texts_by_term.items():
        for text in texts:
            shares[text] = shares.get(text, 0.0) + rarity[word] / whole
    return shares


def truncate_json(value: Any, field: str, max_chars: int) -> Any:
    """The value as plain JSON; one that is too long or too deep is cut.

    A cut one is `{"cut": true, "characters": n, "beginning": "…"}`: the length of its JSON, and the first `max_chars`
    characters of it. Raises InvalidRecord naming the field for what JSON cannot say.
    """
    plain = copy_json(value, field, max_depth=MAX_GIVEN_DEPTH)
    text = json.dumps(plain, ensure_ascii=False)
    if len(text) <= max_chars and _json_depth(text) <= MAX_JSON_DEPTH:
        return plain
    return {"cut": True, "characters": len(text), "beginning": text[:max_chars]}


def _json_depth(text: str) -> int:
    """How deep it is at most, brackets within strings counted as if they opened something."""
    depth = deepest = 0
    for character in text:
        if character in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif character in "]}":
            depth -= 1
    return deepest


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStats:
    """Statistics of a tool. `success_rate` and its 95 % bounds cover the calls with known success.

    Rate and latencies are None without such calls. Quantiles cover the latest 10,000 calls.
    """

    tool_name: str
    calls: int
    successes: int
    failures: int
    success_rate: float | None
    success_low: float
    success_high: float
    mean_ms: float | None
    p50_ms: float | None
    p95_ms: float | None
    last_called: datetime | None
    last_error: str = ""
    last_error_at: datetime | None = None


def tool_id(name: str, channel: str) -> str:
    """The id of a user's tool of this name. An agent's private channel has its own tools, hidden from others.

    It does not depend on the user, so that it is the same after an import under another name.
    """
    own = (channel,) if is_self_channel(channel) else ()
    return derive_id("Tool", name, *own)


def build_tool(name: str, channel: str) -> Tool:
    """The tool as it is when it is first called."""
    home = channel if is_self_channel(channel) else GLOBAL
    return build_record(Tool, id=tool_id(name, channel), channel=home, name=check_identifier(name, "tool_name"))


@check_arguments
@dataclass
class Tools:
    """The verbs over tools and their calls."""

    _context: MemoryContext

    async def record_invocation(
        self,
        tool_name: str,
        tool_input: Any = None,
        tool_output: Any = None,
        *,
        success: bool | None = None,
        latency_ms: float | None = None,
        error_message: str = "",
        turn_id: str | None = None,
        conversation_id: str | None = None,
        task_type: str = "",
        timestamp: datetime | None = None,
        idempotency_key: str | None = None,
    ) -> ToolInvocation:
        """Store one call of a tool, in the conversation of `turn_id`, the one given, or the one that goes on.

        Input and output are JSON; what is longer than the setting `procedural.payload_characters` is cut, with a mark
        (see `memory.procedural.tools`). `success` None is not known. Raises InvalidRecord naming the field.
        """
        given = {
            "tool_name": tool_name,
            "success": success,
            "latency_ms": latency_ms,
            "error_message": error_message,
            "turn_id": turn_id,
            "conversation_id": conversation_id,
            "task_type": task_type,
            "timestamp": timestamp,
        }
        draft = self._build_draft(tool_input, tool_output, {k: v for k, v in given.items() if v is not None})

        async def make(write: WriteAttempt) -> Change:
            made, expects = await self._attach_to_conversation(draft)
            made = made.model_copy(
                update={"id": self._context.engine.ids.new_id(), "timestamp": draft.timestamp or write.now}
            )
            # The tool itself is written once, and no call waits for another: the job `patterns` brings its counts up.
            tool = build_tool(made.tool_name, made.channel)
            begun = Conversation(
                id=made.conversation_id, channel=made.channel, started_at=made.timestamp, agent_id=made.agent_id
            )
            return write.build_change(
                made, inserts_if_absent=(tool, begun), expected_versions={made.key: None, **expects}
            )

        return await self._context.write(
            ToolInvocation,
            "record_invocation",
            make,
            idempotency_key=idempotency_key,
            given={"tool_input": tool_input, "tool_output": tool_output, **given},
        )

    def _build_draft(self, tool_input: Any, tool_output: Any, given: dict[str, Any]) -> ToolInvocation:
        scope, most = self._context.scope, self._context.engine.settings.procedural.payload_characters
        check_identifier(given["tool_name"], "tool_name")
        latency: object = given.get("latency_ms", 0)
        if isinstance(latency, bool) or not isinstance(latency, int | float) or not math.isfinite(latency):
            raise InvalidRecord(
                f"latency_ms must be a finite number of milliseconds, got {describe_value(latency)}", field="latency_ms"
            )
        if isinstance(said := given["error_message"], str):
            given["error_message"] = said[:most]
        return build_record(
            ToolInvocation,
            tool_input=truncate_json(tool_input, "tool_input", most),
            tool_output=truncate_json(tool_output, "tool_output", most),
            channel=scope.channel,
            agent_id=scope.agent_id,
            tool_id=tool_id(given["tool_name"], scope.channel),
            **given,
        )

    async def _attach_to_conversation(self, draft: ToolInvocation) -> tuple[ToolInvocation, dict[Key, int]]:
        """The call in its conversation and at its turn, and what the write expects of these."""
        if draft.turn_id:
            (turn_id,), expects = await self._context.resolve_existing_ids("turn_id", "Turn", [draft.turn_id])
            turn = await self._context.get_one(Turn, turn_id)
            if draft.conversation_id not in ("", turn.conversation_id):
                raise InvalidRecord(
                    f"conversation_id: turn {turn.id!r} is in conversation {turn.conversation_id!r}",
                    field="conversation_id",
                )
            place = {"turn_id": turn_id, "conversation_id": turn.conversation_id, "turn_index": turn.index}
            return draft.model_copy(update=place), expects
        return draft.model_copy(
            update={"conversation_id": draft.conversation_id or self._context.ensure_conversation_id()}
        ), {}

    async def tool_stats(self, task_type: str | None = None, channel: str | None = None) -> list[ToolStats]:
        """How each tool did, the one called most first; [] when none was called.

        Over the calls of the readable channels, or of one of them, and of one type of task where given. What calls took
        in and gave is read page by page and not kept.
        """
        found: dict[str, _ToolTally] = {}
        async for call in self.iter_calls(channel):
            if task_type is None or call.task_type == task_type:
                found.setdefault(call.tool_name, _ToolTally()).add(call)
        told = [tally.to_stats(name) for name, tally in found.items()]
        return sorted(told, key=lambda stats: (-stats.calls, stats.tool_name))

    async def iter_calls(self, channel: str | None = None) -> AsyncIterator[ToolInvocation]:
        """Every current call in the readable channels, or in one of them, in the order in which they were stored."""
        engine, scope = self._context.engine, self._context.scope.with_channels(None if channel is None else [channel])
        columns = await engine.read_columns(scope)
        now = await engine.now(scope)
        ordinals = np.flatnonzero(
            columns.build_visibility_mask(scope.readable_channels(), now=now, kinds=("ToolInvocation",)).mask
        )
        for start in range(0, len(ordinals), CALL_PAGE_SIZE):
            page = [int(ordinal) for ordinal in ordinals[start : start + CALL_PAGE_SIZE]]
            for record in await engine.log.read_by_ordinal(page, scope):
                if isinstance(record, ToolInvocation):
                    yield record


@dataclass
class _ToolTally:
    """What is counted of one tool."""

    calls: int = 0
    successes: int = 0
    failures: int = 0
    timed_calls: int = 0
    total_ms: float = 0.0
    latest_ms: deque[float] = field(default_factory=lambda: deque(maxlen=MAX_LATENCY_SAMPLES))
    last_called: datetime | None = None
    last_error: str = ""
    last_error_at: datetime | None = None

    def add(self, call: ToolInvocation) -> None:
        self.calls += 1
        self.successes += call.success is True
        self.failures += call.success is False
        if call.latency_ms is not None:
            self.timed_calls += 1
            self.total_ms += call.latency_ms
            self.latest_ms.append(call.latency_ms)
        if self.last_called is None or (call.timestamp is not None and call.timestamp >= self.last_called):
            self.last_called = call.timestamp
        if call.success is False or call.error_message:
            known = self.last_error_at
            if known is None or (call.timestamp is not None and call.timestamp >= known):
                self.last_error, self.last_error_at = call.error_message, call.timestamp

    def to_stats(self, name: str) -> ToolStats:
        known = self.successes + self.failures
        bounds = wilson_interval(self.successes, known)
        half, most = quantiles(self.latest_ms, (0.5, 0.95))
        return ToolStats(
            tool_name=name,
            calls=self.calls,
            successes=self.successes,
            failures=self.failures,
            success_rate=self.successes / known if known else None,
            success_low=bounds.low,
            success_high=bounds.high,
            mean_ms=self.total_ms / self.timed_calls if self.timed_calls else None,
            p50_ms=half,
            p95_ms=most,
            last_called=self.last_called,
            last_error=self.last_error,
            last_error_at=self.last_error_at,
        )


def quantiles(values: Sequence[float] | deque[float], shares: Sequence[float]) -> list[float | None]:
    """The quantiles at these shares, interpolated; None where there are no values."""
    if not values:
        return [None for _ in shares]
    return [float(value) for value in np.quantile(np.frombuffer(array("d", values)), shares)]
