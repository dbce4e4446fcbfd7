"""Which turns are still to be extracted: the current ones without a gloss, by the user's outline."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from agentmem.model.outline import NEVER, Bools, Ints, Outline

CONTEXT = 6  # turns before


@dataclass(frozen=True, slots=True)
class Pending:
    """A conversation in one channel with turns to extract: their slots in order of position, and those just before."""

    conversation_id: str
    channel: str
    slots: tuple[int, ...]
    before: tuple[int, ...]


def pending(outline: Outline, parked: Collection[int] = ()) -> list[Pending]:
    """Conversations with turns to extract, the one whose oldest such turn was stored first being first.

    `parked` are journal positions of turns that were given up.
    """
    waiting = _waiting(outline)
    if parked:
        waiting &= ~np.isin(outline.seqs, list(parked))
    if not waiting.any():
        return []
    order = outline.in_order()
    found = []
    for run in _runs(outline, order[_current(outline)[order]]):
        mine = run[waiting[run]]
        if len(mine):
            first = int(np.flatnonzero(waiting[run])[0])
            before = tuple(int(slot) for slot in run[max(0, first - CONTEXT) : first])
            found.append((int(outline.seqs[mine].min()), mine, before))
    found.sort(key=lambda each: each[0])
    return [
        Pending(
            outline.conversations.values[outline.conversation[mine[0]]],
            outline.channels.values[outline.channel[mine[0]]],
            tuple(int(slot) for slot in mine),
            before,
        )
        for _, mine, before in found
    ]  # fmt: skip


def _current(outline: Outline) -> Bools:
    active = outline.statuses.among(("active",))[outline.status]
    turns = outline.kind == outline.kinds.find("Turn")
    return np.asarray(turns & active & (outline.superseded_at == NEVER))


def _waiting(outline: Outline) -> Bools:
    """Current turns without a current gloss."""
    waiting = _current(outline)
    glosses = (outline.kind == outline.kinds.find("Gloss")) & (outline.superseded_at == NEVER)
    explained = outline.turn[glosses]
    waiting[explained[explained >= 0]] = False
    return waiting


def _runs(outline: Outline, order: Ints) -> Sequence[Ints]:
    """Slots in order, cut where channel or conversation change."""
    if not len(order):
        return []
    same = (outline.channel[order[1:]] == outline.channel[order[:-1]]) & (
        outline.conversation[order[1:]] == outline.conversation[order[:-1]]
    )
    return np.split(order, np.flatnonzero(~same) + 1)
