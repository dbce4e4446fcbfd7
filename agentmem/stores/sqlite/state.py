"""What a write must know of the current state, read under the user's lock."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from agentmem.model.changes import Change
from agentmem.model.records import Key, Turn
from agentmem.stores.draft import Held, State
from agentmem.stores.sqlite.connection import Connection
from agentmem.text.blocks import load_blocks


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
    for kind in {kind for change in changes for kind in change.since}:
        state.newest[kind] = db.execute(sql["newest"], (user_id, kind)).get
    turns = [record for record in records if isinstance(record, Turn)]
    for conversation in {turn.conversation_id for turn in turns}:
        for position, slot in db.execute(sql["last_turn"], (user_id, conversation)):
            state.last[conversation] = position
            state.taken[conversation, position] = slot
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
