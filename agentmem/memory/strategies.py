"""Strategies: ways of doing a kind of task, strengthened by success and weakened by failure."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from agentmem.errors import InvalidRecord, ModelError, NotFound
from agentmem.memory import Seat, first_of
from agentmem.memory.tools import tool_id, tool_of
from agentmem.model.changes import Change, Write, fingerprint
from agentmem.model.outline import Outline
from agentmem.model.procedures import MOST_NAMED
from agentmem.model.records import Key, Status, Strategy, build
from agentmem.model.scope import Scope, checked_name
from agentmem.model.success import wilson, word_shares
from agentmem.resources import Resources
from agentmem.stores import WHOLE, Where
from agentmem.text.names import normalised_claim
from agentmem.text.words import terms

MOST_TOOLS = 64  # in one sequence
MOST_FOUND = 100
LONGEST_TASK = 10_000  # characters of a task that are looked for
FOUND = "strategies found"  # by conversation, in the process
MOST_CONVERSATIONS = 1_000  # of which that is remembered


@dataclass(frozen=True, slots=True)
class FoundStrategy:
    """A strategy for a task: `score` is `relevance` × `success_low`, the lower bound of its rate of success."""

    strategy: Strategy
    score: float
    relevance: float
    success_low: float
    why: str


def strategy_hash(description: str, tool_sequence: Sequence[str]) -> str:
    """What two strategies share that are one: the normalised description and the tools in their order."""
    text = "\x1f".join((normalised_claim(description), *tool_sequence))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def credited(strategy: Strategy, success: bool, write: Write, conversation_id: str = "") -> Strategy:
    """The strategy after it was followed once more, with this outcome."""
    counted = "success_count" if success else "failure_count"
    places = strategy.conversation_ids
    if success and conversation_id:
        places = tuple(dict.fromkeys((*places, conversation_id)))[-MOST_NAMED:]
    more = {counted: getattr(strategy, counted) + 1, "last_used": write.now, "conversation_ids": places}
    return strategy.model_copy(update=more)


@dataclass
class Strategies:
    """The verbs over strategies."""

    seat: Seat

    async def learn_strategy(
        self, description: str, *, context_pattern: str = "", tool_sequence: Sequence[str] = (), task_type: str = "",
        conversation_id: str | None = None, success: bool = True, source_turn_ids: Sequence[str] = (),
        idempotency_key: str | None = None,
    ) -> Strategy:  # fmt: skip
        """Store a way of doing something that worked, or with `success=False` one that did not.

        The same description and tools again strengthen (or weaken) what is known. `context_pattern` says when it
        applies. Raises InvalidRecord naming the field, also for a conversation or a turn that is not stored.
        """
        payload = fingerprint(
            description=description, context_pattern=context_pattern, tool_sequence=list(tool_sequence),
            task_type=task_type, conversation_id=conversation_id, success=success, turns=list(source_turn_ids),
        )  # fmt: skip
        _check_flag(success)
        for name, value in (("tool_sequence", tool_sequence), ("source_turn_ids", source_turn_ids)):
            if isinstance(value, str):
                raise InvalidRecord(f"{name} must be a list of strings, got a string", field=name)
        draft = build(
            Strategy, description=description, context_pattern=context_pattern, task_type=task_type,
            tool_sequence=tuple(tool_sequence), source_turn_ids=tuple(source_turn_ids), channel=self.seat.scope.channel,
        )  # fmt: skip

        async def make(write: Write) -> Change:
            turns, expects = await self.seat.locate("source_turn_ids", "Turn", draft.source_turn_ids)
            if conversation_id is not None:
                expects |= await self.seat.locate_conversation(conversation_id)
            place = conversation_id or self.seat.scope.conversation_id or ""
            new = draft.model_copy(update={"source_turn_ids": tuple(turns)})
            return await self.change_to_learn(write, new, expects, success=success, conversation_id=place)

        entry = await self.seat.resources.write(
            self.seat.scope, "learn_strategy", make, kind="Strategy", key=idempotency_key, payload=payload
        )
        return first_of(entry, Strategy)

    async def change_to_learn(
        self, write: Write, draft: Strategy, expects: dict[Key, int], *, success: bool, conversation_id: str
    ) -> Change:
        """The Change that makes a strategy known, or counts one more outcome of the one that is."""
        if len(draft.tool_sequence) > MOST_TOOLS:
            raise InvalidRecord(f"tool_sequence may name at most {MOST_TOOLS} tools", field="tool_sequence")
        channel = draft.channel
        for name in draft.tool_sequence:
            checked_name(name, "tool_sequence")
        digest = strategy_hash(draft.description, draft.tool_sequence)
        where = Where(kinds=("Strategy",), channels=(channel,), key=(digest,))
        for known in await self.seat.resources.log.find(self.seat.scope, where, limit=1):
            if isinstance(known, Strategy):
                sources = tuple(dict.fromkeys((*known.source_turn_ids, *draft.source_turn_ids)))[-MOST_NAMED:]
                again = credited(known, success, write, conversation_id)
                again = again.model_copy(update={"source_turn_ids": sources, "status": Status.ACTIVE})
                return write.change(again, expects={known.key: known.seq, **expects})
        tools = {tool_id(name, channel): tool_of(name, channel) for name in draft.tool_sequence}
        stamp = {
            "id": self.seat.resources.ids.new(), "created_at": write.now, "strategy_hash": digest,
            "tool_ids": tuple(tools),
        }  # fmt: skip
        new = credited(draft.model_copy(update=stamp), success, write, conversation_id)
        return write.change(new, ensures=tuple(tools.values()), expects={new.key: None, **expects})

    async def reinforce_strategy(
        self, strategy_id: str, success: bool, *, idempotency_key: str | None = None
    ) -> Strategy:  # fmt: skip
        """Count one more success or failure of a strategy; NotFound when this scope has none of that id."""
        _check_flag(success)

        async def make(write: Write) -> Change:
            known = await self.strategy(strategy_id)
            new = credited(known, success, write, self.seat.scope.conversation_id or "")
            return write.change(new, expects={known.key: known.seq})

        entry = await self.seat.resources.write(
            self.seat.scope, "reinforce_strategy", make, kind="Strategy", key=idempotency_key,
            payload=fingerprint(id=strategy_id, success=success),
        )  # fmt: skip
        return first_of(entry, Strategy)

    async def strategy(self, strategy_id: str) -> Strategy:
        """The current strategy of this id; NotFound when this scope has none, or it was forgotten."""
        found = await self.seat.one("Strategy", strategy_id)
        if not isinstance(found, Strategy) or found.superseded_at is not None:
            raise NotFound(f"strategy {strategy_id!r} was forgotten; restore it first")
        return found

    async def find_strategies(self, task: str, top_k: int = 5) -> list[FoundStrategy]:
        """The strategies of the readable channels for a task, best first by relevance × lower bound of success.

        Relevance is the mean of the cosine with the task and of the share of its words, rare ones counting more; of the
        words alone where no embedder answers. [] when nothing is relevant. The first one counts as followed here until
        `reflect` says how it went.
        """
        said: object = task
        if not isinstance(said, str) or not said.strip():
            raise InvalidRecord("task must be non-empty text", field="task")
        if type(top_k) is not int or not 1 <= top_k <= MOST_FOUND:
            raise InvalidRecord(f"top_k must be between 1 and {MOST_FOUND}, got {top_k!r}", field="top_k")
        resources, scope, task = self.seat.resources, self.seat.scope, task[:LONGEST_TASK]
        outline = await resources.outline(scope)
        view = outline.view(scope.readable(), now=await resources.now(scope), kinds=("Strategy",))
        slots = {int(slot) for slot in np.flatnonzero(view.mask)}
        if not slots:
            return []
        await resources.catch_up(scope, outline)
        cosines, shares = await self._cosines(task, slots), await self._shares(task, slots)
        parts = {slot: _relevance(cosines, shares, slot) for slot in slots}
        least = resources.settings.procedural.least_relevance
        wanted = [slot for slot, relevance in parts.items() if relevance > 0 and relevance >= least]
        found = await self._ranked(wanted, parts, cosines, shares, outline)
        if found:
            note_found(resources, scope, found[0].strategy.id)
        return found[:top_k]

    async def _ranked(
        self, slots: Sequence[int], parts: dict[int, float], cosines: dict[int, float] | None, shares: dict[int, float],
        outline: Outline,
    ) -> list[FoundStrategy]:  # fmt: skip
        found = []
        for record in await self.seat.resources.log.by_slot(slots, self.seat.scope) if slots else []:
            if isinstance(record, Strategy):
                slot = outline.slots[record.key]
                low = wilson(record.success_count, record.success_count + record.failure_count).low
                like = "" if cosines is None else f"cosine {cosines.get(slot, 0.0):.2f}, "
                why = (
                    f"{like}words {shares.get(slot, 0.0):.2f}; worked {record.success_count} of "
                    f"{record.success_count + record.failure_count} times (at least {low:.2f})"
                )
                found.append(FoundStrategy(record, round(parts[slot] * low, 6), round(parts[slot], 6), low, why))
        return sorted(found, key=lambda item: (-item.score, -item.relevance, item.strategy.id))

    async def _cosines(self, task: str, slots: set[int]) -> dict[int, float] | None:
        """Cosines with the task by slot; None without an embedder that answers."""
        if not (served := self.seat.resources.vectors):
            return None
        try:
            vector = (await served[0].embedder.embed([task]))[0]
        except ModelError:  # words are enough
            return None
        query = np.asarray(vector.astype(np.float16), dtype=np.float32)
        found = await served[0].index.nearest(query, self.seat.scope, Where(kinds=("Strategy",)), WHOLE)
        pairs = zip(found.slots.tolist(), found.scores.tolist(), strict=True)
        return {slot: score for slot, score in pairs if slot in slots}

    async def _shares(self, task: str, slots: set[int]) -> dict[int, float]:
        """The share of the task's words that each strategy has, by slot."""
        words = list(dict.fromkeys(terms(task)))
        matched = await self.seat.resources.log.match(words, self.seat.scope) if words else {}
        having = {word: slots & set(matched[word].slots.tolist()) if word in matched else set() for word in words}
        return word_shares(having, len(slots))


