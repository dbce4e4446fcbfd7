"""Long work over HTTP: a client that accepts server-sent events is told how far it is, every other gets the result."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from fastapi import Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event

from agentmem.core.jsonable import to_jsonable
from agentmem.core.telemetry import WARNING, ProgressCallback, log_event, no_progress
from agentmem.errors import AgentMemError
from agentmem.server.errors import build_bug_response, build_error_response

EVENT_STREAM = "text/event-stream"
PROGRESS_SECONDS = 0.5  # between two events of progress
KEEPALIVE_SECONDS = 10.0  # between two signs of life where nothing moves on
_QUALITY = re.compile(r"0(\.\d{0,3})?|1(\.0{0,3})?")  # RFC 9110; what has another form is not wanted

LongWork = Callable[[ProgressCallback], Awaitable[Any]]


async def answer_long_work(request: Request, work: LongWork) -> Response:
    """The result of the work as JSON, or with `Accept: text/event-stream` as the last of its events.

    Events are `progress` (stage, done, total), then one `result`, or one `error` with a problem. Who goes away ends it.
    """
    if wants_events(",".join(request.headers.getlist("accept"))):
        return StreamingResponse(_stream_events(work), media_type=EVENT_STREAM, headers={"Cache-Control": "no-store"})
    return JSONResponse(to_jsonable(await work(no_progress)))


def wants_events(accept: str) -> bool:
    """Whether an `Accept` header names the event stream, and likes it no less than JSON. Wildcards ask for JSON."""
    qualities: dict[str, float] = {}
    for each in accept.split(","):
        kind, *parameters = (part.strip().lower() for part in each.split(";"))
        quality = next((text[2:].strip() for text in parameters if text.startswith("q=")), "1")
        qualities[kind] = float(quality) if _QUALITY.fullmatch(quality) else 0.0
    events = qualities.get(EVENT_STREAM, 0.0)
    return events > 0 and events >= qualities.get("application/json", 0.0)


async def _stream_events(work: LongWork) -> AsyncIterator[bytes]:
    loop = asyncio.get_running_loop()
    now: tuple[str, int, int] | None = None

    def note(stage: str, done: int, total: int) -> None:
        nonlocal now
        now = (stage, done, total)

    def note_from_any_thread(stage: str, done: int, total: int) -> None:
        loop.call_soon_threadsafe(note, stage, done, total)

    task = asyncio.ensure_future(work(note_from_any_thread))
    told, silent_since = now, loop.time()
    try:
        while not (await asyncio.wait([task], timeout=PROGRESS_SECONDS))[0]:
            if now != told and now is not None:
                told, silent_since = now, loop.time()
                yield _format_event("progress", dict(zip(("stage", "done", "total"), now, strict=True)))
            elif loop.time() >= silent_since + KEEPALIVE_SECONDS:
                silent_since = loop.time()
                yield KEEPALIVE_COMMENT
        yield _format_outcome(task)
    finally:
        task.cancel()


def _format_outcome(task: asyncio.Future[Any]) -> bytes:
    try:
        return _format_event("result", task.result())
    except AgentMemError as error:
        problem = build_error_response(error)
    except Exception as error:  # noqa: BLE001  its words may quote what was stored
        log_event(WARNING, "request_failed", error=type(error).__name__)
        problem = build_bug_response()
    return format_sse_event(data_str=bytes(problem.body).decode(), event="error")


def _format_event(event: str, value: Any) -> bytes:
    return format_sse_event(data_str=json.dumps(to_jsonable(value), ensure_ascii=False), event=event)
