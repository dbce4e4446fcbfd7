"""Marks the facts of a recall whose premises fell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from agentmem.model.premises import ended, fallen, with_premises
from agentmem.model.records import Fact, Record
from agentmem.recall.technique import Memory
from agentmem.stores import Where

HIDDEN = "something that is not visible from here"


async def marked(records: Mapping[int, Record], memory: Memory) -> dict[int, Record]:
    """The same records by slot; a stale fact says since when, and which premise fell.

    Reads only where a fact names premises: these level by level, and whether what they claimed is known anew.
    """
    facts = [record for record in records.values() if isinstance(record, Fact) and record.depends_on]
    if not facts:
        return dict(records)

    async def read(ids: Sequence[str]) -> Sequence[Record]:
        slots = [memory.outline.slots[key] for name in ids if (key := ("Fact", name)) in memory.outline.slots]
        return await memory.read(slots)

    known = await with_premises(facts, read)
    found = fallen(known, memory.moment, await _renewed(known.values(), memory))
    readable = memory.scope.readable()
    out = dict(records)
    for slot, record in records.items():
        if isinstance(record, Fact) and (why := found.get(record.id)) is not None:
            premise = why.premise.claim if why.premise.channel in readable else HIDDEN
            out[slot] = record.model_copy(update={"stale_since": why.since, "fallen_premise": premise})
    return out


async def _renewed(facts: Iterable[Fact], memory: Memory) -> set[str]:
    """The facts that ended and whose claim holds nevertheless, because it was learned again."""
    gone = {fact.id: fact for fact in facts if fact.claim_hash and ended(fact, memory.moment) is not None}
    if not gone:
        return set()
    hashes = tuple({fact.claim_hash for fact in gone.values()})
    where = Where(kinds=("Fact",), channels=memory.scope.readable(), key=hashes)
    again = await memory.log.find(memory.scope, where, limit=len(hashes) * len(memory.scope.readable()))
    newest = memory.outline.seq if memory.through is None else memory.through
    held = {
        fact.claim_hash
        for fact in again
        if isinstance(fact, Fact) and fact.seq <= newest and ended(fact, memory.moment) is None
    }
    return {name for name, fact in gone.items() if fact.claim_hash in held}
