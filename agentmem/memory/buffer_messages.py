"""What a buffer holds, messages and the summaries that came of them, and what a search of it gives."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from agentmem.errors import InvalidRecord
from agentmem.model.record import Text, UtcDatetime

SUMMARY_ROLE = "summary"


class Message(BaseModel):
    """One message, verbatim, or a summary (role `summary`) of those that `covers` names.

    `number` counts what the buffer was ever given, from 1; a summary bears the number of the last message in it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    role: str = Field(min_length=1, max_length=20)
    content: Text
    timestamp: UtcDatetime
    metadata: dict[str, Any] = Field(default_factory=dict)
    number: int = Field(default=0, ge=0)
    covers: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class MessageMatch:
    """A message that a search found, its score, and what that is made of.

    `semantic` is the cosine with the query, None where nothing could be compared; `recency` is 1 for the newest.
    """

    message: Message
    score: float
    semantic: float | None
    recency: float


def to_json_dict(value: Mapping[str, Any] | None, field: str = "metadata") -> dict[str, Any]:
    """A copy of a mapping as JSON has it; InvalidRecord naming the field for what JSON cannot hold."""
    if value is not None and not isinstance(value, Mapping):
        raise InvalidRecord(f"{field} must be a mapping, got {type(value).__name__}", field=field)
    try:
        copied: dict[str, Any] = json.loads(json.dumps(dict(value or {}), allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRecord(f"{field} must hold JSON values only: {error}", field=field) from error
    return copied


def matches_metadata(metadata: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether every wanted entry is there with the same value; true and 1 are not the same."""
    return all(name in metadata and _is_same_json(metadata[name], value) for name, value in wanted.items())


def _is_same_json(one: Any, other: Any) -> bool:
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def build_summary_message(batch: Sequence[Message], text: str) -> Message:
    """What stands in the place of messages; of their metadata it bears what all of them have in common."""
    first, *rest = batch
    shared = {
        name: value
        for name, value in first.metadata.items()
        if all(matches_metadata(m.metadata, {name: value}) for m in rest)
    }
    last = batch[-1]
    return Message(
        role=SUMMARY_ROLE, content=text, timestamp=last.timestamp, metadata=shared, number=last.number,
        covers=(first.number, last.number),
    )  # fmt: skip


def check_positive_int(value: object, field: str) -> int:
    """The whole number, which must be 1 or more; InvalidRecord naming the field otherwise."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidRecord(f"{field} must be a whole number from 1, got {value!r}", field=field)
    return value
