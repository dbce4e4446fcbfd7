"""What a write must know of the current state, asked in one go behind the user's lock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from agentmem.errors import LeaseLost
from agentmem.model.changes import Change
from agentmem.model.records import Turn
from agentmem.stores.draft import CurrentVersion, ReadSet
from agentmem.stores.postgres.columns import shorten_key, to_columns
from agentmem.stores.postgres.journal import key_columns
from agentmem.text.blocks import load_templates

if TYPE_CHECKING:
    from agentmem.stores.postgres.connection import Connection


@dataclass(frozen=True, slots=True)
class LockedReadSet:
    """The state that some changes touch, which of them the journal has, and how long the tail of the words is.

    `archived` are the conversations of their turns that are due for nothing.
    """

    read_set: ReadSet
    applied_rows: list[tuple[str, int, str]]  # change_id, seq, payload fingerprint
    archived: frozenset[str]
    delta_size: int


async def lock_and_read(db: Connection, user_id: str, changes: Sequence[Change], fence: int | None) -> LockedReadSet:
    """Take the user's lock and read what these changes touch. Raises LeaseLost for a fence that no lease has."""
    asked = {"user_id": user_id, **_build_read_params(changes)}
    while True:
        lock = await db.execute(_sql()["lock"], asked)
        fenced = None if fence is None else await db.execute(_sql()["fence"], {"fence": fence})
        answer = await db.execute(_sql()["state"], asked)
        row = await lock.fetchone()
        if fenced is not None and await fenced.fetchone() is None:
            raise LeaseLost("the lease of this writer has passed to another; nothing was written")
        if row is not None:
            return _build_locked_read_set(ReadSet(*row), *await answer.fetchall())
        # The first write of a user. What was asked above was asked without a lock, so it is asked again.
        await db.execute(_sql()["add_user"], asked)


def _build_read_params(changes: Sequence[Change]) -> dict[str, Any]:
    """What `state` is asked: all that these changes name."""
    records = [record for change in changes for record in (*change.upserts, *change.inserts_if_absent)]
    keys = dict.fromkeys(
        chain((record.key for record in records), *((*c.deletes, *c.expected_versions) for c in changes))
    )
    uniques = {(r.kind, r.channel, shorten_key(unique)) for r in records if (unique := r.dedup_key())}
    turns = [record for record in records if isinstance(record, Turn)]
    return {
        **key_columns(keys),
        **to_columns(("sharing", "channels", "keys"), uniques),
        "since": sorted({kind for change in changes for kind in change.no_new_since}),
        "conversations": list(dict.fromkeys(turn.conversation_id for turn in turns)),
        **to_columns(("places", "positions"), {turn.position_key() for turn in turns if turn.index >= 0}),
        "change_ids": [change.change_id for change in changes],
    }


def _build_locked_read_set(read_set: ReadSet, row: Sequence[Any]) -> LockedReadSet:
    *lists, tail = row
    held, sharing, newest, last, taken, applied, away = (rows or [] for rows in lists)
    for kind, record_id, ordinal, recorded_at, seq, channel, unique, conversation, position in held:
        known = read_set.versions[kind, record_id] = CurrentVersion(ordinal, recorded_at)
        if seq is not None:
            known.seq, known.channel, known.dedup_key, known.position_key = (
                seq,
                channel,
                unique,
                (conversation, position),
            )
            read_set.claim(kind, known)
    for kind, channel, unique, ordinal in sharing:
        read_set.ordinals_by_dedup_key[kind, channel, unique].add(ordinal)
    for kind, seq in newest:
        read_set.last_seq_by_kind[kind] = seq
    for conversation, position, ordinal in last:
        read_set.last_position_by_conversation[conversation] = max(
            read_set.last_position_by_conversation.get(conversation, -1), position
        )
        read_set.ordinal_by_position[conversation, position] = ordinal
    for conversation, position, ordinal in taken:
        read_set.ordinal_by_position[conversation, position] = ordinal
    done = [(change_id, seq, payload) for change_id, seq, payload in applied]
    return LockedReadSet(read_set, done, frozenset(away), tail or 0)


def _sql() -> Mapping[str, str]:
    return load_templates(__package__, "append.sql")
