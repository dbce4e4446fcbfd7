"""What a write will do, worked out before anything is written: checks, journal positions, slots, turn indices."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Set
from dataclasses import dataclass, field
from typing import Any

from agentmem.errors import Conflict, InvalidRecord
from agentmem.model.changes import Change, Gone, JournalEntry, Stored
from agentmem.model.clock import from_micros
from agentmem.model.edges import turn_at
from agentmem.model.records import Key, Record, Turn
from agentmem.stores.payload import FORMAT, Stamp, encode, stamped

LAST_INDEX = 1_000_000_000  # ranking keeps positions in 32 bits


@dataclass(slots=True)
class Held:
    """What the log holds under one key. `seq` is None where nothing is current; slot and first time stay for good."""

    slot: int
    recorded_at: int
    seq: int | None = None
    channel: str = ""
    unique: str = ""
    place: tuple[str, int] = ("", -1)


@dataclass(slots=True)
class State:
    """The part of a user's state that some changes touch."""

    head: int = 0
    slots: int = 0
    last_at: int = 0
    held: dict[Key, Held] = field(default_factory=dict)
    sharing: dict[tuple[str, str, str], set[int]] = field(default_factory=lambda: defaultdict(set))
    newest: dict[str, int] = field(default_factory=dict)  # the position of the latest current record of a kind
    last: dict[str, int] = field(default_factory=dict)  # the highest position of a conversation
    taken: dict[tuple[str, int], int] = field(default_factory=dict)  # (conversation, position): slot

    def holds(self, kind: str, held: Held) -> None:
        """Note the unique value and the position that a current record has."""
        if held.unique:
            self.sharing[kind, held.channel, held.unique].add(held.slot)
        conversation, position = held.place
        if position >= 0 and kind == "Turn":
            self.taken[held.place] = held.slot
            self.last[conversation] = max(self.last.get(conversation, -1), position)

    def releases(self, kind: str, held: Held) -> None:
        """Free the unique value and the position that a record had."""
        if held.unique:
            self.sharing[kind, held.channel, held.unique].discard(held.slot)
        if kind == "Turn" and self.taken.get(held.place) == held.slot:
            del self.taken[held.place]

    def slots_by_key(self) -> dict[Key, int]:
        """The slots of the current records that are known here, turns by where they stand too."""
        found = {key: held.slot for key, held in self.held.items() if held.seq is not None}
        return found | {turn_at(*place): slot for place, slot in self.taken.items()}


