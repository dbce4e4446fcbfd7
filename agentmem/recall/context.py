"""A prompt's worth of memory: what stands in it always, and how the rest is packed into a budget.

An agent reads more than ten turns: what counts is how much of the evidence lies inside the budget, so packing goes wide
and spends as little as it can on what is not content. The order of the sections is that of `SECTION_TITLES`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from agentmem.core.clock import EPOCH
from agentmem.core.local_time import LocalTime
from agentmem.core.procedural_records import Procedure, Strategy
from agentmem.core.record import Key, Record
from agentmem.core.records import PROFILE_ID, Entity, Goal, Synopsis, Turn
from agentmem.core.truth_maintenance import find_unreplaced_stale
from agentmem.errors import InvalidRecord
from agentmem.memory.context import MemoryContext
from agentmem.memory.semantic.belief_digest import BeliefDigest, read_digest
from agentmem.memory.semantic.beliefs import order_by_word
from agentmem.memory.semantic.standing import Standings
from agentmem.memory.user_zone import read_local_time
from agentmem.recall.context_builder import ContextBuilder, ContextLine, ContextPart, find_passage
from agentmem.recall.notebook import render_html
from agentmem.recall.options import ContextOptions
from agentmem.recall.render import (
    render_output,
    render_profile,
    render_record,
    render_turn,
    render_turn_heading,
)
from agentmem.recall.request import RecallRequest
from agentmem.recall.technique import SearchContext
from agentmem.text.plain_line import to_plain_line
from agentmem.text.tokenizer import CHARS_PER_TOKEN, TokenCounter, estimate_tokens, tokenize

if TYPE_CHECKING:
    from agentmem.memory.working.tool_outputs import ToolOutputMatch


MAX_PROCEDURES_READ = 200  # the latest

DEFAULT_CONTEXT_TOKENS = 4_000
MAX_STANDING_INSTRUCTIONS = 10
MAX_GOALS = 10
# Shares of the budget. What a part leaves goes to the turns; the measures on LoCoMo, BEAM, LifeBench and RealMem are in
# docs/context.md.
KNOWLEDGE_SHARE = 0.3  # of facts, entities and what has worked, while there are turns
INSTRUCTIONS_SHARE = 0.1  # of instructions that always hold
SYNOPSIS_SHARE = 0.15  # of what is believed of the user and others, and of the synopsis
RECENT_SHARE = 0.25  # of the conversation's last turns
GOALS_SHARE = 0.1
OUTPUTS_SHARE = 0.15  # of outputs of tools
MAX_MISSES = 20  # records that may fail to fit before packing ends
RECORDS_BEFORE_OUTPUTS = 10
MAX_UNRANKED_BELIEFS = 200  # lines of beliefs that are considered though nothing found them
MIN_REPLY_TERMS = 3  # content words below which a reply is shown with the question before it
_COURTESIES = frozenset(
    tokenize(
        "ok okay thanks thank great sure noted got yes yeah yep exactly correct right perfect cheers good nice cool"
        " fine hello hi hey bye goodbye welcome sorry please lol haha hmm oh wow understood lovely awesome course"
        " worries ah ha true ugh ouch brb saved updated"
        " congratulations congrats danke bitte genau gerne klar hallo merci oui bonjour gracias vale hola obrigado"
    )
)
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
    """What a context holds beside what was found.

    The last turns of the conversation, oldest first, what the user is and does, open goals, outputs of tools, and what
    is believed, line by line. `local` is the zone of the days that it tells. `find_order_slot` tells which slot an
    instruction is about, "" for none.
    """

    recent_turns: Sequence[Turn] = ()
    synopsis: Synopsis | None = None
    goals: Sequence[Goal] = ()
    outputs: Sequence[ToolOutputMatch] = ()
    beliefs: BeliefDigest = field(default_factory=BeliefDigest)
    local: LocalTime = field(default_factory=LocalTime)
    find_order_slot: Callable[[str], str] = lambda _: ""


async def gather_sources(
    context: MemoryContext, request: RecallRequest, options: ContextOptions, find_order_slot: Callable[[str], str]
) -> ContextSources:
    """Read the other tiers, side by side; each empty where there is nothing. Of another moment only beliefs."""
    if request.as_of is not None or request.known_at is not None:
        beliefs = await read_digest(context, request.as_of, request.known_at)
        local = await read_local_time(context)
        return ContextSources(beliefs=beliefs, local=local, find_order_slot=find_order_slot)
    from agentmem.memory.goals import Goals
    from agentmem.memory.synopsis import Synopses
    from agentmem.memory.working.memory import WorkingMemory

    working = WorkingMemory(context)

    async def outputs() -> list[ToolOutputMatch]:
        return await working.search_outputs(request.search_text, options.outputs) if options.outputs else []

    recent, known, goals, found, beliefs, local = await asyncio.gather(
        working.turns(options.recent),
        Synopses(context).read(),
        Goals(context).active(),
        outputs(),
        read_digest(context),
        read_local_time(context),
    )
    return ContextSources(recent, known, goals[:MAX_GOALS], found, beliefs, local, find_order_slot)


class Context(str):
    """Text for a prompt, a `str`. `records` are the (kind, id) of what it holds whole, `parts` the same as its text by
    section, for programs that lay out a prompt themselves.

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
    parts: tuple[ContextPart, ...]
    shown: tuple[Record, ...] = ()  # those of `records` that were found for the query
    values: tuple[tuple[Key, str], ...] = ()  # of beliefs told: the fact and its value
    fitting: tuple[Key, ...] = ()  # those of them that fit it, which count as accessed

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
        parts: tuple[ContextPart, ...] = (),
    ) -> Self:
        """The text, with what is known of it."""
        made = super().__new__(cls, text)
        made.tokens, made.records, made.left_out, made.notices = tokens, records, left_out, notices
        made.omitted, made.full_tokens, made.parts = dict(omitted or {}), full_tokens, parts
        return made

    def __getnewargs_ex__(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """For copies and pickles."""
        rest = ("left_out", "notices", "omitted", "full_tokens", "parts")
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
            "parts": [part.to_dict() for part in self.parts],
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
    query: str = "",
    moment: datetime | None = None,
    profile: Mapping[str, Any] | None = None,
    max_tokens: int = DEFAULT_CONTEXT_TOKENS,
    counter: TokenCounter | None = None,
    knowledge_share: float = 1.0,
    candidates: Collection[Key] = (),
    notices: Iterable[str] = (),
    standing_instructions: Sequence[Procedure] = (),
    instructions_share: float = 0.0,
    sources: ContextSources | None = None,
    questions: Mapping[Key, Turn] | None = None,
    history_chars: int = 0,
    with_ids: bool = False,
    standings: Standings | None = None,
) -> Context:
    """Text of at most `max_tokens` tokens with the records that come first in `order`, between markers.

    What is known stands first, then turns by conversation in time order. Ranked records other than turns take at most
    the share `knowledge_share` of the budget. `counter` gives the tokens of a text. A record too large for the budget
    is cut, with a mark, and not counted among `records`. `candidates` are the keys of all records that there were to
    choose from, if more. Whatever the order says, `standing_instructions` come first, as many as fit into the share
    `instructions_share` of the budget, and so does what stands in `sources`, each part in its room. Nothing is said
    twice. `questions` are the turns that short replies answer, by the key of the reply. `query` decides which private
    beliefs are asked for. `moment` is what the opening marker tells. `history_chars` is the number of characters of all
    turns. `standings` mark what does not simply hold. Empty when there is nothing to say, or no room for a line. Raises
    InvalidRecord when `max_tokens` is below 1.
    """
    if max_tokens < 1:
        raise InvalidRecord(f"max_tokens must be at least 1, got {max_tokens}", field="max_tokens")
    as_of = (sources or ContextSources()).local.localize(moment).date().isoformat() if moment else ""
    page = ContextBuilder(max_tokens * CHARS_PER_TOKEN if counter is None else max_tokens, counter, as_of)
    packing = _Packing(page, order, query, sources or ContextSources(), questions or {}, with_ids, moment, standings)
    packing.add_standing(standing_instructions, instructions_share, profile or {})
    packing.add_ranked(order[:RECORDS_BEFORE_OUTPUTS], knowledge_share)
    packing.add_outputs(OUTPUTS_SHARE)
    packing.add_ranked(order[RECORDS_BEFORE_OUTPUTS:], knowledge_share)
    page.widen_cuts()
    page.trim()
    text = page.render()
    tokens = (counter or estimate_tokens)(text)
    whole = tuple(dict.fromkeys(key for entry in page.lines for key in entry.keys))
    left_out = {*candidates, *(record.key for record in order)} - set(whole)
    full = (
        estimate_tokens(" " * history_chars) if counter is None else round(history_chars * tokens / max(1, len(text)))
    )
    return Context(
        text,
        tokens,
        whole,
        left_out=len(left_out),
        notices=tuple(notices),
        omitted=Counter(kind for kind, _ in sorted(left_out)),
        full_tokens=full,
        parts=tuple(page.parts()),
    )


