"""The routes of mem0's server, for programs that speak to one. Off unless `agentmem serve --mem0` turns them on."""

from __future__ import annotations

from fastapi import APIRouter

from agentmem.server.auth import Reader

router = APIRouter(tags=["mem0"])


@router.get("/v1/ping/")
async def ping(caller: Reader) -> dict[str, str]:
    """What mem0's client asks first: whose key this is."""
    return {"status": "ok", "user_email": caller.user_id}
