"""Lets requests in: the caller of each, what he may do, and the view of the memory that he gets."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from fastapi import Depends, Query, Request
from pydantic import BaseModel, ConfigDict, Field, model_validator
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from agentmem.core.api_keys import ALL_USERS, Permission
from agentmem.core.plain_values import replace_surrogates_within
from agentmem.errors import AgentMemError, InvalidRecord
from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.recall.request import RateLimiter
from agentmem.server.callers import Caller, CallerFinder
from agentmem.server.errors import RequestError, build_error_response, build_problem_response
from agentmem.server.limits import decode_header

USER_HEADER = "X-Agentmem-User"
OPEN_PATHS = frozenset({"/", "/health", "/ready"})
OPERATOR_PATHS = frozenset({"/metrics", "/openapi.json", "/docs"})  # open on loopback; elsewhere for `admin`
_SCHEMES = ("bearer", "token")


class Authenticator:
    """ASGI middleware: who has no valid key gets 401 before a byte of the body is read, who asks too often 429."""

    def __init__(self, app: ASGIApp, finder: CallerFinder, requests_per_minute: int) -> None:
        self.app = app
        self._finder = finder
        self._limiter = RateLimiter(requests_per_minute / 60, requests_per_minute, "asks", "server.requests_per_minute")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through with its caller in `state`, or answer it with 401, 403, 429 or 503."""
        path = scope.get("path", "")
        is_open = path in OPEN_PATHS or (self._finder.is_loopback and path in OPERATOR_PATHS)
        if scope["type"] != "http" or is_open:
            await self.app(scope, receive, send)
            return
        try:
            caller = await self._finder.find(_read_credential(Headers(scope=scope)))
            if caller is not None and caller.key_id is not None:
                self._limiter.acquire(caller.key_id)
        except AgentMemError as error:
            await build_error_response(error)(scope, receive, send)
            return
        if caller is None:
            challenge = {"WWW-Authenticate": "Bearer"}
            detail = "Send a valid key as Authorization: Bearer KEY; make one with: agentmem keys create"
            await build_problem_response(401, detail, headers=challenge)(scope, receive, send)
        elif path in OPERATOR_PATHS and ("admin" not in caller.permissions or caller.is_limited):
            await build_problem_response(403, _missing_permission("admin"))(scope, receive, send)
        else:
            scope.setdefault("state", {})["caller"] = caller
            await self.app(scope, receive, send)


def _read_credential(headers: Headers) -> str | None:
    """The key of a request; None without one."""
    scheme, _, credential = headers.get("authorization", "").partition(" ")
    if scheme.lower() in _SCHEMES and credential.strip():
        return credential.strip()
    return headers.get("x-api-key") or None


class RequestBody(BaseModel):
    """A JSON body: exactly the fields that the route knows, each of its own type ("1" is no number, 0 no boolean)."""

    model_config = ConfigDict(strict=True, extra="forbid")
    _mended = model_validator(mode="before")(replace_surrogates_within)


class ViewFields(RequestBody):
    """Where in the user's memory a request stands; see `AsyncAgentMemory`."""

    channel: str | None = Field(None, description="Where writes go; reads also cover _swarm and _global.")
    agent_id: str | None = Field(None, description="The agent that asks; reads also cover its own channel.")
    conversation_id: str | None = Field(None, description="The conversation that goes on.")
    session_id: str | None = Field(None, description="The session of working memory.")


async def read_view_query(  # a plain function would run in a thread
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

    Who has a key for all users names the user in a header. Without keys everybody may do everything, for the server's
    user or the one that is named.
    """
    caller: Caller = request.state.caller
    if permission not in caller.permissions:
        raise RequestError(403, _missing_permission(permission))
    named = decode_header(request.headers.get(USER_HEADER))
    if caller.user_id is None:
        default = request.app.state.default_user if caller.key_id is None else None
        return replace_user(caller, named or default)
    if named not in (None, caller.user_id):
        raise RequestError(403, f"This key is for one user alone; leave out {USER_HEADER}.")
    return caller


def replace_user(caller: Caller, user_id: str | None) -> Caller:
    """The caller of another user's memory. Raises InvalidRecord for the name that stands for all."""
    if user_id == ALL_USERS:
        raise InvalidRecord(f"{USER_HEADER} must name one user, not {ALL_USERS}", field=USER_HEADER)
    return replace(caller, user_id=user_id)


Reader = Annotated[Caller, Depends(RequirePermission("read"))]
Writer = Annotated[Caller, Depends(RequirePermission("write"))]
Eraser = Annotated[Caller, Depends(RequirePermission("erase"))]
Admin = Annotated[Caller, Depends(RequirePermission("admin"))]
ViewQuery = Annotated[ViewFields, Depends(read_view_query)]


def require_erase_permission(caller: Caller, hard: bool) -> None:
    """Raise RequestError 403 when something is to be erased by a caller who may only forget softly."""
    if hard and "erase" not in caller.permissions:
        raise RequestError(403, "This key has no permission to erase; leave out hard=true to forget softly.")


def require_whole_user(caller: Caller) -> None:
    """Raise RequestError 403 where a key of one channel or agent asks for what is about all of the user's memory."""
    if caller.is_limited:
        raise RequestError(403, "This is about all of a user's memory; this key is for one channel or agent alone.")


def limit_view(caller: Caller, *, channel: str | None, agent_id: str | None) -> tuple[str | None, str | None]:
    """The channel and agent of a request. RequestError 403 where these are others than the key's only ones.

    A key of an agent alone stands in the agent's private channel.
    """
    if not caller.is_limited:
        return channel, agent_id
    if caller.agent_id is None and agent_id is not None:
        raise RequestError(403, "This key is for one channel alone, and for no agent's own.")
    if caller.agent_id is not None and agent_id not in (None, caller.agent_id):
        raise RequestError(403, "This key is for one agent alone.")
    own = caller.own_channels or ()
    if channel is not None and channel not in own:
        raise RequestError(403, f"This key is for {' and '.join(own)} alone.")
    return channel or own[0], caller.agent_id


def open_view(request: Request, caller: Caller, fields: ViewFields) -> AsyncAgentMemory:
    """The caller's view of the open memory.

    Raises RequestError 403 where the key has another channel or agent, InvalidRecord where no user is named.
    """
    if caller.user_id is None:
        raise InvalidRecord(f"name the user in {USER_HEADER}: this key is for all users", field=USER_HEADER)
    channel, agent_id = limit_view(caller, channel=fields.channel, agent_id=fields.agent_id)
    memory: AsyncAgentMemory = request.app.state.memory
    return memory.scoped(
        user_id=caller.user_id,
        channel=channel,
        agent_id=agent_id,
        conversation_id=fields.conversation_id,
        session_id=fields.session_id,
        key_id=caller.key_id,
        own_channels=caller.own_channels,
    )


def _missing_permission(permission: Permission) -> str:
    return f"This key has no permission to {permission}."
