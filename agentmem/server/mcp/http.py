"""The view of the memory that a request of the protocol gets over HTTP, by its headers."""

from __future__ import annotations

from typing import Any

from mcp.server.context import ServerRequestContext
from starlette.requests import Request

from agentmem.core.api_keys import Permission
from agentmem.errors import AgentMemError
from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.server.auth import ViewFields, find_caller, open_view, require_whole_user
from agentmem.server.errors import RequestError
from agentmem.server.mcp.tools import ToolFailure


def open_request_view(
    context: ServerRequestContext[Any], permission: Permission, is_whole_user: bool
) -> AsyncAgentMemory:
    """The caller's view of the open memory. Raises ToolFailure where the caller may not have it."""
    assert isinstance(context.request, Request)
    try:
        caller = find_caller(context.request, permission)
        if is_whole_user:
            require_whole_user(caller)
        return open_view(context.request, caller, ViewFields())
    except (RequestError, AgentMemError) as error:
        raise ToolFailure(str(error)) from None
