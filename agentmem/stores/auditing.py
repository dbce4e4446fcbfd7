"""What the audit log has in common everywhere: filters of its rows, how times are written, and rows without texts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from agentmem.errors import InvalidRecord
from agentmem.model.changes import Audit
from agentmem.model.clock import aware

FILTERS = ("operation", "memory_type", "since", "until", "session_id", "success", "own_channel", "limit")


def check_filters(names: Iterable[str]) -> None:
    """Raise InvalidRecord for a filter that is none."""
    for name in names:
        if name not in FILTERS:
            raise InvalidRecord(f"audit rows are filtered by {', '.join(FILTERS)}, got {name!r}", field=name)


def stamp(moment: datetime) -> str:
    """A moment as the audit log writes it, in UTC with microseconds: text order is time order."""
    return aware(moment).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def bare(entry: Audit) -> Audit:
    """The row without query, error and details, as erasure leaves one."""
    return replace(entry, query_text=None, error_message=None, metadata={})
