"""Which turns are still to be extracted: the current ones without a gloss, by the user's outline."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from agentmem.model.outline import MAX_TIME, Bools, Ints, RecordColumns

MAX_CONTEXT_TURNS = 6  # turns before


@dataclass(frozen=True, slots=True)
class PendingConversation:
    """A conversation in one channel with turns to extract: their slots in order of position, and those just before."""

    conversation_id: str
    channel: str
    ordinals: tuple[int, ...]
    context_ordinals: tuple[int, ...]


def find_pending_conversations(
    columns: RecordColumns, dead_letter_seqs: Collection[int] = ()
) -> list[PendingConversation]:
    """Conversations with turns to extract, the one whose oldest such turn was stored first being first.

    `dead_letter_seqs` are journal positions of turns that were given up.
    """
    waiting = _pending_turns_mask(columns)
    if dead_letter_seqs:
        waiting &= ~np.isin(columns.seqs, list(dead_letter_seqs))
    if not waiting.any():
        return []
    order = columns.conversation_order()
    found = []
    for run in _split_by_conversation(columns, order[_current_turns_mask(columns)[order]]):
        mine = run[waiting[run]]
        if len(mine):
            first = int(np.flatnonzero(waiting[run])[0])
            before = tuple(int(ordinal) for ordinal in run[max(0, first - MAX_CONTEXT_TURNS) : first])
            found.append((int(columns.seqs[mine].min()), mine, before))
    found.sort(key=lambda each: each[0])
    return [
        PendingConversation(
            columns.conversations.values[columns.conversation[mine[0]]],
            columns.channels.values[columns.channel[mine[0]]],
            tuple(int(ordinal) for ordinal in mine),
            before,
        )
        for _, mine, before in found
    ]  # fmt: skip


def _current_turns_mask(columns: RecordColumns) -> Bools:
    active = columns.statuses.mask_for(("active",))[columns.status]
    turns = columns.kind == columns.kinds.find_code("Turn")
    return np.asarray(turns & active & (columns.superseded_at == MAX_TIME))


def _pending_turns_mask(columns: RecordColumns) -> Bools:
    """Current turns without a current gloss."""
    waiting = _current_turns_mask(columns)
    glosses = (columns.kind == columns.kinds.find_code("Gloss")) & (columns.superseded_at == MAX_TIME)
    explained = columns.turn[glosses]
    waiting[explained[explained >= 0]] = False
    return waiting


def _split_by_conversation(columns: RecordColumns, order: Ints) -> Sequence[Ints]:
    """Slots in order, cut where channel or conversation change."""
    if not len(order):
        return []
    same = (columns.channel[order[1:]] == columns.channel[order[:-1]]) & (
        columns.conversation[order[1:]] == columns.conversation[order[:-1]]
    )
    return np.split(order, np.flatnonzero(~same) + 1)
