"""A prompt's worth of memory: what stands in it always, and how the rest is packed into a budget.

An agent reads more than ten turns: what counts is how much of the evidence lies inside the budget, so packing goes wide
and spends as little as it can on what is not content.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from agentmem.core.clock import EPOCH
from agentmem.core.procedural_records import Procedure
from agentmem.core.record import Key, Record
from agentmem.core.records import CONTEXT_HEADING, IDENTITY_HEADING, PROFILE_ID, Goal, Synopsis, Turn
from agentmem.core.truth_maintenance import find_unreplaced_stale
from agentmem.errors import InvalidRecord
from agentmem.memory.context import MemoryContext
from agentmem.recall.notebook import render_html
from agentmem.recall.options import ContextOptions
from agentmem.recall.render import (
    render_output,
    render_profile,
    render_record,
    render_turn,
    render_turn_heading,
    section_heading,
)
from agentmem.recall.technique import SearchContext
from agentmem.text.tokenizer import CHARS_PER_TOKEN, TokenCounter, estimate_tokens

if TYPE_CHECKING:
    from agentmem.memory.working.tool_outputs import ToolOutputMatch


MAX_PROCEDURES_READ = 200  # the latest

DEFAULT_CONTEXT_TOKENS = 4_000
CUT_MARK = " … (cut)"
MIN_CUT_CHARS = 40  # characters below which a cut piece says nothing
MAX_MISSES = 20  # records that may fail to fit before packing ends
RECORDS_BEFORE_OUTPUTS = 10

_KIND_ORDER = ("User", "Procedure", "Goal", "Fact", "Entity", "Strategy")
OUTPUTS_HEADING = "# Outputs of tools"
_EARLIEST = datetime(1, 1, 1, tzinfo=UTC)


async def read_standing_instructions(context: SearchContext, limit: int) -> list[Procedure]:
    """At most so many of the visible ones, those asked for most often first; candidates and retired ones never."""
    columns = context.columns
    ordinals = np.flatnonzero(context.mask & (columns.kind == columns.kinds.find_code("Procedure")))[
        -MAX_PROCEDURES_READ:
    ]
    found = await context.read([int(ordinal) for ordinal in ordinals]) if limit and len(ordinals) else []
    standing = [record for record in found if isinstance(record, Procedure) and not record.trigger]
    in_force = [record for record in standing if record.procedure_status == "active"]
    in_force.sort(key=lambda record: record.id)
    in_force.sort(key=lambda record: (record.strength, record.last_asked or EPOCH), reverse=True)
    return in_force[:limit]


@dataclass(frozen=True, slots=True)
class ContextSources:
    """The last turns of the conversation, oldest first, what the user is and does, open goals, and outputs of tools."""

    recent_turns: Sequence[Turn] = ()
    synopsis: Synopsis | None = None
    goals: Sequence[Goal] = ()
    outputs: Sequence[ToolOutputMatch] = ()


async def gather_sources(context: MemoryContext, query: str, options: ContextOptions) -> ContextSources:
    """Read the other tiers, side by side; each empty where there is nothing."""
    from agentmem.memory.goals import Goals
    from agentmem.memory.synopsis import Synopses
    from agentmem.memory.working.memory import WorkingMemory

    working = WorkingMemory(context)

    async def outputs() -> list[ToolOutputMatch]:
        return await working.search_outputs(query, options.outputs) if options.outputs else []

    async def synopsis() -> Synopsis | None:
        return await Synopses(context).read() if options.synopsis_room else None

    recent, known, goals, found = await asyncio.gather(
        working.turns(options.recent), synopsis(), Goals(context).active(), outputs()
    )
    return ContextSources(recent, known, goals[: options.goals], found)


class Context(str):
    """Text for a prompt, a `str`. `records` are the (kind, id) of what it holds whole.

    `left_out` counts the records that were considered and are not among them, `omitted` the same by kind. `full_tokens`
    estimates what all turns of the readable channels would take: their words, by the characters a word has in the turns
    that were read, and a quarter of that or, with a counter of one's own, as many tokens a character as this text has.
    """

    tokens: int
    records: tuple[Key, ...]
    left_out: int
    notices: tuple[str, ...]
    omitted: Mapping[str, int]
    full_tokens: int

    def __new__(
        cls,
        text: str,
        tokens: int,
        records: tuple[Key, ...],
        *,
        left_out: int = 0,
        notices: tuple[str, ...] = (),
        omitted: Mapping[str, int] | None = None,
        full_tokens: int = 0,
    ) -> Self:
        """The text, with what is known of it."""
        made = super().__new__(cls, text)
        made.tokens, made.records, made.left_out, made.notices = tokens, records, left_out, notices
        made.omitted, made.full_tokens = dict(omitted or {}), full_tokens
        return made

    def __getnewargs_ex__(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """For copies and pickles."""
        rest = ("left_out", "notices", "omitted", "full_tokens")
        return (self.text, self.tokens, self.records), {name: getattr(self, name) for name in rest}

    @property
    def text(self) -> str:
        """The text alone."""
        return str(self)

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values, ready for JSON; `records` as objects with kind and id."""
        return {
            "text": self.text,
            "tokens": self.tokens,
            "records": [{"kind": kind, "id": record_id} for kind, record_id in self.records],
            "left_out": self.left_out,
            "omitted": dict(self.omitted),
            "full_tokens": self.full_tokens,
            "notices": list(self.notices),
        }

    @property
    def savings(self) -> float:
        """The share of tokens saved against the full history, from 0 to 1; 0 where the context is no smaller."""
        return max(0.0, 1.0 - self.tokens / self.full_tokens) if self.full_tokens else 0.0

    def _repr_html_(self) -> str:
        """A table for notebooks."""
        shown = {"text": self.text, "tokens": f"{self.tokens:,} of {self.full_tokens:,}", "left out": self.left_out}
        return render_html(("context", ""), [*shown.items(), *(("note", notice) for notice in self.notices)])


