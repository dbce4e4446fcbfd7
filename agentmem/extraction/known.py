"""What is known that a window may touch: facts like what is said, and entities that it names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from agentmem.errors import ModelError
from agentmem.memory import Seat
from agentmem.model.outline import Bools, Floats, Outline
from agentmem.model.records import Entity, Fact, R, Record, Turn
from agentmem.stores import WHOLE, Where
from agentmem.text.words import terms

MOST_FACTS = 20
MOST_ENTITIES = 30
MOST_OWN = 500  # facts of one source
ALIKE = 0.3  # cosine of a fact with a window that may touch it
LONGEST = 4000  # characters of a window that are compared with facts
PAGE = 1000


@dataclass
class Known:
    """Reads what is current in the channels that a seat may read."""

    seat: Seat

    async def facts(self, turns: Sequence[Turn]) -> tuple[Fact, ...]:
        """Current facts that are most like these turns, at most 20; none where no model answers."""
        text = " ".join(turn.searchable() for turn in turns)[:LONGEST]
        found = (await self.near([text], Fact))[0]
        return tuple(fact for fact, cosine in found if cosine >= ALIKE)

    async def facts_of(self, source: str) -> tuple[Fact, ...]:
        """The latest current facts of one source, at most 500."""
        _, mask = await self._current("Fact")
        slots = np.flatnonzero(mask)[::-1]
        found: list[Fact] = []
        for start in range(0, len(slots), PAGE):
            page = await self._read([int(slot) for slot in slots[start : start + PAGE]])
            found += [record for record in page if isinstance(record, Fact) and record.source == source]
            if len(found) >= MOST_OWN:
                break
        return tuple(found[:MOST_OWN])

    async def entities(self, turns: Sequence[Turn]) -> tuple[Entity, ...]:
        """Current entities whose names share words with these turns, at most 30."""
        outline, mask = await self._current("Entity")
        words = list(dict.fromkeys(term for turn in turns for term in terms(turn.searchable())))
        if not words or not mask.any():
            return ()
        shared = np.zeros(outline.size, dtype=np.int64)
        for postings in (await self.seat.resources.log.match(words, self.seat.scope)).values():
            shared[postings.slots[postings.slots < outline.size]] += 1
        found = np.flatnonzero(mask & (shared > 0))
        best = found[np.lexsort((found, -shared[found]))][:MOST_ENTITIES]
        return tuple(record for record in await self._read([int(slot) for slot in best]) if isinstance(record, Entity))

    async def near(self, texts: Sequence[str], cls: type[R]) -> list[list[tuple[R, float]]]:
        """For each text the current records of a class by cosine, most like first, at most 20; none without a model."""
        outline, mask = await self._current(cls.__name__)
        vectors = await self._embedded(texts) if texts and mask.any() else None
        if vectors is None:
            return [[] for _ in texts]
        return [await self._nearest(vector, outline, mask, cls) for vector in vectors]

    async def _nearest(self, vector: Floats, outline: Outline, mask: Bools, cls: type[R]) -> list[tuple[R, float]]:
        index, scope = self.seat.resources.vectors[0].index, self.seat.scope
        found = await index.nearest(vector, scope, Where(kinds=(cls.__name__,)), WHOLE)
        inside = found.slots < outline.size  # an index may be ahead of the outline
        slots, scores = found.slots[inside], found.scores[inside]
        slots, scores = slots[mask[slots]], scores[mask[slots]]
        order = np.argsort(-scores, kind="stable")[:MOST_FACTS]
        cosines = {int(slots[at]): float(scores[at]) for at in order}
        read = await self._read(list(cosines))
        return [(record, cosines[outline.slots[record.key]]) for record in read if isinstance(record, cls)]

    async def _embedded(self, texts: Sequence[str]) -> Floats | None:
        """Unit vectors as they are stored; None without an embedder that answers."""
        served = self.seat.resources.vectors
        if not served:
            return None
        try:
            vectors = await served[0].embedder.embed(texts)
        except ModelError:  # likeness is a help and no condition: nothing waits for it
            return None
        return np.asarray(vectors.astype(np.float16), dtype=np.float32)

    async def _current(self, kind: str) -> tuple[Outline, Bools]:
        resources, scope = self.seat.resources, self.seat.scope
        outline = await resources.outline(scope)
        view = outline.view(scope.readable(), now=await resources.now(scope), kinds=(kind,))
        return outline, view.mask

    async def _read(self, slots: Sequence[int]) -> list[Record]:
        return await self.seat.resources.log.by_slot(slots, self.seat.scope) if slots else []
