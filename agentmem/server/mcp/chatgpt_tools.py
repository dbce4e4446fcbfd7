"""The two tools that ChatGPT asks of a data source: `search` and `fetch`."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.server.mcp.core_tools import Arguments
from agentmem.server.mcp.records import FoundRecord, describe_record
from agentmem.server.mcp.tools import ModelTool

MAX_TITLE_CHARS = 80
MAX_RESULTS = 10


class SearchQuery(Arguments):
    """Of `search`."""

    query: str = Field(description="The question in plain words, with names.")


class SearchHit(BaseModel):
    """One record, to fetch by its id."""

    id: str
    title: str
    url: str


class SearchHits(BaseModel):
    """Best first."""

    results: list[SearchHit]


class FetchId(Arguments):
    """Of `fetch`."""

    id: str = Field(description="From a search.")


class Document(BaseModel):
    """One record in full."""

    id: str
    title: str
    text: str
    url: str
    metadata: dict[str, Any]


def build_record_uri(record_id: str) -> str:
    """The address of a record as a resource."""
    return f"memory://records/{record_id}"


async def search(memory: AsyncAgentMemory, given: SearchQuery) -> SearchHits:
    """Recall, as titles."""
    found = await memory.remember(given.query, top_k=MAX_RESULTS)
    described = [describe_record(item.record, item.standing) for item in found.items]
    return SearchHits(
        results=[SearchHit(id=each.id, title=_title(each), url=build_record_uri(each.id)) for each in described]
    )


async def fetch(memory: AsyncAgentMemory, given: FetchId) -> Document:
    """One record."""
    record = await memory.get_record(given.id)
    found = describe_record(record, await memory.find_standing(record))
    return Document(
        id=found.id,
        title=_title(found),
        text=found.text,
        url=build_record_uri(found.id),
        metadata={"kind": found.kind, "when": found.when, "standing": found.standing},
    )


def _title(found: FoundRecord) -> str:
    return found.text if len(found.text) <= MAX_TITLE_CHARS else f"{found.text[: MAX_TITLE_CHARS - 1]}…"


CHATGPT_TOOLS = (
    ModelTool(
        "search",
        "Search memory",
        "Find what the user said or is known about them.",
        SearchQuery,
        SearchHits,
        search,
        is_read_only=True,
    ),
    ModelTool("fetch", "Fetch a record", "One record in full, by its id.", FetchId, Document, fetch, is_read_only=True),
)
