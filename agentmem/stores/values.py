"""What passes between memory and stores besides records: filters, positions, postings, scores, batches, usage."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from agentmem.model.outline import Floats, Ints
from agentmem.model.records import Edge, Key

WHOLE, SENTENCE = "whole", "sentence"


@dataclass(frozen=True, slots=True)
class Where:
    """A filter over current records, all parts joined by and; None does not filter."""

    kinds: tuple[str, ...] | None = None
    channels: tuple[str, ...] | None = None
    conversation_id: str | None = None
    status: tuple[str, ...] | None = None
    key: tuple[str, ...] | None = None  # Record.unique() values
    ids: tuple[str, ...] | None = None
    after: str | None = None  # ids that come after this one
    since: datetime | None = None  # world time begins at or after
    until: datetime | None = None  # world time begins before


class Head(NamedTuple):
    """How far a user's journal reaches. `erasures` grows when something was erased: then caches are dropped whole.

    `at` is the latest record time, in microseconds since 1970: what is known now may be no older. `embedder` is the
    identity that the store records now, "" before the first one. `marks` are positions that projections have reached,
    by name, where a log on a server has them at hand: exact for vectors, for a graph as it was last noted.
    """

    seq: int
    erasures: int
    at: int
    embedder: str = ""
    marks: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Postings:
    """Matches of one term: slots (ascending) and how often it occurs in each."""

    slots: Ints
    counts: Floats


@dataclass(frozen=True, slots=True)
class Scores:
    """A score per passage. `slots` name the records; a record with several passages occurs several times.

    `asks` is `Passage.asks`: whether that passage ends by asking.
    """

    slots: Ints
    parts: NDArray[np.int32]
    scores: Floats
    asks: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Passage:
    """A searchable piece of a record with its vector: grain `whole` or `sentence`, part, span in characters.

    `vector` is float16, unit length. `tokens`: int32 ids and int8 vectors of the word pieces, when they are kept.
    `asks`: the passage ends with a question mark.
    """

    slot: int
    kind: str
    channel: str
    grain: str
    part: int
    span: tuple[int, int]
    vector: NDArray[np.float16]
    tokens: tuple[NDArray[np.int32], NDArray[np.int8]] | None = None
    asks: bool = False


@dataclass(frozen=True, slots=True)
class Batch:
    """What a vector projection writes for one user: `after` is the watermark it is built on, `through` the next one.

    The passages of every slot in `replaced` are taken out first. It applies only when the stored watermark equals
    `after`; otherwise nothing happens.
    """

    after: int
    through: int
    passages: Sequence[Passage] = ()
    replaced: Collection[int] = ()


@dataclass(frozen=True, slots=True)
class Usage:
    """How a record was used; truth beside the journal."""

    kind: str
    id: str
    access_count: int = 0
    use_count: int = 0
    last_accessed: datetime | None = None
    strength: float = 1.0
    conversations: int = 0
    review_priority: float = 0.0
    last_review_at: datetime | None = None
    review_count: int = 0
    cross_domain_count: int = 0


@dataclass(frozen=True, slots=True)
class Parked:
    """A change that a projection could not apply and passed over."""

    projection: str
    user_id: str
    seq: int
    reason: str
    attempts: int
    at: datetime


@dataclass(frozen=True, slots=True)
class Scan:
    """What an erasure looked through, and what it still found: `remnants` maps a place to a number of rows."""

    places: tuple[str, ...]
    remnants: Mapping[str, int] = field(default_factory=dict)
    pending: tuple[str, ...] = ()


class Neighbour(NamedTuple):
    """A record reached over the graph: how far, and over which edge it was first reached."""

    key: Key
    distance: int
    edge: Edge
