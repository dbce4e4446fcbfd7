"""What a worker shows of itself: /health and /metrics (Prometheus) over HTTP, and a file that is touched.

Names of users and text never stand there, only counts, times and the names of jobs, kinds and techniques.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from threading import Thread
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from agentmem.errors import AgentMemError, ConfigError
from agentmem.jobs.process_metrics import GaugeFamily, read_process_metrics
from agentmem.jobs.runner import OPERATOR, RunReport, read_last_reports
from agentmem.jobs.worker import ConsolidationWorker

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric

STORE_TIMEOUT_SECONDS = 5.0  # the stores are asked for so long
MAX_MISSED_INTERVALS = 5  # intervals of the most frequent job without a run before a worker counts as hanging
MIN_ALLOWED_SILENCE_SECONDS = 60.0

StartResponse = Callable[[str, list[tuple[str, str]]], object]
WSGIApplication = Callable[[dict[str, Any], StartResponse], Iterable[bytes]]


@dataclass(frozen=True, slots=True)
class Health:
    """Whether a worker is well, and if not, why."""

    is_healthy: bool
    reason: str = ""


def check_health(worker: ConsolidationWorker, now: float) -> Health:
    """Well is who ended a run lately. `now` is by the clock of the loop, in seconds."""
    if worker.last_run is None:
        return Health(False, "no run has ended yet")
    allowed = max(MIN_ALLOWED_SILENCE_SECONDS, MAX_MISSED_INTERVALS * min(map(worker.interval_seconds, worker.jobs)))
    silent = now - worker.last_run
    return Health(True) if silent <= allowed else Health(False, f"no run has ended for {silent:,.0f} s")


class Monitor:
    """Counts what a worker reports, and answers on a port in a thread of its own.

    Pass `record_run` as the worker's `on_report`. Raises ConfigError without the package prometheus-client.
    """

    def __init__(self) -> None:
        prometheus = _import_prometheus()
        self.registry: CollectorRegistry = prometheus.CollectorRegistry()
        made = {"registry": self.registry}
        counter = prometheus.Counter
        self._runs = counter("agentmem_job_runs", "Runs of a job that came to an end", ["job"], **made)
        self._failures = counter("agentmem_job_failures", "Users for whom a run of a job failed", ["job"], **made)
        self._users = counter("agentmem_job_users", "Users served by a job", ["job"], **made)
        self._records = counter("agentmem_job_records", "What a job wrote, moved or took away", ["job", "what"], **made)
        self._calls = counter("agentmem_llm_calls", "Calls of language models", ["job"], **made)
        self._tokens = counter("agentmem_llm_tokens", "Tokens sent to language models and back", ["job"], **made)
        self._cost = counter("agentmem_llm_cost_dollars", "Known prices of those calls", ["job"], **made)
        self._seconds = prometheus.Histogram(
            "agentmem_job_seconds", "Duration of runs", ["job"], buckets=(0.1, 1, 10, 60, 600, 3600), **made
        )
        self._server: WSGIServer | None = None

    def record_run(self, report: RunReport) -> None:
        """Add a run."""
        self._runs.labels(report.job).inc()
        self._failures.labels(report.job).inc(len(report.failed))
        self._users.labels(report.job).inc(report.users)
        for what, number in report.counts.items():
            self._records.labels(report.job, what).inc(max(0, number))
        self._calls.labels(report.job).inc(report.calls)
        self._tokens.labels(report.job).inc(report.tokens)
        self._cost.labels(report.job).inc(report.cost)
        self._seconds.labels(report.job).observe(report.seconds)

    def open(self, worker: ConsolidationWorker, host: str, port: int) -> int:
        """Answer /health and /metrics from now on; returns the port, a free one for 0.

        Raises ConfigError for a port that is taken.
        """
        self.registry.register(_StoreCollector(worker, asyncio.get_running_loop()))
        try:
            self._server = make_server(host, port, _build_application(self, worker), handler_class=_QuietRequestHandler)
        except OSError as error:
            raise ConfigError(f"worker.port: cannot listen on {host}:{port}: {error.strerror}") from error
        Thread(target=self._server.serve_forever, name="agentmem-monitor", daemon=True).start()
        return int(self._server.server_port)

    def close(self) -> None:
        """Stop answering."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None


