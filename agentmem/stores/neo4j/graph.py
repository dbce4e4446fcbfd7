"""The graph on a server: a copy of current records that follows the log.

It may lag; `watermark` says up to where it has come, and `apply` goes on from there, in the same transaction as the
data.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from agentmem.core.changes import JournalEntry, StoredRecord
from agentmem.core.clock import Clock, from_micros, to_micros
from agentmem.core.record import Key
from agentmem.core.scope import Scope
from agentmem.errors import Conflict
from agentmem.stores.neo4j.asking import ask
from agentmem.stores.neo4j.database import Neo4jDatabase, Transaction, fetch_rows, parse_address
from agentmem.stores.neo4j.migrations import build_schema_check, graph_query, graph_update
from agentmem.stores.neo4j.write import GraphBatch, node_key, parse_node_key
from agentmem.stores.protocols import RecordReader
from agentmem.stores.values import GraphPosition, GraphRows
from agentmem.text.templates import load_migrations

T = TypeVar("T")
RECORD_BATCH_SIZE = 1000
NODE_BATCH_SIZE = 5000  # taken out in one transaction
REBUILD_LEASE_MS = 120_000  # how long a rebuild that was killed keeps others waiting


async def open_graph(
    url: str,
    clock: Clock,
    records: RecordReader,
    *,
    store_id: str,
    credentials: Mapping[str, str] | None = None,
    schema: Path | None = None,
) -> Neo4jGraph:
    """The graph of a store at `neo4j://user:password@host:7687`, or with `credentials` {user, password} beside the URL.

    The clock says which facts have ended, `records` is what `rebuild` reads, `schema` a folder of schema files in place
    of the package's own. Asks the server nothing: what keeps it from being used is raised by the calls that need it.
    Raises ConfigError for a URL that cannot work and for a missing driver.
    """
    check = build_schema_check(load_migrations("neo4j", schema), store_id)
    database = Neo4jDatabase(parse_address(url, credentials), check)
    database.ensure_driver()
    return Neo4jGraph(database, clock, records)


class Neo4jGraph:
    """A ReplicatedGraph, see the protocol; followed with `apply`."""

    def __init__(self, database: Neo4jDatabase, clock: Clock, records: RecordReader) -> None:
        self.database = database
        self._clock = clock
        self._records = records

    async def record_seqs(self, kind: str, scope: Scope, after: str = "", limit: int = 1000) -> dict[str, int]:
        """The ids of a kind of records that the graph holds, in order, those after an id, with the `seq` of each.

        In all channels, retired or not; `Edge` means stated relations.
        """
        asked = {"user_id": scope.user_id, "after": after, "limit": max(limit, 0)}
        text = graph_query("relations" if kind == "Edge" else "records")
        if kind != "Edge":
            # what follows all that begins with `kind:`
            asked |= {"after": node_key((kind, after)), "until": f"{kind};"}
        return dict(await self.database.read(lambda tx: fetch_rows(tx, text, **asked)))

    async def watermark(self, user_id: str) -> int:
        """Up to where the graph follows the user's journal; 0 between `clear` and the end of a `rebuild`."""
        found = await self.database.read(lambda tx: fetch_rows(tx, graph_query("watermark"), user_id=user_id))
        return int(found[0][0]) if found else 0

    async def positions(self, users: Collection[str]) -> dict[str, GraphPosition]:
        """Up to where each of these users is followed, and the operation of the change there."""
        asked = list(dict.fromkeys(users))
        if not asked:
            return {}
        ((found,),) = await self.database.read(
            lambda tx: fetch_rows(tx, graph_query("positions"), users=asked, count=len(asked))
        )
        known = {user_id: GraphPosition(seq, operation_id or "") for user_id, seq, operation_id in found}
        return {**dict.fromkeys(asked, GraphPosition(0)), **known}

    async def count_present(self, scope: Scope, keys: Sequence[Key] | None) -> int:
        """How many of these records, or (None) of all records of the user, are there, be it by name only.

        Of these records not what is merely named by one that stays, as a tool is by its calls.
        """
        user_id = scope.user_id
        asked: list[tuple[str, dict[str, Any]]] = [(graph_query("held"), {"user_id": user_id})]
        if keys is not None:
            names = [node_key(key) for key in keys if key[0] != "Edge"]
            stated = [{"user_id": user_id, "id": name} for kind, name in keys if kind == "Edge"]
            asked = [
                (graph_query("held_of"), {"user_id": user_id, "keys": names}),
                (graph_update("held"), {"relations": stated}),
            ]

        async def work(tx: Transaction) -> int:
            found = [await fetch_rows(tx, text, **values) for text, values in asked]
            return sum(int(count) for ((count,),) in found)

        return await self.database.read(work)

    async def tombstones(self, scope: Scope, after: Key | None = None, limit: int = 1000) -> dict[Key, datetime]:
        """A page of the records of the user that were erased, and when."""
        asked = {"user_id": scope.user_id, "after": node_key(after) if after else "", "limit": limit}
        found = await self.database.read(lambda tx: fetch_rows(tx, graph_query("erased"), **asked))
        return {parse_node_key(name): from_micros(at) for name, at in found}

    async def mark_erased(self, scope: Scope, keys: Mapping[Key, datetime]) -> None:
        """Note these records as erased, too."""
        draft = GraphBatch(erased_at={(scope.user_id, key): to_micros(at) for key, at in keys.items()})
        await self.database.write(draft.write)

    async def apply(
        self,
        batches: Mapping[str, tuple[int, Sequence[JournalEntry]]],
        operation_ids: Mapping[str, str] = MappingProxyType({}),
    ) -> dict[str, int]:
        """Write what each user's journal holds after a position, all in one transaction; returns the watermarks.

        The entries of a user are applied when the watermark is the position given, and stands for the change of the
        operation that `operation_ids` names, if it names one; nothing of them otherwise.
        """
        users: list[dict[str, Any]] = [
            {
                "user_id": user_id,
                "after": after,
                "operation_id": (before := operation_ids.get(user_id) or None),
                "through": entries[-1].seq if entries else after,
                "through_operation_id": entries[-1].operation_id if entries else before,
            }
            for user_id, (after, entries) in sorted(batches.items())
        ]

        async def work(tx: Transaction) -> dict[str, int]:
            await fetch_rows(tx, graph_update("lock"), users=[user["user_id"] for user in users])
            found = await fetch_rows(tx, graph_query("advance"), users=users, count=len(users))
            draft = GraphBatch()
            for user_id, fits, _ in found:
                if fits:
                    draft.add(user_id, batches[user_id][1])
            await draft.write(tx)
            return {user_id: seq for user_id, _, seq in found}

        return await self.database.write(work) if users else {}

    async def clear(self, user_id: str) -> None:
        """Take out all that is there of the user, so that it is built again from the start of the journal."""
        await self._clear_as_holder(user_id)
        await self._run_locked(user_id, graph_query("release"), seq=0, operation_id=None)

    async def rebuild(self, scope: Scope) -> int:
        """Make the user's graph again from the current records; returns how many edges join two of them.

        Meanwhile it answers with what it has and `apply` does nothing; what is written to the log meanwhile is for
        `apply` afterwards. A rebuild that was cut off is continued by `apply` from the start, two minutes later.
        Conflict when another one took over.
        """
        columns, _, head = await self._records.read_columns(scope, 0)
        ordinals = columns.ordinals_by_key()
        holder = await self._clear_as_holder(scope.user_id)
        for page in _pages(list(ordinals.values())):
            draft = GraphBatch()
            records = await self._records.read_by_ordinal(page, scope)
            draft.upsert(scope.user_id, [StoredRecord(ordinals[record.key], record) for record in records])
            await self._run_as_holder(scope.user_id, holder, draft.write)

        async def end(tx: Transaction) -> None:
            end_values = {"seq": head.seq, "operation_id": head.operation_id or None}
            await fetch_rows(tx, graph_query("release"), user_id=scope.user_id, **end_values)

        await self._run_as_holder(scope.user_id, holder, end)
        found = await self.database.read(lambda tx: fetch_rows(tx, graph_query("count"), user_id=scope.user_id))
        return int(found[0][0])

    async def erase(self, scope: Scope, keys: Sequence[Key] | None) -> None:
        """Take out these records and what they state, or (None) everything of the user, the watermark too."""
        user_id = scope.user_id
        if keys is None:
            await self._clear_as_holder(user_id)
            await self._run_locked(user_id, graph_update("forget"))
            return
        draft = GraphBatch()
        draft.remove(user_id, keys)

        async def work(tx: Transaction) -> None:
            await fetch_rows(tx, graph_update("lock"), users=[user_id])
            await draft.write(tx)

        await self.database.write(work)

    async def ask(self, text: str, scope: Scope, parameters: Mapping[str, Any], max_rows: int) -> GraphRows:
        """The rows of a query in Cypher over what the scope may read, at most `max_rows`."""
        return await ask(self.database, scope, text, parameters, max_rows)

    async def close(self) -> None:
        """Close the connections."""
        await self.database.close()

    async def _clear_as_holder(self, user_id: str) -> str:
        """Keep others from writing this user, and take everything out; returns what shows that it is still us."""
        holder = os.urandom(8).hex()
        await self._run_locked(user_id, graph_update("hold"), holder=holder, milliseconds=REBUILD_LEASE_MS)
        values = {"user_id": user_id, "limit": NODE_BATCH_SIZE}
        taken = 1
        while taken:
            ((taken,),) = await self._run_as_holder(
                user_id, holder, lambda tx: fetch_rows(tx, graph_update("take_out"), **values)
            )
        return holder

    async def _run_as_holder(self, user_id: str, holder: str, work: Callable[[Transaction], Awaitable[T]]) -> T:
        async def run_if_held(tx: Transaction) -> T:
            await fetch_rows(tx, graph_update("lock"), users=[user_id])
            asked = {"user_id": user_id, "holder": holder, "milliseconds": REBUILD_LEASE_MS}
            if not await fetch_rows(tx, graph_update("keep"), **asked):
                raise Conflict("somebody else took over building this user's graph; nothing is lost")
            return await work(tx)

        return await self.database.write(run_if_held)

    async def _run_locked(self, user_id: str, statement: str, **values: Any) -> None:
        async def work(tx: Transaction) -> None:
            await fetch_rows(tx, graph_update("lock"), users=[user_id])
            await fetch_rows(tx, statement, user_id=user_id, **values)

        await self.database.write(work)


def _pages(ordinals: Sequence[int]) -> Iterator[Sequence[int]]:
    return (ordinals[start : start + RECORD_BATCH_SIZE] for start in range(0, len(ordinals), RECORD_BATCH_SIZE))
