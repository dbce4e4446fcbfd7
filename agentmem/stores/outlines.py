"""What is made of a record for ranking: its row of the outline, and its terms in the word index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentmem.model.clock import micros
from agentmem.model.outline import ASKS_ANY, ASKS_LAST, TELLS_TIME, OutlineRow
from agentmem.model.records import Fact, Gloss, Record
from agentmem.stores.payload import Stamp, decode
from agentmem.text.features import Features, read_words

NO_FEATURES = Features(words=0, length=0, asks=False, any_ask=False, when=False)


def outline_row(slot: int, record: Record, features: Features | None = None) -> OutlineRow:
    """The row of a stamped record; its text is read again when its features are not given."""
    if features is None:
        text = record.searchable()
        features = read_words(text)[0] if text else NO_FEATURES
    conversation, position = record.place()
    begins, ends = record.span()
    asks = ASKS_LAST * features.asks | ASKS_ANY * features.any_ask | TELLS_TIME * features.when
    return OutlineRow(
        slot, record.seq, record.kind, record.id, record.channel, str(record.status), conversation, position,
        getattr(record, "speaker", None) or "", None if begins is None else micros(begins),
        None if ends is None else micros(ends), 0 if record.recorded_at is None else micros(record.recorded_at),
        None if record.superseded_at is None else micros(record.superseded_at), features.words, features.length, asks,
        getattr(record, "salience", 0.5), getattr(record, "confidence", 1.0), _turn_of(record),
    )  # fmt: skip


def _turn_of(record: Record) -> str:
    """The id of the turn whose meaning a record carries; "" for none."""
    if isinstance(record, Gloss):
        return record.id
    return record.source_turn_ids[0] if isinstance(record, Fact) and record.source_turn_ids else ""


def indexed_terms(user_id: str, payloads: Sequence[tuple[Any, ...]]) -> list[tuple[int, tuple[str, ...]]]:
    """What the word index holds of each slot: the terms of its latest version.

    Rows are slot, kind, payload, id, channel, recorded_at and seq, versions of a slot in order.
    """
    latest = {row[0]: row for row in payloads}
    rows = []
    for slot, kind, payload, record_id, channel, recorded_at, seq in latest.values():
        text = decode(kind, payload, Stamp(user_id, record_id, channel, recorded_at, seq, "")).searchable()
        rows.append((slot, tuple(read_words(text)[1]) if text else ()))
    return rows
