"""Values as Postgres can hold them: text without NUL, keys short enough for an index, JSON without NaN."""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from agentmem.model.clock import derive_id

MAX_KEY_CHARS = 500  # characters; a row of a btree has room for 2,700 bytes
_encode_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str).encode
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def sanitize_text(text: str | None) -> str | None:
    """The text with a mark in place of what a text column refuses: NUL, and lone surrogates."""
    if text is None or text.isascii():
        return text if text is None or "\x00" not in text else text.replace("\x00", "\ufffd")
    return text.encode("utf-8", "replace").decode().replace("\x00", "\ufffd")


def render_json(value: Any) -> str:
    """JSON that a jsonb column takes; numbers that JSON does not have become text."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    if "NaN" in text or "Infinity" in text:
        text = json.dumps(json.loads(text, parse_constant=str), ensure_ascii=False)
    return (sanitize_text(text) or "").replace("\\u0000", "\ufffd")


def shorten_key(dedup_key: str) -> str:
    """The unique value of a record as it is stored and looked up: a long one by its digest."""
    dedup_key = sanitize_text(dedup_key) or ""
    return dedup_key if len(dedup_key) <= MAX_KEY_CHARS else hashlib.sha256(dedup_key.encode()).hexdigest()


def to_uuid(user_id: str, name: str | None) -> uuid.UUID | None:
    """A conversation's id for a UUID column: itself when it is one, else made from user and id."""
    if not name:
        return None
    return uuid.UUID(name if _UUID.fullmatch(name) else derive_id(user_id, name))


def render_rows(names: Sequence[str], rows: Iterable[Sequence[Any]], *, text_columns: Collection[str] = ()) -> str:
    """Rows as the JSON that `json_populate_recordset` takes; the columns in `text_columns` may hold any text."""
    given = [dict(zip(names, row, strict=True)) for row in rows]
    for row in given:
        row.update({name: sanitize_text(row[name]) for name in text_columns})
    return _encode_json(given)


def to_columns(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> dict[str, list[Any]]:
    """Rows as one list per column, as the statements that write many rows take them."""
    turned = list(zip(*rows, strict=True)) or [()] * len(names)
    return {name: list(column) for name, column in zip(names, turned, strict=True)}
