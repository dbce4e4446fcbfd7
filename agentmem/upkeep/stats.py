"""What there is of a user, in numbers, and what the store takes on disk."""

from __future__ import annotations

from typing import Any

from agentmem.model.clock import from_micros
from agentmem.model.scope import Scope
from agentmem.resources import Engine
from agentmem.stores import Where


async def read_stats(engine: Engine, scope: Scope) -> dict[str, Any]:
    """Counts, sizes in bytes and lag, ready for JSON, always with the same keys in the same order.

    All of the user's channels count. `last_activity` is ISO text, None for a user never seen.
    """
    engine.check_open()
    store = engine.admin
    counts, reach = await store.counts(scope), await store.journal_counters(scope)
    session = engine.settings.session_file
    sizes = await store.sizes()
    building = (await engine.log.meta()).get("embedder_next")
    return {
        "user_id": scope.user_id,
        "records": dict(counts["kind"]),
        "status": dict(counts["status"]),
        "channels": dict(counts["channel"]),
        "conversations": await engine.log.count(scope, Where(kinds=("Conversation",))),
        "journal": dict(counts["journal"]),
        "words": dict(counts["words"]),
        "vectors": dict(counts["passages"]),
        "bytes": {**sizes, "session": session.stat().st_size if session and session.exists() else 0},
        "lag": await engine.lag(scope),
        "embedder": engine.vector_projections[0].embedder.identity,
        "embedder_next": building,
        "store_id": engine.store_id,
        "last_activity": from_micros(reach.last_at).isoformat() if reach.head else None,
    }
