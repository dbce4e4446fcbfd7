"""The embedders that this store keeps vectors of, and what concerns all vectors of one of them, or of all."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from agentmem.errors import ConfigError
from agentmem.model.scope import Operator
from agentmem.stores.postgres.connection import PostgresDatabase, fetch_rows, set_user
from agentmem.stores.vectors.passages import ROW_BATCH_SIZE, projection_name
from agentmem.text.blocks import load_templates

if TYPE_CHECKING:
    from agentmem.stores.postgres.connection import Connection

MAX_DIMENSIONS = 4_000  # of a halfvec, and a row must fit into a page
BULK_TRANSACTION_SECONDS = 60.0  # for a transaction that moves many vectors


def statements(dimensions: int) -> dict[str, str]:
    """The SQL for one number of dimensions. Raises ConfigError when it is none that this store can keep."""
    if type(dimensions) is not int or not 1 <= dimensions <= MAX_DIMENSIONS:
        message = f"an embedder has between 1 and {MAX_DIMENSIONS:,} dimensions on Postgres, got {dimensions!r}"
        raise ConfigError(message)
    texts = dict(_sql())
    places = {"{passages}": texts["passages"], "{dimensions}": str(dimensions), "{rows}": str(ROW_BATCH_SIZE)}
    for place, value in places.items():
        texts = {name: text.replace(place, value) for name, text in texts.items()}
    return texts


async def list_embedders(db: Connection) -> list[str]:
    """The identities of all embedders of this store, oldest first."""
    return [identity for identity, _, _ in await fetch_rows(db, _sql()["embedders"])]


async def vector_tables(db: Connection) -> list[str]:
    """The tables that hold a user's vectors, for scans."""
    sizes = sorted({dimensions for _, _, dimensions in await fetch_rows(db, _sql()["embedders"])})
    return [*(f"passages_{size}" for size in sizes), "passage_tokens"]


async def erase(db: Connection, user_id: str, ordinals: Collection[int] | None) -> None:
    """Take out these records' vectors (None: all of the user), of every embedder, in the caller's transaction.

    The transaction must be the user's; it must have marked the records as erased before.
    """
    await db.execute(_sql()["no_new"])
    for identity, number, dimensions in await fetch_rows(db, _sql()["embedders"]):
        sql, keys = statements(dimensions), build_keys(identity, user_id, number)
        await db.execute(sql["removed"], keys)  # first: it keeps writers out
        if ordinals is None:
            await db.execute(sql["remove_user"], keys)
            await db.execute(sql["remove_user_tokens"], keys)
        else:
            keys["slots"] = [int(ordinal) for ordinal in ordinals]
            await db.execute(sql["remove"], keys)
            await db.execute(sql["remove_tokens"], keys)


async def drop(database: PostgresDatabase, identity: str, operator: Operator) -> int:
    """Take out an embedder with all its vectors and token vectors; returns how many passages those were.

    The table stays, so that the ids of its rows are never used again.
    """

    async def write(db: Connection) -> int:
        await db.execute(_sql()["alone"])
        await db.execute(_sql()["unused"], {"projection": projection_name(identity)})
        known = {name: (number, size) for name, number, size in await fetch_rows(db, _sql()["embedders"])}
        if identity not in known:
            return 0
        (number, dimensions), removed = known[identity], 0
        sql = statements(dimensions)
        for (user_id,) in await fetch_rows(db, sql["holders"], {"projection": projection_name(identity)}):
            keys = build_keys(identity, user_id, number)
            await set_user(db, user_id)
            await db.execute(sql["reset"], keys)
            await db.execute(sql["remove_user_tokens"], keys)
            ((count,),) = await fetch_rows(db, sql["remove_user"], keys)
            removed += count
        await db.execute(sql["drop_embedder"], {"identity": identity})
        return removed

    return await database.write(operator, write, timeout_seconds=BULK_TRANSACTION_SECONDS)


def build_keys(identity: str, user_id: str, number: int = 0) -> dict[str, Any]:
    """What names a user's vectors of one embedder in the statements."""
    names = {"identity": identity, "projection": projection_name(identity)}
    return {**names, "user_id": user_id, "embedder": number}


def _sql() -> Mapping[str, str]:
    return load_templates(__package__, "vectors.sql")
