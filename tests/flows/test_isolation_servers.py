"""On servers nobody sees or outranks anybody either, and a bare SQL session stands before the same wall.

AGENTMEM_TEST_CROWD=100000 makes the crowd of other users' passages so large.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from tests.flows.given import bundle_ids, open_memory, visible_content
from tests.flows.test_isolation import QUERIES, crowd, fill
from tests.scale import NIGHTLY
from tests.servers.stack import Stack

OTHERS = int(os.environ.get("AGENTMEM_TEST_CROWD", "5000" if NIGHTLY else "2000"))
LINKED = 2000 if NIGHTLY else 500  # of them are in the graph too
ASKED = [(query, techniques) for query in QUERIES for techniques in (None, ["vector"], ["keyword"], ["entity"])]
EVERYBODYS = {"embedders", "leases", "store_meta", "schema_version"}  # rows of the store itself
AUDITED = {"memory_audit_log", "schema_version"}
RELATIONS = """
    SELECT relname, EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'user_id'),
           relkind = 'v'
    FROM pg_class c WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'v') ORDER BY 1"""


@pytest.mark.timeout(1800 if OTHERS > 5000 else 120)
def test_many_nearer_passages_of_others_change_nothing(home: Path, stack: Stack) -> None:
    given: dict[str, Any] = {"seed": 1, "recall_rate": 0, **stack.urls}
    with open_memory(home, stack.user(), **given) as memory:
        fill(memory)
        before = [visible_content(memory.remember(query, techniques=named, reinforce=False)) for query, named in ASKED]
        contexts = [memory.context(query, reinforce=False) for query in QUERIES]
        crowd(memory, OTHERS, f" {stack.user_suffix}", linked=LINKED)
        after = [visible_content(memory.remember(query, techniques=named, reinforce=False)) for query, named in ASKED]
        assert after == before
        assert [memory.context(query, reinforce=False) for query in QUERIES] == contexts
        other = memory.scoped(user_id=f"other 0 {stack.user_suffix}").remember(QUERIES[0], reinforce=False)
        assert other.items, "they are there, and found by their owner"
        assert not bundle_ids(other) & bundle_ids(memory.remember(QUERIES[0], reinforce=False))
    with open_memory(home, stack.user(), **given) as again:
        assert [visible_content(again.remember(query, techniques=t, reinforce=False)) for query, t in ASKED] == before


@pytest.fixture
def bare(home: Path, stack: Stack) -> Iterator[psycopg.Connection[Any]]:
    """A session beside a store that Alice and Bob have used in many ways."""
    for name in ("alice", "bob"):
        with open_memory(home, stack.user(name), audit_level="verbose", **stack.urls) as memory:
            fill(memory)
            memory.remember("spare key")
            memory.forget(memory.learn_fact("To be forgotten").id, hard=True)
            memory.flush()
    with psycopg.connect(stack.log_url, autocommit=True) as connection:
        yield connection


def relations(db: psycopg.Connection[Any]) -> list[tuple[str, bool, bool]]:
    """Every table and view with whether it names users and whether it is a view."""
    found = db.execute(RELATIONS).fetchall()
    assert len(found) > 20
    return found


def users(db: psycopg.Connection[Any], name: str) -> set[str] | None:
    """Whose rows a session sees in a table; None when it may not look."""
    try:
        return {user for (user,) in db.execute(on(name, "SELECT DISTINCT user_id FROM {}"))}
    except psycopg.errors.InsufficientPrivilege:
        return None


def test_a_bare_session_sees_one_users_rows_or_none(bare: psycopg.Connection[Any], stack: Stack) -> None:
    named = [name for name, has_user, _ in relations(bare) if has_user]
    alice, bob = stack.user(), stack.user("bob")
    held = {name for name in named if {alice, bob} <= (users(bare, name) or set())}
    assert held >= {"memory_changes", "memory_versions", "memory_records", "memory_usage", "word_tail", "passages_512"}
    bare.execute("SET ROLE agentmem_app")
    for nobody in ("RESET agentmem.user_id", "SET agentmem.user_id = ''", "SET agentmem.operator = 'on'"):
        bare.execute(nobody)  # type: ignore[call-overload]
        assert {name for name in named if users(bare, name)} <= EVERYBODYS
        assert set().union(*(users(bare, name) or () for name in named)) <= {"_system"}
    bare.execute("SELECT set_config('agentmem.user_id', %s, false)", (alice,))
    seen = {name: users(bare, name) for name in named}
    assert {name for name in held if seen[name] != {alice}} == {
        name for name in held if name.startswith("memory_audit_log_")
    }, "partitions are read through their table only"
    assert set().union(*(found or () for found in seen.values())) == {alice, "_system"}


UNTOUCHED = ("UPDATE {} SET user_id = user_id WHERE user_id = %(bob)s", "DELETE FROM {} WHERE user_id = %(bob)s")
REFUSED = (
    "UPDATE {} SET user_id = %(bob)s WHERE user_id = %(alice)s",
    """INSERT INTO {0} OVERRIDING SYSTEM VALUE
       SELECT (jsonb_populate_record(mine, jsonb_build_object('user_id', %(bob)s::text))).* FROM {0} mine""",
)


def test_a_bare_session_changes_no_other_users_rows(bare: psycopg.Connection[Any], stack: Stack) -> None:
    who = {"alice": stack.user(), "bob": stack.user("bob")}
    named = [name for name, has_user, view in relations(bare) if has_user and not view]
    tables = [name for name in named if who["bob"] in (users(bare, name) or ())]
    before = {name: rows(bare, name) for name in tables}
    bare.execute("SET ROLE agentmem_app")
    bare.execute("SELECT set_config('agentmem.user_id', %(alice)s, false)", who)
    for name in tables:
        for attempt in UNTOUCHED:
            with suppress(psycopg.errors.InsufficientPrivilege):
                assert bare.execute(on(name, attempt), who).rowcount == 0, name
        for attempt in REFUSED:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                bare.execute(on(name, attempt), who)
    bare.execute("RESET ROLE")
    assert {name: rows(bare, name) for name in tables} == before


def on(table: str, statement: str) -> sql.Composed:
    return sql.SQL(statement).format(sql.Identifier(table))  # type: ignore[arg-type]


def rows(db: psycopg.Connection[Any], name: str) -> list[Any]:
    return db.execute(on(name, "SELECT t::text FROM {} t ORDER BY 1")).fetchall()


def test_an_auditor_reads_the_audit_tables_only(bare: psycopg.Connection[Any], stack: Stack) -> None:
    every = [name for name, _, _ in relations(bare)]
    bare.execute("SET ROLE agentmem_auditor")
    readable = set()
    for name in every:
        try:
            bare.execute(on(name, "SELECT FROM {} LIMIT 1"))
        except psycopg.errors.InsufficientPrivilege:
            continue
        readable.add(name)
    assert readable == AUDITED
    assert users(bare, "memory_audit_log") == {stack.user(), stack.user("bob")}
    for change in ("INSERT INTO {} (operation) VALUES ('x')", "UPDATE {} SET operation = 'x'", "DELETE FROM {}"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            bare.execute(on("memory_audit_log", change))
