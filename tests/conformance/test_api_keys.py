"""Keys of the server as every backend stores them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from agentmem.core.api_keys import ApiKey
from agentmem.core.scope import Scope
from agentmem.stores.api_keys import ApiKeyStore
from agentmem.stores.protocols import LogStore
from agentmem.stores.sql.api_keys import SqlApiKeys
from tests.conformance.writing import START

ALICE = ApiKey("k1", "alice", ("read", "write"), START, channel="work", agent_id="scout", expires_at=START)
ALL = ApiKey("k2", "*", ("admin",), START + timedelta(seconds=1))


@pytest.fixture
async def keys(log: Any) -> ApiKeyStore:
    """The keys beside the log of a test."""
    return SqlApiKeys(log.database)


async def test_a_key_is_found_by_the_hash_of_its_secret_alone(keys: ApiKeyStore) -> None:
    assert not await keys.were_made()
    await keys.add(ALICE, "aa")
    await keys.add(ALL, "bb")
    assert await keys.were_made()
    for key, secret_hash in ((ALICE, "aa"), (ALL, "bb")):
        assert await keys.find(secret_hash) == (key, secret_hash)
    assert await keys.find("") is None
    assert await keys.find("cc") is None


async def test_keys_are_listed_used_and_revoked_once(keys: ApiKeyStore) -> None:
    await keys.add(ALICE, "aa")
    await keys.add(ALL, "bb")
    assert await keys.list_keys() == [ALL, ALICE]
    assert await keys.list_keys("alice") == [ALICE]
    assert await keys.list_keys("bob") == []
    later = START + timedelta(hours=1)
    for moment in (later, START):
        await keys.note_use(ALICE, moment)
    await keys.revoke(ALICE, START)
    await keys.revoke(ALICE, later)
    assert await keys.list_keys("alice") == [replace(ALICE, last_used_at=later, revoked_at=START)]
    assert await keys.list_keys("*") == [ALL]


async def test_an_erased_user_has_no_keys_also_when_nothing_else_was_stored(keys: ApiKeyStore, log: LogStore) -> None:
    await keys.add(ALICE, "aa")
    await keys.add(ALL, "bb")
    scan = await log.erase(Scope("alice"), None, operation_id="op", erased_at=START)
    assert ("api_keys" in scan.checked, scan.leftovers) == (True, {})
    assert await keys.list_keys() == [ALL]
    assert await keys.were_made()
