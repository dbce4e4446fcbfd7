"""What each role may do on a server, also by plain SQL, and who makes roles and grants."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from agentmem import AgentMemory
from agentmem.core.api_keys import ApiKey
from agentmem.core.changes import AuditEntry
from agentmem.core.clock import SystemClock
from agentmem.core.scope import Operator, Scope
from agentmem.errors import StoreError
from agentmem.stores.postgres import PostgresLog, find_missing_roles, migrate, open_log
from agentmem.stores.postgres.vectors import open_vectors
from agentmem.stores.sql.api_keys import SqlApiKeys
from agentmem.stores.values import Where
from tests.conformance.conftest import database_url
from tests.conformance.stores import admin_of
from tests.conformance.writing import START, build_turn_changes, record_ids
from tests.flows.given import bundle_ids
from tests.servers.local import LocalServer
from tests.servers.postgres import backup, programs

ALICE = Scope("alice")
CHANGE = "INSERT INTO memory_changes (user_id, seq, change_id, operation_id, operation, actor, at) VALUES ('alice', "
VERSION = "INSERT INTO memory_versions (user_id, slot, seq, kind, id, payload) VALUES ('alice', 0, "
AUDIT = "INSERT INTO memory_audit_log (user_id, timestamp, operation, memory_type) VALUES "
KEY = "INSERT INTO api_keys (user_id, id, secret_hash, scopes, created_at) VALUES ('*', 'k', 'h', 'admin', 0)"
BOTH = ("agentmem_app", "agentmem_worker")
APP, AUDITOR = ("agentmem_app",), ("agentmem_auditor",)
# Statements by plain SQL, and the roles that must be refused the last of them.
ATTACKS = {
    "rewrite the journal": (BOTH, "UPDATE memory_changes SET actor = 'x'"),
    "delete the journal": (BOTH, "DELETE FROM memory_changes WHERE seq = 2"),
    "rewrite a version": (BOTH, "UPDATE memory_versions SET payload = '{}'"),
    "delete a version": (BOTH, "DELETE FROM memory_versions"),
    "empty the journal": (BOTH, "TRUNCATE memory_changes"),
    "leave a gap": (BOTH, CHANGE + "9, 'x', 'x', 'x', '', 0)"),
    "write at a position of before the first": (BOTH, CHANGE + "0, 'x', 'x', 'x', '', 0)"),
    "add a version to the past": (BOTH, VERSION + "2, 'Turn', 'a', '{}')"),
    "set counters back": (BOTH, "UPDATE memory_users SET head = 1"),
    "drop a user": (BOTH, "DELETE FROM memory_users"),
    "erase without an entry": (BOTH, "SELECT drop_versions(NULL)"),
    "blank entries without an erasure": (BOTH, "SELECT blank_changes(NULL)"),
    "blank audit texts without an erasure": (BOTH, "SELECT blank_audit_text(NULL, NULL)"),
    "forge a past audit row": (BOTH, AUDIT + "('alice', now() - INTERVAL '1 day', 'o', 'm')"),
    "forge a future audit row": (BOTH, AUDIT + "('alice', now() + INTERVAL '1 day', 'o', 'm')"),
    "forge an audit row of another": (BOTH, AUDIT + "('mallory', now(), 'o', 'm')"),
    "rewrite an audit row": (BOTH, "UPDATE memory_audit_log SET operation = 'x'"),
    "open the gate of the audit log": (BOTH, "SET agentmem.audit_gate = 'retention'; DELETE FROM memory_audit_log"),
    "read a partition": (BOTH, "SELECT * FROM memory_audit_log_default"),
    "drop days": (APP, "SELECT drop_old_audit_partitions(1)"),
    "insert a key for all": (BOTH, "SET agentmem.user_id = '*';" + KEY),
    "make a key for all": (
        APP,
        "SET agentmem.user_id = '*'; SELECT add_api_key('k', 'h', NULL, NULL, 'admin', 0, NULL)",
    ),
    "revoke a key for all": (APP, "SET agentmem.user_id = '*'; SELECT revoke_api_key('k', 0)"),
    "drop the keys for all": (APP, "SET agentmem.user_id = '*'; SELECT drop_api_keys()"),
    "change the store id": (BOTH, "UPDATE store_meta SET value = 'x' WHERE name = 'store_id'"),
    "set the store id": (BOTH, "SELECT set_store_meta('{store_id}', '{x}', true)"),
    "change the embedder": (APP, "SELECT set_store_meta('{embedder}', '{x}', true)"),
    "announce another embedder": (APP, "SELECT set_store_meta('{embedder_next}', '{x}', false)"),
    "drop meta data": (APP, "SELECT drop_store_meta('embedder')"),
    "delete embedders": (BOTH, "DELETE FROM embedders"),
    "drop an embedder": (APP, "SELECT drop_embedder('hash:v1:8')"),
    "add an embedder": (BOTH, "INSERT INTO embedders (identity, number, dimensions, added_at) VALUES ('x', 9, 9, 0)"),
    "register an embedder": (APP, "SELECT register_embedder('x', 9)"),
    "make tables of vectors": (BOTH, "SELECT make_passages(9)"),
    "make a table": (BOTH + AUDITOR, "CREATE TABLE mine (id INTEGER)"),
    "write as the auditor": (AUDITOR, AUDIT + "('alice', now(), 'o', 'm')"),
    "read memories as the auditor": (AUDITOR, "SELECT * FROM memory_records"),
    "erase as the auditor": (AUDITOR, "SELECT drop_versions(NULL)"),
}


@pytest.fixture
async def store(postgres_log: str) -> AsyncIterator[PostgresLog]:
    """A worker's log with some turns of Alice's, an embedder, and an audit row of today."""
    log = await open_log(postgres_log, SystemClock())
    entry = AuditEntry(operation="store", memory_type="episodic", scope=ALICE, query_text="peanuts")
    await log.append(build_turn_changes(ALICE, "a", "b"), entry)
    await log.set_meta({"embedder": "hash:v1:8"})
    await open_vectors(log.database, "hash:v1:8", 8)
    yield log
    await log.close()


@pytest.fixture
def bare(owner: psycopg.Connection[Any], postgres_migrated: tuple[str, str]) -> Iterator[psycopg.Connection[Any]]:
    """A session beside it that may take any role, with the clock of audit rows looked at."""
    switch = "ALTER TABLE memory_audit_log {} TRIGGER memory_audit_log_timely"
    owner.execute(switch.format("ENABLE"))
    with psycopg.connect(postgres_migrated[0]) as connection:
        yield connection
        connection.rollback()
    owner.execute(switch.format("DISABLE"))


@pytest.fixture
def agent_url(owner: psycopg.Connection[Any], postgres_migrated: tuple[str, str]) -> Iterator[str]:
    """The URL of an agent's login in the same database."""
    url, name = postgres_migrated[0], f"agent_{os.urandom(6).hex()}"
    owner.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'secret' IN ROLE agentmem_app")
    yield database_url(url, url.rpartition("/")[2], f"{name}:secret")
    owner.execute(f"DROP ROLE {name}")


