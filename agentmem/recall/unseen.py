"""Why a record was no candidate: it does not exist, may not be seen, or came too far behind."""

from __future__ import annotations

import numpy as np

from agentmem.model.clock import micros
from agentmem.model.outline import HIDDEN, NEVER
from agentmem.recall.query import Query
from agentmem.recall.receipt import WhyNot
from agentmem.recall.select import Selection
from agentmem.recall.technique import Memory


def unseen(query: Query, memory: Memory, selection: Selection, record_id: str) -> WhyNot:
    """The reason, from a recall repeated with a deeper pool."""
    slots = [slot for (_, key), slot in memory.outline.slots.items() if key == record_id and slot < memory.outline.size]
    slots = [slot for slot in slots if memory.outline.kind[slot] >= 0]
    if not slots:
        return WhyNot(False, "no record of this id was known then")
    slot = slots[0]
    if slot in selection.unsure:
        return WhyNot(False, "its confidence has faded below min_confidence")
    if memory.mask[slot]:
        return WhyNot(False, _too_far(slot, selection))
    return WhyNot(False, f"not visible: {_hidden(slot, query, memory)}")


def _too_far(slot: int, selection: Selection) -> str:
    for kind, slots in selection.kinds.items():
        if len(found := np.flatnonzero(slots == slot)):
            return f"too far behind: place {int(found[0]) + 1} among {kind} records"
    return "too far behind to be given a place"


def _hidden(slot: int, query: Query, memory: Memory) -> str:
    outline, request, scope = memory.outline, query.request, memory.scope
    channel = outline.channels.values[outline.channel[slot]]
    status = outline.statuses.values[outline.status[slot]]
    kind = outline.kinds.values[outline.kind[slot]]
    begins = int(outline.valid_from[slot])
    now = micros(query.now)
    weak = request.min_confidence is not None and bool(outline.confidence[slot] < request.min_confidence)
    tests = (
        (channel not in scope.readable(), f"its channel {channel!r} is not read here"),
        (kind not in request.kinds, f"{kind} records are not included"),
        (status in HIDDEN, f"it is {status}"),
        (outline.superseded_at[slot] != NEVER, "it was superseded"),
        (outline.valid_to[slot] <= now, "it had ended by then"),
        (request.as_of is not None and begins > now, "it was not true yet"),
        (weak, "its confidence is below min_confidence"),
    )
    return next((text for fails, text in tests if fails), "it lies outside of the time asked for")
