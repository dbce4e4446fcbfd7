"""What somebody else writes while a verb over facts, entities or outcomes looks: the verb looks again, or refuses."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from agentmem import AsyncAgentMemory, InvalidRecord, Outcome, Strategy
from agentmem.core.records import Edge, Entity, Fact
from tests.flows.meanwhile import run_once_before, run_once_before_append

SAME = ("Ann likes a strong black coffee in the morning", "Ann likes the strong black coffee in the morning")
ALSO = ("Ben plays a grand piano at the old theatre", "Ben plays the grand piano at the old theatre")

Learn = Callable[..., Awaitable[Fact]]


@pytest.fixture
async def memory(home: Path) -> AsyncIterator[AsyncAgentMemory]:
    async with AsyncAgentMemory("alice", home=home, embedder="hash") as opened:
        yield opened


async def named(memory: AsyncAgentMemory, *names: str) -> list[str]:
    return [(await memory.upsert_entity({"name": name})).id for name in names]


async def edges(memory: AsyncAgentMemory) -> list[tuple[str, str, str | None]]:
    found = [edge for edge in await memory._context.list_readable("Edge") if isinstance(edge, Edge)]
    return [(edge.source, edge.target, edge.fact_id) for edge in found if edge.superseded_at is None]


# -- entities and relations


async def test_two_that_bring_the_same_id_make_one_entity_of_both(
    memory: AsyncAgentMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def other() -> Entity:
        return await memory.upsert_entity({"id": "e1", "name": "Ann", "aliases": ["Annie"], "properties": {"age": 40}})

    done = run_once_before_append(monkeypatch, memory.engine, "upsert_entity", other)
    ann = await memory.upsert_entity({"id": "e1", "name": "Ann", "aliases": ["Anna"], "properties": {"town": "Oslo"}})
    assert (done, set(ann.aliases), ann.properties) == (["append"], {"Annie", "Anna"}, {"age": 40, "town": "Oslo"})


async def test_an_id_that_another_channel_took_meanwhile_is_left_there(
    memory: AsyncAgentMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    roof = memory.scoped(channel="roof")
    done = run_once_before_append(
        monkeypatch, memory.engine, "upsert_entity", lambda: roof.upsert_entity({"id": "e1", "name": "Ann"})
    )
    own = await memory.upsert_entity({"id": "e1", "name": "Ann"})
    (ann,) = [found for found in await roof.semantic.entities("Ann") if found.channel == "roof"]
    assert (done, ann.id, ann.channel) == (["append"], "e1", "roof")
    assert (own.id != "e1", own.given_id, own.channel) == (True, "e1", "_global")


@pytest.mark.parametrize("end", ["source", "target", "merged before"])
async def test_what_is_related_while_it_is_merged_is_the_kept_one(
    memory: AsyncAgentMemory, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    keep, other, old, cleo = await named(memory, "Ann", "Anna", "Nan", "Cleo")
    await memory.semantic.merge_entities(other, old)
    done = run_once_before_append(
        monkeypatch, memory.engine, "relate", lambda: memory.semantic.merge_entities(keep, other)
    )
    one = old if end == "merged before" else other
    pair, kept = ((cleo, one), (cleo, keep)) if end == "target" else ((one, cleo), (keep, cleo))
    edge = await memory.semantic.relate(pair[0], "KNOWS", pair[1])
    assert (done, (edge.source, edge.target)) == (["append"], kept)
    assert await edges(memory) == [(*kept, None)]


@pytest.mark.parametrize("field", ["source", "target", "fact_id"])
async def test_what_is_erased_while_it_is_related_is_refused(
    memory: AsyncAgentMemory, monkeypatch: pytest.MonkeyPatch, field: str
) -> None:
    ann, cleo = await named(memory, "Ann", "Cleo")
    fact = await memory.learn_fact("Ann knows Cleo")
    gone = {"source": ann, "target": cleo, "fact_id": fact.id}[field]
    done = run_once_before_append(monkeypatch, memory.engine, "relate", lambda: memory.forget(gone, hard=True))
    with pytest.raises(InvalidRecord) as refused:
        await memory.semantic.relate(ann, "KNOWS", cleo, fact_id=fact.id)
    assert (done, refused.value.field, await edges(memory)) == (["append"], field, [])


async def test_a_relation_stated_with_a_key_is_the_same_one_after_a_merge(memory: AsyncAgentMemory) -> None:
    keep, other, cleo = await named(memory, "Ann", "Anna", "Cleo")
    stated = await memory.semantic.relate(other, "KNOWS", cleo, idempotency_key="k")
    await memory.semantic.merge_entities(keep, other)
    assert await memory.semantic.relate(other, "KNOWS", cleo, idempotency_key="k") == stated


# -- facts


def verb(memory: AsyncAgentMemory, name: str, fact: Fact) -> Learn:
    """One of the verbs that make a fact known, over the same fact where it needs one."""
    if name == "learn_fact":
        return lambda **said: memory.learn_fact("Ann paints in oil", **said)
    if name == "update_fact":
        return lambda **said: memory.semantic.update_fact(fact.id, **said)
    return lambda **said: memory.semantic.supersede_fact(fact.id, "Ann paints in oil", **said)


VERBS = ("learn_fact", "update_fact", "supersede_fact")


@pytest.mark.parametrize("name", VERBS)
@pytest.mark.parametrize("before", [False, True])
async def test_a_fact_about_one_that_is_merged_meanwhile_is_about_the_kept_one(
    memory: AsyncAgentMemory, monkeypatch: pytest.MonkeyPatch, name: str, before: bool
) -> None:
    keep, other, old = await named(memory, "Ann", "Anna", "Nan")
    await memory.semantic.merge_entities(other, old)
    learn = verb(memory, name, await memory.learn_fact("Ann paints"))
    done = run_once_before_append(monkeypatch, memory.engine, name, lambda: memory.semantic.merge_entities(keep, other))
    fact = await learn(entity_ids=[old if before else other])
    assert (done, fact.entity_ids) == (["append"], (keep,))


@pytest.mark.parametrize("name", VERBS)
async def test_a_premise_that_is_erased_meanwhile_is_refused(
    memory: AsyncAgentMemory, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    premise, fact = await memory.learn_fact("Ann bought brushes"), await memory.learn_fact("Ann paints")
    learn = verb(memory, name, fact)
    done = run_once_before_append(monkeypatch, memory.engine, name, lambda: memory.forget(premise.id, hard=True))
    with pytest.raises(InvalidRecord, match="depends_on: no Fact"):
        await learn(depends_on=[premise.id])
    assert (done, [fact.depends_on for fact in await memory.semantic.facts()]) == (["append"], [()])


async def test_a_fact_that_is_changed_while_it_gives_way_to_what_rests_on_it_is_not_lost(
    memory: AsyncAgentMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read twice, as what ends and as a premise; what counts is where it stood the first time."""
    old = await memory.learn_fact("Ann paints")
    done = run_once_before(
        monkeypatch,
        memory.engine.log,
        "read_records",
        lambda: memory.semantic.update_fact(old.id, tags=["art"]),
        _second(lambda kind, ids, _: (kind, tuple(ids)) == ("Fact", (old.id,))),
    )
    await memory.semantic.supersede_fact(old.id, "Ann paints in oil", depends_on=[old.id])
    ended = await memory.semantic.get_fact(old.id)
    assert (done, ended.tags, ended.superseded_by is None) == (["read_records"], ("art",), False)


