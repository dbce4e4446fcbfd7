"""What the server tells of itself: metrics for Prometheus, one event per request in the log, trace context.

Routes stand there as templates: no ids, no queries, no users.
"""

from __future__ import annotations

import secrets

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from structlog.contextvars import bound_contextvars

from agentmem.core.clock import Stopwatch, SystemClock
from agentmem.core.telemetry import INFO, log_event
from agentmem.engine.engine import Engine
from agentmem.jobs.process_metrics import render_metrics
from agentmem.server.tracing import read_trace_parent

METRICS_TYPE = CONTENT_TYPE_LATEST
MCP_PATH = "/mcp"  # its route is none of the framework's
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
CLIENT_GONE = 499  # as other servers log a request whose client went away before the answer
SECONDS_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class ServerMetrics:
    """Counts of requests by method, route and status, how long they took, and how many are under way."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        labels = ["method", "route"]
        self.requests = Counter("agentmem_http_requests", "Requests answered", [*labels, "status"], registry=registry)
        self.seconds = Histogram(
            "agentmem_http_request_seconds",
            "Time from a request to the end of its answer",
            labels,
            buckets=SECONDS_BUCKETS,
            registry=registry,
        )
        self.under_way = Gauge("agentmem_http_requests_in_progress", "Requests under way", registry=registry)

    async def render(self, engine: Engine) -> bytes:
        """All of it in Prometheus's text format, and what the process tells of its memory."""
        return generate_latest(self._registry) + (await render_metrics(engine)).encode()


class RequestObserver:
    """ASGI middleware around all others: counts each request, logs it, and gives its events the trace of its caller."""

    def __init__(self, app: ASGIApp, metrics: ServerMetrics) -> None:
        self.app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on. Its answer carries `traceparent` with the trace of the request, or a new one."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        trace_id, flags = read_trace_parent(Headers(scope=scope).get("traceparent"))
        answered = f"00-{trace_id}-{secrets.token_hex(8)}-{flags}"
        status, watch = CLIENT_GONE, Stopwatch(SystemClock())

        async def send_traced(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["traceparent"] = answered
            await send(message)

        self._metrics.under_way.inc()
        with bound_contextvars(trace_id=trace_id):
            try:
                await self.app(scope, receive, send_traced)
            except Exception:
                status = 500
                raise
            finally:
                self._metrics.under_way.dec()
                self._note(scope, status, watch.milliseconds())

    def _note(self, scope: Scope, status: int, milliseconds: float) -> None:
        method = scope["method"] if scope["method"] in METHODS else "other"
        route = getattr(scope.get("route"), "path", MCP_PATH if scope["path"] == MCP_PATH else "none")
        self._metrics.requests.labels(method, route, str(status)).inc()
        self._metrics.seconds.labels(method, route).observe(milliseconds / 1000)
        caller = scope.get("state", {}).get("caller")
        key = None if caller is None else caller.key_id
        log_event(INFO, "request", method=method, route=route, status=status, ms=round(milliseconds, 1), key=key)
