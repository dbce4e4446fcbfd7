"""Strategies, and the outcomes that they are learned from."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import numpy as np

from agentmem.core.arguments import check_arguments
from agentmem.core.changes import Change, WriteAttempt
from agentmem.core.columns import RecordColumns
from agentmem.core.lru import LruDict
from agentmem.core.plain_values import describe_value, has_visible
from agentmem.core.procedural_records import MAX_REFERENCES, Outcome, Strategy, ToolInvocation
from agentmem.core.record import Key, Record, Status
from agentmem.core.records import build_record, extract_fields
from agentmem.core.scope import Scope, check_identifier
from agentmem.engine.engine import Engine
from agentmem.errors import InvalidRecord, ModelError, NotFound
from agentmem.memory.context import MemoryContext
from agentmem.memory.procedural.attempts import MAX_TOOLS, is_followed, is_tried, read_attempt_calls
from agentmem.memory.procedural.tools import build_tool, term_overlap, tool_id, wilson_interval
from agentmem.memory.read_audit import audit_read
from agentmem.stores.values import WHOLE, Where
from agentmem.text.normalization import normalize_claim
from agentmem.text.tokenizer import tokenize

MIN_SUCCESS_LOW = 0.2  # of a strategy shown as working; 1 of 1 has .21
MAX_TOP_K = 100
MAX_TASK_CHARS = 10_000  # characters of a task that are looked for
MAX_TRACKED_CONVERSATIONS = 1_000  # of which that is remembered

_OUTCOME_PATTERN = re.compile(
    r"\s*(?:(?P<good>success\w*|succeeded|completed|done|ok|solved|worked)|(?P<bad>fail\w*|abandoned|unsuccessful\w*))"
    r"\s*(?:[:,.;!\u2013\u2014-]+\s*(?P<why>.*))?\Z",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class StrategyMatch:
    """A strategy for a task: `score` is `relevance` × `success_low`, the lower bound of its rate of success."""

    strategy: Strategy
    score: float
    relevance: float
    success_low: float
    why: str


def strategy_hash(description: str, tool_sequence: Sequence[str]) -> str:
    """What two strategies share that are one: the normalized description and the tools in their order."""
    text = "\x1f".join((normalize_claim(description), *tool_sequence))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def record_outcome(strategy: Strategy, success: bool, write: WriteAttempt, conversation_id: str = "") -> Strategy:
    """The strategy after it was followed once more, with this outcome."""
    counted = "success_count" if success else "failure_count"
    places = strategy.conversation_ids
    if success and conversation_id:
        places = tuple(dict.fromkeys((*places, conversation_id)))[-MAX_REFERENCES:]
    more = {
        counted: getattr(strategy, counted) + 1,
        "last_failed": not success,
        "last_used": write.now,
        "conversation_ids": places,
    }
    return strategy.model_copy(update=more)


def has_worked(strategy: Strategy) -> bool:
    """Whether a strategy may be shown as working: not when it failed last, or works in too few tries.

    Too few are those whose rate of success may be below .2, by the lower bound of its 95 % interval.
    """
    tries = strategy.success_count + strategy.failure_count
    low = wilson_interval(strategy.success_count, tries).low
    return strategy.success_count > 0 and not strategy.last_failed and low >= MIN_SUCCESS_LOW


def put_failed_last(records: Iterable[Record]) -> list[Strategy]:
    """The strategies among these, those that worked before the others."""
    return sorted((each for each in records if isinstance(each, Strategy)), key=lambda each: not has_worked(each))


@check_arguments
@dataclass
class Strategies:
    """The verbs over strategies."""

    _context: MemoryContext

    async def learn_strategy(
        self,
        description: str,
        *,
        context_pattern: Annotated[str, "When it applies."] = "",
        tool_sequence: Sequence[str] = (),
        task_type: str = "",
        conversation_id: str | None = None,
        success: bool = True,
        source_turn_ids: Sequence[str] = (),
        idempotency_key: str | None = None,
    ) -> Strategy:
        """Store a way of doing something, and whether it worked (`success`).

        The same description and tools again strengthen (or weaken) what is known. `context_pattern` says when it
        applies. Raises InvalidRecord naming the field, also for a conversation or a turn that is not stored.
        """
        given = {
            "description": description,
            "context_pattern": context_pattern,
            "tool_sequence": list(tool_sequence),
            "task_type": task_type,
            "conversation_id": conversation_id,
            "success": success,
            "turns": list(source_turn_ids),
        }
        _check_flag(success)
        for name, value in (("tool_sequence", tool_sequence), ("source_turn_ids", source_turn_ids)):
            if isinstance(value, str):
                raise InvalidRecord(f"{name} must be a list of strings, got a string", field=name)
        draft = build_record(
            Strategy,
            description=description,
            context_pattern=context_pattern,
            task_type=task_type,
            tool_sequence=tuple(tool_sequence),
            source_turn_ids=tuple(source_turn_ids),
            channel=self._context.scope.channel,
        )

        async def make(write: WriteAttempt) -> Change:
            turns, expects = await self._context.resolve_existing_ids("source_turn_ids", "Turn", draft.source_turn_ids)
            if conversation_id is not None:
                expects |= await self._context.require_conversation(conversation_id)
            place = conversation_id or self._context.scope.conversation_id or ""
            new = draft.model_copy(update={"source_turn_ids": tuple(turns)})
            return await self.build_learn_change(write, new, expects, success=success, conversation_id=place)

        return await self._context.write(Strategy, "learn_strategy", make, idempotency_key=idempotency_key, given=given)

    async def build_learn_change(
        self,
        write: WriteAttempt,
        draft: Strategy,
        expected_versions: dict[Key, int],
        *,
        success: bool,
        conversation_id: str,
    ) -> Change:
        """The Change that makes a strategy known, or counts one more outcome of the one that is."""
        if len(draft.tool_sequence) > MAX_TOOLS:
            raise InvalidRecord(f"tool_sequence may name at most {MAX_TOOLS} tools", field="tool_sequence")
        channel = draft.channel
        for name in draft.tool_sequence:
            check_identifier(name, "tool_sequence")
        digest = strategy_hash(draft.description, draft.tool_sequence)
        where = Where(kinds=("Strategy",), channels=(channel,), dedup_keys=(digest,))
        for known in await self._context.engine.log.find(self._context.scope, where, limit=1):
            if isinstance(known, Strategy):
                sources = tuple(dict.fromkeys((*known.source_turn_ids, *draft.source_turn_ids)))[-MAX_REFERENCES:]
                again = record_outcome(known, success, write, conversation_id)
                again = again.model_copy(update={"source_turn_ids": sources, "status": Status.ACTIVE})
                return write.build_change(again, expected_versions={known.key: known.seq, **expected_versions})
        tools = {tool_id(name, channel): build_tool(name, channel) for name in draft.tool_sequence}
        stamp = {
            "id": self._context.engine.ids.new_id(),
            "created_at": write.now,
            "strategy_hash": digest,
            "tool_ids": tuple(tools),
        }
        new = record_outcome(draft.model_copy(update=stamp), success, write, conversation_id)
        return write.build_change(
            new, inserts_if_absent=tuple(tools.values()), expected_versions={new.key: None, **expected_versions}
        )

    async def reinforce_strategy(
        self, strategy_id: str, success: bool, *, idempotency_key: str | None = None
    ) -> Strategy:
        """Count one more success or failure of a strategy; NotFound when this scope has none of that id."""
        _check_flag(success)

        async def make(write: WriteAttempt) -> Change:
            known = await self._get_standing(strategy_id)
            new = record_outcome(known, success, write, self._context.scope.conversation_id or "")
            return write.build_change(new, expected_versions={known.key: known.seq})

        return await self._context.write(
            Strategy,
            "reinforce_strategy",
            make,
            idempotency_key=idempotency_key,
            given={"id": strategy_id, "success": success},
        )

    @audit_read
    async def get_strategy(self, strategy_id: str) -> Strategy:
        """The current strategy of this id; NotFound when this scope has none, or it was forgotten."""
        return await self._get_standing(strategy_id)

    async def _get_standing(self, strategy_id: str) -> Strategy:
        found = await self._context.get_one(Strategy, strategy_id)
        if found.superseded_at is not None:
            raise NotFound(f"strategy {strategy_id!r} was forgotten; restore it first")
        return found

    @audit_read
    async def find_strategies(self, task: str, top_k: int = 5) -> list[StrategyMatch]:
        """The strategies of the readable channels for a task, best first by relevance × lower bound of success.

        Those that have not worked (`has_worked`) come after all others.

        Relevance is the mean of the cosine with the task and of the share of its words, rare ones counting more; of the
        words alone where no embedder answers. [] when nothing is relevant. `reflect` counts for the first one if it was
        followed.
        """
        said: object = task
        if not isinstance(said, str) or not has_visible(said):
            raise InvalidRecord("task must be non-empty text", field="task")
        if type(top_k) is not int or not 1 <= top_k <= MAX_TOP_K:
            raise InvalidRecord(f"top_k must be between 1 and {MAX_TOP_K}, got {describe_value(top_k)}", field="top_k")
        engine, scope, task = self._context.engine, self._context.scope, task[:MAX_TASK_CHARS]
        columns = await engine.read_columns(scope)
        view = columns.build_visibility_mask(
            scope.readable_channels(), now=await engine.now(scope), kinds=("Strategy",)
        )
        ordinals = {int(ordinal) for ordinal in np.flatnonzero(view.mask)}
        if not ordinals:
            return []
        await engine.wait_for_own_writes(scope, columns)
        cosines, shares = await self._score_by_vector(task, ordinals), await self._score_by_terms(task, ordinals)
        parts = {ordinal: _relevance(cosines, shares, ordinal) for ordinal in ordinals}
        least = engine.settings.procedural.least_relevance
        wanted = [ordinal for ordinal, relevance in parts.items() if relevance > 0 and relevance >= least]
        found = await self._rank(wanted, parts, cosines, shares, columns)
        if found:
            remember_suggestion(engine, scope, found[0].strategy.id)
        return found[:top_k]

    async def _rank(
        self,
        ordinals: Sequence[int],
        relevances: dict[int, float],
        cosines: dict[int, float] | None,
        overlaps: dict[int, float],
        columns: RecordColumns,
    ) -> list[StrategyMatch]:
        found = []
        for record in await self._context.engine.log.read_by_ordinal(ordinals, self._context.scope) if ordinals else []:
            if isinstance(record, Strategy):
                ordinal = columns.ordinals_by_key[record.key]
                low = wilson_interval(record.success_count, record.success_count + record.failure_count).low
                like = "" if cosines is None else f"cosine {cosines.get(ordinal, 0.0):.2f}, "
                why = (
                    f"{like}words {overlaps.get(ordinal, 0.0):.2f}; worked {record.success_count} of "
                    f"{record.success_count + record.failure_count} times (at least {low:.2f})"
                )
                found.append(
                    StrategyMatch(record, round(relevances[ordinal] * low, 6), round(relevances[ordinal], 6), low, why)
                )
        return sorted(
            found, key=lambda item: (not has_worked(item.strategy), -item.score, -item.relevance, item.strategy.id)
        )

    async def _score_by_vector(self, task: str, ordinals: set[int]) -> dict[int, float] | None:
        """Cosines with the task by ordinal; None without an embedder that answers."""
        if not (served := self._context.engine.vector_projections):
            return None
        try:
            vector = (await served[0].embedder.embed([task]))[0]
        except ModelError:  # words are enough
            return None
        query = np.asarray(vector.astype(np.float16), dtype=np.float32)
        found = await served[0].index.search(query, self._context.scope, Where(kinds=("Strategy",)), WHOLE)
        pairs = zip(found.ordinals.tolist(), found.scores.tolist(), strict=True)
        return {ordinal: score for ordinal, score in pairs if ordinal in ordinals}

    async def _score_by_terms(self, task: str, ordinals: set[int]) -> dict[int, float]:
        """The share of the task's words that each strategy has, by ordinal."""
        words = list(dict.fromkeys(tokenize(task)))
        matched = await self._context.engine.log.match(words, self._context.scope) if words else {}
        having = {word: ordinals & set(matched[word].ordinals.tolist()) if word in matched else set() for word in words}
        return term_overlap(having, len(ordinals))


