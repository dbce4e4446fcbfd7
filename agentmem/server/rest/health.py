"""Whether the server lives and its stores answer, open to all who reach it; its metrics; its routes as a page."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from pydantic import BaseModel

from agentmem import __version__
from agentmem.admin.doctor import check_log
from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.server.docs_page import CONTENT_POLICY, render_docs_page
from agentmem.server.metrics import METRICS_TYPE

router = APIRouter(tags=["health"])


class HealthAnswer(BaseModel):
    """All is well, or the answer is a problem."""

    status: str = "ok"


class IndexAnswer(BaseModel):
    """What runs here, and the paths of what it has."""

    name: str = "agentmem"
    version: str = __version__
    links: dict[str, str] = {
        "docs": "/docs",
        "openapi": "/openapi.json",
        "health": "/health",
        "rest": "/v1",
        "mcp": "/mcp",
    }


@router.get("/")
async def read_index() -> IndexAnswer:
    """What runs here, and where its parts are."""
    return IndexAnswer()


@router.get("/health")
async def check_health() -> HealthAnswer:
    """The process answers."""
    return HealthAnswer()


@router.get("/metrics", response_class=PlainTextResponse)
async def read_metrics(request: Request) -> Response:
    """Requests, and times, caches, notices and sizes of the memory, for Prometheus.

    Beyond loopback for callers with the permission `admin`.
    """
    memory: AsyncAgentMemory = request.app.state.memory
    return Response(await request.app.state.metrics.render(memory.engine), media_type=METRICS_TYPE)


@router.get("/docs", response_class=HTMLResponse)
async def read_docs_page(request: Request) -> HTMLResponse:
    """All routes as a page to read; it loads nothing from elsewhere."""
    policy = {"Content-Security-Policy": CONTENT_POLICY}
    return HTMLResponse(render_docs_page(await _describe_routes(request)), headers=policy)


@router.get("/openapi.json", include_in_schema=False)
async def read_description(request: Request) -> Response:
    """All routes for programs (OpenAPI)."""
    return JSONResponse(await _describe_routes(request))


async def _describe_routes(request: Request) -> dict[str, Any]:
    """The description of all routes. To make it takes more than a second at first, so a thread does."""
    return dict(await asyncio.to_thread(request.app.openapi))


@router.get("/ready")
async def check_readiness(request: Request) -> HealthAnswer:
    """The log answers, too; 503 while it is away."""
    memory: AsyncAgentMemory = request.app.state.memory
    await check_log(memory.engine)
    return HealthAnswer()
