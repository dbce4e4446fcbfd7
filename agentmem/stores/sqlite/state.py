"""What a write must know of the current state, read under the user's lock."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from agentmem.model.changes import Change
from agentmem.model.records import Key, Turn
from agentmem.stores.draft import CurrentVersion, ReadSet
from agentmem.stores.sqlite.connection import Connection
from agentmem.text.blocks import load_templates


def read_state(db: Connection, user_id: str, changes: Sequence[Change]) -> ReadSet:
    """What these changes touch: their keys, whoever shares their unique values, and the ends of their conversations."""
    sql = load_templates(__package__, "append.sql")
    row = db.execute(sql["user"], (user_id,)).fetchone()
    if row is None:
        return ReadSet()
    state = ReadSet(*row)
    records = [record for change in changes for record in (*change.upserts, *change.inserts_if_absent)]
    for key in dict.fromkeys(
        chain((record.key for record in records), *((*c.deletes, *c.expected_versions) for c in changes))
    ):
        _read_version(db, user_id, state, key)
    for kind, channel, unique in {(r.kind, r.channel, unique) for r in records if (unique := r.dedup_key())}:
        ordinals = db.execute(sql["holders"], (user_id, kind, channel, unique))
        state.ordinals_by_dedup_key[kind, channel, unique].update(ordinal for (ordinal,) in ordinals)
    for kind in {kind for change in changes for kind in change.no_new_since}:
        state.last_seq_by_kind[kind] = db.execute(sql["newest"], (user_id, kind)).get
    turns = [record for record in records if isinstance(record, Turn)]
    for conversation in {turn.conversation_id for turn in turns}:
        for position, ordinal in db.execute(sql["last_turn"], (user_id, conversation)):
            state.last_position_by_conversation[conversation] = position
            state.ordinal_by_position[conversation, position] = ordinal
    for place in {turn.position_key() for turn in turns if turn.index >= 0}:
        for (ordinal,) in db.execute(sql["at_position"], (user_id, *place)):
            state.ordinal_by_position[place] = ordinal
    return state


def _read_version(db: Connection, user_id: str, read_set: ReadSet, key: Key) -> None:
    row = db.execute(load_templates(__package__, "append.sql")["held"], (user_id, *key)).fetchone()
    if row is None:
        return
    ordinal, recorded_at, seq, channel, unique, conversation, position = row
    held = read_set.versions[key] = CurrentVersion(ordinal, recorded_at)
    if seq is not None:
        held.seq, held.channel, held.dedup_key, held.position_key = seq, channel, unique, (conversation, position)
        read_set.claim(key[0], held)
