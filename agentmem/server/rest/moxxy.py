"""The memory routes of Moxxy agents, as their document has them: an agent's name in the path, its channel behind it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel

from agentmem.core.records import Fact
from agentmem.core.scope import self_channel
from agentmem.errors import NotFound
from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.server.auth import Reader, ViewFields, Writer, open_view
from agentmem.server.callers import Caller

router = APIRouter(prefix="/api/agents/{name}", tags=["moxxy"])

DEFAULT_RESULTS = 5
DEFAULT_WINDOW = 20

Limit = Annotated[int, Query(ge=1, le=100)]


class WindowMessage(BaseModel):
    """One turn of short-term memory."""

    role: str
    content: str
    created_at: datetime | None


class WindowAnswer(BaseModel):
    """The latest turns, oldest first."""

    success: bool = True
    messages: list[WindowMessage]


class LongTermResult(BaseModel):
    """One fact."""

    id: str
    content: str
    created_at: datetime | None
    score: float


class LongTermAnswer(BaseModel):
    """Facts, best first; without a query the latest ones, latest first."""

    success: bool = True
    results: list[LongTermResult]


class LongTermQuery(BaseModel, strict=True):
    """What to look for."""

    query: str
    limit: int = DEFAULT_RESULTS


class LongTermEntry(BaseModel, strict=True):
    """What to keep."""

    content: str


class EntryAnswer(BaseModel):
    """Under which id it is kept."""

    success: bool = True
    id: str


class ClearAnswer(BaseModel):
    """How many records were forgotten; `undo` of the operation brings them back."""

    success: bool = True
    forgotten: int
    operation_id: str | None = None


class SessionAnswer(BaseModel):
    """The session and the conversation to go on in."""

    success: bool = True
    session_id: str
    conversation_id: str


@router.get("/memory/stm")
async def read_window(request: Request, caller: Reader, name: str, limit: Limit = DEFAULT_WINDOW) -> WindowAnswer:
    """Short-term memory: the agent's latest turns. `POST /v1/turns` with its `agent_id` adds to them."""
    turns = await _open_agent(request, caller, name).episodic.recent_turns(limit)
    return WindowAnswer(
        messages=[WindowMessage(role=turn.role, content=turn.content, created_at=turn.timestamp) for turn in turns]
    )


@router.get("/memory/ltm")
async def list_long_term(
    request: Request, caller: Reader, name: str, query: str = "", limit: Limit = DEFAULT_RESULTS
) -> LongTermAnswer:
    """Long-term memory: facts for a query, or the latest ones."""
    memory = _open_agent(request, caller, name)
    if query.strip():
        return await _search(memory, query, limit)
    latest = (await memory.semantic.facts())[-limit:]
    return LongTermAnswer(results=[_describe(fact, 0.0) for fact in reversed(latest)])


@router.post("/memory/ltm/search")
async def search_long_term(request: Request, caller: Reader, name: str, body: LongTermQuery) -> LongTermAnswer:
    """Long-term memory: facts for a query, best first."""
    return await _search(_open_agent(request, caller, name), body.query, body.limit)


@router.post("/memory/ltm", status_code=201)
async def add_long_term(request: Request, caller: Writer, name: str, body: LongTermEntry) -> EntryAnswer:
    """Keep a fact in the agent's channel."""
    return EntryAnswer(id=(await _open_agent(request, caller, name).learn_fact(body.content)).id)


@router.delete("/memory")
async def clear_memory(request: Request, caller: Writer, name: str) -> ClearAnswer:
    """Forget all of the agent's channel softly; what others keep stays."""
    try:
        receipt = await _open_agent(request, caller, name).episodic.clear_channel()
    except NotFound:
        return ClearAnswer(forgotten=0)
    return ClearAnswer(forgotten=len(receipt.ids), operation_id=receipt.operation_id)


@router.post("/session/new", status_code=201)
async def start_session(request: Request, caller: Writer, name: str) -> SessionAnswer:
    """Ids for a new session and its conversation, which begins with its first turn."""
    memory = _open_agent(request, caller, name)
    session_id = await memory.working.new_session()
    return SessionAnswer(session_id=session_id, conversation_id=memory.engine.ids.new_id())


def _open_agent(request: Request, caller: Caller, name: str) -> AsyncAgentMemory:
    """The view of an agent that stands in its own channel and reads nothing else."""
    channel = self_channel(name)
    memory = open_view(request, caller, ViewFields(agent_id=name, channel=channel))
    memory.scope = memory.scope.with_channels((channel,))
    return memory


async def _search(memory: AsyncAgentMemory, query: str, limit: int) -> LongTermAnswer:
    found = await memory.remember(query, top_k=limit, include=("semantic",))
    facts = [(item.record, item.score) for item in found.items if isinstance(item.record, Fact)]
    return LongTermAnswer(results=[_describe(fact, score) for fact, score in facts])


def _describe(fact: Fact, score: float) -> LongTermResult:
    return LongTermResult(id=fact.id, content=fact.claim, created_at=fact.recorded_at, score=score)
