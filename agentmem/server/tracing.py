"""Trace context as in W3C Trace Context: the trace that a request belongs to."""

from __future__ import annotations

import re
import secrets

_TRACE_PARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-([0-9a-f]{2})(-.*)?")


def read_trace_parent(value: object) -> tuple[str, str]:
    """The id of the trace and its flags; a new trace, not sampled, where `value` is no valid `traceparent`."""
    found = _TRACE_PARENT.fullmatch(value) if isinstance(value, str) else None
    return (found[1], found[2]) if found else (secrets.token_hex(16), "00")
