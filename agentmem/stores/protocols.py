"""The stores as protocols: a log that is the truth, projections made from it, and a session cache.

Every call takes a Scope (or an Operator, for work that concerns all users) and answers for that user alone. Lists are
in the order stated, ties by id; `[]` means "none", never "unsupported". Errors are StoreUnavailable, SchemaMismatch,
CorruptStore, and for writes Conflict, LeaseLost and InvalidRecord; an error means that nothing of that call happened.
A backend is a folder `agentmem/stores/<backend>/` that defines `open_*` functions (see `stores.sqlite`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from agentmem.core.changes import AuditEntry, Change, JournalEntry
from agentmem.core.columns import Floats, Ints, RecordColumnBatch
from agentmem.core.edges import EdgeTriple
from agentmem.core.record import Key, Record
from agentmem.core.records import Edge
from agentmem.core.scope import Operator, Scope
from agentmem.stores.values import (
    ChunkScores,
    DeadLetter,
    ErasureScan,
    GraphPosition,
    GraphRows,
    Head,
    Neighbor,
    Postings,
    RecordUsage,
    VectorBatch,
    Where,
)


class RecordReader(Protocol):
    """Reading current records."""

    async def read_records(self, kind: str, ids: Sequence[str], scope: Scope) -> list[Record]:
        """The records of these ids in the order asked, missing ones left out. Any channel of the user."""
        ...

    async def read_by_ordinal(
        self, ordinals: Sequence[int], scope: Scope, through_seq: int | None = None
    ) -> list[Record]:
        """The records of these ordinals in the order asked, missing ones left out; as of journal position
        `through_seq`.
        """
        ...

    async def find(
        self,
        scope: Scope,
        where: Where,
        *,
        order: str = "seq",
        descending: bool = False,
        limit: int = 100,
        offset: int = 0,
    ) -> list[Record]:
        """Current records that match, in a stable order: `seq`, `time` (world time begins), `position` or `id`."""
        ...

    async def find_field(self, scope: Scope, where: Where, field: str, *, limit: int) -> list[tuple[int, str]]:
        """One field, a text or else its JSON, of the `limit` last written records that match, each with its ordinal.

        Oldest first.

        Costs a tenth of reading the records. Every one that matches has that field.
        """
        ...

    async def count(self, scope: Scope, where: Where) -> int:
        """How many current records match."""
        ...

    async def read_columns(self, scope: Scope, after_seq: int) -> tuple[RecordColumnBatch, list[int], Head]:
        """Rows of the records changed after `after_seq`, ordinals gone since, and the head they are complete up to.

        The head also tells the operation of the change at `after_seq`.
        """
        ...

    async def read_columns_patch(self, scope: Scope, through_seq: int) -> tuple[RecordColumnBatch, list[int]]:
        """What to patch into the current columns to get those at `through_seq`: earlier rows, and ordinals not there
        yet.
        """
        ...


class TermIndex(Protocol):
    """The user's own word index."""

    async def match(self, terms: Sequence[str], scope: Scope) -> dict[str, Postings]:
        """Postings of each term over all records of the user that have one, retired ones too; absent terms left out."""
        ...


class InlineVectors(Protocol):
    """A projection that makes vectors on the calling thread, with no model that could be slow or away.

    A log calls it while it holds the user's lock: in a file on the writer's thread, on a server on the loop.
    """

    @property
    def index(self) -> VectorIndex: ...

    def embed_now(self, entries: Sequence[JournalEntry]) -> VectorBatch | None:
        """The batch of entries about to be committed, without gaps; None when they are too many to wait for.

        It may raise anything; then the vectors follow as those of a model do.
        """
        ...

    def on_committed(self, entries: Sequence[JournalEntry]) -> None:
        """Called after the commit of these entries, together with their batch."""
        ...


