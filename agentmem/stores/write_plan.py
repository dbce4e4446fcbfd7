"""A write before anything is written: records checked, texts read, positions and numbers given, entries made."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from agentmem.core.changes import Change, JournalEntry, RemovedRecord, StoredRecord
from agentmem.core.clock import from_micros, next_record_time
from agentmem.core.edges import turn_position_key
from agentmem.core.record import Key, Record
from agentmem.core.records import Turn
from agentmem.core.scope import check_identifier
from agentmem.errors import Conflict, InvalidRecord
from agentmem.stores.codec import PAYLOAD_FORMAT, RecordMetadata, attach_metadata, decode, encode

ERASED_REQUEST_HASH = "erased"  # in place of the fingerprint of what was given, once it was erased

MAX_TURN_INDEX = 1_000_000_000  # ranking keeps positions in 32 bits


def check_idempotency(request_hashes: Mapping[str, str], rows: Iterable[tuple[Any, ...]]) -> dict[str, int]:
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
) -> list[JournalEntry]:
    """The entries of these changes, in their order.

    Changes are rows of seq, change_id, operation_id, operation, actor, cause and time; versions are rows of seq,
    ordinal, kind, id, channel, recorded_at, payload and whether it was erased, in order within each seq.
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
            user_id=user_id,
            seq=seq,
            change_id=change_id,
            operation_id=operation_id,
            operation=verb,
            actor=actor,
            cause=cause,
            recorded_at=from_micros(at),
            upserts=tuple(puts[seq]),
            removals=tuple(gone[seq]),
        )
        for seq, change_id, operation_id, verb, actor, cause, at in change_rows
    ]


@dataclass(slots=True)
class CurrentVersion:
    """What the log holds under one key. `seq` is None where nothing is current; ordinal and first time never change."""

    ordinal: int
    recorded_at: int
    seq: int | None = None
    channel: str = ""
    dedup_key: str = ""
    position_key: tuple[str, int] = ("", -1)


@dataclass(slots=True)
class ReadSet:
    """The part of a user's state that some changes touch."""

    head: int = 0
    next_ordinal: int = 0
    last_at: int = 0
    versions: dict[Key, CurrentVersion] = field(default_factory=dict)
    ordinals_by_dedup_key: dict[tuple[str, str, str], set[int]] = field(default_factory=lambda: defaultdict(set))
    # the position of the latest current record of a kind
    last_seq_by_kind: dict[str, int] = field(default_factory=dict)
    # the highest position of a conversation
    last_position_by_conversation: dict[str, int] = field(default_factory=dict)
    ordinal_by_position: dict[tuple[str, int], int] = field(default_factory=dict)  # (conversation, position): ordinal

    def claim(self, kind: str, version: CurrentVersion) -> None:
        """Note the unique value and the position that a current record has."""
        if version.dedup_key:
            self.ordinals_by_dedup_key[kind, version.channel, version.dedup_key].add(version.ordinal)
        conversation, position = version.position_key
        if position >= 0 and kind == "Turn":
            self.ordinal_by_position[version.position_key] = version.ordinal
            self.last_position_by_conversation[conversation] = max(
                self.last_position_by_conversation.get(conversation, -1), position
            )

    def release(self, kind: str, version: CurrentVersion) -> None:
        """Free the unique value and the position that a record had."""
        if version.dedup_key:
            self.ordinals_by_dedup_key[kind, version.channel, version.dedup_key].discard(version.ordinal)
        if kind == "Turn" and self.ordinal_by_position.get(version.position_key) == version.ordinal:
            del self.ordinal_by_position[version.position_key]

    def ordinals_by_key(self) -> dict[Key, int]:
        """The ordinals of the current records that are known here, turns by their position too."""
        found = {key: held.ordinal for key, held in self.versions.items() if held.seq is not None}
        return found | {turn_position_key(*place): ordinal for place, ordinal in self.ordinal_by_position.items()}


