"""The clients of the HTTP load: one plan of operations, through HTTP or in the SDK, each in a process of its own.

Operations arrive at moments that are drawn before the run, so both ways get the same load, however fast they answer. A
client takes one operation at a time: it thinks until the next one is due, and starts at once when it is late. Latency
counts from the due moment, so an operation that waits for its client counts as slow.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from itertools import chain
from multiprocessing.connection import Connection
from typing import Any, Protocol

import httpx2 as httpx
import numpy as np

from agentmem import AsyncAgentMemory
from agentmem.errors import AgentMemError
from tests.benchmarks.synthetic import SyntheticConversations

STORE, RECALL, FACTS, CONTEXT = "store_turn", "recall", "list facts", "context"
MIX = {STORE: 0.60, RECALL: 0.30, FACTS: 0.05, CONTEXT: 0.05}
PREPARED_TURNS, PREPARED_FACTS = 20, 3  # of each user, before the run
LISTED_FACTS, CONTEXT_TOKENS = 20, 500
CONVERSATION = "running"
TEXTS = 2_000  # of each kind; later operations take them again
KEEP_ALIVE_SECONDS = 4.0  # shorter than the server's 5 s, so no client sends on a connection that is just being closed
TIMEOUT_SECONDS = 35.0  # longer than the server's limit for a request
PREPARING_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class LoadBlock:
    """A part of a run: `rate` operations a second for `seconds`, dealt to `clients`; the seed fixes all of it.

    Where clients do not think, each asks as many as it would, one right after the other.
    """

    clients: int
    seconds: float
    rate: float
    seed: int
    are_thinking: bool = True


@dataclass(frozen=True, slots=True)
class LoadSample:
    """One operation: the seconds from its due moment to its answer, how late it began, and the error, if any."""

    operation: str
    due: float
    seconds: float
    late: float
    error: str = ""


@dataclass(frozen=True, slots=True)
class BlockResult:
    """The samples of a block, the seconds it took, and the processor seconds of the process that ran it."""

    samples: list[LoadSample]
    took: float
    cpu: float


class LoadTarget(Protocol):
    """What a client asks. Each method raises AgentMemError or httpx.HTTPError when it fails."""

    async def prepare(self, user: str, turns: Sequence[str], facts: Sequence[str]) -> None:
        """Store what a user has before the run, and recall once, so that the user is known."""
        ...

    async def ask(self, client: int, operation: str, user: str, text: str) -> None:
        """Do one operation."""
        ...

    async def settle(self) -> None:
        """Wait until what happens in the background is done."""
        ...


class SdkTarget:
    """The library in this process."""

    def __init__(self, memory: AsyncAgentMemory) -> None:
        self._memory = memory

    async def prepare(self, user: str, turns: Sequence[str], facts: Sequence[str]) -> None:
        view = self._memory.scoped(user_id=user)
        await view.store_turns([{"content": text, "conversation_id": CONVERSATION} for text in turns])
        for claim in facts:
            await view.learn_fact(claim)
        await view.remember(turns[0])

    async def ask(self, client: int, operation: str, user: str, text: str) -> None:
        view = self._memory.scoped(user_id=user)  # as the server does for each request
        if operation == STORE:
            await view.store_turn({"content": text, "conversation_id": CONVERSATION})
        elif operation == RECALL:
            await view.remember(text)
        elif operation == FACTS:
            await view.semantic.facts(limit=LISTED_FACTS)
        else:
            await view.context(text, CONTEXT_TOKENS)

    async def settle(self) -> None:
        await self._memory.flush()


class HttpTarget:
    """A server, with a connection for each client."""

    def __init__(self, clients: Sequence[httpx.AsyncClient]) -> None:
        self._clients = clients

    async def prepare(self, user: str, turns: Sequence[str], facts: Sequence[str]) -> None:
        client = self._clients[0]
        asked: list[tuple[str, Mapping[str, Any]]] = [
            ("/v1/turns/batch", {"conversation_id": CONVERSATION, "turns": [{"content": text} for text in turns]}),
            *(("/v1/facts", {"claim": claim}) for claim in facts),
            ("/v1/recall", {"query": turns[0]}),
        ]
        for path, body in asked:
            answer = await client.post(path, json=body, headers={"X-Agentmem-User": user})
            answer.raise_for_status()

    async def ask(self, client: int, operation: str, user: str, text: str) -> None:
        sent, headers = self._clients[client], {"X-Agentmem-User": user}
        if operation == STORE:
            body: dict[str, Any] = {"content": text, "conversation_id": CONVERSATION}
            answer = await sent.post("/v1/turns", json=body, headers=headers)
        elif operation == RECALL:
            answer = await sent.post("/v1/recall", json={"query": text}, headers=headers)
        elif operation == FACTS:
            answer = await sent.get("/v1/facts", params={"limit": LISTED_FACTS}, headers=headers)
        else:
            body = {"query": text, "max_tokens": CONTEXT_TOKENS}
            answer = await sent.post("/v1/context", json=body, headers=headers)
        answer.raise_for_status().json()

    async def settle(self) -> None:
        await asyncio.sleep(0)


@dataclass(frozen=True, slots=True)
class TargetAddress:
    """Where a process finds what it asks: settings of the library, or a server's URL and key."""

    settings: Mapping[str, Any] | None = None
    url: str = ""
    key: str = ""


