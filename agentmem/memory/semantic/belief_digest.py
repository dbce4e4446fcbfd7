"""What is believed, ready for a prompt, kept in the process while nothing that it rests on changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from agentmem.core.clock import add_time, from_micros, latest_moment, to_utc
from agentmem.core.columns import RecordColumns
from agentmem.core.local_time import LocalTime
from agentmem.core.lru import LruDict
from agentmem.core.record import Key, Status
from agentmem.core.records import Fact
from agentmem.memory.context import MemoryContext
from agentmem.memory.semantic.belief_lines import BeliefLine, build_belief_lines, find_named_slot
from agentmem.memory.semantic.belief_view import BeliefView
from agentmem.memory.semantic.beliefs import order_by_word
from agentmem.memory.semantic.standing import Standings, build_standings
from agentmem.memory.user_zone import find_user_zone
from agentmem.stores.values import Where

FactsSeen = tuple[int, int]
MAX_RETIRED = 1_000  # beliefs that are read beside what holds
MAX_DIGESTS = 256  # scopes that are kept, those used last
EVENT_LENGTH = timedelta(days=1)  # after its beginning the day of an event is over


@dataclass(frozen=True, slots=True)
class BeliefDigest:
    """The lines of all that is believed in some channels. `keys` are the facts behind it, those that ended, too.

    `instruction_turn_ids` are the turns that gave instructions which are kept as beliefs, also ones that are over.
    `orders` are those that hold by slot, the newest word last.
    """

    lines: Sequence[BeliefLine] = ()
    keys: frozenset[Key] = frozenset()
    instruction_turn_ids: frozenset[str] = frozenset()
    orders: Mapping[str, Sequence[Fact]] = field(default_factory=dict)
    standings: Standings = field(default_factory=Standings)


@dataclass(frozen=True, slots=True)
class _KeptDigest:
    """A digest, the journal position it was made at, the facts behind it, and the time in which no belief begins or
    ends.
    """

    digest: BeliefDigest
    seq: int
    facts: FactsSeen
    start: datetime
    end: datetime | None

    def holds(self, columns: RecordColumns, moment: datetime) -> bool:
        """Whether nothing that it rests on changed since; turns alone change no belief."""
        is_same = self.seq == columns.seq or self.facts == _see_facts(columns)
        return is_same and self.start <= moment and (self.end is None or moment < self.end)


def _see_facts(columns: RecordColumns) -> FactsSeen:
    """How many facts there are, and the journal position of the newest."""
    facts = columns.kind == columns.kinds.find_code("Fact")
    return int(facts.sum()), int(columns.seqs[facts].max(initial=0))


@dataclass
class BeliefDigests:
    """The digests of this process by user and readable channels."""

    _kept: LruDict[tuple[str, tuple[str, ...]], _KeptDigest] = field(default_factory=lambda: LruDict(MAX_DIGESTS))

    async def read(self, context: MemoryContext) -> BeliefDigest:
        """What is believed now in the channels that a scope may read; empty where nothing is."""
        scope = context.scope
        place = (scope.user_id, tuple(scope.readable_channels()))
        columns = await context.engine.read_columns(scope)
        now = latest_moment(context.engine.clock.now(), from_micros(columns.last_at))
        known = self._kept.get(place)
        if known is None or not known.holds(columns, now):
            digest, facts = await _build_digest(context, now)
            end = min((each for each in _list_boundaries(facts) if each > now), default=None)
            known = _KeptDigest(digest, columns.seq, _see_facts(columns), now, end)
        self._kept[place] = known
        return known.digest

    def forget(self, user_id: str) -> None:
        """Forget what a user believes."""
        for place in [place for place in self._kept if place[0] == user_id]:
            del self._kept[place]


async def read_digest(
    context: MemoryContext, as_of: datetime | None = None, known_at: datetime | None = None
) -> BeliefDigest:
    """What is believed now, or at a moment of the world and by what was known at a moment of the record."""
    if as_of is None and known_at is None:
        return await context.engine.get_shared(BeliefDigests).read(context)
    moment = await context.engine.now(context.scope) if as_of is None else to_utc(as_of, "as_of")
    return (await _build_digest(context, moment, known_at))[0]


async def _build_digest(
    context: MemoryContext, moment: datetime, known_at: datetime | None = None
) -> tuple[BeliefDigest, list[Fact]]:
    """The digest of a moment, with the facts behind it."""
    slots = context.engine.settings.slots
    states = await BeliefView(context).beliefs(as_of=moment, known_at=known_at)
    facts = [fact for state in states for fact in state.facts()]
    local = LocalTime(context.engine.zone, find_user_zone(facts, moment))
    told = [state.relocate(local) for state in states]
    orders = [state for state in states if find_named_slot(state.slot, slots).is_instruction]
    digest = BeliefDigest(
        build_belief_lines(told, moment, slots),
        frozenset(fact.key for fact in facts),
        frozenset(name for state in orders for fact in state.facts() for name in fact.source_turn_ids),
        {each.slot: sorted(each.current, key=order_by_word) for each in orders if each.current},
        build_standings(told, [] if known_at else await _read_retired(context), slots),
    )
    return digest, facts


async def _read_retired(context: MemoryContext) -> list[Fact]:
    """The beliefs that turned out wrong, and the plans that were given up; the newest of many."""
    where = Where(kinds=("Fact",), channels=context.scope.readable_channels(), status=(Status.SUPERSEDED,))
    found = await context.engine.log.find(context.scope, where, descending=True, limit=MAX_RETIRED)
    return [fact for fact in found if isinstance(fact, Fact) and fact.slot and fact.superseded_at is not None]


def _list_boundaries(facts: Iterable[Fact]) -> Iterator[datetime]:
    """The moments at which a belief begins, ends, or its day is over."""
    for fact in facts:
        if fact.valid_from is not None:
            yield fact.valid_from
            yield add_time(fact.valid_from, EVENT_LENGTH)
        if fact.valid_to is not None:
            yield fact.valid_to