def note_found(resources: Resources, scope: Scope, strategy_id: str) -> None:
    """Note that a strategy was found first in the conversation that goes on, for `reflect`."""
    if scope.conversation_id is None:
        return
    kept: OrderedDict[tuple[str, str], list[str]] = resources.kept.setdefault(FOUND, OrderedDict())
    key = (scope.user_id, scope.conversation_id)
    kept[key] = list(dict.fromkeys((*kept.pop(key, ()), strategy_id)))[-MOST_NAMED:]
    while len(kept) > MOST_CONVERSATIONS:
        kept.popitem(last=False)


def followed_in(resources: Resources, scope: Scope, conversation_id: str) -> list[str]:
    """The strategies that were the first of a recall or of `find_strategies` in this conversation, in this process."""
    kept = resources.kept.get(FOUND, {})
    first = list(kept.get((scope.user_id, conversation_id), ()))
    for receipt in resources.receipts.values():
        if (receipt.scope.user_id, receipt.scope.conversation_id) == (scope.user_id, conversation_id):
            first += [name for kind, name in receipt.delivered if kind == "Strategy"][:1]
    return list(dict.fromkeys(first))


def _check_flag(success: object) -> None:
    if not isinstance(success, bool):
        raise InvalidRecord(f"success must be True or False, got {success!r}", field="success")


def _relevance(cosines: dict[int, float] | None, shares: dict[int, float], slot: int) -> float:
    share = shares.get(slot, 0.0)
    return share if cosines is None else (max(0.0, cosines.get(slot, 0.0)) + share) / 2