class SuggestedStrategies(LruDict[tuple[str, str], list[str]]):
    """The ids of the strategies found first in this process, by user and conversation."""

    def __init__(self) -> None:
        super().__init__(MAX_TRACKED_CONVERSATIONS)


def remember_suggestion(engine: Engine, scope: Scope, strategy_id: str) -> None:
    """Note that a strategy was found first in the conversation that goes on, for `reflect`."""
    if scope.conversation_id is None:
        return
    kept = engine.get_shared(SuggestedStrategies)
    key = (scope.user_id, scope.conversation_id)
    kept[key] = list(dict.fromkeys((*kept.pop(key, ()), strategy_id)))[-MAX_REFERENCES:]


def list_suggestions(engine: Engine, scope: Scope, conversation_id: str) -> list[str]:
    """The strategies that were the first of a recall, a context or `find_strategies` here, in this process."""
    first = list(engine.get_shared(SuggestedStrategies).get((scope.user_id, conversation_id), ()))
    for receipt in engine.receipts.values():
        if (receipt.scope.user_id, receipt.scope.conversation_id) == (scope.user_id, conversation_id):
            first += [name for kind, name in receipt.delivered if kind == "Strategy"][:1]
    return list(dict.fromkeys(first))


def _check_flag(success: object) -> None:
    if not isinstance(success, bool):
        raise InvalidRecord(f"success must be True or False, got {describe_value(success)}", field="success")


