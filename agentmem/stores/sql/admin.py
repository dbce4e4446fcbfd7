"""The upkeep face of a relational store: what a file and a server do alike; see `agentmem.stores.admin`."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from agentmem.core.clock import from_micros
from agentmem.core.record import Key
from agentmem.core.scope import SYSTEM_USER, Operator, Scope
from agentmem.stores import raw_import
from agentmem.stores.admin import JournalCounters, ProjectionLag, RawChange, RawUsage
from agentmem.stores.sql import restore, terms
from agentmem.stores.sql.connection import Row, SqlConnection, SqlDatabase
from agentmem.stores.sql.log import MAINTENANCE_OPERATOR, MAINTENANCE_SECONDS
from agentmem.stores.sql.write import RowWriter
from agentmem.stores.vectors.search import projection_name

D = TypeVar("D", bound=SqlDatabase)
INDEX_BATCH_SIZE = 1000
SWITCH_SECONDS = 3.0  # all writers wait for a switch


class SqlAdmin(ABC, Generic[D]):
    """The part of a StoreAdmin that both relational stores share."""

    rows: ClassVar[RowWriter]

    def __init__(self, database: D) -> None:
        self._database = database

    async def journal_counters(self, scope: Scope) -> JournalCounters:
        return await self._database.query(scope, lambda db: restore.journal_counters(db, scope.user_id))

    async def raw_changes(self, scope: Scope, after_seq: int, limit: int) -> list[RawChange]:
        return await self._database.query(scope, lambda db: restore.raw_changes(db, scope.user_id, after_seq, limit))

    async def raw_usage(self, scope: Scope, after: tuple[str, str], limit: int) -> list[RawUsage]:
        return await self._database.query(scope, lambda db: restore.raw_usage(db, scope.user_id, after, limit))

    async def import_changes(self, scope: Scope, changes: Sequence[RawChange]) -> None:
        if not changes:
            return
        segment = raw_import.JournalSegment(scope.user_id, changes)
        await asyncio.to_thread(segment.parse)
        self._check_text(changes)
        await self._database.commit(
            scope,
            lambda db: restore.import_segment(db, segment, self.rows),
            timeout_seconds=MAINTENANCE_SECONDS,
        )

    def _check_text(self, changes: Sequence[RawChange]) -> None:
        """Raise InvalidRecord for ids and names that this store cannot hold."""

    async def import_usage(self, scope: Scope, rows: Sequence[RawUsage]) -> None:
        await self._database.commit(
            scope, lambda db: restore.import_usage(db, scope.user_id, rows), timeout_seconds=MAINTENANCE_SECONDS
        )

    async def set_counters(self, scope: Scope, counters: JournalCounters) -> None:
        await self._database.commit(scope, lambda db: restore.set_counters(db, scope.user_id, counters))

    async def rebuild_terms(self, scope: Scope) -> int:
        user_id = scope.user_id

        async def read(db: SqlConnection, after: int) -> tuple[JournalCounters, list[Row]]:
            return await restore.journal_counters(db, user_id), await db.rows(
                "admin.last_images", user_id=user_id, after=after
            )

        async def write(db: SqlConnection) -> int | None:
            # Texts were read while nothing was locked; only what was written since is read now.
            await db.lock_user(user_id)
            now, since = await read(db, before.head)
            if now.erasures != before.erasures:
                return None
            rows = raw_import.build_index_rows({**counts, **raw_import.term_counts(user_id, since)})
            await terms.erase_user(db, user_id)
            for start in range(0, len(rows), INDEX_BATCH_SIZE):
                await terms.write(db, user_id, rows[start : start + INDEX_BATCH_SIZE])
            return len(rows)

        while True:  # again when something was erased meanwhile
            before, images = await self._database.query(
                scope, lambda db: read(db, 0), timeout_seconds=MAINTENANCE_SECONDS
            )
            if before == restore.NO_JOURNAL:
                return 0
            counts = await asyncio.to_thread(raw_import.term_counts, user_id, images)
            done = await self._database.commit(scope, write, timeout_seconds=MAINTENANCE_SECONDS)
            if done is not None:
                return done

    async def requeue_dead_letters(self, projection: str, scope: Scope) -> int:
        values = {"projection": projection, "user_id": scope.user_id}
        return await self._database.commit(scope, lambda db: db.change("admin.drop_dead_letters", **values))

    async def lagging_projections(
        self, projections: Collection[str], operator: Operator, limit: int = 100
    ) -> list[ProjectionLag]:
        asked = {"projections": list(projections), "limit": limit}
        found = await self._database.query(operator, lambda db: db.rows("admin.lagging_projections", **asked))
        return [ProjectionLag(*row) for row in found]

    async def heads(
        self, operator: Operator, users: Collection[str] | None = None, *, after: str = "", limit: int = 1000
    ) -> dict[str, int]:
        statement = "admin.heads" if users is None else "admin.heads_of"
        asked = {"users": list(users or ()), "after": after, "limit": limit}
        return dict(await self._database.query(operator, lambda db: db.rows(statement, **asked)))

    async def operations_at(self, operator: Operator, seqs: Mapping[str, int]) -> dict[str, str]:
        asked = {"users": list(seqs), "seqs": list(seqs.values())}
        return dict(await self._database.query(operator, lambda db: db.rows("admin.operations_at", **asked)))

    async def tombstones(self, scope: Scope, after: Key = ("", ""), limit: int = 1000) -> dict[Key, datetime]:
        asked = {"user_id": scope.user_id, "kind": after[0], "id": after[1], "limit": limit}
        found = await self._database.query(scope, lambda db: db.rows("admin.tombstones", **asked))
        return {(kind, name): from_micros(at) for kind, name, at in found}

    async def start_embedder(self, identity: str) -> None:
        values = {"name": "embedder_next", "value": identity}
        await self._database.commit(SYSTEM_USER, lambda db: db.run("admin.set_meta", **values))

    async def switch_embedder(self, identity: str, max_lag: int = 0) -> bool:
        async def lags(db: SqlConnection) -> bool:
            return int(await db.value("admin.total_lag", projection=projection_name(identity))) > max_lag

        async def write(db: SqlConnection) -> bool:
            ((served, building),) = await db.rows("admin.embedders_in_use")
            if raw_import.is_switch_done(identity, served or "", building or ""):
                return True
            if await lags(db):  # asked once more below: no writer is kept waiting for a switch that cannot be
                return False
            await db.run("admin.block_writes")
            if await lags(db):
                return False
            await db.run("admin.set_meta", name="embedder", value=identity)
            await db.run("admin.drop_meta", name="embedder_next")
            return True

        return await self._database.commit(MAINTENANCE_OPERATOR, write, timeout_seconds=SWITCH_SECONDS)

    async def counts(self, scope: Scope) -> Mapping[str, Mapping[str, int]]:
        return await self._database.query(scope, lambda db: _counts(db, scope.user_id))

    # -- what each dialect adds; see StoreAdmin

    @abstractmethod
    async def drop_embedders(self, keep: Collection[str]) -> list[str]: ...

    @abstractmethod
    async def sizes(self) -> dict[str, int]: ...

    @abstractmethod
    async def compact(self) -> bool: ...

    @abstractmethod
    async def copy_to(self, path: Path) -> None: ...


async def _counts(db: SqlConnection, user_id: str) -> dict[str, dict[str, Any]]:
    names = "kind", "status", "channel"
    found = await db.rows_of(*(f"admin.by_{name}" for name in names), user_id=user_id)
    out: dict[str, dict[str, Any]] = dict(zip(names, map(dict, found), strict=True))
    for name in ("journal", "words"):
        (row,) = await db.dicts(f"admin.{name}", user_id=user_id)
        out[name] = {column: int(value) for column, value in row.items()}
    out["passages"] = {}
    for identity, number, size in await db.rows("admin.embedders"):
        text = db.text("admin.passages").replace("{dimensions}", str(size))
        ((counted,),) = await db.select(text, {"user_id": user_id, "number": number})
        out["passages"][identity] = int(counted)
    return out
