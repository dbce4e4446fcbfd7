"""Keys of the server over HTTP, for callers with the permission `admin`."""

from __future__ import annotations

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from agentmem.admin.api_keys import create_api_key, list_api_keys, revoke_api_key
from agentmem.core.api_keys import ApiKey
from agentmem.engine.engine import Engine
from agentmem.errors import InvalidRecord
from agentmem.server.auth import USER_HEADER, Admin, RequestBody, check_limits
from agentmem.server.errors import RequestError
from agentmem.server.rest.fields import Moment

router = APIRouter(prefix="/v1", tags=["keys"])


class NewKey(RequestBody):
    """What a key opens. It can do no more than the one it is made with."""

    user_id: str | None = Field(None, description="Whose memory; the caller's when left out, * for all users.")
    scopes: list[str] = Field(["read", "write"], description="Of read, write, erase, admin.")
    channel: str | None = Field(None, description="The only channel it opens.")
    agent_id: str | None = Field(None, description="The only agent it is for.")
    expires_at: Moment | None = Field(None, description="When it ends; never when left out.")


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
    check_limits(caller, channel=body.channel, agent_id=body.agent_id)
    made = await create_api_key(
        _engine(request),
        user,
        body.scopes,
        channel=caller.channel or body.channel,
        agent_id=caller.agent_id or body.agent_id,
        expires_at=body.expires_at,
        asked_by=caller.key_id,
    )
    return MadeKey(key=made.key, secret=made.secret)


@router.get("/keys")
async def list_keys(request: Request, caller: Admin) -> list[ApiKey]:
    """The keys of the caller's user; those of all where the caller has a key for all and names none. Latest first."""
    return await list_api_keys(_engine(request), _find_user(request))


@router.delete("/keys/{key_id}")
async def revoke_key(request: Request, caller: Admin, key_id: str) -> ApiKey:
    """End a key; it is refused within two seconds."""
    return await revoke_api_key(_engine(request), key_id, user_id=_find_user(request), asked_by=caller.key_id)


def _find_user(request: Request) -> str | None:
    """The user whose keys are meant; None for those of all."""
    own: str | None = request.state.caller.user_id
    return own or request.headers.get(USER_HEADER)


def _engine(request: Request) -> Engine:
    engine: Engine = request.app.state.memory.engine
    return engine
