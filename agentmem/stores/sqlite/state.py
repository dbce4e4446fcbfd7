"""What a write must know of the current state, read under the user's lock."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain

from agentmem.model.changes import Change
from agentmem.model.records import Key, Turn
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
    if row is None:
        return State()
    state = State(*row)
    records = [record for change in changes for record in (*change.puts, *change.ensures)]
    for key in dict.fromkeys(chain((record.key for record in records), *((*c.retracts, *c.expects) for c in changes))):
        _read_held(db, user_id, state, key)
    for kind, channel, unique in {(r.kind, r.channel, unique) for r in records if (unique := r.unique())}:
        slots = db.execute(sql["holders"], (user_id, kind, channel, unique))
        state.sharing[kind, channel, unique].update(slot for (slot,) in slots)
    turns = [record for record in records if isinstance(record, Turn)]
    for conversation in {turn.conversation_id for turn in turns}:
        last = db.execute(sql["last_position"], (user_id, conversation)).get
        state.last[conversation] = max(state.last.get(conversation, -1), last)
    for place in {turn.place() for turn in turns if turn.index >= 0}:
        for (slot,) in db.execute(sql["at_position"], (user_id, *place)):
            state.taken[place] = slot
    return state


def _read_held(db: Connection, user_id: str, state: State, key: Key) -> None:
    row = db.execute(load_blocks(__package__, "append.sql")["held"], (user_id, *key)).fetchone()
    if row is None:
        return
    slot, recorded_at, seq, channel, unique, conversation, position = row
    held = state.held[key] = Held(slot, recorded_at)
    if seq is not None:
        held.seq, held.channel, held.unique, held.place = seq, channel, unique, (conversation, position)
        state.holds(key[0], held)
