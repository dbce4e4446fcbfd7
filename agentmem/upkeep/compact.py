"""Gives unused space back: folds the word tails, drops audit days past retention, rewrites the file, cuts its log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agentmem.resources import Resources


@dataclass(frozen=True, slots=True)
class CompactReport:
    """Bytes on disk before and after; rows folded and dropped. `pending`: a reader kept the log from being cut."""

    before: int
    after: int
    rows: Mapping[str, int]
    pending: bool = False


async def compact(resources: Resources) -> CompactReport:
    """Compact the store while it is in use. Needs as much free space as the store itself takes.

    Raises StoreUnavailable when there is no room, or when another process writes for more than 10 s.
    """
    resources.check_open()
    store = resources.upkeep
    before = await store.sizes()
    rows = await resources.log.maintain(resources.clock.now(), resources.settings.audit_days)
    cut = await store.compact()
    after = await store.sizes()
    return CompactReport(_on_disk(before), _on_disk(after), rows, pending=not cut)


def _on_disk(sizes: Mapping[str, int]) -> int:
    return sizes["store"] + sizes["write_ahead_log"]
