"""Schedules: kept with their names, due by the clock, handed to exactly one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from agentmem import AgentMemory, AsyncAgentMemory, ConfigError, InvalidRecord, NotFound
from agentmem.core.procedural_records import Schedule
from agentmem.jobs.job import JobOptions, select_jobs
from agentmem.jobs.runner import OPERATOR, run_job
from agentmem.settings.settings import load_settings
from tests.flows.given import START, ManualClock, engine_of, last_operation_id, open_memory, read_head, run

# START is Sunday, 1 March 2026, 12:00 UTC.
NINE = datetime(2026, 3, 2, 9, tzinfo=UTC)


def handed(memory: AgentMemory) -> dict[str, int]:
    """What one run of the worker's job did."""
    module = select_jobs("schedules")["schedules"]
    return run(run_job(engine_of(memory), module, JobOptions())).counts


def waiting(memory: AgentMemory, now: datetime) -> list[str]:
    """The users whom the store names to the worker."""
    return run(engine_of(memory).job_queue.due_users("schedules", now, OPERATOR))


# -- the documents' table: name, cron, prompt, source, created_at


def test_a_daily_summary_is_scheduled_shown_and_cancelled(memory: AgentMemory) -> None:
    bot = memory.scoped(agent_id="bot")
    added = bot.schedules.add("daily summary", "0 9 * * *", "Summarise my day", "bot", timezone="Europe/Oslo")
    assert (added.name, added.cron, added.prompt, added.source, added.created_at, added.agent_id) == (
        "daily summary",
        "0 9 * * *",
        "Summarise my day",
        "bot",
        START,
        "bot",
    )
    assert added.next_at == NINE - timedelta(hours=1)
    assert memory.schedules.list() == [added]
    removed = memory.schedules.remove("daily summary")
    assert memory.schedules.list() == []
    for verb in (memory.schedules.get, memory.schedules.pause, memory.schedules.remove):
        with pytest.raises(NotFound):
            verb("daily summary")
    memory.undo(removed.operation_id)
    assert memory.schedules.get("daily summary").next_at == added.next_at
    memory.schedules.remove("daily summary")
    assert memory.schedules.add("daily summary", "0 8 * * *", "Again").cron == "0 8 * * *"


def test_a_name_is_given_once_to_a_user(memory: AgentMemory) -> None:
    memory.schedules.add("mine", "0 9 * * *", "x", idempotency_key="k")
    assert memory.schedules.add("mine", "0 9 * * *", "x", idempotency_key="k").name == "mine"
    with pytest.raises(InvalidRecord, match="exists") as refused:
        memory.scoped(channel="roof").schedules.add("mine", "0 9 * * *", "x")
    assert refused.value.field == "name"
    memory.scoped(user_id="bob").schedules.add("mine", "0 9 * * *", "y")
    hidden = memory.scoped(agent_id="bot", channel="_self_bot")
    hidden.schedules.add_heartbeat("pulse", 60)
    assert [item.name for item in memory.schedules.list()] == ["mine"]
    assert [item.name for item in hidden.schedules.list()] == ["mine", "pulse"]


def test_what_cannot_be_scheduled_is_refused_by_the_name_of_its_field(memory: AgentMemory) -> None:
    add = memory.schedules.add
    for field, wrong in (
        ("cron", lambda: add("x", "0 25 * * *", "y")),
        ("cron", lambda: add("x", "0 9 * * *", "y", every=5)),
        ("cron", lambda: add("x", prompt="y")),
        ("prompt", lambda: add("x", "0 9 * * *", " ")),
        ("timezone", lambda: add("x", "0 9 * * *", "y", timezone="Oslo")),
        ("name", lambda: add(" ", every=60)),
        ("missed", lambda: add("x", "0 9 * * *", "y", missed="all")),
        ("every", lambda: add("x", every=0.5)),
        ("every", lambda: add("x", every=timedelta(days=9999))),
        ("every", lambda: add("x", every="soon")),  # type: ignore[arg-type]
        ("callback", lambda: memory.schedules.on_due("print")),  # type: ignore[arg-type]
    ):
        with pytest.raises(InvalidRecord) as refused:
            wrong()
        assert refused.value.field == field
    assert memory.schedules.list() == []


def test_what_is_paused_rests_and_goes_on_with_its_next_run(memory: AgentMemory, clock: ManualClock) -> None:
    memory.schedules.add("walk", "0 9 * * *", "Take a walk")
    assert memory.schedules.pause("walk").next_at is None
    clock.time = NINE
    assert memory.schedules.due() == []
    assert waiting(memory, clock.time) == []
    assert memory.schedules.resume("walk").next_at == NINE + timedelta(days=1)
    assert memory.schedules.due(NINE + timedelta(days=1))[0].name == "walk"


