"""Working memory over HTTP: what the running conversation has at hand. Name it with `conversation_id`."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field

from agentmem.core.records import Goal, Turn
from agentmem.server.auth import Reader, ViewFields, ViewQuery, Writer, open_view

router = APIRouter(prefix="/v1/working", tags=["working"])


class NewValue(ViewFields):
    """A value to keep under a key."""

    value: Any
    ttl: float | None = Field(None, description="Seconds.")


class KeptValue(BaseModel):
    """What is kept under a key; null when there is none."""

    value: Any


class NewThought(ViewFields):
    """Something to note."""

    thought: str


class ActiveGoal(ViewFields):
    """The goal that the conversation pursues; null for none."""

    goal_id: str | None


@router.get("/turns")
async def list_working_turns(
    request: Request, caller: Reader, view: ViewQuery, limit: Annotated[int, Query(ge=1, le=1000)] = 10
) -> list[Turn]:
    """The last turns of the conversation, oldest first."""
    return await open_view(request, caller, view).working.turns(limit)


@router.get("/values")
async def read_values(request: Request, caller: Reader, view: ViewQuery) -> dict[str, Any]:
    """All values by key."""
    return await open_view(request, caller, view).working.context()


@router.get("/values/{key}")
async def get_value(request: Request, caller: Reader, view: ViewQuery, key: str) -> KeptValue:
    """The value under a key."""
    return KeptValue(value=await open_view(request, caller, view).working.get(key))


@router.put("/values/{key}", status_code=204)
async def set_value(request: Request, caller: Writer, key: str, body: NewValue) -> None:
    """Keep a value."""
    await open_view(request, caller, body).working.set(key, body.value, body.ttl)


@router.delete("/values/{key}", status_code=204)
async def delete_value(request: Request, caller: Writer, view: ViewQuery, key: str) -> None:
    """Drop a value; nothing happens when there is none."""
    await open_view(request, caller, view).working.delete(key)


@router.get("/thoughts")
async def list_thoughts(
    request: Request, caller: Reader, view: ViewQuery, limit: Annotated[int, Query(ge=1, le=100)] = 10
) -> list[str]:
    """The last thoughts, oldest first."""
    return await open_view(request, caller, view).working.thoughts(limit)


@router.post("/thoughts", status_code=204)
async def push_thought(request: Request, caller: Writer, body: NewThought) -> None:
    """Note a thought; the last 100 are kept."""
    await open_view(request, caller, body).working.push_thought(body.thought)


@router.get("/goal")
async def get_active_goal(request: Request, caller: Reader, view: ViewQuery) -> Goal | None:
    """The goal that the conversation pursues; null for none."""
    return await open_view(request, caller, view).working.active_goal()


@router.put("/goal")
async def set_active_goal(request: Request, caller: Writer, body: ActiveGoal) -> Goal | None:
    """Make an open goal the one that the conversation pursues."""
    return await open_view(request, caller, body).working.set_active_goal(body.goal_id)


@router.delete("", status_code=204)
async def clear_working_memory(request: Request, caller: Writer, view: ViewQuery) -> None:
    """Forget values and thoughts of the conversation; turns stay in episodic memory."""
    await open_view(request, caller, view).working.clear()
