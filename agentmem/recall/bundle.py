"""What a recall gives: records by kind with the reasons for their ranks, and who the user is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import Any

import numpy as np

from agentmem.core.clock import add_time
from agentmem.core.documents import Document
from agentmem.core.jsonable import to_jsonable
from agentmem.core.record import Key, Record
from agentmem.core.records import Entity, Fact, Goal, R, Synopsis, SynopsisSection, Turn, User
from agentmem.core.truth_maintenance import find_unreplaced_stale
from agentmem.memory.semantic.belief_digest import BeliefDigest
from agentmem.memory.semantic.belief_lines import build_belief_lines
from agentmem.memory.semantic.belief_view import group_by_slot
from agentmem.memory.semantic.standing import CURRENT, Standing, Standings
from agentmem.recall.context import DEFAULT_CONTEXT_TOKENS, ContextSources, pack
from agentmem.recall.notebook import render_html
from agentmem.recall.receipt import Receipt, ThreadLead
from agentmem.recall.render import render_record
from agentmem.recall.technique import SearchContext
from agentmem.settings.sections import SynopsisOptions
from agentmem.text.plain_line import to_plain_line
from agentmem.text.tokenizer import TokenCounter, check_counter

PROFILE_FIELDS = ("preferences", "expertise_areas", "communication_style", "metadata")
SYNOPSIS_KEY = "synopsis"


async def read_profile(context: SearchContext) -> dict[str, Any]:
    """The user's profile as it stood, without what is empty."""
    columns = context.columns
    ordinals = np.flatnonzero(context.current_mask & (columns.kind == columns.kinds.find_code("User")))
    for user in await context.read([int(ordinal) for ordinal in ordinals[:1]]):
        if isinstance(user, User):
            return {name: value for name in PROFILE_FIELDS if (value := getattr(user, name))}
    return {}


async def read_user_context(context: SearchContext, options: SynopsisOptions) -> dict[str, Any]:
    """The profile, and under `synopsis` what is stored of the readable channels and still holds."""
    told, synopsis = await read_profile(context), await _read_synopsis(context, options)
    return {**told, SYNOPSIS_KEY: synopsis} if synopsis is not None else told


async def _read_synopsis(context: SearchContext, options: SynopsisOptions) -> Synopsis | None:
    columns, readable = context.columns, context.scope.readable_channels()
    mine = context.current_mask & (columns.kind == columns.kinds.find_code(Synopsis.__name__))
    ordinals = np.flatnonzero(mine & columns.channels.mask_for(readable)[columns.channel])
    if not len(ordinals):
        return None
    from agentmem.memory.synopsis import SECTIONS, is_fresh, merge_channels
    from agentmem.memory.synopsis_sources import take_snapshots

    since, parts = add_time(context.now, -timedelta(seconds=min(options.context_ttl, 1e9))), {}
    stand = await take_snapshots(columns, readable, context.now)
    for found in await context.read([int(ordinal) for ordinal in ordinals]):
        if isinstance(found, Synopsis):
            now, part = stand[found.channel], dict[str, SynopsisSection]()
            for name in SECTIONS:
                tier: SynopsisSection = getattr(found, name)
                good = is_fresh(tier, now, name, since) and now.has_all(columns, tier.shown)
                part[name] = tier if good else SynopsisSection()
            parts[found.channel] = part
    made = merge_channels(
        context.scope, [parts[name] for name in readable if name in parts], options, options.max_tokens, None
    )
    return made if made.text else None


