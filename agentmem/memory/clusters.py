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

from agentmem.memory import Seat
from agentmem.memory.joining import best_first
from agentmem.model.outline import Floats, Ints, Outline
from agentmem.model.records import Fact
from agentmem.settings_parts import ClusterOptions
from agentmem.text.words import reordered

Sign = Callable[[Fact], Hashable]
MERGE, REVIEW, APART = "merge", "review", "keep_apart"
BLOCK = 256  # facts compared with all others at once
READ = 1000
MOST = 50  # facts of one cluster whose words are compared in their order


@dataclass(frozen=True, slots=True)
class Cluster:
    """Facts that may say the same, the one that would stay first; `cohesion` is the mean cosine of their pairs.

    `action` says what the job does with it: merge, review (a person is asked), or keep_apart.
    """

    facts: tuple[Fact, ...]
    cohesion: float
    action: str


async def find_clusters(seat: Seat, channel: str, sign: Sign, *, after: int = 0) -> list[Cluster]:
    """The clusters of one channel's current facts that hold one written after a journal position, closest first.

    Facts are linked only where `sign` says the same of both. Facts without a vector are left out.
    """
    resources, scope = seat.resources, seat.scope
    options = resources.settings.clusters
    outline = await resources.outline(scope)
    view = outline.view((channel,), now=await resources.now(scope), kinds=("Fact",))
    slots = np.flatnonzero(view.mask)
    if len(slots) < 2 or not (outline.seqs[slots] > after).any():
        return []
    vectors = await resources.vectors[0].index.whole(slots.tolist(), scope)
    known = np.array(sorted(vectors), dtype=np.int64)
    if len(known) < 2:
        return []
    matrix = np.stack([vectors[slot] for slot in known.tolist()]).astype(np.float32)
    links = _Links(seat, outline, sign, known, matrix, options.link)
    await links.follow(np.flatnonzero(outline.seqs[known] > after))
    found = [_cluster(links, members, options) for members in links.groups()]
    return sorted(found, key=lambda cluster: (-cluster.cohesion, cluster.facts[0].id))


def _cluster(links: _Links, members: Ints, options: ClusterOptions) -> Cluster:
    close = cohesion(links.matrix[members])
    facts = best_first([links.facts[place] for place in members.tolist()])
    action = MERGE if close >= options.merge else REVIEW if close >= options.review else APART
    if action == MERGE and any(reordered(one.claim, other.claim) for one, other in combinations(facts[:MOST], 2)):
        action = REVIEW
    return Cluster(tuple(facts), close, action)


def cohesion(vectors: Floats) -> float:
    """The mean cosine of all pairs among unit vectors, shape (members, dimensions); rounded to 1e-4."""
    many = vectors.astype(np.float64)
    total, own = many.sum(axis=0), float((many * many).sum())
    return min(1.0, round((float(total @ total) - own) / (len(many) * (len(many) - 1)), 4))


@dataclass(slots=True, eq=False)
class _Links:
    """Who belongs together: `label` is the same for the members of a cluster."""

    seat: Seat
    outline: Outline
    sign: Sign
    slots: Ints
    matrix: Floats
    link: float
    facts: dict[int, Fact] = field(default_factory=dict)  # by place in the matrix, of those that are near another
    label: Ints = field(init=False)
    codes: NDArray[np.int64] = field(init=False)  # of what `sign` says; -1 where it was not asked, -2 where unreadable
    _seen: dict[Hashable, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.label = np.arange(len(self.slots))
        self.codes = np.full(len(self.slots), -1, dtype=np.int64)

    async def follow(self, places: Ints) -> None:
        """Link these with all others, and what they are linked with, until nothing is added."""
        asked = np.zeros(len(self.slots), dtype=np.bool_)
        waiting = [int(place) for place in places]
        asked[waiting] = True
        while waiting:
            block, waiting = np.array(waiting[:BLOCK]), waiting[BLOCK:]
            near = await asyncio.to_thread(self._near, block)
            await self._read(np.flatnonzero(near.any(axis=0)))
            linked = await asyncio.to_thread(self._join, block, near)
            fresh = linked[~asked[linked]]
            asked[fresh] = True
            waiting += fresh.tolist()

    def groups(self) -> list[Ints]:
        """The places of each cluster of at least two."""
        order = np.argsort(self.label, kind="stable")
        cuts = np.flatnonzero(np.diff(self.label[order])) + 1
        return [group for group in np.split(order, cuts) if len(group) > 1]

    def _near(self, block: Ints) -> NDArray[np.bool_]:
        """Which facts are near to those of a block, shape (block, all); a fact alone is near to nothing."""
        near: NDArray[np.bool_] = np.round(self.matrix[block] @ self.matrix.T, 4) > self.link
        near[np.arange(len(block)), block] = False
        near[np.arange(len(block)), block] = near.any(axis=1)
        return near

    def _join(self, block: Ints, near: NDArray[np.bool_]) -> Ints:
        """Give those that are near and agree one label; returns the places that were linked."""
        linked = np.zeros(len(self.slots), dtype=np.bool_)
        for row, place in enumerate(block.tolist()):
            if self.codes[place] < 0:
                continue
            members = np.flatnonzero(near[row] & (self.codes == self.codes[place]))
            linked[members] = True
            labels = np.unique(self.label[members])
            if len(labels) > 1:
                self.label[np.isin(self.label, labels)] = labels[0]
        return np.flatnonzero(linked)

    async def _read(self, places: Ints) -> None:
        fresh = places[self.codes[places] == -1]
        by_slot: dict[int, int] = {int(self.slots[place]): int(place) for place in fresh}
        wanted: Sequence[int] = list(by_slot)
        self.codes[fresh] = -2
        for start in range(0, len(wanted), READ):
            for record in await self.seat.resources.log.by_slot(wanted[start : start + READ], self.seat.scope):
                if isinstance(record, Fact):
                    place = by_slot[self.outline.slots[record.key]]
                    self.facts[place] = record
                    self.codes[place] = self._seen.setdefault(self.sign(record), len(self._seen))