class LogStore(RecordReader, TermIndex, Protocol):
    """The truth: journal, current records, words, usage, audit, leases."""

    async def append(
        self,
        changes: Sequence[Change],
        audit: AuditEntry | None = None,
        fence: int | None = None,
        vectors: InlineVectors | None = None,
    ) -> list[JournalEntry]:
        """Commit all changes of one user in one transaction, under the user's lock, and return what the journal holds.

        A change whose change_id was applied before is left out and its first entry returned with `already_applied`;
        with another payload it is a Conflict, as is an expectation or uniqueness that does not hold (`stale`). A
        `fence` that no lease has any more is LeaseLost. `vectors` are written in the same transaction where they lie in
        the same database.
        """
        ...

    async def find_applied(self, change_id: str, request_hash: str, scope: Scope) -> JournalEntry | None:
        """The entry of a change_id applied before, `repeated`; None when it is new; Conflict with another payload."""
        ...

    async def head(self, scope: Scope, after_seq: int = 0) -> Head:
        """How far the user's journal reaches, with the operation of the change at `after_seq`."""
        ...

    async def seq_at_time(self, scope: Scope, moment: datetime) -> int:
        """The last journal position recorded at or before a moment; 0 before the first."""
        ...

    async def changes(self, scope: Scope, after_seq: int, limit: int) -> list[JournalEntry]:
        """The journal after a position, in `seq` order."""
        ...

    async def versions(self, key: Key, scope: Scope) -> list[Record]:
        """All kept versions of a record, oldest first."""
        ...

    async def snapshot_at(self, keys: Sequence[Key] | None, scope: Scope, through_seq: int) -> dict[Key, Record]:
        """The records of these keys (None: all changed after `through_seq`) as they were at a journal position."""
        ...

    async def operation(self, operation_id: str, scope: Scope) -> list[JournalEntry]:
        """The journal entries of one operation."""
        ...

    async def changed_keys_since(self, keys: Sequence[Key], scope: Scope, after_seq: int) -> dict[Key, int]:
        """Which of these records changed after a position, with the latest `seq`."""
        ...

    async def write_audit(self, entries: Sequence[AuditEntry]) -> None:
        """Add rows to the audit log, in order; without texts where something was erased since their `seen`."""
        ...

    async def audit_rows(self, scope: Scope, **filters: Any) -> list[dict[str, Any]]:
        """Audit rows, newest first. Filters: operation, memory_type, since, until, session_id, success, limit."""
        ...

    async def write_receipt(
        self, scope: Scope, receipt_id: str, receipt: str, created_at: datetime, seen_seq: int | None = None
    ) -> None:
        """Keep how a recall was answered, as JSON; the same one again replaces it.

        `seen_seq` is the journal position from before that recall: nothing is kept where something was erased since.
        """
        ...

    async def find_receipt(self, receipt_id: str, scope: Scope) -> str | None:
        """A kept receipt of this user; None when there is none."""
        ...

    async def record_usage(
        self,
        keys: Sequence[Key],
        scope: Scope,
        receipt_id: str,
        *,
        used: bool = False,
        used_at: datetime,
        context_tags: Sequence[str] = (),
        boost: float = 0.0,
        touched: bool = False,
    ) -> None:
        """Count a delivery (or a use) of each record, once per receipt, and note when it is due next.

        A use with tags that have little in common with the record's own makes it stronger, as does `boost`. `touched`:
        somebody counts a use on purpose, to keep it; every other use is a review, too.
        """
        ...

    async def usage(self, keys: Sequence[Key], scope: Scope) -> dict[Key, RecordUsage]: ...

    async def erase(
        self,
        scope: Scope,
        keys: Sequence[Key] | None,
        *,
        operation_id: str,
        erased_at: datetime,
        seen_seq: int | None = None,
        pruned: Sequence[Key] = (),
    ) -> ErasureScan:
        """Remove records (None: all of the user) with versions, words, usage, audit text, vectors; leave tombstones.

        Of the records `pruned`, which stay, only the latest version is left: the older ones hold erased text.

        `seen_seq` is the journal position at which the caller looked for what rests on them: a fact or an edge written
        since is a Conflict (`stale`), and nothing is removed.
        """
        ...

    async def users(self, operator: Operator, limit: int = 1000, after: str = "") -> list[str]: ...

    async def lagging_users(self, projection: str, operator: Operator, limit: int = 100) -> list[str]:
        """Users whose projection lags, longest waiting first; a hint."""
        ...

    async def write_watermark_hints(self, projection: str, watermarks: Mapping[str, int]) -> None:
        """Note up to where a projection outside of the log has come for these users: a hint for `lagging_users`.

        Never lowers a mark.
        """
        ...

    async def write_dead_letter(self, dead_letter: DeadLetter) -> None: ...

    async def dead_letters(self, scope: Scope | Operator) -> list[DeadLetter]: ...

    async def meta(self) -> dict[str, str]:
        """What is recorded of the store: store_id, embedder, openings, schema version."""
        ...

    async def set_meta(self, values: Mapping[str, str]) -> None: ...

    async def init_meta(self, values: Mapping[str, str]) -> dict[str, str]:
        """Record those names that are absent; returns all. Two openers at once agree on one value."""
        ...

    async def increment_openings(self) -> int:
        """Count one more opening of the store and return the count (for seeded ids)."""
        ...

    async def acquire_lease(self, name: str, ttl: float, owner: str) -> int | None:
        """A fencing token, larger each time, or None while another owner holds the lease. Timed by the database."""
        ...

    async def release_lease(self, name: str, owner: str) -> None: ...

    async def maintain(self, now: datetime, keep_audit_days: int) -> dict[str, int]:
        """Fold the word tail into packed segments, drop audit days and receipts past retention."""
        ...

    async def stats(self, operator: Operator) -> dict[str, Any]: ...

    async def check(self, operator: Operator) -> list[str]:
        """Problems found by the engine's own integrity check; [] is healthy."""
        ...

    async def close(self) -> None: ...


