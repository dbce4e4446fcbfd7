"""Erasing for good: one transaction takes all that a record left behind, then a scan looks for what was missed."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np

from agentmem.errors import Conflict
from agentmem.model.changes import Gone
from agentmem.model.clock import derived_id, micros
from agentmem.model.records import Key
from agentmem.model.scope import Scope
from agentmem.stores.auditing import stamp
from agentmem.stores.needles import Needles, is_told, needles, surfaces, texts_of
from agentmem.stores.outlines import indexed_terms
from agentmem.stores.sqlite import audit, graph, vectors, words
from agentmem.stores.sqlite.connection import Connection
from agentmem.text.blocks import load_blocks

STEPS = ("erasing", "taken", "erased", "emptied")
_SAMPLE = 500  # versions of a whole user whose text is looked for afterwards
_TEXTS = (
    "memory_changes.cause", "parked_changes.reason", "memory_audit_log.query_text", "memory_audit_log.error_message",
    "memory_audit_log.metadata", "memory_audit_log.config_snapshot", "receipts", "store_meta", "leases", "embedders",
)  # fmt: skip


def _sql() -> Mapping[str, str]:
    return load_blocks(__package__, "erase.sql")


@dataclass
class Erasure:
    """One erasure: `apply` inside a transaction, then `remnants` in another one, after the commit.

    `hook` is told of the steps; the log tells it of those after the commit.
    """

    scope: Scope
    keys: Sequence[Key] | None
    operation_id: str
    at: datetime
    hook: Callable[[str], None]
    seen: int | None = None
    targets: list[tuple[int, str, str]] = field(default_factory=list)  # slot, kind, id
    needles: Needles = field(default_factory=Needles)

    def apply(self, db: Connection) -> None:
        """Take everything out and leave tombstones under a new journal position; nothing where nothing is stored."""
        user_id = self.scope.user_id
        row = db.execute(_sql()["user"], (user_id,)).fetchone()
        if self.seen is not None and db.execute(_sql()["built_since"], (user_id, self.seen)).fetchone():
            raise Conflict("facts or relations were written meanwhile, which may rest on what is to go", stale=True)
        if self.keys is None:
            self.targets = list(db.execute(_sql()["targets_of_user"], (user_id,)))
        else:
            self.targets = list(db.execute(_sql()["targets"], (user_id, json.dumps(list(self.keys)))))
        if row is None or not (self.targets or self.keys is None):
            return
        seq, at = row[0] + 1, max(row[1], micros(self.at))
        change = (user_id, seq, derived_id(user_id, "erase", self.operation_id), self.operation_id, "user", at)
        db.execute(_sql()["put_change"], change)
        self.hook("erasing")
        if self.keys is None:
            self._apply_to_user(db, seq)
        else:
            self._apply_to_records(db)
        db.executemany(_sql()["put_tombstone"], [(user_id, slot, seq, kind, name) for slot, kind, name in self.targets])
        db.execute(_sql()["put_user"], (seq, at, user_id))
        self.hook("taken")

    def _apply_to_user(self, db: Connection, seq: int) -> None:
        user_id = self.scope.user_id
        sample = self._payloads(db, [slot for slot, _, _ in self.targets[:_SAMPLE]])
        self.needles = needles(texts_of(sample), ())
        words.erase_user(db, user_id)
        graph.erase_user(db, user_id)
        vectors.erase(db, user_id, None)
        db.execute(_sql()["user_changes"], (user_id, seq))
        for name in (
            "user_versions",
            "user_records",
            "user_usage",
            "user_receipts",
            "user_parked",
            "user_told",
            "user_jobs",
        ):
            db.execute(_sql()[name], (user_id,))
        audit.blank_user(db, user_id)

    def _apply_to_records(self, db: Connection) -> None:
        user_id, slots = self.scope.user_id, [slot for slot, _, _ in self.targets]
        listed = json.dumps(slots)
        payloads = self._payloads(db, slots)
        operations = {name for (name,) in db.execute(_sql()["operations"], (user_id, listed))}
        words.remove(db, user_id, indexed_terms(user_id, payloads))
        graph.apply(db, user_id, (), [Gone(slot, kind, name, erased=True) for slot, kind, name in self.targets])
        vectors.erase(db, user_id, slots)
        db.execute(_sql()["blank_changes"], (user_id, listed))
        db.execute(_sql()["blank_parked"], (user_id, listed))
        db.executemany(_sql()["drop_versions"], [(user_id, slot) for slot in slots])
        db.executemany(_sql()["drop_record"], [(user_id, slot) for slot in slots])
        db.executemany(_sql()["drop_usage"], [(user_id, kind, name) for _, kind, name in self.targets])
        self.needles = _needles(db, user_id, texts_of(payloads))
        _blank_audit(db, user_id, self.needles, operations)
        _drop_receipts(db, user_id, self.needles, [name for _, _, name in self.targets])

    def _payloads(self, db: Connection, slots: Sequence[int]) -> list[tuple[Any, ...]]:
        return list(db.execute(_sql()["payloads"], (self.scope.user_id, json.dumps(slots))))

    def remnants(self, db: Connection) -> tuple[tuple[str, ...], dict[str, int]]:
        """The places looked through, and those where something was found, with how many rows."""
        sql = load_blocks(__package__, "scan.sql")
        user_id, slots = self.scope.user_id, [slot for slot, _, _ in self.targets]
        keys = [[kind, name] for _, kind, name in self.targets]
        values = {
            "user_id": user_id, "slots": None if self.keys is None else json.dumps(slots), "keys": json.dumps(keys),
            "until": stamp(self.at),
        }  # fmt: skip
        passages = [table for table in vectors.tables(db) if table.startswith("passages_")]
        statements = {name: text for name, text in sql.items() if ":user_id" in text and name != "passages"}
        statements |= {table: sql["passages"].format(table=table) for table in passages}
        found = {place: int(db.execute(text, values).get) for place, text in statements.items()}
        found["word_blocks"] = _blocks_with(db, sql["word_blocks"], user_id, None if self.keys is None else slots)
        found |= dict.fromkeys(_TEXTS, 0)
        for place, text in db.execute(sql["texts"], (user_id,)):
            found[place] += self.needles.in_text(text)
        for place, text in db.execute(sql["json"], (user_id,)):
            ours = place != "memory_audit_log.metadata"  # a word of the user's may well be one of our settings' values
            found[place] += self.needles.in_json(text, words=not ours)
        return tuple(sorted(found)), {place: rows for place, rows in found.items() if rows}


def _needles(db: Connection, user_id: str, texts: Collection[str]) -> Needles:
    """Words are needles when the user's index has none of them any more: then only the erased text held them."""
    words_of = surfaces(texts)
    asked = json.dumps(sorted({term for found in words_of.values() for term in found}), ensure_ascii=False)
    left = {term for (term,) in db.execute(_sql()["remaining_terms"], (user_id, asked))}
    return needles(texts, (word for word, found in words_of.items() if not left.intersection(found)))


