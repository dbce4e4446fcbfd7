"""One memory with everything a journal can hold, written the same way into any log."""

from __future__ import annotations

from datetime import timedelta

from agentmem.core.record import Record
from agentmem.core.records import Conversation, Turn
from agentmem.core.scope import Scope
from agentmem.stores.admin import JournalCounters, RawChange, RawUsage, StoreAdmin
from agentmem.stores.protocols import LogStore
from agentmem.stores.values import Where
from tests.conformance.writing import (
    START,
    SettableClock,
    build_change,
    build_edge,
    build_entity,
    build_fact,
    build_turn,
    build_turn_changes,
)

WORDS = ["boat", "harbour", "zanzibar", "köln", "quiet", "secret", "again"]
LogSnapshot = tuple[JournalCounters, list[RawChange], list[RawUsage], list[Record], dict[str, list[tuple[int, float]]]]


async def write_history(log: LogStore, scope: Scope, clock: SettableClock) -> None:
    """Put, change, retract, put again, use and erase, with text that is hard to keep."""
    odd = 'A "quiet" harbour: Köln 🙂, NUL \x00, \\u0000 and a \ttab'
    await log.append(build_turn_changes(scope, "a", "b", "c"))
    clock.advance(minutes=1)
    await log.append(
        [
            build_change(
                scope,
                build_fact("f", "The boat goes to Zanzibar"),
                build_fact("g", "Nobody knows"),
                build_entity("x"),
                build_entity("y"),
                build_edge("e", "x", "y"),
                key="knowledge",
                cause="heard",
            ),
            build_change(
                scope,
                build_turn("odd", odd, metadata={"n": 1.5, "deep": [{"ä": None}]}),
                key="odd",
                request_hash="what was said",
            ),
            build_change(scope, build_turn("secret", "A secret word"), key="secret"),
        ]
    )
    clock.advance(minutes=1)
    await log.append([build_change(scope, build_fact("f", "The boat goes to Malta", channel="work"), key="corrected")])
    await log.append([build_change(scope, deletes=[("Fact", "g"), ("Turn", "b")], key="retracted")])
    talk = Scope(scope.user_id, conversation_id="talk")
    await log.record_usage([("Fact", "f"), ("Turn", "secret"), ("Turn", "a")], talk, "r1", used_at=START)
    await log.record_usage(
        [("Fact", "f"), ("Fact", "g")], Scope(scope.user_id, conversation_id="zoo"), "r2", used_at=START
    )
    await log.record_usage([("Fact", "f")], scope, "r1", used=True, used_at=START + timedelta(microseconds=1))
    gone = [("Turn", "secret"), ("Turn", "a")]
    await log.erase(scope, gone, operation_id="erasure", erased_at=clock.advance(minutes=1))
    again = build_fact("g", "Everybody knows again")
    await log.append([build_change(scope, again, key="again", inserts_if_absent=(Conversation(id="talk"),))])


async def read_snapshot(log: LogStore, admin: StoreAdmin, scope: Scope) -> LogSnapshot:
    """All that a log has of a user."""
    words = await log.match(WORDS, scope)
    return (
        await admin.journal_counters(scope),
        await admin.raw_changes(scope, 0, 1000),
        await admin.raw_usage(scope, ("", ""), 1000),
        [record.model_copy(update={"user_id": ""}) for record in await log.find(scope, Where())],
        {term: list(zip(p.ordinals.tolist(), p.counts.tolist(), strict=True)) for term, p in words.items()},
    )


async def restore_snapshot(admin: StoreAdmin, scope: Scope, snapshot: LogSnapshot, batch_size: int = 1000) -> None:
    """Put back what a portrait has, in pieces of so many changes."""
    reach, changes, usage, _, _ = snapshot
    for start in range(0, len(changes), batch_size):
        await admin.import_changes(scope, changes[start : start + batch_size])
    await admin.import_usage(scope, usage)
    await admin.set_counters(scope, reach)


def turn_contents(snapshot: LogSnapshot) -> dict[str, str]:
    """The text of its turns, by id."""
    return {record.id: record.content for record in snapshot[3] if isinstance(record, Turn)}
