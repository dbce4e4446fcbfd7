"""What a recall did: which technique found what at which rank, what factors made of it, and why the rest was cut."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from math import isnan
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agentmem.model.outline import Ints
from agentmem.model.ranking import Fusion
from agentmem.model.records import Key
from agentmem.model.scope import Scope
from agentmem.recall.query import RecallRequest
from agentmem.recall.technique import SearchContext

MAX_LISTED_RANK = 200  # ranks in a single list are told down to this one


class TraceLine(NamedTuple):
    """One technique's line: milliseconds, how many records each list scored, and what went wrong, if anything.

    `late` tells that it was its deadline. `note` is what it had to leave out. `contributed` counts the delivered items
    that one of its lists has among its own first `top_k` or lifted by a bonus.
    """

    technique: str
    milliseconds: float
    lists: Mapping[str, int]
    error: str = ""
    late: bool = False
    note: str = ""
    contributed: int = 0


class ListScore(NamedTuple):
    """What one list says of a record. `rank` is None below rank 200 and in lists that are added, not ranked."""

    rank: int | None
    value: float
    is_bonus: bool


class Candidate(NamedTuple):
    """One record of the pool: its rank within its kind, final score, fused score, places in the lists, and factors."""

    kind: str
    id: str
    rank: int
    score: float
    fused: float
    lists: Mapping[str, ListScore]
    factors: Mapping[str, float]

    @property
    def why(self) -> str:
        """What speaks for it and against it, in words: ranks in lists, bonuses, factors other than 1."""
        parts = [f"{name} #{place.rank}" for name, place in self.lists.items() if place.rank is not None]
        parts += [f"{name} {place.value:+.2f}" for name, place in self.lists.items() if place.is_bonus and place.value]
        told = {name: factor for name, factor in self.factors.items() if abs(factor - 1) > 5e-3}
        due = told.pop("review", 1.0)  # no factor, but a better place
        parts += [f"{name} x{factor:.2f}" for name, factor in told.items()]
        parts += [f"raised for review, priority {due - 1:.2f}"] if due > 1 else []
        return ", ".join(parts)


@dataclass(frozen=True, slots=True, eq=False)
class CandidatePool:
    """All candidates, kind by kind, best first. Arrays have a row per candidate and a column per list."""

    keys: tuple[Key, ...]
    ranks: NDArray[np.int32]
    scores: NDArray[np.float32]
    fused: NDArray[np.float32]
    list_names: tuple[str, ...]
    is_bonus: tuple[bool, ...]
    values: NDArray[np.float32]
    list_ranks: NDArray[np.int32]
    factors: Mapping[str, NDArray[np.float32]]

    def __iter__(self) -> Iterator[Candidate]:
        """The candidates, one by one."""
        return (self.candidate(row) for row in range(len(self.keys)))

    def explain(self, key: Key) -> str:
        """`Candidate.why` of a record; empty when it is not in the pool."""
        return self.candidate(self.keys.index(key)).why if key in self.keys else ""

    def candidate(self, row: int) -> Candidate:
        """One row as a value."""
        said = zip(
            self.list_names, self.list_ranks[row].tolist(), self.values[row].tolist(), self.is_bonus, strict=True
        )
        lists = {name: ListScore(rank or None, round(n, 4), added) for name, rank, n, added in said if not isnan(n)}
        factors = {name: round(float(column[row]), 4) for name, column in self.factors.items()}
        score, fused = round(float(self.scores[row]), 4), round(float(self.fused[row]), 4)
        return Candidate(*self.keys[row], int(self.ranks[row]), score, fused, lists, factors)


@dataclass(frozen=True, slots=True)
class ThreadLead:
    """A conversation that is worth reading on: arguments for `episodic.read_thread`.

    `matches` is how many of its turns came near.
    """

    conversation_id: str
    center_turn: str
    matches: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Receipt:
    """The record of one recall. `seq` is the journal position it saw, `settings` a digest of what was in force.

    `delivered` are the keys of every record in the bundle, each once; `items` those of the ranking over all kinds with
    their scores, best first. `elsewhere` maps delivered records of another than the active channel to their channel.
    `relevant` is False when nothing was found that the question is about.
    """

    id: str
    scope: Scope
    at: datetime
    request: RecallRequest
    profile: str
    settings: str
    embedder: str
    seq: int
    milliseconds: float
    trace: tuple[TraceLine, ...]
    pool: CandidatePool
    delivered: tuple[Key, ...]
    items: Mapping[Key, float]
    leads: tuple[ThreadLead, ...] = ()
    elsewhere: Mapping[Key, str] = field(default_factory=dict)
    notices: tuple[str, ...] = ()
    relevant: bool = True

    def as_dict(self) -> dict[str, Any]:
        """The receipt as plain values, ready for JSON."""
        request = {name: _to_json_value(getattr(self.request, name)) for name in self.request.__slots__}
        return {
            "id": self.id, "user_id": self.scope.user_id, "channel": self.scope.channel, "at": self.at.isoformat(),
            "channels": list(self.scope.readable_channels()), "request": request, "profile": self.profile,
            "settings": self.settings, "embedder": self.embedder, "seq": self.seq,
            "milliseconds": round(self.milliseconds, 3), "notices": list(self.notices), "relevant": self.relevant,
            "trace": [{**line._asdict(), "lists": dict(line.lists)} for line in self.trace],
            "candidates": [_dump_candidate(candidate) for candidate in self.pool],
            "delivered": [list(key) for key in self.delivered],
            "items": [[*key, score] for key, score in self.items.items()],
            "elsewhere": [[*key, channel] for key, channel in self.elsewhere.items()],
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Exclusion:
    """Why a record was delivered or not. `candidate` is None when it was not in the pool."""

    delivered: bool
    reason: str
    candidate: Candidate | None = None

    def __str__(self) -> str:
        """The reason."""
        return self.reason


def explain_from_receipt(receipt: Receipt, record_id: str) -> Exclusion:
    """What the receipt alone says of a record; `RecallLayer.why_not` asks again where that is too little."""
    top_k = receipt.request.top_k
    for candidate in receipt.pool:
        if candidate.id != record_id:
            continue
        place = f"place {candidate.rank} of its kind ({candidate.why or 'in no list'})"
        key = (candidate.kind, candidate.id)
        if key in receipt.delivered:
            return Exclusion(True, f"delivered: {place}", candidate)
        return Exclusion(False, f"cut: {place}, and {top_k} of a kind were asked for", candidate)
    return Exclusion(False, f"not among the {len(receipt.pool.keys)} candidates of this recall")


def build_pool(
    context: SearchContext,
    ordinals_by_kind: Mapping[str, Ints],
    scores: NDArray[Any],
    fusion: Fusion,
    factors: Mapping[str, NDArray[Any]],
) -> CandidatePool:
    """Columns for the candidates: `ordinals_by_kind` are their slots in final order, `scores` and `factors` are by
    slot.
    """
    ordinals = np.concatenate([*ordinals_by_kind.values(), np.zeros(0, dtype=np.int64)])
    names = tuple(sorted(fusion.lists))
    values = np.full((len(ordinals), len(names)), np.nan, dtype=np.float32)
    places = np.zeros((len(ordinals), len(names)), dtype=np.int32)
    for at, name in enumerate(names):
        column = fusion.lists[name].values
        values[:, at] = column[ordinals]
        if fusion.lists[name].combine == "scaled":
            places[:, at] = _list_ranks(column, context.mask, ordinals)
    ids = context.columns.ids
    return CandidatePool(
        keys=tuple((kind, ids[ordinal]) for kind, each in ordinals_by_kind.items() for ordinal in each),
        ranks=np.concatenate(
            [np.arange(1, len(each) + 1) for each in ordinals_by_kind.values()] or [ordinals]
        ).astype(np.int32),
        scores=scores[ordinals].astype(np.float32), fused=fusion.scores[ordinals].astype(np.float32), list_names=names,
        is_bonus=tuple(fusion.lists[name].combine == "added" for name in names), values=values, list_ranks=places,
        factors={name: column[ordinals].astype(np.float32) for name, column in factors.items()},
    )  # fmt: skip


def count_contributions(
    trace: Iterable[TraceLine], pool: CandidatePool, items: Collection[Key], top_k: int
) -> tuple[TraceLine, ...]:
    """The lines, each with how many of these records one of its lists has among its first `top_k` or lifts."""
    rows = [row for row, key in enumerate(pool.keys) if key in items]
    values, places = pool.values[rows], pool.list_ranks[rows]
    lifted = np.where(np.array(pool.is_bonus, dtype=np.bool_), values > 0, (places > 0) & (places <= top_k))
    by_list = {name: lifted[:, at] for at, name in enumerate(pool.list_names)}
    none = np.zeros(len(rows), dtype=np.bool_)

    def count(line: TraceLine) -> int:
        own = [by_list[name] for name in line.lists if name in by_list]
        return int(np.logical_or.reduce([none, *own]).sum())

    return tuple(line._replace(contributed=count(line)) for line in trace)


def _list_ranks(column: NDArray[Any], mask: NDArray[np.bool_], ordinals: Ints) -> NDArray[np.int32]:
    """Ranks of these slots among all visible ones, equal values sharing the better; 0 beyond 200 or for a 0."""
    lowered = -column[mask]  # so that NaN comes last
    high = np.sort(
        np.partition(lowered, MAX_LISTED_RANK - 1)[:MAX_LISTED_RANK] if len(lowered) > MAX_LISTED_RANK else lowered
    )
    high = high[~np.isnan(high)]
    if not len(high):
        return np.zeros(len(ordinals), dtype=np.int32)
    mine = -column[ordinals]
    rank = np.searchsorted(high, mine, side="left") + 1
    return np.where((mine <= high[-1]) & (mine != 0), rank, 0).astype(np.int32)


def _dump_candidate(candidate: Candidate) -> dict[str, Any]:
    lists = {name: list(place) for name, place in candidate.lists.items()}
    return {**candidate._asdict(), "lists": lists, "factors": dict(candidate.factors)}


def _to_json_value(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    return list(value) if isinstance(value, tuple) else value
