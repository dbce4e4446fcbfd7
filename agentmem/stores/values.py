"""What passes between memory and stores besides records: filters, positions, postings, scores, batches, usage."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agentmem.core.columns import Floats, Ints
from agentmem.core.record import Key
from agentmem.core.records import Edge

WHOLE, SENTENCE = "whole", "sentence"


@dataclass(frozen=True, slots=True)
class Where:
    """A filter over current records, all parts joined by and; None does not filter."""

    kinds: tuple[str, ...] | None = None
    channels: tuple[str, ...] | None = None
    conversation_id: str | None = None
    status: tuple[str, ...] | None = None
    dedup_keys: tuple[str, ...] | None = None  # Record.dedup_key() values
    ids: tuple[str, ...] | None = None
    after_id: str | None = None  # ids that come after this one
    after: tuple[int, str, str] | None = None  # what comes after this seq, kind and id in the order of `seq`
    since: datetime | None = None  # world time begins at or after
    until: datetime | None = None  # world time begins before
    dedup_prefix: str | None = None  # what `Record.dedup_key()` begins with
    ends_after: datetime | None = None  # world time ends after, or never


def prefix_range(prefix: str) -> tuple[str, str]:
    """The first text with a prefix, and the first behind all of them, in the order of code points."""
    return prefix, prefix[:-1] + chr(ord(prefix[-1]) + 1)


class Head(NamedTuple):
    """How far a user's journal reaches. `erasures` grows when something was erased: then caches are dropped whole.

    `last_at` is the latest record time, in microseconds since 1970: what is known now may be no older. `embedder` is
    the identity that the store records now, "" before the first one. `watermarks` are positions that projections have
    reached, by name, where a log on a server has them at hand: exact for vectors, for a graph as it was last noted.

    `operation_id` is that of the change at `seq`, `operation_id_after` that of the change at the position asked about,
    "" where the journal has none there. A change at a known position that is of another operation than before says
    that the log was restored from a backup: a journal only ever grows.
    """

    seq: int
    erasures: int
    last_at: int
    embedder: str = ""
    watermarks: Mapping[str, int] = MappingProxyType({})
    operation_id: str = ""
    operation_id_after: str = ""


class GraphPosition(NamedTuple):
    """Up to where a graph follows a user's journal, and the operation of the change there; "" where it was not noted.

    A journal that has another operation at `seq` is not the one that the graph followed.
    """

    seq: int
    operation_id: str = ""

    def is_of(self, operation_id: str | None) -> bool:
        """Whether this may be a position in a journal whose change at `seq` is of this operation (None: has none)."""
        return self.seq == 0 or (operation_id is not None and self.operation_id in ("", operation_id))


@dataclass(frozen=True, slots=True)
class Postings:
    """Matches of one term: ordinals (ascending) and how often it occurs in each."""

    ordinals: Ints
    counts: Floats


@dataclass(frozen=True, slots=True)
class ChunkScores:
    """A score per passage. `ordinals` name the records; a record with several passages occurs several times.

    `is_question` is `VectorRow.is_question`: whether that passage ends by asking.
    """

    ordinals: Ints
    parts: NDArray[np.int32]
    scores: Floats
    is_question: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class VectorRow:
    """A searchable piece of a record with its vector: grain `whole` or `sentence`, part, span in characters.

    `vector` is float16, unit length. `tokens`: int32 ids and int8 vectors of the word pieces, when they are kept.
    `is_question`: the passage ends with a question mark.
    """

    ordinal: int
    kind: str
    channel: str
    granularity: str
    part: int
    span: tuple[int, int]
    vector: NDArray[np.float16]
    tokens: tuple[NDArray[np.int32], NDArray[np.int8]] | None = None
    is_question: bool = False


@dataclass(frozen=True, slots=True)
class VectorBatch:
    """What a vector projection writes for one user: `after_seq` is the watermark it is built on, `through_seq` the next
    one.

    The passages of every ordinal in `replaced_ordinals` are taken out first. It applies only when the stored watermark
    equals `after_seq`; otherwise nothing happens.
    """

    after_seq: int
    through_seq: int
    rows: Sequence[VectorRow] = ()
    replaced_ordinals: Collection[int] = ()


@dataclass(frozen=True, slots=True)
class RecordUsage:
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
class DeadLetter:
    """A change that a projection could not apply and passed over."""

    projection: str
    user_id: str
    seq: int
    reason: str
    attempts: int
    failed_at: datetime


@dataclass(frozen=True, slots=True)
class ErasureScan:
    """What an erasure looked through, and what it still found: `leftovers` maps a place to a number of rows."""

    checked: tuple[str, ...]
    leftovers: Mapping[str, int] = field(default_factory=dict)
    deferred: tuple[str, ...] = ()


class GraphRows(NamedTuple):
    """Rows of a query to the graph, by column, in plain values; `is_cut` says that there are more."""

    columns: tuple[str, ...]
    rows: tuple[dict[str, Any], ...]
    is_cut: bool = False


class Neighbor(NamedTuple):
    """A record reached over the graph: how far, and over which edge it was first reached."""

    key: Key
    distance: int
    edge: Edge
