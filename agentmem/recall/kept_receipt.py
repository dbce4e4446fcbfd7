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
from agentmem.recall.query import RecallRequest
from agentmem.recall.receipt import CandidatePool, Receipt, ThreadLead, TraceLine

_DATETIME_FIELDS = ("as_of", "known_at", "since", "until")
_SCORE_DIGITS = 4  # of scores, as a `Candidate` has them
_SCOPE_FIELDS = tuple(field.name for field in fields(Scope))
_LEAD_FIELDS = tuple(field.name for field in fields(ThreadLead))


def to_json(receipt: Receipt) -> str:
    """The receipt as JSON, with scores to four digits."""
    value = {
        "id": receipt.id, "scope": _dump_fields(receipt.scope, _SCOPE_FIELDS), "at": receipt.at.isoformat(),
        "request": _dump_fields(receipt.request, RecallRequest.__slots__), "profile": receipt.profile,
        "settings": receipt.settings, "embedder": receipt.embedder, "seq": receipt.seq,
        "milliseconds": round(receipt.milliseconds, 3),
        "trace": [{**line._asdict(), "lists": dict(line.lists)} for line in receipt.trace],
        "pool": _dump_pool(receipt.pool), "delivered": receipt.delivered,
        "items": [[*key, score] for key, score in receipt.items.items()],
        "leads": [_dump_fields(lead, _LEAD_FIELDS) for lead in receipt.leads],
        "elsewhere": [[*key, channel] for key, channel in receipt.elsewhere.items()], "notices": receipt.notices,
        "relevant": receipt.relevant,
    }  # fmt: skip
    return json.dumps(value, default=datetime.isoformat, allow_nan=False, separators=(",", ":"))


def from_json(text: str) -> Receipt:
    """The receipt that `to_json` wrote. Raises CorruptStore for anything else."""
    try:
        value = json.loads(text)
        return Receipt(
            id=value["id"], scope=Scope(**_known_fields(value["scope"], _SCOPE_FIELDS)),
            at=datetime.fromisoformat(value["at"]), request=_parse_request(value["request"]), profile=value["profile"],
            settings=value["settings"], embedder=value["embedder"], seq=value["seq"],
            milliseconds=value["milliseconds"],
            trace=tuple(TraceLine(**_known_fields(line, TraceLine._fields)) for line in value["trace"]),
            pool=_parse_pool(value["pool"]), delivered=tuple(_parse_key(key) for key in value["delivered"]),
            items={_parse_key(key): score for *key, score in value["items"]},
            leads=tuple(ThreadLead(**_known_fields(lead, _LEAD_FIELDS)) for lead in value["leads"]),
            elsewhere={_parse_key(key): channel for *key, channel in value["elsewhere"]},
            notices=tuple(value["notices"]), relevant=value["relevant"],
        )  # fmt: skip
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptStore(f"a kept receipt cannot be read ({type(error).__name__})") from error


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
        "keys": pool.keys, "ranks": pool.ranks.tolist(), "scores": _dump_floats(pool.scores),
        "fused": _dump_floats(pool.fused), "lists": pool.list_names, "added": pool.is_bonus,
        "values": [_dump_floats(column) for column in pool.values.T], "places": pool.list_ranks.T.tolist(),
        "factors": {name: _dump_floats(column) for name, column in pool.factors.items()},
    }  # fmt: skip


def _parse_pool(value: Mapping[str, Any]) -> CandidatePool:
    keys, lists = tuple(_parse_key(key) for key in value["keys"]), tuple(value["lists"])
    shape = (len(lists), len(keys))
    return CandidatePool(
        keys=keys, ranks=np.array(value["ranks"], dtype=np.int32), scores=_parse_floats(value["scores"]),
        fused=_parse_floats(value["fused"]), list_names=lists, is_bonus=tuple(value["added"]),
        values=_parse_floats(value["values"]).reshape(shape).T,
        list_ranks=np.array(value["places"], dtype=np.int32).reshape(shape).T,
        factors={name: _parse_floats(column) for name, column in value["factors"].items()},
    )  # fmt: skip


def _dump_floats(column: NDArray[np.float32]) -> list[float | None]:
    """Numbers for JSON, which knows no NaN."""
    return [round(number, _SCORE_DIGITS) if np.isfinite(number) else None for number in column.tolist()]


def _parse_floats(values: Any) -> NDArray[np.float32]:
    return np.array(values, dtype=np.float32)
