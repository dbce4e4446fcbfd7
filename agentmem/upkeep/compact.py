"""Gives unused space back: folds the word tails, drops audit days past retention, rewrites the file, cuts its log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agentmem.resources import Engine


@dataclass(frozen=True, slots=True)
class CompactReport:
    """Bytes on disk before and after; rows folded and dropped. `pending`: a reader kept the log from being cut."""

    bytes_before: int
    bytes_after: int
    rows: Mapping[str, int]
    pending: bool = False


async def compact(engine: Engine) -> CompactReport:
    """Compact the store while it is in use. Needs as much free space as the store itself takes.

    Raises StoreUnavailable when there is no room, or when another process writes for more than 10 s.
    """
    engine.check_open()
    store = engine.admin
    before = await store.sizes()
    rows = await engine.log.maintain(engine.clock.now(), engine.settings.audit_days)
    cut = await store.compact()
    after = await store.sizes()
    return CompactReport(_sum_bytes(before), _sum_bytes(after), rows, pending=not cut)


def _sum_bytes(sizes: Mapping[str, int]) -> int:
    return sizes["store"] + sizes["write_ahead_log"]
