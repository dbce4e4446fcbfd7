"""What verbs that take back answer with, apart from those verbs: who only stores and recalls need not load them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from agentmem.model.records import Record
from agentmem.stores import ErasureScan


@dataclass(frozen=True, slots=True)
class ForgetReceipt:
    """What was forgotten. `hard`: erased, with what rested on it alone (`derived`), and searched for (`scan`)."""

    operation_id: str
    ids: tuple[str, ...]
    hard: bool
    at: datetime
    derived: tuple[str, ...] = ()
    scan: ErasureScan | None = None


@dataclass(frozen=True, slots=True)
class ErasureReceipt:
    """Everything of a user was erased. `scan.leftovers` is empty, `scan.deferred` says what waits, and for whom."""

    operation_id: str
    user_id: str
    at: datetime
    scan: ErasureScan = field(default_factory=lambda: ErasureScan(()))


@dataclass(frozen=True, slots=True)
class Diff:
    """What memory gained, lost and changed between two moments, each in journal order."""

    learned: tuple[Record, ...]
    retired: tuple[Record, ...]
    changed: tuple[tuple[Record, Record], ...]
