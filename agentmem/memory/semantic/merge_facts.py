"""Facts that are alike: clusters of them, and merging those that say the same.

Single linkage: a fact belongs to a cluster when it is near to one of it. How well a cluster holds together is the mean
cosine of its pairs; that only proposes. Only equal content is merged without a person. Only what changed is
compared with the rest, in blocks, so that memory stays small.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from agentmem.core.changes import Change, WriteAttempt
from agentmem.core.columns import Floats, Ints, RecordColumns
from agentmem.core.record import Key, Record, Status
from agentmem.core.records import Edge, Fact
from agentmem.errors import Conflict, InvalidRecord
from agentmem.memory.context import MemoryContext
from agentmem.memory.semantic.entities import MERGED_INTO_PREFIX
from agentmem.memory.semantic.equal_claims import content_signature, contrast_signature
from agentmem.memory.semantic.facts import is_current, merge_sources
from agentmem.settings.sections import ClusterOptions
from agentmem.stores.values import Where
from agentmem.text.tokenizer import is_reordering

JOURNAL_PAGE_SIZE = 1000
MAX_MERGED_FACTS = 1000  # facts that become one at once

FactSignature = Callable[[Fact], Hashable]
MERGE, ASK, KEEP_APART = "merge", "ask", "keep_apart"
BLOCK_SIZE = 256  # facts compared with all others at once
READ_BATCH_SIZE = 1000
MAX_WORD_ORDER_FACTS = 50  # facts of one cluster whose words are compared in their order


@dataclass(slots=True)
class Dependents:
    """Which facts rest on a fact as their premise, and which relations it states: ids by the fact's id.

    `head` is the journal position as of which none is missing; some may have leaned there only before.
    """

    head: int
    facts: dict[str, list[str]] = field(default_factory=dict)
    edges: dict[str, list[str]] = field(default_factory=dict)

    def add(self, record: Record) -> None:
        """Note what a record leans on."""
        if isinstance(record, Fact):
            for premise in record.depends_on:
                self.facts.setdefault(premise, []).append(record.id)
        elif isinstance(record, Edge) and record.fact_id:
            self.edges.setdefault(record.fact_id, []).append(record.id)


def sort_by_quality(facts: Sequence[Fact]) -> list[Fact]:
    """The fact that stays comes first: kept for long before fading, then the surest, then the oldest."""
    return sorted(facts, key=lambda fact: (fact.tier != "long", -fact.confidence, fact.recorded_at, fact.id))


async def read_dependents(context: MemoryContext, known: Dependents | None = None) -> Dependents:
    """What leans on facts now, in any channel of the user; what was found before is brought up to date."""
    log, scope = context.engine.log, context.scope
    if known is None:
        known = Dependents((await log.head(scope)).seq)
        async for page in context.iter_pages(Where(kinds=("Fact", "Edge"))):
            for record in page:
                known.add(record)
    while entries := await log.changes(scope, known.head, JOURNAL_PAGE_SIZE):
        for stored in (put for entry in entries for put in entry.upserts):
            known.add(stored.record)
        known.head = entries[-1].seq
    return known


async def build_merge_change(
    context: MemoryContext, write: WriteAttempt, ids: Sequence[str], dependents: Dependents
) -> Change:
    """The Change that merges these facts; the one that stays comes first.

    Records that depend on another one then depend on the one that stays: it expects no new fact or relation since
    `dependents` was found. InvalidRecord unless they are at least two, hold, and share one channel.
    """
    facts = await _get_mergeable_facts(context, write, ids)
    keep, *others = sort_by_quality(facts)
    joined = keep
    for other in others:
        joined = _merge_pair(joined, other)
    gone = {"status": Status.SUPERSEDED, "superseded_at": write.now, "superseded_by": keep.id}
    gone["reason"] = f"{MERGED_INTO_PREFIX}{keep.id}"
    names = {other.id: keep.id for other in others}
    ground = tuple(name for name in joined.depends_on if name not in names and name != keep.id)
    joined = joined.model_copy(update={"depends_on": ground})
    moved = await _repoint_dependents(context, names, dependents)
    puts: dict[Key, Record] = {joined.key: joined}
    puts |= {other.key: other.model_copy(update=gone) for other in others}
    puts |= {new.key: new for new in moved.values() if new.key not in puts}
    expects = {record.key: record.seq for record in (*facts, *moved.values())}
    return write.build_change(
        *puts.values(), expected_versions=expects, no_new_since={"Fact": dependents.head, "Edge": dependents.head}
    )


async def _get_mergeable_facts(context: MemoryContext, write: WriteAttempt, ids: Sequence[str]) -> list[Fact]:
    wanted = list(dict.fromkeys(ids))
    if not 2 <= len(wanted) <= MAX_MERGED_FACTS:
        raise InvalidRecord(f"cluster must name 2 to {MAX_MERGED_FACTS:,} facts, got {len(wanted)}", field="cluster")
    await context.require_existing("cluster", "Fact", wanted)
    found = [
        record
        for record in await context.engine.log.read_records("Fact", wanted, context.scope)
        if isinstance(record, Fact)
    ]
    if len(found) != len(wanted):
        raise Conflict("cluster: one of the facts was erased while it was read", stale=True)
    slots = {fact.identity() if fact.slot else "" for fact in found}
    if len(slots) > 1:
        raise InvalidRecord("cluster: facts that say something else of a slot are not merged", field="cluster")
    for fact in found:
        if not is_current(fact, write.now):
            raise InvalidRecord(f"cluster: fact {fact.id!r} does not hold any more", field="cluster")
        if fact.channel != found[0].channel:
            raise InvalidRecord(
                f"cluster: facts of one channel are merged, got {found[0].channel!r} and {fact.channel!r}",
                field="cluster",
            )
    return found


async def _repoint_dependents(
    context: MemoryContext, replacements: Mapping[str, str], dependents: Dependents
) -> dict[Key, Record]:
    """What leans on facts that go, leaning on the one that stays; `replacements` gives that for each."""
    log, scope = context.engine.log, context.scope
    facts = dict.fromkeys(name for old in replacements for name in dependents.facts.get(old, ()))
    edges = dict.fromkeys(name for old in replacements for name in dependents.edges.get(old, ()))
    out: dict[Key, Record] = {}
    for record in (
        *await log.read_records("Fact", list(facts), scope),
        *await log.read_records("Edge", list(edges), scope),
    ):
        if isinstance(record, Fact) and record.id not in replacements and record.id not in replacements.values():
            ground = dict.fromkeys(replacements.get(name, name) for name in record.depends_on)
            out[record.key] = record.model_copy(update={"depends_on": tuple(ground)})
        elif isinstance(record, Edge) and (stays := replacements.get(record.fact_id or "")):
            out[record.key] = record.model_copy(update={"fact_id": stays})
    return out


def _merge_pair(keep: Fact, other: Fact) -> Fact:
    """The fact that stays, with the sources of the other one; independent where either is."""
    known = [fact.importance for fact in (keep, other) if fact.importance is not None]
    more = {
        "depends_on": keep.depends_on if other.depends_on else (),
        "stale_since": keep.stale_since and other.stale_since,
        "salience": max(keep.salience, other.salience),
        "importance": max(known, default=None),
        "trust": max(keep.trust, other.trust),
    }
    return merge_sources(keep, other).model_copy(update=more)


@dataclass(frozen=True, slots=True)
class Cluster:
    """Facts that are alike, the one that would stay first; `cohesion` is the mean cosine of their pairs.

    `action` is a proposal by cohesion: merge, ask or keep_apart. Where `is_equal`, all say the same, and the job
    merges them.
    """

    facts: tuple[Fact, ...]
    cohesion: float
    action: str
    is_equal: bool


async def find_clusters(
    context: MemoryContext, channel: str, signature: FactSignature = contrast_signature, *, after_seq: int = 0
) -> list[Cluster]:
    """The clusters of one channel's current facts that hold one written after a journal position, closest first.

    Facts are linked only where their signature is the same. Facts without a vector are left out.
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
    facts = sort_by_quality([links.facts[place] for place in members.tolist()])
    near = cohesion(links.matrix[members])
    is_equal = len(set(map(content_signature, facts))) == 1
    action = MERGE if is_equal or near >= options.merge else ASK if near >= options.ask else KEEP_APART
    pairs = combinations(facts[:MAX_WORD_ORDER_FACTS], 2)
    if action == MERGE and not is_equal and any(is_reordering(one.claim, other.claim) for one, other in pairs):
        action = ASK  # "the dog bit the man" is near to "the man bit the dog" by any cosine
    return Cluster(tuple(facts), near, action, is_equal)


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
    signature: FactSignature
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
