"""The upkeep face of the embedded store; see `agentmem.stores.admin` for its promises."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import apsw

from agentmem.core.clock import from_micros
from agentmem.core.record import Key
from agentmem.core.scope import Operator, Scope
from agentmem.stores import raw_import
from agentmem.stores.admin import JournalCounters, ProjectionLag, RawChange, RawUsage
from agentmem.stores.raw_import import TermCounts
from agentmem.stores.sqlite import restore, terms, vectors
from agentmem.stores.sqlite.database import Connection, SqliteDatabase, make_private, translate_errors
from agentmem.stores.vectors.search import projection_name
from agentmem.text.templates import load_templates

_SQL = load_templates(__package__, "admin.sql")

INDEX_BATCH_SIZE = 1000


def open_admin(database: SqliteDatabase) -> SqliteAdmin:
    """The upkeep face of an opened file."""
    return SqliteAdmin(database)


class SqliteAdmin:
    """An Upkeep over one file."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database

    async def journal_counters(self, scope: Scope) -> JournalCounters:
        """How far the user's journal goes; all zero for a user never seen."""
        return await self._database.read(lambda db: restore.journal_counters(db, scope.user_id))

    async def raw_changes(self, scope: Scope, after_seq: int, limit: int) -> list[RawChange]:
        """The journal after a position as it is stored."""
        return await self._database.read(lambda db: restore.raw_changes(db, scope.user_id, after_seq, limit))

    async def raw_usage(self, scope: Scope, after: tuple[str, str], limit: int) -> list[RawUsage]:
        """Usage rows after a (kind, id)."""
        return await self._database.read(lambda db: restore.raw_usage(db, scope.user_id, after, limit))

    async def import_changes(self, scope: Scope, changes: Sequence[RawChange]) -> None:
        """Put raw changes back, in one transaction."""
        piece = raw_import.JournalSegment(scope.user_id, changes)
        await self._database.write(lambda db: restore.import_segment(db, piece), prepare=piece.parse)

    async def import_usage(self, scope: Scope, rows: Sequence[RawUsage]) -> None:
        """Put usage rows back as they were."""
        await self._database.write(lambda db: restore.import_usage(db, scope.user_id, rows))

    async def set_counters(self, scope: Scope, counters: JournalCounters) -> None:
        """Set the user's counters; Conflict when the journal ends elsewhere."""
        await self._database.write(lambda db: restore.set_counters(db, scope.user_id, counters))

    async def rebuild_terms(self, scope: Scope) -> int:
        """Make the user's word index again from the last after-image of each record."""
        user_id = scope.user_id
        before, found = await self._database.read(lambda db: _term_counts(db, user_id, 0))

        def write(db: Connection) -> int:
            # Texts were read while the file was not locked; only what was written since is read now.
            still = restore.journal_counters(db, user_id).erasures == before.erasures
            counts = {**(found if still else {}), **_term_counts(db, user_id, before.head if still else 0)[1]}
            terms.erase_user(db, user_id)
            rows = raw_import.build_index_rows(counts)
            for start in range(0, len(rows), INDEX_BATCH_SIZE):
                terms.write(db, user_id, rows[start : start + INDEX_BATCH_SIZE])
            return len(rows)

        return await self._database.write(write)

    async def requeue_dead_letters(self, projection: str, scope: Scope) -> int:
        """Forget which changes of the user were parked."""

        def write(db: Connection) -> int:
            db.execute(_SQL["unpark"], (projection, scope.user_id))
            return db.changes()

        return await self._database.write(write)

    async def lagging_projections(
        self, projections: Collection[str], operator: Operator, limit: int = 100
    ) -> list[ProjectionLag]:
        """Users of whom a projection is not at the head, furthest behind first."""
        asked = (json.dumps(list(projections)), limit)
        rows: Any = await self._database.read(lambda db: db.execute(_SQL["lagging"], asked).fetchall())
        return [ProjectionLag(*row) for row in rows]

    async def heads(
        self, operator: Operator, users: Collection[str] | None = None, *, after: str = "", limit: int = 1000
    ) -> dict[str, int]:
        """The last journal position of these users, or of all, by name."""
        name, asked = ("heads", (after, limit)) if users is None else ("heads_of", (after, limit, json.dumps([*users])))
        rows: Any = await self._database.read(lambda db: db.execute(_SQL[name], asked).fetchall())
        return dict(rows)

    async def tombstones(self, scope: Scope, after: Key = ("", ""), limit: int = 1000) -> dict[Key, datetime]:
        """A page of the user's tombstones, by kind and id."""
        asked = (scope.user_id, *after, limit)
        rows: Any = await self._database.read(lambda db: db.execute(_SQL["erased"], asked).fetchall())
        return {(kind, name): from_micros(at) for kind, name, at in rows}

    async def start_embedder(self, identity: str) -> None:
        """Record which embedder is being built."""

        def write(db: Connection) -> None:
            db.execute(_SQL["set_meta"], ("embedder_next", identity))

        await self._database.write(write)

    async def switch_embedder(self, identity: str, max_lag: int = 0) -> bool:
        """Make an embedder the recorded one, when its vectors are at most `max_lag` changes from complete."""

        def write(db: Connection) -> bool:
            if raw_import.is_switch_done(identity, _meta(db, "embedder"), _meta(db, "embedder_next")):
                return True
            if int(db.execute(_SQL["behind"], (projection_name(identity),)).get) > max_lag:
                return False
            db.execute(_SQL["set_meta"], ("embedder", identity))
            db.execute(_SQL["drop_meta"], ("embedder_next",))
            return True

        return await self._database.write(write)

    async def drop_embedders(self, keep: Collection[str]) -> list[str]:
        """Take out the vectors of every embedder but these; the identities taken out."""

        def write(db: Connection) -> list[str]:
            gone = [identity for identity in vectors.list_embedders(db) if identity not in keep]
            for identity in gone:
                vectors.drop(db, identity)
                db.execute(_SQL["drop_marks"], (projection_name(identity),))
                db.execute(_SQL["drop_parked"], (projection_name(identity),))
            return gone

        return await self._database.write(write)

    async def counts(self, scope: Scope) -> Mapping[str, Mapping[str, int]]:
        """How many of what the user has."""
        return await self._database.read(lambda db: _counts(db, scope.user_id))

    async def sizes(self) -> dict[str, int]:
        """Bytes of the file and its write-ahead log, and how many of them are unused."""

        def read(db: Connection) -> dict[str, int]:
            page = int(db.pragma("page_size"))
            wal = self._database.path.with_name(self._database.path.name + "-wal")
            return {
                "store": page * int(db.pragma("page_count")),
                "unused": page * int(db.pragma("freelist_count")),
                "write_ahead_log": wal.stat().st_size if wal.exists() else 0,
            }

        return await self._database.read(read)

    async def compact(self) -> bool:
        """Rewrite the file without unused pages and cut the write-ahead log."""
        await self._database.rewrite()
        return await self._database.truncate_wal()

    async def copy_to(self, path: Path) -> None:
        """Copy the whole file page by page; the copy is readable by its owner only."""

        def read(db: Connection) -> None:
            with translate_errors(path):
                copy = apsw.Connection(str(path))
                try:
                    make_private(path)
                    with copy.backup("main", db, "main") as work:
                        work.step()
                finally:
                    copy.close()

        await self._database.read(read)


