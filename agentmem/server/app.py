"""The server as one ASGI application: REST under `/v1`, MCP under `/mcp`, health, the description of all routes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from fastapi import Depends, FastAPI
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Route

from agentmem import __version__
from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.server.auth import Authenticator
from agentmem.server.callers import ApiKeyVerifier, CallerFinder, CredentialVerifier
from agentmem.server.compat import mem0, moxxy
from agentmem.server.errors import add_error_handlers, document_errors
from agentmem.server.limits import LOOPBACK_NAMES, RequestGate, is_loopback
from agentmem.server.mcp.core_tools import CORE_TOOLS
from agentmem.server.mcp.http import open_request_view
from agentmem.server.mcp.server import build_mcp_server
from agentmem.server.mcp.tools import ModelTool
from agentmem.server.metrics import RequestObserver, ServerMetrics
from agentmem.server.openapi import complete_description, name_operation
from agentmem.server.request_forms import HeadAnswer, require_utf8
from agentmem.server.rest import (
    facts,
    goals,
    graph,
    health,
    keys,
    knowledge,
    procedural,
    recall,
    records,
    schedules,
    transfer,
    turns,
    upkeep,
    working,
)
from agentmem.server.slots import RequestSlots
from agentmem.settings.sections import ServerOptions

ROUTERS = (
    turns.router,
    recall.router,
    facts.router,
    knowledge.router,
    graph.router,
    goals.router,
    procedural.router,
    schedules.router,
    working.router,
    records.router,
    upkeep.router,
    transfer.router,
    keys.router,
)


def build_app(
    memory: AsyncAgentMemory,
    *,
    tools: Sequence[ModelTool] = CORE_TOOLS,
    with_mem0: bool = False,
    host: str = "127.0.0.1",
    verifiers: Sequence[CredentialVerifier] = (),
) -> FastAPI:
    """The application over a memory, which it opens when it starts and closes in the end.

    Without keys, requests are about the memory's own user unless they name another one. `tools` are what MCP clients
    get. `with_mem0` adds the routes of mem0's server under `/mem0`. `host` is where it will listen: on loopback it is
    open until the first key. `verifiers` know other credentials than the store's keys.
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
        openapi_url=None,  # the framework would make it on the event loop
        docs_url=None,  # the pages of the framework load their scripts from elsewhere
        redoc_url=None,
        responses=document_errors(),
        dependencies=[Depends(require_utf8)],
        generate_unique_id_function=name_operation,
    )
    app.state.memory, app.state.default_user = memory, memory.scope.user_id
    app.state.metrics = ServerMetrics()
    add_error_handlers(app)
    for router in (*ROUTERS, health.router, moxxy.router):
        app.include_router(router)
    if with_mem0:
        app.include_router(mem0.router)
    complete_description(app)
    # POST alone: the server sends nothing by itself, so the stream that GET would open stays idle for ever
    app.router.routes.append(Route("/mcp", StreamableHTTPASGIApp(sessions), methods=["POST"]))
    app.add_middleware(HeadAnswer)
    _add_gates(app, host, (*verifiers, *_open_token_verifiers(memory.settings.server)))
    return app


def _open_token_verifiers(options: ServerOptions) -> tuple[CredentialVerifier, ...]:
    if options.jwt_keys is None:
        return ()
    from agentmem.server.tokens import JwtVerifier  # loads cryptography

    return (JwtVerifier(options),)


def _add_gates(app: FastAPI, host: str, verifiers: tuple[CredentialVerifier, ...]) -> None:
    """What a request passes before its route, the last one here first."""
    options = app.state.memory.settings.server
    keys = ApiKeyVerifier(lambda: app.state.memory.engine)
    finder = CallerFinder(keys, others=verifiers, is_loopback=is_loopback(host))
    app.add_middleware(RequestSlots, options=options)
    app.add_middleware(Authenticator, finder=finder, requests_per_minute=options.requests_per_minute)
    if options.origins:
        app.add_middleware(
            CORSMiddleware, allow_origins=options.origins, allow_methods=["*"], allow_headers=["*"], max_age=600
        )
    own = f"[{host}]" if ":" in host else host
    app.add_middleware(RequestGate, options=options, hosts={*LOOPBACK_NAMES, own, *options.hosts})
    app.add_middleware(RequestObserver, metrics=app.state.metrics)
