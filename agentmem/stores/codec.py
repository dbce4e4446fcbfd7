"""Records as JSON and back, columns derived from them, and audit rows."""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from agentmem.core.changes import AuditEntry
from agentmem.core.clock import derive_id, from_micros, to_micros, to_utc
from agentmem.core.columns import CONTAINS_QUESTION, ENDS_WITH_QUESTION, MENTIONS_TIME, RecordRow
from agentmem.core.plain_values import describe_value
from agentmem.core.record import Record
from agentmem.core.records import KINDS, Fact, Gloss
from agentmem.errors import InvalidRecord, SchemaMismatch
from agentmem.text.tokenizer import TextFeatures, extract_features_and_terms

PAYLOAD_FORMAT = 1
R = TypeVar("R", bound=Record)
S = TypeVar("S", str, str | None)
MAX_KEY_CHARS = 500  # of a unique value on a server: a row of a btree has room for 2,700 bytes
_EXCLUDED_FIELDS = set(Record.NON_PAYLOAD_FIELDS)

NO_FEATURES = TextFeatures(
    word_count=0, term_count=0, ends_with_question=False, contains_question=False, mentions_time=False
)

AUDIT_FILTERS = ("operation", "memory_type", "since", "until", "session_id", "success", "own_channel", "limit")


_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_encode_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str).encode


class RecordMetadata(NamedTuple):
    """What the log adds to a record: its user, since when it is known, and the change that wrote it."""

    user_id: str
    id: str
    channel: str
    recorded_at: int
    seq: int
    operation_id: str


def encode(record: Record) -> str:
    """The record's payload: compact JSON of the fields that differ from their defaults, without what the log stamps.

    Raises InvalidRecord when a mapping in it holds what JSON cannot say.
    """
    try:
        return record.model_dump_json(exclude_defaults=True, exclude=_EXCLUDED_FIELDS)
    except (PydanticSerializationError, ValueError) as error:
        field = _find_invalid_field(record)
        message = f"{record.kind}.{field} holds a value that cannot be stored as JSON: {error}"
        raise InvalidRecord(message, field=field) from error


def decode(kind: str, payload: str, metadata: RecordMetadata) -> Record:
    """The record of a payload with its stamp. Raises SchemaMismatch for what this version does not know."""
    if kind not in KINDS:
        raise SchemaMismatch(f"the store holds a record of kind {kind!r}, which this version does not know; upgrade it")
    try:
        # Validating costs 4 µs, as much as parsing alone in Python.
        record = KINDS[kind].model_validate_json(payload)
    except ValidationError as error:
        where = ", ".join(str(item["loc"]) for item in error.errors(include_input=False, include_url=False))
        raise SchemaMismatch(
            f"{kind} {metadata.id!r} was stored by another version: it does not fit in {where}"
        ) from error
    return attach_metadata(record, metadata)


def attach_metadata(record: R, metadata: RecordMetadata, **fields: Any) -> R:
    """The same record with its stamp, and other fields that the log sets."""
    made = type(record).__new__(type(record))
    values = {
        **record.__dict__,
        **fields,
        "user_id": metadata.user_id,
        "id": metadata.id,
        "channel": metadata.channel,
        "recorded_at": from_micros(metadata.recorded_at),
        "seq": metadata.seq,
        "operation_id": metadata.operation_id,
    }
    # What `model_copy` does, at half the price: a thousand records are stamped under the user's lock.
    object.__setattr__(made, "__dict__", values)
    object.__setattr__(made, "__pydantic_fields_set__", {*record.model_fields_set, *fields, *Record.NON_PAYLOAD_FIELDS})
    object.__setattr__(made, "__pydantic_extra__", None)
    object.__setattr__(made, "__pydantic_private__", None)
    return made


def _find_invalid_field(record: Record) -> str:
    for name in type(record).model_fields:
        try:
            record.model_dump_json(include={name})
        except (PydanticSerializationError, ValueError):
            return name
    return record.kind


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
        ordinal,
        record.seq,
        record.kind,
        record.id,
        record.channel,
        str(record.status),
        conversation,
        position,
        getattr(record, "speaker", None) or "",
        None if begins is None else to_micros(begins),
        None if ends is None else to_micros(ends),
        0 if record.recorded_at is None else to_micros(record.recorded_at),
        None if record.superseded_at is None else to_micros(record.superseded_at),
        features.word_count,
        features.term_count,
        asks,
        getattr(record, "salience", 0.5),
        getattr(record, "confidence", 1.0),
        _source_turn_id(record),
    )


def _source_turn_id(record: Record) -> str:
    """The id of the turn whose meaning a record carries; "" for none."""
    if isinstance(record, Gloss):
        return record.id
    return record.source_turn_ids[0] if isinstance(record, Fact) and record.source_turn_ids else ""


def sanitize_text(text: S) -> S:
    """The text with U+FFFD in place of NUL and `?` in place of lone surrogates, which text columns refuse."""
    if not text:
        return text
    if text.isascii():
        return text if "\x00" not in text else text.replace("\x00", "\ufffd")
    return text.encode("utf-8", "replace").decode().replace("\x00", "\ufffd")


def render_json(value: Any) -> str:
    """Compact JSON that every store takes; numbers that JSON does not have become text."""
    text = _encode_json(value)
    if "NaN" in text or "Infinity" in text:
        text = _encode_json(json.loads(text, parse_constant=str))
    return sanitize_text(text).replace("\\u0000", "\ufffd")


def to_uuid(user_id: str, name: str | None) -> uuid.UUID | None:
    """A conversation's id for a UUID column: itself when it is one, else made from user and id."""
    if not name:
        return None
    return uuid.UUID(name if _UUID.fullmatch(name) else derive_id(user_id, name))


def shorten_key(dedup_key: str) -> str:
    """The unique value of a record as a server stores it and looks it up: a long one by its digest."""
    dedup_key = sanitize_text(dedup_key)
    return dedup_key if len(dedup_key) <= MAX_KEY_CHARS else hashlib.sha256(dedup_key.encode()).hexdigest()


def check_audit_filters(names: Iterable[str]) -> None:
    """Raise InvalidRecord for a filter that is none."""
    for name in names:
        if name not in AUDIT_FILTERS:
            raise InvalidRecord(
                f"audit rows are filtered by {', '.join(AUDIT_FILTERS)}, got {describe_value(name)}", field=name
            )


def format_timestamp(timestamp: datetime) -> str:
    """A moment as the audit log writes it, in UTC with microseconds: text order is time order."""
    return to_utc(timestamp).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def redact_audit(entry: AuditEntry) -> AuditEntry:
    """The row without query, error and details, as erasure leaves one."""
    return replace(entry, query_text=None, error_message=None, metadata={})