@pytest.mark.parametrize("between", [False, True])
async def test_two_facts_that_come_to_rest_on_each_other_at_once_make_no_circle(
    memory: AsyncAgentMemory, monkeypatch: pytest.MonkeyPatch, between: bool
) -> None:
    first, last = await memory.learn_fact("Ann has a car"), await memory.learn_fact("Ann drives")
    middle = (await memory.learn_fact("Ann may drive", depends_on=[last.id])) if between else last
    done = run_once_before_append(
        monkeypatch,
        memory.engine,
        "update_fact",
        lambda: memory.semantic.update_fact(last.id, depends_on=[first.id]),
    )
    with pytest.raises(InvalidRecord, match="itself rests on"):
        await memory.semantic.update_fact(first.id, depends_on=[middle.id])
    assert done == ["append"]
    assert (await memory.semantic.get_fact(first.id)).depends_on == ()
    assert (await memory.semantic.get_fact(last.id)).depends_on == (first.id,)


# -- facts that become one


async def by_hand(memory: AsyncAgentMemory, ids: list[str]) -> None:
    await memory.curation.merge(ids)


async def by_job(memory: AsyncAgentMemory, _: list[str]) -> None:
    assert (await memory.consolidate("clusters"))[0].counts == {"merged": 1}


@pytest.mark.parametrize("way, operation", [(by_hand, "merge_facts"), (by_job, "clusters")])
async def test_what_comes_to_lean_on_a_fact_while_it_is_merged_leans_on_the_kept_one(
    memory: AsyncAgentMemory, monkeypatch: pytest.MonkeyPatch, way: Any, operation: str
) -> None:
    keep, gone = [await memory.learn_fact(claim) for claim in SAME]
    ann, cleo = await named(memory, "Ann", "Cleo")

    async def lean() -> None:
        await memory.learn_fact("Buy beans", depends_on=[gone.id])
        await memory.semantic.relate(ann, "KNOWS", cleo, fact_id=gone.id)

    done = run_once_before_append(monkeypatch, memory.engine, operation, lean)
    await way(memory, [keep.id, gone.id])
    assert (await memory.semantic.get_fact(gone.id)).superseded_by == keep.id
    (beans,) = await memory.semantic.facts({"claim": "Buy beans"})
    assert (done, beans.depends_on, await edges(memory)) == (["append"], (keep.id,), [(ann, cleo, keep.id)])


