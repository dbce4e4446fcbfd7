"""What a key of the server is: whose memory it opens, what it may do there, and until when."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, get_args

Permission = Literal["read", "write", "erase", "admin"]
PERMISSIONS: tuple[Permission, ...] = get_args(Permission)
ALL_PERMISSIONS: frozenset[Permission] = frozenset(PERMISSIONS)
ALL_USERS = "*"
KEY_PREFIX = "agentmem_"  # so that scanners of source code find keys that were checked in


@dataclass(frozen=True, slots=True)
class ApiKey:
    """One key; its secret is stored nowhere. `user_id` is a user or `*`: then each request names one.

    A `channel` or `agent_id` here is the only one that the key opens. `expires_at` and what did not happen are None.
    """

    id: str
    user_id: str
    scopes: tuple[Permission, ...]
    created_at: datetime
    channel: str | None = None
    agent_id: str | None = None
    expires_at: datetime | None = None
    last_used_at: datetime | None = None
    revoked_at: datetime | None = None

    def is_valid(self, now: datetime) -> bool:
        """Whether it was neither revoked nor has expired."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


def hash_secret(secret: str) -> str:
    """The SHA-256 of a secret in hexadecimal. No salt and no slow hash: a secret has 256 random bits."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
