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
    """The state that some changes touch, which of them the journal has, and how long the tail of the words is."""

    state: State
    applied: list[tuple[str, int, str]]  # change_id, seq, payload fingerprint
    tail: int


async def lock_and_read(db: Connection, user_id: str, changes: Sequence[Change], fence: int | None) -> Found:
    """Take the user's lock and read what these changes touch. Raises LeaseLost for a fence that no lease has."""
    while True:
        lock = await db.execute(_sql("append")["lock"], {"user_id": user_id})
        fenced = None if fence is None else await db.execute(_sql("append")["fence"], {"fence": fence})
        answers = await _ask(db, user_id, changes)
        row = await lock.fetchone()
        if fenced is not None and await fenced.fetchone() is None:
            raise LeaseLost("the lease of this writer has passed to another; nothing was written")
        if row is not None:
            return await _found(State(*row), answers)
        # The first write of a user. What was asked above was asked without a lock, so it is asked again.
        await db.execute(_sql("append")["add_user"], {"user_id": user_id})


async def _ask(db: Connection, user_id: str, changes: Sequence[Change]) -> Mapping[str, Any]:
    """Send every question; the answers come later."""
    records = [record for change in changes for record in (*change.puts, *change.ensures)]
    keys = dict.fromkeys(chain((record.key for record in records), *((*c.retracts, *c.expects) for c in changes)))
    uniques = {(r.kind, r.channel, kept_key(unique)) for r in records if (unique := r.unique())}
    turns = [record for record in records if isinstance(record, Turn)]
    conversations = list(dict.fromkeys(turn.conversation_id for turn in turns))
    places = list({turn.place() for turn in turns if turn.index >= 0})
    asked: dict[str, dict[str, Any]] = {"held": columns(keys)}
    if uniques:
        asked["holders"] = columnar(("kinds", "channels", "keys"), uniques)
    if since := sorted({kind for change in changes for kind in change.since}):
        asked["newest"] = {"kinds": since}
    if conversations:
        asked["last_turns"] = {"conversations": conversations}
    if places:
        asked["at_positions"] = columnar(("conversations", "positions"), places)
    answers = {name: await db.execute(_sql("append")[name], {"user_id": user_id, **asked[name]}) for name in asked}
    ids = {"user_id": user_id, "change_ids": [change.change_id for change in changes]}
    answers["applied"] = await db.execute(_sql("journal")["applied"], ids)
    answers["tail"] = await db.execute(_sql("words")["state"], {"user_id": user_id})
    return answers


async def _found(state: State, answers: Mapping[str, Any]) -> Found:
    async def rows(name: str) -> list[Any]:
        return await answers[name].fetchall() if name in answers else []

    for kind, record_id, slot, recorded_at, seq, channel, unique, conversation, position in await rows("held"):
        held = state.held[kind, record_id] = Held(slot, recorded_at)
        if seq is not None:
            held.seq, held.channel, held.unique, held.place = seq, channel, unique, (conversation, position)
            state.holds(kind, held)
    for kind, channel, unique, slot in await rows("holders"):
        state.sharing[kind, channel, unique].add(slot)
    state.newest.update(await rows("newest"))
    for conversation, position, slot in await rows("last_turns"):
        state.last[conversation] = max(state.last.get(conversation, -1), position)
        state.taken[conversation, position] = slot
    for conversation, position, slot in await rows("at_positions"):
        state.taken[conversation, position] = slot
    tail = await rows("tail")
    return Found(state, await rows("applied"), tail[0][0] if tail else 0)


def _sql(name: str) -> Mapping[str, str]:
    return load_blocks(__package__, f"{name}.sql")
