"""Packs records into a prompt of a given size: the best first, each whole, shown in time order.

An agent reads more than ten turns: what counts is how much of the evidence lies inside the budget, so packing goes wide
and spends as little as it can on what is not content.
"""

from __future__ import annotations

from collections import Counter as Counted
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from agentmem.errors import InvalidRecord
from agentmem.model.premises import unknown
from agentmem.model.records import PROFILE, Key, Record, Turn
from agentmem.model.synopsis import CONTEXT_HEADING, IDENTITY_HEADING, Synopsis
from agentmem.recall.beside import Beside
from agentmem.recall.options import ContextOptions
from agentmem.recall.render import known_line, output_line, profile_lines, section, turn_header, turn_line
from agentmem.text.tokens import CHARACTERS, Counter, quarter

__all__ = ["CONTEXT_TOKENS", "MARK", "Context", "Counter", "pack", "quarter"]

CONTEXT_TOKENS = 4_000
MARK = " … (cut)"
LEAST = 40  # characters below which a cut piece says nothing
MISSES = 20  # records that may fail to fit before packing ends
FIRST = 10  # ranked records that come before outputs of tools


@dataclass(frozen=True, slots=True)
class Context:
    """Text for a prompt. `records` are the (kind, id) of what it holds whole.

    `left_out` counts the records that were considered and are not among them, `omitted` the same by kind. `full_tokens`
    estimates what all turns of the readable channels would take: their words, by the characters a word has in the turns
    that were read, and a quarter of that or, with a counter of one's own, as many tokens a character as this text has.
    """

    text: str
    tokens: int
    records: tuple[Key, ...]
    left_out: int = 0
    notices: tuple[str, ...] = ()
    omitted: Mapping[str, int] = field(default_factory=dict)
    full_tokens: int = 0

    @property
    def savings(self) -> float:
        """The share of tokens saved against the full history, from 0 to 1; 0 where the context is no smaller."""
        return max(0.0, 1.0 - self.tokens / self.full_tokens) if self.full_tokens else 0.0

    def __str__(self) -> str:
        """The text."""
        return self.text


def pack(
    order: Sequence[Record], *, profile: Mapping[str, Any] | None = None, max_tokens: int = CONTEXT_TOKENS,
    counter: Counter | None = None, knowledge: float = 1.0, considered: Collection[Key] = (),
    notices: Iterable[str] = (), standing: Sequence[Record] = (), instructions: float = 0.0,
    beside: Beside | None = None, rooms: ContextOptions | None = None, history: int = 0,
) -> Context:  # fmt: skip
    """Text of at most `max_tokens` tokens with the records that come first in `order`.

    What is known stands first, then turns by conversation in time order. Records other than turns take at most the
    share `knowledge` of the budget. `counter` gives the tokens of a text. A record too large for the budget is cut,
    with a mark, and not counted among `records`. `considered` are the keys of all records that there were to choose
    from, if more. `standing` come first whatever the order says, as many as fit into the share `instructions` of the
    budget; so does what stands `beside`, each part in its room. Nothing is said twice: a sentence of the synopsis goes
    where all that it rests on stands. `history` is the number of characters of all turns. Raises InvalidRecord when
    `max_tokens` is below 1.
    """
    if max_tokens < 1:
        raise InvalidRecord(f"max_tokens must be at least 1, got {max_tokens}", field="max_tokens")
    page = Page(max_tokens * CHARACTERS if counter is None else max_tokens, counter)
    others, rooms = beside or Beside(), rooms or ContextOptions()
    page.profile(profile or {})
    page.fill([_entry(record, number, unknown=False) for number, record in enumerate(standing)], instructions)
    page.fill(_sentences(others.synopsis), rooms.synopsis_room)
    page.fill([_entry(turn, 0, unknown=False) for turn in reversed(others.recent)], rooms.recent_room)
    page.fill([_entry(goal, number, unknown=False) for number, goal in enumerate(others.goals)], rooms.goals_room)
    unsure = unknown(order)
    page.rank(order[:FIRST], knowledge, unsure)
    page.outputs(others, rooms.outputs_room)
    page.rank(order[FIRST:], knowledge, unsure)
    page.trim()
    text = page.text()
    tokens = (counter or quarter)(text)
    whole = tuple(entry.key for entry in page.entries if entry.key is not None)
    left_out = {*considered, *(record.key for record in order)} - set(whole)
    omitted = Counted(kind for kind, _ in sorted(left_out))
    full = quarter(" " * history) if counter is None else round(history * tokens / max(1, len(text)))
    return Context(text, tokens, whole, len(left_out), tuple(notices), dict(omitted), full)


def _sentences(synopsis: Synopsis | None) -> list[Entry]:
    """The sentences of both parts in turn, those that say most first."""
    if synopsis is None:
        return []
    tiers = ((IDENTITY_HEADING, -1, synopsis.identity), (CONTEXT_HEADING, -0.5, synopsis.context))
    found = [
        (number, Entry(heading, f"- {sentence.text}", (0, (place,), number + 1), None, frozenset(sentence.grounds)))
        for heading, place, tier in tiers
        for number, sentence in enumerate(tier.sentences)
    ]
    return [entry for _, entry in sorted(found, key=lambda each: each[0])]


