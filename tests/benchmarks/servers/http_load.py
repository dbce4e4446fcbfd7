"""`python -m tests.benchmarks.servers.http_load`: the HTTP server under load, beside the SDK, and through restarts.

Clients with a think time ask `agentmem serve` and, in turns with it, the library in one process, on the same Postgres,
Neo4j and Redis. Then the server is ended by SIGTERM and by SIGKILL while clients write. The exit code is 1 when
something was lost, failed or too slow.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import httpx2 as httpx
import psutil

from agentmem import AsyncAgentMemory
from agentmem.admin.api_keys import create_api_key
from tests.benchmarks.report import render_table
from tests.benchmarks.servers.__main__ import place, say, servers
from tests.benchmarks.servers.http_load_clients import (
    MIX,
    BlockResult,
    LoadBlock,
    LoadProcess,
    LoadSetup,
    TargetAddress,
    name_users,
    open_http_client,
    start_load_process,
)
from tests.benchmarks.servers.run import machine, percentiles
from tests.servers.downloads import CannotStart, last_lines

Row = dict[str, Any]
ALL = "all"
RATES = (80.0, 40.0, 20.0)  # operations a second that are tried, the highest first
PROBE_SECONDS = 8.0
ALONE_OPERATIONS = 300.0  # of the one client that asks right after each answer
MAX_PROBE_CPU = 0.6  # of a core, in the SDK's process; with HTTP a server and a client more share the cores
MAX_PROBE_LATE_MS = 20.0  # p95 of how late operations begin
EARLY_SECONDS = 10.0  # of load, until the first look at the server's memory
END_SECONDS = 30.0  # until a server that was told to end is gone
GIVE_UP_SECONDS = 60.0  # until a client gives a write up
RETRY_SECONDS = 0.05
GAP_SLACK_SECONDS = 1.0  # after the server is ready, in which a client may hear of a connection that broke before
GONE = (httpx.ConnectError, httpx.ReadError, httpx.WriteError, httpx.CloseError, httpx.RemoteProtocolError)


@dataclass(frozen=True)
class HttpLoadPlan:
    """How much is asked, and what is allowed. The seconds of load are dealt to rounds, in which both ways take turns.

    Without a rate it is found. `growth_mb` is the most that the server may grow in 1,000 requests of the second half,
    `alone_ms` the most that HTTP may add to the median of one client that asks right after each answer.
    """

    clients: int = 50
    users: int = 200
    seconds: float = 120
    rounds: int = 4
    warming: float = 10
    rate: float | None = None
    writers: int = 20
    writing: float = 5  # seconds before a server is ended, and after it is back
    ratio: float = 2.0
    alone_ms: float = 15.0
    growth_mb: float = 10.0
    seed: int = 0


class HttpServer:
    """`agentmem serve` as a process of its own. It may be ended and started again on the same port."""

    def __init__(self, settings: Mapping[str, Any], log: Path, profile: Path | None = None) -> None:
        names = {f"AGENTMEM_{name.upper()}": str(value) for name, value in settings.items()}
        self._environment = {**os.environ, **names, "AGENTMEM_SERVER__REQUESTS_PER_MINUTE": "10000000"}
        self._log, self._profile, self._port = log, profile, 0
        self._process: subprocess.Popen[str] | None = None
        # the system ends a process of `setpriv` with the thread that started it, so that thread must stay
        self._starter = ThreadPoolExecutor(1)

    @property
    def process(self) -> subprocess.Popen[str]:
        """The running process."""
        assert self._process is not None, "it does not run"
        return self._process

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> Self:
        """Start it; CannotStart with the end of its log when it does not listen."""
        return self._starter.submit(self._start).result()

    def _start(self) -> Self:
        with_parent = ["setpriv", "--pdeathsig", "TERM"] if shutil.which("setpriv") else []
        profiler = [] if self._profile is None else ["-m", "cProfile", "-o", str(self._profile)]
        program = str(Path(sys.executable).with_name("agentmem"))
        command = [*with_parent, sys.executable, *profiler, program, "serve", "--port", str(self._port)]
        with self._log.open("a", encoding="utf-8") as log:
            self._process = subprocess.Popen(
                command, env=self._environment, stdout=subprocess.PIPE, stderr=log, text=True
            )
        assert self._process.stdout is not None
        found = re.match(r"serving on http://127\.0\.0\.1:(\d+)", self._process.stdout.readline())
        if found is None:
            self.end(signal.SIGKILL)
            raise CannotStart(f"agentmem serve ended:\n{last_lines(self._log.read_text(encoding='utf-8'))}")
        self._port = int(found[1])
        return self

    def end(self, how: signal.Signals) -> int:
        """End it and wait; its exit code. It is killed when it takes too long."""
        self.process.send_signal(how)
        try:
            self.process.communicate(timeout=END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
        return self.process.returncode

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.end(signal.SIGTERM)
        self._starter.shutdown()


@dataclass
class ServerWatch:
    """The server's memory, processor and connections, looked at each second of load."""

    server: HttpServer
    rows: list[Row] = field(default_factory=list)
    loaded: float = 0.0  # seconds of load in the blocks that are done
    requests: float = 0.0

    def look(self, seconds: float, rate: float) -> None:
        """Add a row, after these seconds of the block that runs."""
        process, port = psutil.Process(self.server.process.pid), int(self.server.url.rpartition(":")[2])
        with process.oneshot():
            megabytes, times = process.memory_info().rss / 2**20, process.cpu_times()
        open_ = [c for c in process.net_connections("tcp") if c.status == psutil.CONN_ESTABLISHED]
        clients = sum(connection.laddr.port == port for connection in open_)
        self.rows.append(
            {
                "seconds": self.loaded + seconds,
                "requests": int(self.requests + rate * seconds),
                "rss_mb": megabytes,
                "client_connections": clients,
                "store_connections": len(open_) - clients,
                "cpu_s": times.user + times.system,
            }
        )

    def run(self, process: LoadProcess, block: LoadBlock) -> BlockResult:
        """Run a block of HTTP while the server is watched."""
        begun = time.perf_counter()
        self.look(0.0, block.rate)
        found = process.run(block, lambda: self.look(min(time.perf_counter() - begun, block.seconds), block.rate))
        self.look(block.seconds, block.rate)
        self.loaded += block.seconds
        self.requests += block.rate * block.seconds
        return found