class VectorIndex(Protocol):
    """Vectors of passages of one embedder, exact within the user."""

    async def apply(self, batches: Mapping[str, VectorBatch]) -> dict[str, int]:
        """Write each user's batch whose `after` is the stored watermark; return the watermarks as they are now."""
        ...

    async def watermark(self, user_id: str) -> int: ...

    async def search(
        self, vector: Floats, scope: Scope, where: Where, granularity: str, top_k: int | None = None
    ) -> ChunkScores:
        """Cosine in [-1, 1] of passages, best first when `top_k` is given, else of every one in ordinal order.

        The scope's channels and `where.kinds` are applied before any cut. Rounded to 1e-4.
        """
        ...

    async def score_all(
        self, vector: Floats, scope: Scope, where: Where, granularities: Sequence[str]
    ) -> list[ChunkScores]:
        """What `search` gives for each of these granularities without `top_k`, at one moment and in one go."""
        ...

    async def score_pairs(self, left: Ints, right: Ints, scope: Scope) -> Floats:
        """Cosines of the whole vectors of pairs of records, shape (len(left),), float32; NaN where one has none."""
        ...

    async def read_vectors(self, ordinals: Sequence[int], scope: Scope) -> dict[int, NDArray[np.float16]]:
        """The whole vectors of these records as they are stored; those without one left out."""
        ...

    async def read_token_vectors(
        self, ordinals: Sequence[int], scope: Scope
    ) -> dict[int, tuple[NDArray[np.int32], NDArray[np.int8]]]:
        """Token vectors of these records, where they are kept."""
        ...

    async def clear(self, user_id: str) -> None:
        """Forget the user's vectors and watermark, so that they are built again."""
        ...

    def drop_cached(self, user_id: str) -> None:
        """Forget what this process holds of the user's vectors in memory."""
        ...

    async def erase(self, scope: Scope, ordinals: Iterable[int] | None) -> None: ...


class GraphStore(Protocol):
    """The graph in the log's database, kept by the log's own transactions."""

    async def neighbors(
        self, keys: Sequence[Key], scope: Scope, kinds: Collection[str] | None = None, depth: int = 2, limit: int = 50
    ) -> list[Neighbor]:
        """Records within `depth` steps in either direction, nearest first, never through a retired one."""
        ...

    async def edges(
        self, keys: Sequence[Key], scope: Scope, kinds: Collection[str] | None = None, limit: int = 1000
    ) -> list[Edge]: ...

    async def links(self, keys: Sequence[Key], scope: Scope, kinds: Collection[str], limit: int) -> list[EdgeTriple]:
        """The edges at these records by kind and ends alone: of each record and kind the latest `limit`."""
        ...

    async def rebuild(self, scope: Scope) -> int:
        """Make the user's edges again from current records; returns how many join two of them."""
        ...


