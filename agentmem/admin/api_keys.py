"""Keys of the server: made, listed and revoked. The command line and the server call the same functions."""

from __future__ import annotations

import secrets
from collections.abc import Collection
from datetime import datetime
from typing import NamedTuple

from agentmem.core.api_keys import ALL_USERS, KEY_PREFIX, PERMISSIONS, ApiKey, Permission, hash_secret
from agentmem.core.changes import AuditEntry
from agentmem.core.clock import to_utc
from agentmem.core.scope import GLOBAL, Scope, check_identifier
from agentmem.engine.engine import Engine
from agentmem.errors import InvalidRecord, NotFound

SECRET_BYTES = 32


class NewApiKey(NamedTuple):
    """A key that was made, and its secret, which can be shown only now."""

    key: ApiKey
    secret: str


async def create_api_key(
    engine: Engine,
    user_id: str,
    scopes: Collection[str],
    *,
    channel: str | None = None,
    agent_id: str | None = None,
    expires_at: datetime | None = None,
    asked_by: str | None = None,
) -> NewApiKey:
    """Make a key for one user, or for `*`: then each request names a user, and the scopes must hold `admin`.

    `scopes` are of read, write, erase and admin. With a `channel` or `agent_id` it opens that one alone. `asked_by` is
    the key of who asks, for the audit row. Raises InvalidRecord, naming the field, for what cannot be.
    """
    now = engine.clock.now()
    check_identifier(user_id, "user_id")
    Scope(user_id, GLOBAL if channel is None else channel, agent_id).check_visible()
    ends = None if expires_at is None else to_utc(expires_at, "expires_at")
    if ends is not None and ends <= now:
        raise InvalidRecord("expires_at must be in the future", field="expires_at")
    key = ApiKey(engine.ids.new_id(), user_id, _check_scopes(scopes, user_id), now, channel, agent_id, ends)
    secret = KEY_PREFIX + secrets.token_urlsafe(SECRET_BYTES)
    await engine.api_keys.add(key, hash_secret(secret))
    await _write_audit(engine, "create_key", key, asked_by)
    return NewApiKey(key, secret)


async def list_api_keys(engine: Engine, user_id: str | None = None) -> list[ApiKey]:
    """The keys of one user (or of `*`), or of all, latest first; revoked and expired ones, too."""
    return await engine.api_keys.list_keys(user_id)


async def revoke_api_key(
    engine: Engine, key_id: str, *, user_id: str | None = None, asked_by: str | None = None
) -> ApiKey:
    """End a key, one of this user when one is given; running servers refuse it within two seconds.

    Returns the revoked key; a second call changes nothing. Raises NotFound when there is no such key.
    """
    found = [key for key in await engine.api_keys.list_keys(user_id) if key.id == key_id]
    if not found:
        raise NotFound(f"there is no key {key_id!r}; list them with: agentmem keys list")
    await engine.api_keys.revoke(found[0], engine.clock.now())
    await _write_audit(engine, "revoke_key", found[0], asked_by)
    return next(key for key in await engine.api_keys.list_keys(found[0].user_id) if key.id == key_id)


def _check_scopes(scopes: Collection[str], user_id: str) -> tuple[Permission, ...]:
    """The scopes in their order, each once."""
    known = ", ".join(PERMISSIONS)
    unknown = sorted(set(scopes) - set(PERMISSIONS))
    if unknown or not scopes or isinstance(scopes, str):
        raise InvalidRecord(f"scopes must be some of {known}, got {unknown or scopes!r}", field="scopes")
    if user_id == ALL_USERS and "admin" not in scopes:
        raise InvalidRecord(f"a key for all users (user {ALL_USERS!r}) needs the scope admin", field="scopes")
    return tuple(scope for scope in PERMISSIONS if scope in scopes)


async def _write_audit(engine: Engine, operation: str, key: ApiKey, asked_by: str | None) -> None:
    """A row of the key's user; of the system's where the key is for all."""
    if engine.auditor.level != "off":
        owner = None if key.user_id == ALL_USERS else Scope(key.user_id, key_id=asked_by)
        details = {"key": key.id, "scopes": list(key.scopes)}
        await engine.write_audit(
            AuditEntry(operation=operation, memory_type="system", scope=owner, result_count=1, metadata=details)
        )
