"""Clusters: facts that are near to each other by their vectors, and agree in what makes a difference.

Single linkage: a fact belongs to a cluster when it is near to one of it. How well a cluster holds together is the mean
cosine of its pairs. Only what changed is compared with the rest, in blocks, so that memory stays small.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from agentmem.memory import MemoryContext
from agentmem.memory.joining import sort_by_quality
from agentmem.model.outline import Floats, Ints, RecordColumns
from agentmem.model.records import Fact
from agentmem.settings_parts import ClusterOptions
from agentmem.text.words import is_reordering

DedupSignature = Callable[[Fact], Hashable]
MERGE, REVIEW, KEEP_APART = "merge", "review", "keep_apart"
BLOCK_SIZE = 256  # facts compared with all others at once
READ_BATCH_SIZE = 1000
MAX_WORD_ORDER_FACTS = 50  # facts of one cluster whose words are compared in their order


@dataclass(frozen=True, slots=True)
class Cluster:
    """Facts that may say the same, the one that would stay first; `cohesion` is the mean cosine of their pairs.

    `action` says what the job does with it: merge, review (a person is asked), or keep_apart.
    """

    facts: tuple[Fact, ...]
    cohesion: float
    action: str


async def find_clusters(
    context: MemoryContext, channel: str, signature: DedupSignature, *, after_seq: int = 0
) -> list[Cluster]:
    """The clusters of one channel's current facts that hold one written after a journal position, closest first.

    Facts are linked only where `signature` says the same of both. Facts without a vector are left out.
    """
    engine, scope = context.engine, context.scope
    options = engine.settings.clusters
    columns = await engine.read_columns(scope)
    view = columns.build_visibility_mask((channel,), now=await engine.now(scope), kinds=("Fact",))
    ordinals = np.flatnonzero(view.mask)
    if len(ordinals) < 2 or not (columns.seqs[ordinals] > after_seq).any():
        return []
    vectors = await engine.vector_projections[0].index.read_vectors(ordinals.tolist(), scope)
    known = np.array(sorted(vectors), dtype=np.int64)
    if len(known) < 2:
        return []
    matrix = np.stack([vectors[ordinal] for ordinal in known.tolist()]).astype(np.float32)
    links = _SingleLinkage(context, columns, signature, known, matrix, options.link)
    await links.expand(np.flatnonzero(columns.seqs[known] > after_seq))
    found = [_build_cluster(links, members, options) for members in links.groups()]
    return sorted(found, key=lambda cluster: (-cluster.cohesion, cluster.facts[0].id))


def _build_cluster(links: _SingleLinkage, members: Ints, options: ClusterOptions) -> Cluster:
    close = cohesion(links.matrix[members])
    facts = sort_by_quality([links.facts[place] for place in members.tolist()])
    action = MERGE if close >= options.merge else REVIEW if close >= options.review else KEEP_APART
    if action == MERGE and any(
        is_reordering(one.claim, other.claim) for one, other in combinations(facts[:MAX_WORD_ORDER_FACTS], 2)
    ):
        action = REVIEW
    return Cluster(tuple(facts), close, action)


def cohesion(vectors: Floats) -> float:
    """The mean cosine of all pairs among unit vectors, shape (members, dimensions); rounded to 1e-4."""
    many = vectors.astype(np.float64)
    total, own = many.sum(axis=0), float((many * many).sum())
    return min(1.0, round((float(total @ total) - own) / (len(many) * (len(many) - 1)), 4))


@dataclass(slots=True, eq=False)
class _SingleLinkage:
    """Who belongs together: `labels` is the same for the members of a cluster."""

    _context: MemoryContext
    columns: RecordColumns
    signature: DedupSignature
    ordinals: Ints
    matrix: Floats
    threshold: float
    facts: dict[int, Fact] = field(default_factory=dict)  # by place in the matrix, of those that are near another
    labels: Ints = field(init=False)
    # of what `signature` says; -1 where it was not asked, -2 where unreadable
    signature_codes: NDArray[np.int64] = field(init=False)
    _code_by_signature: dict[Hashable, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.labels = np.arange(len(self.ordinals))
        self.signature_codes = np.full(len(self.ordinals), -1, dtype=np.int64)

    async def expand(self, rows: Ints) -> None:
        """Link these with all others, and what they are linked with, until nothing is added."""
        asked = np.zeros(len(self.ordinals), dtype=np.bool_)
        waiting = [int(place) for place in rows]
        asked[waiting] = True
        while waiting:
            block, waiting = np.array(waiting[:BLOCK_SIZE]), waiting[BLOCK_SIZE:]
            near = await asyncio.to_thread(self._find_neighbors, block)
            await self._read_facts(np.flatnonzero(near.any(axis=0)))
            linked = await asyncio.to_thread(self._merge_labels, block, near)
            fresh = linked[~asked[linked]]
            asked[fresh] = True
            waiting += fresh.tolist()

    def groups(self) -> list[Ints]:
        """The places of each cluster of at least two."""
        order = np.argsort(self.labels, kind="stable")
        cuts = np.flatnonzero(np.diff(self.labels[order])) + 1
        return [group for group in np.split(order, cuts) if len(group) > 1]

    def _find_neighbors(self, block: Ints) -> NDArray[np.bool_]:
        """Which facts are near to those of a block, shape (block, all); a fact alone is near to nothing."""
        near: NDArray[np.bool_] = np.round(self.matrix[block] @ self.matrix.T, 4) > self.threshold
        near[np.arange(len(block)), block] = False
        near[np.arange(len(block)), block] = near.any(axis=1)
        return near

    def _merge_labels(self, block: Ints, near: NDArray[np.bool_]) -> Ints:
        """Give those that are near and agree one label; returns the places that were linked."""
        linked = np.zeros(len(self.ordinals), dtype=np.bool_)
        for row, place in enumerate(block.tolist()):
            if self.signature_codes[place] < 0:
                continue
            members = np.flatnonzero(near[row] & (self.signature_codes == self.signature_codes[place]))
            linked[members] = True
            labels = np.unique(self.labels[members])
            if len(labels) > 1:
                self.labels[np.isin(self.labels, labels)] = labels[0]
        return np.flatnonzero(linked)

    async def _read_facts(self, rows: Ints) -> None:
        fresh = rows[self.signature_codes[rows] == -1]
        by_slot: dict[int, int] = {int(self.ordinals[place]): int(place) for place in fresh}
        wanted: Sequence[int] = list(by_slot)
        self.signature_codes[fresh] = -2
        for start in range(0, len(wanted), READ_BATCH_SIZE):
            for record in await self._context.engine.log.read_by_ordinal(
                wanted[start : start + READ_BATCH_SIZE], self._context.scope
            ):
                if isinstance(record, Fact):
                    place = by_slot[self.columns.ordinals_by_key[record.key]]
                    self.facts[place] = record
                    self.signature_codes[place] = self._code_by_signature.setdefault(
                        self.signature(record), len(self._code_by_signature)
                    )