class ReplicatedGraph(Protocol):
    """A copy of the graph outside of the log, for people and jobs that query it there; it follows the journal."""

    async def rebuild(self, scope: Scope) -> int:
        """Make the user's graph again from current records; returns how many edges join two of them."""
        ...

    async def watermark(self, user_id: str) -> int:
        """Up to where the user's journal was applied; 0 for one never followed."""
        ...

    async def clear(self, user_id: str) -> None:
        """Take out all that is there of the user, so that it is built again."""
        ...

    async def apply(
        self,
        batches: Mapping[str, tuple[int, Sequence[JournalEntry]]],
        operation_ids: Mapping[str, str] = MappingProxyType({}),
    ) -> dict[str, int]:
        """Write each user's entries after the given watermark, all users in one transaction.

        Nothing of a user whose stored watermark is another one, or stands for the change of another operation than
        `operation_ids` names by user. Returns the watermarks as they are now.
        """
        ...

    async def positions(self, users: Collection[str]) -> dict[str, GraphPosition]:
        """Up to where each of these users is followed; 0 for one never followed."""
        ...

    async def erase(self, scope: Scope, keys: Sequence[Key] | None) -> None:
        """Take these records out, or (None) everything of the user, watermark included."""
        ...

    async def count_present(self, scope: Scope, keys: Sequence[Key] | None) -> int:
        """How many of these records, or (None) of all records of the user, are there, be it by name only.

        Of these records not what is merely named by one that stays.
        """
        ...

    async def tombstones(self, scope: Scope, after: Key | None = None, limit: int = 1000) -> dict[Key, datetime]:
        """A page of the user's records that the journal said were erased, and when; erasing keeps them."""
        ...

    async def mark_erased(self, scope: Scope, keys: Mapping[Key, datetime]) -> None:
        """Note these records as erased, too."""
        ...

    async def ask(self, text: str, scope: Scope, parameters: Mapping[str, Any], max_rows: int) -> GraphRows:
        """The rows of a reading query over what the scope may read. Raises InvalidRecord for what is no such query."""
        ...

    async def record_seqs(self, kind: str, scope: Scope, after: str = "", limit: int = 1000) -> dict[str, int]:
        """Ids and `seq` of the records of a kind that the graph holds, by id; `Edge`: of the stated relations."""
        ...

    async def close(self) -> None: ...


class GraphNodeVectors(Protocol):
    """Vectors on the nodes of a graph that follows, for people who search there. They are written after it."""

    async def watermarks(self, users: Collection[str], name: str) -> dict[str, tuple[int, int]]:
        """Up to where the journals of these users are followed under this name, and up to where the graph itself is."""
        ...

    async def write(
        self,
        scope: Scope,
        name: str,
        after_seq: int,
        through_seq: int,
        vectors: Mapping[Key, tuple[int, NDArray[np.float16] | None]],
    ) -> bool:
        """Put these vectors, each with its record's ordinal, on the existing nodes; None removes one.

        Returns False and writes nothing unless the watermark is `after_seq` and the graph is at `through_seq` or
        beyond. Under another name, following starts again.
        """
        ...

    async def clear(self, user_id: str) -> None:
        """Forget the user's watermarks, so that all of it is written again. A rebuild of the graph does that, too."""
        ...


class SessionStore(Protocol):
    """A cache with time to live. Nothing depends on a key's survival. Values are JSON."""

    @property
    def is_shared(self) -> bool:
        """Whether other programs can look into it."""
        ...

    async def push(
        self, scope: Scope, key: str, value: Any, *, keep: int, ttl: float, max_bytes: int | None = None
    ) -> None:
        """Append to a list, of which the last `keep` values stay. `max_bytes` as with `set`; a list alone above it
        loses its oldest values.
        """
        ...

    async def tail(self, scope: Scope, key: str, limit: int) -> list[Any]:
        """The last `limit` values pushed, oldest first."""
        ...

    async def set(self, scope: Scope, key: str, value: Any, *, ttl: float, max_bytes: int | None = None) -> None:
        """Keep a value. Of the user's keys written with `max_bytes` the oldest go until all take at most so many bytes.

        The key just written stays, whatever it takes.
        """
        ...

    async def get(self, scope: Scope, key: str) -> Any: ...

    async def renew(self, scope: Scope, key: str, *, ttl: float) -> None:
        """Let a key that is there live for `ttl` seconds from now, unless it has nine tenths of that left."""
        ...

    async def delete(self, scope: Scope, key: str) -> None: ...

    async def items(self, scope: Scope, prefix: str) -> dict[str, Any]: ...

    async def clear(self, scope: Scope, prefix: str = "") -> None: ...

    async def increment(self, scope: Scope, key: str, *, ttl: float) -> int: ...

    async def close(self) -> None: ...
