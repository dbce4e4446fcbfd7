"""Records and changes as the conformance tests write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from agentmem.model.changes import Change, JournalEntry, fingerprint
from agentmem.model.clock import derived_id
from agentmem.model.records import Conversation, Edge, EdgeKind, Entity, Fact, Key, Record, Turn, build
from agentmem.model.scope import Scope
from agentmem.stores import LogStore

START = datetime(2024, 3, 1, 12, 0, tzinfo=UTC)
_numbers = count()


class SetClock:
    """A clock that stands still until it is set."""

    def __init__(self, now: datetime = START) -> None:
        self.moment = now

    def now(self) -> datetime:
        """The moment it was set to."""
        return self.moment

    def advance(self, **by: float) -> datetime:
        """Move on, or back, by a timedelta's arguments."""
        self.moment += timedelta(**by)
        return self.moment


def turn(name: str, content: str = "", conversation: str = "talk", **fields: Any) -> Turn:
    """A turn of a conversation, without an index unless one is given."""
    fields.setdefault("timestamp", START)
    return build(Turn, id=name, content=content or f"This is {name}.", conversation_id=conversation, **fields)


def fact(name: str, claim: str = "", **fields: Any) -> Fact:
    """A fact; facts with the same claim have the same unique value."""
    claim = claim or f"The claim of {name}"
    return build(Fact, id=name, claim=claim, claim_hash=fingerprint(claim=claim), **fields)


def entity(name: str, **fields: Any) -> Entity:
    """An entity called by its id."""
    return build(Entity, id=name, name=name.title(), slug=name, **fields)


def edge(name: str, source: str, target: str) -> Edge:
    """A relation between two entities."""
    return build(Edge, id=name, edge_kind=EdgeKind.KNOWS, source=source, target=target)


def change(scope: Scope, *puts: Record, key: str | None = None, **fields: Any) -> Change:
    """A change that puts records; the same `key` makes the same change_id, otherwise each is its own."""
    name = key if key is not None else f"change {next(_numbers)}"
    fields.setdefault("operation", "store")
    fields.setdefault("operation_id", f"operation of {name}")
    return Change(scope=scope, change_id=derived_id(scope.user_id, name), puts=puts, **fields)


def said(scope: Scope, *names: str, conversation: str = "talk") -> list[Change]:
    """One change per turn, as `store_turns` makes them, each ensuring the conversation."""
    return [
        change(
            scope,
            turn(name, conversation=conversation),
            key=f"turn {name}",
            ensures=(Conversation(id=conversation),),
            expects={("Turn", name): None},
            payload=f"what {name} says",
        )
        for name in names
    ]


async def put(log: LogStore, scope: Scope, *records: Record, **fields: Any) -> JournalEntry:
    """Write one change and return its entry."""
    (entry,) = await log.append([change(scope, *records, **fields)])
    return entry


async def retract(log: LogStore, scope: Scope, *keys: Key) -> JournalEntry:
    """Take records out of the current state."""
    (entry,) = await log.append([change(scope, retracts=keys)])
    return entry


def ids(records: Sequence[Record]) -> list[str]:
    """The ids, in order."""
    return [record.id for record in records]


def seqs(entries: Sequence[JournalEntry]) -> list[int]:
    """The positions, in order."""
    return [entry.seq for entry in entries]


def claims(states: Mapping[Key, Record]) -> dict[str, str]:
    """The claims of facts, by id."""
    return {key[1]: record.claim for key, record in states.items() if isinstance(record, Fact)}
