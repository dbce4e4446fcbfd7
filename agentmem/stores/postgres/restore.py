"""The journal out of the database as it is, and back in: positions, slots, times and ids stay what they were."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from agentmem.errors import InvalidRecord
from agentmem.stores import restoring
from agentmem.stores.postgres.append import put_journal, put_records, replace_words, texts_before
from agentmem.stores.postgres.columns import clean, columnar, json_text
from agentmem.stores.postgres.connection import rows
from agentmem.stores.restoring import Piece
from agentmem.stores.upkeep import RawChange, RawUsage, Reach
from agentmem.text.blocks import load_blocks

if TYPE_CHECKING:
    from agentmem.stores.postgres.connection import Connection


def _sql() -> Mapping[str, str]:
    return load_blocks(__package__, "restore.sql")


async def reach(db: Connection, user_id: str) -> Reach:
    """How far the user's journal goes; all zero for a user never seen."""
    found = await rows(db, _sql()["reach"], {"user_id": user_id})
    return Reach(*found[0]) if found else Reach(0, 0, 0, 0)


async def hold(db: Connection, user_id: str) -> Reach | None:
    """Take the user's lock; how far the journal goes then, None for a user never seen."""
    found = await rows(db, _sql()["hold"], {"user_id": user_id})
    return Reach(*found[0]) if found else None


async def _added(db: Connection, user_id: str) -> Reach:
    """`hold`, with a user never seen added."""
    await db.execute(load_blocks(__package__, "append.sql")["add_user"], {"user_id": user_id})
    return await hold(db, user_id) or Reach(0, 0, 0, 0)


async def raw_changes(db: Connection, user_id: str, after: int, limit: int) -> list[RawChange]:
    """Up to `limit` changes after a position, with their versions in the order written."""
    asked = {"user_id": user_id, "after": after, "limit": limit}
    changes, versions = await db.execute(_sql()["changes"], asked), await db.execute(_sql()["versions"], asked)
    return restoring.assembled(await changes.fetchall(), await versions.fetchall())


async def raw_usage(db: Connection, user_id: str, after: tuple[str, str], limit: int) -> list[RawUsage]:
    """Up to `limit` usage rows after a (kind, id)."""
    asked = {"user_id": user_id, "kind": after[0], "id": after[1], "limit": limit}
    return [RawUsage._make([*row[:6], tuple(row[6]), *row[7:]]) for row in await rows(db, _sql()["usage"], asked)]


async def put_usage(db: Connection, user_id: str, given: Sequence[RawUsage]) -> None:
    """Put usage rows back as they were, over those that are there; of two for one record the last counts."""
    last = {row[:2]: (*row[:6], json_text(row.conversations), *row[7:]) for row in given}
    if last:
        await db.execute(_sql()["put_usage"], {"user_id": user_id, **columnar(RawUsage._fields, last.values())})


async def settle(db: Connection, user_id: str, wanted: Reach) -> None:
    """Set the user's counters to those of the journal that was put back. Conflict when it ends elsewhere."""
    restoring.check_settled(user_id, await _added(db, user_id), wanted)
    await db.execute(_sql()["settle"], {"user_id": user_id, **wanted._asdict()})
    await db.execute(_sql()["look_again"], {"user_id": user_id})


def check_text(changes: Sequence[RawChange]) -> None:
    """Raise InvalidRecord for ids and names that a text column cannot hold."""
    for change in changes:
        named = [("change_id", change.change_id), ("payload", change.payload)]
        for version in change.versions:
            named += [("kind", version.kind), ("id", version.id), ("channel", version.channel)]
        for name, text in named:
            if clean(text) != text:
                raise InvalidRecord(f"{name} of change {change.seq} holds what a Postgres cannot keep", field=name)


async def put_back(db: Connection, piece: Piece) -> None:
    """Write a piece of journal, then what is made from it. Conflict when it does not continue the user's journal."""
    user_id, before = piece.user_id, await _added(db, piece.user_id)
    piece.check_follows(before)
    await put_journal(db, user_id, piece.rows(), piece.versions, piece.reached(before))
    await put_records(db, user_id, sorted(piece.last), piece.records())
    gone, come = piece.words(await texts_before(db, user_id, sorted(piece.images), piece.changes[0].seq))
    await replace_words(db, user_id, gone, come)
