"""What the flow tests share: a clock that stands still, an opened memory, and looks behind the verbs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
from numpy.typing import NDArray

from agentmem import AgentMemory, Record
from agentmem.core.event_loop import BACKGROUND_LOOP
from agentmem.core.records import KINDS
from agentmem.engine.engine import Engine
from agentmem.memory.context import MemoryContext
from agentmem.recall.bundle import MemoryBundle
from agentmem.stores.values import Where
from tests.servers.stack import Stack

T = TypeVar("T")
START = datetime(2026, 3, 1, 12, tzinfo=UTC)
VOLATILE_FIELDS = {"recorded_at", "seq", "operation_id"}  # what the log stamps anew on every write


class ManualClock:
    """Stands still until it is told to move."""

    def __init__(self, time: datetime = START) -> None:
        self.time = time

    def now(self) -> datetime:
        return self.time

    def advance(self, **units: float) -> datetime:
        self.time += timedelta(**units)
        return self.time


ON_SERVERS = pytest.mark.server("postgres", "neo4j", "redis")
STACKS = ["file", pytest.param("servers", marks=ON_SERVERS)]
FILE_FIRST = ["file", pytest.param("servers", marks=[ON_SERVERS, pytest.mark.nightly])]  # for work above the stores


def stack_options(request: pytest.FixtureRequest) -> dict[str, Any]:
    """What opens a memory on the stack that a fixture over `STACKS` or `FILE_FIRST` asks for."""
    if request.param == "file":
        return {}
    stack: Stack = request.getfixturevalue("stack")
    return {"user": stack.user(), **stack.urls}


def open_memory(home: Path, user: str = "alice", **more: Any) -> AgentMemory:
    """A memory with the lexical embedder, so that nothing is downloaded and every run gives the same."""
    return AgentMemory(user, home=home, **{"embedder": "hash", **more})


def run(work: Awaitable[T]) -> T:
    """Wait for a coroutine of a blocking memory's insides."""

    async def wait() -> T:
        return await work

    return BACKGROUND_LOOP.run(wait())


def engine_of(memory: AgentMemory) -> Engine:
    return memory._inner.engine


def context_of(memory: AgentMemory) -> MemoryContext:
    return memory._inner._context


def read_head(memory: AgentMemory) -> int:
    """How far the user's journal reaches."""
    return run(engine_of(memory).log.head(context_of(memory).scope)).seq


def last_operation_id(memory: AgentMemory) -> str:
    return run(engine_of(memory).log.changes(context_of(memory).scope, read_head(memory) - 1, 1))[0].operation_id


def read_tables(memory: AgentMemory, leave_out: Iterable[str] = ()) -> dict[str, list[tuple[Any, ...]]]:
    """The content of every table of the main file."""
    skip = {"sqlite_sequence", "sqlite_stat1", "store_guard", *leave_out}  # how many commits, which leases count too

    def read(db: Any) -> dict[str, list[tuple[Any, ...]]]:
        names = [name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")]
        return {
            name: sorted(db.execute(f'SELECT * FROM "{name}"').fetchall(), key=repr)
            for name in names
            if name not in skip
        }

    return run(engine_of(memory).log.database.read(read))


def read_state(memory: AgentMemory) -> dict[Any, Any]:
    """Every current record of the user and every edge between current records, without what a write stamps anew."""
    scope, inside = context_of(memory).scope, engine_of(memory)
    records: list[Record] = run(inside.log.find(scope, Where(kinds=tuple(KINDS)), limit=10_000))
    found: dict[Any, Any] = {record.key: record.model_dump(exclude=VOLATILE_FIELDS) for record in records}
    edges = "SELECT source, kind, target, edge FROM graph_edges WHERE user_id = ? AND source >= 0 AND target >= 0"
    read: Callable[[Any], Any] = lambda db: sorted(db.execute(edges, (scope.user_id,)).fetchall())  # noqa: E731
    found["edges"] = run(inside.log.database.read(read))
    return found


def bundle_ids(bundle: MemoryBundle) -> set[str]:
    """The ids of everything that a bundle holds, of whatever kind."""
    kinds = (bundle.turns, bundle.facts, bundle.entities, bundle.strategies, bundle.procedures, bundle.goals)
    found = {record.id for kind in kinds for record in kind} | {item.record.id for item in bundle.items}
    return found | {lead.center_turn for lead in bundle.thread_leads}


def bundle_texts(bundle: MemoryBundle) -> list[str]:
    """Claims and contents in the bundle, sorted."""
    return sorted([fact.claim for fact in bundle.facts] + [turn.content for turn in bundle.turns])


def visible_content(bundle: MemoryBundle) -> Any:
    """All of a bundle that a user can see, without the id of its receipt."""
    receipt = bundle.receipt.as_dict()
    for name in ("id", "milliseconds", "trace", "at"):
        receipt.pop(name)
    items = [(item.record.id, item.score, item.why) for item in bundle.items]
    kinds = [[record.id for record in kind] for kind in (bundle.turns, bundle.facts, bundle.entities, bundle.goals)]
    return items, kinds, bundle.thread_leads, bundle.notices, str(bundle), dict(bundle.user_context), receipt


def normalize(vector: Iterable[float]) -> NDArray[np.float32]:
    """The vector with length 1."""
    values = np.array(list(vector), dtype=np.float32)
    return values / np.float32(np.linalg.norm(values))
