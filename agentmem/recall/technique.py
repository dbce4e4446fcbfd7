"""What a technique is given and what it gives back. A technique is one file in `recall/techniques/`:

`class Options(TechniqueOptions)` with its settings (`recall.<file name>.<option>`), and
`async def search(query: RecallQuery, memory: SearchContext, options: Options) -> ScoreLists`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from typing import Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from agentmem.core.clock import Clock
from agentmem.core.columns import Bools, Floats, RecordColumns
from agentmem.core.ranking import ScoreList
from agentmem.core.record import Record
from agentmem.core.scope import Scope
from agentmem.models.protocols import LLMRequest
from agentmem.recall.cache import TurnNeighbors, UserCache
from agentmem.stores.protocols import GraphStore, LogStore, VectorIndex
from agentmem.stores.values import Postings

M = TypeVar("M", bound=BaseModel)

ENABLED = "Whether a recall that names no techniques uses it."
DEADLINE = "Seconds after which a recall goes on without it."

EMBED_TIMEOUT_SECONDS = 2.0
"""Seconds that a query waits for its vector: some ten times what loading a local model takes on an idle machine."""

ScoreLists = Mapping[str, ScoreList]
"""Name of a list to what it says of each slot; an empty mapping when the technique has nothing to say."""


class EmbedText(Protocol):
    """Gives the unit vector of a text, shape (dimensions,).

    Raises ModelUnavailable when none came within `timeout` seconds, and what the embedder raises.
    """

    async def __call__(self, text: str, timeout: float = EMBED_TIMEOUT_SECONDS) -> Floats: ...


class AskLLM(Protocol):
    """Gives a language model's reply as a `reply_type`.

    Raises LLMNotConfigured when the settings name none, ModelUnavailable when none came within `timeout` seconds
    (None: no bound), and what `StructuredLLM.ask` raises.
    """

    async def __call__(self, request: LLMRequest, reply_type: type[M], timeout: float | None = None) -> M: ...


class TechniqueOptions(BaseModel):
    """Settings of any technique. `deadline` is in seconds; it stands still while an embedder reads the query, since
    that wait has a bound of its own. There is none when ids are seeded.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    enabled: bool = Field(default=True, description=ENABLED)
    deadline: float = Field(default=0.3, gt=0, description=DEADLINE)


@dataclass(frozen=True, slots=True, eq=False)
class SearchContext:
    """The user's memory as one query may see it, in columns by ordinal.

    `mask` is what the query may find; nothing else may influence a result. `turn_mask` are the turns among it.
    `current_mask` are the records of all channels that are not retired, for document frequencies alone.
    `normalization_mask` is what scales are taken over: the visible turns, or all that is visible while these are few.
    `all_neighbors` tells who stands next to whom, `context_neighbors` which of these neighbors count.
    `statement_ratio` is 1 where nobody asks, 0 where at least half of the turns ask. `vectors` is None while there is
    no index; `embedder_id` and `granularities` are those of its embedder. `ask` asks a language model, `add_trace_note`
    adds words to the technique's line in the trace. `through_seq` is the journal position seen, None for the newest;
    `now` the one that counts as now, `zone` the time zone that the settings name. `technique_options` are the options
    of every technique by its name, for one that searches as another does.
    """

    scope: Scope
    columns: RecordColumns
    mask: Bools
    turn_mask: Bools
    current_mask: Bools
    normalization_mask: Bools
    all_neighbors: TurnNeighbors
    context_neighbors: TurnNeighbors
    statement_ratio: float
    now: datetime
    cache: UserCache
    clock: Clock
    graph: GraphStore
    log: LogStore
    vectors: VectorIndex | None
    embedder_id: str
    granularities: tuple[str, ...]
    embed: EmbedText
    ask: AskLLM
    add_trace_note: Callable[[str], None]
    through_seq: int | None = None
    zone: tzinfo | None = None
    technique_options: Mapping[str, TechniqueOptions] = field(default_factory=dict)
    _postings: dict[str, Postings | None] = field(default_factory=dict)

    async def match(self, terms: Sequence[str]) -> dict[str, Postings]:
        """Postings of each term that occurs, looked up once in a recall.

        What was written since the columns were read is left out.
        """
        known, size = self._postings, self.columns.size
        if missing := [term for term in terms if term not in known]:
            found = await self.log.match(missing, self.scope)
            for term in missing:
                each = found.get(term)
                if each is not None and len(each.ordinals) and each.ordinals[-1] >= size:
                    inside = each.ordinals < size
                    each = Postings(each.ordinals[inside], each.counts[inside])
                known[term] = each
        return {term: each for term in dict.fromkeys(terms) if (each := known[term]) is not None}

    async def read(self, ordinals: Sequence[int]) -> list[Record]:
        """The records of these ordinals in this order, as they were at the journal position seen."""
        return await self.log.read_by_ordinal(ordinals, self.scope, self.through_seq) if len(ordinals) else []

    async def read_by_ordinal(self, ordinals: Sequence[int]) -> dict[int, Record]:
        """The same by ordinal."""
        found = await self.read(ordinals)
        if len(found) == len(ordinals):
            return dict(zip(ordinals, found, strict=True))
        return {self.columns.ordinals_by_key[record.key]: record for record in found}
