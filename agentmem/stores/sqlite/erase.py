"""Erasing for good: one transaction takes all that a record left behind, then a scan looks for what was missed."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np

from agentmem.core.changes import RemovedRecord
from agentmem.core.clock import derive_id, next_record_time, to_micros
from agentmem.core.record import Key
from agentmem.core.scope import Scope
from agentmem.errors import Conflict
from agentmem.stores.codec import format_timestamp
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
from agentmem.stores.sqlite import audit, graph, terms, vectors
from agentmem.stores.sqlite.database import Connection
from agentmem.text.templates import load_templates

_SQL = load_templates(__package__, "erase.sql")

STEPS = ("erasing", "taken", "erased", "emptied")
_SCAN_SAMPLE_SIZE = 500  # versions of a whole user whose text is looked for afterwards
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
class SqliteErasure:
    """One erasure: `apply` inside a transaction, then `find_leftovers` in another one, after the commit.

    `hook` is told of the steps; the log tells it of those after the commit.
    """

    scope: Scope
    keys: Sequence[Key] | None
    operation_id: str
    erased_at: datetime
    hook: Callable[[str], None]
    seen_seq: int | None = None
    pruned: Sequence[Key] = ()
    targets: list[tuple[int, str, str]] = field(default_factory=list)  # ordinal, kind, id
    erasure_terms: ErasureTerms = field(default_factory=ErasureTerms)

    def apply(self, db: Connection) -> None:
        """Take everything out and leave tombstones under a new journal position; nothing where nothing is stored."""
        user_id = self.scope.user_id
        row = db.execute(_SQL["user"], (user_id,)).fetchone()
        if self.seen_seq is not None and db.execute(_SQL["built_since"], (user_id, self.seen_seq)).fetchone():
            raise Conflict("facts or relations were written meanwhile, which may rest on what is to go", stale=True)
        if self.keys is None:
            self.targets = list(db.execute(_SQL["targets_of_user"], (user_id,)))
        else:
            self.targets = list(db.execute(_SQL["targets"], (user_id, json.dumps(list(self.keys)))))
        if self.keys is None:  # also of a user of whom nothing is stored yet
            db.execute(_SQL["user_keys"], (user_id,))
        if row is None or not (self.targets or self.keys is None):
            return
        seq, at = row[0] + 1, next_record_time(to_micros(self.erased_at), row[1])
        change = (user_id, seq, derive_id(user_id, "erase", self.operation_id), self.operation_id, "user", at)
        db.execute(_SQL["put_change"], change)
        self.hook("erasing")
        if self.keys is None:
            self._erase_user(db, seq)
        else:
            self._erase_records(db)
        db.executemany(
            _SQL["put_tombstone"], [(user_id, ordinal, seq, kind, name) for ordinal, kind, name in self.targets]
        )
        db.execute(_SQL["put_user"], (seq, at, user_id))
        self.hook("taken")

    def _erase_user(self, db: Connection, seq: int) -> None:
        user_id = self.scope.user_id
        sample = self._payloads(db, [ordinal for ordinal, _, _ in self.targets[:_SCAN_SAMPLE_SIZE]])
        self.erasure_terms = build_erasure_terms(collect_user_texts(sample), ())
        terms.erase_user(db, user_id)
        graph.erase_user(db, user_id)
        vectors.erase(db, user_id, None)
        db.execute(_SQL["user_changes"], (user_id, seq))
        for name in (
            "user_versions",
            "user_records",
            "user_usage",
            "user_receipts",
            "user_parked",
            "user_told",
            "user_jobs",
        ):
            db.execute(_SQL[name], (user_id,))
        audit.redact_user(db, user_id)

    def _erase_records(self, db: Connection) -> None:
        user_id, ordinals = self.scope.user_id, [ordinal for ordinal, _, _ in self.targets]
        listed = json.dumps(ordinals)
        payloads = self._payloads(db, ordinals)
        outdated = self._prune_versions(db)
        operations = frozenset(name for (name,) in db.execute(_SQL["operations"], (user_id, listed)))
        terms.erase(db, user_id, ordinals)
        graph.apply(
            db, user_id, (), [RemovedRecord(ordinal, kind, name, erased=True) for ordinal, kind, name in self.targets]
        )
        vectors.erase(db, user_id, ordinals)
        db.execute(_SQL["blank_changes"], (user_id, listed))
        db.execute(_SQL["blank_parked"], (user_id, listed))
        db.executemany(_SQL["drop_versions"], [(user_id, ordinal) for ordinal in ordinals])
        db.executemany(_SQL["drop_record"], [(user_id, ordinal) for ordinal in ordinals])
        db.executemany(_SQL["drop_usage"], [(user_id, kind, name) for _, kind, name in self.targets])
        self.erasure_terms = _build_erasure_terms(db, user_id, collect_user_texts(payloads) | outdated)
        ids = frozenset(name for _, _, name in self.targets)
        _redact_audit(
            db, user_id, self.erasure_terms, ErasedReferences(ids, operations, collect_derived_texts(payloads))
        )
        _drop_receipts(db, user_id, self.erasure_terms, ids)

    def _prune_versions(self, db: Connection) -> set[str]:
        """Leave the latest version of the records that stay without a part; what only the older ones held."""
        user_id, gone = self.scope.user_id, set[str]()
        for ordinal, _, _ in list(db.execute(_SQL["targets"], (user_id, json.dumps(list(self.pruned))))):
            *older, latest = self._payloads(db, [ordinal])
            gone |= collect_user_texts(older) - collect_user_texts([latest])
            db.execute(_SQL["blank_older"], (user_id, ordinal, latest[-1]))
            db.execute(_SQL["drop_older"], (user_id, ordinal, latest[-1]))
        return gone

    def _payloads(self, db: Connection, ordinals: Sequence[int]) -> list[tuple[Any, ...]]:
        return list(db.execute(_SQL["payloads"], (self.scope.user_id, json.dumps(ordinals))))

    def find_leftovers(self, db: Connection) -> tuple[tuple[str, ...], dict[str, int]]:
        """The places looked through, and those where something was found, with how many rows."""
        sql = load_templates(__package__, "scan.sql")
        user_id, ordinals = self.scope.user_id, [ordinal for ordinal, _, _ in self.targets]
        keys = [[kind, name] for _, kind, name in self.targets]
        values = {
            "user_id": user_id,
            "slots": None if self.keys is None else json.dumps(ordinals),
            "keys": json.dumps(keys),
            "until": format_timestamp(self.erased_at),
        }
        passages = [table for table in vectors.vector_tables(db) if table.startswith("passages_")]
        statements = {name: text for name, text in sql.items() if ":user_id" in text and name != "passages"}
        statements |= {table: sql["passages"].format(table=table) for table in passages}
        found = {place: int(db.execute(text, values).get) for place, text in statements.items()}
        found["word_blocks"] = _count_blocks_with(
            db, sql["word_blocks"], user_id, None if self.keys is None else ordinals
        )
        found |= dict.fromkeys(_SCANNED_TEXT_COLUMNS, 0)
        for place, text in db.execute(sql["texts"], (user_id,)):
            found[place] += self.erasure_terms.quotes(text)
        for place, text in db.execute(sql["json"], (user_id,)):
            found[place] += self.erasure_terms.quotes_json(text)
        return tuple(sorted(found)), {place: rows for place, rows in found.items() if rows}


def _build_erasure_terms(db: Connection, user_id: str, texts: Collection[str]) -> ErasureTerms:
    """Words are needles when the user's index has none of them any more: then only the erased text held them."""
    words_of = surface_forms(texts)
    asked = json.dumps(sorted({term for found in words_of.values() for term in found}), ensure_ascii=False)
    left = {term for (term,) in db.execute(_SQL["remaining_terms"], (user_id, asked))}
    return build_erasure_terms(texts, (word for word, found in words_of.items() if not left.intersection(found)))


