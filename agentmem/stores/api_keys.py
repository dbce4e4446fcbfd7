"""The store of the server's keys as a protocol: they are found by the hash of their secret, before a user is known."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from agentmem.core.api_keys import ApiKey
from agentmem.core.clock import from_micros, from_micros_or_none, to_micros

KEYS_MADE = "api_keys_made"
"""The name in the store's meta data that is there from the first key on, also when none is left."""


class FoundKey(NamedTuple):
    """A key, and the hash of its secret."""

    key: ApiKey
    secret_hash: str


class ApiKeyStore(Protocol):
    """What a backend offers for keys."""

    async def add(self, key: ApiKey, secret_hash: str) -> None:
        """Store a key, and note that this store has had one."""
        ...

    async def find(self, secret_hash: str) -> FoundKey | None:
        """The key with the secret of this hash, also an expired or revoked one; None when there is none."""
        ...

    async def list_keys(self, user_id: str | None = None) -> list[ApiKey]:
        """The keys of one user (or of `*`), or of all, latest first. On a server, those of all need a worker's role."""
        ...

    async def revoke(self, key: ApiKey, revoked_at: datetime) -> None:
        """End a key. One that was revoked before keeps that moment."""
        ...

    async def note_use(self, key: ApiKey, used_at: datetime) -> None:
        """Note when a key was used last."""
        ...

    async def were_made(self) -> bool:
        """Whether this store ever had a key."""
        ...


def to_row(key: ApiKey, secret_hash: str) -> dict[str, Any]:
    """The columns of a key, moments in microseconds."""
    return {
        "user_id": key.user_id,
        "id": key.id,
        "secret_hash": secret_hash,
        "channel": key.channel,
        "agent_id": key.agent_id,
        "scopes": " ".join(key.scopes),
        "created_at": to_micros(key.created_at),
        "expires_at": None if key.expires_at is None else to_micros(key.expires_at),
    }


def from_row(row: Sequence[Any]) -> ApiKey:
    """The key of a row, whose columns are in the order of the fields."""
    key_id, user_id, scopes, created_at, channel, agent_id, *moments = row
    moments = [from_micros_or_none(moment) for moment in moments]
    return ApiKey(key_id, user_id, tuple(scopes.split()), from_micros(created_at), channel, agent_id, *moments)
