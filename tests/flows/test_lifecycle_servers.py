"""One life on both stacks: every verb of the lifecycle, day by day with the worker's jobs, says the same on both."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import neo4j
import psycopg
import pytest
import redis
from psycopg import sql

from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.stores.protocols import ReplicatedGraph
from tests.conformance.neo4j_walk import walk_replica
from tests.conformance.test_congruence import GIVEN
from tests.flows import lifecycle_days as days
from tests.flows.both_stacks import Scenario
from tests.flows.given import ManualClock
from tests.flows.test_worker_servers import opened
from tests.servers.stack import Stack

TOLD = ("plumber", "staging", "Ann", "emojis", "passport", "bins")  # words of the story, and of nobody else


@pytest.fixture
def urls(stack: Stack) -> Iterator[dict[str, Any]]:
    """The servers, as a worker may use them: as an owner of the tables nobody would be kept from anything."""
    login = sql.Identifier(name := f"worker_{uuid.uuid4().hex}")
    with psycopg.connect(stack.log_url, autocommit=True) as owner:
        owner.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'x' IN ROLE agentmem_app, agentmem_worker").format(login))
        owner.execute("ALTER TABLE memory_audit_log DISABLE TRIGGER memory_audit_log_timely")  # its own clock
        parts = urlsplit(stack.log_url)
        yield stack.urls | {"log_url": parts._replace(netloc=f"{name}:x@{parts.netloc.rpartition('@')[2]}").geturl()}
        owner.execute("ALTER TABLE memory_audit_log ENABLE TRIGGER memory_audit_log_timely")
        owner.execute(sql.SQL("DROP OWNED BY {0}; DROP ROLE {0}").format(login))


@pytest.fixture
async def story(home: Path, stack: Stack, urls: dict[str, Any]) -> AsyncIterator[Scenario]:
    """A user without a past, on the embedded stack and on servers."""
    clock = ManualClock()
    async with AsyncExitStack() as both:
        memories = {
            name: await both.enter_async_context(
                AsyncAgentMemory("nobody", home=home / name, clock=clock, seed=7, **GIVEN, **where)
            )
            for name, where in (("embedded", {}), ("servers", urls))
        }
        yield Scenario(memories, clock, "mira", 0, user_name=stack.user("mira"))


@pytest.mark.nightly
@pytest.mark.timeout(300)
async def test_a_life_is_the_same_on_both_stacks(story: Scenario, stack: Stack) -> None:
    for chapter in (days.talk, days.desk, days.plan_goals, days.add_schedules, days.learn_strategies):
        await chapter(story)
    await story.compare_all()
    did = await story.run_jobs_after(hours=6)
    assert (did["consolidate"]["turns"], did["patterns"]["strategies_learned"]) == (11, 1)
    assert (did["entity_linking"], did["clusters"]) == ({"merged": 1}, {"merged": 1}), "New York, and Ann's coffee"
    assert (did["distill_procedures"]["active"], did["distill_procedures"]["candidate"]) == (1, 1)
    story.clock.advance(hours=15)
    await days.monday(story)
    did = await story.run_jobs_after(hours=6)
    assert did["promote"] == {"spread": 1, "kept": 1}, "the door code, recalled often; the plumber, used often"
    assert (did["schedules"], did["distill_procedures"]["active"]) == ({"waiting": 1}, 1)
    await story.compare_all()
    seq, before = await story.run_action("head", days.read_head), await story.read_state()
    story.clock.advance(days=5)
    await days.curate(story)
    did = await story.run_jobs_after(hours=1)
    assert did["decay"] == {"fact": 2, "endangered": 2}
    await days.promote_copies(story)
    await days.forget_and_restore(story)
    did = await story.run_jobs_after(days=20)
    assert did["gc"] == {"archived": 4}
    await story.compare_all()
    await days.collect_garbage(story)
    did = await story.run_jobs_after(days=80)
    assert (did["cleanup"]["forgotten"], did["cleanup"]["archived"]) == (1, 6), "an entity, and the conversations"
    await story.compare_all()
    await days.undo_operations(story, seq)
    assert await story.read_state() == before
    await story.compare_all()
    await _erased(story, stack)


async def _erased(story: Scenario, stack: Stack) -> None:
    """Everything of the user goes, for good, and nothing of anybody else."""
    mira, noor = story.user_name, stack.user("noor")
    story.user_name = noor
    await story.run_verb("store_turn", "My brother Igor lives in Lima.")
    others = await story.read_state()
    assert held(stack, mira, TOLD) == dict.fromkeys(("postgres", "neo4j", "redis"), True)
    story.user_name = mira
    await days.erase_records(story)
    assert held(stack, mira, TOLD) == dict.fromkeys(("postgres", "neo4j", "redis"), False)
    await story.compare_all()
    story.user_name = noor
    assert await story.read_state() == others
    assert len(others) > 1


def held(stack: Stack, user: str, words: tuple[str, ...]) -> dict[str, bool]:
    """Which server holds one of these words in any table, or anything of the user but the names of what was erased."""
    found = "SELECT EXISTS (SELECT FROM {} t WHERE t::text ~ %s)"
    tables = "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
    with psycopg.connect(stack.log_url) as db:
        named = [sql.Identifier(name) for (name,) in db.execute(tables)]
        rows = [db.execute(sql.SQL(found).format(name), ["|".join(words)]).fetchone() for name in named]
    scheme, _, rest = stack.graph_url.partition("://")
    login, _, address = rest.rpartition("@")
    with neo4j.GraphDatabase.driver(f"{scheme}://{address}", auth=tuple(login.split(":"))) as driver:  # type: ignore[arg-type]
        nodes = driver.execute_query("MATCH (n:Record {user_id: $user}) RETURN count(n)", user=user).records
    with redis.Redis.from_url(stack.session_url) as cache:
        keys = cache.keys(f"*{{{quote(user, safe='')}}}*")
    return {"postgres": any(row == (True,) for row in rows), "neo4j": nodes[0][0] > 0, "redis": bool(keys)}


async def test_a_name_in_what_stays_is_no_remnant_in_the_graph(home: Path, stack: Stack) -> None:
    async with opened(home, stack, "ann") as memory:
        old = await memory.learn_fact("Ann lives in Oslo")
        new = await memory.semantic.supersede_fact(old.id, "Ann lives in Rome")
        call = await memory.procedural.record_invocation("build", success=True)
        await memory.update_profile(preferences={"tea": "green"})
        await memory.add_goal("sing")
        await memory.flush()
        following = memory.engine.graph_projection
        assert following is not None
        graph: ReplicatedGraph = following.graph
        keys = [("Fact", old.id), ("Tool", call.tool_id), ("User", "profile")]
        assert await graph.count_present(memory.scope, keys) == 3
        for kind, name in keys:
            receipt = await memory.forget(name, hard=True)
            assert receipt.scan is not None
            assert dict(receipt.scan.leftovers) == {}, kind
        assert await graph.count_present(memory.scope, [new.key]) == 1
        assert await memory.engine.graph.edges(keys, memory.scope) == []
        assert await walk_replica(graph, memory.engine.clock, memory.engine.log).edges(keys, memory.scope) == []
