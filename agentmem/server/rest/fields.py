"""Types that several routes share."""

from __future__ import annotations

import base64
import json
from datetime import datetime
from typing import Annotated

from fastapi import Header
from pydantic import BeforeValidator, Field, Strict

from agentmem.core.plain_values import require_iso_text
from agentmem.core.record import Record
from agentmem.core.records import KINDS
from agentmem.core.scope import check_identifier
from agentmem.errors import InvalidRecord
from agentmem.server.limits import decode_header

MAX_SEQ = 1 << 63  # what stores can compare


Moment = Annotated[datetime, BeforeValidator(require_iso_text), Strict(False)]  # text also in a strict body
Limit = Annotated[int, Field(ge=0, le=1000)]
PageSize = Annotated[int, Field(ge=1, le=1000)]
IdempotencyKey = Annotated[
    str | None,
    BeforeValidator(decode_header),
    Header(alias="Idempotency-Key", description="Makes a retry safe."),
]


def encode_cursor(record: Record) -> str:
    """The cursor of what comes after a record."""
    place = json.dumps([record.seq, *record.key], separators=(",", ":"))
    return base64.urlsafe_b64encode(place.encode()).decode().rstrip("=")


def decode_cursor(cursor: str) -> tuple[int, str, str]:
    """The place of a cursor, among the caller's own records whatever it says; InvalidRecord for one of another form."""
    try:
        place = json.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
        seq, kind, record_id = place
        if type(seq) is not int or not 0 <= seq < MAX_SEQ or kind not in KINDS:
            raise ValueError
        return seq, kind, check_identifier(record_id, "cursor")
    except (ValueError, TypeError, RecursionError, InvalidRecord):
        raise InvalidRecord("cursor must be the next_cursor of another page", field="cursor") from None
