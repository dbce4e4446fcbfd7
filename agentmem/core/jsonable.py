"""Values as JSON knows them, for every way out: the command line, HTTP, MCP."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import datetime
from typing import Any


def to_jsonable(value: Any) -> Any:
    """A value as JSON knows it: records with their kind, dataclasses as objects, moments in ISO 8601."""
    if hasattr(value, "model_dump"):
        return {"kind": value.kind, **value.model_dump(mode="json")}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_jsonable(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_jsonable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [to_jsonable(item) for item in (sorted(value) if isinstance(value, (set, frozenset)) else value)]
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, float):
        return value if value - value == 0 else None  # JSON has no NaN and no infinity
    return value if value is None or isinstance(value, (str, int, bool)) else str(value)