def _build_application(monitor: Monitor, worker: ConsolidationWorker) -> WSGIApplication:
    metrics = _import_prometheus().make_wsgi_app(monitor.registry)
    clock = asyncio.get_running_loop().time

    def answer(environ: dict[str, Any], start: StartResponse) -> Iterable[bytes]:
        if environ.get("PATH_INFO") == "/metrics":
            return metrics(environ, start)  # type: ignore[no-any-return]
        if environ.get("PATH_INFO") != "/health":
            start("404 Not Found", [("Content-Type", "text/plain")])
            return [b"/health or /metrics\n"]
        found = check_health(worker, clock())
        start("200 OK" if found.is_healthy else "503 Service Unavailable", [("Content-Type", "application/json")])
        return [json.dumps({"well": found.is_healthy, "reason": found.reason, "jobs": list(worker.jobs)}).encode()]

    return answer


class _QuietRequestHandler(WSGIRequestHandler):
    def log_message(self, *arguments: object) -> None:
        """Say nothing: probes ask every few seconds."""


class _StoreCollector:
    """Reads sizes, lag and waiting times from the stores whenever somebody asks for metrics."""

    def __init__(self, worker: ConsolidationWorker, loop: asyncio.AbstractEventLoop) -> None:
        self._worker = worker
        self._loop = loop

    def describe(self) -> list[Metric]:
        """Nothing: the registry would ask the stores for it, from the loop's own thread."""
        return []

    def collect(self) -> Iterator[Metric]:
        """The gauges; that the stores are away is one of them."""
        from prometheus_client.core import GaugeMetricFamily

        try:
            found = asyncio.run_coroutine_threadsafe(self._read_gauges(), self._loop).result(STORE_TIMEOUT_SECONDS)
        except (AgentMemError, TimeoutError):
            yield GaugeMetricFamily("agentmem_up", "Whether the stores answered", 0)
            return
        for family in found:
            gauge = GaugeMetricFamily(family.name, family.text, labels=[family.label] if family.label else [])
            for key, value in family.values.items():
                gauge.add_metric([key] if family.label else [], value)
            yield gauge

    async def _read_gauges(self) -> list[GaugeFamily]:
        engine, jobs = self._worker.engine, self._worker.jobs
        waits = {name: await self._read_wait_seconds(name) for name in jobs if jobs[name].trigger == "changes"}
        reports = await read_last_reports(engine, list(jobs))
        names = [projection.name for projection in engine.vector_projections]
        names += [] if engine.graph_projection is None else [engine.graph_projection.name]
        behind = dict.fromkeys(names, 0.0)
        for lag in await engine.admin.lagging_projections(names, OPERATOR):
            behind[lag.projection] += lag.lag
        served = {name: float(said["users"]) for name, said in reports.items()}
        return [
            *await read_process_metrics(engine),
            GaugeFamily("agentmem_job_wait_seconds", "How long who waits longest for a job has waited", "job", waits),
            GaugeFamily("agentmem_job_last_users", "Users served by the last run", "job", served),
            GaugeFamily("agentmem_projection_behind", "Changes a projection has still to apply", "projection", behind),
        ]

    async def _read_wait_seconds(self, job: str) -> float:
        first = await self._worker.engine.job_queue.queue(job, OPERATOR, 1)
        due = first[0].due_at if first else None
        return 0.0 if due is None else max(0.0, (self._worker.engine.clock.now() - due).total_seconds())


def _import_prometheus() -> Any:
    try:
        import prometheus_client
    except ImportError as error:
        raise ConfigError("metrics need prometheus-client; run: pip install 'agentmem-graph[worker]'") from error
    return prometheus_client
