"""Writers of the simulation: random writes and questions, tried again under the same key when a store fails."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from typing import Any

from agentmem.core.records import Fact, Turn
from agentmem.errors import AgentMemError, ModelUnavailable, NotFound, StoreUnavailable
from agentmem.facade.async_memory import AsyncAgentMemory
from tests.faults.faulty import FaultInjector
from tests.faults.model import IntendedWrite
from tests.faults.virtual import VirtualClock

CALL_TIMEOUT_SECONDS = 60.0  # seconds until a caller gives up waiting
MAX_ATTEMPTS = 3
THINGS = ("apples", "pears", "plums", "figs")
PLACES = ("kitchen", "garden")
VERB_WEIGHTS = {"store": 5, "learn": 4, "supersede": 3, "forget": 2, "restore": 1, "undo": 2, "erase": 1, "remember": 2}


def user_word(user: str) -> str:
    """A word that only this user's texts hold."""
    return f"{user}sword"


@dataclass
class KnownIds:
    """What all writers together know of one user from what was acknowledged; some of it is out of date."""

    facts: list[str] = field(default_factory=list)
    turns: list[str] = field(default_factory=list)
    operations: list[str] = field(default_factory=list)


@dataclass
class Writer:
    """One agent: writes for several users through one opened memory."""

    name: str
    memory: AsyncAgentMemory
    faults: FaultInjector
    clock: VirtualClock
    notes: dict[str, KnownIds]
    random: random.Random
    under_way: set[str]  # of all writers: a clock set back in the middle of a write would be the world's own mistake
    writes: list[IntendedWrite] = field(default_factory=list)

    async def run(self, count: int) -> None:
        for number in range(count):
            await asyncio.sleep(self.random.uniform(0, 0.2 if self.random.random() < 0.9 else 40))
            if self.random.random() < 0.05 and not self.under_way:
                self.clock.jump(self.random.choice([-3600, 3600]))
            await self._act(f"{self.name}-{number}")

    async def _act(self, key: str) -> None:
        user = self.random.choice(sorted(self.notes))
        verb = self.random.choices(list(VERB_WEIGHTS), list(VERB_WEIGHTS.values()))[0]
        given = self._draw_arguments(verb, user, key)
        if given is None:
            return
        if verb == "remember":
            await self._remember(user, given["query"])
            return
        write = IntendedWrite(verb, user, key, given)
        self.writes.append(write)
        self.under_way.add(key)
        await self._write(write)
        self.under_way.remove(key)

    def _draw_arguments(self, verb: str, user: str, key: str) -> dict[str, Any] | None:
        """Arguments for a verb; None when there is nothing yet that it could be done to."""
        pick, notes = self.random, self.notes[user]
        claim = f"{user_word(user)} likes {pick.choice(THINGS)}"
        if verb == "store":
            place = pick.choice(PLACES)
            said = [
                f"{user_word(user)} talks of {pick.choice(THINGS)} {key} {n}" for n in range(pick.choice([1, 1, 3]))
            ]
            return {
                "turns": [
                    {"turn_id": f"{key}-{n}", "content": text, "conversation_id": place} for n, text in enumerate(said)
                ]
            }
        if verb == "learn":
            return {
                "claim": claim,
                "source_turn_ids": pick.sample(notes.turns, min(len(notes.turns), pick.choice([0, 1, 2]))),
            }
        if verb == "remember":
            return {"query": pick.choice([claim, "what is talked of in the garden?"])}
        known = notes.operations if verb == "undo" else notes.turns if verb == "erase" else notes.facts
        if not known:
            return None
        chosen = pick.choice(known[-6:])
        if verb == "supersede":
            return {"id": chosen, "claim": claim}
        return {"operation_id" if verb == "undo" else "id": chosen}

    async def _write(self, write: IntendedWrite) -> None:
        for left in reversed(range(MAX_ATTEMPTS)):
            try:
                done = await asyncio.wait_for(self._call(write), CALL_TIMEOUT_SECONDS)
            except (StoreUnavailable, ModelUnavailable, TimeoutError) as error:
                self.faults.log(f"{write.key} {write.verb} {write.user}: {type(error).__name__}, {left} tries left")
                await asyncio.sleep(self.random.uniform(0, 2))
                continue
            except AgentMemError as error:
                erased = isinstance(error, NotFound) and "erased" in str(error)  # it was done all the same
                write.outcome = "acknowledged" if erased else "refused"
                self.faults.log(f"{write.key} {write.verb} {write.user}: {type(error).__name__}: {error}")
                return
            write.outcome = "acknowledged"
            self.faults.log(f"{write.key} {write.verb} {write.user} {dict(write.arguments)}: done")
            self._learn_from(write, done)
            return

    async def _call(self, write: IntendedWrite) -> Any:
        memory, given, key = self.memory.scoped(user_id=write.user), write.arguments, write.key
        if write.verb == "store":
            if len(given["turns"]) == 1:
                return [await memory.store_turn(given["turns"][0])]
            return await memory.store_turns(given["turns"])
        if write.verb == "learn":
            return await memory.learn_fact(**given, idempotency_key=key)
        if write.verb == "supersede":
            return await memory.semantic.supersede_fact(given["id"], given["claim"], idempotency_key=key)
        if write.verb == "undo":
            return await memory.undo(given["operation_id"], idempotency_key=key)
        if write.verb == "restore":
            return await memory.restore(given["id"], idempotency_key=key)
        return await memory.forget(given["id"], hard=write.verb == "erase", idempotency_key=key)

    def _learn_from(self, write: IntendedWrite, done: Any) -> None:
        notes = self.notes[write.user]
        for record in done if isinstance(done, list) else [done]:
            if isinstance(record, Fact | Turn) and record.operation_id:
                notes.operations.append(record.operation_id)
            if isinstance(record, Turn):
                notes.turns.append(record.id)
            elif isinstance(record, Fact):
                notes.facts.append(record.id)

    async def _remember(self, user: str, query: str) -> None:
        try:
            bundle = await asyncio.wait_for(self.memory.scoped(user_id=user).remember(query), CALL_TIMEOUT_SECONDS)
        except (StoreUnavailable, ModelUnavailable, TimeoutError) as error:
            self.faults.log(f"remember {user}: {type(error).__name__}")
            return
        self.faults.log(f"remember {user}: {[item.record.id for item in bundle.items]} {bundle.notices}")
        for record in (*bundle.turns, *bundle.facts):
            assert record.user_id == user, f"{record.id} of {record.user_id} was given to {user}"
            assert user_word(user) in record.search_text(), f"{record.id} is not of {user}"