@asynccontextmanager
async def open_target(address: TargetAddress, clients: int) -> AsyncIterator[LoadTarget]:
    """What an address names, opened."""
    if address.settings is not None:
        async with AsyncAgentMemory("load owner", **address.settings) as memory:
            yield SdkTarget(memory)
        return
    opened = [open_http_client(address.url, address.key) for _ in range(clients)]
    try:
        yield HttpTarget(opened)
    finally:
        for client in opened:
            await client.aclose()


def open_http_client(url: str, key: str) -> httpx.AsyncClient:
    """One client of the server, with one connection."""
    limits = httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=KEEP_ALIVE_SECONDS)
    headers = {"Authorization": f"Bearer {key}"}
    # the URL is http: without `verify=False` each client would load all certificates of the machine
    return httpx.AsyncClient(
        base_url=url, headers=headers, limits=limits, timeout=TIMEOUT_SECONDS, verify=False, trust_env=False
    )


def name_users(marker: str, kind: str, count: int) -> list[str]:
    """The users of one way."""
    return [f"{kind} {marker} {number}" for number in range(count)]


async def prepare_users(target: LoadTarget, users: Sequence[str], seed: int) -> None:
    """Store what each user has before the run, some users at a time."""
    made, waiting = SyntheticConversations(seed), iter(users)

    async def prepare_next() -> None:
        for user in waiting:
            texts = [made.generate_text() for _ in range(PREPARED_TURNS + PREPARED_FACTS)]
            await target.prepare(user, texts[:PREPARED_TURNS], texts[PREPARED_TURNS:])

    await asyncio.gather(*(prepare_next() for _ in range(PREPARING_AT_ONCE)))


class LoadRunner:
    """Runs blocks on one target. Blocks with the same seed have the same moments, operations, texts and users."""

    def __init__(self, target: LoadTarget, users: Sequence[str], seed: int) -> None:
        self._target = target
        self._users = users
        made = SyntheticConversations(seed)
        self._texts = [made.generate_text() for _ in range(TEXTS)]
        self._questions = made.generate_questions(TEXTS)

    async def run(self, block: LoadBlock) -> BlockResult:
        """All operations of a block, and what is in the background after them."""
        random, count = np.random.default_rng(block.seed), int(block.rate * block.seconds)
        due = np.sort(random.random(count)) * block.seconds
        operations = random.choice(list(MIX), size=count, p=list(MIX.values()))
        users, texts = random.integers(len(self._users), size=count), random.integers(TEXTS, size=count)
        begun, cpu = time.perf_counter(), time.process_time()

        async def live(client: int) -> list[LoadSample]:
            samples = []
            for n in range(client, count, block.clients):
                operation = str(operations[n])
                at = begun + float(due[n]) if block.are_thinking else time.perf_counter()
                text = (self._texts if operation == STORE else self._questions)[texts[n]]
                await asyncio.sleep(max(0.0, at - time.perf_counter()))
                late = time.perf_counter() - at
                error = await self._ask(client, operation, self._users[users[n]], text)
                samples.append(LoadSample(operation, float(due[n]), time.perf_counter() - at, late, error))
            return samples

        found = await asyncio.gather(*(live(client) for client in range(block.clients)))
        took, used = time.perf_counter() - begun, time.process_time() - cpu
        await self._target.settle()
        return BlockResult(list(chain.from_iterable(found)), took, used)

    async def _ask(self, client: int, operation: str, user: str, text: str) -> str:
        """Do one operation; the name of the error, empty without one."""
        try:
            await self._target.ask(client, operation, user, text)
        except httpx.HTTPStatusError as error:
            return f"status {error.response.status_code}"
        except (httpx.HTTPError, AgentMemError) as error:
            return type(error).__name__
        return ""


@dataclass(frozen=True, slots=True)
class LoadSetup:
    """What one process of the load has: its target, its users, and how many clients there are."""

    address: TargetAddress
    users: Sequence[str]
    clients: int
    seed: int


class LoadProcess:
    """A process that runs blocks when it is told to. It stays between them, with its connections and caches."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe

    def run(self, block: LoadBlock, on_second: Callable[[], None] = lambda: None) -> BlockResult:
        """Run one block, and call `on_second` each second. Raises EOFError when the process has died."""
        self._pipe.send(block)
        while not self._pipe.poll(1.0):
            on_second()
        result: BlockResult = self._pipe.recv()
        return result


@contextmanager
def start_load_process(setup: LoadSetup) -> Iterator[LoadProcess]:
    """A process whose users are stored and which waits for its blocks; it ends with the context."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_live, args=(theirs, setup), daemon=True)
    process.start()
    theirs.close()
    try:
        ours.recv()
        yield LoadProcess(ours)
        ours.send(None)
        process.join()
    finally:
        process.kill()
        ours.close()


def _live(pipe: Connection, setup: LoadSetup) -> None:
    asyncio.run(_run_blocks(pipe, setup))


async def _run_blocks(pipe: Connection, setup: LoadSetup) -> None:
    async with open_target(setup.address, setup.clients) as target:
        await prepare_users(target, setup.users, setup.seed)
        await target.settle()
        runner = LoadRunner(target, setup.users, setup.seed)
        pipe.send("ready")
        while (block := await asyncio.to_thread(pipe.recv)) is not None:
            pipe.send(await runner.run(block))