def _blank_audit(db: Connection, user_id: str, wanted: Needles, operations: Collection[str]) -> None:
    """Blank the rows that hold erased text: its words and phrases anywhere, all its strings in its own operations."""
    found, settings = set(), set()
    for key, operation_id, (query, error, details, snapshot) in audit.texts(db, user_id):
        quoted = operation_id in operations and wanted.quoted_in(details)
        if quoted or wanted.in_text(query) or wanted.in_text(error) or wanted.in_json(details):
            found.add(key)
        if wanted.in_json(snapshot, words=False):
            settings.add(key)
    audit.blank_rows(db, user_id, found, settings)


def _drop_receipts(db: Connection, user_id: str, wanted: Needles, ids: Sequence[str]) -> None:
    """Drop the receipts that name one of these records, or whose query holds erased text."""
    told = db.execute(_sql()["told"], (user_id,)).fetchall()
    found = [(user_id, name) for name, text in told if is_told(str(text), wanted, ids)]
    db.executemany(_sql()["drop_told"], found)


def _blocks_with(db: Connection, statement: str, user_id: str, slots: Sequence[int] | None) -> int:
    """How many packed blocks of the word index hold one of these slots (None: how many there are)."""
    blocks = [block for (block,) in db.execute(statement, (user_id,))]
    if slots is None:
        return len(blocks)
    gone = np.asarray(slots, dtype="<i4")
    held = (np.frombuffer(block, dtype="<i4", count=len(block) // 6) for block in blocks)
    return sum(bool(np.isin(there, gone).any()) for there in held)