@pytest.mark.parametrize("attack", ATTACKS)
def test_plain_sql_of_a_role_does_no_more_than_its_work(
    store: PostgresLog, bare: psycopg.Connection[Any], attack: str
) -> None:
    roles, statements = ATTACKS[attack]
    for role in roles:
        *before, last = statements.split(";")
        for text in ("SET agentmem.user_id = 'alice'", f"SET ROLE {role}", *before):
            bare.execute(text)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            bare.execute(last)
        bare.rollback()


def test_grants_that_were_made_by_mistake_open_nothing(store: PostgresLog, bare: psycopg.Connection[Any]) -> None:
    bare.execute("GRANT ALL ON ALL TABLES IN SCHEMA public TO agentmem_app")
    bare.execute("SET LOCAL agentmem.user_id = 'alice'")
    bare.execute("SET LOCAL ROLE agentmem_app")
    for statement in ("UPDATE memory_changes SET actor = 'x'", "DELETE FROM memory_versions"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="cannot be changed"), bare.transaction():
            bare.execute(statement)
    for table in ("api_keys", "store_meta", "embedders"):
        assert bare.execute(f"DELETE FROM {table}").rowcount == 0


def test_an_agent_does_its_work_with_its_role(
    bare: psycopg.Connection[Any], owner: psycopg.Connection[Any], agent_url: str, home: Path
) -> None:
    with AgentMemory("alice", home=home, embedder="hash", log_url=agent_url, audit_level="verbose") as memory:
        turn = memory.store_turn("I'm allergic to peanuts.")
        tea, milk = memory.learn_fact("Alice likes tea"), memory.learn_fact("Alice drinks milk")
        assert turn.id in bundle_ids(memory.remember("what am I allergic to?"))
        memory.undo(memory.forget(tea.id).operation_id)
        assert memory.forget(milk.id, hard=True).ids == (milk.id,)
        assert memory.consolidate()
        bodies = owner.execute("SELECT count(*) FROM memory_versions WHERE id = %s AND NOT erased", (milk.id,))
        assert bodies.fetchone() == (0,)
        memory.erase()
    texts = owner.execute("SELECT operation, query_text FROM memory_audit_log WHERE query_text IS NOT NULL").fetchall()
    kept = owner.execute("SELECT count(*) FROM memory_versions WHERE payload IS NOT NULL").fetchone()
    assert (texts, kept) == ([], (0,))


