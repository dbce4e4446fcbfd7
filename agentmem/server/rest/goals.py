"""Goals over HTTP."""

from __future__ import annotations

from fastapi import Request
from pydantic import Field

from agentmem.core.records import Goal
from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.memory.goals import Goals
from agentmem.server.auth import ViewFields, Writer, open_view
from agentmem.server.rest.fields import IdempotencyKey, Moment
from agentmem.server.rest.verbs import VerbRouter

router = VerbRouter("goals", "goals")


class NewGoal(ViewFields):
    """A goal, and where it goes."""

    description: str
    priority: int | None = Field(None, description="1 to 5, 5 is most urgent.")
    deadline: Moment | None = None
    parent_id: str | None = None
    blocked_by: list[str] | None = None


@router.post("/goals", status_code=201)
async def add_goal(request: Request, caller: Writer, body: NewGoal, idempotency_key: IdempotencyKey = None) -> Goal:
    """Store a goal. One with blockers is blocked."""
    goal = body.model_dump(exclude=set(ViewFields.model_fields), exclude_none=True)
    return await open_view(request, caller, body).add_goal(goal, idempotency_key=idempotency_key)


router.verb("GET /goals", Goals.all, "list_goals")
router.verb("GET /goals/{goal_id}", AsyncAgentMemory.get_goal)
router.verb("PATCH /goals/{goal_id}", Goals.update, "update_goal")
router.verb("POST /goals/{goal_id}/progress", Goals.record_progress)
router.verb("POST /goals/{goal_id}/complete", AsyncAgentMemory.complete_goal)
router.verb("POST /goals/{goal_id}/block", Goals.block, "block_goal", drop_null=True, by=(list[str] | None, ()))
router.verb("POST /goals/{goal_id}/unblock", Goals.unblock, "unblock_goal", by=list[str] | None)
router.verb("GET /goals/{goal_id}/sub_goals", Goals.sub_goals, "list_sub_goals")
