"""Keys of the server over HTTP, for callers with the permission `admin`."""

from __future__ import annotations

from datetime import datetime

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from agentmem.admin.api_keys import create_api_key, list_api_keys, revoke_api_key
from agentmem.core.api_keys import ApiKey
from agentmem.core.clock import to_utc
from agentmem.engine.engine import Engine
from agentmem.errors import InvalidRecord, NotFound
from agentmem.server.auth import USER_HEADER, Admin, RequestBody
from agentmem.server.callers import Caller
from agentmem.server.errors import RequestError
from agentmem.server.limits import decode_header
from agentmem.server.rest.fields import Moment

router = APIRouter(prefix="/v1", tags=["keys"])


class NewKey(RequestBody):
    """What a key opens. It can do no more than the one it is made with."""

    user_id: str | None = Field(None, description="Whose memory; the caller's when left out, * for all users.")
    scopes: list[str] = Field(["read", "write"], description="Of read, write, erase, admin.")
    channel: str | None = Field(None, description="The only channel it opens.")
    agent_id: str | None = Field(None, description="The only agent it is for.")
    expires_at: Moment | None = Field(None, description="When it ends; with the caller's key when left out, or never.")


class MadeKey(BaseModel):
    """A key and its secret, which is told only now."""

    key: ApiKey
    secret: str


@router.post("/keys", status_code=201)
async def create_key(request: Request, caller: Admin, body: NewKey) -> MadeKey:
    """Make a key. From the first one on, every request needs one."""
    own = request.state.caller.user_id
    if own is not None and body.user_id not in (None, own):
        raise RequestError(403, "This key can make keys for its own user alone.")
    if caller.key_id is not None and not caller.permissions.issuperset(body.scopes):
        raise RequestError(403, "This key can make no key that may do more than itself.")
    user = body.user_id or caller.user_id
    if user is None:
        raise InvalidRecord("name the user of the new key, or * for all", field="user_id")
    channel, agent_id = body.channel or caller.channel, body.agent_id or caller.agent_id
    if not _may_manage(caller, channel, agent_id):
        raise RequestError(403, "This key can make keys for its own channel or agent alone.")
    made = await create_api_key(
        _engine(request),
        user,
        body.scopes,
        channel=channel,
        agent_id=agent_id,
        expires_at=_limit_end(caller, body.expires_at),
        asked_by=caller.key_id,
    )
    return MadeKey(key=made.key, secret=made.secret)


@router.get("/keys")
async def list_keys(request: Request, caller: Admin) -> list[ApiKey]:
    """The keys of the caller's user; those of all where the caller has a key for all and names none. Latest first.

    A key of one channel or agent sees those that reach no further.
    """
    found = await list_api_keys(_engine(request), _find_user(request))
    return [key for key in found if _may_manage(caller, key.channel, key.agent_id)]


@router.delete("/keys/{key_id}")
async def revoke_key(request: Request, caller: Admin, key_id: str) -> ApiKey:
    """End a key; it is refused within two seconds."""
    user = _find_user(request)
    if caller.is_limited and key_id not in {key.id for key in await list_keys(request, caller)}:
        raise NotFound("there is no such key, or this caller may not end it")
    return await revoke_api_key(_engine(request), key_id, user_id=user, asked_by=caller.key_id)


def _limit_end(caller: Caller, asked: datetime | None) -> datetime | None:
    """When a new key ends: no later than the caller's."""
    if caller.expires_at is not None and asked is not None and to_utc(asked, "expires_at") > caller.expires_at:
        raise RequestError(403, "This key can make no key that lasts longer than itself.")
    return asked or caller.expires_at


def _may_manage(caller: Caller, channel: str | None, agent_id: str | None) -> bool:
    """Whether a key of this channel and agent reaches no further than the caller's."""
    other = Caller(None, channel=channel, agent_id=agent_id)
    if caller.own_channels is None or other.own_channels is None:
        return caller.own_channels is None
    return set(other.own_channels) <= set(caller.own_channels)


def _find_user(request: Request) -> str | None:
    """The user whose keys are meant; None for those of all."""
    own: str | None = request.state.caller.user_id
    return own or decode_header(request.headers.get(USER_HEADER))


def _engine(request: Request) -> Engine:
    engine: Engine = request.app.state.memory.engine
    return engine