async def test_keys_and_embedders_are_those_of_who_asks(store: PostgresLog, agent_url: str) -> None:
    agent = await open_log(agent_url, SystemClock())
    own, all_users = (ApiKey(name, name, ("admin",), START) for name in ("alice", "*"))
    for log in (store, agent):
        keys = SqlApiKeys(log.database)
        await keys.add(own, "hash of alice's")
        assert [key.id for key in await keys.list_keys("alice")] == ["alice"]
        await keys.note_use(own, START)
        await keys.revoke(own, START)
        found = await keys.find("hash of alice's")
        assert found is not None
        assert (found.key.last_used_at, found.key.revoked_at) == (START, START)
        await log.erase(ALICE, None, operation_id=f"erasure {log is agent}", erased_at=START)
        assert await keys.list_keys("alice") == []
    await SqlApiKeys(store.database).add(all_users, "hash of all's")
    await SqlApiKeys(agent.database).note_use(all_users, START)
    await store.set_meta({"embedder_next": "hash:v1:9"})
    await open_vectors(agent.database, "hash:v1:9", 9)
    for refused in (open_vectors(agent.database, "hash:v1:10", 10), agent.set_meta({"embedder": "hash:v1:9"})):
        with pytest.raises(StoreError, match="this role may not"):
            await refused
    assert await admin_of(store).drop_embedders(["hash:v1:8"]) == ["hash:v1:9"]
    await agent.close()


def run_as_superuser(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


async def test_migrating_a_restored_database_makes_roles_and_grants(own_postgres: LocalServer, tmp_path: Path) -> None:
    url, file = database_url(own_postgres.url, "mine"), tmp_path / "dump"
    agent, worker = (database_url(url, "mine", f"{name}:x") for name in ("agent", "worker"))
    run_as_superuser(own_postgres.url, "CREATE DATABASE mine")
    await migrate(url, START)
    run_as_superuser(url, "CREATE ROLE agent LOGIN PASSWORD 'x' IN ROLE agentmem_app")
    log = await open_log(agent, SystemClock())
    await log.append(build_turn_changes(ALICE, "a"))
    await log.close()
    backup(url, file)
    roles = "DROP ROLE agentmem_app, agentmem_worker, agentmem_auditor"
    run_as_superuser(own_postgres.url, "DROP DATABASE mine", roles, "CREATE DATABASE mine")
    restored = subprocess.run([programs() / "pg_restore", f"--dbname={url}", file], capture_output=True, text=True)
    assert 'role "agentmem_app" does not exist' in restored.stderr
    assert await find_missing_roles(url) == ["agentmem_app", "agentmem_worker", "agentmem_auditor"]
    assert await migrate(url, START) == 0
    assert await find_missing_roles(url) == []
    run_as_superuser(
        own_postgres.url,
        "GRANT agentmem_app TO agent",
        "CREATE ROLE worker LOGIN PASSWORD 'x' IN ROLE agentmem_app, agentmem_worker",
    )
    log, workers = [await open_log(login, SystemClock()) for login in (agent, worker)]
    await log.append(build_turn_changes(ALICE, "b"))
    assert record_ids(await log.find(ALICE, Where(kinds=("Turn",)))) == ["a", "b"]
    assert (await workers.users(Operator()), await workers.check(Operator())) == (["alice"], [])
    with pytest.raises(StoreError, match="permission denied"):
        await log.database.commit(ALICE, lambda db: db.execute("DELETE FROM memory_changes"))
    for each in (log, workers):
        await each.close()


async def test_migrating_says_who_makes_roles_that_it_may_not_make(
    own_postgres: LocalServer, caplog: pytest.LogCaptureFixture
) -> None:
    owned = database_url(own_postgres.url, "mine")
    run_as_superuser(own_postgres.url, "CREATE ROLE plain LOGIN PASSWORD 'x'", "CREATE DATABASE mine OWNER plain")
    run_as_superuser(owned, "CREATE EXTENSION vector")
    login = database_url(owned, "mine", "plain:x")
    await migrate(login, START)
    commands = caplog.text.partition("as an administrator run: ")[2].partition("; then: agentmem admin migrate")[0]
    run_as_superuser(own_postgres.url, *commands.split("; "))
    caplog.clear()
    assert (await migrate(login, START), caplog.text) == (0, "")
    with psycopg.connect(login) as owner:
        policies = owner.execute("SELECT DISTINCT roles::text[] FROM pg_policies WHERE policyname = 'operator_reads'")
        assert policies.fetchall() == [(["agentmem_worker"],)]
