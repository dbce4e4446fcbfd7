"""The server as one ASGI application: REST under `/v1`, MCP under `/mcp`, health, the description of all routes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from fastapi import FastAPI
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from starlette.routing import Route

from agentmem import __version__
from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.server.errors import add_error_handlers, document_errors
from agentmem.server.limits import RequestGate
from agentmem.server.mcp.core_tools import CORE_TOOLS
from agentmem.server.mcp.http import open_request_view
from agentmem.server.mcp.server import build_mcp_server
from agentmem.server.mcp.tools import ModelTool
from agentmem.server.rest import (
    facts,
    goals,
    health,
    knowledge,
    mem0,
    moxxy,
    procedural,
    recall,
    records,
    schedules,
    turns,
    upkeep,
    working,
)

ROUTERS = (
    turns.router,
    recall.router,
    facts.router,
    knowledge.router,
    goals.router,
    procedural.router,
    schedules.router,
    working.router,
    records.router,
    upkeep.router,
)


def build_app(memory: AsyncAgentMemory, *, tools: Sequence[ModelTool] = CORE_TOOLS, with_mem0: bool = False) -> FastAPI:
    """The application over a memory, which it opens when it starts and closes in the end.

    Requests are about the memory's own user unless they name another one. `tools` are what MCP clients get.
    `with_mem0` adds the routes of mem0's server under `/mem0`.
    """
    # no state per connection, so that any process can answer any request
    sessions = StreamableHTTPSessionManager(
        build_mcp_server(open_request_view, tools), json_response=True, stateless=True
    )

    @asynccontextmanager
    async def keep_open(app: FastAPI) -> AsyncIterator[None]:
        async with memory, sessions.run():
            yield

    app = FastAPI(
        title="agentmem",
        version=__version__,
        description="The memory of an agent over HTTP. Errors are problem details (RFC 9457).",
        lifespan=keep_open,
        docs_url=None,  # the pages of the framework load their scripts from elsewhere
        redoc_url=None,
        responses=document_errors(),
    )
    app.state.memory, app.state.default_user = memory, memory.scope.user_id
    add_error_handlers(app)
    app.include_router(health.router)
    app.include_router(moxxy.router)
    for router in ROUTERS:
        app.include_router(router, prefix="/v1")
    if with_mem0:
        app.include_router(mem0.router, prefix="/mem0")
    app.router.routes.append(Route("/mcp", StreamableHTTPASGIApp(sessions)))
    app.add_middleware(RequestGate, options=memory.settings.server)
    return app