def _term_counts(db: Connection, user_id: str, after_seq: int) -> tuple[JournalCounters, dict[int, TermCounts | None]]:
    """How far the journal goes, and the term counts (None: no text) of ordinals whose last after-image came since."""
    rows: Any = db.execute(_SQL["last_images"], (user_id, after_seq))
    return restore.journal_counters(db, user_id), raw_import.term_counts(user_id, rows)


def _meta(db: Connection, name: str) -> str:
    row = db.execute(_SQL["meta"], (name,)).fetchone()
    return str(row[0]) if row else ""


def _counts(db: Connection, user_id: str) -> dict[str, dict[str, int]]:
    def rows(name: str) -> Any:
        return db.execute(_SQL[name], (user_id,)).fetchall()

    out: dict[str, dict[str, int]] = {name: dict(rows(f"by_{name}")) for name in ("kind", "status", "channel")}
    out["journal"] = dict(zip(("changes", "versions", "edges", "usage"), rows("journal")[0], strict=True))
    out["words"] = dict(zip(("terms", "records", "tail", "blocks"), rows("words")[0], strict=True))
    embedders: Any = db.execute(_SQL["embedders"]).fetchall()
    out["passages"] = {
        identity: int(db.execute(_SQL["passages"].replace("{dimensions}", str(size)), (user_id, number)).get)
        for identity, number, size in embedders
    }
    return out
