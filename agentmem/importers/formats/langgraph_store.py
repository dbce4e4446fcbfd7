"""The items of a LangGraph store, as LangMem fills it: each with a namespace, a key and a value."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from agentmem.core.input_fields import SourceLocation, parse_identifier, parse_mapping, parse_nonempty_text
from agentmem.core.plain_values import copy_json, describe_value, has_visible
from agentmem.errors import InvalidRecord
from agentmem.importers.format import Format, read_each
from agentmem.importers.items import ImportedFact, ImportItem
from agentmem.importers.record_fields import find_identifier, find_time
from agentmem.importers.source import ErrorHandler, SourceFile

_PATHS = ("item", "items.item")
_TEXTS = ("memory", "content", "text", "data")
_MEMORIES = "memories"  # in a namespace of two, the other one is the user


def detect_langgraph_store(source: SourceFile) -> bool:
    """Whether a record has a namespace, a key and a value."""
    records = source.find_sample(*_PATHS)
    return any(isinstance(each, Mapping) and {"namespace", "key", "value"} <= each.keys() for each in records)


def read_langgraph_store(source: SourceFile, on_error: ErrorHandler) -> Iterator[ImportItem]:
    """Each item as a fact: the text of its value, or the value as JSON."""
    return read_each(source, _PATHS, _parse_item, on_error)


def _parse_item(given: Any, location: SourceLocation) -> Iterator[ImportItem]:
    record = parse_mapping(given, "item", location)
    names = _read_namespace(record.get("namespace"), location)
    value = parse_mapping(record.get("value"), "value", location)
    owner = next((name for name in names if name != _MEMORIES), "") if len(names) == 2 and _MEMORIES in names else ""
    yield ImportedFact(
        _render_value(value, location),
        id="/".join((*names, find_identifier(record, ("key",), location))),
        said_at=find_time(record, ("updated_at", "created_at"), location),
        tags=tuple(name for name in dict.fromkeys(names) if name not in (owner, _MEMORIES)),
        owner=owner,
    )


def _read_namespace(given: object, location: SourceLocation) -> list[str]:
    if not isinstance(given, list):
        raise location.build_error("namespace", f"must be a list, got {describe_value(given)}")
    return [parse_identifier(name, "namespace", location) for name in given]


def _render_value(value: Mapping[str, Any], location: SourceLocation) -> str:
    """The text of a value, also one level deeper, where LangMem has it; otherwise all of it."""
    inner = next((value[name] for name in _TEXTS if value.get(name)), None)
    if isinstance(inner, Mapping):
        inner = next((inner[name] for name in _TEXTS if isinstance(inner.get(name), str)), None)
    if isinstance(inner, str) and has_visible(inner):
        return parse_nonempty_text(inner, "value", location).strip()
    try:
        plain = copy_json(value, "value")
    except InvalidRecord as error:
        raise location.build_error("value", str(error).removeprefix("value").strip()) from None
    written = json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
    return parse_nonempty_text(written, "value", location)


FORMAT = Format(
    name="langgraph_store",
    title="items of a LangGraph store (LangMem)",
    detect=detect_langgraph_store,
    read=read_langgraph_store,
)
