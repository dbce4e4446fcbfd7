"""Communities as the job `communities` stored them: when they still hold, and how they are written and retired."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from contextlib import suppress
from datetime import datetime
from hashlib import blake2b

import numpy as np

from agentmem.core.changes import Change, JournalEntry, WriteAttempt
from agentmem.core.clock import derive_id
from agentmem.core.columns import RecordColumns
from agentmem.core.graph_records import Community
from agentmem.core.record import Key, Status
from agentmem.core.records import build_record
from agentmem.errors import Conflict
from agentmem.memory.context import MemoryContext
from agentmem.memory.graph.analysis import RankedIds
from agentmem.stores.values import Where

KIND, OPERATION = "Community", "communities"
BASIS_KINDS = ("Entity", "Edge", "Fact", "Turn")  # kinds of the records that an analysis reads


async def read_basis(context: MemoryContext) -> tuple[list[str], str]:
    """The channels that hold something of the graph that the scope can read, and a digest of it as of now."""
    columns = await context.engine.read_columns(context.scope)
    now = context.engine.clock.now()
    return await asyncio.to_thread(_compute_basis, columns, context.scope.readable_channels(), now)


def _compute_basis(columns: RecordColumns, channels: Collection[str], now: datetime) -> tuple[list[str], str]:
    ordinals = np.flatnonzero(columns.build_visibility_mask(channels, now=now, kinds=BASIS_KINDS).mask)
    holding = [columns.channels.values[code] for code in np.unique(columns.channel[ordinals]).tolist()]
    rows = np.stack((ordinals, columns.seqs[ordinals]))
    return holding, blake2b(rows.tobytes(), digest_size=32).hexdigest()


async def read_current_communities(context: MemoryContext) -> list[RankedIds] | None:
    """The stored communities of what the scope can read, the largest first; None where they have to be computed.

    They are of one channel each, so they answer a scope that reads one channel with something of the graph.
    """
    columns = await context.engine.read_columns(context.scope)
    if columns.kinds.find_code(KIND) < 0:
        return None
    channels, basis = await read_basis(context)
    if len(channels) != 1:
        return None
    stored = await list_communities(context, channels[0])
    if not is_current(stored, basis):
        return None
    groups = [dict(zip(each.entity_ids, each.scores, strict=True)) for each in stored]
    return sorted(groups, key=lambda group: (-len(group), sorted(group)))


def is_current(stored: Sequence[Community], basis: str) -> bool:
    """Whether these are all communities of a channel, computed from the records that this digest stands for."""
    return bool(stored) and len(stored) == stored[0].total and all(each.basis == basis for each in stored)


async def list_communities(context: MemoryContext, *channels: str) -> list[Community]:
    """The stored communities of these channels, or of all that the scope can read."""
    readable = channels or context.scope.readable_channels()
    where = Where(kinds=(KIND,), channels=readable, status=(Status.ACTIVE,))
    return [record async for page in context.iter_pages(where) for record in page if isinstance(record, Community)]


async def list_community_keys(context: MemoryContext) -> list[Key]:
    """All communities of the user, in every channel, retired ones too."""
    columns = await context.engine.read_columns(context.scope)
    ordinals = np.flatnonzero(columns.kinds.mask_for((KIND,))[columns.kind])
    return [(KIND, columns.ids[ordinal]) for ordinal in ordinals.tolist()]


async def write_communities(
    context: MemoryContext, groups: Sequence[RankedIds], basis: str, *, fence: int
) -> JournalEntry | None:
    """Store the communities of the scope's one channel in place of those before; None when `basis` has changed."""
    user_id, channel = context.scope.user_id, context.scope.channel
    named = {derive_id(user_id, OPERATION, channel, str(place)): group for place, group in enumerate(groups)}
    new = [
        build_record(
            Community,
            id=name,
            channel=channel,
            entity_ids=tuple(group),
            scores=tuple(group.values()),
            total=len(named),
            basis=basis,
        )
        for name, group in named.items()
    ]

    async def put(write: WriteAttempt) -> Change | None:
        columns = await context.engine.read_columns(context.scope)
        if (await read_basis(context))[1] != basis:
            return None
        over = [each for each in await list_communities(context, channel) if each.id not in named]
        keys = [each.key for each in (*new, *over)] + [("Entity", name) for group in groups for name in group]
        at = {key: columns.ordinals_by_key.get(key) for key in keys}
        seen = {
            key: None if place is None or columns.kind[place] < 0 else int(columns.seqs[place])
            for key, place in at.items()
        }
        retired = _retire(over, write.now)
        return write.build_change(*new, *retired, expected_versions=seen) if new or retired else None

    return await context.engine.write(context.scope, OPERATION, put, kind=KIND, fence=fence)


async def retire_communities_of(context: MemoryContext, entity_ids: Collection[str]) -> None:
    """Retire the stored communities with one of these entities, which were forgotten or merged away.

    In an operation of its own: what the job writes later must not stand in the way of undoing the first one.
    """

    async def put(write: WriteAttempt) -> Change | None:
        held = [each for each in await list_communities(context) if not set(each.entity_ids).isdisjoint(entity_ids)]
        expected = {each.key: each.seq for each in held}
        return write.build_change(*_retire(held, write.now), expected_versions=expected) if held else None

    if entity_ids:
        with suppress(Conflict):  # the job is at it, and the first operation is done
            await context.engine.write(context.scope, OPERATION, put, kind=KIND)


def _retire(communities: Sequence[Community], now: datetime) -> list[Community]:
    gone = {"status": Status.SUPERSEDED, "superseded_at": now}
    return [each.model_copy(update=gone) for each in communities]
