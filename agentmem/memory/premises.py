"""Reads the premises of facts, with every record that may carry the same belief."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from agentmem.core.record import Record
from agentmem.core.records import Fact, slot_prefix
from agentmem.core.scope import Scope
from agentmem.core.truth_maintenance import ReadFacts, read_premises
from agentmem.stores.protocols import RecordReader
from agentmem.stores.values import Where

MAX_ALIKE = 200  # records of one belief that are looked at
MAX_SUCCESSORS = 50  # of a fact, one replacing the other


async def read_grounds(
    facts: Iterable[Fact],
    log: RecordReader,
    scope: Scope,
    channels: tuple[str, ...] | None,
    read_facts: ReadFacts | None = None,
) -> dict[str, Fact]:
    """Facts by id with all that they rest on, and the other records of these beliefs in some channels (all when None).

    `read_facts` reads facts by id where a caller sees other versions than the newest ones.
    """

    async def read(ids: Sequence[str]) -> Sequence[Record]:
        return await log.read_records("Fact", ids, scope)

    reader = read_facts or read

    async def find_alike(premises: Sequence[Fact]) -> Sequence[Fact]:
        ended = [fact for fact in premises if fact.valid_to is not None or fact.superseded_at is not None]
        prefixes = {slot_prefix(fact.subject, fact.slot) if fact.slot else fact.claim_hash for fact in ended} - {""}
        finds = [
            log.find(scope, Where(kinds=("Fact",), channels=channels, dedup_prefix=prefix), limit=MAX_ALIKE)
            for prefix in sorted(prefixes)
        ]
        found = [record for page in await asyncio.gather(*finds) for record in page]
        if read_facts is not None:  # the versions that the caller sees, in place of the newest ones
            found = list(await read_facts([record.id for record in found]))
        found += await _follow_successors(ended, reader)
        return [fact for fact in found if isinstance(fact, Fact)]

    return await read_premises(facts, reader, find_alike)


async def _follow_successors(facts: Sequence[Fact], read_facts: ReadFacts) -> list[Record]:
    """What took the place of these, one after the other: a value may have come back."""
    seen, found = {fact.id for fact in facts}, list[Record]()
    wanted = [fact.superseded_by for fact in facts if fact.superseded_by]
    while (fresh := [name for name in dict.fromkeys(wanted) if name not in seen]) and len(found) < MAX_SUCCESSORS:
        seen.update(fresh)
        page = await read_facts(fresh)
        found += page
        wanted = [fact.superseded_by for fact in page if isinstance(fact, Fact) and fact.superseded_by]
    return found
