"""What a write must know of the current state, asked in one go behind the user's lock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from agentmem.errors import LeaseLost
from agentmem.model.changes import Change
from agentmem.model.records import Turn
from agentmem.stores.draft import Held, State
from agentmem.stores.postgres.columns import columnar, kept_key
from agentmem.stores.postgres.journal import columns
from agentmem.text.blocks import load_blocks

if TYPE_CHECKING:
    from agentmem.stores.postgres.connection import Connection


@dataclass(frozen=True, slots=True)
class Found:
    """The state that some changes touch, which of them the journal has, and how long the tail of the words is.

    `put_away` are the conversations of their turns that are due for nothing.
    """

    state: State
    applied: list[tuple[str, int, str]]  # change_id, seq, payload fingerprint
    put_away: frozenset[str]
    tail: int


async def lock_and_read(db: Connection, user_id: str, changes: Sequence[Change], fence: int | None) -> Found:
    """Take the user's lock and read what these changes touch. Raises LeaseLost for a fence that no lease has."""
    asked = {"user_id": user_id, **_asked(changes)}
    while True:
        lock = await db.execute(_sql()["lock"], asked)
        fenced = None if fence is None else await db.execute(_sql()["fence"], {"fence": fence})
        answer = await db.execute(_sql()["state"], asked)
        row = await lock.fetchone()
        if fenced is not None and await fenced.fetchone() is None:
            raise LeaseLost("the lease of this writer has passed to another; nothing was written")
        if row is not None:
            return _found(State(*row), *await answer.fetchall())
        # The first write of a user. What was asked above was asked without a lock, so it is asked again.
        await db.execute(_sql()["add_user"], asked)


def _asked(changes: Sequence[Change]) -> dict[str, Any]:
    """What `state` is asked: all that these changes name."""
    records = [record for change in changes for record in (*change.puts, *change.ensures)]
    keys = dict.fromkeys(chain((record.key for record in records), *((*c.retracts, *c.expects) for c in changes)))
    uniques = {(r.kind, r.channel, kept_key(unique)) for r in records if (unique := r.unique())}
    turns = [record for record in records if isinstance(record, Turn)]
    return {
        **columns(keys),
        **columnar(("sharing", "channels", "keys"), uniques),
        "since": sorted({kind for change in changes for kind in change.since}),
        "conversations": list(dict.fromkeys(turn.conversation_id for turn in turns)),
        **columnar(("places", "positions"), {turn.place() for turn in turns if turn.index >= 0}),
        "change_ids": [change.change_id for change in changes],
    }


def _found(state: State, answer: Sequence[Any]) -> Found:
    *lists, tail = answer
    held, sharing, newest, last, taken, applied, away = (rows or [] for rows in lists)
    for kind, record_id, slot, recorded_at, seq, channel, unique, conversation, position in held:
        known = state.held[kind, record_id] = Held(slot, recorded_at)
        if seq is not None:
            known.seq, known.channel, known.unique, known.place = seq, channel, unique, (conversation, position)
            state.holds(kind, known)
    for kind, channel, unique, slot in sharing:
        state.sharing[kind, channel, unique].add(slot)
    for kind, seq in newest:
        state.newest[kind] = seq
    for conversation, position, slot in last:
        state.last[conversation] = max(state.last.get(conversation, -1), position)
        state.taken[conversation, position] = slot
    for conversation, position, slot in taken:
        state.taken[conversation, position] = slot
    done = [(change_id, seq, payload) for change_id, seq, payload in applied]
    return Found(state, done, frozenset(away), tail or 0)


def _sql() -> Mapping[str, str]:
    return load_blocks(__package__, "append.sql")