def summarize_memory(rows: Sequence[Row], seconds: float) -> list[Row]:
    """The server at 10 s, at half and at the end of the load, with its growth in 1,000 requests between them."""
    moments = {"10 s": min(EARLY_SECONDS, seconds / 4), "half": seconds / 2, "end": seconds}
    found: list[Row] = []
    for name, moment in moments.items():
        row = next(row for row in rows if row["seconds"] >= moment - 1e-6)
        if found:
            asked = row["requests"] - found[-1]["requests"]
            grown = (row["rss_mb"] - found[-1]["rss_mb"]) / max(1, asked) * 1000
        else:
            grown = float("nan")
        found.append({"at": name, **row, "growth_mb_per_1000": grown})
    return found


# -- the load


def find_rate(sdk: LoadProcess, plan: HttpLoadPlan, say_: Callable[[str], None]) -> float:
    """The highest of RATES at which the SDK itself begins in time and leaves room on the cores; else the lowest."""
    for rate in RATES:
        found = sdk.run(LoadBlock(plan.clients, PROBE_SECONDS, rate, plan.seed + 1))
        late = percentiles([sample.late for sample in found.samples])["p95_ms"]
        slow = percentiles([sample.seconds for sample in found.samples])["p95_ms"]
        share = found.cpu / found.took
        say_(f"{rate:g}/s by the SDK: {share:.0%} of a core, p95 {slow:.0f} ms, late by {late:.1f} ms")
        if share <= MAX_PROBE_CPU and late <= MAX_PROBE_LATE_MS:
            return rate
    return RATES[-1]


