"""The knowledge graph of the Model Context Protocol's server-memory: its JSON Lines, or the graph as one document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agentmem.core.input_fields import (
    SourceLocation,
    parse_identifier,
    parse_list_field,
    parse_mapping,
    parse_nonempty_text,
)
from agentmem.importers.format import Format, read_each
from agentmem.importers.items import ImportedEntity, ImportedFact, ImportedRelation, ImportItem
from agentmem.importers.record_fields import find_text
from agentmem.importers.source import ErrorHandler, SourceFile

_PATHS = ("entities.item", "relations.item", "item")


def detect_server_memory(source: SourceFile) -> bool:
    """Whether a record is an entity with its type, or a relation with its type."""
    records = source.find_sample(*_PATHS)
    return any(isinstance(each, Mapping) and ("entityType" in each or "relationType" in each) for each in records)


def read_server_memory(source: SourceFile, on_error: ErrorHandler) -> Iterator[ImportItem]:
    """Entities, their observations as facts about them, and relations."""
    return read_each(source, _PATHS, _parse_record, on_error)


def _parse_record(value: Any, location: SourceLocation) -> Iterator[ImportItem]:
    record = parse_mapping(value, "entity", location)
    if "relationType" in record:
        yield ImportedRelation(
            find_text(record, ("from",), location),
            parse_identifier(record["relationType"], "relationType", location),
            find_text(record, ("to",), location),
        )
        return
    name = find_text(record, ("name",), location)
    yield ImportedEntity(name, type=find_text(record, ("entityType",), location))
    for observation in parse_list_field(record, "observations", location):
        claim = parse_nonempty_text(observation, "observations", location)
        yield ImportedFact(claim, about=(name,), is_verbatim=True)


FORMAT = Format(
    name="server_memory",
    title="knowledge graph of the MCP server-memory (memory.jsonl)",
    detect=detect_server_memory,
    read=read_server_memory,
)
