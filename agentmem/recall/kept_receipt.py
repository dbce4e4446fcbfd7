"""Receipts as JSON, so that a recall can be asked about after the process is gone, and by another one.

A receipt holds ids and figures; its one text of the user's is the query. What a later version wrote beside what is
known here is left out when it is read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentmem.errors import CorruptStore
from agentmem.model.records import Key
from agentmem.model.scope import Scope
from agentmem.recall.query import Request
from agentmem.recall.receipt import Line, Pool, Receipt, ThreadLead

_MOMENTS = ("as_of", "known_at", "since", "until")
_DIGITS = 4  # of scores, as a `Candidate` has them
_SCOPE = tuple(field.name for field in fields(Scope))
_LEAD = tuple(field.name for field in fields(ThreadLead))


def to_json(receipt: Receipt) -> str:
    """The receipt as JSON, with scores to four digits."""
    value = {
        "id": receipt.id, "scope": _named(receipt.scope, _SCOPE), "at": receipt.at.isoformat(),
        "request": _named(receipt.request, Request.__slots__), "profile": receipt.profile, "settings": receipt.settings,
        "embedder": receipt.embedder, "seq": receipt.seq, "milliseconds": round(receipt.milliseconds, 3),
        "trace": [{**line._asdict(), "lists": dict(line.lists)} for line in receipt.trace],
        "pool": _pool(receipt.pool), "delivered": receipt.delivered,
        "items": [[*key, score] for key, score in receipt.items.items()],
        "leads": [_named(lead, _LEAD) for lead in receipt.leads],
        "elsewhere": [[*key, channel] for key, channel in receipt.elsewhere.items()],
        "notices": receipt.notices, "relevant": receipt.relevant,
    }  # fmt: skip
    return json.dumps(value, default=datetime.isoformat, allow_nan=False, separators=(",", ":"))


def from_json(text: str) -> Receipt:
    """The receipt that `to_json` wrote. Raises CorruptStore for anything else."""
    try:
        value = json.loads(text)
        return Receipt(
            id=value["id"], scope=Scope(**_known(value["scope"], _SCOPE)), at=datetime.fromisoformat(value["at"]),
            request=_request(value["request"]), profile=value["profile"], settings=value["settings"],
            embedder=value["embedder"], seq=value["seq"], milliseconds=value["milliseconds"],
            trace=tuple(Line(**_known(line, Line._fields)) for line in value["trace"]), pool=_read_pool(value["pool"]),
            delivered=tuple(_key(key) for key in value["delivered"]),
            items={_key(key): score for *key, score in value["items"]},
            leads=tuple(ThreadLead(**_known(lead, _LEAD)) for lead in value["leads"]),
            elsewhere={_key(key): channel for *key, channel in value["elsewhere"]},
            notices=tuple(value["notices"]), relevant=value["relevant"],
        )  # fmt: skip
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptStore(f"a kept receipt cannot be read ({type(error).__name__})") from error


def _named(thing: object, names: tuple[str, ...]) -> dict[str, Any]:
    """The fields of something that are set."""
    values = {name: getattr(thing, name) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def _known(value: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """The fields that this version knows, lists as tuples."""
    return {name: tuple(each) if isinstance(each, list) else each for name, each in value.items() if name in names}


def _request(value: Mapping[str, Any]) -> Request:
    given = _known(value, Request.__slots__)
    given |= {name: datetime.fromisoformat(given[name]) for name in _MOMENTS if name in given}
    return Request(**given)


def _key(value: list[str]) -> Key:
    kind, name = value
    return kind, name


def _pool(pool: Pool) -> dict[str, Any]:
    return {
        "keys": pool.keys, "ranks": pool.ranks.tolist(), "scores": _short(pool.scores), "fused": _short(pool.fused),
        "lists": pool.lists, "added": pool.added, "values": [_short(column) for column in pool.values.T],
        "places": pool.places.T.tolist(), "factors": {name: _short(column) for name, column in pool.factors.items()},
    }  # fmt: skip


def _read_pool(value: Mapping[str, Any]) -> Pool:
    keys, lists = tuple(_key(key) for key in value["keys"]), tuple(value["lists"])
    shape = (len(lists), len(keys))
    return Pool(
        keys=keys, ranks=np.array(value["ranks"], dtype=np.int32), scores=_long(value["scores"]),
        fused=_long(value["fused"]), lists=lists, added=tuple(value["added"]),
        values=_long(value["values"]).reshape(shape).T,
        places=np.array(value["places"], dtype=np.int32).reshape(shape).T,
        factors={name: _long(column) for name, column in value["factors"].items()},
    )  # fmt: skip


def _short(column: NDArray[np.float32]) -> list[float | None]:
    """Numbers for JSON, which knows no NaN."""
    return [round(number, _DIGITS) if np.isfinite(number) else None for number in column.tolist()]


def _long(values: Any) -> NDArray[np.float32]:
    return np.array(values, dtype=np.float32)
