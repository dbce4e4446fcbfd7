"""Who asks: what a credential says about its caller. Keys of the store, or tokens of an identity provider."""

from __future__ import annotations

import asyncio
import hmac
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from agentmem.core.api_keys import ALL_PERMISSIONS, ALL_USERS, ApiKey, Permission, hash_secret
from agentmem.core.scope import self_channel
from agentmem.engine.engine import Engine
from agentmem.errors import AgentMemError

KEY_CACHE_SECONDS = 1.0  # a revocation acts within two
USE_NOTE_SECONDS = 60.0  # so exact is the last use of a key
MAX_CACHED_KEYS = 10_000
MAX_CREDENTIAL_CHARS = 8_192


@dataclass(frozen=True, slots=True)
class Caller:
    """Whose memory a request is about, and what it may do there. A `channel` or `agent_id` here is the only one.

    Without a `user_id` the request names the user. `key_id` stands in audit rows. No key made by this caller outlives
    `expires_at`.
    """

    user_id: str | None
    permissions: frozenset[Permission] = ALL_PERMISSIONS
    channel: str | None = None
    agent_id: str | None = None
    key_id: str | None = None
    expires_at: datetime | None = None

    @property
    def is_limited(self) -> bool:
        """Whether the key is for one channel or agent alone."""
        return self.channel is not None or self.agent_id is not None

    @property
    def own_channels(self) -> tuple[str, ...] | None:
        """The channels that it may write into; None for all."""
        private = () if self.agent_id is None else (self_channel(self.agent_id),)
        return ((self.channel, *private) if self.channel is not None else private) or None


class CredentialVerifier(Protocol):
    """Finds the caller of a credential."""

    async def verify(self, credential: str) -> Caller | None:
        """The caller; None for a credential that is not valid here, or not any more."""
        ...


@dataclass
class _CachedKey:
    key: ApiKey
    until: float
    noted_at: float | None = None


class ApiKeyVerifier:
    """Verifies the keys of the store that `get_engine` gives, which was opened by then."""

    def __init__(self, get_engine: Callable[[], Engine]) -> None:
        self._get_engine = get_engine
        self._cache: OrderedDict[str, _CachedKey] = OrderedDict()  # by the hash of the secret
        self._lookups: dict[str, asyncio.Future[_CachedKey | None]] = {}  # those under way
        self._were_made = False
        self._looked_at: float | None = None

    async def verify(self, credential: str) -> Caller | None:
        """The caller of a key; None for an unknown, expired or revoked one."""
        if len(credential) > MAX_CREDENTIAL_CHARS:
            return None
        found = await self._find(hash_secret(credential))
        engine = self._get_engine()
        if found is None or not found.key.is_valid(engine.clock.now()):
            return None
        await self._note_use(engine, found)
        key = found.key
        user = None if key.user_id == ALL_USERS else key.user_id
        return Caller(user, frozenset(key.scopes), key.channel, key.agent_id, key.id, key.expires_at)

    async def were_made(self) -> bool:
        """Whether the store ever had a key; at most a second old."""
        now = asyncio.get_running_loop().time()
        if not self._were_made and (self._looked_at is None or now >= self._looked_at + KEY_CACHE_SECONDS):
            self._were_made = await self._get_engine().api_keys.were_made()
            self._looked_at = now
        return self._were_made

    async def _find(self, secret_hash: str) -> _CachedKey | None:
        now = asyncio.get_running_loop().time()
        cached = self._cache.get(secret_hash)
        if cached is not None and now < cached.until:
            return cached
        if secret_hash not in self._lookups:  # many requests of one key ask the store once
            self._lookups[secret_hash] = lookup = asyncio.ensure_future(self._look_up(secret_hash, cached, now))
            lookup.add_done_callback(lambda done: self._end_lookup(secret_hash, done))
        return await asyncio.shield(self._lookups[secret_hash])

    def _end_lookup(self, secret_hash: str, done: asyncio.Future[_CachedKey | None]) -> None:
        self._lookups.pop(secret_hash, None)
        if not done.cancelled():
            done.exception()  # those who wait have it; nobody may wait any more

    async def _look_up(self, secret_hash: str, cached: _CachedKey | None, now: float) -> _CachedKey | None:
        found = await self._get_engine().api_keys.find(secret_hash)
        if found is None or not hmac.compare_digest(found.secret_hash, secret_hash):
            self._cache.pop(secret_hash, None)
            return None
        noted = None if cached is None else cached.noted_at
        self._cache[secret_hash] = fresh = _CachedKey(found.key, now + KEY_CACHE_SECONDS, noted)
        self._cache.move_to_end(secret_hash)
        if len(self._cache) > MAX_CACHED_KEYS:
            self._cache.popitem(last=False)
        return fresh

    async def _note_use(self, engine: Engine, cached: _CachedKey) -> None:
        now = asyncio.get_running_loop().time()
        if cached.noted_at is None or now >= cached.noted_at + USE_NOTE_SECONDS:
            cached.noted_at = now
            with suppress(AgentMemError):  # a full disk should not keep a reader out
                await engine.api_keys.note_use(cached.key, engine.clock.now())


class CallerFinder:
    """Finds the caller of a request by the first verifier that knows its credential.

    Where the server is open, a store that never had a key, asked on loopback, lets everybody do everything.
    """

    def __init__(
        self, keys: ApiKeyVerifier, *, others: tuple[CredentialVerifier, ...] = (), is_loopback: bool = True
    ) -> None:
        self.is_loopback = is_loopback
        self._keys = keys
        self._verifiers: tuple[CredentialVerifier, ...] = (keys, *others)
        self._may_be_open = is_loopback and not others

    async def find(self, credential: str | None) -> Caller | None:
        """The caller; None when there is no credential, or none that is valid."""
        if self._may_be_open and not await self._keys.were_made():
            return Caller(None)
        if credential is not None:
            for verifier in self._verifiers:
                caller = await verifier.verify(credential)
                if caller is not None:
                    return caller
        return None
