"""`python -m tests.benchmarks.servers.idle_clients`: clients that work beside many that say nothing, or too little.

All ask one `agentmem serve` on this machine, on a file. Whoever is cut off connects again after about a second. The
exit code is 1 when a request of a working client failed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import random
import resource
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import httpx2 as httpx

from agentmem import AsyncAgentMemory
from agentmem.admin.api_keys import create_api_key
from tests.benchmarks.report import render_table
from tests.benchmarks.servers.http_load import HttpServer, ServerWatch
from tests.benchmarks.servers.http_load_clients import LoadSample, open_http_client
from tests.benchmarks.servers.run import machine, percentiles
from tests.benchmarks.synthetic import SyntheticConversations

Row = dict[str, Any]
CONTEXT = multiprocessing.get_context("spawn")
STORE, RECALL, HEALTH = "store_turn", "recall", "health"
OPERATIONS = (STORE, RECALL, HEALTH)
STREAM, IMPORT, TURN, SILENT = "GET /mcp", "upload to /v1/import", "upload to /v1/turns", "silent"
PAUSE_SECONDS = 1.0  # between two bytes of an upload, and before a client that was cut off connects again
LEAVE_SECONDS = 30.0  # until the server has noticed that all clients have gone
MAX_SECONDS = 3600.0
TEXTS = 200
MAX_FILES = 8192
SHOWN_ERRORS = 5
SHOWN_LINES = 20  # of the server's log


@dataclass(frozen=True)
class IdlePlan:
    """How many clients of each kind there are, for how long. A working client asks every `think` seconds or so."""

    working: int = 50
    streams: int = 100
    uploads: int = 100
    silent: int = 500
    seconds: float = 60.0
    think: float = 1.0
    seed: int = 0


@dataclass
class IdleClients:
    """Connections to the server that are kept, and what became of each."""

    port: int
    answers: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    open_now: Counter[str] = field(default_factory=Counter)

    async def keep(self, kind: str, key: str) -> None:
        """Keep one connection, again and again, until cancelled."""
        while True:
            await asyncio.sleep(random.uniform(0.5, 1.5) * PAUSE_SECONDS)
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            except OSError as error:
                self.answers[kind][type(error).__name__] += 1
            else:
                self.open_now[kind] += 1
                try:
                    self.answers[kind][await self._wait_for_end(kind, key, reader, writer)] += 1
                finally:
                    self.open_now[kind] -= 1
                    writer.close()

    async def _wait_for_end(
        self, kind: str, key: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> str:
        """The status with which the server answered before it closed the connection, or how it closed it."""
        writer.write(build_head(kind, key))
        reading = asyncio.ensure_future(reader.read())
        try:
            while not reading.done():
                await asyncio.wait({reading}, timeout=PAUSE_SECONDS)
                if kind in (IMPORT, TURN) and not writer.is_closing():
                    writer.write(b" ")
            return reading.result()[9:12].decode("ascii") or "closed"
        except ConnectionError:
            return "reset"
        finally:
            reading.cancel()


def build_head(kind: str, key: str) -> bytes:
    """What an idle client says when it has connected."""
    if kind == SILENT:
        return b""
    common = f"Host: localhost\r\nAuthorization: Bearer {key}\r\n"
    if kind == STREAM:
        return f"GET /mcp HTTP/1.1\r\n{common}Accept: text/event-stream\r\n\r\n".encode()
    media = "x-ndjson" if kind == IMPORT else "json"
    body = f"Content-Type: application/{media}\r\nContent-Length: 100000\r\n\r\n"
    return f"POST {kind.rsplit(maxsplit=1)[-1]} HTTP/1.1\r\n{common}{body}".encode()


@dataclass
class WorkingClient:
    """Stores a turn, recalls and looks at /health, in turns, with a connection and a key of its own."""

    client: httpx.AsyncClient
    random: random.Random
    texts: Sequence[str]
    samples: list[LoadSample] = field(default_factory=list)

    async def prepare(self) -> None:
        """Do each operation once, because the first ones of a server and of a user take longer."""
        for operation in OPERATIONS:
            await self._ask(operation, self.texts[0])

    async def work(self, plan: IdlePlan) -> None:
        """Ask until the time is over."""
        begun, number = time.perf_counter(), self.random.randrange(len(OPERATIONS))
        while True:
            await asyncio.sleep(self.random.uniform(0.5, 1.5) * plan.think)
            at = time.perf_counter()
            if at - begun > plan.seconds:
                return
            operation = OPERATIONS[number % len(OPERATIONS)]
            error = await self._ask(operation, self.texts[number % len(self.texts)])
            self.samples.append(LoadSample(operation, at - begun, time.perf_counter() - at, 0.0, error))
            number += 1

    async def _ask(self, operation: str, text: str) -> str:
        """Do one operation; what went wrong, empty if nothing."""
        try:
            if operation == HEALTH:
                answer = await self.client.get("/health")
            elif operation == RECALL:
                answer = await self.client.post("/v1/recall", json={"query": text})
            else:
                answer = await self.client.post("/v1/turns", json={"content": text, "conversation_id": "running"})
        except httpx.HTTPError as error:
            return type(error).__name__
        return "" if answer.is_success else f"status {answer.status_code}"


async def measure_beside_idle_clients(plan: IdlePlan, server: HttpServer, keys: Sequence[str]) -> Row:
    """The figures of a running server. The first keys are those of working clients, the last one that of the others."""
    made, watch = SyntheticConversations(plan.seed), ServerWatch(server)
    texts = [made.generate_text() for _ in range(TEXTS)]
    working = [
        WorkingClient(open_http_client(server.url, key), random.Random(f"{plan.seed} {number}"), texts)
        for number, key in enumerate(keys[:-1])
    ]
    for client in working:
        await client.prepare()
    watch.look(0.0, 0.0)
    ours, theirs = CONTEXT.Pipe()
    port = int(server.url.rpartition(":")[2])
    keeper = CONTEXT.Process(target=keep_idle_clients, args=(plan, port, keys[-1], theirs), daemon=True)
    keeper.start()
    await asyncio.to_thread(ours.recv)  # it has begun
    watching = asyncio.ensure_future(_watch(watch, plan.seconds))
    await asyncio.gather(*(client.work(plan) for client in working))
    await watching
    ours.send("end")
    answers, still_open = await asyncio.to_thread(ours.recv)
    await asyncio.to_thread(keeper.join)
    for client in working:
        await client.client.aclose()
    await _wait_until_gone(watch)
    return {
        "plan": asdict(plan),
        "machine": machine(),
        "working": summarize([sample for client in working for sample in client.samples]),
        "idle": [
            {"clients": kind, "open at the end": still_open.get(kind, 0), "ended": str(dict(found.most_common()))}
            for kind, found in sorted(answers.items())
        ],
        "server": summarize_server(watch.rows),
    }


def keep_idle_clients(plan: IdlePlan, port: int, key: str, pipe: Connection) -> None:
    """Keep all idle clients until told to end, then send what became of them.

    In a process of its own: opening hundreds of connections would hold up the working clients, not the server.
    """
    _allow_files()
    asyncio.run(_keep_idle_clients(plan, port, key, pipe))


async def _keep_idle_clients(plan: IdlePlan, port: int, key: str, pipe: Connection) -> None:
    idle = IdleClients(port)
    keeping = [asyncio.ensure_future(idle.keep(kind, key)) for kind in list_kinds(plan)]
    pipe.send("begun")
    await asyncio.to_thread(pipe.recv)
    still_open = dict(idle.open_now)
    for task in keeping:
        task.cancel()
    await asyncio.gather(*keeping, return_exceptions=True)
    pipe.send((dict(idle.answers), still_open))


def list_kinds(plan: IdlePlan) -> Iterator[str]:
    """The kind of each idle client."""
    yield from [STREAM] * plan.streams
    yield from [IMPORT, TURN] * (plan.uploads // 2)
    yield from [SILENT] * plan.silent


def summarize(samples: Sequence[LoadSample]) -> list[Row]:
    """A row for each operation of the working clients."""
    rows = []
    for operation in OPERATIONS:
        found = [sample for sample in samples if sample.operation == operation]
        errors = [f"{sample.error} at {sample.due:.1f} s" for sample in found if sample.error]
        times = percentiles([sample.seconds for sample in found])
        rows.append({"operation": operation, **times, "errors": len(errors), "which": ", ".join(errors[:SHOWN_ERRORS])})
    return rows


def summarize_server(rows: Sequence[Row]) -> list[Row]:
    """The server before, at its largest, and when all clients have gone."""
    during = rows[1:-1] or rows
    largest = {name: max(row[name] for row in during) for name in rows[0]}
    return [{"at": at, **row} for at, row in (("before", rows[0]), ("peak", largest), ("after", rows[-1]))]


async def _watch(watch: ServerWatch, seconds: float) -> None:
    begun = time.perf_counter()
    while (passed := time.perf_counter() - begun) < seconds:
        await asyncio.sleep(1.0)
        await asyncio.to_thread(watch.look, passed, 0.0)


async def _wait_until_gone(watch: ServerWatch) -> None:
    begun = time.perf_counter()
    while time.perf_counter() - begun < LEAVE_SECONDS:
        watch.look(watch.rows[-1]["seconds"], 0.0)
        if not watch.rows[-1]["client_connections"]:
            return
        await asyncio.sleep(0.5)


# -- all of it


def run_idle_clients(plan: IdlePlan, home: Path) -> Row:
    """Start a server on a new memory in this folder and measure; what it logged of failures stands in the document."""
    settings = {"home": str(home), "embedder": "hash"}
    keys = asyncio.run(_make_keys(settings, plan.working))
    log = home / "serve.log"
    with HttpServer(settings, log) as server:
        document = asyncio.run(measure_beside_idle_clients(plan, server, keys))
    document["log"] = find_failures(log.read_text(encoding="utf-8"))
    return document


async def _make_keys(settings: Row, working: int) -> list[str]:
    async with AsyncAgentMemory("owner", **settings) as memory:
        users = [*(f"working {number}" for number in range(working)), "idle"]
        return [(await create_api_key(memory.engine, user, ["read", "write"])).secret for user in users]


def _allow_files() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (MAX_FILES if hard < 0 else min(MAX_FILES, hard), hard))


def find_failures(log: str) -> list[str]:
    """The last lines of a server's log that tell of an error, or that are no JSON."""
    found = []
    for line in log.splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            found.append(line)
            continue
        if event.get("level") in ("warning", "error", "critical") or event.get("status", 0) >= 500:
            found.append(line)
    return found[-SHOWN_LINES:]


