"""Erasing for good: one transaction takes all that a record left behind, then a scan looks for what was missed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from agentmem.core.changes import RemovedRecord
from agentmem.core.clock import derive_id, next_record_time, to_micros, to_utc
from agentmem.core.record import Key
from agentmem.core.scope import Scope
from agentmem.errors import Conflict
from agentmem.stores import postings
from agentmem.stores.erasure_terms import (
    ErasedReferences,
    ErasureTerms,
    build_erasure_terms,
    collect_derived_texts,
    collect_user_texts,
    has_erased_content,
    must_blank,
    surface_forms,
)
from agentmem.stores.sql import audit, graph, terms
from agentmem.stores.sql.connection import Keys, Row, SqlConnection

STEPS = ("erasing", "taken", "erased", "emptied")
_SCAN_SAMPLE_SIZE = 500  # records of a whole user whose text is looked for afterwards
_SCANNED_TABLES = (
    "memory_versions",
    "memory_records",
    "memory_usage",
    "usage_receipts",
    "word_tail",
    "graph_edges",
    "receipts",
    "job_states",
    "api_keys",
    "parked_changes",
    "memory_changes",
    "memory_audit_log",
)
_SCANNED_TEXT_COLUMNS = (
    "memory_changes.cause",
    "parked_changes.reason",
    "memory_audit_log.query_text",
    "memory_audit_log.error_message",
    "memory_audit_log.metadata",
    "memory_audit_log.config_snapshot",
    "receipts",
    "store_meta",
    "leases",
    "embedders",
)
_USER_TABLES = ("versions", "records", "usage", "usage_receipts", "dead_letters", "receipts", "jobs")


@dataclass
class SqlErasure(ABC):
    """One erasure: `apply` inside a transaction, then `find_leftovers` in another one, after the commit.

    `hook` is called at each step; the log calls it for those after the commit.
    """

    scope: Scope
    keys: Sequence[Key] | None
    operation_id: str
    erased_at: datetime
    hook: Callable[[str], None]
    seen_seq: int | None = None
    pruned: Sequence[Key] = ()
    targets: list[Row] = field(default_factory=list)  # ordinal, kind, id
    erasure_terms: ErasureTerms = field(default_factory=ErasureTerms)
    has_erased: bool = False

    @property
    def _ordinals(self) -> list[int]:
        return [ordinal for ordinal, _, _ in self.targets]

    @property
    def _target_values(self) -> dict[str, Any]:
        keys = Keys((kind, name) for _, kind, name in self.targets)
        return {"user_id": self.scope.user_id, "ordinals": self._ordinals, "keys": keys}

    async def apply(self, db: Any) -> None:
        """Take everything out and leave tombstones under a new journal position; nothing where nothing is stored."""
        user_id, self.has_erased = self.scope.user_id, False
        row = await db.rows("erase.user", user_id=user_id)
        if self.seen_seq is not None and await db.rows("erase.derived_since", user_id=user_id, seen=self.seen_seq):
            raise Conflict("facts or relations were written meanwhile, which may rest on what is to go", stale=True)
        if self.keys is None:
            self.targets = await db.rows("erase.targets_of_user", user_id=user_id)
            await db.run("erase.user_keys", user_id=user_id)  # also of a user without stored data
        else:
            self.targets = await db.rows("erase.targets", user_id=user_id, keys=Keys(self.keys))
        if not row or not (self.targets or self.keys is None):
            return
        self.has_erased = True
        seq, at = row[0][0] + 1, next_record_time(to_micros(self.erased_at), row[0][1])
        change = {"change_id": derive_id(user_id, "erase", self.operation_id), "operation_id": self.operation_id}
        await db.run("erase.put_change", user_id=user_id, seq=seq, at=at, **change)
        self.hook("erasing")
        if self.keys is None:
            await self._erase_user(db, seq)
        else:
            await self._erase_records(db)
        tombstones = [
            {"ordinal": ordinal, "kind": kind, "id": name, "part": part}
            for part, (ordinal, kind, name) in enumerate(self.targets, 1)
        ]
        await db.run_each("erase.put_tombstone", tombstones, user_id=user_id, seq=seq)
        if self.keys is None:
            await graph.erase_user(db, user_id)
        else:
            gone = [RemovedRecord(ordinal, kind, name, erased=True) for ordinal, kind, name in self.targets]
            await graph.update_edges(db, user_id, (), gone)
        await self._erase_vectors(db, None if self.keys is None else self._ordinals)
        await db.run("erase.put_user", user_id=user_id, seq=seq, at=at)
        self.hook("taken")

    async def _erase_user(self, db: SqlConnection, seq: int) -> None:
        user_id = self.scope.user_id
        sample = await self._payloads(db, self._ordinals[:_SCAN_SAMPLE_SIZE])
        self.erasure_terms = build_erasure_terms(collect_user_texts(sample), ())
        await terms.erase_user(db, user_id)
        await db.run("erase.user_changes", user_id=user_id, seq=seq)
        for name in _USER_TABLES:
            await db.run(f"erase.user_{name}", user_id=user_id)
        await self._redact_user_audit(db)

    async def _erase_records(self, db: SqlConnection) -> None:
        user_id, values = self.scope.user_id, self._target_values
        payloads = await self._payloads(db, self._ordinals)
        outdated = await self._prune_versions(db)
        found = await db.rows("erase.operations", **values)
        await terms.erase(db, user_id, self._ordinals)
        for name in ("blank_changes", "blank_dead_letters", "drop_versions", "drop_records", "drop_usage"):
            await db.run(f"erase.{name}", **values)
        self.erasure_terms = await _build_erasure_terms(db, user_id, collect_user_texts(payloads) | outdated)
        ids, operations = frozenset(name for _, _, name in self.targets), frozenset(name for (name,) in found)
        references = ErasedReferences(ids, operations, collect_derived_texts(payloads))
        await self._redact_audit(db, references)
        await _drop_receipts(db, user_id, self.erasure_terms, ids)

    async def _redact_audit(self, db: SqlConnection, references: ErasedReferences) -> None:
        """Blank the rows that refer to the erased records or quote them; see `must_blank`."""
        found, settings = set(), set()
        for key, row in await audit.texts(db, self.scope.user_id):
            if must_blank(row, self.erasure_terms, references):
                found.add(key)
            if self.erasure_terms.quotes_json(row.settings):
                settings.add(key)
        if found or settings:
            await self._redact_audit_rows(db, found, settings)

    async def _prune_versions(self, db: SqlConnection) -> set[str]:
        """Leave the latest version of the records that stay without a part; what only the older ones held."""
        gone, user_id = set[str](), self.scope.user_id
        for ordinal, _, _ in (
            await db.rows("erase.targets", user_id=user_id, keys=Keys(self.pruned)) if self.pruned else ()
        ):
            *older, latest = await self._payloads(db, [ordinal])
            gone |= collect_user_texts(older) - collect_user_texts([latest])
            for name in ("blank_older", "drop_older"):
                await db.run(f"erase.{name}", user_id=user_id, ordinal=ordinal, latest=latest[-1])
        return gone

    async def _payloads(self, db: SqlConnection, ordinals: Sequence[int]) -> list[Row]:
        return await db.rows("erase.payloads", user_id=self.scope.user_id, ordinals=ordinals)

    async def find_leftovers(self, db: Any) -> tuple[tuple[str, ...], dict[str, int]]:
        """The places looked through, and those where something was found, with how many rows."""
        user_id, values = self.scope.user_id, {**self._target_values, "until": to_utc(self.erased_at)}
        if self.keys is None:
            values["ordinals"] = None
        found = {table: int(await db.value(f"scan.{table}", **values)) for table in _SCANNED_TABLES}
        for table in await self._vector_tables(db):
            found[table] = int((await db.select(db.text("scan.in_table").format(table=table), values))[0][0])
        blocks = [((term, n), block) for term, n, block in await db.rows("scan.word_blocks", user_id=user_id)]
        changed, empty = postings.remove_ordinals(blocks, self._ordinals)
        found["word_blocks"] = len(blocks) if self.keys is None else len(changed) + len(empty)
        found |= dict.fromkeys(_SCANNED_TEXT_COLUMNS, 0)
        for place, text in await db.rows("scan.texts", user_id=user_id):
            found[place] += self.erasure_terms.quotes(text)
        for place, text in await db.rows("scan.json", user_id=user_id):
            found[place] += self.erasure_terms.quotes_json(text)
        return tuple(sorted(found)), {place: count for place, count in found.items() if count}

    # -- what each dialect adds

    @abstractmethod
    async def _erase_vectors(self, db: Any, ordinals: Collection[int] | None) -> None:
        """Take out the vectors of these records, None for all of the user."""

    @abstractmethod
    async def _redact_user_audit(self, db: Any) -> None:
        """Blank all text and names in the user's audit rows; what was done, and when, stays."""

    @abstractmethod
    async def _redact_audit_rows(self, db: Any, keys: Collection[Any], settings_keys: Collection[Any]) -> None:
        """Blank query, error and details of these audit rows, and the settings of those."""

    @abstractmethod
    async def _vector_tables(self, db: Any) -> list[str]:
        """The tables that hold vectors."""


async def _build_erasure_terms(db: SqlConnection, user_id: str, texts: Collection[str]) -> ErasureTerms:
    """Words are needles when the user's index has none of them any more: then only the erased text held them."""
    words_of = surface_forms(texts)
    asked = sorted({term for found in words_of.values() for term in found})
    left = {term for (term,) in await db.rows("erase.remaining_terms", user_id=user_id, terms=asked)}
    return build_erasure_terms(texts, (word for word, found in words_of.items() if not left.intersection(found)))


async def _drop_receipts(db: SqlConnection, user_id: str, erasure_terms: ErasureTerms, ids: Collection[str]) -> None:
    """Drop the receipts that name one of these records, or that quote them."""
    receipts = await db.rows("erase.receipts", user_id=user_id)
    found = [name for name, text in receipts if has_erased_content(str(text), erasure_terms, ids)]
    await db.run("erase.drop_receipts", user_id=user_id, ids=found)
