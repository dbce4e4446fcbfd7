"""What an ordinary turn costs on Postgres, and that what it leaves out is not missed when it is needed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from agentmem.core.changes import AuditEntry
from agentmem.core.records import Conversation
from agentmem.core.scope import Scope
from agentmem.stores.job_queue import DueDate
from agentmem.stores.postgres import PostgresLog, open_log
from agentmem.stores.postgres.database import fetch_rows
from agentmem.stores.sql.jobs import SqlJobQueue
from agentmem.text.templates import load_templates
from tests.conformance.writing import START, SettableClock, build_turn_changes, write_records

if TYPE_CHECKING:
    from agentmem.stores.postgres.connection import PostgresConnection

SCOPE = Scope("alice")
TALK = Conversation(id="talk")
LINKS = ("attach_source", "attach_target", "add")
TURN = ("write", "limits", "lock", "state", "put_journal", "put_records", "put_new", *LINKS, "insert", "commit")
FILES = ("database", "write", "terms", "graph", "audit", "usage")


@pytest.fixture
async def log(postgres_log: str) -> AsyncIterator[PostgresLog]:
    made = await open_log(postgres_log, SettableClock())
    yield made
    await made.close()


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of all statements that are sent."""
    execute, names = psycopg.AsyncConnection.execute, list[str]()
    known = {
        text: name for file in FILES for name, text in load_templates("agentmem.stores.postgres", f"{file}.sql").items()
    }

    async def noted(connection: Any, statement: Any, *given: Any, **more: Any) -> Any:
        names.append(known.get(statement, statement))
        return await execute(connection, statement, *given, **more)

    monkeypatch.setattr(psycopg.AsyncConnection, "execute", noted)
    return names


async def append(log: PostgresLog, name: str) -> None:
    await log.append(
        build_turn_changes(SCOPE, name), AuditEntry(operation="store", memory_type="episodic", scope=SCOPE)
    )


async def test_a_turn_of_a_known_conversation_is_twelve_statements_and_its_vectors(
    log: PostgresLog, sent: list[str]
) -> None:
    await append(log, "a")
    sent.clear()
    await append(log, "b")
    assert tuple(sent) == TURN
    await write_records(log, SCOPE, TALK.model_copy(update={"archived": True}))
    sent.clear()
    await append(log, "c")
    assert sorted({*sent} - {*TURN}) == ["continue_conversations"]
    sent.clear()
    await append(log, "d")
    assert tuple(sent) == TURN


async def test_a_turn_and_what_a_job_settles_wait_for_each_other(log: PostgresLog) -> None:
    """So a turn sees that its conversation was put away, or the job, which looks again after it, sees the turn."""
    await append(log, "a")
    inside, go_on = asyncio.Event(), asyncio.Event()
    lock = load_templates("agentmem.stores.postgres", "write.sql")["lock"]

    async def write_slowly(db: PostgresConnection) -> None:
        await fetch_rows(db, lock, {"user_id": SCOPE.user_id})
        inside.set()
        await go_on.wait()

    writing = asyncio.create_task(log.database.commit(SCOPE, write_slowly))
    await inside.wait()
    jobs = SqlJobQueue(log.database)
    settling = asyncio.create_task(jobs.set_due_dates(SCOPE, [DueDate(*TALK.key, None)]))
    done, _ = await asyncio.wait([settling], timeout=0.2)
    assert not done
    go_on.set()
    await asyncio.gather(writing, settling)
    assert await jobs.due_records("cleanup", START, SCOPE) == []
    await append(log, "b")
    assert await jobs.due_records("cleanup", START, SCOPE) == [TALK.key]