@dataclass(frozen=True, slots=True)
class ScoredRecord:
    """One place of the ranking over all kinds: `why` names what spoke for the record, `standing` tells whether what it
    says holds.
    """

    score: float
    why: str
    record: Record
    standing: Standing = CURRENT

    @property
    def text(self) -> str:
        """What the record says: the content of a turn, the claim of a fact, an entity with its description."""
        return self.record.search_text()

    def __str__(self) -> str:
        """The text on one line, with its standing where it does not hold."""
        return to_plain_line(self.text) + (f" ({self.standing})" if self.standing.is_marked else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryBundle:
    """The answer of `remember`: at most `top_k` records of each kind and in `items`, best first.

    `user_context` holds the profile, empty when there is none, and as `synopsis` the Synopsis that is stored, while it
    holds. `notices` say in what the answer falls short. `relevant` is False when nothing was found that the query is
    about; what it holds is then merely the nearest. It is None when that was not measured: with few turns, without
    vectors, and for embedders whose scale is not known.
    """

    query: str
    turns: tuple[Turn, ...] = ()
    facts: tuple[Fact, ...] = ()
    entities: tuple[Entity, ...] = ()
    strategies: tuple[Record, ...] = ()
    procedures: tuple[Record, ...] = ()
    goals: tuple[Goal, ...] = ()
    documents: tuple[Document, ...] = ()
    user_context: Mapping[str, Any] = field(default_factory=dict)
    thread_leads: tuple[ThreadLead, ...] = ()
    notices: tuple[str, ...] = ()
    items: tuple[ScoredRecord, ...] = ()
    receipt: Receipt
    relevant: bool | None = None
    standings: Standings = field(default_factory=Standings, repr=False)

    def __len__(self) -> int:
        """How many places the ranking over all kinds has."""
        return len(self.items)

    def __getitem__(self, place: int) -> ScoredRecord:
        """The place of this number in the ranking over all kinds, the best one 0."""
        return self.items[place]

    def __iter__(self) -> Iterator[ScoredRecord]:
        """The places of the ranking over all kinds, best first."""
        return iter(self.items)

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values, ready for JSON; of the receipt its id."""
        names = [each.name for each in fields(self) if each.name not in ("receipt", "standings", "items")]
        out = {name: to_jsonable(getattr(self, name)) for name in names}
        out["items"] = [{**to_jsonable(item), "standing": str(item.standing)} for item in self.items]
        return {**out, "receipt": self.receipt.id}

    def _repr_html_(self) -> str:
        """A table for notebooks."""
        rows = [(item.record.kind, item.record.search_text(), f"{item.score:.3f}", item.why) for item in self.items]
        return render_html(("kind", "record", "score", "why"), [*rows, *(("note", each) for each in self.notices)])

    def to_context(
        self, max_tokens: int = DEFAULT_CONTEXT_TOKENS, counter: TokenCounter | None = None, *, ids: bool = False
    ) -> str:
        """Text of at most `max_tokens` tokens, as `AgentMemory.context` lays it out, of what this bundle holds.

        `counter` counts the tokens of a text; without one they are a quarter of its characters, rounded up. `ids` shows
        the ids of records.
        """
        known = (*self.goals, *self.facts, *self.entities, *self.strategies, *self.procedures, *self.documents)
        profile = {name: value for name, value in self.user_context.items() if name != SYNOPSIS_KEY}
        held = [fact for fact in self.facts if fact.slot]
        lines = build_belief_lines(group_by_slot(held, self.receipt.at), self.receipt.at)
        digest = BeliefDigest(lines, frozenset(fact.key for fact in held))
        beside = ContextSources(synopsis=self.user_context.get(SYNOPSIS_KEY), beliefs=digest)
        return pack(
            (*known, *self.turns),
            query=self.query,
            moment=self.receipt.at,
            profile=profile,
            max_tokens=max_tokens,
            counter=check_counter(counter),
            sources=beside,
            with_ids=ids,
            standings=self.standings,
        ).text

    def __str__(self) -> str:
        """`to_context` with its default budget, then the notices."""
        return "\n".join([self.to_context(), *(f"Note: {notice}" for notice in self.notices)]).lstrip("\n")


@dataclass(frozen=True, slots=True)
class DeliveredRecords:
    """What goes into a bundle: records by kind and the ranking over all kinds with its scores, best first."""

    records_by_kind: Mapping[str, Sequence[Record]]
    items: Mapping[Key, Record]
    scores: Mapping[Key, float]
    thread_leads: tuple[ThreadLead, ...]
    user_context: Mapping[str, Any]
    standings: Standings = field(default_factory=Standings)

    def records(self) -> dict[Key, Record]:
        """Everything delivered; of goals that are completed or abandoned only those among the items."""
        listed = {**self.records_by_kind, Goal.__name__: self._open_goals()}
        records = {(kind, record.id): record for kind, each in listed.items() for record in each}
        return {**records, **self.items}

    def to_bundle(self, receipt: Receipt) -> MemoryBundle:
        """The bundle, with what the receipt knows of each item."""
        pool = receipt.pool
        return MemoryBundle(
            query=receipt.request.query,
            turns=self._select_type(Turn),
            facts=self._select_type(Fact),
            entities=self._select_type(Entity),
            strategies=tuple(self.records_by_kind.get("Strategy", ())),
            procedures=tuple(self.records_by_kind.get("Procedure", ())),
            goals=self._open_goals(),
            documents=self._select_type(Document),
            user_context=self.user_context,
            thread_leads=self.thread_leads,
            notices=(*receipt.notices, *_unknown_notices(self.records_by_kind.get("Fact", ()))),
            items=tuple(
                [
                    ScoredRecord(self.scores[key], pool.explain(key), record, self.standings.find(record, receipt.at))
                    for key, record in self.items.items()
                ]
            ),
            receipt=receipt,
            relevant=receipt.relevant,
            standings=self.standings,
        )

    def _select_type(self, cls: type[R]) -> tuple[R, ...]:
        return tuple([record for record in self.records_by_kind.get(cls.__name__, ()) if isinstance(record, cls)])

    def _open_goals(self) -> tuple[Goal, ...]:
        return tuple([goal for goal in self._select_type(Goal) if goal.goal_status in ("active", "blocked")])


def _unknown_notices(records: Sequence[Record]) -> list[str]:
    """A notice for each delivered fact whose ground is gone, where nothing else is known in its place."""
    unsure = find_unreplaced_stale(records)
    return [render_record(fact, is_unknown=True).removeprefix("- ") for fact in records if fact.id in unsure]
