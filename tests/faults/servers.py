"""Each server is killed, paused and cut off at every step of the write path: nothing is lost, all catches up by itself.

python -m tests.faults.servers --rounds 10

One client per step. All of them stand still, each at its own step, when the fault begins, so one kill serves a whole
column. They are opened once and outlive all faults. When the store is back, nobody helps: clients only go on writing.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from agentmem.stores.postgres import write
from tests.faults import servers_checks, servers_killed
from tests.faults.servers_client import IDLE, SLOW_INTERVAL_SECONDS, TIMEOUT_SECONDS, Client, ClientLog
from tests.servers.local import LocalServer
from tests.servers.neo4j import Neo4j
from tests.servers.postgres import Postgres
from tests.servers.proxy import HALF_OPEN, PASS, REFUSED, RESET, SLOW, Proxy
from tests.servers.redis import Redis
from tests.servers.stack import prepare

STEPS = ("append: before", *write.STEPS, "vectors: before", "graph: before", "session: before", IDLE)
KILLED, PAUSED = "killed", "paused"
FAULTS = (KILLED, PAUSED, RESET, SLOW, HALF_OPEN, REFUSED)
SETTINGS = {"postgres": "log_url", "neo4j": "graph_url", "redis": "session_url"}
POLL_SECONDS = 0.05
STANDSTILL_SECONDS = 4.0  # seconds that a client may stand still before its own time limits count against it
DURABLE = {"fsync": "on"}


@dataclass(frozen=True, slots=True)
class CellResult:
    """What one client saw of one fault: writes acknowledged and refused, the longest answer, and how it ended."""

    store: str
    fault: str
    step: str
    acknowledged: int
    refused: int
    max_seconds: float
    seconds: float  # from the end of the fault until all had caught up
    failures: tuple[str, ...] = ()

    def __str__(self) -> str:
        said = "; ".join(self.failures) or "ok"
        return (
            f"{self.store:9} {self.fault:10} {self.step:16} {self.acknowledged:12} {self.refused:7} "
            f"{self.max_seconds:8.1f} {self.seconds:9.1f}  {said}"
        )


HEAD = f"{'store':9} {'fault':10} {'step':16} acknowledged refused  longest recovered  verdict"


@dataclass(frozen=True, slots=True)
class StoreUnderTest:
    """The store under test, with a proxy between it and the clients."""

    store: str
    server: LocalServer
    proxy: Proxy

    def begin(self, fault: str) -> None:
        """Let the fault happen."""
        if fault == KILLED:
            self.server.kill()
        elif fault == PAUSED:
            self.server.pause()
        else:
            self.proxy.switch(fault)

    def end(self, fault: str) -> None:
        """Bring the store back; it answers when this returns."""
        if fault == KILLED:
            self.server.start()
        elif fault == PAUSED:
            self.server.resume()
        else:
            self.proxy.switch(PASS)


def run_matrix(
    store: str,
    server: LocalServer,
    urls: Mapping[str, str],
    home: Path,
    *,
    faults: Sequence[str] = FAULTS,
    steps: Sequence[str] = STEPS,
) -> Iterator[CellResult]:
    """All cells of a store, fault by fault. `urls` are those of all three, without the proxy."""
    with Proxy(server.port) as proxy:
        through = server.url.replace(f":{server.port}", f":{proxy.port}")
        with _clients(steps, {**urls, SETTINGS[store]: through}, home) as clients:
            for fault in faults:
                yield from _run_fault(StoreUnderTest(store, server, proxy), fault, clients)


@contextmanager
def _clients(steps: Sequence[str], urls: Mapping[str, str], home: Path) -> Iterator[list[Client]]:
    mark, clients = os.urandom(4).hex(), []
    try:
        for step in steps:
            clients.append(Client(servers_checks.build_memory(f"{step} {mark}", dict(urls), home), step))
            clients[-1].do(clients[-1].open()).result(TIMEOUT_SECONDS)
        yield clients
    finally:
        for closing in [client.do(client.close()) for client in clients]:
            closing.result(TIMEOUT_SECONDS)
        for client in clients:
            client.stop()


def _run_fault(field: StoreUnderTest, fault: str, clients: Sequence[Client]) -> list[CellResult]:
    """One fault, with each client at its step when it begins."""
    for client in clients:
        client.gate.arm()
        client.do(client.begin())  # not waited for: it may come to its step at once
    armed = time.monotonic()
    arrived = _wait_until(lambda: all(client.gate.reached.is_set() for client in clients))
    late = [client.step for client in clients if not client.gate.reached.is_set()] if not arrived else []
    field.begin(fault)
    began = time.monotonic()
    judged = armed if began - armed < STANDSTILL_SECONDS else began
    try:
        for client in clients:
            client.gate.open()
        enough = _has_refused if field.store == "postgres" and fault != SLOW else _has_served
        _wait_until(lambda: all(enough(client.log, began) for client in clients))
        time.monotonic()
        for client in clients:
            client.interval = SLOW_INTERVAL_SECONDS
    finally:
        field.end(fault)
    back = time.monotonic()
    recovered = [client.do(_check_recovery(client, back)) for client in clients]
    cells = []
    for client, recovery in zip(clients, recovered, strict=True):
        seconds, wrong = recovery.result(3 * TIMEOUT_SECONDS)
        wrong = [*(["the step was not reached"] if client.step in late else []), *wrong]
        if not enough(client.log, began):
            wrong.append("gave no answer while the store was away")
        wrong += _verdict(field.store, _since(client.log, judged))
        tries = client.log.writes + client.log.recalls
        refused = sum(bool(write.error) for write in client.log.writes)
        longest = max((each.ended - max(each.began, began) for each in tries if each.ended > began), default=0.0)
        acknowledged = len(client.log.writes) - refused
        cells.append(CellResult(field.store, fault, client.step, acknowledged, refused, longest, seconds, tuple(wrong)))
    return cells


def _wait_until(holds: Callable[[], bool]) -> bool:
    give_up = time.monotonic() + TIMEOUT_SECONDS
    while not holds():
        if time.monotonic() > give_up:
            return False
        time.sleep(POLL_SECONDS)
    return True


async def _check_recovery(client: Client, back: float) -> tuple[float, list[str]]:
    """Seconds until all had caught up, and what does not hold afterwards."""
    try:
        await client.end()
        await client.wait_until_synced()
        seconds = time.monotonic() - back
        await client.check_with_retry()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is this cell's verdict
        return time.monotonic() - back, [*client.log.failures, f"{type(error).__name__}: {error}"]
    return seconds, client.log.failures


def _has_served(notes: ClientLog, began: float) -> bool:
    """A write was acknowledged since, and a recall asked after that was answered."""
    first = min((write.ended for write in notes.writes if write.began > began and not write.error), default=None)
    return first is not None and any(recall.began > first for recall in notes.recalls)


def _has_refused(notes: ClientLog, began: float) -> bool:
    """A write was refused since, and a recall got its answer, too."""
    refused = any(write.ended > began and write.error for write in notes.writes)
    return refused and any(recall.began > began for recall in notes.recalls)


def _since(notes: ClientLog, moment: float) -> ClientLog:
    """What began after a moment."""
    return ClientLog(*([each for each in tries if each.began > moment] for tries in (notes.writes, notes.recalls)))


def _verdict(store: str, notes: ClientLog) -> list[str]:
    """What should not have happened while the store was away."""
    if store == "postgres":
        return []
    wrong = [f"a write failed: {write.error}" for write in notes.writes if write.error]
    wrong += [f"a recall failed: {recall.error}" for recall in notes.recalls if recall.error]
    return wrong


def killed_clients(
    urls: Mapping[str, str], home: Path, number: int = 0, steps: Sequence[str] = servers_killed.STEPS
) -> Iterator[CellResult]:
    """The cells of clients that are killed; `number` chooses at which occurrence of each step."""
    those = [servers_killed.kill(step, servers_killed.occurrence(step, number), urls, home) for step in steps]
    for killed, seconds, wrong in asyncio.run(servers_killed.check_all(those, urls, home)):
        found = (wrong,) if wrong else ()
        yield CellResult("client", KILLED, killed.step, len(killed.acknowledged), 0, 0.0, seconds, found)


def _run(arguments: argparse.Namespace) -> Iterator[CellResult]:
    with ExitStack() as opened:
        postgres, neo4j, redis = (
            opened.enter_context(server) for server in (Postgres(settings=DURABLE), Neo4j(), Redis())
        )
        home = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="agentmem-faults-")))
        asyncio.run(prepare(postgres.url, neo4j.url, None))
        urls = {"log_url": postgres.url, "graph_url": neo4j.url, "session_url": redis.url}
        servers: dict[str, LocalServer] = {"postgres": postgres, "neo4j": neo4j, "redis": redis}
        chosen = {"faults": arguments.fault or FAULTS, "steps": arguments.step or STEPS}
        for number in range(arguments.rounds):
            for store in arguments.store or servers:
                if store in servers:
                    yield from run_matrix(store, servers[store], urls, home, **chosen)
            if not arguments.store or "client" in arguments.store:
                yield from killed_clients(urls, home, number)


def main(given: list[str] | None = None) -> int:
    """Run the matrix and print it; 1 when a cell failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.servers", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=1, help="how often (1)")
    parser.add_argument(
        "--store", action="append", choices=[*SETTINGS, "client"], help="only this one; may be repeated"
    )
    parser.add_argument("--fault", action="append", choices=FAULTS, help="only this one; may be repeated")
    parser.add_argument("--step", action="append", choices=STEPS, help="only this one; may be repeated")
    arguments = parser.parse_args(given)
    logging.disable(logging.CRITICAL)  # what drivers say of lost connections is no news here
    print(HEAD)
    count = failed = 0
    for cell in _run(arguments):
        print(cell, flush=True)
        count, failed = count + 1, failed + bool(cell.failures)
    print(f"{count} cells, {failed} failed. Each fault fell once per store and round, on all its steps together.")
    return 1 if failed or not count else 0


if __name__ == "__main__":
    sys.exit(main())
