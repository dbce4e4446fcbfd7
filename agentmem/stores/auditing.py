"""What reading the audit log has in common everywhere: its filters, and how times are written."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from agentmem.errors import InvalidRecord
from agentmem.model.clock import aware

FILTERS = ("operation", "memory_type", "since", "until", "session_id", "success", "limit")


def check_filters(names: Iterable[str]) -> None:
    """Raise InvalidRecord for a filter that is none."""
    for name in names:
        if name not in FILTERS:
            raise InvalidRecord(f"audit rows are filtered by {', '.join(FILTERS)}, got {name!r}", field=name)


def stamp(moment: datetime) -> str:
    """A moment as the audit log writes it, in UTC with microseconds: text order is time order."""
    return aware(moment).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
