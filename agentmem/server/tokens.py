"""Verifies JSON Web Tokens of an identity provider, by the public keys that it publishes."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jwt

from agentmem.core.api_keys import ALL_USERS, PERMISSIONS
from agentmem.core.clock import LAST_MOMENT
from agentmem.errors import ConfigError, StoreUnavailable
from agentmem.server.callers import MAX_CREDENTIAL_CHARS, Caller
from agentmem.settings.sections import ServerOptions

ALGORITHMS = (
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "EdDSA",
)  # public keys only
FETCH_SECONDS = 5.0
KEY_SET_SECONDS = 300.0  # a withdrawn key is refused after that
CLOCK_SKEW_SECONDS = 30


class JwtVerifier:
    """Verifies tokens that name their user in a claim, and what he may do in the claim `scope`.

    Signature, issuer, audience and expiry are checked. Raises ConfigError for a key file that cannot be read.
    """

    def __init__(self, options: ServerOptions) -> None:
        assert options.jwt_keys is not None
        self._options = options
        self._client: jwt.PyJWKClient | None = None
        self._key_set: jwt.PyJWKSet | None = None
        if options.jwt_keys.startswith(("https://", "http://")):
            self._client = jwt.PyJWKClient(options.jwt_keys, lifespan=KEY_SET_SECONDS, timeout=FETCH_SECONDS)
        else:
            self._key_set = _read_key_set(Path(options.jwt_keys))

    async def verify(self, credential: str) -> Caller | None:
        """The caller of a token; None for what is no valid token. Raises StoreUnavailable when no keys can be had."""
        if credential.count(".") != 2 or len(credential) > MAX_CREDENTIAL_CHARS:
            return None
        try:
            key = await self._find_key(credential)
            claims = jwt.decode(
                credential,
                key,
                algorithms=ALGORITHMS,
                audience=self._options.jwt_audience,
                issuer=self._options.jwt_issuer,
                leeway=CLOCK_SKEW_SECONDS,
                options={"require": ["exp", "iss", "aud"]},
            )
        except jwt.PyJWKClientConnectionError:
            raise StoreUnavailable("the identity provider's keys cannot be fetched (server.jwt_keys)") from None
        except (jwt.PyJWTError, ValueError, TypeError):
            return None
        return self._read_claims(claims)

    async def _find_key(self, credential: str) -> jwt.PyJWK:
        name = jwt.get_unverified_header(credential).get("kid")
        if self._client is not None:  # it may ask the provider, and blocks while it does
            return await asyncio.to_thread(self._client.get_signing_key, str(name))
        assert self._key_set is not None
        keys = [key for key in self._key_set.keys if name is None or key.key_id == name]
        if len(keys) != 1:
            raise jwt.InvalidKeyError("the token names no key of the set")
        return keys[0]

    def _read_claims(self, claims: dict[str, Any]) -> Caller | None:
        user = claims.get(self._options.jwt_user_claim)
        if not isinstance(user, str) or not user or user == ALL_USERS:
            return None
        scope = claims.get("scope", "")
        given = scope.split() if isinstance(scope, str) else scope if isinstance(scope, list) else []
        permissions = frozenset(each for each in PERMISSIONS if each in given)
        try:
            ends = datetime.fromtimestamp(claims["exp"], UTC)
        except (OverflowError, ValueError, OSError):  # beyond the calendar
            ends = LAST_MOMENT
        return Caller(user, permissions, key_id=f"jwt:{user}", expires_at=ends)


def _read_key_set(path: Path) -> jwt.PyJWKSet:
    try:
        return jwt.PyJWKSet.from_dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, jwt.PyJWTError) as error:
        raise ConfigError(f"server.jwt_keys: {path} holds no JSON Web Key Set ({type(error).__name__})") from None