# -- when it is due


def test_a_due_run_is_taken_on_once(memory: AgentMemory, clock: ManualClock) -> None:
    memory.schedules.add("walk", "0 9 * * *", "Take a walk")
    clock.time = NINE - timedelta(seconds=1)
    assert memory.schedules.due() == []
    clock.time = NINE
    (due,) = memory.schedules.due()
    claimed = memory.schedules.claim(due)
    assert (claimed.running, claimed.last_at, claimed.next_at) == (NINE, NINE, NINE + timedelta(days=1))
    assert memory.schedules.claim(due) is None
    assert memory.schedules.claim(claimed) is None
    assert memory.schedules.due() == []
    assert memory.schedules.mark_done(claimed)
    assert not memory.schedules.mark_done(claimed)
    clock.advance(hours=-1)
    assert memory.schedules.due() == []


def test_missed_runs_are_made_up_for_once_or_not_at_all(memory: AgentMemory, clock: ManualClock) -> None:
    memory.schedules.add("once", "0 9 * * *", "x")
    memory.schedules.add("skip", "0 9 * * *", "x", missed="skip")
    memory.schedules.add("pulse", every=timedelta(hours=1))
    clock.time = NINE + timedelta(days=3, minutes=30)
    claims = {due.name: memory.schedules.claim(due) for due in memory.schedules.due()}
    assert claims["skip"] is None
    assert claims["once"].running == NINE
    assert {item.name: item.next_at for item in memory.schedules.list()} == {
        "once": NINE + timedelta(days=4),
        "skip": NINE + timedelta(days=4),
        "pulse": NINE + timedelta(days=3, hours=1),  # in step with its first one
    }
    memory.schedules.mark_done(claims["once"])
    clock.time = NINE + timedelta(days=4, hours=5)  # one run is late, none is missed
    assert {due.name for due in memory.schedules.due()} == {"once", "skip"}
    assert all(memory.schedules.claim(due) for due in memory.schedules.due())


async def test_of_many_who_ask_at_once_one_gets_the_run(home: Path) -> None:
    clock = ManualClock()
    one, other = (AsyncAgentMemory("alice", home=home, embedder="hash", clock=clock) for _ in range(2))
    async with one, other:
        await one.schedules.add_heartbeat("pulse", 60)
        clock.advance(seconds=60)
        (due,) = await one.schedules.due()
        claims = await asyncio.gather(*(each.schedules.claim(due) for each in (one, other) * 4))
        assert [claimed.running for claimed in claims if claimed] == [clock.time]


# -- handed over by the worker's job


def test_the_worker_finds_who_has_something_due_by_its_index(memory: AgentMemory, clock: ManualClock) -> None:
    added = memory.schedules.add("walk", "0 9 * * *", "Take a walk")
    assert waiting(memory, NINE - timedelta(seconds=1)) == []
    assert waiting(memory, NINE) == ["alice"]
    memory.undo(added.operation_id)
    assert waiting(memory, NINE) == []
    memory.undo(last_operation_id(memory))
    clock.time = NINE
    memory.schedules.on_due(lambda schedule: None)
    assert handed(memory) == {"delivered": 1}
    assert handed(memory) == {}
    assert waiting(memory, NINE + timedelta(days=1)) == ["alice"]
    memory.schedules.on_due(None)


def test_without_anybody_to_take_it_a_run_stays_due(memory: AgentMemory, clock: ManualClock) -> None:
    memory.schedules.add("walk", "0 9 * * *", "Take a walk", timezone="Europe/Oslo")
    clock.time = NINE
    before = read_head(memory)
    assert handed(memory) == handed(memory) == {"waiting": 1}
    assert read_head(memory) == before
    clock.advance(days=2)
    assert handed(memory) == {"waiting": 1}
    (due,) = memory.schedules.due()
    assert (due.prompt, due.next_at) == ("Take a walk", NINE - timedelta(hours=1))
    taken = memory.schedules.claim(due)
    assert taken is not None
    assert memory.schedules.mark_done(taken)
    assert (memory.schedules.due(), handed(memory)) == ([], {})


def test_a_function_of_the_program_takes_what_is_due(memory: AgentMemory, clock: ManualClock) -> None:
    seen: list[tuple[str, str]] = []

    async def later(schedule: Schedule) -> None:
        seen.append((schedule.channel, schedule.name))

    memory.schedules.on_due(lambda schedule: seen.append((schedule.channel, schedule.name)))
    memory.scoped(agent_id="bot", channel="_self_bot").schedules.add_heartbeat("pulse", 60)
    clock.advance(seconds=60)
    handed(memory)
    memory.schedules.on_due(later)
    clock.advance(seconds=60)
    handed(memory)
    assert seen == [("_self_bot", "pulse")] * 2
    memory.schedules.on_due(None)