def render_document(document: Row) -> str:
    """All figures as tables, and what the server logged of failures."""
    parts = {
        "Working clients, ms": document["working"],
        "Idle clients": document["idle"],
        "The server": document["server"],
    }
    tables = "\n\n".join(f"## {title}\n\n{render_table(rows)}" for title, rows in parts.items())
    return (
        f"{tables}\n\n## Failures in the server's log, the last {SHOWN_LINES}\n\n" + "\n".join(document["log"]) + "\n"
    )


def parser() -> argparse.ArgumentParser:
    """The arguments."""
    found = argparse.ArgumentParser(prog="python -m tests.benchmarks.servers.idle_clients", description=__doc__)
    for name, value in asdict(IdlePlan()).items():
        found.add_argument(f"--{name}", type=type(value), default=value, help="default %(default)s")
    found.add_argument("--json", type=Path, help="also write the figures there")
    return found


def main() -> int:
    """Measure and print; 1 when a request of a working client failed."""
    given = vars(parser().parse_args())
    file, plan = given.pop("json"), IdlePlan(**given)
    with tempfile.TemporaryDirectory(prefix="agentmem-bench-") as home:
        document = run_idle_clients(replace(plan, seconds=min(plan.seconds, MAX_SECONDS)), Path(home))
    print(render_document(document))
    if file:
        file.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 1 if any(row["errors"] for row in document["working"]) else 0


if __name__ == "__main__":
    sys.exit(main())
