"""What the audit log has in common everywhere: filters of its rows, how times are written, and rows without texts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from agentmem.errors import InvalidRecord
from agentmem.model.changes import AuditEntry
from agentmem.model.clock import to_utc

AUDIT_FILTERS = ("operation", "memory_type", "since", "until", "session_id", "success", "own_channel", "limit")


def check_audit_filters(names: Iterable[str]) -> None:
    """Raise InvalidRecord for a filter that is none."""
    for name in names:
        if name not in AUDIT_FILTERS:
            raise InvalidRecord(f"audit rows are filtered by {', '.join(AUDIT_FILTERS)}, got {name!r}", field=name)


def format_timestamp(timestamp: datetime) -> str:
    """A moment as the audit log writes it, in UTC with microseconds: text order is time order."""
    return to_utc(timestamp).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def redact_audit(entry: AuditEntry) -> AuditEntry:
    """The row without query, error and details, as erasure leaves one."""
    return replace(entry, query_text=None, error_message=None, metadata={})
