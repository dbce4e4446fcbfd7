"""What a client may read without a tool: the profile, open goals, conversations, one record with its sources."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import unquote

from mcp import types
from mcp.shared.exceptions import MCPError

from agentmem.core.jsonable import to_jsonable
from agentmem.core.records import Fact
from agentmem.errors import AgentMemError, NotFound
from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.server.compat.server_memory import read_graph

JSON = "application/json"
RECORD_PREFIX, CONVERSATION_PREFIX = "memory://records/", "memory://conversations/"
RESOURCES = tuple(
    types.Resource(name=name, title=title, uri=f"memory://{name}", description=description, mime_type=JSON)
    for name, title, description in (
        ("profile", "Profile", "What is believed of the user, and what a program set."),
        ("goals", "Open goals", "Most urgent first."),
        ("conversations", "Conversations", "Latest first, to be read by id."),
        (
            "knowledge-graph",
            "Knowledge graph",
            "All entities and relations, as read_graph of server-memory gives them.",
        ),
    )
)
TEMPLATES = tuple(
    types.ResourceTemplate(
        name=name, title=title, uri_template=f"{prefix}{{id}}", description=description, mime_type=JSON
    )
    for name, title, prefix, description in (
        ("record", "Record", RECORD_PREFIX, "One record; of a fact also the turns that it was read from."),
        ("conversation", "Conversation", CONVERSATION_PREFIX, "Its turns in order."),
    )
)


async def read_resource(memory: AsyncAgentMemory, uri: str) -> types.ReadResourceResult:
    """The resource as one JSON text. Raises MCPError for an address that is none, and for what is not found."""
    try:
        found = to_jsonable(await _read(memory, uri))
    except NotFound:
        raise MCPError(types.INVALID_PARAMS, f"There is no resource {uri}.") from None
    except AgentMemError as error:
        raise MCPError(types.INVALID_PARAMS, str(error)) from None
    text = json.dumps(found, ensure_ascii=False)
    return types.ReadResourceResult(contents=[types.TextResourceContents(uri=uri, mime_type=JSON, text=text)])


async def _read(memory: AsyncAgentMemory, uri: str) -> Any:
    if uri == "memory://profile":
        return {"profile": await memory.profile(), "synopsis": (await memory.synopsis()).text}
    if uri == "memory://goals":
        return [goal for goal in await memory.goals.all() if goal.is_open]
    if uri == "memory://conversations":
        return await memory.episodic.conversations()
    if uri == "memory://knowledge-graph":
        return (await read_graph.call(memory, read_graph.arguments())).model_dump(mode="json", by_alias=True)
    if uri.startswith(CONVERSATION_PREFIX):
        return await memory.episodic.get_conversation(unquote(uri.removeprefix(CONVERSATION_PREFIX)))
    if uri.startswith(RECORD_PREFIX):
        record = await memory.get_record(unquote(uri.removeprefix(RECORD_PREFIX)))
        sources = await memory.semantic.provenance(record.id) if isinstance(record, Fact) else []
        return {"record": record, "sources": sources}
    raise NotFound(uri)