@dataclass
class Draft:
    """The changes of one write, applied one after the other to what was read of the current state."""

    user_id: str
    state: State
    at: int
    entries: list[JournalEntry] = field(default_factory=list)
    changes: list[tuple[Any, ...]] = field(default_factory=list)  # rows of memory_changes
    versions: list[tuple[Any, ...]] = field(default_factory=list)  # rows of memory_versions
    written: dict[int, Stored] = field(default_factory=dict)  # what is current in the end, by slot
    given: dict[int, Record] = field(default_factory=dict)  # the same, as the caller gave it
    left: dict[int, Gone] = field(default_factory=dict)
    was_current: set[int] = field(default_factory=set)
    was_known: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.at = max(self.at, self.state.last_at)  # record time never runs backwards, whatever the clock does
        self.was_known = {held.slot for held in self.state.held.values()}
        self.was_current = {held.slot for held in self.state.held.values() if held.seq is not None}

    def new(self) -> Set[int]:
        """Slots that this write is the first to use."""
        return self.written.keys() - self.was_known

    def add(self, change: Change) -> None:
        """Work out one change. Raises Conflict or InvalidRecord; then the whole write is given up."""
        _check_keys(change)
        self._check_expectations(change)
        self.state.head += 1
        gone = [departure for key in change.retracts if (departure := self._retract(key))]
        missing = [record for record in change.ensures if self._current(record.key) is None]
        puts = [self._put(record, change) for record in (*missing, *change.puts)]
        self._check_unique(stored.record for stored in puts)
        self.changes.append((
            self.user_id, self.state.head, change.change_id, change.operation_id, change.operation, change.actor,
            change.cause, change.payload, self.at,
        ))  # fmt: skip
        self.entries.append(
            JournalEntry(
                user_id=self.user_id,
                seq=self.state.head,
                change_id=change.change_id,
                operation_id=change.operation_id,
                operation=change.operation,
                actor=change.actor,
                cause=change.cause,
                at=from_micros(self.at),
                puts=tuple(puts),
                gone=tuple(gone),
            )
        )

    def _current(self, key: Key) -> Held | None:
        held = self.state.held.get(key)
        return held if held is not None and held.seq is not None else None

    def _check_expectations(self, change: Change) -> None:
        for kind, position in change.since.items():
            if (newest := self.state.newest.get(kind, 0)) > position:
                raise Conflict(f"a {kind} was put at {newest}; this write expected none since {position}", stale=True)
        for (kind, record_id), expected in change.expects.items():
            held = self._current((kind, record_id))
            found = None if held is None else held.seq
            if found != expected:
                raise Conflict(
                    f"{kind} {record_id!r} {_standing(found)}; this write expected that it {_standing(expected)}",
                    stale=True,
                )

    def _check_unique(self, records: Any) -> None:
        for record in records:
            unique = record.unique()
            if unique and len(self.state.sharing[record.kind, record.channel, unique]) > 1:
                raise Conflict(
                    f"another current {record.kind} in channel {record.channel!r} says the same as {record.id!r}",
                    stale=True,
                )

    def _retract(self, key: Key) -> Gone | None:
        held = self._current(key)
        if held is None:
            return None
        self.state.releases(key[0], held)
        self.versions.append((
            self.user_id, held.slot, self.state.head, *key, held.channel, held.recorded_at, None, FORMAT
        ))  # fmt: skip
        held.seq, held.unique, held.place = None, "", ("", -1)
        self.written.pop(held.slot, None)
        self.left[held.slot] = Gone(held.slot, *key)
        return self.left[held.slot]

    def _put(self, record: Record, change: Change) -> Stored:
        key, seq = record.key, self.state.head
        kind, held = key[0], self.state.held.get(key)
        if held is None:
            held = self.state.held[key] = Held(self.state.slots, self.at)
            self.state.slots += 1
        fields = {"index": self._position(record, held)} if isinstance(record, Turn) else {}
        self.state.releases(kind, held)
        stamp = Stamp(self.user_id, record.id, record.channel, held.recorded_at, seq, change.operation_id)
        full = stamped(record, stamp, **fields)
        held.seq, held.channel, held.unique, held.place = seq, full.channel, full.unique(), full.place()
        self.state.holds(kind, held)
        self.versions.append((
            self.user_id, held.slot, seq, kind, full.id, full.channel, held.recorded_at, encode(full), FORMAT
        ))  # fmt: skip
        self.left.pop(held.slot, None)
        stored = self.written[held.slot] = Stored(held.slot, full)
        self.given[held.slot] = record
        return stored

    def _position(self, turn: Turn, held: Held) -> int:
        """The index of a turn: as given when it is free, else the one it has, else the next of its conversation."""
        conversation = turn.conversation_id
        if turn.index < 0:
            if held.place[0] == conversation and held.place[1] >= 0:
                return held.place[1]
            return self.state.last.get(conversation, -1) + 1
        if self.state.taken.get((conversation, turn.index), held.slot) != held.slot:
            raise InvalidRecord(
                f"index {turn.index} of conversation {conversation!r} is taken by another turn; "
                "leave it out to get the next one",
                field="index",
            )
        return turn.index


def _standing(seq: int | None) -> str:
    return "is absent" if seq is None else f"stands at {seq}"


def _check_keys(change: Change) -> None:
    keys = [record.key for record in (*change.puts, *change.ensures)] + list(change.retracts)
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
        if isinstance(record, Turn) and record.index > LAST_INDEX:
            raise InvalidRecord(f"index must be at most {LAST_INDEX:,}, got {record.index}", field="index")
