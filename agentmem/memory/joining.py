"""Facts that say the same become one: the best known of them stays and gains what the others rest on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agentmem.errors import Conflict, InvalidRecord
from agentmem.memory import MemoryContext
from agentmem.memory.entities import MERGED_INTO_PREFIX
from agentmem.memory.facts import is_current, merge_sources
from agentmem.model.changes import Change, WriteAttempt
from agentmem.model.clock import derive_id
from agentmem.model.records import Edge, Fact, Key, Record, Status
from agentmem.stores import Where

JOURNAL_PAGE_SIZE = 1000
MAX_MERGED_FACTS = 1000  # facts that become one at once


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


def same_fact_review_id(user_id: str, first: str, second: str) -> str:
    """The id of the review that asks whether two facts say the same, in whichever order they are named."""
    return derive_id(user_id, "same_fact", *sorted((first, second)))


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
    """The Change that makes one of these facts; the one that stays comes first.

    What rests on another one, or was stated by it, then does so by the one that stays: it expects that no fact and no
    relation was put since `dependents` was found. InvalidRecord unless they are at least two, hold, and stand in one
    channel.
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
    """The fact that stays, with what the other one rests on; it stands by itself where either does."""
    known = [fact.importance for fact in (keep, other) if fact.importance is not None]
    more = {
        "depends_on": keep.depends_on if other.depends_on else (),
        "stale_since": keep.stale_since and other.stale_since,
        "salience": max(keep.salience, other.salience),
        "importance": max(known, default=None),
        "trust": max(keep.trust, other.trust),
    }
    return merge_sources(keep, other).model_copy(update=more)
