"""What one write does, what it expects, and what the journal says of it afterwards."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from agentmem.core.clock import derive_id
from agentmem.core.record import Key, Record
from agentmem.core.scope import Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Records put and taken by one write, and the state it was built on.

    `upserts` are full after-images. `inserts_if_absent` are written only where no record of that key exists. `deletes`
    leave the current state but stay in history. `expected_versions` maps keys to the `seq` of the version seen, or None
    for absent; the log checks it, and that no put shares its `dedup_key()` value with another current record, under the
    user's lock. `no_new_since` is for what rests on there being no more of a kind: the journal position at which all of
    that kind were read; the log checks that none was put since. `request_hash` is a fingerprint of the arguments as
    given: a change_id used again with another one is a Conflict.
    """

    scope: Scope
    operation: str
    operation_id: str
    change_id: str
    upserts: tuple[Record, ...] = ()
    inserts_if_absent: tuple[Record, ...] = ()
    deletes: tuple[Key, ...] = ()
    expected_versions: Mapping[Key, int | None] = field(default_factory=dict)
    no_new_since: Mapping[str, int] = field(default_factory=dict)
    request_hash: str = ""
    cause: str = ""

    @property
    def actor(self) -> str:
        """Who writes; see `Scope.actor`."""
        return self.scope.actor


@dataclass(frozen=True, slots=True)
class WriteAttempt:
    """One attempt at one write: its identity, and the Change made from what the subsystem has read."""

    scope: Scope
    operation: str
    operation_id: str
    change_id: str
    request_hash: str
    now: datetime
    is_retry: bool = False  # the state moved on while an attempt before this one was made

    def build_change(
        self,
        *upserts: Record,
        inserts_if_absent: Sequence[Record] = (),
        deletes: Sequence[Key] = (),
        expected_versions: Mapping[Key, int | None] | None = None,
        no_new_since: Mapping[str, int] | None = None,
        cause: str = "",
    ) -> Change:
        """The Change that puts these records, expecting what was read."""
        return Change(
            scope=self.scope,
            operation=self.operation,
            operation_id=self.operation_id,
            change_id=self.change_id,
            request_hash=self.request_hash,
            upserts=upserts,
            inserts_if_absent=tuple(inserts_if_absent),
            deletes=tuple(deletes),
            expected_versions=dict(expected_versions or {}),
            no_new_since=dict(no_new_since or {}),
            cause=cause,
        )


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A record as the log holds it. `ordinal` is its dense number within the user, the same for all versions."""

    ordinal: int
    record: Record


@dataclass(frozen=True, slots=True)
class RemovedRecord:
    """A record that left the current state. `erased` means that nothing of it is kept."""

    ordinal: int
    kind: str
    id: str
    erased: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """One change as the journal holds it, in `seq` order without gaps within a user."""

    user_id: str
    seq: int
    change_id: str
    operation_id: str
    operation: str
    actor: str
    cause: str
    recorded_at: datetime
    upserts: tuple[StoredRecord, ...] = ()
    removals: tuple[RemovedRecord, ...] = ()
    already_applied: bool = False  # append found the change_id already applied and returns what it did then


class PromotionAudit(NamedTuple):
    """What a promotion leaves in the audit log: the channel it came from, and how well it was known and used there.

    `thresholds` are those that a job went by; None where somebody promoted by hand.
    """

    promoted_from_channel: str
    promotion_confidence: float
    promotion_access_count: int
    promotion_conversation_count: int
    thresholds: Mapping[str, Any] | None = None

    def columns(self) -> dict[str, Any]:
        """The columns of the audit row that bear these names."""
        return {name: value for name, value in self._asdict().items() if name != "thresholds"}


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One row of memory_audit_log; the log adds id and time. Text and payloads only at the levels that allow them.

    `seen_seq` is the journal position before the data was read: the log omits the texts if data of the user was erased
    since.
    """

    operation: str
    memory_type: str
    scope: Scope | None
    operation_id: str = ""
    target_channels: tuple[str, ...] = ()
    query_text: str | None = None
    result_count: int | None = None
    latency_ms: float | None = None
    success: bool = True
    error_message: str | None = None
    promoted_from_channel: str | None = None
    promotion_confidence: float | None = None
    promotion_access_count: int | None = None
    promotion_conversation_count: int | None = None
    config_snapshot: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    seen_seq: int | None = None


def derive_change_id(scope: Scope, operation: str, idempotency_key: str) -> str:
    """Return the id of what an operation does under a caller's key in the scope's active channel.

    A key belongs to its channel, so that it neither shows nor blocks what another channel did under it.
    """
    return derive_id(scope.user_id, operation, scope.channel, idempotency_key)


_ARGUMENT_ENCODER = json.JSONEncoder(sort_keys=True, default=str, ensure_ascii=False)


def hash_request(**arguments: Any) -> str:
    """A digest of a verb's arguments as the caller gave them, the same for equal arguments."""
    text = _ARGUMENT_ENCODER.encode(arguments)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
