"""One story done to two memories of a user, verb by verb, with looks at all that both say of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentmem.admin.export_import import export_user
from agentmem.core.records import KINDS
from agentmem.core.scope import Scope
from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.jobs.job import list_scheduled_jobs
from agentmem.jobs.runner import OPERATOR
from agentmem.jobs.worker import ConsolidationWorker
from agentmem.memory.erasure import list_across_channels
from agentmem.stores.values import Where
from tests.conformance.congruence import MemoryPair, drop_row_ids, to_comparable
from tests.conformance.history_steps import Step
from tests.conformance.neo4j_walk import walk_replica
from tests.flows.given import VOLATILE_FIELDS

HOUSE = "house/kitchen"  # a project's channel, and a conversation in it
HOME = "_global"
BOT = "_self_bot@bot"
VIEWS = (HOME, HOUSE, BOT)
QUERIES = ("deploy the staging server to Oslo", "Where is the door code?", "What does Ann drink?")  # one at each face
# Jobs whose work depends on the store, as a graph that follows the log: their counts are not compared.
STORE_SPECIFIC_JOBS = ("project", "audit_partitions", "check")

Action = Callable[[AsyncAgentMemory], Awaitable[Any]]


@dataclass(frozen=True)
class ActionStep(Step):
    """Something done to a memory that is no call of a verb alone; `verb` says what."""

    action: Action | None = None

    async def call(self, memory: AsyncAgentMemory) -> Any:
        """Do it."""
        assert self.action is not None
        return await self.action(memory)


@dataclass
class Scenario(MemoryPair):
    """The story so far. `user` seeds the ids, `user_name` is the name that nobody else in the graph has.

    `saved` holds what later days come back to.
    """

    user_name: str = ""
    saved: dict[str, Any] = field(default_factory=dict)
    refusal_text: str | None = None  # what a refusal said, where one is awaited

    async def run_verb(self, verb: str, *given: Any, view: str = HOME, **named: Any) -> Any:
        """Call a verb of both memories; what it gave, the same on both. A refusal fails the test."""
        return await self.compare_step(Step(verb, view, given, named))

    async def run_action(self, what: str, action: Action, view: str = HOME) -> Any:
        """Do something to both memories; what it gave."""
        return await self.compare_step(ActionStep(what, view, action=action))

    async def expect_refusal(self, verb: str, *given: Any, view: str = HOME, **named: Any) -> str:
        """Call a verb that both must refuse; with which words."""
        self.refusal_text = ""
        await self.compare_step(Step(verb, view, given, named))
        words, self.refusal_text = self.refusal_text, None
        assert words is not None
        return words

    async def _answer(self, name: str, step: Step) -> tuple[Any, Any]:
        said, given = await super()._answer(name, step)
        refused = given is None and said is not None
        assert refused == (self.refusal_text is not None), f"{name}: {step}: {said}"
        self.refusal_text = ": ".join(said) if refused else None
        return said, given

    def _view(self, name: str, place: str) -> AsyncAgentMemory:
        """A face by `channel/conversation@agent`, which keeps its conversation."""
        known = name, f"{self.user_name} {place}"
        if known not in self.views:
            where, _, agent = place.partition("@")
            channel, _, conversation = where.partition("/")
            self.views[known] = self.memories[name].scoped(
                user_id=self.user_name, channel=channel, conversation_id=conversation or None, agent_id=agent or None
            )
        return self.views[known]

    # -- between the days

    async def run_jobs_after(self, **units: float) -> dict[str, dict[str, int]]:
        """Let time pass and the worker do all of its jobs; the counts of those that did something."""
        self.clock.advance(**units)
        return dict(await self.run_action("the worker's jobs", _run_worker))

    async def compare_all(self) -> None:
        """Ask both memories whatever can be asked."""
        await self.run_action("flush", _flush)
        for verb, *given in QUESTIONS:
            await self.run_verb(verb, *given)
        for face, query in zip(VIEWS, QUERIES, strict=True):
            await self.run_verb("semantic.facts", {"retired": True}, view=face)
            await self.run_verb("remember", query, view=face, reinforce=False)
            await self.run_verb("context", query, 600, view=face)
            await self.run_verb("procedural.find_strategies", query, view=face)
        await self.run_action("records, edges, use and dues", read_full_state)
        await self.run_action("audit rows", _read_audit)
        await self._compare_exports()

    async def _compare_exports(self) -> None:
        """Both exports are the same to the byte."""
        await self.run_action("export", _export)

    async def read_state(self) -> dict[Any, Any]:
        """Every record and edge of both, as it is but for what a write stamps anew."""
        await self.run_action("flush", _flush)
        found: dict[Any, Any] = await self.run_action("records and edges", read_records_and_edges)
        return found


QUESTIONS: Sequence[tuple[Any, ...]] = (
    ("semantic.facts",),
    ("semantic.entities",),
    ("semantic.reviews",),
    ("goals.all",),
    ("goals.active",),
    ("goals.overdue",),
    ("goals.for_conversation",),
    ("goals.find_active_in_conversation",),
    ("procedural.tool_stats",),
    ("procedural.tool_stats", "deploy", "_global"),
    ("procedural.procedures",),
    ("procedural.procedures", "retired"),
    ("schedules.list",),
    ("schedules.due",),
    ("curation.queue", 50),
    ("curation.clusters",),
    ("synopsis",),
    ("profile",),
    ("episodic.conversations",),
    ("working.current_markdown",),
    ("working.context",),
    ("working.thoughts",),
)


async def _flush(memory: AsyncAgentMemory) -> None:
    await memory.flush()
    assert set((await memory.lag()).values()) == {0}


async def _run_worker(memory: AsyncAgentMemory) -> dict[str, dict[str, int]]:
    await memory.flush()
    worker = ConsolidationWorker(memory.engine)
    reports = {report.job: report for report in await worker.run_once()}
    assert set(reports) == set(worker.jobs) == set(list_scheduled_jobs())
    assert {name: report.failed for name, report in reports.items() if report.failed} == {}
    assert reports["check"].counts["problems"] == 0
    return {
        name: report.counts for name, report in reports.items() if report.counts and name not in STORE_SPECIFIC_JOBS
    }


async def _export(memory: AsyncAgentMemory) -> list[str]:
    lines: list[str] = []
    await export_user(memory.engine, memory.scope, lines.append)
    return lines


async def _read_audit(memory: AsyncAgentMemory) -> Any:
    return to_comparable(drop_row_ids(await memory.audit.query(limit=1000)))


async def read_records_and_edges(memory: AsyncAgentMemory) -> dict[Any, Any]:
    """Every current record of the user, and every edge that the graph shows between them."""
    inside, scope = memory.engine, memory.scope
    records = await list_across_channels(memory._context, Where(kinds=tuple(KINDS)))
    everywhere = Scope(scope.user_id, channels=tuple({record.channel for record in records}))
    keys = [record.key for record in records]
    edges = await inside.graph.edges(keys, everywhere, limit=10_000)
    if (projection := inside.graph_projection) is not None:
        assert await projection.sync(everywhere)
        assert (
            await walk_replica(projection.graph, inside.clock, inside.log).edges(keys, everywhere, limit=10_000)
            == edges
        )
    found = {f"{record.kind} {record.id}": record.model_dump(exclude=VOLATILE_FIELDS) for record in records}
    return found | {"edges": sorted((edge.model_dump(exclude=VOLATILE_FIELDS) for edge in edges), key=repr)}


async def read_full_state(memory: AsyncAgentMemory) -> dict[str, Any]:
    """Records and edges, their use, what each job finds due, and where it stands."""
    inside, scope, now = memory.engine, memory.scope, memory.engine.clock.now()
    records = await list_across_channels(memory._context, Where(kinds=tuple(KINDS)))
    used = await inside.log.usage([record.key for record in records], scope)
    return {
        "records": await read_records_and_edges(memory),
        "use": {" ".join(key): usage for key, usage in sorted(used.items())},
        "due": {job: await inside.job_queue.due_records(job, now, scope) for job in list_scheduled_jobs()},
        "jobs": [state for state in await inside.job_queue.states(scope) if state.job not in STORE_SPECIFIC_JOBS],
        "problems": await inside.log.check(OPERATOR),
        "seen": to_comparable(await inside.session.items(scope, "schedule:")),
    }
