"""What ranking must know of every record of a user, as columns: one row per ordinal, topped up as the journal grows.

A RecordColumns holds no text. `mask` says which records a query may see; everything that looks at the whole memory or
at neighbors (scaling, shares, the turn before) works on that mask, so that what is hidden has no influence.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from agentmem.core.clock import to_micros

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Floats = NDArray[np.float32]
Column: TypeAlias = Sequence[Any] | NDArray[Any]

MAX_TIME = np.iinfo(np.int64).max  # "until" of what has no end
MIN_TIME = np.iinfo(np.int64).min  # "from" of what has no beginning
HIDDEN_STATUSES = ("forgotten", "archived")


class RecordRow(NamedTuple):
    """One record's row. Times are microseconds since 1970 or None; `id` is the record's id."""

    slot: int
    seq: int
    kind: str
    id: str
    channel: str
    status: str
    conversation_id: str
    position: int
    speaker: str
    valid_from: int | None
    valid_to: int | None
    recorded_at: int
    superseded_at: int | None
    words: int
    length: int
    asks: int  # bit 1: the last sentence asks; bit 2: any sentence asks; bit 4: holds a time word
    salience: float
    confidence: float
    turn_id: str = ""  # of a gloss, the turn it explains; of a fact, the first turn it was taken from


ENDS_WITH_QUESTION, CONTAINS_QUESTION, MENTIONS_TIME = 1, 2, 4


@dataclass(frozen=True, slots=True, eq=False)
class RecordColumnBatch:
    """Rows for a RecordColumns, column by column: the fields of RecordRow, each with a value for every row.

    No time may also be ALWAYS or NEVER there; iterating gives None in their place.
    """

    columns: Mapping[str, Column]

    @classmethod
    def from_rows(cls, rows: Iterable[tuple[Any, ...]]) -> RecordColumnBatch:
        """From rows with the fields of RecordRow."""
        columns = list(zip(*rows, strict=True)) or [()] * len(RecordRow._fields)
        return cls(dict(zip(RecordRow._fields, columns, strict=True)))

    def __len__(self) -> int:
        return len(self.columns["slot"])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RecordColumnBatch) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __iter__(self) -> Iterator[RecordRow]:
        columns = [
            [None if value in (MIN_TIME, MAX_TIME) else value for value in self.columns[name]]
            if name in _UNBOUNDED_TIMES
            else np.asarray(self.columns[name]).tolist()
            for name in RecordRow._fields
        ]
        return map(RecordRow._make, zip(*columns, strict=True))

    def ordinals_by_key(self) -> dict[tuple[str, str], int]:
        """The ordinal of each record, by kind and id."""
        kinds, ids, ordinals = (self.columns[name] for name in ("kind", "id", "slot"))
        return {(kind, name): int(ordinal) for kind, name, ordinal in zip(kinds, ids, ordinals, strict=True)}


_COLUMN_DTYPES: dict[str, Any] = {
    "seq": np.int64,
    "kind": np.int16,
    "channel": np.int32,
    "status": np.int16,
    "conversation": np.int32,
    "position": np.int32,
    "speaker": np.int32,
    "valid_from": np.int64,
    "valid_to": np.int64,
    "recorded_at": np.int64,
    "superseded_at": np.int64,
    "words": np.int32,
    "length": np.int32,
    "asks": np.int8,
    "salience": np.float32,
    "confidence": np.float32,
    "turn": np.int64,
}


_ROW_FIELDS = {"conversation": "conversation_id", "turn": "turn_id"}
_UNBOUNDED_TIMES = {"valid_from": MIN_TIME, "valid_to": MAX_TIME, "superseded_at": MAX_TIME}
_REQUIRED_COLUMNS = ("kind", "channel", "status")  # no conversation and no speaker are -1
_INTERNED_COLUMNS = {
    "kind": "kinds",
    "channel": "channels",
    "status": "statuses",
    "conversation": "conversations",
    "speaker": "speakers",
}


class StringInterner:
    """Strings as small codes, in the order first seen."""

    def __init__(self) -> None:
        self.values: list[str] = []
        self._codes: dict[str, int] = {}

    def intern(self, value: str) -> int:
        """The code of a value, new when it was not seen before."""
        found = self._codes.get(value)
        if found is None:
            found = self._codes[value] = len(self.values)
            self.values.append(value)
        return found

    def find_code(self, value: str) -> int:
        """The code of a value, or -1 when it was never seen."""
        return self._codes.get(value, -1)

    def mask_for(self, values: Collection[str]) -> Bools:
        """A look-up table: True at the codes of these values."""
        table = np.zeros(len(self.values) + 1, dtype=np.bool_)
        for value in values:
            if (code := self.find_code(value)) >= 0:
                table[code] = True
        return table


@dataclass(frozen=True, slots=True)
class VisibilityMask:
    """Which records one query may see: `mask[ordinal]`. `as_of` in microseconds, None for now without a lower bound."""

    mask: Bools
    as_of: int | None


class RecordColumns:
    """Columns by ordinal. Ordinals without a record (erased, retracted) have kind -1 and are never visible."""

    def __init__(self) -> None:
        self.size = 0
        self.seq = 0
        self.last_at = 0  # latest record time of the journal, in microseconds since 1970
        # positions that projections had reached, where the log had them at hand
        self.watermarks: Mapping[str, int] = {}
        self.ids: list[str] = []
        self.ordinals_by_key: dict[tuple[str, str], int] = {}
        self.kinds, self.channels, self.statuses, self.conversations, self.speakers = (
            StringInterner() for _ in range(5)
        )
        self._columns = {name: np.zeros(0, dtype=dtype) for name, dtype in _COLUMN_DTYPES.items()}
        self._conversation_orders: dict[int, Ints] = {}

    def __getattr__(self, name: str) -> NDArray[Any]:
        """A column, cut to the ordinals in use."""
        if name not in _COLUMN_DTYPES:
            raise AttributeError(name)
        column: NDArray[Any] = self.__dict__["_columns"][name]
        return column[: self.size]

    @property
    def seqs(self) -> Ints:
        """The journal position of each record, by ordinal."""
        column: Ints = self._columns["seq"][: self.size]
        return column

    def put(self, rows: RecordColumnBatch, seq: int) -> None:
        """Write rows, each at its ordinal, and note up to which `seq` these columns are complete."""
        if len(rows):
            ordinals = np.asarray(rows.columns["slot"], dtype=np.int64)
            if (ordinals < self.size).any():
                self._copy_columns()
            self._grow(int(ordinals.max()) + 1)
            fresh = rows.ordinals_by_key()
            self.ordinals_by_key.update(fresh)
            for (_, name), ordinal in fresh.items():
                self.ids[ordinal] = name
            for name, column in self._columns.items():
                column[ordinals] = self._encode_column(name, rows.columns[_ROW_FIELDS.get(name, name)])
        self.seq = max(self.seq, seq)

    def _encode_column(self, name: str, values: Column) -> Column:
        """The values of one column as they are kept: codes for strings, numbers for no time."""
        if isinstance(values, np.ndarray):
            return values
        if name in _UNBOUNDED_TIMES:
            return [_UNBOUNDED_TIMES[name] if value is None else value for value in values]
        if name == "turn":  # the ordinal of that turn, -1 for none
            return [self.ordinals_by_key.get(("Turn", value), -1) if value else -1 for value in values]
        if name not in _INTERNED_COLUMNS:
            return values
        names = getattr(self, _INTERNED_COLUMNS[name])
        codes = {
            value: names.intern(value) if value or name in _REQUIRED_COLUMNS else -1 for value in dict.fromkeys(values)
        }
        return list(map(codes.__getitem__, values))

    def drop(self, ordinals: Iterable[int], seq: int) -> None:
        """Take records out of the current state."""
        ordinals = [ordinal for ordinal in ordinals if ordinal < self.size]
        if ordinals:
            self._copy_columns()
        for ordinal in ordinals:
            self._columns["kind"][ordinal] = -1
        self.seq = max(self.seq, seq)

    def snapshot(self) -> RecordColumns:
        """This state for a reader: rows appended to the original later are not seen, changes copy the columns first."""
        other = RecordColumns()
        other.__dict__.update(self.__dict__)
        return other

    def copy(self) -> RecordColumns:
        """An independent copy, to be patched into an earlier state."""
        other = self.snapshot()
        other._copy_columns()
        return other

    def _copy_columns(self) -> None:
        # Snapshots share the columns; rows they can see are only changed in a copy.
        self._columns = {name: column.copy() for name, column in self._columns.items()}
        self.ids, self.ordinals_by_key, self._conversation_orders = list(self.ids), dict(self.ordinals_by_key), {}

    def _grow(self, size: int) -> None:
        if size > len(self._columns["kind"]):
            room = max(256, size * 3 // 2)
            for name, column in self._columns.items():
                fresh = np.full(room, -1 if name == "kind" else 0, dtype=column.dtype)
                fresh[: self.size] = column[: self.size]
                self._columns[name] = fresh
        self.ids.extend([""] * (size - len(self.ids)))
        self.size = max(self.size, size)

    def build_visibility_mask(
        self,
        channels: Collection[str],
        *,
        now: datetime,
        as_of: datetime | None = None,
        kinds: Collection[str] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        min_confidence: float | None = None,
    ) -> VisibilityMask:
        """What a query over these channels may see.

        Retired records are left out: those that ended by `as_of` (now when None), those superseded or hidden. With
        `as_of` what begins later is left out too. `since` and `until` bound where world time begins, half open.
        """
        seen = self.kind >= 0
        seen &= self.channels.mask_for(channels)[self.channel]
        seen &= ~self.statuses.mask_for(HIDDEN_STATUSES)[self.status]
        seen &= self.superseded_at == MAX_TIME
        moment = to_micros(as_of or now)
        seen &= self.valid_to > moment
        if as_of is not None:
            seen &= self.valid_from <= moment
        if kinds is not None:
            seen &= self.kinds.mask_for(kinds)[self.kind]
        if since is not None:
            seen &= self.valid_from >= to_micros(since)
        if until is not None:
            seen &= self.valid_from < to_micros(until)
        if min_confidence is not None:
            seen &= self.confidence >= min_confidence
        return VisibilityMask(seen, None if as_of is None else moment)

    def conversation_order(self) -> Ints:
        """All ordinals that belong to a conversation, by channel, conversation and position."""
        found = self._conversation_orders.get(self.seq)
        if found is None:
            inside = np.flatnonzero((self.kind >= 0) & (self.conversation >= 0))
            sort = np.lexsort((inside, self.position[inside], self.conversation[inside], self.channel[inside]))
            self._conversation_orders.clear()
            found = self._conversation_orders[self.seq] = inside[sort]
        return found
