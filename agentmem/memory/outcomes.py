"""Outcomes: how a conversation or a task ended, and what that says of the strategies that were followed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentmem.errors import InvalidRecord
from agentmem.memory import MemoryContext, get_written_record
from agentmem.memory.strategies import list_suggestions, record_outcome
from agentmem.model.changes import Change, WriteAttempt, hash_request
from agentmem.model.records import Key, Outcome, Strategy, build_record, extract_fields

_OUTCOME_PATTERN = re.compile(
    r"\s*(?:(?P<good>success\w*|succeeded|completed|done|ok|solved|worked)|(?P<bad>fail\w*|abandoned|unsuccessful\w*))"
    r"\s*(?:[:,.;!\u2013\u2014-]+\s*(?P<why>.*))?\Z",
    re.IGNORECASE | re.DOTALL,
)


@dataclass
class Outcomes:
    """What `reflect` stores."""

    _context: MemoryContext

    async def reflect(
        self, outcome: bool | str | Mapping[str, Any] | Outcome, *, idempotency_key: str | None = None
    ) -> Outcome:
        """Store how it ended, and strengthen or weaken the strategies that were followed, in one operation."""
        draft = parse_outcome(outcome)
        fields = draft.model_dump(mode="json", exclude_unset=True)

        async def make(write: WriteAttempt) -> Change:
            return await self.build_reflect_change(write, draft)

        entry = await self._context.engine.write(
            self._context.scope,
            "reflect",
            make,
            kind="Outcome",
            idempotency_key=idempotency_key,
            request_hash=hash_request(**fields),
        )
        return get_written_record(entry, Outcome)

    async def build_reflect_change(self, write: WriteAttempt, draft: Outcome) -> Change:
        """The Change that stores an outcome and counts it for its strategies."""
        scope, seen = self._context.scope, dict[Key, int]()
        if draft.goal_id is not None:
            stored, seen = await self._context.resolve_existing_ids("goal_id", "Goal", [draft.goal_id])
            draft = draft.model_copy(update={"goal_id": stored[0]})
        if draft.conversation_id:
            seen |= await self._context.require_conversation(draft.conversation_id)
        place = draft.conversation_id or scope.conversation_id or ""
        strategies = await self._list_followed_strategies(draft, place)
        new = draft.model_copy(update={
            "id": self._context.engine.ids.new_id(), "channel": scope.channel, "conversation_id": place,
            "learned": False, "strategy_ids": tuple(strategy.id for strategy in strategies),
            "agent_id": draft.agent_id or scope.agent_id, "timestamp": draft.timestamp or write.now,
        })  # fmt: skip
        counted = [record_outcome(strategy, draft.success, write, place) for strategy in strategies]
        seen |= {strategy.key: strategy.seq for strategy in strategies}
        return write.build_change(new, *counted, expected_versions={new.key: None, **seen})

    async def _list_followed_strategies(self, draft: Outcome, conversation_id: str) -> list[Strategy]:
        """The strategies named, or else those that were found first in the conversation and are still there."""
        engine, scope, named = self._context.engine, self._context.scope, draft.strategy_ids
        if named:
            await self._context.require_existing("strategy_ids", "Strategy", named)
        elif conversation_id:
            named = tuple(list_suggestions(engine, scope, conversation_id))
        readable = scope.readable_channels()
        found = await engine.log.read_records("Strategy", list(dict.fromkeys(named)), scope) if named else []
        current = [record for record in found if isinstance(record, Strategy) and record.superseded_at is None]
        return [record for record in current if record.channel in readable]


def parse_outcome(outcome: bool | str | Mapping[str, Any] | Outcome) -> Outcome:
    """What was said of how something ended, as a record. InvalidRecord when it does not say whether it succeeded."""
    if isinstance(outcome, bool):
        return Outcome(success=outcome)
    if isinstance(outcome, str):
        said = _OUTCOME_PATTERN.match(outcome)
        if said is None:
            raise InvalidRecord(
                f"outcome: text begins with success or failure, as in 'failure: the build broke'; got {outcome[:80]!r}",
                field="outcome",
            )
        return build_record(Outcome, success=said["good"] is not None, feedback=(said["why"] or "").strip())
    fields = extract_fields(Outcome, outcome)
    if "success" not in fields and isinstance(score := fields.get("score"), int | float):
        fields["success"] = score >= 0.5
    if isinstance(given := fields.get("strategy_ids"), Sequence) and not isinstance(given, str):
        fields["strategy_ids"] = tuple(given)
    return build_record(Outcome, **fields)