def measure_load(
    plan: HttpLoadPlan, processes: Mapping[str, LoadProcess], server: HttpServer, say_: Callable[[str], None]
) -> Row:
    """Both ways in turns, the first one last in each second round; rows of operations, memory and processor."""
    rate = plan.rate or find_rate(processes["sdk"], plan, say_)
    say_(f"{rate:g} operations a second from {plan.clients} clients")
    warm = LoadBlock(plan.clients, plan.warming, rate, plan.seed + 2)
    for process in processes.values():
        process.run(warm)
    alone = replace(warm, clients=1, seconds=1.0, rate=ALONE_OPERATIONS, are_thinking=False)
    one = compare_ways({way: [process.run(alone)] for way, process in processes.items()})
    watch = ServerWatch(server)
    blocks: dict[str, list[BlockResult]] = {"sdk": [], "http": []}
    for number in range(plan.rounds):
        block = replace(warm, seconds=plan.seconds / plan.rounds, seed=plan.seed + 3 + number)
        for way in ("sdk", "http") if number % 2 == 0 else ("http", "sdk"):
            run = processes["sdk"].run if way == "sdk" else lambda asked: watch.run(processes["http"], asked)
            blocks[way].append(run(block))
            slow = percentiles([sample.seconds for sample in blocks[way][-1].samples])
            say_(f"round {number + 1}, {way}: {slow}")
    memory = summarize_memory(watch.rows, plan.seconds)
    busy = [row["cpu_s"] for row in watch.rows]
    return {
        "rate": rate,
        "latency": compare_ways(blocks),
        "alone": one,
        "memory": memory,
        "processes": [
            *(_summarize_process(way, found) for way, found in blocks.items()),
            {"process": "server", "core_share": (busy[-1] - busy[0]) / plan.seconds},
        ],
    }


def compare_ways(blocks: Mapping[str, Sequence[BlockResult]]) -> list[Row]:
    """A row for each operation, and one for all: both ways, and the ratio of their p95."""
    rows = []
    for operation in (*MIX, ALL):
        row: Row = {"operation": operation}
        for way, found in blocks.items():
            samples = [s for block in found for s in block.samples if operation in (s.operation, ALL)]
            errors = Counter(sample.error for sample in samples if sample.error)
            shown = percentiles([sample.seconds for sample in samples])
            row |= {f"{way} {name}": value for name, value in shown.items()}
            row |= {f"{way} errors": errors.total()} | ({f"{way} error names": dict(errors)} if errors else {})
        ratio = row.get("http p95_ms", float("nan")) / row.get("sdk p95_ms", float("nan"))
        rows.append({**row, "p95 ratio": ratio})
    return rows


def _summarize_process(way: str, blocks: Sequence[BlockResult]) -> Row:
    late = percentiles([sample.late for block in blocks for sample in block.samples])
    share = sum(block.cpu for block in blocks) / sum(block.took for block in blocks)
    return {
        "process": f"{way} clients",
        "core_share": share,
        "late p50_ms": late["p50_ms"],
        "late p95_ms": late["p95_ms"],
    }


# -- a restart while clients write


@dataclass
class RestartWriter:
    """A client that stores turn after turn and repeats each until it is acknowledged."""

    client: httpx.AsyncClient
    user: str
    stopping: asyncio.Event
    acknowledged: dict[str, str] = field(default_factory=dict)  # id by content
    failures: list[tuple[float, str]] = field(default_factory=list)
    repeated: int = 0

    async def write(self) -> None:
        """Write until told to stop, and finish the last write."""
        number = 0
        while not self.stopping.is_set():
            number += 1
            await self._write_one(f"Note {number} of {self.user}.")

    async def _write_one(self, content: str) -> None:
        headers = {"X-Agentmem-User": self.user, "Idempotency-Key": secrets.token_hex(16)}
        body = {"content": content, "conversation_id": "restart"}
        give_up, tries = time.perf_counter() + GIVE_UP_SECONDS, 0
        while time.perf_counter() < give_up:
            tries += 1
            try:
                answer = await self.client.post("/v1/turns", json=body, headers=headers)
            except httpx.HTTPError as error:
                name = type(error).__name__
                self.failures.append((time.perf_counter(), name if isinstance(error, GONE) else f"unexpected {name}"))
            else:
                if answer.status_code == 201:
                    self.acknowledged[content] = answer.json()["id"]
                    self.repeated += tries > 1
                    return
                expected = "" if answer.status_code == 503 else "unexpected "
                self.failures.append((time.perf_counter(), f"{expected}status {answer.status_code}"))
            await asyncio.sleep(RETRY_SECONDS)
        self.failures.append((time.perf_counter(), "unexpected end: gave up"))


