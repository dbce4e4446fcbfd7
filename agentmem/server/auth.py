"""Who asks: the caller of a request, what he may do, and the view of the memory that he gets."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Query, Request
from pydantic import BaseModel, Field

from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.server.errors import RequestError
from agentmem.server.permissions import Caller, Permission

USER_HEADER = "X-Agentmem-User"


class ViewFields(BaseModel):
    """Where in the user's memory a request stands; see `AsyncAgentMemory`."""

    channel: str | None = Field(None, description="Where writes go; reads also cover _swarm and _global.")
    agent_id: str | None = Field(None, description="The agent that asks; reads also cover its own channel.")
    conversation_id: str | None = Field(None, description="The conversation that goes on.")
    session_id: str | None = Field(None, description="The session of working memory.")


def read_view_query(
    channel: Annotated[str | None, Query(description="The channel to stand in.")] = None,
    agent_id: Annotated[str | None, Query(description="The agent that asks.")] = None,
    conversation_id: Annotated[str | None, Query(description="The conversation that goes on.")] = None,
    session_id: Annotated[str | None, Query(description="The session of working memory.")] = None,
) -> ViewFields:
    """The same from the query of a URL."""
    return ViewFields(channel=channel, agent_id=agent_id, conversation_id=conversation_id, session_id=session_id)


class RequirePermission:
    """A dependency: the caller of a request, who must have a permission. RequestError 403 otherwise."""

    def __init__(self, permission: Permission) -> None:
        self.permission = permission

    async def __call__(self, request: Request) -> Caller:
        """The caller."""
        return find_caller(request, self.permission)


def find_caller(request: Request, permission: Permission) -> Caller:
    """The caller of a request, who must have a permission; RequestError 403 otherwise.

    Without keys everybody who reaches the server may do everything, for the server's user or the one that is named.
    """
    caller = Caller(request.headers.get(USER_HEADER) or request.app.state.default_user)
    if permission not in caller.permissions:
        raise RequestError(403, f"This key has no permission to {permission}.")
    return caller


Reader = Annotated[Caller, Depends(RequirePermission("read"))]
Writer = Annotated[Caller, Depends(RequirePermission("write"))]
Eraser = Annotated[Caller, Depends(RequirePermission("erase"))]
ViewQuery = Annotated[ViewFields, Depends(read_view_query)]


def require_erase_permission(caller: Caller, hard: bool) -> None:
    """Raise RequestError 403 when something is to be erased by a caller who may only forget softly."""
    if hard and "erase" not in caller.permissions:
        raise RequestError(403, "This key has no permission to erase; leave out hard=true to forget softly.")


def open_view(request: Request, caller: Caller, fields: ViewFields) -> AsyncAgentMemory:
    """The caller's view of the open memory. Raises RequestError 403 where the key has another channel or agent."""
    for name in ("channel", "agent_id"):
        own, asked = getattr(caller, name), getattr(fields, name)
        if own is not None and asked not in (None, own):
            raise RequestError(403, f"This key is for the {name} {own!r} alone.")
    memory: AsyncAgentMemory = request.app.state.memory
    return memory.scoped(
        user_id=caller.user_id,
        channel=caller.channel or fields.channel,
        agent_id=caller.agent_id or fields.agent_id,
        conversation_id=fields.conversation_id,
        session_id=fields.session_id,
    )
