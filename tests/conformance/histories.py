"""One memory with everything a journal can hold, written the same way into any log."""

from __future__ import annotations

from datetime import timedelta

from agentmem.model.records import Conversation, Record, Turn
from agentmem.model.scope import Scope
from agentmem.stores import LogStore, Where
from agentmem.stores.upkeep import RawChange, RawUsage, Reach, Upkeep
from tests.conformance.writing import START, SetClock, change, edge, entity, fact, said, turn

WORDS = ["boat", "harbour", "zanzibar", "köln", "quiet", "secret", "again"]
Portrait = tuple[Reach, list[RawChange], list[RawUsage], list[Record], dict[str, list[tuple[int, float]]]]


async def write_history(log: LogStore, scope: Scope, clock: SetClock) -> None:
    """Put, change, retract, put again, use and erase, with text that is hard to keep."""
    odd = 'A "quiet" harbour: Köln 🙂, NUL \x00, \\u0000 and a \ttab'
    await log.append(said(scope, "a", "b", "c"))
    clock.advance(minutes=1)
    await log.append([
        change(scope, fact("f", "The boat goes to Zanzibar"), fact("g", "Nobody knows"), entity("x"), entity("y"),
               edge("e", "x", "y"), key="knowledge", cause="heard"),
        change(scope, turn("odd", odd, metadata={"n": 1.5, "deep": [{"ä": None}]}), key="odd", payload="what was said"),
        change(scope, turn("secret", "A secret word"), key="secret"),
    ])  # fmt: skip
    clock.advance(minutes=1)
    await log.append([change(scope, fact("f", "The boat goes to Malta", channel="work"), key="corrected")])
    await log.append([change(scope, retracts=[("Fact", "g"), ("Turn", "b")], key="retracted")])
    talk = Scope(scope.user_id, conversation_id="talk")
    await log.touch([("Fact", "f"), ("Turn", "secret"), ("Turn", "a")], talk, "r1", at=START)
    await log.touch([("Fact", "f"), ("Fact", "g")], Scope(scope.user_id, conversation_id="zoo"), "r2", at=START)
    await log.touch([("Fact", "f")], scope, "r1", used=True, at=START + timedelta(microseconds=1))
    gone = [("Turn", "secret"), ("Turn", "a")]
    await log.erase(scope, gone, operation_id="erasure", at=clock.advance(minutes=1))
    again = fact("g", "Everybody knows again")
    await log.append([change(scope, again, key="again", ensures=(Conversation(id="talk"),))])


async def portrait(log: LogStore, face: Upkeep, scope: Scope) -> Portrait:
    """All that a log has of a user."""
    words = await log.match(WORDS, scope)
    return (
        await face.reach(scope),
        await face.raw_changes(scope, 0, 1000),
        await face.raw_usage(scope, ("", ""), 1000),
        [record.model_copy(update={"user_id": ""}) for record in await log.find(scope, Where())],
        {term: list(zip(p.slots.tolist(), p.counts.tolist(), strict=True)) for term, p in words.items()},
    )


async def restore(face: Upkeep, scope: Scope, saved: Portrait, at_once: int = 1000) -> None:
    """Put back what a portrait has, in pieces of so many changes."""
    reach, changes, usage, _, _ = saved
    for start in range(0, len(changes), at_once):
        await face.restore(scope, changes[start : start + at_once])
    await face.restore_usage(scope, usage)
    await face.settle(scope, reach)


def contents(saved: Portrait) -> dict[str, str]:
    """The text of its turns, by id."""
    return {record.id: record.content for record in saved[3] if isinstance(record, Turn)}