async def test_one_run_reads_once_what_leans_on_facts_and_then_what_was_written_since(
    memory: AsyncAgentMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = [[await memory.learn_fact(claim) for claim in pair] for pair in (SAME, ALSO)]
    read: list[str] = []
    find = memory.engine.log.find

    async def counting(scope: Any, where: Any, **more: Any) -> Any:
        found = await find(scope, where, **more)
        if "Fact" in (where.kinds or ()) and where.channels is None:  # as what leans on facts is looked for
            read.extend(record.id for record in found)
        return found

    async def lean() -> None:
        await memory.learn_fact("Buy beans", depends_on=[other.id for _, other in pairs])

    monkeypatch.setattr(memory.engine.log, "find", counting)
    second_merge = _second(lambda changes, *_: changes[0].operation == "clusters")
    done = run_once_before(monkeypatch, memory.engine.log, "append", lean, second_merge)
    (report,) = await memory.consolidate("clusters")
    assert (done, report.counts, report.notes) == (["append"], {"merged": 2}, [])
    assert sorted(read) == sorted(fact.id for pair in pairs for fact in pair)
    (beans,) = await memory.semantic.facts({"claim": "Buy beans"})
    standing = {fact.id for fact in await memory.semantic.facts()}
    assert len(set(beans.depends_on) & standing) == 1, "the second merge moved its premise, the first was done before"


@pytest.mark.parametrize("many", [1, 2])
async def test_what_is_erased_while_it_is_merged_is_refused(
    memory: AsyncAgentMemory, monkeypatch: pytest.MonkeyPatch, many: int
) -> None:
    ids = [(await memory.learn_fact(claim)).id for claim in SAME]

    async def erase() -> None:
        for name in ids[:many]:
            await memory.forget(name, hard=True)

    done = run_once_before(
        monkeypatch, memory.engine.log, "read_records", erase, _second(lambda kind, asked, _: list(asked) == ids)
    )
    with pytest.raises(InvalidRecord) as refused:
        await memory.curation.merge(ids)
    assert (done, refused.value.field) == (["read_records"], "cluster")


def _second(when: Callable[..., bool]) -> Callable[..., bool]:
    """True of the second call for which `when` is."""
    calls: list[None] = []

    def held(*given: Any, **named: Any) -> bool:
        if when(*given, **named):
            calls.append(None)
        return len(calls) == 2

    return held


# -- outcomes and strategies


@pytest.mark.parametrize("field", ["conversation_id", "goal_id"])
async def test_an_outcome_of_what_is_erased_meanwhile_is_refused(
    memory: AsyncAgentMemory, monkeypatch: pytest.MonkeyPatch, field: str
) -> None:
    (turn,) = await memory.store_turns(["Book a flight"])
    goal = await memory.add_goal("book a flight")
    gone = {"conversation_id": turn.conversation_id, "goal_id": goal.id}[field]
    done = run_once_before_append(monkeypatch, memory.engine, "reflect", lambda: memory.forget(gone, hard=True))
    with pytest.raises(InvalidRecord) as refused:
        await memory.reflect({"success": True, field: gone})
    assert (done, refused.value.field) == (["append"], field)
    assert [one for one in await memory._context.list_readable("Outcome") if isinstance(one, Outcome)] == []


async def test_a_strategy_from_a_conversation_that_is_erased_meanwhile_is_refused(
    memory: AsyncAgentMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    (turn,) = await memory.store_turns(["Book a flight"])
    gone = turn.conversation_id
    done = run_once_before_append(monkeypatch, memory.engine, "learn_strategy", lambda: memory.forget(gone, hard=True))
    with pytest.raises(InvalidRecord) as refused:
        await memory.procedural.learn_strategy("compare prices first", conversation_id=gone)
    assert (done, refused.value.field) == (["append"], "conversation_id")
    assert [one for one in await memory._context.list_readable("Strategy") if isinstance(one, Strategy)] == []
