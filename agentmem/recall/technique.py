"""What a technique is given and what it gives back. A technique is one file in `recall/techniques/`:

`class Options(technique.Options)` with its settings (`recall.<file name>.<option>`), and
`async def search(query: Query, memory: Memory, options: Options) -> Hits`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from agentmem.model.clock import Clock
from agentmem.model.outline import Bools, Floats, Outline
from agentmem.model.ranking import Ranked
from agentmem.model.records import Key, Record
from agentmem.model.scope import Scope
from agentmem.providers import LLMRequest
from agentmem.recall.kept import Kept
from agentmem.recall.neighbours import Neighbours
from agentmem.recall.query import Query
from agentmem.stores import GraphStore, Postings, RecordStore, Usage, VectorIndex, WordIndex

__all__ = ["Hits", "Memory", "Options", "Query", "Ranked"]

M = TypeVar("M", bound=BaseModel)

PATIENCE = 2.0
"""Seconds that a query waits for its vector: some ten times what loading a local model takes on an idle machine."""

Hits = Mapping[str, Ranked]
"""Name of a list to what it says of each slot; an empty mapping when the technique has nothing to say."""


class Searched(RecordStore, WordIndex, Protocol):
    """The log as recall sees it: records, words and usage."""

    async def usage(self, keys: Sequence[Key], scope: Scope) -> dict[Key, Usage]: ...

    async def seq_at(self, scope: Scope, moment: datetime) -> int: ...


class Embed(Protocol):
    """Gives the unit vector of a text, shape (dimensions,).

    Raises ModelUnavailable when none came within `patience` seconds, and what the embedder raises.
    """

    async def __call__(self, text: str, patience: float = PATIENCE) -> Floats: ...


class Ask(Protocol):
    """Gives a language model's reply as a `model`.

    Raises NoModel when the settings name none, ModelUnavailable when none came within `patience` seconds (None: no
    bound), and what `Asker.ask` raises.
    """

    async def __call__(self, request: LLMRequest, model: type[M], patience: float | None = None) -> M: ...


class Options(BaseModel):
    """Settings of any technique. `deadline` is in seconds; it stands still while an embedder reads the query, since
    that wait has a bound of its own. There is none when ids are seeded.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    enabled: bool = True
    deadline: float = Field(default=0.3, gt=0)


@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """The user's memory as one query may see it, in columns by slot.

    `mask` is what the query may find; nothing else may influence a result. `turns` are the turns among it. `current`
    are the records of all channels that are not retired, for document frequencies alone. `basis` is what scales are
    taken over: the visible turns, or all that is visible while these are few. `links` tells who stands next to whom,
    `near` which of these neighbours count. `calm` is 1 where nobody asks, 0 where at least half of the turns ask.
    `vectors` is None while there is no index; `identity` and `grains` are those of its embedder. `ask` asks a language
    model, `note` adds words to the technique's line in the trace. `through` is the journal position seen, None for the
    newest; `moment` the one that counts as now. `settings` are the options of every technique by its name, for one that
    searches as another does.
    """

    scope: Scope
    outline: Outline
    mask: Bools
    turns: Bools
    current: Bools
    basis: Bools
    links: Neighbours
    near: Neighbours
    calm: float
    moment: datetime
    kept: Kept
    clock: Clock
    graph: GraphStore
    log: Searched
    vectors: VectorIndex | None
    identity: str
    grains: tuple[str, ...]
    embed: Embed
    ask: Ask
    note: Callable[[str], None]
    through: int | None = None
    settings: Mapping[str, Options] = field(default_factory=dict)

    async def match(self, terms: Sequence[str]) -> dict[str, Postings]:
        """Postings of each term. What was written since the outline was taken is left out."""
        found = await self.log.match(terms, self.scope)
        size = self.outline.size
        return {
            term: each if not len(each.slots) or each.slots[-1] < size else _cut(each, size)
            for term, each in found.items()
        }

    async def read(self, slots: Sequence[int]) -> list[Record]:
        """The records of these slots in this order, as they were at the journal position seen."""
        return await self.log.by_slot(slots, self.scope, self.through) if len(slots) else []


def _cut(postings: Postings, size: int) -> Postings:
    inside = postings.slots < size
    return Postings(postings.slots[inside], postings.counts[inside])