def _redact_audit(db: Connection, user_id: str, terms: ErasureTerms, references: ErasedReferences) -> None:
    """Blank the rows that refer to the erased records or quote them; see `must_blank`."""
    found, settings = set(), set()
    for key, row in audit.texts(db, user_id):
        if must_blank(row, terms, references):
            found.add(key)
        if terms.quotes_json(row.settings):
            settings.add(key)
    audit.redact_rows(db, user_id, found, settings)


def _drop_receipts(db: Connection, user_id: str, erasure_terms: ErasureTerms, ids: Collection[str]) -> None:
    """Drop the receipts that name one of these records, or that quote them."""
    told = db.execute(_SQL["told"], (user_id,)).fetchall()
    found = [(user_id, name) for name, text in told if has_erased_content(str(text), erasure_terms, ids)]
    db.executemany(_SQL["drop_told"], found)


def _count_blocks_with(db: Connection, statement: str, user_id: str, ordinals: Sequence[int] | None) -> int:
    """How many packed blocks of the word index hold one of these ordinals (None: how many there are)."""
    blocks = [block for (block,) in db.execute(statement, (user_id,))]
    if ordinals is None:
        return len(blocks)
    gone = np.asarray(ordinals, dtype="<i4")
    held = (np.frombuffer(block, dtype="<i4", count=len(block) // 6) for block in blocks)
    return sum(bool(np.isin(there, gone).any()) for there in held)