@dataclass
class WritePlan:
    """The changes of one write, applied one after the other to what was read of the current state."""

    user_id: str
    read_set: ReadSet
    recorded_at: int
    entries: list[JournalEntry] = field(default_factory=list)
    change_rows: list[tuple[Any, ...]] = field(default_factory=list)  # rows of memory_changes
    version_rows: list[tuple[Any, ...]] = field(default_factory=list)  # rows of memory_versions
    upserts: dict[int, StoredRecord] = field(default_factory=dict)  # what is current in the end, by ordinal
    originals: dict[int, Record] = field(default_factory=dict)  # the same, as the caller gave it
    removed: dict[int, RemovedRecord] = field(default_factory=dict)
    current_before: set[int] = field(default_factory=set)
    known_before: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        if self.read_set.head == 0:  # a new user; older versions took names without a visible character
            check_identifier(self.user_id, "user_id")
        self.recorded_at = next_record_time(self.recorded_at, self.read_set.last_at)
        self.known_before = {held.ordinal for held in self.read_set.versions.values()}
        self.current_before = {held.ordinal for held in self.read_set.versions.values() if held.seq is not None}

    def new_ordinals(self) -> Set[int]:
        """Ordinals that this write is the first to use."""
        return self.upserts.keys() - self.known_before

    def add(self, change: Change) -> None:
        """Work out one change. Raises Conflict or InvalidRecord; then the whole write is given up."""
        _check_keys(change)
        self._check_expectations(change)
        self.read_set.head += 1
        touched = (self._find_current(key) for key in (*change.deletes, *(record.key for record in change.upserts)))
        change.scope.check_writable(held.channel for held in touched if held is not None)
        gone = [departure for key in change.deletes if (departure := self._delete(key))]
        missing = [record for record in change.inserts_if_absent if self._find_current(record.key) is None]
        change.scope.check_writable(record.channel for record in (*missing, *change.upserts))
        puts = [self._upsert(record, change) for record in (*missing, *change.upserts)]
        self._check_unique(stored.record for stored in puts)
        self.change_rows.append(
            (
                self.user_id,
                self.read_set.head,
                change.change_id,
                change.operation_id,
                change.operation,
                change.actor,
                change.cause,
                change.request_hash,
                self.recorded_at,
            )
        )
        self.entries.append(
            JournalEntry(
                user_id=self.user_id,
                seq=self.read_set.head,
                change_id=change.change_id,
                operation_id=change.operation_id,
                operation=change.operation,
                actor=change.actor,
                cause=change.cause,
                recorded_at=from_micros(self.recorded_at),
                upserts=tuple(puts),
                removals=tuple(gone),
            )
        )

    def _find_current(self, key: Key) -> CurrentVersion | None:
        held = self.read_set.versions.get(key)
        return held if held is not None and held.seq is not None else None

    def _check_expectations(self, change: Change) -> None:
        for kind, position in change.no_new_since.items():
            if (newest := self.read_set.last_seq_by_kind.get(kind, 0)) > position:
                raise Conflict(f"a {kind} was put at {newest}; this write expected none since {position}", stale=True)
        for (kind, record_id), expected in change.expected_versions.items():
            held = self._find_current((kind, record_id))
            found = None if held is None else held.seq
            if found != expected:
                raise Conflict(
                    f"{kind} {record_id!r} {_describe_version(found)}; this write expected that it "
                    f"{_describe_version(expected)}",
                    stale=True,
                )

    def _check_unique(self, records: Any) -> None:
        for record in records:
            unique = record.dedup_key()
            if unique and len(self.read_set.ordinals_by_dedup_key[record.kind, record.channel, unique]) > 1:
                raise Conflict(
                    f"another current {record.kind} in channel {record.channel!r} says the same as {record.id!r}",
                    stale=True,
                )

    def _delete(self, key: Key) -> RemovedRecord | None:
        held = self._find_current(key)
        if held is None:
            return None
        self.read_set.release(key[0], held)
        self.version_rows.append(
            (self.user_id, held.ordinal, self.read_set.head, *key, held.channel, held.recorded_at, None, PAYLOAD_FORMAT)
        )
        held.seq, held.dedup_key, held.position_key = None, "", ("", -1)
        self.upserts.pop(held.ordinal, None)
        self.removed[held.ordinal] = RemovedRecord(held.ordinal, *key)
        return self.removed[held.ordinal]

    def _upsert(self, record: Record, change: Change) -> StoredRecord:
        key, seq = record.key, self.read_set.head
        kind, held = key[0], self.read_set.versions.get(key)
        if held is None:
            held = self.read_set.versions[key] = CurrentVersion(self.read_set.next_ordinal, self.recorded_at)
            self.read_set.next_ordinal += 1
        fields = {"index": self._assign_index(record, held)} if isinstance(record, Turn) else {}
        self.read_set.release(kind, held)
        stamp = RecordMetadata(self.user_id, record.id, record.channel, held.recorded_at, seq, change.operation_id)
        full = attach_metadata(record, stamp, **fields)
        held.seq, held.channel, held.dedup_key, held.position_key = (
            seq,
            full.channel,
            full.dedup_key(),
            full.position_key(),
        )
        self.read_set.claim(kind, held)
        self.version_rows.append(
            (
                self.user_id,
                held.ordinal,
                seq,
                kind,
                full.id,
                full.channel,
                held.recorded_at,
                encode(full),
                PAYLOAD_FORMAT,
            )
        )
        self.removed.pop(held.ordinal, None)
        stored = self.upserts[held.ordinal] = StoredRecord(held.ordinal, full)
        self.originals[held.ordinal] = record
        return stored

    def _assign_index(self, turn: Turn, version: CurrentVersion) -> int:
        """The index of a turn: as given when it is free, else the one it has, else the next of its conversation."""
        conversation = turn.conversation_id
        if turn.index < 0:
            if version.position_key[0] == conversation and version.position_key[1] >= 0:
                return version.position_key[1]
            return self.read_set.last_position_by_conversation.get(conversation, -1) + 1
        if self.read_set.ordinal_by_position.get((conversation, turn.index), version.ordinal) != version.ordinal:
            raise InvalidRecord(
                f"index {turn.index} of conversation {conversation!r} is taken by another turn; "
                "leave it out to get the next one",
                field="index",
            )
        return turn.index


def _describe_version(seq: int | None) -> str:
    return "is absent" if seq is None else f"stands at {seq}"


def _check_keys(change: Change) -> None:
    keys = [record.key for record in (*change.upserts, *change.inserts_if_absent)] + list(change.deletes)
    if len(set(keys)) != len(keys):
        twice = next(key for key in keys if keys.count(key) > 1)
        raise InvalidRecord(f"a change names {twice[0]} {twice[1]!r} twice", field="id")


def check_records(user_id: str, records: Collection[Record]) -> None:
    """Refuse records without an id, turns without a conversation, and records of somebody else."""
    for record in records:
        if not record.id:
            raise InvalidRecord(f"{record.kind} has no id", field="id")
        if record.user_id not in ("", user_id):
            raise InvalidRecord(f"user_id: {record.kind} {record.id!r} belongs to another user", field="user_id")
        if isinstance(record, Turn) and not record.conversation_id:
            raise InvalidRecord(f"Turn {record.id!r} has no conversation_id", field="conversation_id")
        if isinstance(record, Turn) and record.index > MAX_TURN_INDEX:
            raise InvalidRecord(f"index must be at most {MAX_TURN_INDEX:,}, got {record.index}", field="index")
