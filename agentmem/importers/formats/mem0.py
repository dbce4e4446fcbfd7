"""mem0's memories, as `get_all` gives them and as they are exported, with the relations of its graph."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from agentmem.core.input_fields import SourceLocation, get_mapping, parse_datetime, parse_identifier, parse_mapping
from agentmem.importers.format import Format, read_each
from agentmem.importers.items import ImportedFact, ImportedRelation, ImportItem
from agentmem.importers.record_fields import find_identifier, find_text, find_time, list_texts
from agentmem.importers.source import ErrorHandler, SourceFile

_PATHS = ("item", "results.item", "memories.item", "items.item", "relations.item")
_TEXTS = ("memory", "text", "data", "content")
_OWN_FIELDS = frozenset({"hash", "user_id", "agent_id", "run_id"})
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


def detect_mem0(source: SourceFile) -> bool:
    """Whether a record is a text with an id and a field of mem0's beside it."""
    return any(_is_memory(record) for record in source.find_sample(*_PATHS))


def read_mem0(source: SourceFile, on_error: ErrorHandler) -> Iterator[ImportItem]:
    """Memories as facts. When one was stored does not say since when it is true, so it has no beginning."""
    return read_each(source, _PATHS, _parse_record, on_error)


def _is_memory(record: object) -> bool:
    if not isinstance(record, Mapping) or "id" not in record or "namespace" in record:
        return False
    if isinstance(record.get("memory"), str):
        return True
    return any(isinstance(record.get(name), str) for name in _TEXTS) and not _OWN_FIELDS.isdisjoint(record)


def _parse_record(value: Any, location: SourceLocation) -> Iterator[ImportItem]:
    record = parse_mapping(value, "memory", location)
    owner = find_identifier(record, ("user_id",), location)
    if "relationship" in record:
        yield ImportedRelation(
            find_text(record, ("source",), location),
            parse_identifier(record["relationship"], "relationship", location),
            find_text(record, ("target", "destination"), location),
            owner=owner,
        )
        return
    metadata = get_mapping(record, "metadata")
    labels = (record.get("categories"), metadata.get("categories"), metadata.get("category"))
    yield ImportedFact(
        find_text(record, _TEXTS, location),
        id=find_identifier(record, ("id",), location),
        subject="" if owner else find_identifier(record, ("agent_id",), location),
        valid_to=_read_end(record, location),
        said_at=find_time(record, ("updated_at", "created_at"), location),
        tags=tuple(dict.fromkeys(tag for label in labels for tag in list_texts(label))),
        owner=owner,
    )


def _read_end(record: Mapping[str, Any], location: SourceLocation) -> datetime | None:
    """When a memory expires; on a day that is only named, it still holds."""
    given = record.get("expiration_date")
    if given in (None, ""):
        return None
    end = parse_datetime(given, "expiration_date", location)
    return end + timedelta(days=1) if isinstance(given, str) and _DAY.fullmatch(given.strip()) else end


FORMAT = Format(name="mem0", title="mem0 memories (get_all or export)", detect=detect_mem0, read=read_mem0)
