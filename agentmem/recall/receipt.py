"""How a recall was answered, and that as JSON to be kept.

A receipt holds ids and figures; its one text of the user's is the query. What a later version wrote beside what is
known here is left out when it is read.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from math import isnan
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agentmem.core.columns import Ints
from agentmem.core.ranking import Fusion
from agentmem.core.record import Key
from agentmem.core.scope import Scope
from agentmem.errors import CorruptStore
from agentmem.recall.notebook import render_html
from agentmem.recall.request import RecallRequest
from agentmem.recall.technique import SearchContext

MAX_LISTED_RANK = 200  # ranks in a single list are told down to this one

_DATETIME_FIELDS = ("as_of", "known_at", "since", "until")
_SCORE_DIGITS = 4  # of scores, as a `Candidate` has them
_SCOPE_FIELDS = tuple(field.name for field in fields(Scope))


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
        ranks, rest, due = list[str](), list[str](), ""
        for name, place in self.lists.items():
            if place.rank is not None:
                ranks.append(f"{name} #{place.rank}")
            if place.is_bonus and place.value:
                rest.append(f"{name} {place.value:+.2f}")
        for name, factor in self.factors.items():
            if abs(factor - 1) <= 5e-3:
                continue
            if name != "review":
                rest.append(f"{name} x{factor:.2f}")
            elif factor > 1:  # no factor, but a better place
                due = f"raised for review, priority {factor - 1:.2f}"
        return ", ".join([*ranks, *rest, *([due] if due else [])])


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
        lists, factors = dict[str, ListScore](), dict[str, float]()
        for name, rank, n, added in said:
            if not isnan(n):
                lists[name] = ListScore(rank or None, round(n, 4), added)
        for name, column in self.factors.items():
            factors[name] = round(float(column[row]), 4)
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
    their scores, best first. `fitting` are those delivered that fit the question; only they count as accessed.
    `elsewhere` maps delivered records of another than the active channel to their channel.
    `relevant` is False when nothing was found that the question is about, None when that was not measured.
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
    fitting: tuple[Key, ...] = ()
    leads: tuple[ThreadLead, ...] = ()
    elsewhere: Mapping[Key, str] = field(default_factory=dict)
    notices: tuple[str, ...] = ()
    relevant: bool | None = None

    def _repr_html_(self) -> str:
        """A table for notebooks: how the answer came about."""
        asked = {"query": self.request.search_text, "at": self.at.isoformat(), "embedder": self.embedder}
        found = {"candidates": len(self.pool.keys), "delivered": len(self.delivered), "ms": round(self.milliseconds, 1)}
        items = [(f"{kind} {record_id}", f"{score:.3f}") for (kind, record_id), score in self.items.items()]
        return render_html(("receipt", self.id), [*asked.items(), *found.items(), *items])

    def as_dict(self) -> dict[str, Any]:
        """The receipt as plain values, ready for JSON."""
        return {
            "id": self.id,
            "user_id": self.scope.user_id,
            "channel": self.scope.channel,
            "channels": list(self.scope.readable_channels()),
            "request": {name: _to_json_value(getattr(self.request, name)) for name in self.request.__slots__},
            "candidates": [_dump_candidate(candidate) for candidate in self.pool],
            **_dump_figures(self),
        }


@dataclass(frozen=True, slots=True)
class WhyNot:
    """Why a record was delivered or not. `candidate` is None when it was not in the pool."""

    delivered: bool
    reason: str
    candidate: Candidate | None = None

    def __str__(self) -> str:
        """The reason."""
        return self.reason


def explain_from_receipt(receipt: Receipt, record_id: str) -> WhyNot:
    """What the receipt alone says of a record; `RecallLayer.why_not` asks again where that is too little."""
    top_k = receipt.request.top_k
    for candidate in receipt.pool:
        if candidate.id != record_id:
            continue
        place = f"place {candidate.rank} of its kind ({candidate.why or 'in no list'})"
        key = (candidate.kind, candidate.id)
        if key in receipt.delivered:
            return WhyNot(True, f"delivered: {place}", candidate)
        return WhyNot(False, f"cut: {place}, and {top_k} of a kind were asked for", candidate)
    return WhyNot(False, f"not among the {len(receipt.pool.keys)} candidates of this recall")


def build_pool(
    context: SearchContext,
    ordinals_by_kind: Mapping[str, Ints],
    scores: NDArray[Any],
    fusion: Fusion,
    factors: Mapping[str, NDArray[Any]],
) -> CandidatePool:
    """Columns for the candidates: `ordinals_by_kind` are their ordinals in final order, `scores` and `factors` are by
    ordinal.
    """
    ordinals = np.concatenate([*ordinals_by_kind.values(), np.zeros(0, dtype=np.int64)])
    names = tuple(sorted(fusion.lists))
    values = np.full((len(ordinals), len(names)), np.nan, dtype=np.float32)
    places = np.zeros((len(ordinals), len(names)), dtype=np.int32)
    for at, name in enumerate(names):
        column = fusion.lists[name].values
        values[:, at] = column[ordinals]
        if fusion.lists[name].combine == "normalize":
            places[:, at] = _list_ranks(column, context.mask, ordinals)
    ids = context.columns.ids
    return CandidatePool(
        keys=tuple([(kind, ids[ordinal]) for kind, each in ordinals_by_kind.items() for ordinal in each.tolist()]),
        ranks=np.concatenate([np.arange(1, len(each) + 1) for each in ordinals_by_kind.values()] or [ordinals]).astype(
            np.int32
        ),
        scores=scores[ordinals].astype(np.float32),
        fused=fusion.scores[ordinals].astype(np.float32),
        list_names=names,
        is_bonus=tuple([fusion.lists[name].combine == "bonus" for name in names]),
        values=values,
        list_ranks=places,
        factors={name: column[ordinals].astype(np.float32) for name, column in factors.items()},
    )


def count_contributions(
    trace: Iterable[TraceLine], pool: CandidatePool, items: Collection[Key], top_k: int
) -> tuple[TraceLine, ...]:
    """The lines, each with how many of these records one of its lists has among its first `top_k` or lifts."""
    rows = [row for row, key in enumerate(pool.keys) if key in items]
    values, places = pool.values[rows], pool.list_ranks[rows]
    lifted = np.where(np.array(pool.is_bonus, dtype=np.bool_), values > 0, (places > 0) & (places <= top_k))
    by_list = {name: lifted[:, at] for at, name in enumerate(pool.list_names)}
    none = np.zeros(len(rows), dtype=np.bool_)
    counted = []
    for line in trace:
        own = [by_list[name] for name in line.lists if name in by_list]
        counted.append(line._replace(contributed=int(np.logical_or.reduce([none, *own]).sum())))
    return tuple(counted)


def _list_ranks(column: NDArray[Any], mask: NDArray[np.bool_], ordinals: Ints) -> NDArray[np.int32]:
    """Ranks of these ordinals among all visible ones, equal values sharing the better; 0 beyond 200 or for a 0."""
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


_LEAD_FIELDS = tuple(field.name for field in fields(ThreadLead))


def to_json(receipt: Receipt) -> str:
    """The receipt as JSON, with scores to four digits."""
    value = {
        "id": receipt.id,
        "scope": _dump_fields(receipt.scope, _SCOPE_FIELDS),
        "request": _dump_fields(receipt.request, RecallRequest.__slots__),
        "pool": _dump_pool(receipt.pool),
        "leads": [_dump_fields(lead, _LEAD_FIELDS) for lead in receipt.leads],
        **_dump_figures(receipt),
    }
    return json.dumps(value, default=datetime.isoformat, allow_nan=False, separators=(",", ":"))


def from_json(text: str) -> Receipt:
    """The receipt that `to_json` wrote. Raises CorruptStore for anything else."""
    try:
        value = json.loads(text)
        return Receipt(
            id=value["id"],
            scope=Scope(**_known_fields(value["scope"], _SCOPE_FIELDS)),
            at=datetime.fromisoformat(value["at"]),
            request=_parse_request(value["request"]),
            profile=value["profile"],
            settings=value["settings"],
            embedder=value["embedder"],
            seq=value["seq"],
            milliseconds=value["milliseconds"],
            trace=tuple(TraceLine(**_known_fields(line, TraceLine._fields)) for line in value["trace"]),
            pool=_parse_pool(value["pool"]),
            delivered=tuple(_parse_key(key) for key in value["delivered"]),
            items={_parse_key(key): score for *key, score in value["items"]},
            fitting=tuple(_parse_key(key) for key in value.get("fitting", ())),
            leads=tuple(ThreadLead(**_known_fields(lead, _LEAD_FIELDS)) for lead in value["leads"]),
            elsewhere={_parse_key(key): channel for *key, channel in value["elsewhere"]},
            notices=tuple(value["notices"]),
            relevant=value["relevant"],
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptStore(f"a kept receipt cannot be read ({type(error).__name__})") from error


def _dump_figures(receipt: Receipt) -> dict[str, Any]:
    """What both forms of a receipt say in the same words."""
    plain = ("profile", "settings", "embedder", "seq", "relevant")
    return {
        **{name: getattr(receipt, name) for name in plain},
        "at": receipt.at.isoformat(),
        "milliseconds": round(receipt.milliseconds, 3),
        "notices": list(receipt.notices),
        "trace": [{**line._asdict(), "lists": dict(line.lists)} for line in receipt.trace],
        "delivered": [list(key) for key in receipt.delivered],
        "items": [[*key, score] for key, score in receipt.items.items()],
        "fitting": [list(key) for key in receipt.fitting],
        "elsewhere": [[*key, channel] for key, channel in receipt.elsewhere.items()],
    }


def _dump_fields(thing: object, names: tuple[str, ...]) -> dict[str, Any]:
    """The fields of something that are set."""
    values = {name: getattr(thing, name) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def _known_fields(value: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """The fields that this version knows, lists as tuples."""
    return {name: tuple(each) if isinstance(each, list) else each for name, each in value.items() if name in names}


def _parse_request(value: Mapping[str, Any]) -> RecallRequest:
    given = _known_fields(value, RecallRequest.__slots__)
    given |= {name: datetime.fromisoformat(given[name]) for name in _DATETIME_FIELDS if name in given}
    return RecallRequest(**given)


def _parse_key(value: list[str]) -> Key:
    kind, name = value
    return kind, name


def _dump_pool(pool: CandidatePool) -> dict[str, Any]:
    return {
        "keys": pool.keys,
        "ranks": pool.ranks.tolist(),
        "scores": _dump_floats(pool.scores),
        "fused": _dump_floats(pool.fused),
        "lists": pool.list_names,
        "added": pool.is_bonus,
        "values": [_dump_floats(column) for column in pool.values.T],
        "places": pool.list_ranks.T.tolist(),
        "factors": {name: _dump_floats(column) for name, column in pool.factors.items()},
    }


def _parse_pool(value: Mapping[str, Any]) -> CandidatePool:
    keys, lists = tuple(_parse_key(key) for key in value["keys"]), tuple(value["lists"])
    shape = (len(lists), len(keys))
    return CandidatePool(
        keys=keys,
        ranks=np.array(value["ranks"], dtype=np.int32),
        scores=_parse_floats(value["scores"]),
        fused=_parse_floats(value["fused"]),
        list_names=lists,
        is_bonus=tuple(value["added"]),
        values=_parse_floats(value["values"]).reshape(shape).T,
        list_ranks=np.array(value["places"], dtype=np.int32).reshape(shape).T,
        factors={name: _parse_floats(column) for name, column in value["factors"].items()},
    )


def _dump_floats(column: NDArray[np.float32]) -> list[float | None]:
    """Numbers for JSON, which knows no NaN."""
    return [round(number, _SCORE_DIGITS) if np.isfinite(number) else None for number in column.tolist()]


def _parse_floats(values: Any) -> NDArray[np.float32]:
    return np.array(values, dtype=np.float32)
