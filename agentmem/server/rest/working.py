"""Working memory over HTTP: what the running conversation has at hand. Name it with `conversation_id`."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Request
from pydantic import BaseModel, Field

from agentmem.memory.working.memory import WorkingMemory
from agentmem.server.auth import Reader, ViewQuery, open_view
from agentmem.server.rest.fields import PageSize
from agentmem.server.rest.verbs import VerbRouter

router = VerbRouter("working", "working")


class KeptValue(BaseModel):
    """What is kept under a key; null when there is none."""

    value: Any


router.verb("GET /working/turns", WorkingMemory.turns, "list_working_turns", limit=PageSize)
router.verb("GET /working/values", WorkingMemory.context, "read_values")


@router.get("/working/values/{key}")
async def get_value(request: Request, caller: Reader, view: ViewQuery, key: str) -> KeptValue:
    """The value under a key."""
    return KeptValue(value=await open_view(request, caller, view).working.get(key))


router.verb("PUT /working/values/{key}", WorkingMemory.set, "set_value")
router.verb("DELETE /working/values/{key}", WorkingMemory.delete, "delete_value")
router.verb("GET /working/thoughts", WorkingMemory.thoughts, "list_thoughts", limit=Annotated[int, Field(ge=1, le=100)])
router.verb("POST /working/thoughts", WorkingMemory.push_thought)
router.verb("GET /working/goal", WorkingMemory.active_goal, "get_active_goal")
router.verb("PUT /working/goal", WorkingMemory.set_active_goal, idempotency_key=None)
router.verb("DELETE /working", WorkingMemory.clear, "clear_working_memory")
