"""Procedures, strategies, tools and outcomes over HTTP."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import Field

from agentmem.core.procedural_records import Outcome, Procedure, Strategy, ToolInvocation
from agentmem.core.record import ProcedureStatus
from agentmem.memory.procedural.strategies import StrategyMatch
from agentmem.memory.procedural.tools import ToolStats
from agentmem.server.auth import Reader, ViewFields, ViewQuery, Writer, open_view
from agentmem.server.rest.fields import IdempotencyKey, Moment

router = APIRouter(prefix="/v1", tags=["procedural"])


class NewProcedure(ViewFields):
    """An instruction to propose."""

    instruction: str
    trigger: str = ""
    source_turn_ids: list[str] = Field(default_factory=list)


class Retirement(ViewFields):
    """Why a procedure goes out of force."""

    reason: str = ""


class NewStrategy(ViewFields):
    """A way of doing something, and whether it worked."""

    description: str
    context_pattern: str = Field("", description="When it applies.")
    tool_sequence: list[str] = Field(default_factory=list)
    task_type: str = ""
    success: bool = True
    source_turn_ids: list[str] = Field(default_factory=list)


class StrategyResult(ViewFields):
    """How it went once more."""

    success: bool


class NewInvocation(ViewFields):
    """One call of a tool."""

    tool_name: str
    tool_input: Any = None
    tool_output: Any = None
    success: bool | None = None
    latency_ms: float | None = None
    error_message: str = ""
    turn_id: str | None = None
    task_type: str = ""
    timestamp: Moment | None = None


class NewOutcome(ViewFields):
    """How a conversation or a task ended; see `AsyncAgentMemory.reflect`."""

    outcome: bool | str | dict[str, Any]


@router.get("/procedures")
async def list_procedures(
    request: Request,
    caller: Reader,
    view: ViewQuery,
    status: Annotated[ProcedureStatus | None, Query()] = None,
    limit: Annotated[int, Query(ge=0, le=1000)] = 100,
) -> list[Procedure]:
    """Standing instructions, oldest first: those in force and candidates, or those of one status."""
    return await open_view(request, caller, view).procedural.procedures(status, limit=limit)


@router.post("/procedures", status_code=201)
async def stage_candidate(
    request: Request, caller: Writer, body: NewProcedure, idempotency_key: IdempotencyKey = None
) -> Procedure:
    """Propose an instruction. It is in force once it is accepted."""
    given = body.model_dump(exclude=set(ViewFields.model_fields))
    return await open_view(request, caller, body).procedural.stage_candidate(**given, idempotency_key=idempotency_key)


@router.post("/procedures/{procedure_id}/accept")
async def accept_procedure(
    request: Request, caller: Writer, procedure_id: str, body: ViewFields, idempotency_key: IdempotencyKey = None
) -> Procedure:
    """Put a candidate in force."""
    procedural = open_view(request, caller, body).procedural
    return await procedural.accept_procedure(procedure_id, idempotency_key=idempotency_key)


@router.post("/procedures/{procedure_id}/retire")
async def retire_procedure(
    request: Request, caller: Writer, procedure_id: str, body: Retirement, idempotency_key: IdempotencyKey = None
) -> Procedure:
    """Take a procedure or a candidate out of force."""
    procedural = open_view(request, caller, body).procedural
    return await procedural.retire_procedure(procedure_id, body.reason, idempotency_key=idempotency_key)


@router.get("/strategies")
async def find_strategies(
    request: Request, caller: Reader, view: ViewQuery, task: Annotated[str, Query()], top_k: int = 5
) -> list[StrategyMatch]:
    """Strategies for a task, best first."""
    return await open_view(request, caller, view).procedural.find_strategies(task, top_k)


@router.post("/strategies", status_code=201)
async def learn_strategy(
    request: Request, caller: Writer, body: NewStrategy, idempotency_key: IdempotencyKey = None
) -> Strategy:
    """Store a way of doing something that worked, or one that did not."""
    given = body.model_dump(exclude=set(ViewFields.model_fields) - {"conversation_id"})
    return await open_view(request, caller, body).procedural.learn_strategy(**given, idempotency_key=idempotency_key)


@router.get("/strategies/{strategy_id}")
async def get_strategy(request: Request, caller: Reader, view: ViewQuery, strategy_id: str) -> Strategy:
    """One strategy."""
    return await open_view(request, caller, view).procedural.get_strategy(strategy_id)


@router.post("/strategies/{strategy_id}/reinforce")
async def reinforce_strategy(
    request: Request, caller: Writer, strategy_id: str, body: StrategyResult, idempotency_key: IdempotencyKey = None
) -> Strategy:
    """Count one more success or failure."""
    procedural = open_view(request, caller, body).procedural
    return await procedural.reinforce_strategy(strategy_id, body.success, idempotency_key=idempotency_key)


@router.post("/invocations", status_code=201)
async def record_invocation(
    request: Request, caller: Writer, body: NewInvocation, idempotency_key: IdempotencyKey = None
) -> ToolInvocation:
    """Store one call of a tool."""
    given = body.model_dump(exclude=set(ViewFields.model_fields) - {"conversation_id"})
    return await open_view(request, caller, body).procedural.record_invocation(**given, idempotency_key=idempotency_key)


@router.get("/tools")
async def read_tool_stats(
    request: Request, caller: Reader, view: ViewQuery, task_type: str | None = None
) -> list[ToolStats]:
    """How each tool did, the one called most first."""
    return await open_view(request, caller, view).procedural.tool_stats(task_type)


@router.post("/outcomes", status_code=201)
async def reflect(
    request: Request, caller: Writer, body: NewOutcome, idempotency_key: IdempotencyKey = None
) -> Outcome:
    """Say how a conversation or a task ended."""
    return await open_view(request, caller, body).reflect(body.outcome, idempotency_key=idempotency_key)
