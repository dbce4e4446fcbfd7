"""Erasing for good: one transaction takes all that a record left behind, then a scan looks for what was missed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

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
from agentmem.stores.postgres import audit, terms, vectors
from agentmem.stores.postgres.columns import to_columns
from agentmem.stores.postgres.database import fetch_rows
from agentmem.stores.postgres.journal import key_columns
from agentmem.text.templates import load_templates

if TYPE_CHECKING:
    from agentmem.stores.postgres.database import Connection

_SQL = load_templates(__package__, "erase.sql")
_SCAN_SQL = load_templates(__package__, "scan.sql")

_SCAN_SAMPLE_SIZE = 500  # records of a whole user whose text is looked for afterwards
_SCANNED_TABLES = (
    "memory_versions",
    "memory_records",
    "memory_usage",
    "usage_receipts",
    "word_tail",
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


@dataclass
class PostgresErasure:
    """One erasure: `apply` inside a transaction, then `find_leftovers` in another one, after the commit."""

    scope: Scope
    keys: Sequence[Key] | None
    operation_id: str
    erased_at: datetime
    seen_seq: int | None = None
    pruned: Sequence[Key] = ()
    targets: list[tuple[int, str, str]] = field(default_factory=list)  # ordinal, kind, id
    erasure_terms: ErasureTerms = field(default_factory=ErasureTerms)
    has_erased: bool = False

    @property
    def _user_params(self) -> dict[str, Any]:
        return {"user_id": self.scope.user_id}

    @property
    def _target_params(self) -> dict[str, Any]:
        return {**self._user_params, **to_columns(("slots", "kinds", "ids"), self.targets)}

    async def apply(self, db: Connection) -> None:
        """Take everything out and leave tombstones under a new journal position; nothing where nothing is stored."""
        sql, self.has_erased = _SQL, False
        row = await fetch_rows(db, sql["user"], self._user_params)
        if self.seen_seq is not None and await fetch_rows(
            db, sql["built_since"], {**self._user_params, "seen": self.seen_seq}
        ):
            raise Conflict("facts or relations were written meanwhile, which may rest on what is to go", stale=True)
        if self.keys is None:
            self.targets = await fetch_rows(db, sql["targets_of_user"], self._user_params)
        else:
            self.targets = await fetch_rows(db, sql["targets"], {**self._user_params, **key_columns(self.keys)})
        if self.keys is None:  # also of a user of whom nothing is stored yet
            await db.execute(sql["user_keys"], self._user_params)
        if not row or not (self.targets or self.keys is None):
            return
        self.has_erased = True
        seq, at = row[0][0] + 1, next_record_time(to_micros(self.erased_at), row[0][1])
        change_id = derive_id(self.scope.user_id, "erase", self.operation_id)
        change = {**self._user_params, "seq": seq, "change_id": change_id, "operation_id": self.operation_id, "at": at}
        await db.execute(sql["put_change"], change)
        if self.keys is None:
            await self._erase_user(db, seq)
        else:
            await self._erase_records(db)
        await db.execute(sql["put_tombstones"], {**self._target_params, "seq": seq})
        gone = None if self.keys is None else [ordinal for ordinal, _, _ in self.targets]
        await vectors.erase(db, self.scope.user_id, gone)
        await db.execute(sql["put_user"], {**self._user_params, "seq": seq, "at": at})

    async def _erase_user(self, db: Connection, seq: int) -> None:
        sample = await self._payloads(db, [ordinal for ordinal, _, _ in self.targets[:_SCAN_SAMPLE_SIZE]])
        self.erasure_terms = build_erasure_terms(collect_user_texts(sample), ())
        await terms.erase_user(db, self.scope.user_id)
        await db.execute(_SQL["user_changes"], {**self._user_params, "seq": seq})
        for name in (
            "user_versions",
            "user_records",
            "user_usage",
            "user_receipts",
            "user_parked",
            "user_told",
            "user_jobs",
        ):
            await db.execute(_SQL[name], self._user_params)
        await audit.redact_user(db)

    async def _erase_records(self, db: Connection) -> None:
        user_id, ordinals = self.scope.user_id, [ordinal for ordinal, _, _ in self.targets]
        payloads = await self._payloads(db, ordinals)
        outdated = await self._prune_versions(db)
        found = await fetch_rows(db, _SQL["operations"], self._target_params)
        await terms.erase(db, user_id, ordinals)
        for name in ("blank_changes", "blank_parked", "drop_versions", "drop_records", "drop_usage"):
            await db.execute(_SQL[name], self._target_params)
        self.erasure_terms = await _build_erasure_terms(db, user_id, collect_user_texts(payloads) | outdated)
        ids, operations = frozenset(name for _, _, name in self.targets), frozenset(name for (name,) in found)
        references = ErasedReferences(ids, operations, collect_derived_texts(payloads))
        await _redact_audit(db, user_id, self.erasure_terms, references)
        await _drop_receipts(db, user_id, self.erasure_terms, ids)

    async def _prune_versions(self, db: Connection) -> set[str]:
        """Leave the latest version of the records that stay without a part; what only the older ones held."""
        gone, wanted = set[str](), {**self._user_params, **key_columns(self.pruned)}
        for ordinal, _, _ in await fetch_rows(db, _SQL["targets"], wanted) if self.pruned else ():
            *older, latest = await self._payloads(db, [ordinal])
            gone |= collect_user_texts(older) - collect_user_texts([latest])
            values = {**self._user_params, "slot": ordinal, "latest": latest[-1]}
            await db.execute(_SQL["blank_older"], values)
            await db.execute(_SQL["drop_older"], values)
        return gone

    async def _payloads(self, db: Connection, ordinals: Sequence[int]) -> list[tuple[Any, ...]]:
        return await fetch_rows(db, _SQL["payloads"], {**self._user_params, "slots": list(ordinals)})

    async def find_leftovers(self, db: Connection) -> tuple[tuple[str, ...], dict[str, int]]:
        """The places looked through, and those where something was found, with how many rows."""
        sql, values = _SCAN_SQL, {**self._target_params, "until": to_utc(self.erased_at)}
        if self.keys is None:
            values["slots"] = None
        found = {place: int((await fetch_rows(db, sql[place], values))[0][0]) for place in _SCANNED_TABLES}
        for table in await vectors.vector_tables(db):
            found[table] = int((await fetch_rows(db, sql["in_table"].format(table=table), values))[0][0])
        blocks = [((term, n), block) for term, n, block in await fetch_rows(db, sql["word_blocks"], self._user_params)]
        changed, empty = postings.remove_ordinals(blocks, [ordinal for ordinal, _, _ in self.targets])
        found["word_blocks"] = len(blocks) if self.keys is None else len(changed) + len(empty)
        found |= dict.fromkeys(_SCANNED_TEXT_COLUMNS, 0)
        for place, text in await fetch_rows(db, sql["texts"], self._user_params):
            found[place] += self.erasure_terms.quotes(text)
        for place, text in await fetch_rows(db, sql["json"], self._user_params):
            found[place] += self.erasure_terms.quotes_json(text)
        return tuple(sorted(found)), {place: count for place, count in found.items() if count}


async def _build_erasure_terms(db: Connection, user_id: str, texts: Collection[str]) -> ErasureTerms:
    """Words are needles when the user's index has none of them any more: then only the erased text held them."""
    words_of = surface_forms(texts)
    terms = sorted({term for found in words_of.values() for term in found})
    remaining = await fetch_rows(db, _SQL["remaining_terms"], {"user_id": user_id, "terms": terms})
    left = {term for (term,) in remaining}
    return build_erasure_terms(texts, (word for word, found in words_of.items() if not left.intersection(found)))


async def _redact_audit(db: Connection, user_id: str, terms: ErasureTerms, references: ErasedReferences) -> None:
    """Blank the rows that refer to the erased records or quote them; see `must_blank`."""
    found, settings = set(), set()
    for number, row in await audit.texts(db, user_id):
        if must_blank(row, terms, references):
            found.add(number)
        if terms.quotes_json(row.settings):
            settings.add(number)
    await audit.redact_rows(db, found, settings)


async def _drop_receipts(db: Connection, user_id: str, erasure_terms: ErasureTerms, ids: Collection[str]) -> None:
    """Drop the receipts that name one of these records, or that quote them."""
    told = await fetch_rows(db, _SQL["told"], {"user_id": user_id})
    found = [name for name, text in told if has_erased_content(text, erasure_terms, ids)]
    await db.execute(_SQL["drop_told"], {"user_id": user_id, "ids": found})