def has_content(text: str) -> bool:
    """Whether a text has a word that says something: not "Thanks!", "perfect 👍", "<3" or a number alone."""
    terms = (term for term in tokenize(text) if len(term) > 1 and not term.isdecimal())
    return any(term not in _COURTESIES and any(map(str.isalnum, term)) for term in terms)


@dataclass
class _Packing:
    """How what is known and what was found goes onto a page."""

    page: ContextBuilder
    order: Sequence[Record]
    query: str
    sources: ContextSources
    questions: Mapping[Key, Turn]
    with_ids: bool
    moment: datetime | None
    standings: Standings | None
    knowledge_used: int = 0  # of the budget, by ranked records that are no turns
    ranked_count: int = 0
    miss_count: int = 0
    _beliefs: dict[Key, ContextLine] = field(default_factory=dict)
    _unsure: set[str] = field(default_factory=set)
    _settled: set[Key] = field(default_factory=set)  # orders of which a later one took the place

    def __post_init__(self) -> None:
        asked, ranked = set(tokenize(self.query)), {record.key for record in self.order}
        for number, line in enumerate(self.sources.beliefs.lines):
            if number >= MAX_UNRANKED_BELIEFS and ranked.isdisjoint(line.keys):
                continue
            if not line.is_private or not asked.isdisjoint(line.terms()):
                entry = ContextLine(line.section, f"- {line.text}", (1, number), line.keys)
                self._beliefs.update(dict.fromkeys(line.keys, entry))
        self._unsure = find_unreplaced_stale(self.order)

    def add_standing(self, instructions: Sequence[Procedure], share: float, profile: Mapping[str, Any]) -> None:
        """Add what a context holds whatever was found, each part in its room."""
        page, sources = self.page, self.sources
        self._settle_orders(instructions)
        lines = list(dict.fromkeys(self._beliefs.values()))
        own = [entry for entry in lines if entry.section == "instructions"]
        asked_for = [each for each in instructions if each.key not in self._settled]
        page.add_within_share([*own, *(self._build_line(each, n) for n, each in enumerate(asked_for))], share)
        self._add_profile(profile)
        rank = {key: number for number, key in enumerate(record.key for record in self.order[:RECORDS_BEFORE_OUTPUTS])}
        lines.sort(key=lambda entry: min(rank.get(key, len(rank)) for key in entry.keys))
        page.add_within_share(lines, SYNOPSIS_SHARE)
        page.add_within_share(self._synopsis_lines(), SYNOPSIS_SHARE)
        recent = [turn for turn in reversed(sources.recent_turns) if has_content(turn.content)]
        page.add_within_share((self._build_turn_line(turn) for turn in recent), RECENT_SHARE)
        page.add_within_share((self._build_line(goal, n) for n, goal in enumerate(sources.goals)), GOALS_SHARE)

    def _settle_orders(self, instructions: Sequence[Procedure]) -> None:
        """Leave out all orders about one slot but the latest, whether it is kept as a belief or as a procedure."""
        beliefs = self.sources.beliefs
        latest = {
            slot: (order_by_word(facts[-1])[0], [fact.key for fact in facts]) for slot, facts in beliefs.orders.items()
        }
        found = {
            each.key: each for each in (*instructions, *self.order) if isinstance(each, Procedure) and not each.trigger
        }
        for key, each in found.items():
            if not beliefs.instruction_turn_ids.isdisjoint(each.source_turn_ids):
                self._settled.add(key)
            elif slot := self.sources.find_order_slot(each.instruction):
                asked = each.last_asked or each.recorded_at or EPOCH
                older, newer = sorted([(asked, [key]), latest.get(slot, (EPOCH, []))], key=lambda one: one[0])
                self._settled.update(older[1])
                latest[slot] = newer
        for key in self._settled:
            self._beliefs.pop(key, None)

    def _add_profile(self, profile: Mapping[str, Any]) -> None:
        lines = [ContextLine("user", line, (0, number)) for number, line in enumerate(render_profile(profile))]
        if all(self.page.add(line) for line in lines):
            self.page.included_keys.add(("User", PROFILE_ID))

    def _synopsis_lines(self) -> list[ContextLine]:
        """The sentences of both parts in turn, those that say most first; lines of beliefs are told by themselves."""
        if self.sources.synopsis is None:
            return []
        told = self.sources.beliefs.keys
        tiers = (("user", self.sources.synopsis.identity), ("lately", self.sources.synopsis.context))
        found = [
            (
                number,
                ContextLine(section, f"- {to_plain_line(each.text)}", (2, number), source_keys=frozenset(each.grounds)),
            )
            for section, tier in tiers
            for number, each in enumerate(tier.sentences)
            if not each.grounds or not told.issuperset(each.grounds)
        ]
        return [entry for _, entry in sorted(found, key=lambda each: each[0])]

    def add_ranked(self, records: Sequence[Record], knowledge_share: float) -> None:
        """Add the records of a ranking that are not here yet, while they fit."""
        limit = int(self.page.budget * knowledge_share)
        for record in records:
            self.ranked_count += 1
            if self.miss_count > MAX_MISSES:
                return
            if isinstance(record, Turn):
                self.miss_count += not self._add_turn(record)
            elif (entry := self._find_line(record)) and not self.page.says(entry):
                self.miss_count += not self._add_knowledge(entry, limit)

    def _find_line(self, record: Record) -> ContextLine | None:
        """The line of a ranked record; None where it says nothing by itself."""
        if record.key in self.page.included_keys or record.key in self._settled:
            return None
        if record.key in self.sources.beliefs.keys:
            return self._beliefs.get(record.key)
        if isinstance(record, Entity) and not has_content(record.description):
            return None
        return self._build_line(record, self.ranked_count)

    def _add_knowledge(self, entry: ContextLine, limit: int) -> bool:
        if self.knowledge_used >= limit:
            return False
        cost = self.page.cost(entry)
        if not self.page.add(entry):
            return cost > self.page.room and self._add_cut(entry, self.page.room // 4)
        self.knowledge_used += cost
        return True

    def _add_turn(self, turn: Turn) -> bool:
        """Add a turn, a short reply with the question before it; True also where there is nothing to add."""
        page, entry = self.page, self._build_turn_line(turn)
        is_empty = not has_content(turn.content)
        if turn.key in page.included_keys:
            return True
        asked = self.questions.get(turn.key)
        if asked is not None and (is_empty or len(tokenize(turn.content)) < MIN_REPLY_TERMS):
            return page.add(entry) if asked.key in page.included_keys else page.add(self._build_turn_line(asked), entry)
        if is_empty or page.add(entry):
            return True
        return page.cost(entry) > page.room and self._add_cut(entry, page.room // (4 if page.lines else 2))

    def _add_cut(self, entry: ContextLine, limit: int) -> bool:
        """Add the passage of an entry that the query is about, at most so much of it."""
        return self.page.add_cut(entry, limit, find_passage(entry.text, tokenize(self.query)))

    def add_outputs(self, share: float) -> None:
        """Add what tools gave back, the nearest first; a long one is cut, so that the others have their part, too."""
        left = int(self.page.budget * share)
        outputs = self.sources.outputs
        for number, found in enumerate(outputs):
            part = left // (len(outputs) - number)
            before = self.page.used
            text = render_output(self.sources.local.relocate(found.output))
            entry = ContextLine("outputs", text, (number,), (("Output", found.output.id),))
            if self.page.cost(entry) > part or not self.page.add(entry):
                self._add_cut(entry, part)
            left -= self.page.used - before

    def _build_turn_line(self, turn: Turn) -> ContextLine:
        turn = self.sources.local.relocate(turn)
        moment = turn.timestamp or turn.recorded_at or _EARLIEST
        group = (moment.date().isoformat(), turn.channel, turn.conversation_id)
        heading = render_turn_heading(turn, with_id=self.with_ids)
        text = render_turn(turn, with_id=self.with_ids) + self._mark(turn)
        return ContextLine("turns", text, (group, turn.index, moment, turn.id), (turn.key,), heading)

    def _build_line(self, record: Record, position: int) -> ContextLine:
        record = self.sources.local.relocate(record)
        text = render_record(record, is_unknown=record.id in self._unsure, with_id=self.with_ids)
        return ContextLine(_find_section(record), text + self._mark(record), (3, position), (record.key,))

    def _mark(self, record: Record) -> str:
        """What a belief says against a record, in brackets."""
        if self.standings is None or self.moment is None:
            return ""
        standing = self.standings.find(record, self.moment)
        return f" [{standing}]" if standing.is_marked else ""


def _find_section(record: Record) -> str:
    if isinstance(record, Strategy):
        from agentmem.memory.procedural.strategies import has_worked

        return "worked" if has_worked(record) else "failed"
    if isinstance(record, Goal) and not record.is_open:
        return "ended"
    return {"Procedure": "instructions", "Goal": "goals", "User": "user"}.get(record.kind, "known")
