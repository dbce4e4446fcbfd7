"""Schedules over HTTP."""

from __future__ import annotations

from fastapi import APIRouter, Request
from pydantic import Field

from agentmem.core.procedural_records import Schedule
from agentmem.server.auth import Reader, ViewFields, ViewQuery, Writer, open_view
from agentmem.server.rest.fields import IdempotencyKey

router = APIRouter(prefix="/v1", tags=["schedules"])


class NewSchedule(ViewFields):
    """A prompt and its times: either `cron` or `every`. Without a prompt, `every` is a heartbeat."""

    name: str
    cron: str = ""
    prompt: str = ""
    source: str = "user"
    timezone: str = "UTC"
    missed: str = Field("once", description="once or skip: what happens to runs that were missed.")
    every: float | None = Field(None, description="Seconds.")


@router.post("/schedules", status_code=201)
async def add_schedule(
    request: Request, caller: Writer, body: NewSchedule, idempotency_key: IdempotencyKey = None
) -> Schedule:
    """Schedule a prompt by a cron expression, or every so many seconds."""
    given = body.model_dump(exclude=set(ViewFields.model_fields))
    return await open_view(request, caller, body).schedules.add(**given, idempotency_key=idempotency_key)


@router.get("/schedules")
async def list_schedules(request: Request, caller: Reader, view: ViewQuery) -> list[Schedule]:
    """Schedules by name, paused ones too."""
    return await open_view(request, caller, view).schedules.list()


@router.get("/schedules/{name}")
async def get_schedule(request: Request, caller: Reader, view: ViewQuery, name: str) -> Schedule:
    """One schedule."""
    return await open_view(request, caller, view).schedules.get(name)


@router.post("/schedules/{name}/pause")
async def pause_schedule(
    request: Request, caller: Writer, name: str, body: ViewFields, idempotency_key: IdempotencyKey = None
) -> Schedule:
    """Let a schedule stand still."""
    return await open_view(request, caller, body).schedules.pause(name, idempotency_key=idempotency_key)


@router.post("/schedules/{name}/resume")
async def resume_schedule(
    request: Request, caller: Writer, name: str, body: ViewFields, idempotency_key: IdempotencyKey = None
) -> Schedule:
    """Let a paused schedule go on."""
    return await open_view(request, caller, body).schedules.resume(name, idempotency_key=idempotency_key)


@router.delete("/schedules/{name}")
async def remove_schedule(
    request: Request, caller: Writer, view: ViewQuery, name: str, idempotency_key: IdempotencyKey = None
) -> Schedule:
    """Take a schedule away."""
    return await open_view(request, caller, view).schedules.remove(name, idempotency_key=idempotency_key)
