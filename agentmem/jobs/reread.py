"""Turns that a worse reader read are read again: what it wrote is taken back where nobody touched it since."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from agentmem.core.changes import Change, WriteAttempt
from agentmem.core.clock import to_utc
from agentmem.core.record import Key
from agentmem.core.records import Fact, Gloss
from agentmem.core.scope import Scope, channel_scope
from agentmem.engine.engine import Engine
from agentmem.errors import Conflict, InvalidRecord, NotFound
from agentmem.jobs.job import Reread, read_all
from agentmem.memory.context import MemoryContext
from agentmem.memory.history import History, strip_log_fields

OPERATION = "consolidate"


def build_reread(*, reread: bool, by: str = "", since: datetime | None = None) -> Reread | None:
    """The choice of turns; None for no rereading. Raises InvalidRecord for a choice without rereading."""
    if not reread and (by or since is not None):
        raise InvalidRecord("by and since choose what is read again: they go with reread", field="reread")
    return Reread(by.strip(), None if since is None else to_utc(since, "since")) if reread else None


async def find_rereadable(engine: Engine, scope: Scope, reread: Reread, current: str) -> list[Gloss]:
    """The glosses of the turns that are to be read again, those written last first."""
    found = [gloss for gloss in await read_all(engine, scope, Gloss) if reread.takes(gloss, current)]
    return sorted(found, key=lambda gloss: -gloss.seq)


async def release_turns(engine: Engine, scope: Scope, glosses: Sequence[Gloss]) -> int:
    """Make the turns of these glosses unread, with what else was read of them; how many there are.

    A window is undone as a whole where nothing of it changed since. Elsewhere its glosses go, and the facts that stand
    as they were written and that nothing leads to.
    """
    windows: dict[tuple[str, str], list[Gloss]] = {}
    for gloss in glosses:
        windows.setdefault((gloss.operation_id, gloss.channel), []).append(gloss)
    for (operation_id, channel), some in windows.items():
        context = MemoryContext(engine, channel_scope(scope.user_id, channel))
        entries = await engine.log.operation(operation_id, context.scope)
        try:
            if not entries or entries[0].operation != OPERATION:
                raise NotFound("something else wrote these glosses")
            await History(context).undo(operation_id)
        except (Conflict, NotFound):
            await _take_back(context, operation_id, some)
    return len(glosses)


async def _take_back(context: MemoryContext, operation_id: str, glosses: Sequence[Gloss]) -> None:
    """Delete the glosses and what nobody touched of the facts that an operation added."""
    log, scope = context.engine.log, context.scope

    async def build(write: WriteAttempt) -> Change:
        facts = await _find_untouched_facts(context, operation_id)
        stand = {record.key: record.seq for record in await log.read_records("Gloss", [g.id for g in glosses], scope)}
        return write.build_change(deletes=(*stand, *facts), expected_versions={**stand, **facts})

    await context.engine.write(scope, OPERATION, build, kind="Gloss", details={"reread": len(glosses)})


async def _find_untouched_facts(context: MemoryContext, operation_id: str) -> dict[Key, int]:
    """The facts that an operation added, stand as it left them and took nobody's place, with their versions."""
    log, scope = context.engine.log, context.scope
    entries = await log.operation(operation_id, scope)
    if not entries or entries[0].operation != OPERATION:
        return {}
    put = {each.record.key: each.record for entry in entries for each in entry.upserts}
    before = await log.snapshot_at(list(put), scope, entries[0].seq - 1)
    now = await log.snapshot_at(list(put), scope, (await log.head(scope)).seq)
    leading = {record.superseded_by for record in (*put.values(), *now.values()) if isinstance(record, Fact)}
    return {
        key: now[key].seq
        for key, record in put.items()
        if isinstance(record, Fact)
        and key not in before
        and record.id not in leading
        and key in now
        and strip_log_fields(now[key]) == strip_log_fields(record)
    }