def test_what_cannot_be_handed_over_leaves_a_row_that_says_so(memory: AgentMemory, clock: ManualClock) -> None:
    def fail(schedule: Schedule) -> None:
        raise KeyError("secret of the caller")

    memory.schedules.add_heartbeat("pulse", 60)
    memory.schedules.on_due(fail)
    clock.advance(seconds=60)
    assert handed(memory) == {"failed": 1}
    (row,) = memory.audit.query(operation="deliver_schedule", success=False)
    assert row["error_message"] == "KeyError"
    assert memory.schedules.list()[0].running is None
    memory.schedules.on_due(lambda schedule: None)
    clock.advance(seconds=60)
    assert handed(memory) == {"delivered": 1}
    memory.schedules.on_due(None)


def test_a_run_that_its_worker_died_with_is_told_and_not_handed_over_again(
    memory: AgentMemory, clock: ManualClock
) -> None:
    memory.schedules.add("walk", "0 9 * * *", "Take a walk")
    clock.time = NINE
    memory.schedules.claim(memory.schedules.due()[0])
    assert handed(memory) == {}
    clock.advance(seconds=60)
    assert handed(memory) == {"failed": 1}
    (row,) = memory.audit.query(operation="deliver_schedule", success=False)
    assert (row["error_message"].startswith("lost"), row["metadata"]["due_at"]) == (True, NINE.isoformat())
    assert handed(memory) == {}
    assert memory.schedules.list()[0].next_at == NINE + timedelta(days=1)


def test_nothing_happens_on_trial(memory: AgentMemory, clock: ManualClock) -> None:
    memory.schedules.add_heartbeat("pulse", 60)
    clock.advance(seconds=60)
    (report,) = memory.consolidate("schedules", dry_run=True)
    assert report.counts == {"due": 1}
    assert memory.schedules.due()[0].last_at is None


async def test_of_two_workers_at_once_one_hands_a_run_over(home: Path) -> None:
    clock, seen, job = ManualClock(), list[str](), select_jobs("schedules")["schedules"]
    one, other = (AsyncAgentMemory("alice", home=home, embedder="hash", clock=clock) for _ in range(2))
    async with one, other:
        for name in ("a", "b", "c"):
            await one.schedules.add_heartbeat(name, 60)
        for memory in (one, other):
            await memory.schedules.on_due(lambda schedule: seen.append(schedule.name))
        for _ in range(3):
            clock.advance(seconds=60)
            await asyncio.gather(*(run_job(memory.engine, job, JobOptions()) for memory in (one, other) * 2))
        assert sorted(seen) == ["a", "a", "a", "b", "b", "b", "c", "c", "c"]


# -- to a service on this machine


@contextmanager
def service(status: int) -> Iterator[tuple[str, list[bytes]]]:
    seen: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            seen.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/due?key=1", seen
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("status, counts", [(204, {"delivered": 1}), (500, {"failed": 1}), (302, {"failed": 1})])
def test_a_service_on_this_machine_is_told(home: Path, status: int, counts: dict[str, int]) -> None:
    clock = ManualClock()
    with service(status) as (url, seen), open_memory(home, clock=clock, worker={"webhook": url}) as memory:
        memory.schedules.add("walk", prompt="Take a walk", every=60)
        clock.advance(seconds=60)
        assert handed(memory) == counts
        assert len(seen) == 1
        assert b'"prompt": "Take a walk"' in seen[0]


def test_a_service_that_is_away_is_told_in_the_audit(home: Path) -> None:
    clock = ManualClock()
    with service(204) as (url, _):
        pass
    with open_memory(home, clock=clock, worker={"webhook": url}) as memory:
        memory.schedules.add_heartbeat("pulse", 60)
        clock.advance(seconds=60)
        assert handed(memory) == {"failed": 1}
        assert "ConnectionRefusedError" in memory.audit.query(operation="deliver_schedule")[0]["error_message"]


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/x",
        "http://127.0.0.1.example.com",
        "http://10.0.0.1",
        "ftp://localhost",
        "localhost:8000",
        "http://0.0.0.0",
        "http://localhost@example.com",
        "http://",
        "http://localhost:99999",
        "http://169.254.169.254/",
    ],
)
def test_no_service_elsewhere_is_told_anything(url: str) -> None:
    with pytest.raises(ConfigError, match=r"worker\.webhook"):
        load_settings(worker={"webhook": url})


@pytest.mark.parametrize("url", ["http://localhost:8000/due", "http://127.0.0.1", "https://[::1]:8443/x"])
def test_a_service_on_this_machine_may_be_named(url: str) -> None:
    assert load_settings(worker={"webhook": url}).worker.webhook == url
