"""What a caller of the server may do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Permission = Literal["read", "write", "erase", "admin"]
ALL_PERMISSIONS: frozenset[Permission] = frozenset({"read", "write", "erase", "admin"})


@dataclass(frozen=True, slots=True)
class Caller:
    """Whose memory a request is about, and what it may do there. A `channel` or `agent_id` here is the only one."""

    user_id: str
    permissions: frozenset[Permission] = ALL_PERMISSIONS
    channel: str | None = None
    agent_id: str | None = None
