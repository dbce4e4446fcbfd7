"""What the flow tests share: a clock that stands still, an opened memory, and looks behind the verbs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from agentmem import AgentMemory, Record
from agentmem.blocking import _LOOP
from agentmem.memory import Seat
from agentmem.model.records import KINDS
from agentmem.recall.bundle import MemoryBundle
from agentmem.resources import Resources
from agentmem.stores import Where

T = TypeVar("T")
START = datetime(2026, 3, 1, 12, tzinfo=UTC)
TIMELESS = {"recorded_at", "seq", "operation_id"}  # what the log stamps anew on every write


class StoppedClock:
    """Stands still until it is told to move."""

    def __init__(self, at: datetime = START) -> None:
        self.at = at

    def now(self) -> datetime:
        return self.at

    def ahead(self, **units: float) -> datetime:
        self.at += timedelta(**units)
        return self.at


def opened(home: Path, user: str = "alice", **more: Any) -> AgentMemory:
    """A memory with the lexical embedder, so that nothing is downloaded and every run gives the same."""
    return AgentMemory(user, home=home, **{"embedder": "hash", **more})


def run(work: Awaitable[T]) -> T:
    """Wait for a coroutine of a blocking memory's insides."""

    async def wait() -> T:
        return await work

    return _LOOP.run(wait())


def resources(memory: AgentMemory) -> Resources:
    return memory._inner.resources


def seat(memory: AgentMemory) -> Seat:
    return memory._inner._seat


def head(memory: AgentMemory) -> int:
    """How far the user's journal reaches."""
    return run(resources(memory).log.head(seat(memory).scope)).seq


def last_operation(memory: AgentMemory) -> str:
    return run(resources(memory).log.changes(seat(memory).scope, head(memory) - 1, 1))[0].operation_id


def tables(memory: AgentMemory, leave_out: Iterable[str] = ()) -> dict[str, list[tuple[Any, ...]]]:
    """The content of every table of the main file."""
    skip = {"sqlite_sequence", "sqlite_stat1", *leave_out}

    def read(db: Any) -> dict[str, list[tuple[Any, ...]]]:
        names = [name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")]
        return {
            name: sorted(db.execute(f'SELECT * FROM "{name}"').fetchall(), key=repr)
            for name in names
            if name not in skip
        }

    return run(resources(memory).log.database.read(read))


def state(memory: AgentMemory) -> dict[Any, Any]:
    """Every current record of the user and every edge between current records, without what a write stamps anew."""
    scope, inside = seat(memory).scope, resources(memory)
    records: list[Record] = run(inside.log.find(scope, Where(kinds=tuple(KINDS)), limit=10_000))
    found: dict[Any, Any] = {record.key: record.model_dump(exclude=TIMELESS) for record in records}
    edges = "SELECT source, kind, target, edge FROM graph_edges WHERE user_id = ? AND source >= 0 AND target >= 0"
    read: Callable[[Any], Any] = lambda db: sorted(db.execute(edges, (scope.user_id,)).fetchall())  # noqa: E731
    found["edges"] = run(inside.log.database.read(read))
    return found


def ids(bundle: MemoryBundle) -> set[str]:
    """The ids of everything that a bundle holds, of whatever kind."""
    kinds = (bundle.turns, bundle.facts, bundle.entities, bundle.strategies, bundle.procedures, bundle.goals)
    found = {record.id for kind in kinds for record in kind} | {item.record.id for item in bundle.items}
    return found | {lead.center_turn for lead in bundle.thread_leads}


def texts(bundle: MemoryBundle) -> list[str]:
    """Claims and contents in the bundle, sorted."""
    return sorted([fact.claim for fact in bundle.facts] + [turn.content for turn in bundle.turns])


def shown(bundle: MemoryBundle) -> Any:
    """All of a bundle that a user can see, without the id of its receipt."""
    receipt = bundle.receipt.as_dict()
    for name in ("id", "milliseconds", "trace", "at"):
        receipt.pop(name)
    items = [(item.record.id, item.score, item.why) for item in bundle.items]
    kinds = [[record.id for record in kind] for kind in (bundle.turns, bundle.facts, bundle.entities, bundle.goals)]
    return items, kinds, bundle.thread_leads, bundle.notices, str(bundle), dict(bundle.user_context), receipt


def np_unit(vector: Iterable[float]) -> NDArray[np.float32]:
    """The vector with length 1."""
    values = np.array(list(vector), dtype=np.float32)
    return values / np.float32(np.linalg.norm(values))
