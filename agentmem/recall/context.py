"""Packs records into a prompt of a given size: the best first, each whole, shown in time order.

An agent reads more than ten turns: what counts is how much of the evidence lies inside the budget, so packing goes wide
and spends as little as it can on what is not content.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from agentmem.errors import InvalidRecord
from agentmem.model.premises import unknown
from agentmem.model.records import Key, Record, Turn
from agentmem.recall.render import known_line, profile_lines, section, turn_header, turn_line

Counter = Callable[[str], int]
CONTEXT_TOKENS = 4_000
CHARACTERS = 4  # of a token, when nobody counts better
MARK = " … (cut)"
LEAST = 40  # characters below which a cut piece says nothing
MISSES = 20  # records that may fail to fit before packing ends


@dataclass(frozen=True, slots=True)
class Context:
    """Text for a prompt. `records` are the (kind, id) of what it holds whole; `left_out` counts what did not fit."""

    text: str
    tokens: int
    records: tuple[Key, ...]
    left_out: int = 0
    notices: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The text."""
        return self.text


def quarter(text: str) -> int:
    """Tokens as a quarter of the characters, rounded up."""
    return -(-len(text) // CHARACTERS)


def pack(
    order: Sequence[Record], *, profile: Mapping[str, Any] | None = None, max_tokens: int = CONTEXT_TOKENS,
    counter: Counter | None = None, knowledge: float = 1.0, considered: int = 0, notices: Iterable[str] = (),
) -> Context:  # fmt: skip
    """Text of at most `max_tokens` tokens with the records that come first in `order`.

    What is known stands first, then turns by conversation in time order. Records other than turns take at most the
    share `knowledge` of the budget. `counter` gives the tokens of a text. A record too large for the budget is cut,
    with a mark, and not counted among `records`. `considered` is how many records there were to choose from, if more.
    Raises InvalidRecord when `max_tokens` is below 1.
    """
    if max_tokens < 1:
        raise InvalidRecord(f"max_tokens must be at least 1, got {max_tokens}", field="max_tokens")
    page = Page(max_tokens * CHARACTERS if counter is None else max_tokens, counter)
    for line in profile_lines(profile or {}):
        page.add(Entry("# About the user", line, (0, (-1,), 0), None))
    misses, unsure = 0, unknown(order)
    for number, record in enumerate(order):
        limit = page.room if isinstance(record, Turn) else int(page.room * knowledge)
        misses += not page.place(_entry(record, number, unknown=record.id in unsure), limit)
        if misses > MISSES:
            break
    page.trim()
    text = page.text()
    whole = tuple(entry.key for entry in page.entries if entry.key is not None)
    return Context(text, (counter or quarter)(text), whole, max(len(order), considered) - len(whole), tuple(notices))


@dataclass(frozen=True, slots=True)
class Entry:
    """A line, the heading it stands under, its place, and the key of the record that it holds whole."""

    heading: str
    line: str
    place: tuple[Any, ...]
    key: Key | None


@dataclass
class Page:
    """A text that grows line by line and knows how much room is left, in characters or in the counter's tokens."""

    room: int
    counter: Counter | None
    entries: list[Entry] = field(default_factory=list)
    used: int = 0
    known: int = 0
    _headings: set[tuple[str, Any]] = field(default_factory=set)

    def place(self, entry: Entry, limit: int) -> bool:
        """Add an entry; a large one, or the first when it does not fit, is cut. False when it was left out."""
        if entry.place[0] == 0 and self.known >= limit:
            return False
        if self.add(entry):
            return True
        left = self.room - self.used - self._heading_cost(entry)
        if self.entries and self._cost(entry.line) <= self.room // 2:
            return False
        line = self._shortened(entry.line, min(left, self.room // (4 if self.entries else 2)))
        if not line and not self.entries:
            line = self._shortened(entry.line, left)
        if line:
            self.add(Entry(entry.heading, line, entry.place, None))
        return bool(line)

    def add(self, entry: Entry) -> bool:
        """Add an entry if all of it fits."""
        cost = self._cost(entry.line) + self._heading_cost(entry)
        if self.used + cost > self.room + (self.counter is None):  # the last line needs no line break
            return False
        self.used += cost
        self.known += cost * (entry.place[0] == 0)
        self._headings.add((entry.heading, entry.place[:2]))
        self.entries.append(entry)
        return True

    def trim(self) -> None:
        """Drop the last entries while the whole text counts more than its lines did one by one."""
        while self.counter is not None and self.entries and self.counter(self.text()) > self.room:
            del self.entries[-max(1, len(self.entries) // 20) :]

    def text(self) -> str:
        """All entries in their places, each group under its heading."""
        lines, last = [], None
        for entry in sorted(self.entries, key=lambda entry: entry.place):
            if (entry.heading, entry.place[:2]) != last:
                last = (entry.heading, entry.place[:2])
                lines.append(entry.heading)
            lines.append(entry.line)
        return "\n".join(lines)

    def _heading_cost(self, entry: Entry) -> int:
        return 0 if (entry.heading, entry.place[:2]) in self._headings else self._cost(entry.heading)

    def _cost(self, line: str) -> int:
        return len(line) + 1 if self.counter is None else self.counter(line + "\n")

    def _shortened(self, line: str, room: int) -> str:
        """The longest beginning of a line that fits with its mark; empty when that would say nothing."""
        low, high = 0, len(line)
        while low < high:
            middle = (low + high + 1) // 2
            if self._cost(line[:middle] + MARK) <= room:
                low = middle
            else:
                high = middle - 1
        return line[:low].rstrip() + MARK if low >= LEAST else ""


_ORDER = ("User", "Goal", "Fact", "Entity")
_EARLIEST = datetime(1, 1, 1, tzinfo=UTC)


def _entry(record: Record, number: int, *, unknown: bool) -> Entry:
    if isinstance(record, Turn):
        moment = record.timestamp or record.recorded_at or _EARLIEST
        group = (moment.date().isoformat(), record.channel, record.conversation_id)
        return Entry(turn_header(record), turn_line(record), (1, group, record.index, moment, record.id), record.key)
    rank = _ORDER.index(record.kind) if record.kind in _ORDER else len(_ORDER)
    return Entry(section(record), known_line(record, unknown=unknown), (0, (rank,), number), record.key)
