"""The time zone that a user named: the belief `time_zone`."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, tzinfo

from agentmem.beliefs.slots import USER_SUBJECT
from agentmem.core.clock import EPOCH
from agentmem.core.local_time import LocalTime, read_timezone
from agentmem.core.records import Fact, slot_prefix
from agentmem.core.scope import Scope
from agentmem.core.truth_maintenance import covers
from agentmem.memory.context import MemoryContext
from agentmem.stores.protocols import RecordReader
from agentmem.stores.values import Where

ZONE_SLOT = "time_zone"
MAX_ZONES = 200  # beliefs of the slot that are looked at


async def read_local_time(context: MemoryContext) -> LocalTime:
    """The zone of the settings, else of the user now by what the scope may read."""
    engine, scope = context.engine, context.scope
    if engine.zone is not None:
        return LocalTime(engine.zone)
    channels, now = scope.readable_channels(), await engine.now(scope)
    return LocalTime(None, await read_user_zone(engine.log, scope, channels, now))


async def read_user_zone(
    log: RecordReader, scope: Scope, channels: tuple[str, ...] | None, moment: datetime
) -> tzinfo | None:
    """The zone that the user is in at a moment, by what these channels believe (all when None); None where unknown."""
    where = Where(kinds=("Fact",), channels=channels, dedup_prefix=slot_prefix(USER_SUBJECT, ZONE_SLOT))
    found = await log.find(scope, where, limit=MAX_ZONES)
    return find_user_zone((record for record in found if isinstance(record, Fact)), moment)


def find_user_zone(facts: Iterable[Fact], moment: datetime) -> tzinfo | None:
    """The zone that the last word of these facts names, of those that hold at a moment; None for no known zone."""
    held = [
        fact
        for fact in facts
        if fact.slot == ZONE_SLOT
        and fact.subject == USER_SUBJECT
        and not fact.is_denied
        and fact.temporal_context != "future"
        and covers(fact, moment)
    ]
    held.sort(key=lambda fact: fact.said_at or fact.recorded_at or EPOCH, reverse=True)
    return next((zone for fact in held if (zone := read_timezone(fact.value))), None)
