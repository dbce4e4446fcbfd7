"""Why a record was no candidate: it does not exist, may not be seen, or came too far behind."""

from __future__ import annotations

import numpy as np

from agentmem.model.clock import to_micros
from agentmem.model.outline import HIDDEN_STATUSES, MAX_TIME
from agentmem.recall.query import RecallQuery
from agentmem.recall.receipt import Exclusion
from agentmem.recall.select import RankedSelection
from agentmem.recall.technique import SearchContext


def explain_exclusion(
    query: RecallQuery, context: SearchContext, selection: RankedSelection, record_id: str
) -> Exclusion:
    """The reason, from a recall repeated with a deeper pool."""
    ordinals = [
        ordinal
        for (_, key), ordinal in context.columns.ordinals_by_key.items()
        if key == record_id and ordinal < context.columns.size
    ]
    ordinals = [ordinal for ordinal in ordinals if context.columns.kind[ordinal] >= 0]
    if not ordinals:
        return Exclusion(False, "no record of this id was known then")
    ordinal = ordinals[0]
    if ordinal in selection.below_confidence:
        return Exclusion(False, "its confidence has faded below min_confidence")
    if context.mask[ordinal]:
        return Exclusion(False, _describe_rank(ordinal, selection))
    return Exclusion(False, f"not visible: {_describe_invisibility(ordinal, query, context)}")


def _describe_rank(ordinal: int, selection: RankedSelection) -> str:
    for kind, ordinals in selection.ordinals_by_kind.items():
        if len(found := np.flatnonzero(ordinals == ordinal)):
            return f"too far behind: place {int(found[0]) + 1} among {kind} records"
    return "too far behind to be given a place"


def _describe_invisibility(ordinal: int, query: RecallQuery, context: SearchContext) -> str:
    columns, request, scope = context.columns, query.request, context.scope
    channel = columns.channels.values[columns.channel[ordinal]]
    status = columns.statuses.values[columns.status[ordinal]]
    kind = columns.kinds.values[columns.kind[ordinal]]
    begins = int(columns.valid_from[ordinal])
    now = to_micros(query.now)
    weak = request.min_confidence is not None and bool(columns.confidence[ordinal] < request.min_confidence)
    tests = (
        (channel not in scope.readable_channels(), f"its channel {channel!r} is not read here"),
        (kind not in request.kinds, f"{kind} records are not included"),
        (status in HIDDEN_STATUSES, f"it is {status}"),
        (columns.superseded_at[ordinal] != MAX_TIME, "it was superseded"),
        (columns.valid_to[ordinal] <= now, "it had ended by then"),
        (request.as_of is not None and begins > now, "it was not true yet"),
        (weak, "its confidence is below min_confidence"),
    )
    return next((text for fails, text in tests if fails), "it lies outside of the time asked for")
