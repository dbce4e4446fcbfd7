"""What is kept for the next recall, by user: neighbors, cosines, vectors of questions.

All of it is made from the columns and the stores and holds no text. It is dropped whole on erasure.

A chat turn means little without the one it answers; a long message stands alone. One rule covers both: a neighbor
counts only while turn and neighbors together have at most 90 words, the one before being tried first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from agentmem.core.columns import CONTAINS_QUESTION, MIN_TIME, Bools, Floats, Ints, RecordColumns
from agentmem.core.lifecycle import MICROSECONDS_PER_DAY
from agentmem.core.lru import LruDict
from agentmem.core.scope import Scope
from agentmem.core.telemetry import CacheStats
from agentmem.errors import InvalidModelOutput
from agentmem.models.protocols import Embedder, TokenEmbedder, TokenVectors
from agentmem.models.retry import CircuitBreaker
from agentmem.stores.protocols import VectorIndex

MAX_WINDOW_WORDS = 90
NO_NEIGHBOR = -1

T = TypeVar("T")
MAX_CACHED_ROWS = 1_000_000  # rows of all users together; some 60 bytes each
MAX_CACHED_VIEWS = 4  # of one user
MAX_CACHED_QUERIES = 1_000  # embedded queries per embedder
SAMPLE_SIZE = 256  # turns whose word pieces are counted; 64 gave the same ranking quality on LoCoMo
PAIR_BATCH_SIZE = 2048  # cosines asked for at a time
HASH_MULTIPLIER = 2_654_435_761  # Knuth's multiplicative hashing
QueryEmbedding = tuple[Floats, TokenVectors | None]


@dataclass(frozen=True, slots=True, eq=False)
class TurnNeighbors:
    """The ordinal of the turn before and after, by ordinal; -1 where there is none."""

    previous: Ints
    next: Ints


def adjacent_turns(columns: RecordColumns) -> TurnNeighbors:
    """Who stands next to whom in a conversation: the same channel, and positions without a gap between them."""
    before, after = np.full((2, columns.size), NO_NEIGHBOR, dtype=np.int64)
    order = columns.conversation_order()
    order = order[columns.kind[order] == columns.kinds.find_code("Turn")]
    left, right = order[:-1], order[1:]
    same = columns.conversation[left] == columns.conversation[right]
    same &= columns.channel[left] == columns.channel[right]
    same &= columns.position[left] + 1 == columns.position[right]
    before[right[same]], after[left[same]] = left[same], right[same]
    return TurnNeighbors(before, after)


def context_window(neighbors: TurnNeighbors, mask: Bools, word_counts: NDArray[Any]) -> TurnNeighbors:
    """The neighbors that count for a query: both visible in `mask`, and at most 90 words together.

    `word_counts` is the number of words by ordinal. The relation is not symmetric: a short turn may lean on one that
    does not lean back.
    """
    before, after = neighbors.previous.copy(), neighbors.next.copy()
    before[~(mask & mask[before])] = NO_NEIGHBOR
    total = word_counts + np.where(before >= 0, word_counts[before], 0)
    before[total > MAX_WINDOW_WORDS] = NO_NEIGHBOR
    total = word_counts + np.where(before >= 0, word_counts[before], 0)
    after[~(mask & mask[after])] = NO_NEIGHBOR
    after[total + np.where(after >= 0, word_counts[after], 0) > MAX_WINDOW_WORDS] = NO_NEIGHBOR
    return TurnNeighbors(before, after)


def neighbor_values(values: NDArray[Any], neighbor: Ints, missing: float = 0.0) -> NDArray[Any]:
    """Each ordinal's neighbor's value; `missing` where there is no neighbor."""
    return np.where(neighbor >= 0, values[neighbor], missing).astype(values.dtype, copy=False)


def answers_question(neighbors: TurnNeighbors, text_flags: NDArray[Any]) -> Bools:
    """Where the turn before contains a question; `text_flags` are the flags of the columns."""
    return np.asarray((neighbors.previous >= 0) & ((text_flags[neighbors.previous] & CONTAINS_QUESTION) != 0))


def invert(neighbor: Ints) -> Ints:
    """Who leans on each ordinal: the other direction of one side of `TurnNeighbors`; -1 where nobody does."""
    leaned = np.full(len(neighbor), NO_NEIGHBOR, dtype=np.int64)
    leaning_slots = np.flatnonzero(neighbor >= 0)
    leaned[neighbor[leaning_slots]] = leaning_slots
    return leaned


@dataclass
class NeighborCosines:
    """Cosines of neighboring turns by ordinal: with the one before, and between the ones before and after."""

    pairs: Ints = field(default_factory=lambda: np.full((2, 2, 0), NO_NEIGHBOR, dtype=np.int64))
    values: Floats = field(default_factory=lambda: np.zeros((2, 0), dtype=np.float32))
    _last: tuple[TurnNeighbors, Floats] | None = None

    async def read(self, neighbors: TurnNeighbors, vectors: VectorIndex, scope: Scope) -> Floats:
        """Cosines for these links, shape (2, ordinals), NaN where a vector is missing; only what is new is asked for.

        What was asked for stays when the caller is cut off in between, so that the next one has less to ask.
        """
        if self._last is not None and self._last[0] is neighbors:
            return self._last[1]
        pairs = _neighbor_pairs(neighbors)
        self._grow(pairs.shape[2])
        size = pairs.shape[2]
        known = (self.pairs[:, :, :size] == pairs).all(axis=1)
        values = np.where(known, self.values[:, :size], np.nan).astype(np.float32)
        wanted = np.isnan(values) & (pairs[:, 0] >= 0)
        places = np.argwhere(wanted.T)  # both cosines of an ordinal together, as they share vectors
        for start in range(0, len(places), PAIR_BATCH_SIZE):
            ordinal, which = places[start : start + PAIR_BATCH_SIZE].T
            left, right = pairs[which, 0, ordinal], pairs[which, 1, ordinal]
            values[which, ordinal] = found = await vectors.score_pairs(left, right, scope)
            self.pairs[which, 0, ordinal], self.pairs[which, 1, ordinal], self.values[which, ordinal] = (
                left,
                right,
                found,
            )
        if not (np.isnan(values) & (pairs[:, 0] >= 0)).any():  # else some vectors are still to come
            self._last = (neighbors, values)
        return values

    def _grow(self, size: int) -> None:
        more = size - self.values.shape[1]
        if more > 0:
            more += size // 2
            self.pairs = np.concatenate([self.pairs, np.full((2, 2, more), NO_NEIGHBOR, dtype=np.int64)], axis=2)
            self.values = np.concatenate([self.values, np.full((2, more), np.nan, dtype=np.float32)], axis=1)


def _neighbor_pairs(neighbors: TurnNeighbors) -> Ints:
    """Shape (2 cosines, 2 ends, ordinals); both ends -1 where there is no such pair."""
    here = np.arange(len(neighbors.previous))
    has, both = neighbors.previous >= 0, (neighbors.previous >= 0) & (neighbors.next >= 0)
    return np.stack(
        [
            np.stack([neighbors.previous, np.where(has, here, NO_NEIGHBOR)]),
            np.stack([np.where(both, neighbors.previous, NO_NEIGHBOR), np.where(both, neighbors.next, NO_NEIGHBOR)]),
        ]
    )


@dataclass
class TokenSample:
    """Word pieces of a sample of turns, from which their document frequencies are estimated.

    A hash of the ordinal picks one turn of 2, 4, 8, …: the same on every machine, and both sides of a dialogue alike.
    """

    token_ids: dict[int, NDArray[np.int32]] = field(default_factory=dict)

    async def estimate_idf(
        self,
        query_token_ids: NDArray[np.int32],
        turn_mask: Bools,
        vectors: VectorIndex,
        scope: Scope,
        sample_size: int = SAMPLE_SIZE,
    ) -> NDArray[np.float64]:
        """Inverse document frequency of each word piece over the visible turns, as BM25 takes it."""
        count = int(turn_mask.sum())
        halvings = max(0, (max(count, 1) - 1).bit_length() - sample_size.bit_length() + 1)
        ordinals = np.flatnonzero(turn_mask)
        sample = [int(ordinal) for ordinal in ordinals[(ordinals * HASH_MULTIPLIER % 2**32) >> (32 - halvings) == 0]]
        self.token_ids = {ordinal: self.token_ids[ordinal] for ordinal in sample if ordinal in self.token_ids}
        missing = [ordinal for ordinal in sample if ordinal not in self.token_ids]
        if missing:
            fresh = await vectors.read_token_vectors(missing, scope)
            self.token_ids.update({ordinal: np.unique(pieces) for ordinal, (pieces, _) in fresh.items()})
        if not self.token_ids:
            return np.ones(len(query_token_ids))
        pool = np.concatenate(list(self.token_ids.values()))
        held = np.array([(pool == piece).sum() for piece in query_token_ids]) * (count / len(self.token_ids))
        return np.log1p(np.maximum(count - held + 0.5, 0.5) / (held + 0.5))


@dataclass
class UserCache:
    """One user's. `all_neighbors` and `distinct_days` hold for one state of the columns, the rest grows with it."""

    cosines: dict[str, NeighborCosines] = field(default_factory=dict)
    token_samples: dict[str, TokenSample] = field(default_factory=dict)
    row_count: int = 0
    _neighbors: tuple[int, TurnNeighbors] | None = None
    _days: tuple[tuple[int, int], tuple[Ints, Ints]] | None = None
    # see `visible_records` in visibility
    visible_records: LruDict[tuple[object, ...], Any] = field(default_factory=lambda: LruDict(MAX_CACHED_VIEWS))
    _computed: dict[Hashable, tuple[int, Bools, object, Any]] = field(default_factory=dict)

    def for_past_state(self) -> UserCache:
        """For columns of an earlier state: its own links and days, everything else shared."""
        return UserCache(self.cosines, self.token_samples)

    def cosines_for(self, embedder_id: str) -> NeighborCosines:
        """Of one embedder."""
        if embedder_id not in self.cosines:
            self.cosines[embedder_id] = NeighborCosines()
        return self.cosines[embedder_id]

    def token_sample_for(self, embedder_id: str) -> TokenSample:
        """Of one embedder."""
        return self.token_samples.setdefault(embedder_id, TokenSample())

    def get_or_compute(
        self, key: Hashable, columns: RecordColumns, mask: Bools, compute: Callable[[], T], dependency: object = None
    ) -> T:
        """What follows from the columns, a mask and one more object, made once while all stay as they are."""
        held = self._computed.get(key)
        if held is None or held[0] != columns.seq or held[2] is not dependency or not is_same_mask(held[1], mask):
            held = self._computed[key] = (columns.seq, mask, dependency, compute())
        found: T = held[3]
        return found

    def all_neighbors(self, columns: RecordColumns) -> TurnNeighbors:
        """`adjacent_turns`, made once per state of the columns."""
        if self._neighbors is None or self._neighbors[0] != columns.seq:
            self._neighbors = (columns.seq, adjacent_turns(columns))
            self.row_count = columns.size
        return self._neighbors[1]

    def distinct_days(self, columns: RecordColumns, offset: int = 0) -> tuple[Ints, Ints]:
        """The different days on which records begin to be true, and each ordinal's place among them; once per state.

        Days begin `offset` microseconds before those of UTC; what begins at midnight UTC is of that day.
        """
        if self._days is None or self._days[0] != (columns.seq, offset):
            begins = columns.valid_from
            number = np.where(begins == MIN_TIME, MIN_TIME, to_wall_times(begins, offset) // MICROSECONDS_PER_DAY)
            days, place = np.unique(number, return_inverse=True)
            self._days = ((columns.seq, offset), (days, place.reshape(-1)))
        return self._days[1]


class RankingCache:
    """What is kept of all users, the least recently seen dropped first."""

    def __init__(self, cache_stats: CacheStats) -> None:
        self._cache_stats = cache_stats
        self._users: OrderedDict[str, UserCache] = OrderedDict()
        self._queries: dict[str, LruDict[bytes, QueryEmbedding]] = {}
        self._circuit_breakers: dict[str, CircuitBreaker] = {}

    def for_user(self, user_id: str) -> UserCache:
        """One user's, empty at first."""
        kept = self._users.pop(user_id, None) or UserCache()
        self._users[user_id] = kept
        while sum(other.row_count for other in self._users.values()) > MAX_CACHED_ROWS and len(self._users) > 1:
            self._users.popitem(last=False)
        return kept

    def drop_user(self, user_id: str) -> None:
        """Drop what is kept of a user, and every embedded query, since nobody knows whose it was."""
        self._users.pop(user_id, None)
        self._queries.clear()

    async def embed(
        self, text: str, embedder: Embedder, with_tokens: bool, timeout: float | None = None
    ) -> QueryEmbedding:
        """The unit vector of a query, rounded to float16 as stored ones are, and its word pieces where asked for.

        The last 1,000 per embedder are kept, by a digest of the text. Raises ModelUnavailable after `timeout` seconds
        (None: never for that reason) and for 30 s thereafter, else what the embedder raises.
        """
        cache = self._queries.setdefault(embedder.identity, LruDict(MAX_CACHED_QUERIES))
        key = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        found = cache.get(key)
        known = found is not None and not (with_tokens and found[1] is None)
        self._cache_stats.add("queries", known)
        if found is None or not known:

            async def send() -> QueryEmbedding:
                cache[key] = answer = await _embed_query(text, embedder, with_tokens)
                return answer

            asked = self._circuit_breakers.setdefault(embedder.identity, CircuitBreaker(embedder.identity))
            found = await (send() if timeout is None else asked.call(send, timeout))
        cache[key] = found
        return found


async def _embed_query(text: str, embedder: Embedder, with_tokens: bool) -> QueryEmbedding:
    pieces: TokenVectors | None = None
    if with_tokens and isinstance(embedder, TokenEmbedder):
        vectors, found = await embedder.embed_tokens([text])
        pieces = found[0]
    else:
        vectors = await embedder.embed([text])
    wanted = (1, embedder.dimensions)
    if vectors.shape != wanted or not np.isfinite(vectors).all():  # it would be kept
        raise InvalidModelOutput(
            f"{embedder.identity} should give finite vectors of shape {wanted}, gave {vectors.shape}"
        )
    return vectors[0].astype(np.float16).astype(np.float32), pieces


def is_same_mask(one: Bools, other: Bools) -> bool:
    """Whether two masks are equal."""
    return one is other or np.array_equal(one, other)


def to_wall_times(begins: Ints, offset: int) -> Ints:
    """Times as a clock `offset` microseconds ahead of UTC shows them; midnight UTC stands for its day and stays."""
    return np.where(begins % MICROSECONDS_PER_DAY == 0, begins, begins + offset)


def split_days(days: Sequence[int] | Ints) -> Mapping[str, Ints]:
    """Year, month and day of days since 1970; -1 for "always"."""
    number = np.asarray(days, dtype=np.int64)
    known = number != MIN_TIME
    dates = np.where(known, number, 0).astype("datetime64[D]")
    months = dates.astype("datetime64[M]")
    parts = {
        "year": dates.astype("datetime64[Y]").astype(np.int64) + 1970,
        "month": months.astype(np.int64) % 12 + 1,
        "day": (dates - months).astype(np.int64) + 1,
    }
    return {name: np.where(known, part, -1) for name, part in parts.items()}
