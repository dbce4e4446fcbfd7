"""What a worker shows of itself."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import uuid
from dataclasses import replace
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import urlopen

import psycopg
import pytest
from psycopg import sql

from agentmem import AsyncAgentMemory
from agentmem.errors import ConfigError
from agentmem.jobs.monitoring import Monitor, check_health
from agentmem.jobs.process_metrics import NOTICE_PARTS, render_metrics
from agentmem.jobs.worker import ConsolidationWorker
from agentmem.recall.executor import build_notices
from agentmem.recall.receipt import TraceLine
from tests.flows.given import ManualClock
from tests.servers.stack import Stack


def _get(url: str) -> tuple[int, str]:
    try:
        with urlopen(url, timeout=20) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


async def test_health_and_metrics_tell_how_the_worker_is(tmp_path: Path) -> None:
    async with AsyncAgentMemory("ann's secret name", home=tmp_path, embedder="hash") as memory:
        await memory.store_turn("My sister Anna lives in Porto.")
        for _ in range(3):
            await memory.remember("who is Anna?")
        monitor = Monitor()
        worker = ConsolidationWorker(memory.engine, jobs=["consolidate"], on_report=monitor.record_run)
        at = f"http://127.0.0.1:{monitor.open(worker, '127.0.0.1', 0)}"
        try:
            status, said = await asyncio.to_thread(_get, f"{at}/health")
            assert (status, json.loads(said)["reason"]) == (503, "no run has ended yet")
            await worker.run_once()
            assert (await asyncio.to_thread(_get, f"{at}/health"))[0] == 200
            assert (await asyncio.to_thread(_get, f"{at}/elsewhere"))[0] == 404
            _, told = await asyncio.to_thread(_get, f"{at}/metrics")
        finally:
            monitor.close()
    values = dict(re.findall(r"^(agentmem\S+) (\S+)$", told, re.MULTILINE))
    assert float(values['agentmem_job_runs_total{job="consolidate"}']) == 1
    assert float(values['agentmem_job_records_total{job="consolidate",what="turns"}']) == 1
    assert float(values['agentmem_records{kind="Turn"}']) == 1
    assert float(values["agentmem_up"]) == 1
    assert float(values['agentmem_milliseconds{what="recall_p95"}']) > 0
    assert float(values['agentmem_milliseconds{what="write_p50"}']) > 0
    recalls = [float(values[f'agentmem_milliseconds{{what="recall_{part}"}}']) for part in ("p50", "p95", "p99")]
    assert recalls == sorted(recalls)
    assert (values['agentmem_cache_misses{cache="queries"}'], values['agentmem_cache_hits{cache="queries"}']) == (
        "1.0",
        "2.0",
    )
    assert float(values['agentmem_cache_hits{cache="columns"}']) >= 2
    assert values['agentmem_job_wait_seconds{job="consolidate"}'] == "0.0"
    assert "secret" not in told
    assert "Anna" not in told


async def test_how_long_users_wait_for_a_job_is_told(tmp_path: Path) -> None:
    clock = ManualClock()
    async with AsyncAgentMemory("ann", home=tmp_path, embedder="hash", clock=clock) as memory:
        engine = memory.engine
        await memory.store_turn("My sister Anna lives in Porto.")
        await engine.job_queue.enqueue("consolidate", {"ann": clock.time})
        clock.advance(minutes=90)
        monitor = Monitor()
        at = f"http://127.0.0.1:{monitor.open(ConsolidationWorker(engine, jobs=['consolidate']), '127.0.0.1', 0)}"
        try:
            _, told = await asyncio.to_thread(_get, f"{at}/metrics")
        finally:
            monitor.close()
    assert 'agentmem_job_wait_seconds{job="consolidate"} 5400.0\n' in told


async def test_a_worker_that_ends_no_run_any_more_is_not_well(tmp_path: Path) -> None:
    async with AsyncAgentMemory("ann", home=tmp_path, embedder="hash") as memory:
        worker = ConsolidationWorker(memory.engine, jobs=["consolidate"])
        await worker.run_once()
        assert worker.last_run is not None
        assert check_health(worker, worker.last_run + 5 * 15 * 60 - 1).is_healthy
        late = check_health(worker, worker.last_run + 5 * 15 * 60 + 1)
        assert (late.is_healthy, late.reason) == (False, "no run has ended for 4,501 s")


async def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    async with AsyncAgentMemory("ann", home=tmp_path, embedder="hash") as memory:
        worker, first, second = ConsolidationWorker(memory.engine), Monitor(), Monitor()
        port = first.open(worker, "127.0.0.1", 0)
        try:
            with pytest.raises(ConfigError, match=rf"worker\.port: cannot listen on 127\.0\.0\.1:{port}"):
                second.open(worker, "127.0.0.1", port)
        finally:
            first.close()


def _read_values(text: str) -> dict[str, float]:
    return {name: float(value) for name, value in re.findall(r"^(agentmem\S+) (\S+)$", text, re.MULTILINE)}


async def test_a_process_without_a_port_tells_the_same_of_itself(tmp_path: Path) -> None:
    async with AsyncAgentMemory("ann's secret name", home=tmp_path, embedder="hash", dimensions=64) as memory:
        await memory.store_turn("My sister Anna lives in Porto.")
    async with AsyncAgentMemory("ann's secret name", home=tmp_path, embedder="hash") as memory:
        found = [await memory.remember(query) for query in ("who is Anna?", "where is Porto?")]
        failed = replace(found[0].receipt, id="one", notices=build_notices([TraceLine("graph", 1.0, {}, "away")]))
        memory.engine.cache_receipt(failed.id, failed)
        text = await render_metrics(memory.engine)
    values = _read_values(text)
    assert values["agentmem_up"] == 1
    assert values['agentmem_records{kind="Turn"}'] == 1
    assert 0 < values['agentmem_milliseconds{what="recall_p50"}'] <= values['agentmem_milliseconds{what="recall_p99"}']
    assert values["agentmem_recall_receipts"] == 3
    notices = {part: values[f'agentmem_recall_notices{{part="{part}"}}'] for part in NOTICE_PARTS}
    assert notices == {**dict.fromkeys(NOTICE_PARTS, 0), "embedder": 2, "techniques": 1}
    assert [word for word in ("secret", "Anna", "Porto", "away") if word in text] == []


async def test_many_scrapes_count_the_store_once_in_15_seconds(tmp_path: Path) -> None:
    clock = ManualClock()
    async with AsyncAgentMemory("ann", home=tmp_path, embedder="hash", clock=clock) as memory:

        async def count_turns() -> float:
            return _read_values(await render_metrics(memory.engine)).get('agentmem_records{kind="Turn"}', 0)

        assert await count_turns() == 0
        await memory.store_turn("My sister Anna lives in Porto.")
        clock.advance(seconds=14)
        assert [*await asyncio.gather(count_turns(), count_turns())] == [0, 0]
        clock.advance(seconds=1)
        assert await count_turns() == 1


async def test_a_store_that_does_not_answer_is_a_metric(tmp_path: Path) -> None:
    async with AsyncAgentMemory("ann", home=tmp_path, embedder="hash") as memory:
        await memory.engine.log.close()
        values = _read_values(await render_metrics(memory.engine))
    assert values["agentmem_up"] == 0
    assert [name for name in values if "records" in name or "bytes" in name] == []


async def test_an_agents_login_tells_all_but_sizes_of_all_users(home: Path, stack: Stack) -> None:
    name, parts = f"agent_{uuid.uuid4().hex}", urlsplit(stack.log_url)
    urls = stack.urls | {"log_url": parts._replace(netloc=f"{name}:x@{parts.netloc.rpartition('@')[2]}").geturl()}
    with psycopg.connect(stack.log_url, autocommit=True) as owner:
        owner.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'x' IN ROLE agentmem_app").format(sql.Identifier(name)))
        try:
            async with AsyncAgentMemory(stack.user("ann"), home=home, embedder="hash", **urls) as memory:
                await memory.store_turn("My sister Anna lives in Porto.")
                values = _read_values(await render_metrics(memory.engine))
        finally:
            owner.execute(sql.SQL("DROP OWNED BY {0}; DROP ROLE {0}").format(sql.Identifier(name)))
    assert values["agentmem_up"] == 1
    assert values['agentmem_milliseconds{what="write_p50"}'] > 0
    assert [name for name in values if "records" in name or "bytes" in name] == []


async def test_what_a_run_did_is_told_with_counts_and_the_worker(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with AsyncAgentMemory("ann", home=tmp_path, embedder="hash") as memory:
        await memory.store_turn("My sister Anna lives in Porto.")
        workers = [ConsolidationWorker(memory.engine, jobs=["consolidate"]) for _ in range(2)]
        with caplog.at_level(logging.DEBUG, logger="agentmem"):
            for worker in workers:
                await worker.run_once()
    told = [(each.levelname, json.loads(each.getMessage())) for each in caplog.records if "job_done" in each.message]
    (busy_level, busy), (idle_level, idle) = told
    assert (busy_level, busy["users"], busy["counts"]["turns"]) == ("INFO", 1, 1)
    assert (idle_level, idle["users"], idle["counts"]) == ("DEBUG", 0, {})
    assert [busy["worker_id"], idle["worker_id"]] == [worker.id for worker in workers]
    assert workers[0].id != workers[1].id
    assert all(re.fullmatch(r".{1,40}-\d+-[0-9a-f]{8}", worker.id) for worker in workers)
