"""The two tools that ChatGPT asks of a data source: `search` and `fetch`."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel

from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.server.mcp.records import FoundRecord, describe_record
from agentmem.server.mcp.resources import RECORD_PREFIX
from agentmem.server.mcp.tools import tool

MAX_TITLE_CHARS = 80
MAX_RESULTS = 10


class SearchHit(BaseModel):
    """One record, to fetch by its id."""

    id: str
    title: str
    url: str


class SearchHits(BaseModel):
    """Best first."""

    results: list[SearchHit]


class FetchedDocument(BaseModel):
    """One record in full."""

    id: str
    title: str
    text: str
    url: str
    metadata: dict[str, Any]


@tool("Search memory", is_read_only=True)
async def search(
    memory: AsyncAgentMemory, query: Annotated[str, "The question in plain words, with names."]
) -> SearchHits:
    """Find what the user said or is known about them."""
    found = await memory.remember(query, top_k=MAX_RESULTS)
    described = [describe_record(item.record, item.standing) for item in found.items]
    return SearchHits(
        results=[SearchHit(id=each.id, title=_title(each), url=f"{RECORD_PREFIX}{each.id}") for each in described]
    )


@tool("Fetch a record", is_read_only=True)
async def fetch(memory: AsyncAgentMemory, id: Annotated[str, "From a search."]) -> FetchedDocument:
    """One record in full, by its id."""
    record = await memory.get_record(id)
    found = describe_record(record, await memory.find_standing(record))
    return FetchedDocument(
        id=found.id,
        title=_title(found),
        text=found.text,
        url=f"{RECORD_PREFIX}{found.id}",
        metadata={"kind": found.kind, "when": found.when, "standing": found.standing},
    )


def _title(found: FoundRecord) -> str:
    return found.text if len(found.text) <= MAX_TITLE_CHARS else f"{found.text[: MAX_TITLE_CHARS - 1]}…"


CHATGPT_TOOLS = (search, fetch)
