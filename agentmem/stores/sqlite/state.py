"""What a write must know of the current state, read under the user's lock in a handful of statements."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from agentmem.model.changes import Change
from agentmem.model.records import Key, Record, Turn
from agentmem.stores.sqlite.connection import Connection
from agentmem.text.blocks import load_blocks


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
    last: dict[str, int] = field(default_factory=dict)  # the highest position of a conversation
    taken: dict[tuple[str, int], int] = field(default_factory=dict)  # (conversation, position): slot

    def holds(self, kind: str, held: Held) -> None:
        """Note the unique value and the position that a current record has."""
        if held.unique:
            self.sharing[kind, held.channel, held.unique].add(held.slot)
        conversation, position = held.place
        if position >= 0:
            self.taken[held.place] = held.slot
            self.last[conversation] = max(self.last.get(conversation, -1), position)

    def releases(self, kind: str, held: Held) -> None:
        """Free the unique value and the position that a record had."""
        if held.unique:
            self.sharing[kind, held.channel, held.unique].discard(held.slot)
        if self.taken.get(held.place) == held.slot:
            del self.taken[held.place]


def read_state(db: Connection, user_id: str, changes: Sequence[Change]) -> State:
    """What these changes touch: their keys, whoever shares their unique values, and the ends of their conversations."""
    sql = load_blocks(__package__, "append.sql")
    row = db.execute(sql["user"], (user_id,)).fetchone()
    state = State(*row) if row else State()
    if state.head:
        _read_held(db, user_id, state, changes)
    records = [record for change in changes for record in (*change.puts, *change.ensures)]
    if not state.head or not records:
        return state
    uniques = sorted({(r.kind, r.channel, unique) for r in records if (unique := r.unique())})
    if uniques:
        for kind, channel, unique, slot in db.execute(sql["holders"], (user_id, json.dumps(uniques))):
            state.sharing[kind, channel, unique].add(slot)
    turns = [record for record in records if isinstance(record, Turn)]
    conversations = sorted({turn.conversation_id for turn in turns})
    if conversations:
        for conversation, position in db.execute(sql["last_positions"], (user_id, json.dumps(conversations))):
            if position is not None:
                state.last[conversation] = max(state.last.get(conversation, -1), position)
    given = [turn.place() for turn in turns if turn.index >= 0]
    if given:
        for conversation, position, slot in db.execute(sql["at_positions"], (user_id, json.dumps(given))):
            state.taken[conversation, position] = slot
    return state


def _read_held(db: Connection, user_id: str, state: State, changes: Sequence[Change]) -> None:
    sql = load_blocks(__package__, "append.sql")
    for kind, ids in _by_kind(changes).items():
        for record_id, *row, conversation, position in db.execute(sql["current"], (user_id, kind, json.dumps(ids))):
            slot, seq, recorded_at, channel, unique = row
            held = Held(slot, recorded_at, seq, channel, unique, (conversation, position))
            state.held[kind, record_id] = held
            state.holds(kind, held)
        missing = [record_id for record_id in ids if (kind, record_id) not in state.held]
        if missing:
            for record_id, slot, recorded_at in db.execute(sql["former"], (user_id, kind, json.dumps(missing))):
                state.held[kind, record_id] = Held(slot, recorded_at)


def _by_kind(changes: Iterable[Change]) -> dict[str, list[str]]:
    keys: dict[str, dict[str, None]] = defaultdict(dict)
    for change in changes:
        for kind, record_id in (*_keys(change.puts), *_keys(change.ensures), *change.retracts, *change.expects):
            keys[kind][record_id] = None
    return {kind: list(ids) for kind, ids in keys.items()}


def _keys(records: Iterable[Record]) -> list[Key]:
    return [record.key for record in records]
