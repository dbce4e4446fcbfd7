"""Erasing again what a restored backup of the log brought back, by a list of what was erased that outlived it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from agentmem.core.record import Key
from agentmem.core.scope import Scope
from agentmem.core.telemetry import WARNING, log_event
from agentmem.engine.engine import Engine
from agentmem.memory.context import MemoryContext
from agentmem.memory.erasure import Erasure


async def repair_after_restore(engine: Engine, scope: Scope) -> int:
    """What comes before the graph of a user is made anew because it followed another journal; see the next one."""
    engine.note_restore(scope.user_id)
    return await erase_again_by_graph(engine, scope)


async def erase_again_by_graph(engine: Engine, scope: Scope) -> int:
    """Make log and graph agree on what was erased, so that a restored backup of the log brings nothing back.

    What the graph knows as erased and the log holds from before then is erased there again, with what rests on it
    alone; returns how many records. Nothing without a graph outside of the log.
    """
    if engine.graph_projection is None:
        return 0
    graph, known = engine.graph_projection.graph, await read_tombstones(engine, scope)
    await graph.mark_erased(scope, known)
    erased, after = 0, None
    while marks := await graph.tombstones(scope, after):
        after = list(marks)[-1]
        erased += await erase_again(engine, scope, marks, known)
    return erased


async def read_tombstones(engine: Engine, scope: Scope) -> dict[Key, datetime]:
    """All records of the user that the log knows as erased, and when each was erased last."""
    known: dict[Key, datetime] = {}
    last = ("", "")
    while page := await engine.admin.tombstones(scope, last):
        last = max(page)
        known |= page
    return known


async def erase_again(
    engine: Engine, scope: Scope, erased_at: Mapping[Key, datetime], known: Mapping[Key, datetime]
) -> int:
    """Erase those of these records that the log holds from before they were erased; returns how many records went.

    `known` are erasures that the log knows of. A record that was stored under the same id since then stays.
    """
    returned = await _find_returned(engine, scope, erased_at, known)
    return len(await _RepeatedErasure(MemoryContext(engine, scope)).erase_keys(returned)) if returned else 0


async def erase_listed(
    engine: Engine,
    scope: Scope,
    erased_at: Mapping[Key, datetime],
    known: Mapping[Key, datetime],
    *,
    dry_run: bool = False,
) -> list[Key]:
    """The same for a list from outside of the stores: also in the graph and the session cache. Returns what went.

    With `dry_run` nothing is erased, and what would go is returned.
    """
    returned = await _find_returned(engine, scope, erased_at, known)
    if not returned:
        return []
    work = _RepeatedErasure(MemoryContext(engine, scope))
    return await (work.list_keys(returned) if dry_run else work.erase_keys(returned, everywhere=True))


async def _find_returned(
    engine: Engine, scope: Scope, erased_at: Mapping[Key, datetime], known: Mapping[Key, datetime]
) -> list[Key]:
    """The records that were erased and that the log holds from before."""
    returned = []
    for key, at in erased_at.items():
        if key in known and known[key] >= at:
            continue
        found = await engine.log.versions(key, scope)
        if found and (found[0].recorded_at or at) <= at:
            returned.append(key)
    return returned


class _RepeatedErasure(Erasure):
    async def list_keys(self, keys: list[Key]) -> list[Key]:
        """These records and what rests on them alone."""
        gone, _ = await self._find_dependents(keys)
        return gone

    async def erase_keys(self, keys: list[Key], *, everywhere: bool = False) -> list[Key]:
        """Erase these records and what rests on them alone.

        Unless `everywhere`, not in the graph, which is made anew, nor in the session cache, which is emptied.
        """
        engine, scope = self._context.engine, self._context.scope
        operation_id, now = engine.ids.new_id(), engine.clock.now()
        gone, scan = await self._erase_with_dependents(keys, operation_id, now, ())
        names = [name for _, name in gone]
        if everywhere:
            await self._clear_caches(names, scan)
        engine.invalidate_user(scope.user_id)
        await self._erase_from_vault(names, scan)
        if everywhere:
            await self._erase_from_graph(gone, scan)
        await engine.sync_projections(scope)
        await self._write_audit("delete", operation_id, names, scan)
        log_event(WARNING, "erased_again", user_id=scope.user_id, records=len(gone))
        return gone
