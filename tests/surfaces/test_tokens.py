"""Tokens of an identity provider: which are taken, and what their claims allow."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from agentmem import AsyncAgentMemory
from agentmem.errors import ConfigError, StoreUnavailable
from agentmem.server.tokens import JwtVerifier
from agentmem.settings.sections import ServerOptions
from tests.surfaces.conftest import open_client

KEY, OTHER = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
PUBLIC = ECAlgorithm.to_jwk(KEY.public_key(), as_dict=True)
Sign = Callable[..., str]


@pytest.fixture
def options(tmp_path: Path) -> dict[str, Any]:
    """Settings that take tokens signed with the key."""
    path = tmp_path / "keys.json"
    path.write_text(json.dumps({"keys": [{**PUBLIC, "kid": "one", "use": "sig", "alg": "ES256"}]}))
    return {"jwt_keys": str(path), "jwt_issuer": "https://id.example", "jwt_audience": "agentmem"}


def sign(*, key: Any = KEY, algorithm: str = "ES256", kid: str = "one", **changes: Any) -> str:
    """A token of Ann's, with some claims changed; those that are None are left out."""
    claims = {
        "iss": "https://id.example",
        "aud": "agentmem",
        "exp": time.time() + 60,
        "sub": "ann",
        "scope": "read write",
    }
    claims |= changes
    present = {name: value for name, value in claims.items() if value is not None}
    return jwt.encode(present, key, algorithm, headers={"kid": kid})


async def test_a_token_names_its_user_and_what_he_may_do(options: dict[str, Any]) -> None:
    verifier = JwtVerifier(ServerOptions(**options))
    caller = await verifier.verify(sign(scope="write profile read"))
    assert caller is not None
    assert (caller.user_id, caller.permissions, caller.key_id) == ("ann", {"read", "write"}, "jwt:ann")
    listed = await verifier.verify(sign(scope=["erase"], sub="bob"))
    assert listed is not None
    assert (listed.user_id, listed.permissions) == ("bob", {"erase"})
    by_mail = JwtVerifier(ServerOptions(**options, jwt_user_claim="email"))
    assert await by_mail.verify(sign()) is None
    found = await by_mail.verify(sign(email="ann@id.example"))
    assert found is not None
    assert found.user_id == "ann@id.example"


@pytest.mark.parametrize(
    "token",
    [
        sign(exp=time.time() - 3600),
        sign(exp=None),
        sign(nbf=time.time() + 3600),
        sign(aud="another"),
        sign(aud=None),
        sign(iss="https://evil.example"),
        sign(sub=None),
        sign(sub=""),
        sign(sub="*"),
        sign(sub=7),
        sign(key=OTHER),
        sign(kid="two"),
        sign(key="x" * 32, algorithm="HS256"),
        jwt.encode({"sub": "ann"}, None, "none"),
        sign()[:-4] + "AAAA",
        "a.b.c",
        "..",
        "x" * 10_000 + ".b.c",
    ],
)
async def test_what_is_no_valid_token_here_is_nobody(options: dict[str, Any], token: str) -> None:
    assert await JwtVerifier(ServerOptions(**options)).verify(token) is None


async def test_with_tokens_the_server_is_never_open(options: dict[str, Any], home: Path) -> None:
    memory = AsyncAgentMemory("ann", home=home, embedder="hash", server=options)
    async with open_client(memory) as client:
        assert (await client.get("/v1/turns")).status_code == 401
        bearer = {"Authorization": f"Bearer {sign(scope='read')}"}
        assert (await client.get("/v1/turns", headers=bearer)).status_code == 200
        assert (await client.post("/v1/turns", json={"content": "Hi."}, headers=bearer)).status_code == 403


async def test_a_provider_that_is_away_is_no_reason_to_let_anybody_in(options: dict[str, Any]) -> None:
    away = JwtVerifier(ServerOptions(**{**options, "jwt_keys": "http://127.0.0.1:1/keys"}))
    with pytest.raises(StoreUnavailable, match="identity provider"):
        await away.verify(sign())


def test_settings_that_would_take_any_token_are_refused(options: dict[str, Any], tmp_path: Path) -> None:
    for wrong in ({"jwt_issuer": None}, {"jwt_audience": ""}, {"jwt_keys": "http://id.example/keys"}):
        with pytest.raises(ValueError, match="jwt_"):
            ServerOptions(**{**options, **wrong})
    (tmp_path / "keys.json").write_text("{}")
    for path in ("keys.json", "missing.json"):
        with pytest.raises(ConfigError, match="jwt_keys"):
            JwtVerifier(ServerOptions(**{**options, "jwt_keys": str(tmp_path / path)}))