def _relevance(cosines: dict[int, float] | None, overlaps: dict[int, float], ordinal: int) -> float:
    share = overlaps.get(ordinal, 0.0)
    return share if cosines is None else (max(0.0, cosines.get(ordinal, 0.0)) + share) / 2


@check_arguments
@dataclass
class Outcomes:
    """What `reflect` stores."""

    _context: MemoryContext

    async def reflect(
        self, outcome: bool | str | Mapping[str, Any] | Outcome, *, idempotency_key: str | None = None
    ) -> Outcome:
        """Store how it ended, and strengthen or weaken the strategies that were followed, in one operation.

        These are the `strategy_ids` named. Without any, of those found first in the conversation, a success counts for
        one whose tools were called in its order and no others, a failure for one of which any tool was called. A
        `task_type` is noted at the calls of this attempt in the active channel that have none.
        """
        draft = parse_outcome(outcome)
        fields = draft.model_dump(mode="json", exclude_unset=True)

        make = partial(self.build_reflect_change, draft=draft)
        return await self._context.write(Outcome, "reflect", make, idempotency_key=idempotency_key, given=fields)

    async def build_reflect_change(self, write: WriteAttempt, draft: Outcome) -> Change:
        """The Change that stores an outcome and counts it for its strategies."""
        scope, seen = self._context.scope, dict[Key, int]()
        if draft.goal_id is not None:
            stored, seen = await self._context.resolve_existing_ids("goal_id", "Goal", [draft.goal_id])
            draft = draft.model_copy(update={"goal_id": stored[0]})
        if draft.conversation_id:
            seen |= await self._context.require_conversation(draft.conversation_id)
        place = draft.conversation_id or scope.conversation_id or ""
        calls = await read_attempt_calls(self._context, place)
        strategies = await self._list_followed_strategies(draft, place, calls)
        new = draft.model_copy(
            update={
                "id": self._context.engine.ids.new_id(),
                "channel": scope.channel,
                "conversation_id": place,
                "learned": False,
                "strategy_ids": tuple(strategy.id for strategy in strategies),
                "agent_id": draft.agent_id or scope.agent_id,
                "timestamp": draft.timestamp or write.now,
            }
        )
        counted = [record_outcome(strategy, draft.success, write, place) for strategy in strategies]
        # Only in this channel: calls that others read must not reveal what an agent does in private.
        typed = [call for call in calls if draft.task_type and not call.task_type and call.channel == scope.channel]
        seen |= {record.key: record.seq for record in (*strategies, *typed)}
        named = [call.model_copy(update={"task_type": draft.task_type}) for call in typed]
        return write.build_change(new, *counted, *named, expected_versions={new.key: None, **seen})

    async def _list_followed_strategies(
        self, draft: Outcome, conversation_id: str, calls: Sequence[ToolInvocation]
    ) -> list[Strategy]:
        """The strategies named, or else those found first in the conversation that these calls followed, or tried."""
        engine, scope, named = self._context.engine, self._context.scope, draft.strategy_ids
        if named:
            await self._context.require_existing("strategy_ids", "Strategy", named)
        ids = named or tuple(list_suggestions(engine, scope, conversation_id) if conversation_id else ())
        found = await engine.log.read_records("Strategy", list(dict.fromkeys(ids)), scope) if ids else []
        current = [record for record in found if isinstance(record, Strategy) and record.superseded_at is None]
        here = [record for record in current if record.channel in scope.readable_channels()]
        counts = is_followed if draft.success else is_tried
        return [record for record in here if named or counts(record, calls)]


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
