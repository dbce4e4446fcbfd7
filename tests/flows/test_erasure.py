"""What is erased is nowhere: no file of the home holds a word of it, and the receipt's scan says so."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentmem import AgentMemory, NotFound
from agentmem.models.providers.hash import HashEmbedder
from tests.fakes.as_a_model import AsyncOnlyEmbedder
from tests.flows.given import ManualClock, engine_of, open_memory, read_head, read_tables, run

ROOT = Path(__file__).parents[2]
MARK = "zqxwombat"  # stands in every text that is to go; its first letters survive any stemming
TRACE = b"zqxwom"


def traces(home: Path) -> list[str]:
    """The files that hold the mark, in whatever case."""
    return sorted(path.name for path in home.rglob("*") if path.is_file() and TRACE in path.read_bytes().lower())


class Marked:
    """A memory with marked records of every kind, read, audited and cached in every way, beside what is to stay."""

    def __init__(self, memory: AgentMemory) -> None:
        self.memory = memory
        self.kept_turn, self.kept_second = memory.store_turns(["A harmless turn about tea.", "More about tea."])
        self.secrets = memory.scoped(conversation_id="secrets")
        self.turn = self.secrets.store_turn(
            f"My code is {MARK}.", speaker=f"{MARK} Smith", metadata={"caption": f"a {MARK}", "tags": [MARK]}
        )
        self.secrets.store_turn(f"Say {MARK} again?", turn_id="second")
        self.entity = memory.upsert_entity(
            {
                "name": f"{MARK}",
                "aliases": [f"{MARK}ie"],
                "description": f"the {MARK}",
                "properties": {MARK: MARK},
            }
        )
        self.renamed = memory.upsert_entity({"id": self.entity.id, "name": f"Old {MARK}"})
        self.fact = memory.learn_fact(f"The {MARK} likes tea", tags=[MARK], entity_ids=[self.entity.id])
        self.changed = memory.semantic.supersede_fact(self.fact.id, f"The {MARK} likes milk")
        self.goal = memory.add_goal({"description": f"Feed the {MARK}", "result": MARK})
        self.done = memory.complete_goal(self.goal.id, "completed", f"{MARK} fed")
        self.relation = memory.semantic.relate(self.entity.id, f"{MARK}s with", self.entity.id, {MARK: MARK})
        memory.update_profile(preferences={MARK: MARK}, expertise_areas=[MARK])
        memory.forget(self.changed.id, reason=f"because {MARK}")
        for face in (memory, self.secrets):
            for query in (f"Where is {MARK}?", "tea"):
                face.remember(query)
            face.context(f"Where is {MARK}?")
            face.working.set(MARK, {MARK: MARK})
            face.working.push_thought(f"think of {MARK}")
        memory.observe_usage([self.turn.id], [MARK])
        with pytest.raises(NotFound):
            memory.get_goal(f"{MARK}-goal")
        memory.flush()


@pytest.fixture(params=["writes", "verbose"])
def marked(home: Path, request: pytest.FixtureRequest) -> Iterator[Marked]:
    with open_memory(home, audit_level=request.param, working_turns=20) as memory:
        yield Marked(memory)


def test_erasing_a_user_leaves_no_word_in_any_file(home: Path, marked: Marked) -> None:
    memory, bob = marked.memory, marked.memory.scoped(user_id="bob")
    bob.store_turn("Bob's own words stay.")
    bob.working.set("city", "Oslo")
    assert {"memory.db", "session.db"} <= {name.removesuffix("-wal") for name in traces(home)}, "else nothing is tested"
    last = read_head(memory)
    receipt = memory.erase()
    assert (receipt.scan.leftovers, receipt.scan.deferred) == ({}, ())
    assert {"memory_versions", "word_tail", "memory_audit_log", "passages_512"} <= set(receipt.scan.checked)
    assert traces(home) == []
    assert memory.remember("tea").items == ()
    assert memory.semantic.entities() == memory.episodic.conversations() == []
    assert memory.profile().preferences == {}
    assert bob.working.get("city") == "Oslo"
    assert [turn.content for turn in bob.remember("words").turns] == ["Bob's own words stay."]
    rows = read_tables(memory)
    tombstones = [row for row in rows["memory_versions"] if row[0] == "alice"]
    assert tombstones, "what was there is known by its ids"
    assert {row[8] for row in tombstones} == {None}, "and without payload"
    assert read_head(memory) == last + 1
    assert set(memory.lag().values()) == {0}
    assert memory.store_turn("A new beginning.").index == 0


@pytest.mark.parametrize("late", [False, True])
def test_erasing_every_marked_record_one_by_one_leaves_no_word(home: Path, marked: Marked, late: bool) -> None:
    memory = marked.memory
    if late:  # words folded into packed blocks
        run(engine_of(memory).log.maintain(engine_of(memory).clock.now(), 365))
    assert traces(home)
    for name in ("secrets", marked.entity.id, marked.fact.id, marked.changed.id, marked.goal.id, "profile"):
        receipt = memory.forget(name, hard=True)
        assert (receipt.scan.leftovers, receipt.scan.deferred) == ({}, ())
        assert receipt.hard
    assert traces(home) == []
    assert sorted(turn.content for turn in memory.remember("tea").turns) == [
        "A harmless turn about tea.",
        "More about tea.",
    ]
    assert memory.remember(MARK, reinforce=False).facts == ()
    assert set(memory.lag().values()) == {0}


def test_an_erased_user_is_gone_from_files_after_closing_too(home: Path, marked: Marked) -> None:
    marked.memory.erase()
    marked.memory.close()
    assert traces(home) == []
    with open_memory(home) as again:
        assert again.remember(MARK, reinforce=False).items == ()
        assert again.audit.query(limit=1000), "that something was done stays"


def test_facts_go_with_their_only_source_and_lose_one_of_several(memory: AgentMemory) -> None:
    first, second = memory.store_turns(["one", "two"])
    alone = memory.learn_fact("From one alone", source_turn_ids=[first.id])
    both = memory.learn_fact("From both", source_turn_ids=[first.id, second.id])
    built = memory.learn_fact("Built on the first", depends_on=[alone.id])
    free = memory.learn_fact("From nobody")
    roof = memory.scoped(channel="roof")
    elsewhere = roof.learn_fact("In another channel", source_turn_ids=[first.id])
    promoted = roof.semantic.promote_to_global(elsewhere.id, "known")
    receipt = memory.forget(first.id, hard=True)
    assert receipt.ids == (first.id,)
    assert set(receipt.derived) == {alone.id, elsewhere.id, promoted.id}
    assert {fact.id for fact in roof.semantic.facts()} == {both.id, built.id, free.id}
    left = memory.semantic.get_fact(both.id)
    assert (left.source_turn_ids, left.stale_since) == ((second.id,), None)  # another turn says it
    assert memory.semantic.get_fact(built.id).depends_on == ()
    assert memory.semantic.get_fact(built.id).stale_since is not None
    assert memory.semantic.get_fact(free.id).stale_since is None
    assert "Built on the first (may be out of date)" in memory.context("from both").text
    assert "From both (may be out of date)" not in memory.context("from both").text
    for name in receipt.derived:
        with pytest.raises(NotFound):
            memory.semantic.get_fact(name)


def test_erasing_a_conversation_takes_its_turns_forgotten_ones_too(memory: AgentMemory) -> None:
    turns = memory.store_turns([{"content": text, "conversation_id": "c"} for text in ("one", "two", "three")])
    memory.forget(turns[1].id)
    receipt = memory.episodic.delete_conversation("c", hard=True)
    assert set(receipt.ids) == {"c", *(turn.id for turn in turns)}
    for turn in turns:
        with pytest.raises(NotFound):
            memory.restore(turn.id)
    assert memory.episodic.conversations() == []


def test_relations_of_an_erased_entity_go_with_it(memory: AgentMemory) -> None:
    ann, ben, cleo = (memory.upsert_entity({"name": name}).id for name in ("Ann", "Ben", "Cleo"))
    gone = memory.semantic.relate(ann, "KNOWS", ben)
    memory.semantic.relate(ben, "KNOWS", cleo)
    fact = memory.learn_fact("Ann and Ben sing", entity_ids=[ann, ben])
    assert memory.forget(ann, hard=True).derived == (gone.id,)
    assert memory.semantic.get_fact(fact.id).entity_ids == (ben,)
    assert {entity.id for entity in memory.semantic.get_entity_graph([cleo], 2).entities} == {cleo, ben}


def test_what_was_merged_away_leaves_no_remnant(home: Path) -> None:
    """Its reason holds an id, which begins like every other id of that minute: such as that of an undone operation."""
    with open_memory(home, clock=ManualClock(), seed=1) as memory:
        memory.undo(memory.learn_fact("Ann has a boat").operation_id)
        kept, gone = (memory.upsert_entity({"name": name, "type": "place"}) for name in ("New York", "Big Apple"))
        memory.semantic.merge_entities(kept.id, gone.id)
        for each in (gone, kept):
            assert dict(memory.forget(each.id, hard=True).scan.leftovers) == {}


def test_an_audit_row_loses_a_synopsis_with_it_though_what_it_tells_of_is_erased_later(home: Path) -> None:
    with open_memory(home, audit_level="verbose") as memory:
        memory.store_turn("My sister Carla lives in Oslo.", turn_id="told")
        memory.store_turn("The harbor was frozen.", turn_id="other")
        memory.consolidate()
        memory.synopsis()
        assert "synopsis" in list_rows_with(memory, "Oslo")
        memory.forget("other", hard=True)
        assert "synopsis" not in list_rows_with(memory, "Oslo")
        memory.forget("told", hard=True)
        assert list_rows_with(memory, "Oslo") == []


def list_rows_with(memory: AgentMemory, word: str) -> list[str]:
    return [row["operation"] for row in memory.audit.query(limit=1_000) if word in json.dumps(row["metadata"])]


def test_receipts_of_an_erased_user_are_dropped(memory: AgentMemory) -> None:
    memory.store_turn("one")
    bob = memory.scoped(user_id="bob")
    bob.store_turn("two")
    mine, theirs = memory.remember("one").receipt.id, bob.remember("two").receipt.id
    memory.forget(memory.episodic.recent_turns()[0].id, hard=True)
    with pytest.raises(NotFound):
        memory.audit.receipt(mine)
    assert bob.audit.receipt(theirs).id == theirs


def test_what_another_process_erased_is_dropped_from_caches(home: Path) -> None:
    code = (
        "import sys; from agentmem import AgentMemory\n"
        "with AgentMemory('alice', home=sys.argv[1], embedder='hash') as m: m.forget('t', hard=True)"
    )
    with open_memory(home) as memory:
        memory.store_turn("The secret garden.", turn_id="t")
        memory.store_turn("The open garden.", turn_id="u")
        receipt = memory.remember("garden").receipt.id
        subprocess.run([sys.executable, "-c", code, str(home)], cwd=ROOT, check=True)
        assert [turn.id for turn in memory.remember("secret garden").turns] == ["u"]
        with pytest.raises(NotFound):
            memory.audit.replay(receipt)


@pytest.mark.parametrize("whole_user", [False, True])
def test_a_projection_that_is_late_brings_nothing_back(
    home: Path, monkeypatch: pytest.MonkeyPatch, whole_user: bool
) -> None:
    with open_memory(home) as memory:
        memory.store_turn("warm up")
        served = engine_of(memory).vector_projections[0]
        served.embedder = AsyncOnlyEmbedder(served.embedder)
        started, go_on = asyncio.Event(), asyncio.Event()
        embed = HashEmbedder.embed

        async def slowly(self: HashEmbedder, passages: list[str]) -> object:
            started.set()
            await go_on.wait()
            return await embed(self, passages)

        async def race() -> None:
            face = memory._inner
            storing = asyncio.ensure_future(face.store_turn(f"a {MARK}", turn_id="t"))
            await started.wait()
            assert "t" in [turn.id for turn in await face.episodic.recent_turns()]
            erasing = asyncio.gather(face.erase() if whole_user else face.forget("t", hard=True))
            async with asyncio.timeout(60):
                while "t" in [turn.id for turn in await face.episodic.recent_turns()]:
                    await asyncio.sleep(0.01)
            go_on.set()
            await asyncio.gather(storing, erasing)

        monkeypatch.setattr(HashEmbedder, "embed", slowly)
        run(race())
        monkeypatch.undo()
        memory.flush()
        held = [row for row in read_tables(memory)["passages_512"] if row[1] == "alice"]
        assert len(held) == (0 if whole_user else 1)
        assert [turn.id for turn in memory.remember(MARK).turns if turn.id == "t"] == []
