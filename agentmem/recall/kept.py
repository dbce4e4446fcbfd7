"""What ranking keeps of a user between recalls: neighbours, cosines between them, days, a sample of word pieces.

All of it is made from the outline and the stores and holds no text. It is dropped whole on erasure.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from agentmem.errors import BadReply
from agentmem.events import Lookups
from agentmem.model.outline import ALWAYS, Bools, Floats, Ints, Outline
from agentmem.model.scope import Scope
from agentmem.providers import Embedder, TokenEmbedder, TokenVectors
from agentmem.providers.attempts import Patience
from agentmem.recall.neighbours import NONE, Neighbours, adjacent
from agentmem.stores import VectorIndex

T = TypeVar("T")
MOST_ROWS = 1_000_000  # rows of all users together; some 60 bytes each
MOST_QUERIES = 1_000  # embedded queries per embedder
SAMPLE = 256  # turns whose word pieces are counted; 64 gave the same ranking quality on LoCoMo
PAIRS = 2048  # cosines asked for at a time
HASH = 2_654_435_761  # Knuth's multiplicative hashing
DAY = 86_400_000_000  # microseconds
Embedded = tuple[Floats, TokenVectors | None]


@dataclass
class Cosines:
    """Cosines of neighbouring turns by slot: with the one before, and between the ones before and after."""

    pairs: Ints = field(default_factory=lambda: np.full((2, 2, 0), NONE, dtype=np.int64))
    values: Floats = field(default_factory=lambda: np.zeros((2, 0), dtype=np.float32))
    _last: tuple[Neighbours, Floats] | None = None

    async def follow(self, links: Neighbours, vectors: VectorIndex, scope: Scope) -> Floats:
        """Cosines for these links, shape (2, slots), NaN where a vector is missing; only what is new is asked for.

        What was asked for stays when the caller is cut off in between, so that the next one has less to ask.
        """
        if self._last is not None and self._last[0] is links:
            return self._last[1]
        pairs = _pairs(links)
        self._grow(pairs.shape[2])
        size = pairs.shape[2]
        known = (self.pairs[:, :, :size] == pairs).all(axis=1)
        values = np.where(known, self.values[:, :size], np.nan).astype(np.float32)
        wanted = np.isnan(values) & (pairs[:, 0] >= 0)
        places = np.argwhere(wanted.T)  # both cosines of a slot together, as they share vectors
        for start in range(0, len(places), PAIRS):
            slot, which = places[start : start + PAIRS].T
            left, right = pairs[which, 0, slot], pairs[which, 1, slot]
            values[which, slot] = found = await vectors.between(left, right, scope)
            self.pairs[which, 0, slot], self.pairs[which, 1, slot], self.values[which, slot] = left, right, found
        if not (np.isnan(values) & (pairs[:, 0] >= 0)).any():  # else some vectors are still to come
            self._last = (links, values)
        return values

    def _grow(self, size: int) -> None:
        more = size - self.values.shape[1]
        if more > 0:
            more += size // 2
            self.pairs = np.concatenate([self.pairs, np.full((2, 2, more), NONE, dtype=np.int64)], axis=2)
            self.values = np.concatenate([self.values, np.full((2, more), np.nan, dtype=np.float32)], axis=1)


def _pairs(links: Neighbours) -> Ints:
    """Shape (2 cosines, 2 ends, slots); both ends -1 where there is no such pair."""
    here = np.arange(len(links.before))
    has, both = links.before >= 0, (links.before >= 0) & (links.after >= 0)
    return np.stack(
        [
            np.stack([links.before, np.where(has, here, NONE)]),
            np.stack([np.where(both, links.before, NONE), np.where(both, links.after, NONE)]),
        ]
    )


@dataclass
class Pieces:
    """Word pieces of a sample of turns, from which their document frequencies are estimated.

    A hash of the slot picks one turn of 2, 4, 8, …: the same on every machine, and both sides of a dialogue alike.
    """

    found: dict[int, NDArray[np.int32]] = field(default_factory=dict)

    async def rarity(
        self, ids: NDArray[np.int32], turns: Bools, vectors: VectorIndex, scope: Scope, size: int = SAMPLE
    ) -> NDArray[np.float64]:
        """Inverse document frequency of each word piece over the visible turns, as BM25 takes it."""
        count = int(turns.sum())
        halvings = max(0, (max(count, 1) - 1).bit_length() - size.bit_length() + 1)
        slots = np.flatnonzero(turns)
        sample = [int(slot) for slot in slots[(slots * HASH % 2**32) >> (32 - halvings) == 0]]
        self.found = {slot: self.found[slot] for slot in sample if slot in self.found}
        missing = [slot for slot in sample if slot not in self.found]
        if missing:
            fresh = await vectors.tokens(missing, scope)
            self.found.update({slot: np.unique(pieces) for slot, (pieces, _) in fresh.items()})
        if not self.found:
            return np.ones(len(ids))
        pool = np.concatenate(list(self.found.values()))
        held = np.array([(pool == piece).sum() for piece in ids]) * (count / len(self.found))
        return np.log1p(np.maximum(count - held + 0.5, 0.5) / (held + 0.5))


@dataclass
class Kept:
    """One user's. `links` and `days` hold for one state of the outline, the rest grows with it."""

    cosines: dict[str, Cosines] = field(default_factory=dict)
    pieces: dict[str, Pieces] = field(default_factory=dict)
    rows: int = 0
    _links: tuple[int, Neighbours] | None = None
    _days: tuple[int, tuple[Ints, Ints]] | None = None
    sights: OrderedDict[tuple[object, ...], Any] = field(default_factory=OrderedDict)  # see `sight`
    _columns: dict[Hashable, tuple[int, Bools, object, Any]] = field(default_factory=dict)

    def past(self) -> Kept:
        """For an outline of an earlier state: its own links and days, everything else shared."""
        return Kept(self.cosines, self.pieces)

    def cosines_of(self, identity: str) -> Cosines:
        """Of one embedder."""
        return self.cosines.setdefault(identity, Cosines())

    def pieces_of(self, identity: str) -> Pieces:
        """Of one embedder."""
        return self.pieces.setdefault(identity, Pieces())

    def once(self, name: Hashable, outline: Outline, mask: Bools, make: Callable[[], T], of: object = None) -> T:
        """What follows from the outline, a mask and one more object, made once while all stay as they are."""
        held = self._columns.get(name)
        if held is None or held[0] != outline.seq or held[2] is not of or not same(held[1], mask):
            held = self._columns[name] = (outline.seq, mask, of, make())
        found: T = held[3]
        return found

    def links(self, outline: Outline) -> Neighbours:
        """`adjacent`, made once per state of the outline."""
        if self._links is None or self._links[0] != outline.seq:
            self._links = (outline.seq, adjacent(outline))
            self.rows = outline.size
        return self._links[1]

    def days(self, outline: Outline) -> tuple[Ints, Ints]:
        """The different days on which records begin to be true, and each slot's place among them; once per state."""
        if self._days is None or self._days[0] != outline.seq:
            number = np.where(outline.valid_from == ALWAYS, ALWAYS, outline.valid_from // DAY)
            days, place = np.unique(number, return_inverse=True)
            self._days = (outline.seq, (days, place.reshape(-1)))
        return self._days[1]


class Keep:
    """What is kept of all users, the least recently seen dropped first."""

    def __init__(self, lookups: Lookups) -> None:
        self._lookups = lookups
        self._users: OrderedDict[str, Kept] = OrderedDict()
        self._queries: dict[str, OrderedDict[bytes, Embedded]] = {}
        self._patience: dict[str, Patience] = {}

    def of(self, user_id: str) -> Kept:
        """One user's, empty at first."""
        kept = self._users.pop(user_id, None) or Kept()
        self._users[user_id] = kept
        while sum(other.rows for other in self._users.values()) > MOST_ROWS and len(self._users) > 1:
            self._users.popitem(last=False)
        return kept

    def forget(self, user_id: str) -> None:
        """Drop what is kept of a user, and every embedded query, since nobody knows whose it was."""
        self._users.pop(user_id, None)
        self._queries.clear()

    async def embed(self, text: str, embedder: Embedder, tokens: bool, patience: float | None = None) -> Embedded:
        """The unit vector of a query, rounded to float16 as stored ones are, and its word pieces where asked for.

        The last 1,000 per embedder are kept, by a digest of the text. Raises ModelUnavailable after `patience` seconds
        (None: never for that reason) and for 30 s thereafter, else what the embedder raises.
        """
        cache = self._queries.setdefault(embedder.identity, OrderedDict())
        key = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        found = cache.get(key)
        known = found is not None and not (tokens and found[1] is None)
        self._lookups.add("queries", known)
        if found is None or not known:

            async def send() -> Embedded:
                cache[key] = answer = await _embedded(text, embedder, tokens)
                return answer

            asked = self._patience.setdefault(embedder.identity, Patience(embedder.identity))
            found = await (send() if patience is None else asked.ask(send, patience))
        cache[key] = found
        cache.move_to_end(key)
        while len(cache) > MOST_QUERIES:
            cache.popitem(last=False)
        return found


async def _embedded(text: str, embedder: Embedder, tokens: bool) -> Embedded:
    pieces: TokenVectors | None = None
    if tokens and isinstance(embedder, TokenEmbedder):
        vectors, found = await embedder.embed_tokens([text])
        pieces = found[0]
    else:
        vectors = await embedder.embed([text])
    wanted = (1, embedder.dimensions)
    if vectors.shape != wanted or not np.isfinite(vectors).all():  # it would be kept
        raise BadReply(f"{embedder.identity} should give finite vectors of shape {wanted}, gave {vectors.shape}")
    return vectors[0].astype(np.float16).astype(np.float32), pieces


def same(one: Bools, other: Bools) -> bool:
    """Whether two masks are equal."""
    return one is other or np.array_equal(one, other)


def split_days(days: Sequence[int] | Ints) -> Mapping[str, Ints]:
    """Year, month and day of days since 1970; -1 for "always"."""
    number = np.asarray(days, dtype=np.int64)
    known = number != ALWAYS
    dates = np.where(known, number, 0).astype("datetime64[D]")
    months = dates.astype("datetime64[M]")
    parts = {
        "year": dates.astype("datetime64[Y]").astype(np.int64) + 1970,
        "month": months.astype(np.int64) % 12 + 1,
        "day": (dates - months).astype(np.int64) + 1,
    }
    return {name: np.where(known, part, -1) for name, part in parts.items()}