def pack(
    order: Sequence[Record],
    *,
    profile: Mapping[str, Any] | None = None,
    max_tokens: int = DEFAULT_CONTEXT_TOKENS,
    counter: TokenCounter | None = None,
    knowledge_share: float = 1.0,
    candidates: Collection[Key] = (),
    notices: Iterable[str] = (),
    standing_instructions: Sequence[Record] = (),
    instructions_share: float = 0.0,
    sources: ContextSources | None = None,
    section_shares: ContextOptions | None = None,
    history_chars: int = 0,
) -> Context:
    """Text of at most `max_tokens` tokens with the records that come first in `order`.

    What is known stands first, then turns by conversation in time order. Records other than turns take at most the
    share `knowledge_share` of the budget. `counter` gives the tokens of a text. A record too large for the budget is
    cut, with a mark, and not counted among `records`. `candidates` are the keys of all records that there were to
    choose from, if more. `standing_instructions` come first whatever the order says, as many as fit into the share
    `instructions_share` of the budget; so does what stands `sources`, each part in its room. Nothing is said twice: a
    sentence of the synopsis goes where all that it rests on stands. `history_chars` is the number of characters of all
    turns. Raises InvalidRecord when `max_tokens` is below 1.
    """
    if max_tokens < 1:
        raise InvalidRecord(f"max_tokens must be at least 1, got {max_tokens}", field="max_tokens")
    page = ContextBuilder(max_tokens * CHARS_PER_TOKEN if counter is None else max_tokens, counter)
    others, section_shares = sources or ContextSources(), section_shares or ContextOptions()
    page.add_profile(profile or {})
    page.add_within_share(
        [_build_line(record, number, is_unknown=False) for number, record in enumerate(standing_instructions)],
        instructions_share,
    )
    page.add_within_share(_synopsis_lines(others.synopsis), section_shares.synopsis_room)
    page.add_within_share(
        [_build_line(turn, 0, is_unknown=False) for turn in reversed(others.recent_turns)], section_shares.recent_room
    )
    page.add_within_share(
        [_build_line(goal, number, is_unknown=False) for number, goal in enumerate(others.goals)],
        section_shares.goals_room,
    )
    unsure = find_unreplaced_stale(order)
    page.add_ranked(order[:RECORDS_BEFORE_OUTPUTS], knowledge_share, unsure)
    page.add_outputs(others, section_shares.outputs_room)
    page.add_ranked(order[RECORDS_BEFORE_OUTPUTS:], knowledge_share, unsure)
    page.trim()
    text = page.render()
    tokens = (counter or estimate_tokens)(text)
    whole = tuple(entry.key for entry in page.lines if entry.key is not None)
    left_out = {*candidates, *(record.key for record in order)} - set(whole)
    omitted = Counter(kind for kind, _ in sorted(left_out))
    full = (
        estimate_tokens(" " * history_chars) if counter is None else round(history_chars * tokens / max(1, len(text)))
    )
    return Context(
        text,
        tokens,
        whole,
        left_out=len(left_out),
        notices=tuple(notices),
        omitted=omitted,
        full_tokens=full,
    )


