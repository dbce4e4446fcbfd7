"""Goals over HTTP."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import Field

from agentmem.core.record import FinalGoalStatus, GoalStatus
from agentmem.core.records import Goal
from agentmem.memory.goals import GoalNode
from agentmem.server.auth import Reader, RequestBody, ViewFields, ViewQuery, Writer, open_view
from agentmem.server.rest.fields import IdempotencyKey, Moment

router = APIRouter(prefix="/v1", tags=["goals"])


class GoalDetails(RequestBody):
    """What may be said of a goal."""

    priority: int | None = Field(None, description="1 to 5, 5 is most urgent.")
    deadline: Moment | None = None
    parent_id: str | None = None


class NewGoal(ViewFields, GoalDetails):
    """A goal, and where it goes."""

    description: str
    blocked_by: list[str] | None = None


class GoalUpdate(ViewFields, GoalDetails):
    """What changes; null takes a deadline or a parent away."""

    description: str | None = None
    progress: float | None = Field(None, description="0 to 1.")


class GoalProgress(ViewFields):
    """How far a goal has come."""

    progress: float = Field(description="0 to 1.")
    note: str = ""


class GoalEnd(ViewFields):
    """How a goal ended."""

    status: FinalGoalStatus = "completed"
    result: str = ""
    cascade: bool = Field(False, description="Abandon its open sub-goals.")


class GoalBlockers(ViewFields):
    """What a goal waits for; null with unblock: for nothing any more."""

    by: list[str] | None = None


@router.post("/goals", status_code=201)
async def add_goal(request: Request, caller: Writer, body: NewGoal, idempotency_key: IdempotencyKey = None) -> Goal:
    """Store a goal. One with blockers is blocked."""
    goal = body.model_dump(include={"description", "blocked_by", *GoalDetails.model_fields}, exclude_none=True)
    return await open_view(request, caller, body).add_goal(goal, idempotency_key=idempotency_key)


@router.get("/goals")
async def list_goals(
    request: Request,
    caller: Reader,
    view: ViewQuery,
    status: Annotated[GoalStatus | None, Query()] = None,
) -> list[Goal]:
    """Goals: open first, most urgent first."""
    return await open_view(request, caller, view).goals.all(status)


@router.get("/goals/{goal_id}")
async def get_goal(request: Request, caller: Reader, view: ViewQuery, goal_id: str) -> Goal:
    """One goal."""
    return await open_view(request, caller, view).get_goal(goal_id)


@router.patch("/goals/{goal_id}")
async def update_goal(
    request: Request, caller: Writer, goal_id: str, body: GoalUpdate, idempotency_key: IdempotencyKey = None
) -> Goal:
    """Change an open goal."""
    given = body.model_dump(exclude=set(ViewFields.model_fields), exclude_unset=True)
    return await open_view(request, caller, body).goals.update(goal_id, idempotency_key=idempotency_key, **given)


@router.post("/goals/{goal_id}/progress")
async def record_progress(
    request: Request, caller: Writer, goal_id: str, body: GoalProgress, idempotency_key: IdempotencyKey = None
) -> Goal:
    """Note how far an open goal has come."""
    goals = open_view(request, caller, body).goals
    return await goals.record_progress(goal_id, body.progress, body.note, idempotency_key=idempotency_key)


@router.post("/goals/{goal_id}/complete")
async def complete_goal(
    request: Request, caller: Writer, goal_id: str, body: GoalEnd, idempotency_key: IdempotencyKey = None
) -> Goal:
    """End a goal, with what came of it."""
    memory = open_view(request, caller, body)
    return await memory.complete_goal(
        goal_id, body.status, body.result, cascade=body.cascade, idempotency_key=idempotency_key
    )


@router.post("/goals/{goal_id}/block")
async def block_goal(
    request: Request, caller: Writer, goal_id: str, body: GoalBlockers, idempotency_key: IdempotencyKey = None
) -> Goal:
    """Let an open goal wait for others."""
    goals = open_view(request, caller, body).goals
    return await goals.block(goal_id, body.by or [], idempotency_key=idempotency_key)


@router.post("/goals/{goal_id}/unblock")
async def unblock_goal(
    request: Request, caller: Writer, goal_id: str, body: GoalBlockers, idempotency_key: IdempotencyKey = None
) -> Goal:
    """Let a goal wait no longer for these, or for none."""
    goals = open_view(request, caller, body).goals
    return await goals.unblock(goal_id, body.by, idempotency_key=idempotency_key)


@router.get("/goals/{goal_id}/sub_goals")
async def list_sub_goals(
    request: Request, caller: Reader, view: ViewQuery, goal_id: str, depth: int = 5
) -> list[GoalNode]:
    """The goals below a goal, as a tree."""
    return await open_view(request, caller, view).goals.sub_goals(goal_id, depth)
