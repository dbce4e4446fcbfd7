"""The memory routes of Moxxy agents, as their document has them: an agent's name in the path, its channel behind it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel

from agentmem.core.clock import EPOCH
from agentmem.core.records import Conversation, Fact, Turn
from agentmem.core.scope import self_channel
from agentmem.errors import NotFound
from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.server.auth import Reader, ViewFields, Writer, open_view
from agentmem.server.callers import Caller

router = APIRouter(prefix="/api/agents/{name}", tags=["moxxy"])

DEFAULT_RESULTS = 5
SESSION_PREFIX = "sess_"  # of the id of a session and its conversation
MAX_CONVERSATIONS = 1000  # looked through for the latest session

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
async def read_window(
    request: Request,
    caller: Reader,
    name: str,
    limit: Annotated[int | None, Query(ge=1, le=100, description="The setting `working_turns` by default.")] = None,
) -> WindowAnswer:
    """Short-term memory: the latest turns of the agent's session. `POST /v1/turns` with its `agent_id` adds to them."""
    memory = _open_agent(request, caller, name)
    turns = await memory.episodic.recent_turns(limit or memory.settings.working_turns)
    if session := await _find_session(memory):
        turns = [turn for turn in turns if _is_in_session(turn, session)]
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
    return EntryAnswer(id=(await _open_agent(request, caller, name).learn_fact(body.content, slot="")).id)


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
    """Begin a new session, with a conversation of the same id: the window is empty until the next turn."""
    memory = _open_agent(request, caller, name)
    session = await memory.episodic.start_session(f"{SESSION_PREFIX}{memory.engine.ids.new_id()}")
    return SessionAnswer(session_id=session.id, conversation_id=session.id)


async def _find_session(memory: AsyncAgentMemory) -> Conversation | None:
    """The session begun last."""
    found = await memory.episodic.conversations(MAX_CONVERSATIONS)
    return next((each for each in found if each.id.startswith(SESSION_PREFIX)), None)


def _is_in_session(turn: Turn, session: Conversation) -> bool:
    """Whether a turn is of the session's conversation, or was said later in another one."""
    moment = turn.timestamp or turn.recorded_at
    return turn.conversation_id == session.id or (moment is not None and moment > (session.started_at or EPOCH))


def _open_agent(request: Request, caller: Caller, name: str) -> AsyncAgentMemory:
    """The view of an agent that stands in its own channel and reads nothing else."""
    channel = self_channel(name)
    return open_view(request, caller, ViewFields(agent_id=name, channel=channel)).scoped(channels=(channel,))


async def _search(memory: AsyncAgentMemory, query: str, limit: int) -> LongTermAnswer:
    found = await memory.remember(query, top_k=limit, include=("semantic",))
    facts = [(item.record, item.score) for item in found.items if isinstance(item.record, Fact)]
    return LongTermAnswer(results=[_describe(fact, score) for fact, score in facts])


def _describe(fact: Fact, score: float) -> LongTermResult:
    return LongTermResult(id=fact.id, content=fact.claim, created_at=fact.recorded_at, score=score)
