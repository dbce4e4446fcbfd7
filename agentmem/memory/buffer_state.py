"""The sizes of a buffer, and a buffer as JSON."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from agentmem.errors import InvalidRecord
from agentmem.memory.buffer_messages import Message
from agentmem.memory.buffer_search import Vector
from agentmem.model.records import to_invalid_record
from agentmem.providers import parse_dimensions


class _BufferModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class BufferSizes(_BufferModel):
    """`max_size` messages are the context window; `capacity` (None: `max_size` × `buffer_multiplier`) are kept.

    One more, and the oldest `summary_batch` go; of their summaries `max_summaries` are kept, the oldest out first.
    """

    max_size: int = Field(default=10, ge=1)
    buffer_multiplier: int = Field(default=10, ge=1)
    recency_bias: float = Field(default=0.3, ge=0, le=1, allow_inf_nan=False)
    capacity: int | None = Field(default=None, ge=1)
    summary_batch: int = Field(default=10, ge=1)
    max_summaries: int = Field(default=500, ge=1)

    @property
    def max_messages(self) -> int:
        """How many messages are kept."""
        return self.max_size * self.buffer_multiplier if self.capacity is None else self.capacity

    @classmethod
    def build(cls, **given: Any) -> Self:
        """The sizes; InvalidRecord naming the argument that is wrong."""
        try:
            return cls(**given)
        except ValidationError as error:
            raise to_invalid_record(error, "BufferMemory") from error


class BufferVectors(_BufferModel):
    """Vectors of summaries and messages, in that order: float32 as base64, None where there is none."""

    embedder: str = Field(pattern=r":[1-9]\d{0,5}$")
    values: tuple[str | None, ...]


class BufferState(_BufferModel):
    """All of a buffer. `count` is how many messages it was ever given."""

    version: Literal[1] = 1
    sizes: BufferSizes
    count: int = Field(ge=0)
    summaries: tuple[Message, ...]
    messages: tuple[Message, ...]
    vectors: BufferVectors | None = None

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        numbers = [message.number for message in (*self.summaries, *self.messages)]
        if any(after <= before for before, after in pairwise([0, *numbers])) or self.count < max(numbers, default=0):
            raise ValueError("messages must be numbered upwards from 1, up to count")
        return self

    @classmethod
    def parse(cls, text: str | bytes) -> Self:
        """The state from JSON; InvalidRecord naming the field that is wrong."""
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            raise to_invalid_record(error, "buffer") from error


def pack_vectors(embedder: str, texts: Sequence[str], known: Mapping[str, Vector | None]) -> BufferVectors:
    """The known vectors of texts, to be written."""
    rows = [known.get(text) for text in texts]
    values = [None if row is None else b64encode(row.astype("<f4").tobytes()).decode() for row in rows]
    return BufferVectors(embedder=embedder, values=tuple(values))


def unpack_vectors(vectors: BufferVectors, texts: Sequence[str]) -> dict[str, Vector]:
    """Vectors by their text; InvalidRecord when they do not fit the texts or the embedder."""
    if len(vectors.values) != len(texts):
        raise InvalidRecord(f"vectors: {len(vectors.values)} for {len(texts)} texts", field="vectors")
    out: dict[str, Vector] = {}
    for text, value in zip(texts, vectors.values, strict=True):
        if value is not None:
            out[text] = _decode_vector(value, parse_dimensions(vectors.embedder))
    return out


def _decode_vector(value: str, dimensions: int) -> Vector:
    try:
        row = np.frombuffer(b64decode(value, validate=True), dtype="<f4").astype(np.float32)
    except ValueError as error:
        raise InvalidRecord(f"vectors: not base64 of float32 numbers: {error}", field="vectors") from error
    if row.shape != (dimensions,) or not np.isfinite(row).all():
        raise InvalidRecord(f"vectors: one is not {dimensions} finite numbers", field="vectors")
    return row
