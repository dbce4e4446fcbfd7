"""Whether the server lives, and whether its stores answer. Open to everybody who reaches it."""

from __future__ import annotations

from fastapi import APIRouter, Request
from pydantic import BaseModel

from agentmem.facade.async_memory import AsyncAgentMemory

router = APIRouter(tags=["health"])


class HealthAnswer(BaseModel):
    """All is well, or the answer is a problem."""

    status: str = "ok"


@router.get("/health")
async def check_health() -> HealthAnswer:
    """The process answers."""
    return HealthAnswer()


@router.get("/ready")
async def check_readiness(request: Request) -> HealthAnswer:
    """The log answers, too; 503 while it is away."""
    memory: AsyncAgentMemory = request.app.state.memory
    await memory.engine.log.meta()
    return HealthAnswer()
