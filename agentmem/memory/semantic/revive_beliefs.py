"""Facts that come back: beliefs whose successor is erased, and what is restored although it was said again since."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from agentmem.beliefs.slots import Slot, find_slot
from agentmem.core.record import Key, Record, Status
from agentmem.core.records import Fact
from agentmem.memory.context import MemoryContext
from agentmem.memory.semantic.beliefs import order_by_word, to_belief
from agentmem.memory.semantic.facts import merge_sources
from agentmem.stores.values import Where


def revive_beliefs(facts: Iterable[Fact], erased_keys: Collection[Key], slots: Mapping[str, Slot]) -> list[Fact]:
    """The beliefs that ended, or were retired, for a successor that is removed, as they are without it.

    `facts` are all of the user, `slots` the application's own. If its slot later gained a value that stays, a belief
    ends where that began, unless the slot has several values.
    """
    left = [fact for fact in facts if fact.slot and fact.key not in erased_keys]
    groups: dict[tuple[str, str, str], list[Fact]] = {}
    for fact in left:
        groups.setdefault((fact.channel, fact.subject.casefold(), fact.slot), []).append(fact)
    ended = [fact for fact in left if ("Fact", fact.superseded_by or "") in erased_keys]
    out = []
    for fact in ended:
        is_set = find_slot(fact.slot, slots).kind == "set"
        out.append(_revive(fact, () if is_set else groups[fact.channel, fact.subject.casefold(), fact.slot]))
    return out


def _revive(fact: Fact, group: Iterable[Fact]) -> Fact:
    own = to_belief(fact)
    newer = [each for each in group if each.id != fact.id and _takes_place(each, fact)]
    successor = min(newer, key=order_by_word, default=None)
    back = {"superseded_at": None, "reason": "", "superseded_by": None, "status": Status.ACTIVE, "valid_to": None}
    if successor is None:
        return fact.model_copy(update=back)
    belief = to_belief(successor)
    began = belief.since or belief.first_said_at
    until = began if own.since is None or own.since < began else own.until
    ended = {"valid_to": until, "superseded_by": successor.id, "status": Status.SUPERSEDED}
    return fact.model_copy(update={**back, **ended})


def _takes_place(other: Fact, fact: Fact) -> bool:
    """Whether another belief of the slot was said later and counts."""
    belief = to_belief(other)
    counts = not (belief.retired or belief.is_planned or belief.is_denied)
    return counts and belief.first_said_at > to_belief(fact).said_at


async def join_restated(context: MemoryContext, back: Sequence[Record], leaving: Collection[Key] = ()) -> list[Record]:
    """Records that return; if another current fact says the same, that fact gets the sources instead.

    `leaving` are the keys of records that are about to be removed.
    """
    out: list[Record] = []
    own = {record.key for record in back}
    for record in back:
        known = await _find_same(context, record) if isinstance(record, Fact) else None
        if known is None or known.key in own or known.key in leaving:
            out.append(record)
        else:
            assert isinstance(record, Fact)
            out.append(_give_sources(known, record))
    return out


async def _find_same(context: MemoryContext, fact: Fact) -> Fact | None:
    """Another current fact that says the same in the same channel."""
    if not (key := fact.dedup_key()):
        return None
    where = Where(kinds=("Fact",), channels=(fact.channel,), dedup_keys=(key,))
    found = await context.engine.log.find(context.scope, where, limit=2)
    return next((each for each in found if isinstance(each, Fact) and each.id != fact.id), None)


def _give_sources(known: Fact, fact: Fact) -> Fact:
    """A fact with the sources of an older one that says the same; it rests on what it rested on."""
    said = [each.first_said_at for each in (known, fact) if each.first_said_at is not None]
    kept = {"depends_on": known.depends_on, "stale_since": known.stale_since, "first_said_at": min(said, default=None)}
    return merge_sources(known, fact).model_copy(update=kept)