async def restart_while_writing(
    plan: HttpLoadPlan, server: HttpServer, key: str, how: signal.Signals, settings: Mapping[str, Any]
) -> Row:
    """End the server while clients write, start it again, and compare the log with what was acknowledged."""
    stopping, marker = asyncio.Event(), secrets.token_hex(3)
    users = name_users(marker, how.name, plan.writers)
    writers = [RestartWriter(open_http_client(server.url, key), user, stopping) for user in users]
    writing = [asyncio.ensure_future(writer.write()) for writer in writers]
    await asyncio.sleep(plan.writing)
    gone = time.perf_counter()
    code = await asyncio.to_thread(server.end, how)
    ended = time.perf_counter()
    await asyncio.to_thread(server.start)
    async with open_http_client(server.url, key) as client:
        (await client.get("/ready")).raise_for_status()
    ready = time.perf_counter()
    await asyncio.sleep(plan.writing)
    stopping.set()
    await asyncio.gather(*writing)
    for writer in writers:
        await writer.client.aclose()
    failures = [failure for writer in writers for failure in writer.failures]
    outside = [name for at, name in failures if not gone <= at <= ready + GAP_SLACK_SECONDS]
    return {
        "signal": how.name,
        "exit_code": code,
        "ended_s": ended - gone,
        "gap_s": ready - gone,
        "acknowledged": sum(len(writer.acknowledged) for writer in writers),
        "repeated": sum(writer.repeated for writer in writers),
        "failures": dict(Counter(name for _, name in failures)),
        "failures_outside_gap": len(outside),
        **await compare_with_log(settings, {writer.user: writer.acknowledged for writer in writers}),
    }


async def compare_with_log(settings: Mapping[str, Any], acknowledged: Mapping[str, Mapping[str, str]]) -> Row:
    """How many acknowledged turns (ids by content, by user) the log lacks, and how many it has more than once."""
    lost = doubled = other = 0
    async with AsyncAgentMemory("load owner", **settings) as memory:
        for user, turns in acknowledged.items():
            stored = await memory.scoped(user_id=user).episodic.get_conversation("restart") if turns else []
            ids, counts = {turn.id for turn in stored}, Counter(turn.content for turn in stored)
            lost += sum(turn_id not in ids for turn_id in turns.values())
            doubled += sum(counts[content] > 1 for content in turns)
            other += sum(content not in turns for content in counts)
    return {"lost": lost, "doubled": doubled, "never_acknowledged": other}


# -- all of it


def run_http_load(
    plan: HttpLoadPlan,
    settings: Mapping[str, Any],
    say_: Callable[[str], None],
    profile: Path | None = None,
) -> Row:
    """The load and the restarts on one memory, which is migrated; the figures as a document."""
    marker, log = secrets.token_hex(3), Path(settings["home"]) / "serve.log"
    key = asyncio.run(_make_key(settings))
    with ExitStack() as running:
        server = running.enter_context(HttpServer(settings, log, profile))
        say_("storing what users have before")
        addresses = {"sdk": TargetAddress(settings), "http": TargetAddress(url=server.url, key=key)}
        setups = {
            way: LoadSetup(address, name_users(marker, way, plan.users), plan.clients, plan.seed)
            for way, address in addresses.items()
        }
        with ExitStack() as loading:
            processes = {way: loading.enter_context(start_load_process(setup)) for way, setup in setups.items()}
            document = {"plan": asdict(plan), "machine": machine(), **measure_load(plan, processes, server, say_)}
        document["restarts"] = []
        for how in (signal.SIGTERM, signal.SIGKILL):
            say_(f"{how.name} while clients write")
            document["restarts"].append(asyncio.run(restart_while_writing(plan, server, key, how, settings)))
    document["violations"] = find_violations(document, plan)
    return document


async def _make_key(settings: Mapping[str, Any]) -> str:
    async with AsyncAgentMemory("load owner", **settings) as memory:
        return (await create_api_key(memory.engine, "*", ["read", "write", "admin"])).secret