@dataclass(frozen=True, slots=True)
class Entry:
    """A line, the heading it stands under, its place, and the key of the record that it holds whole.

    `grounds` are the keys of the records that say the same, if all of them together do.
    """

    heading: str
    line: str
    place: tuple[Any, ...]
    key: Key | None
    grounds: frozenset[Key] = frozenset()


@dataclass
class Page:
    """A text that grows line by line and knows how much room is left, in characters or in the counter's tokens."""

    room: int
    counter: Counter | None
    entries: list[Entry] = field(default_factory=list)
    held: set[Key] = field(default_factory=set)  # what is said whole
    used: int = 0
    known: int = 0  # of that, by ranked records that are no turns
    ranked: int = 0
    misses: int = 0
    _headings: set[tuple[str, Any]] = field(default_factory=set)

    def place(self, entry: Entry, limit: int) -> bool:
        """Add an entry; a large one, or the first when it does not fit, is cut. False when it was left out."""
        if entry.place[0] == 0 and self.known >= limit:
            return False
        cost = self._cost(entry.line) + self._heading_cost(entry)
        if self.add(entry):
            self.known += cost * (entry.place[0] == 0)
            return True
        heading = self._heading_cost(entry)
        left = self.room - self.used - heading
        if self.entries and self._cost(entry.line) <= self.room // 2:
            return False
        line = self._shortened(entry.line, min(left, self.room // (4 if self.entries else 2)))
        if not line and not self.entries:
            line = self._shortened(entry.line, left)
        if line and self.add(Entry(entry.heading, line, entry.place, None)):
            self.known += (self._cost(line) + heading) * (entry.place[0] == 0)
        return bool(line)

    def profile(self, profile: Mapping[str, Any]) -> None:
        """Add what the profile says, a line each."""
        whole = [self.add(Entry(IDENTITY_HEADING, line, (0, (-1,), 0), None)) for line in profile_lines(profile)]
        if all(whole):
            self.held.add(("User", PROFILE))

    def fill(self, entries: Iterable[Entry], share: float) -> None:
        """Add these in their order, those that fit whole while they take no more than a share of the room."""
        left = int(self.room * share)
        for entry in entries:
            cost = self._cost(entry.line) + self._heading_cost(entry)
            said = entry.key in self.held if entry.key else bool(entry.grounds) and entry.grounds <= self.held
            if not said and cost <= left and self.add(entry):
                left -= cost

    def rank(self, order: Sequence[Record], knowledge: float, unsure: Collection[str]) -> None:
        """Add the records of a ranking that are not here yet, while they fit; `unsure` are ids of stale facts."""
        for number, record in enumerate(order, self.ranked):
            if record.key in self.held or self.misses > MISSES:
                continue
            limit = self.room if isinstance(record, Turn) else int(self.room * knowledge)
            self.misses += not self.place(_entry(record, number, unknown=record.id in unsure), limit)
        self.ranked += len(order)

    def outputs(self, others: Beside, share: float) -> None:
        """Add what tools gave back, the nearest first; a long one is cut, so that the others have their part, too."""
        whole = int(self.room * share)
        for number, found in enumerate(others.outputs):
            left = whole // (len(others.outputs) - number)
            key = ("Output", found.output.id)
            entry = Entry(OUTPUTS, output_line(found.output), (0, (len(_ORDER) + 1,), number), key)
            heading = self._heading_cost(entry)
            if self._cost(entry.line) + heading > min(left, self.room - self.used):
                line = self._shortened(entry.line, min(left, self.room - self.used) - heading)
                entry = Entry(entry.heading, line, entry.place, None)
            if entry.line and self.add(entry):
                whole -= self._cost(entry.line) + heading

    def add(self, entry: Entry) -> bool:
        """Add an entry if all of it fits."""
        cost = self._cost(entry.line) + self._heading_cost(entry)
        if self.used + cost > self.room + (self.counter is None):  # the last line needs no line break
            return False
        self.used += cost
        self._headings.add((entry.heading, entry.place[:2]))
        self.entries.append(entry)
        if entry.key is not None:
            self.held.add(entry.key)
            self._unsay(entry.key)
        return True

    def _unsay(self, key: Key) -> None:
        """Take out the sentences of the synopsis that say no more than what now stands here."""
        said = [entry for entry in self.entries if key in entry.grounds and entry.grounds <= self.held]
        for entry in said:
            self.entries.remove(entry)
            self.used -= self._cost(entry.line)

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


_ORDER = ("User", "Procedure", "Goal", "Fact", "Entity", "Strategy")
OUTPUTS = "# Outputs of tools"
_EARLIEST = datetime(1, 1, 1, tzinfo=UTC)


def _entry(record: Record, number: int, *, unknown: bool) -> Entry:
    if isinstance(record, Turn):
        moment = record.timestamp or record.recorded_at or _EARLIEST
        group = (moment.date().isoformat(), record.channel, record.conversation_id)
        return Entry(turn_header(record), turn_line(record), (1, group, record.index, moment, record.id), record.key)
    rank = _ORDER.index(record.kind) if record.kind in _ORDER else len(_ORDER)
    return Entry(section(record), known_line(record, unknown=unknown), (0, (rank,), number), record.key)
