"""One story done to two memories of a user, verb by verb, with looks at all that both say of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentmem.agent_memory import AsyncAgentMemory
from agentmem.consolidation import scheduled_jobs
from agentmem.consolidation.serving import OPERATOR
from agentmem.memory.erasure import every
from agentmem.model.records import KINDS
from agentmem.model.scope import Scope
from agentmem.stores import Where
from agentmem.upkeep.portable import export_user
from agentmem.worker import ConsolidationWorker
from tests.conformance.congruence import Both, plain, unnumbered
from tests.conformance.history_steps import Step
from tests.flows.given import TIMELESS

HOUSE = "house/kitchen"  # a project's channel, and a conversation in it
HOME = "_global"
BOT = "_self_bot@bot"
FACES = (HOME, HOUSE, BOT)
QUERIES = ("deploy the staging server to Oslo", "Where is the door code?", "What does Ann drink?")  # one at each face
# Jobs whose work depends on the store, as a graph that follows the log: their counts are not compared.
STORES_OWN = ("project", "audit_partitions", "check")

Do = Callable[[AsyncAgentMemory], Awaitable[Any]]


@dataclass(frozen=True)
class Deed(Step):
    """Something done to a memory that is no call of a verb alone; `verb` says what."""

    do: Do | None = None

    async def call(self, memory: AsyncAgentMemory) -> Any:
        """Do it."""
        assert self.do is not None
        return await self.do(memory)


@dataclass
class Story(Both):
    """The story so far. `user` seeds the ids, `who` is the name that nobody else in the graph has.

    `kept` holds what later days come back to.
    """

    who: str = ""
    kept: dict[str, Any] = field(default_factory=dict)
    no: str | None = None  # what a refusal said, where one is awaited

    async def do(self, verb: str, *given: Any, at: str = HOME, **named: Any) -> Any:
        """Call a verb of both memories; what it gave, the same on both. A refusal fails the test."""
        return await self.same(Step(verb, at, given, named))

    async def deed(self, what: str, do: Do, at: str = HOME) -> Any:
        """Do something to both memories; what it gave."""
        return await self.same(Deed(what, at, do=do))

    async def refused(self, verb: str, *given: Any, at: str = HOME, **named: Any) -> str:
        """Call a verb that both must refuse; with which words."""
        self.no = ""
        await self.same(Step(verb, at, given, named))
        words, self.no = self.no, None
        assert words is not None
        return words

    async def _answer(self, name: str, step: Step) -> tuple[Any, Any]:
        said, given = await super()._answer(name, step)
        refused = given is None and said is not None
        assert refused == (self.no is not None), f"{name}: {step}: {said}"
        self.no = ": ".join(said) if refused else None
        return said, given

    def _view(self, name: str, place: str) -> AsyncAgentMemory:
        """A face by `channel/conversation@agent`, which keeps its conversation."""
        known = name, f"{self.who} {place}"
        if known not in self.views:
            where, _, agent = place.partition("@")
            channel, _, conversation = where.partition("/")
            self.views[known] = self.memories[name].scoped(
                user_id=self.who, channel=channel, conversation_id=conversation or None, agent_id=agent or None
            )
        return self.views[known]

    # -- between the days

    async def night(self, **units: float) -> dict[str, dict[str, int]]:
        """Let time pass and the worker do all of its jobs; the counts of those that did something."""
        self.clock.ahead(**units)
        return dict(await self.deed("the worker's jobs", _worked))

    async def look(self) -> None:
        """Ask both memories whatever can be asked."""
        await self.deed("flush", _flushed)
        for verb, *given in QUESTIONS:
            await self.do(verb, *given)
        for face, query in zip(FACES, QUERIES, strict=True):
            await self.do("semantic.facts", {"retired": True}, at=face)
            await self.do("remember", query, at=face, reinforce=False)
            await self.do("context", query, 600, at=face)
            await self.do("procedural.find_strategies", query, at=face)
        await self.deed("records, edges, use and dues", standing)
        await self.deed("audit rows", _audited)
        await self._exports()

    async def _exports(self) -> None:
        """Both exports are the same to the byte."""
        await self.deed("export", _exported)

    async def stands(self) -> dict[Any, Any]:
        """Every record and edge of both, as it is but for what a write stamps anew."""
        await self.deed("flush", _flushed)
        found: dict[Any, Any] = await self.deed("records and edges", records_and_edges)
        return found


QUESTIONS: Sequence[tuple[Any, ...]] = (
    ("semantic.facts",), ("semantic.entities",), ("semantic.reviews",),
    ("goals.all",), ("goals.active",), ("goals.overdue",), ("goals.for_conversation",), ("goals.pursued",),
    ("procedural.tool_stats",), ("procedural.tool_stats", "deploy", "_global"), ("procedural.procedures",),
    ("procedural.procedures", "retired"), ("schedules.list",), ("schedules.due",), ("curation.queue", 50),
    ("curation.clusters",), ("synopsis",), ("profile",), ("episodic.conversations",), ("working.current_markdown",),
    ("working.context",), ("working.thoughts",),
)  # fmt: skip


async def _flushed(memory: AsyncAgentMemory) -> None:
    await memory.flush()
    assert set((await memory.lag()).values()) == {0}


async def _worked(memory: AsyncAgentMemory) -> dict[str, dict[str, int]]:
    await memory.flush()
    worker = ConsolidationWorker(memory.resources)
    reports = {report.job: report for report in await worker.run_once()}
    assert set(reports) == set(worker.jobs) == set(scheduled_jobs())
    assert {name: report.failed for name, report in reports.items() if report.failed} == {}
    assert reports["check"].counts["problems"] == 0
    return {name: report.counts for name, report in reports.items() if report.counts and name not in STORES_OWN}


async def _exported(memory: AsyncAgentMemory) -> list[str]:
    lines: list[str] = []
    await export_user(memory.resources, memory.scope, lines.append)
    return lines


async def _audited(memory: AsyncAgentMemory) -> Any:
    return plain(unnumbered(await memory.audit.query(limit=1000)))


async def records_and_edges(memory: AsyncAgentMemory) -> dict[Any, Any]:
    """Every current record of the user, and every edge that the graph shows between them."""
    inside, scope = memory.resources, memory.scope
    records = await every(memory._seat, Where(kinds=tuple(KINDS)))
    everywhere = Scope(scope.user_id, channels=tuple({record.channel for record in records}))
    edges = await inside.graph.edges([record.key for record in records], everywhere, limit=10_000)
    found = {f"{record.kind} {record.id}": record.model_dump(exclude=TIMELESS) for record in records}
    return found | {"edges": sorted((edge.model_dump(exclude=TIMELESS) for edge in edges), key=repr)}


async def standing(memory: AsyncAgentMemory) -> dict[str, Any]:
    """Records and edges, their use, what each job finds due, and where it stands."""
    inside, scope, now = memory.resources, memory.scope, memory.resources.clock.now()
    records = await every(memory._seat, Where(kinds=tuple(KINDS)))
    used = await inside.log.usage([record.key for record in records], scope)
    return {
        "records": await records_and_edges(memory),
        "use": {" ".join(key): usage for key, usage in sorted(used.items())},
        "due": {job: await inside.jobs.due_records(job, now, scope) for job in scheduled_jobs()},
        "jobs": [state for state in await inside.jobs.states(scope) if state.job not in STORES_OWN],
        "problems": await inside.log.check(OPERATOR),
        "seen": plain(await inside.session.items(scope, "schedule:")),
    }
