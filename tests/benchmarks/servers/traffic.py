"""Recalls and writes as they come: at Poisson times whatever is still running, or from clients who wait for answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from agentmem import AsyncAgentMemory
from agentmem.errors import StoreUnavailable
from tests.benchmarks.servers.steps import EMBEDDING, own_steps
from tests.benchmarks.servers.town import UserPopulation
from tests.benchmarks.synthetic import SyntheticConversations

LARGE_USER_SHARE = 0.05  # of recalls and writes
ZIPF = 1.0  # the n-th user comes 1 / n as often as the first
RECALL, STORE = "remember", "store_turn"
TIMER_SLACK_SECONDS = 0.0015  # seconds; epoll counts whole milliseconds, and rounds up


async def _sleep_until(moment: float) -> None:
    """Wait for a moment of `perf_counter` without the millisecond or more that a timer of the loop is late by."""
    if (wait := moment - TIMER_SLACK_SECONDS - time.perf_counter()) > 0:
        await asyncio.sleep(wait)
    while time.perf_counter() < moment:
        await asyncio.sleep(0)


@dataclass(frozen=True, slots=True)
class Sample:
    """One operation: seconds from the moment it was due, and those of them that the embedder took."""

    operation: str
    large: bool
    warm: bool
    seconds: float
    embedding: float
    techniques: dict[str, float] = field(default_factory=dict)
    notices: tuple[str, ...] = ()
    failed: bool = False


@dataclass
class Traffic:
    """One process with one open memory. `warm_users` are those whom it recalled before: what is cached of them is warm.

    `users` are the users whom it serves in the open loop, None for all.
    """

    memory: AsyncAgentMemory
    town: UserPopulation
    seed: int = 0
    users: frozenset[str] | None = None
    warm_users: set[str] = field(default_factory=set)
    written: int = 0

    def __post_init__(self) -> None:
        self._random = np.random.default_rng(self.seed)
        self._questions = SyntheticConversations(self.seed + 1).generate_questions(500)
        self._made = SyntheticConversations(self.seed + 2)
        self._asked = 0
        self._views: dict[str, AsyncAgentMemory] = {}

    async def open_loop(self, seconds: float, rates: tuple[float, float], *, zipf: bool) -> list[Sample]:
        """Recalls and writes at these rates (a second), to users as likely as each other or by Zipf's law."""
        due = sorted(
            [(at, RECALL) for at in self._moments(rates[0], seconds)]
            + [(at, STORE) for at in self._moments(rates[1], seconds)]
        )
        users = self._users(len(due), zipf)
        begun, running = time.perf_counter(), []
        for (at, what), user in zip(due, users, strict=True):
            if self.users is not None and user not in self.users:
                continue
            await _sleep_until(begun + at)
            running.append(asyncio.ensure_future(self._counted(what, user, begun + at)))
        return list(await asyncio.gather(*running))

    async def _counted(self, what: str, user: str, due: float) -> Sample:
        """One operation; when more come than can be answered, some fail, which is counted."""
        run, warm = self.recall if what == RECALL else self.store, user in self.warm_users
        try:
            return await run(user, due)
        except StoreUnavailable:
            return Sample(what, user == self.town.large, warm, time.perf_counter() - due, 0.0, failed=True)

    async def warm_up(self) -> None:
        """Recall each of the process's own users whom it does not know, one after the other."""
        for user in self.town.turns:
            if user not in self.warm_users and (self.users is None or user in self.users):
                await self.recall(user, time.perf_counter())

    async def closed_loop(self, clients: int, seconds: float, users: Sequence[str]) -> tuple[list[Sample], float]:
        """Clients who ask one question after the other, about these users; the samples, and the seconds it took."""
        begun, found = time.perf_counter(), []
        order = self._random.permutation(len(users))

        async def client(number: int) -> None:
            at = number
            while time.perf_counter() < begun + seconds:
                found.append(await self.recall(users[order[at % len(users)]], time.perf_counter()))
                at += clients

        await asyncio.gather(*(client(number) for number in range(clients)))
        return found, time.perf_counter() - begun

    async def recall(self, user: str, due: float) -> Sample:
        """One question, a new one each time until 500 were asked."""
        self._asked += 1
        question, warm = self._questions[self._asked % len(self._questions)], user in self.warm_users
        with own_steps() as steps:
            bundle = await self.view(user).remember(question)
        self.warm_users.add(user)
        lines = {line.technique: line.milliseconds for line in bundle.receipt.trace}
        took = time.perf_counter() - due
        return Sample(RECALL, user == self.town.large, warm, took, steps.get(EMBEDDING, 0.0), lines, bundle.notices)

    async def store(self, user: str, due: float) -> Sample:
        """One more turn of a running conversation."""
        self.written += 1
        turn = {"content": self._made.generate_text(), "conversation_id": "running", "speaker": "Ana"}
        with own_steps() as steps:
            await self.view(user).store_turn(turn)
        took = time.perf_counter() - due
        return Sample(STORE, user == self.town.large, user in self.warm_users, took, steps.get(EMBEDDING, 0.0))

    def view(self, user: str) -> AsyncAgentMemory:
        """The open memory, of this user."""
        if user not in self._views:
            self._views[user] = self.memory.scoped(user_id=user)
        return self._views[user]

    def _moments(self, rate: float, seconds: float) -> list[float]:
        gaps = self._random.exponential(1 / rate, size=int(3 * rate * seconds) + 10)
        return [float(at) for at in np.cumsum(gaps) if at < seconds]

    def _users(self, count: int, zipf: bool) -> list[str]:
        small = self.town.small_users
        weights = 1 / (np.arange(len(small)) + 1.0) ** (ZIPF if zipf else 0)
        chosen = self._random.choice(len(small), size=count, p=weights / weights.sum())
        large = self._random.random(count) < LARGE_USER_SHARE
        return [self.town.large if is_large else small[n] for n, is_large in zip(chosen, large, strict=True)]
