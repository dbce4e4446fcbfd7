"""Erasing for good: one transaction takes all that a record left behind, then a scan looks for what was missed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from agentmem.errors import Conflict
from agentmem.model.clock import aware, derived_id, micros
from agentmem.model.records import Key
from agentmem.model.scope import Scope
from agentmem.stores import postings
from agentmem.stores.needles import Needles, is_told, needles, surfaces, texts_of
from agentmem.stores.outlines import indexed_terms
from agentmem.stores.postgres import audit, embedders, words
from agentmem.stores.postgres.columns import columnar
from agentmem.stores.postgres.connection import rows
from agentmem.stores.postgres.journal import columns
from agentmem.text.blocks import load_blocks

if TYPE_CHECKING:
    from agentmem.stores.postgres.connection import Connection

_SAMPLE = 500  # records of a whole user whose text is looked for afterwards
_PLACES = (
    "memory_versions", "memory_records", "memory_usage", "usage_receipts", "word_tail", "receipts", "job_states",
    "parked_changes", "memory_changes", "memory_audit_log",
)  # fmt: skip
_TEXTS = (
    "memory_changes.cause", "parked_changes.reason", "memory_audit_log.query_text", "memory_audit_log.error_message",
    "memory_audit_log.metadata", "memory_audit_log.config_snapshot", "receipts", "store_meta", "leases", "embedders",
)  # fmt: skip


def _sql(name: str) -> Mapping[str, str]:
    return load_blocks(__package__, f"{name}.sql")


@dataclass
class Erasure:
    """One erasure: `apply` inside a transaction, then `remnants` in another one, after the commit."""

    scope: Scope
    keys: Sequence[Key] | None
    operation_id: str
    at: datetime
    seen: int | None = None
    targets: list[tuple[int, str, str]] = field(default_factory=list)  # slot, kind, id
    needles: Needles = field(default_factory=Needles)
    erased: bool = False

    @property
    def _whose(self) -> dict[str, Any]:
        return {"user_id": self.scope.user_id}

    @property
    def _what(self) -> dict[str, Any]:
        return {**self._whose, **columnar(("slots", "kinds", "ids"), self.targets)}

    async def apply(self, db: Connection) -> None:
        """Take everything out and leave tombstones under a new journal position; nothing where nothing is stored."""
        sql, self.erased = _sql("erase"), False
        row = await rows(db, sql["user"], self._whose)
        if self.seen is not None and await rows(db, sql["built_since"], {**self._whose, "seen": self.seen}):
            raise Conflict("facts or relations were written meanwhile, which may rest on what is to go", stale=True)
        if self.keys is None:
            self.targets = await rows(db, sql["targets_of_user"], self._whose)
        else:
            self.targets = await rows(db, sql["targets"], {**self._whose, **columns(self.keys)})
        if not row or not (self.targets or self.keys is None):
            return
        self.erased = True
        seq, at = row[0][0] + 1, max(row[0][1], micros(self.at))
        change_id = derived_id(self.scope.user_id, "erase", self.operation_id)
        change = {**self._whose, "seq": seq, "change_id": change_id, "operation_id": self.operation_id, "at": at}
        await db.execute(sql["put_change"], change)
        if self.keys is None:
            await self._apply_to_user(db, seq)
        else:
            await self._apply_to_records(db)
        await db.execute(sql["put_tombstones"], {**self._what, "seq": seq})
        gone = None if self.keys is None else [slot for slot, _, _ in self.targets]
        await embedders.erase(db, self.scope.user_id, gone)
        await db.execute(sql["put_user"], {**self._whose, "seq": seq, "at": at})

    async def _apply_to_user(self, db: Connection, seq: int) -> None:
        sample = await self._payloads(db, [slot for slot, _, _ in self.targets[:_SAMPLE]])
        self.needles = needles(texts_of(sample), ())
        await words.erase_user(db, self.scope.user_id)
        await db.execute(_sql("erase")["user_changes"], {**self._whose, "seq": seq})
        for name in (
            "user_versions",
            "user_records",
            "user_usage",
            "user_receipts",
            "user_parked",
            "user_told",
            "user_jobs",
        ):
            await db.execute(_sql("erase")[name], self._whose)
        await audit.blank_user(db)

    async def _apply_to_records(self, db: Connection) -> None:
        user_id, slots = self.scope.user_id, [slot for slot, _, _ in self.targets]
        payloads = await self._payloads(db, slots)
        found = await rows(db, _sql("erase")["operations"], self._what)
        await words.remove(db, user_id, indexed_terms(user_id, payloads))
        for name in ("blank_changes", "blank_parked", "drop_versions", "drop_records", "drop_usage"):
            await db.execute(_sql("erase")[name], self._what)
        self.needles = await _needles(db, user_id, texts_of(payloads))
        await _blank_audit(db, user_id, self.needles, {name for (name,) in found})
        await _drop_receipts(db, user_id, self.needles, [name for _, _, name in self.targets])

    async def _payloads(self, db: Connection, slots: Sequence[int]) -> list[tuple[Any, ...]]:
        return await rows(db, _sql("erase")["payloads"], {**self._whose, "slots": list(slots)})

    async def remnants(self, db: Connection) -> tuple[tuple[str, ...], dict[str, int]]:
        """The places looked through, and those where something was found, with how many rows."""
        sql, values = _sql("scan"), {**self._what, "until": aware(self.at)}
        if self.keys is None:
            values["slots"] = None
        found = {place: int((await rows(db, sql[place], values))[0][0]) for place in _PLACES}
        for table in await embedders.tables(db):
            found[table] = int((await rows(db, sql["in_table"].format(table=table), values))[0][0])
        blocks = [((term, n), block) for term, n, block in await rows(db, sql["word_blocks"], self._whose)]
        changed, empty = postings.without(blocks, [slot for slot, _, _ in self.targets])
        found["word_blocks"] = len(blocks) if self.keys is None else len(changed) + len(empty)
        found |= dict.fromkeys(_TEXTS, 0)
        for place, text in await rows(db, sql["texts"], self._whose):
            found[place] += self.needles.in_text(text)
        for place, text in await rows(db, sql["json"], self._whose):
            ours = place != "memory_audit_log.metadata"  # a word of the user's may well be one of our settings' values
            found[place] += self.needles.in_json(text, words=not ours)
        return tuple(sorted(found)), {place: count for place, count in found.items() if count}


async def _needles(db: Connection, user_id: str, texts: Collection[str]) -> Needles:
    """Words are needles when the user's index has none of them any more: then only the erased text held them."""
    words_of = surfaces(texts)
    terms = sorted({term for found in words_of.values() for term in found})
    remaining = await rows(db, _sql("erase")["remaining_terms"], {"user_id": user_id, "terms": terms})
    left = {term for (term,) in remaining}
    return needles(texts, (word for word, found in words_of.items() if not left.intersection(found)))


async def _blank_audit(db: Connection, user_id: str, wanted: Needles, operations: Collection[str]) -> None:
    """Blank the rows that hold erased text: its words and phrases anywhere, all its strings in its own operations."""
    found, settings = set(), set()
    for number, operation_id, (query, error, details, snapshot) in await audit.texts(db, user_id):
        quoted = operation_id in operations and wanted.quoted_in(details)
        if quoted or wanted.in_text(query) or wanted.in_text(error) or wanted.in_json(details):
            found.add(number)
        if wanted.in_json(snapshot, words=False):
            settings.add(number)
    await audit.blank_rows(db, found, settings)


async def _drop_receipts(db: Connection, user_id: str, wanted: Needles, ids: Sequence[str]) -> None:
    """Drop the receipts that name one of these records, or whose query holds erased text."""
    told = await rows(db, _sql("erase")["told"], {"user_id": user_id})
    found = [name for name, text in told if is_told(text, wanted, ids)]
    await db.execute(_sql("erase")["drop_told"], {"user_id": user_id, "ids": found})