def _synopsis_lines(synopsis: Synopsis | None) -> list[ContextLine]:
    """The sentences of both parts in turn, those that say most first."""
    if synopsis is None:
        return []
    tiers = ((IDENTITY_HEADING, -1, synopsis.identity), (CONTEXT_HEADING, -0.5, synopsis.context))
    found = [
        (
            number,
            ContextLine(heading, f"- {sentence.text}", (0, (place,), number + 1), None, frozenset(sentence.grounds)),
        )
        for heading, place, tier in tiers
        for number, sentence in enumerate(tier.sentences)
    ]
    return [entry for _, entry in sorted(found, key=lambda each: each[0])]


@dataclass(frozen=True, slots=True)
class ContextLine:
    """A line, the heading it stands under, its place, and the key of the record that it holds whole.

    `source_keys` are the keys of the records that say the same, if all of them together do.
    """

    heading: str
    text: str
    sort_key: tuple[Any, ...]
    key: Key | None
    source_keys: frozenset[Key] = frozenset()


@dataclass
class ContextBuilder:
    """A text that grows line by line and knows how much room is left, in characters or in the counter's tokens."""

    budget: int
    counter: TokenCounter | None
    lines: list[ContextLine] = field(default_factory=list)
    included_keys: set[Key] = field(default_factory=set)  # what is said whole
    used: int = 0
    knowledge_used: int = 0  # of that, by ranked records that are no turns
    ranked_count: int = 0
    miss_count: int = 0
    _headings: set[tuple[str, Any]] = field(default_factory=set)

    def add_or_cut(self, entry: ContextLine, limit: int) -> bool:
        """Add an entry; a large one, or the first when it does not fit, is cut. False when it was left out."""
        if entry.sort_key[0] == 0 and self.knowledge_used >= limit:
            return False
        cost = self._cost(entry.text) + self._heading_cost(entry)
        if self.add(entry):
            self.knowledge_used += cost * (entry.sort_key[0] == 0)
            return True
        heading = self._heading_cost(entry)
        left = self.budget - self.used - heading
        if self.lines and self._cost(entry.text) <= self.budget // 2:
            return False
        line = self._cut_line(entry.text, min(left, self.budget // (4 if self.lines else 2)))
        if not line and not self.lines:
            line = self._cut_line(entry.text, left)
        if line and self.add(ContextLine(entry.heading, line, entry.sort_key, None)):
            self.knowledge_used += (self._cost(line) + heading) * (entry.sort_key[0] == 0)
        return bool(line)

    def add_profile(self, profile: Mapping[str, Any]) -> None:
        """Add what the profile says, a line each."""
        whole = [self.add(ContextLine(IDENTITY_HEADING, line, (0, (-1,), 0), None)) for line in render_profile(profile)]
        if all(whole):
            self.included_keys.add(("User", PROFILE_ID))

    def add_within_share(self, entries: Iterable[ContextLine], share: float) -> None:
        """Add these in their order, those that fit whole while they take no more than a share of the room."""
        left = int(self.budget * share)
        for entry in entries:
            cost = self._cost(entry.text) + self._heading_cost(entry)
            said = (
                entry.key in self.included_keys
                if entry.key
                else bool(entry.source_keys) and entry.source_keys <= self.included_keys
            )
            if not said and cost <= left and self.add(entry):
                left -= cost

    def add_ranked(self, order: Sequence[Record], knowledge_share: float, unknown_ids: Collection[str]) -> None:
        """Add the records of a ranking that are not here yet, while they fit; `unknown_ids` are ids of stale facts."""
        for number, record in enumerate(order, self.ranked_count):
            if record.key in self.included_keys or self.miss_count > MAX_MISSES:
                continue
            limit = self.budget if isinstance(record, Turn) else int(self.budget * knowledge_share)
            self.miss_count += not self.add_or_cut(
                _build_line(record, number, is_unknown=record.id in unknown_ids), limit
            )
        self.ranked_count += len(order)

    def add_outputs(self, sources: ContextSources, share: float) -> None:
        """Add what tools gave back, the nearest first; a long one is cut, so that the others have their part, too."""
        whole = int(self.budget * share)
        for number, found in enumerate(sources.outputs):
            left = whole // (len(sources.outputs) - number)
            key = ("Output", found.output.id)
            entry = ContextLine(OUTPUTS_HEADING, render_output(found.output), (0, (len(_KIND_ORDER) + 1,), number), key)
            heading = self._heading_cost(entry)
            if self._cost(entry.text) + heading > min(left, self.budget - self.used):
                line = self._cut_line(entry.text, min(left, self.budget - self.used) - heading)
                entry = ContextLine(entry.heading, line, entry.sort_key, None)
            if entry.text and self.add(entry):
                whole -= self._cost(entry.text) + heading

    def add(self, entry: ContextLine) -> bool:
        """Add an entry if all of it fits."""
        cost = self._cost(entry.text) + self._heading_cost(entry)
        if self.used + cost > self.budget + (self.counter is None):  # the last line needs no line break
            return False
        self.used += cost
        self._headings.add((entry.heading, entry.sort_key[:2]))
        self.lines.append(entry)
        if entry.key is not None:
            self.included_keys.add(entry.key)
            self._remove_restated(entry.key)
        return True

    def _remove_restated(self, key: Key) -> None:
        """Take out the sentences of the synopsis that say no more than what now stands here."""
        said = [entry for entry in self.lines if key in entry.source_keys and entry.source_keys <= self.included_keys]
        for entry in said:
            self.lines.remove(entry)
            self.used -= self._cost(entry.text)

    def trim(self) -> None:
        """Drop the last entries while the whole text counts more than its lines did one by one."""
        while self.counter is not None and self.lines and self.counter(self.render()) > self.budget:
            del self.lines[-max(1, len(self.lines) // 20) :]

    def render(self) -> str:
        """All entries in their places, each group under its heading."""
        lines, last = [], None
        for entry in sorted(self.lines, key=lambda entry: entry.sort_key):
            if (entry.heading, entry.sort_key[:2]) != last:
                last = (entry.heading, entry.sort_key[:2])
                lines.append(entry.heading)
            lines.append(entry.text)
        return "\n".join(lines)

    def _heading_cost(self, entry: ContextLine) -> int:
        return 0 if (entry.heading, entry.sort_key[:2]) in self._headings else self._cost(entry.heading)

    def _cost(self, line: str) -> int:
        return len(line) + 1 if self.counter is None else self.counter(line + "\n")

    def _cut_line(self, line: str, budget: int) -> str:
        """The longest beginning of a line that fits with its mark; empty when that would say nothing."""
        low, high = 0, len(line)
        while low < high:
            middle = (low + high + 1) // 2
            if self._cost(line[:middle] + CUT_MARK) <= budget:
                low = middle
            else:
                high = middle - 1
        return line[:low].rstrip() + CUT_MARK if low >= MIN_CUT_CHARS else ""


def _build_line(record: Record, position: int, *, is_unknown: bool) -> ContextLine:
    if isinstance(record, Turn):
        moment = record.timestamp or record.recorded_at or _EARLIEST
        group = (moment.date().isoformat(), record.channel, record.conversation_id)
        return ContextLine(
            render_turn_heading(record), render_turn(record), (1, group, record.index, moment, record.id), record.key
        )
    rank: float = _KIND_ORDER.index(record.kind) if record.kind in _KIND_ORDER else len(_KIND_ORDER)
    if isinstance(record, Goal) and not record.is_open:
        rank += 0.5
    return ContextLine(
        section_heading(record), render_record(record, is_unknown=is_unknown), (0, (rank,), position), record.key
    )
