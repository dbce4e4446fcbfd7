"""What is made of a record for ranking: its row of the outline, and its terms in the word index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentmem.model.clock import to_micros
from agentmem.model.outline import CONTAINS_QUESTION, ENDS_WITH_QUESTION, MENTIONS_TIME, RecordRow
from agentmem.model.records import Fact, Gloss, Record
from agentmem.stores.payload import RecordMetadata, decode
from agentmem.text.features import TextFeatures, extract_features_and_terms

NO_FEATURES = TextFeatures(
    word_count=0, term_count=0, ends_with_question=False, contains_question=False, mentions_time=False
)


def build_column_row(ordinal: int, record: Record, features: TextFeatures | None = None) -> RecordRow:
    """The row of a stamped record; its text is read again when its features are not given."""
    if features is None:
        text = record.search_text()
        features = extract_features_and_terms(text)[0] if text else NO_FEATURES
    conversation, position = record.position_key()
    begins, ends = record.valid_interval()
    asks = (
        ENDS_WITH_QUESTION * features.ends_with_question
        | CONTAINS_QUESTION * features.contains_question
        | MENTIONS_TIME * features.mentions_time
    )
    return RecordRow(
        ordinal, record.seq, record.kind, record.id, record.channel, str(record.status), conversation, position,
        getattr(record, "speaker", None) or "", None if begins is None else to_micros(begins),
        None if ends is None else to_micros(ends), 0 if record.recorded_at is None else to_micros(record.recorded_at),
        None if record.superseded_at is None else to_micros(record.superseded_at), features.word_count,
        features.term_count, asks, getattr(record, "salience", 0.5), getattr(record, "confidence", 1.0),
        _source_turn_id(record),
    )  # fmt: skip


def _source_turn_id(record: Record) -> str:
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
    for ordinal, kind, payload, record_id, channel, recorded_at, seq in latest.values():
        text = decode(kind, payload, RecordMetadata(user_id, record_id, channel, recorded_at, seq, "")).search_text()
        rows.append((ordinal, tuple(extract_features_and_terms(text)[1]) if text else ()))
    return rows
