"""Outcomes: how a conversation or a task ended, and what that says of the strategies that were followed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentmem.errors import InvalidRecord
from agentmem.memory import Seat, first_of
from agentmem.memory.strategies import credited, followed_in
from agentmem.model.changes import Change, Write, fingerprint
from agentmem.model.records import Key, Outcome, Strategy, build, fields_of

_SAID = re.compile(
    r"\s*(?:(?P<good>success\w*|succeeded|completed|done|ok|solved|worked)|(?P<bad>fail\w*|abandoned|unsuccessful\w*))"
    r"\s*(?:[:,.;!\u2013\u2014-]+\s*(?P<why>.*))?\Z",
    re.IGNORECASE | re.DOTALL,
)


@dataclass
class Outcomes:
    """What `reflect` stores."""

    seat: Seat

    async def reflect(self, outcome: bool | str | Mapping[str, Any] | Outcome, *, key: str | None = None) -> Outcome:
        """Store how it ended, and strengthen or weaken the strategies that were followed, in one operation."""
        draft = outcome_of(outcome)
        fields = draft.model_dump(mode="json", exclude_unset=True)

        async def make(write: Write) -> Change:
            return await self.change_to_reflect(write, draft)

        entry = await self.seat.resources.write(
            self.seat.scope, "reflect", make, kind="Outcome", key=key, payload=fingerprint(**fields)
        )
        return first_of(entry, Outcome)

    async def change_to_reflect(self, write: Write, draft: Outcome) -> Change:
        """The Change that stores an outcome and counts it for its strategies."""
        scope, seen = self.seat.scope, dict[Key, int]()
        if draft.goal_id is not None:
            stored, seen = await self.seat.locate("goal_id", "Goal", [draft.goal_id])
            draft = draft.model_copy(update={"goal_id": stored[0]})
        if draft.conversation_id:
            seen |= await self.seat.locate_conversation(draft.conversation_id)
        place = draft.conversation_id or scope.conversation_id or ""
        strategies = await self._followed(draft, place)
        new = draft.model_copy(update={
            "id": self.seat.resources.ids.new(), "channel": scope.channel, "conversation_id": place, "learned": False,
            "strategy_ids": tuple(strategy.id for strategy in strategies), "agent_id": draft.agent_id or scope.agent_id,
            "timestamp": draft.timestamp or write.now,
        })  # fmt: skip
        counted = [credited(strategy, draft.success, write, place) for strategy in strategies]
        seen |= {strategy.key: strategy.seq for strategy in strategies}
        return write.change(new, *counted, expects={new.key: None, **seen})

    async def _followed(self, draft: Outcome, conversation_id: str) -> list[Strategy]:
        """The strategies named, or else those that were found first in the conversation and are still there."""
        resources, scope, named = self.seat.resources, self.seat.scope, draft.strategy_ids
        if named:
            await self.seat.must_exist("strategy_ids", "Strategy", named)
        elif conversation_id:
            named = tuple(followed_in(resources, scope, conversation_id))
        readable = scope.readable()
        found = await resources.log.get("Strategy", list(dict.fromkeys(named)), scope) if named else []
        current = [record for record in found if isinstance(record, Strategy) and record.superseded_at is None]
        return [record for record in current if record.channel in readable]


def outcome_of(outcome: bool | str | Mapping[str, Any] | Outcome) -> Outcome:
    """What was said of how something ended, as a record. InvalidRecord when it does not say whether it succeeded."""
    if isinstance(outcome, bool):
        return Outcome(success=outcome)
    if isinstance(outcome, str):
        said = _SAID.match(outcome)
        if said is None:
            raise InvalidRecord(
                f"outcome: text begins with success or failure, as in 'failure: the build broke'; got {outcome[:80]!r}",
                field="outcome",
            )
        return build(Outcome, success=said["good"] is not None, feedback=(said["why"] or "").strip())
    fields = fields_of(Outcome, outcome)
    if "success" not in fields and isinstance(score := fields.get("score"), int | float):
        fields["success"] = score >= 0.5
    if isinstance(given := fields.get("strategy_ids"), Sequence) and not isinstance(given, str):
        fields["strategy_ids"] = tuple(given)
    return build(Outcome, **fields)