def find_violations(document: Mapping[str, Any], plan: HttpLoadPlan) -> list[str]:
    """What was asked for and is not so, a line each."""
    found = []
    for row in document["latency"]:
        name = row["operation"]
        if row["sdk errors"] or row["http errors"]:
            found.append(f"{name}: {row['http errors']} errors by HTTP, {row['sdk errors']} by the SDK")
        if not row["p95 ratio"] <= plan.ratio:
            found.append(f"{name}: p95 by HTTP is {row['p95 ratio']:.2f} times that of the SDK, not {plan.ratio:g}")
    for row in document["alone"]:
        added = row["http p50_ms"] - row["sdk p50_ms"]
        if row["sdk errors"] or row["http errors"] or not added <= plan.alone_ms:
            found.append(
                f"one client, {row['operation']}: HTTP adds {added:.1f} ms at p50, not {plan.alone_ms:g}, or fails"
            )
    growth = document["memory"][-1]["growth_mb_per_1000"]
    if not growth <= plan.growth_mb:
        found.append(f"the server grew by {growth:.1f} MB in 1,000 requests, not {plan.growth_mb:g}")
    for row in document["restarts"]:
        expected = -signal.SIGKILL if row["signal"] == "SIGKILL" else 0
        if row["exit_code"] != expected:
            found.append(f"{row['signal']}: exit code {row['exit_code']}, not {expected}")
        wrong = {name: count for name, count in row["failures"].items() if name.startswith("unexpected")}
        if wrong:
            found.append(f"{row['signal']}: {wrong}")
        found += [
            f"{row['signal']}: {row[name]} {name.replace('_', ' ')}"
            for name in ("failures_outside_gap", "lost", "doubled", "never_acknowledged")
            if row[name]
        ]
        if not row["acknowledged"] or not row["failures"]:
            found.append(f"{row['signal']}: the restart met no write, so nothing was shown")
    return found


def render_document(document: Mapping[str, Any]) -> str:
    """All figures as tables, and the violations."""
    restarts = [{**row, "failures": str(row["failures"])} for row in document["restarts"]]
    parts = {
        f"{document['rate']:g} operations a second, ms from the moment when each was due": document["latency"],
        "One client that asks right after each answer, ms": document["alone"],
        "The server's memory and connections": document["memory"],
        "Processor, of one core; how late clients began": document["processes"],
        "Restarts while clients write": restarts,
    }
    tables = "\n\n".join(f"## {title}\n\n{render_table(rows)}" for title, rows in parts.items())
    violations = "\n".join(f"- {line}" for line in document["violations"]) or "none"
    return f"{tables}\n\n## Violations\n\n{violations}\n"


OPTIONS: Mapping[str, type[int] | type[float]] = {
    "clients": int,
    "users": int,
    "seconds": float,
    "rounds": int,
    "warming": float,
    "rate": float,
    "writers": int,
    "writing": float,
    "seed": int,
}


def parser() -> argparse.ArgumentParser:
    """The arguments."""
    found = argparse.ArgumentParser(prog="python -m tests.benchmarks.servers.http_load", description=__doc__)
    for name, kind in OPTIONS.items():
        found.add_argument(f"--{name}", type=kind, help=f"default {getattr(HttpLoadPlan(), name)}")
    found.add_argument("--json", type=Path, help="also write the figures there")
    found.add_argument("--profile", type=Path, help="run the server under cProfile and write its figures there")
    return found


def main() -> int:
    """Measure and print; 1 when something is violated or a server cannot be had."""
    given = parser().parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that servers and folders go when it is ended
    plan = HttpLoadPlan(**{name: getattr(given, name) for name in OPTIONS if getattr(given, name) is not None})
    try:
        with ExitStack() as running:
            urls = running.enter_context(servers())
            stores = running.enter_context(place(urls))
            home = running.enter_context(tempfile.TemporaryDirectory(prefix="agentmem-bench-"))
            settings = {"home": home, "embedder": "hash", **stores.urls}
            document = run_http_load(plan, settings, say, given.profile)
    except CannotStart as error:
        say(str(error))
        return 1
    print(render_document(document))
    if given.json:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        given.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 1 if document["violations"] else 0


if __name__ == "__main__":
    sys.exit(main())
