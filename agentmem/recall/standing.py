"""Marks the facts of a recall whose premises fell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from agentmem.model.premises import find_stale, invalid_since, read_premises
from agentmem.model.records import Fact, Record
from agentmem.recall.technique import SearchContext
from agentmem.stores import Where

HIDDEN_PREMISE_TEXT = "something that is not visible from here"


async def annotate_stale(records: Mapping[int, Record], context: SearchContext) -> dict[int, Record]:
    """The same records by slot; a stale fact says since when, and which premise fell.

    Reads only where a fact names premises: these level by level, and whether what they claimed is known anew.
    """
    facts = [record for record in records.values() if isinstance(record, Fact) and record.depends_on]
    if not facts:
        return dict(records)

    async def read(ids: Sequence[str]) -> Sequence[Record]:
        ordinals = [
            context.columns.ordinals_by_key[key]
            for name in ids
            if (key := ("Fact", name)) in context.columns.ordinals_by_key
        ]
        return await context.read(ordinals)

    known = await read_premises(facts, read)
    found = find_stale(known, context.now, await _find_reasserted(known.values(), context))
    readable = context.scope.readable_channels()
    out = dict(records)
    for ordinal, record in records.items():
        if isinstance(record, Fact) and (why := found.get(record.id)) is not None:
            premise = why.premise.claim if why.premise.channel in readable else HIDDEN_PREMISE_TEXT
            out[ordinal] = record.model_copy(update={"stale_since": why.invalid_since, "fallen_premise": premise})
    return out


async def _find_reasserted(facts: Iterable[Fact], context: SearchContext) -> set[str]:
    """The facts that ended and whose claim holds nevertheless, because it was learned again."""
    gone = {fact.id: fact for fact in facts if fact.claim_hash and invalid_since(fact, context.now) is not None}
    if not gone:
        return set()
    hashes = tuple({fact.claim_hash for fact in gone.values()})
    where = Where(kinds=("Fact",), channels=context.scope.readable_channels(), dedup_keys=hashes)
    again = await context.log.find(context.scope, where, limit=len(hashes) * len(context.scope.readable_channels()))
    newest = context.columns.seq if context.through_seq is None else context.through_seq
    held = {
        fact.claim_hash
        for fact in again
        if isinstance(fact, Fact) and fact.seq <= newest and invalid_since(fact, context.now) is None
    }
    return {name for name, fact in gone.items() if fact.claim_hash in held}
