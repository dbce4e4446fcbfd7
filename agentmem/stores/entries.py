"""Journal entries from what a backend has read of them, and changes that were applied before."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agentmem.errors import Conflict
from agentmem.model.changes import JournalEntry, RemovedRecord, StoredRecord
from agentmem.model.clock import from_micros
from agentmem.stores.payload import RecordMetadata, decode

ERASED_REQUEST_HASH = "erased"  # in place of the fingerprint of what was given, once it was erased


def check_idempotency(request_hashes: Mapping[str, str], rows: Iterable[tuple[str, int, str]]) -> dict[str, int]:
    """Positions by change_id, from rows of change_id, seq and payload fingerprint.

    Raises Conflict when one was applied with another payload than `request_hashes` says; what was erased has none to
    compare.
    """
    done = {}
    for change_id, seq, payload in rows:
        if payload not in (request_hashes[change_id], ERASED_REQUEST_HASH):
            raise Conflict(
                "this id or idempotency_key was used before with other content; "
                "use a new one, or send the same content again"
            )
        done[change_id] = seq
    return done


def build_entries(
    user_id: str, change_rows: Sequence[tuple[Any, ...]], version_rows: Iterable[tuple[Any, ...]]
) -> list[JournalEntry]:  # fmt: skip
    """The entries of these changes, in their order.

    Changes are rows of seq, change_id, operation_id, operation, actor, cause and time; versions are rows of seq, slot,
    kind, id, channel, recorded_at, payload and whether it was erased, in order within each seq.
    """
    puts: dict[int, list[StoredRecord]] = defaultdict(list)
    gone: dict[int, list[RemovedRecord]] = defaultdict(list)
    operations = {row[0]: row[2] for row in change_rows}
    for seq, ordinal, kind, record_id, channel, recorded_at, payload, erased in version_rows:
        if payload is None:
            gone[seq].append(RemovedRecord(ordinal, kind, record_id, bool(erased)))
        else:
            stamp = RecordMetadata(user_id, record_id, channel, recorded_at, seq, operations[seq])
            puts[seq].append(StoredRecord(ordinal, decode(kind, payload, stamp)))
    return [
        JournalEntry(
            user_id=user_id, seq=seq, change_id=change_id, operation_id=operation_id, operation=verb, actor=actor,
            cause=cause, recorded_at=from_micros(at), upserts=tuple(puts[seq]), removals=tuple(gone[seq]),
        )
        for seq, change_id, operation_id, verb, actor, cause, at in change_rows
    ]  # fmt: skip
