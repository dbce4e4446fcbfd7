"""Time and ids come in through arguments: a clock, and a source of UUIDv7 strings that can be seeded."""

from __future__ import annotations

import hashlib
import os
import threading
import time
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import Protocol, runtime_checkable

from agentmem.core.plain_values import describe_value
from agentmem.errors import InvalidRecord

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NAMESPACE = uuid.NAMESPACE_OID.bytes
_MICROSECOND = timedelta(microseconds=1)
FIRST_MOMENT, LAST_MOMENT = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
MAX_RECORDED_LEAD = timedelta(days=36_525)  # of what was recorded before the present clock, in any order of the two
MAX_CLOCK_LEAD = timedelta(days=1)  # of what was recorded last before a clock that is right
MAX_KEY_BYTES = 64
MAX_STEP_BACK = timedelta(seconds=30)  # by which time servers set clocks back; more is somebody's decision


@runtime_checkable
class Clock(Protocol):
    """Anything with `now()`, which returns an aware datetime."""

    def now(self) -> datetime: ...


class SystemClock:
    """The machine's clock, in UTC. When it is set back a little, it repeats its last time until it has caught up.

    Otherwise later statements would count as older, and an old value as the newer one.
    """

    def __init__(self) -> None:
        self._last = EPOCH

    def now(self) -> datetime:
        """The current time, aware, in UTC."""
        current = datetime.now(UTC)
        if timedelta(0) < self._last - current <= MAX_STEP_BACK:
            return self._last
        self._last = current
        return current


@dataclass(frozen=True, slots=True)
class FrozenClock:
    """A clock that always shows the same time, for runs that are to be repeated."""

    time: datetime

    def now(self) -> datetime:
        """Always `time`."""
        return self.time


class Stopwatch:
    """Milliseconds since it was made: by the monotonic timer, or by an injected clock, so that a frozen one says 0."""

    def __init__(self, clock: Clock) -> None:
        self._clock = None if isinstance(clock, SystemClock) else clock
        self._start = self._read()

    def _read(self) -> float:
        return time.perf_counter() * 1000 if self._clock is None else to_micros(self._clock.now()) / 1000

    def milliseconds(self) -> float:
        """Elapsed milliseconds, never negative."""
        return max(0.0, self._read() - self._start)


def to_utc(moment: datetime, field: str | None = None) -> datetime:
    """The same moment in UTC; a naive datetime is taken as UTC. InvalidRecord, naming the field, for anything else."""
    if not isinstance(moment, datetime):
        raise InvalidRecord(f"{field or 'a moment'} must be a datetime, got {describe_value(moment)}", field=field)
    if moment.tzinfo is None:
        return moment.replace(tzinfo=UTC)
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:  # the first and the last day of the calendar in other time zones
        raise InvalidRecord(f"{field or 'a moment'} lies outside of the years 1 to 9999 in UTC", field=field) from error


def to_own_offset(moment: datetime, field: str | None = None) -> datetime:
    """The same moment with its own UTC offset to the minute; otherwise as `to_utc`."""
    utc, offset = to_utc(moment, field), moment.utcoffset()
    if not offset:
        return utc
    return moment.astimezone(timezone(timedelta(minutes=round(offset / timedelta(minutes=1)))))


def add_time(moment: datetime, delta: timedelta) -> datetime:
    """A moment and a time added, in UTC; the first or last moment of the calendar where the sum is outside of it.

    Clocks were in the year 9999, and many programs use `datetime.max` for "for ever".
    """
    try:
        return moment + delta
    except OverflowError:
        return FIRST_MOMENT if delta < timedelta(0) else LAST_MOMENT


def latest_moment(now: datetime, last_recorded: datetime) -> datetime:
    """What counts as now: no older than what was recorded last, so that a clock set back revives nothing.

    Something recorded more than a day ahead was written under a wrong clock, and does not count.
    """
    return last_recorded if timedelta(0) < last_recorded - now <= MAX_CLOCK_LEAD else now


def is_wrong_time(recorded: int, now: int) -> bool:
    """Whether something was recorded so far ahead of now that its clock was wrong, and not the present one.

    Both in microseconds since 1970. A machine whose battery is empty begins in 1970, at most some decades back; so a
    century is more than a clock that is wrong now can explain.
    """
    return recorded - now > MAX_RECORDED_LEAD // _MICROSECOND


def next_record_time(now: int, last_recorded: int) -> int:
    """The record time of what is written now: no earlier than what was recorded last, unless that has a wrong time."""
    return now if is_wrong_time(last_recorded, now) else max(now, last_recorded)


def to_micros(moment: datetime) -> int:
    """Microseconds since 1970, exact."""
    return (to_utc(moment) - EPOCH) // _MICROSECOND


def from_micros(value: int) -> datetime:
    """The aware UTC datetime of so many microseconds since 1970."""
    return EPOCH + timedelta(microseconds=value)


def from_micros_or_none(value: int | None) -> datetime | None:
    """The same for a value that may be missing."""
    return None if value is None else from_micros(value)


class IdSource(Protocol):
    """Makes ids that were never made before."""

    def new_id(self) -> str: ...


class RandomIds:
    """UUIDv7 strings (RFC 9562) from the clock and the system's randomness; increasing within a process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def new_id(self) -> str:
        """A new UUIDv7."""
        return _uuid7(to_micros(self._clock.now()) // 1000, os.urandom(10))


class SeededIds:
    """UUIDv7-shaped strings as a keyed function of (seed, opening, n), so that a script run twice makes the same ids.

    `opening` is a counter kept by the store: a seed used twice on one store never repeats an id.
    """

    def __init__(self, clock: Clock, seed: int | str, opening: int) -> None:
        self._clock = clock
        key = f"{seed}:{opening}".encode()
        self._key = key if len(key) <= MAX_KEY_BYTES else hashlib.blake2b(key).digest()
        self._n = 0
        self._lock = threading.Lock()

    def new_id(self) -> str:
        """The next id of this opening."""
        with self._lock:
            self._n += 1
            n = self._n
        digest = hashlib.blake2b(str(n).encode(), key=self._key, digest_size=10).digest()
        return _uuid7(to_micros(self._clock.now()) // 1000, digest)


def _uuid7(milliseconds: int, random_bytes: bytes) -> str:
    return _format_uuid((milliseconds & ((1 << 48) - 1)) << 80 | int.from_bytes(random_bytes, "big"), version=7)


def derive_id(*parts: str) -> str:
    """A UUIDv5 of the parts: the same parts give the same id, and no two lists of parts share one."""
    name = "\x1f".join(f"{len(part)}:{part}" for part in parts)
    digest = hashlib.sha1(_NAMESPACE + name.encode("utf-8", "surrogatepass"), usedforsecurity=False).digest()
    return _format_uuid(int.from_bytes(digest[:16], "big"), version=5)


def _format_uuid(value: int, version: int) -> str:
    """128 bits as a UUID of a version, as uuid.UUID writes it, in a third of the time."""
    value = value & ~(0xF << 76) | version << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    digits = f"{value:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
