"""What is known that a window may touch: facts like what is said, and entities that it names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from agentmem.errors import ModelError
from agentmem.memory import MemoryContext
from agentmem.model.outline import Bools, Floats, RecordColumns
from agentmem.model.records import Entity, Fact, R, Record, Turn
from agentmem.stores import WHOLE, Where
from agentmem.text.words import tokenize

MAX_FACTS = 20
MAX_ENTITIES = 30
MAX_FACTS_PER_SOURCE = 500  # facts of one source
MIN_WINDOW_COSINE = 0.3  # cosine of a fact with a window that may touch it
MAX_QUERY_CHARS = 4000  # characters of a window that are compared with facts
PAGE_SIZE = 1000


@dataclass
class CandidateRetriever:
    """Reads what is current in the channels that a seat may read."""

    context: MemoryContext

    async def find_facts(self, turns: Sequence[Turn]) -> tuple[Fact, ...]:
        """Current facts that are most like these turns, at most 20; none where no model answers."""
        text = " ".join(turn.search_text() for turn in turns)[:MAX_QUERY_CHARS]
        found = (await self.find_similar([text], Fact))[0]
        return tuple(fact for fact, cosine in found if cosine >= MIN_WINDOW_COSINE)

    async def find_facts_by_source(self, source: str) -> tuple[Fact, ...]:
        """The latest current facts of one source, at most 500."""
        _, mask = await self._read_current_mask("Fact")
        ordinals = np.flatnonzero(mask)[::-1]
        found: list[Fact] = []
        for start in range(0, len(ordinals), PAGE_SIZE):
            page = await self._read_records([int(ordinal) for ordinal in ordinals[start : start + PAGE_SIZE]])
            found += [record for record in page if isinstance(record, Fact) and record.source == source]
            if len(found) >= MAX_FACTS_PER_SOURCE:
                break
        return tuple(found[:MAX_FACTS_PER_SOURCE])

    async def find_entities(self, turns: Sequence[Turn]) -> tuple[Entity, ...]:
        """Current entities whose names share words with these turns, at most 30."""
        columns, mask = await self._read_current_mask("Entity")
        words = list(dict.fromkeys(term for turn in turns for term in tokenize(turn.search_text())))
        if not words or not mask.any():
            return ()
        shared = np.zeros(columns.size, dtype=np.int64)
        for postings in (await self.context.engine.log.match(words, self.context.scope)).values():
            shared[postings.ordinals[postings.ordinals < columns.size]] += 1
        found = np.flatnonzero(mask & (shared > 0))
        best = found[np.lexsort((found, -shared[found]))][:MAX_ENTITIES]
        return tuple(
            record
            for record in await self._read_records([int(ordinal) for ordinal in best])
            if isinstance(record, Entity)
        )

    async def find_similar(self, texts: Sequence[str], cls: type[R]) -> list[list[tuple[R, float]]]:
        """For each text the current records of a class by cosine, most like first, at most 20; none without a model."""
        columns, mask = await self._read_current_mask(cls.__name__)
        vectors = await self._embed(texts) if texts and mask.any() else None
        if vectors is None:
            return [[] for _ in texts]
        return [await self._search(vector, columns, mask, cls) for vector in vectors]

    async def _search(self, vector: Floats, columns: RecordColumns, mask: Bools, cls: type[R]) -> list[tuple[R, float]]:
        index, scope = self.context.engine.vector_projections[0].index, self.context.scope
        found = await index.search(vector, scope, Where(kinds=(cls.__name__,)), WHOLE)
        inside = found.ordinals < columns.size  # an index may be ahead of the outline
        ordinals, scores = found.ordinals[inside], found.scores[inside]
        ordinals, scores = ordinals[mask[ordinals]], scores[mask[ordinals]]
        order = np.argsort(-scores, kind="stable")[:MAX_FACTS]
        cosines = {int(ordinals[at]): float(scores[at]) for at in order}
        read = await self._read_records(list(cosines))
        return [(record, cosines[columns.ordinals_by_key[record.key]]) for record in read if isinstance(record, cls)]

    async def _embed(self, texts: Sequence[str]) -> Floats | None:
        """Unit vectors as they are stored; None without an embedder that answers."""
        served = self.context.engine.vector_projections
        if not served:
            return None
        try:
            vectors = await served[0].embedder.embed(texts)
        except ModelError:  # likeness is a help and no condition: nothing waits for it
            return None
        return np.asarray(vectors.astype(np.float16), dtype=np.float32)

    async def _read_current_mask(self, kind: str) -> tuple[RecordColumns, Bools]:
        engine, scope = self.context.engine, self.context.scope
        columns = await engine.read_columns(scope)
        view = columns.build_visibility_mask(scope.readable_channels(), now=await engine.now(scope), kinds=(kind,))
        return columns, view.mask

    async def _read_records(self, ordinals: Sequence[int]) -> list[Record]:
        return await self.context.engine.log.read_by_ordinal(ordinals, self.context.scope) if ordinals else []
