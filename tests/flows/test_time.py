"""World time and record time: what was true when, what was known when, and that nothing retired comes back."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from agentmem import AgentMemory, AsyncAgentMemory, ConsolidationWorker, MemoryBundle, Status
from agentmem.admin.doctor import diagnose
from agentmem.recall.options import discover_techniques
from tests.fakes.llm_replies import ScriptedLLM, install_llm
from tests.flows.given import START, ManualClock, bundle_ids, bundle_texts, engine_of, open_memory, run

QUESTION = "What does Ann drink at work: tea, coffee, juice, milk or cocoa?"
TECHNIQUES = [None, *sorted(discover_techniques())]
# What a model might say that knows of everything she ever drank.
REPLIES = {
    "hyde": {"sentence": "Ann drinks juice at work."},
    "expansion": {"statements": ["Ann drinks milk at work.", "Ann drinks coffee at work."]},
    "decompose": {"parts": ["Does Ann drink tea?", "Does Ann drink juice?"]},
    "self_query": {
        "first_day": "2026-03-01",
        "last_day": "2026-03-09",
        "kinds": ["fact"],
        "entities": ["Ann"],
        "keywords": ["tea", "coffee", "juice", "milk"],
    },
}


class Life:
    """Ann's drinks: one claim for every way in which a fact or a turn may be retired, told a day apart."""

    def __init__(self, memory: AgentMemory, clock: ManualClock) -> None:
        self.memory = memory
        self.moments: dict[str, datetime] = {"birth": clock.advance(days=1)}
        self.ann = memory.upsert_entity({"name": "Ann", "type": "person"}).id
        about = {"entity_ids": [self.ann]}
        self.changed = memory.learn_fact("Ann drinks tea at work", **about)
        self.wrong = memory.learn_fact("Ann drinks coffee at work", **about)
        self.forgotten = memory.learn_fact("Ann drinks juice at work", **about)
        end = clock.time + timedelta(days=2, hours=12)
        self.expired = memory.learn_fact("Ann drinks milk at work", valid_to=end, **about)
        self.other = memory.learn_fact("Ann works at the harbour", **about)
        self.turn = memory.store_turn("Ann: I drink juice at work.", turn_id="said")
        self.moments["told"] = clock.time
        clock.advance(days=1)
        self.now = memory.semantic.supersede_fact(self.changed.id, "Ann drinks cocoa at work")
        self.right = memory.semantic.update_fact(self.wrong.id, claim="Ann drinks water at work")
        self.moments["corrected"] = clock.time
        clock.advance(days=1)
        memory.forget(self.forgotten.id, reason="she asked for it")
        memory.forget(self.turn.id)
        self.moments["forgotten"] = clock.time
        clock.advance(days=1)
        self.moments["now"] = clock.time
        memory.flush()

    @property
    def retired(self) -> set[str]:
        return {self.changed.id, self.wrong.id, self.forgotten.id, self.expired.id, self.turn.id}

    def claims(self, bundle: MemoryBundle) -> set[str]:
        """Which drinks the bundle knows of."""
        drinks = ("tea", "coffee", "juice", "milk", "cocoa", "water")
        return {drink for drink in drinks for fact in bundle.facts if drink in fact.claim}


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Life]:
    clock = ManualClock()
    with open_memory(tmp_path_factory.mktemp("life") / "home", clock=clock, seed=1) as memory:
        install_llm(engine_of(memory), ScriptedLLM(REPLIES))
        yield Life(memory, clock)


@pytest.mark.parametrize("technique", TECHNIQUES)
def test_retired_records_are_absent_on_every_technique(life: Life, technique: str | None) -> None:
    techniques = None if technique is None else [technique]
    bundle = life.memory.remember(QUESTION, techniques=techniques, top_k=100)
    assert not bundle_ids(bundle) & life.retired
    assert {life.now.id, life.right.id, life.other.id} <= bundle_ids(bundle)
    assert not life.retired & {candidate.id for candidate in bundle.receipt.pool}


def test_retired_records_are_absent_from_contexts_graphs_and_lists(life: Life) -> None:
    text = life.memory.context(QUESTION).text
    assert "cocoa" in text
    assert not any(drink in text for drink in ("tea at", "coffee", "juice", "milk"))
    assert {fact.id for fact in life.memory.semantic.facts()} == {life.now.id, life.right.id, life.other.id}
    graph = life.memory.semantic.get_entity_graph([life.ann], 2)
    assert {fact.id for fact in graph.facts} == {life.now.id, life.right.id, life.other.id}
    assert life.memory.episodic.recent_turns() == []
    assert life.memory.semantic.get_fact(life.changed.id).status is Status.SUPERSEDED, "by its id it is still there"


@pytest.mark.parametrize("technique", TECHNIQUES)
@pytest.mark.parametrize(
    "moment, drinks, heard",
    [
        ("told", {"tea", "coffee", "juice", "milk"}, True),
        ("corrected", {"cocoa", "water", "juice", "milk"}, True),
        ("forgotten", {"cocoa", "water", "milk"}, False),
        ("now", {"cocoa", "water"}, False),
    ],
)
def test_known_at_gives_what_was_known_then(
    life: Life, technique: str | None, moment: str, drinks: set[str], heard: bool
) -> None:
    techniques = None if technique is None else [technique]
    then = life.moments[moment]
    bundle = life.memory.remember(QUESTION, known_at=then, as_of=then, techniques=techniques, top_k=100)
    assert life.claims(bundle) == drinks
    assert (life.turn.id in bundle_ids(bundle)) is heard


@pytest.mark.parametrize("technique", TECHNIQUES)
@pytest.mark.parametrize("moment, drinks", [("birth", {"tea", "water", "milk"}), ("told", {"tea", "water", "milk"})])
def test_as_of_gives_what_was_true_then_by_what_is_known_today(
    life: Life, technique: str | None, moment: str, drinks: set[str]
) -> None:
    techniques = None if technique is None else [technique]
    bundle = life.memory.remember(QUESTION, as_of=life.moments[moment], techniques=techniques, top_k=100)
    assert life.claims(bundle) == drinks
    assert life.turn.id not in bundle_ids(bundle)


def test_facts_lists_what_was_true_at_a_moment(life: Life) -> None:
    def claims(**where: object) -> list[str]:
        return sorted(fact.claim.split()[2] for fact in life.memory.semantic.facts(where) if "drinks" in fact.claim)

    assert claims(as_of=life.moments["told"]) == ["milk", "tea", "water"]
    assert claims(as_of=life.moments["corrected"]) == ["cocoa", "milk", "water"]
    assert claims() == ["cocoa", "water"]
    assert claims(retired=True) == ["cocoa", "coffee", "juice", "milk", "tea", "water"]


def test_nothing_was_known_before_the_first_word(life: Life) -> None:
    before = START - timedelta(days=1)
    assert bundle_ids(life.memory.remember(QUESTION, known_at=before)) == set()
    assert life.memory.remember(QUESTION, known_at=START + timedelta(days=365)).items


def test_history_tells_every_version_of_a_fact_and_its_successors(life: Life) -> None:
    history = life.memory.semantic.history(life.changed.id)
    told = [(fact.claim.split()[2], str(fact.status)) for fact in history]
    assert told[0] == ("tea", "active")
    assert sorted(told[1:]) == [("cocoa", "active"), ("tea", "superseded")]
    assert history == life.memory.semantic.history(life.now.id)
    ended = life.memory.semantic.get_fact(life.changed.id)
    assert (ended.valid_to, ended.superseded_at, ended.superseded_by) == (life.moments["corrected"], None, life.now.id)
    wrong = life.memory.semantic.get_fact(life.wrong.id)
    assert (wrong.valid_to, wrong.superseded_at, wrong.superseded_by) == (
        None,
        life.moments["corrected"],
        life.right.id,
    )


def test_diff_names_what_was_learned_retired_and_changed(life: Life) -> None:
    moments = life.moments
    first = life.memory.diff(START, moments["told"])
    assert {record.id for record in first.learned} >= life.retired | {life.ann}
    assert first.retired == first.changed == ()
    second = life.memory.diff(moments["told"], moments["corrected"])
    assert {record.id for record in second.learned} == {life.now.id, life.right.id}
    assert {record.id for record in second.retired} == {life.changed.id, life.wrong.id}
    third = life.memory.diff(moments["now"], moments["corrected"])
    assert {record.id for record in third.retired} == {life.forgotten.id, life.turn.id}
    assert life.memory.diff(moments["now"], moments["now"]).learned == ()


def test_diff_shows_what_a_version_changed(memory: AgentMemory, clock: ManualClock) -> None:
    fact = memory.learn_fact("Ann sings")
    before = clock.advance(hours=1)
    clock.advance(hours=1)
    memory.semantic.boost_salience(fact.id, 0.2)
    ((old, new),) = memory.diff(before, clock.time).changed
    assert (old.id, new.id) == (fact.id, fact.id)
    assert new.salience - old.salience == pytest.approx(0.2)


def test_a_to_b_to_a_ends_with_a_current(memory: AgentMemory, clock: ManualClock) -> None:
    a = memory.learn_fact("Ben lives in Rome")
    clock.advance(days=1)
    b = memory.semantic.supersede_fact(a.id, "Ben lives in Oslo")
    between = clock.advance(days=1)
    clock.advance(days=1)
    again = memory.semantic.supersede_fact(b.id, "Ben lives in Rome")
    assert again.id not in (a.id, b.id)
    clock.advance(days=1)
    assert [fact.claim for fact in memory.semantic.facts()] == ["Ben lives in Rome"]
    assert [fact.id for fact in memory.remember("Where does Ben live?").facts] == [again.id]
    assert bundle_texts(memory.remember("Where does Ben live?", as_of=between)) == ["Ben lives in Oslo"]
    assert len(memory.semantic.history(a.id)) == 5


def test_a_to_b_to_a_by_learning_ends_with_a_current(memory: AgentMemory, clock: ManualClock) -> None:
    a = memory.learn_fact("Ben lives in Rome")
    clock.advance(days=1)
    b = memory.semantic.supersede_fact(a.id, "Ben lives in Oslo")
    clock.advance(days=1)
    memory.forget(b.id)
    again = memory.learn_fact("Ben lives in Rome")
    assert again.id != a.id
    assert memory.semantic.facts() == [again]


@pytest.mark.parametrize(
    "one, other",
    [
        ("Ann eats meat", "Ann does not eat meat"),
        ("The rent is 900 euros", "The rent is 950 euros"),
        ("Ann has no allergies", "Ann has allergies"),
        ("The train leaves at 7:15", "The train leaves at 7:51"),
        ("Ann likes tea", "Ann liked tea"),
        ("The key is A1", "The key is A2"),
    ],
)
def test_a_negation_or_a_changed_number_is_no_duplicate(memory: AgentMemory, one: str, other: str) -> None:
    first, second = memory.learn_fact(one), memory.learn_fact(other)
    assert first.id != second.id
    assert {fact.claim for fact in memory.semantic.facts()} == {one, other}
    assert {fact.claim for fact in memory.remember(one).facts} == {one, other}


def test_an_unrelated_fact_about_the_same_entity_survives(memory: AgentMemory) -> None:
    ann = memory.upsert_entity({"name": "Ann"}).id
    job = memory.learn_fact("Ann works at Acme", entity_ids=[ann])
    pet = memory.learn_fact("Ann has a cat", entity_ids=[ann])
    memory.semantic.supersede_fact(job.id, "Ann works at Globex")
    memory.semantic.update_fact(memory.semantic.facts()[-1].id, claim="Ann works for Globex")
    memory.forget(memory.semantic.facts()[-1].id)
    assert memory.semantic.facts() == [pet]
    assert [fact.id for fact in memory.remember("Ann").facts] == [pet.id]


def test_a_fact_superseded_before_passes_the_call_on(memory: AgentMemory) -> None:
    first = memory.learn_fact("v1")
    second = memory.semantic.supersede_fact(first.id, "v2")
    third = memory.semantic.supersede_fact(first.id, "v3")
    assert memory.semantic.facts() == [third]
    assert memory.semantic.get_fact(second.id).superseded_by == third.id


def test_a_fact_corrected_twice_leaves_one(memory: AgentMemory) -> None:
    first = memory.learn_fact("v1")
    memory.semantic.update_fact(first.id, claim="v2")
    third = memory.semantic.update_fact(first.id, claim="v3")
    assert memory.semantic.facts() == [third]


def test_correcting_what_is_past_leaves_the_present_alone(memory: AgentMemory, clock: ManualClock) -> None:
    rome = memory.learn_fact("Ben sings in Rome", valid_from=START - timedelta(days=100))
    oslo = memory.semantic.supersede_fact(rome.id, "Ben sings in Oslo")
    clock.advance(days=1)
    milan = memory.semantic.update_fact(rome.id, claim="Ben sings in Milan")
    clock.advance(days=1)
    assert memory.semantic.facts() == [oslo]
    assert [fact.claim for fact in memory.semantic.facts({"as_of": START - timedelta(days=1)})] == [
        "Ben sings in Milan"
    ]
    last = memory.semantic.supersede_fact(rome.id, "Ben sings in Bergen")
    assert memory.semantic.facts() == [last], "the chain goes on from what corrected it"
    assert memory.semantic.get_fact(milan.id).superseded_by == oslo.id


def test_superseding_by_what_is_known_already_joins_both(memory: AgentMemory) -> None:
    old, known = memory.learn_fact("Ben lives in Rome"), memory.learn_fact("Ben lives in Oslo")
    joined = memory.semantic.supersede_fact(old.id, "Ben lives in Oslo")
    assert joined.id == known.id
    assert [fact.id for fact in memory.semantic.facts()] == [known.id]
    assert memory.semantic.get_fact(old.id).superseded_by == known.id
    assert memory.semantic.supersede_fact(known.id, "Ben lives in OSLO").id == known.id


def test_what_was_wrong_from_the_start_is_never_true(memory: AgentMemory, clock: ManualClock) -> None:
    fact = memory.learn_fact("Ben is 30")
    then = clock.time
    clock.advance(days=1)
    memory.semantic.supersede_fact(fact.id, "Ben is 31", is_correction=True)
    assert bundle_texts(memory.remember("Ben", as_of=then)) == ["Ben is 31"]
    assert bundle_texts(memory.remember("Ben", known_at=then)) == ["Ben is 30"]


def test_a_beginning_learned_later_corrects_the_first_fact(memory: AgentMemory, clock: ManualClock) -> None:
    first = memory.learn_fact("Ben sings in Oslo")
    dated = memory.learn_fact("Ben sings in Oslo", valid_from=START - timedelta(days=10))
    later = memory.learn_fact("Ben sings in Oslo", valid_from=START - timedelta(days=5))
    earlier = memory.learn_fact("Ben sings in Oslo", valid_from=START - timedelta(days=20))
    assert dated.supersedes == first.id
    assert later.id == dated.id, "true since before, so true since then"
    assert earlier.supersedes == dated.id
    assert memory.semantic.facts() == [earlier]


def test_a_fact_with_a_known_end_is_learned_once(memory: AgentMemory, clock: ManualClock) -> None:
    end = START + timedelta(days=10)
    visa = memory.learn_fact("The visa is valid", valid_to=end)
    assert memory.learn_fact("The visa is valid", valid_to=end).id == visa.id
    renewed = memory.learn_fact("The visa is valid", valid_to=end + timedelta(days=10))
    assert {fact.id for fact in memory.semantic.facts()} == {visa.id, renewed.id}
    clock.advance(days=10)
    assert [fact.id for fact in memory.remember("visa").facts] == [renewed.id]


def test_a_turn_is_true_from_its_timestamp(memory: AgentMemory) -> None:
    memory.store_turn("The roof leaks.", timestamp=START - timedelta(days=30))
    memory.store_turn("The roof is mended.", timestamp=START - timedelta(days=10))
    assert bundle_texts(memory.remember("roof", as_of=START - timedelta(days=20))) == ["The roof leaks."]
    assert bundle_texts(memory.remember("roof")) == ["The roof is mended.", "The roof leaks."]


def test_a_clock_that_goes_backwards_neither_loses_nor_reorders(memory: AgentMemory, clock: ManualClock) -> None:
    first = memory.learn_fact("Ann sings")
    clock.advance(days=-30)
    second = memory.learn_fact("Ben dances")
    memory.semantic.boost_salience(second.id)
    assert second.recorded_at == first.recorded_at, "record time never runs backwards"
    assert {fact.id for fact in memory.remember("sings dances").facts} == {first.id, second.id}
    assert set(memory.lag().values()) == {0}


def test_versions_of_one_moment_are_found(memory: AgentMemory) -> None:
    fact = memory.learn_fact("Ann sings")
    memory.semantic.boost_salience(fact.id)
    entity = memory.upsert_entity({"name": "Ann"})
    memory.upsert_entity({"name": "Ann", "description": "a singer from Bergen"})
    bundle = memory.remember("singer from Bergen", techniques=["vector"])
    assert bundle.entities[0].id == entity.id
    assert bundle.notices == ()
    assert set(memory.lag().values()) == {0}


def test_a_forgotten_fact_is_not_corrected_behind_its_back(memory: AgentMemory) -> None:
    fact = memory.learn_fact("Ann sings")
    memory.forget(fact.id)
    for change in (memory.semantic.supersede_fact, lambda name, claim: memory.semantic.update_fact(name, claim=claim)):
        with pytest.raises(ValueError, match="restore it first"):
            change(fact.id, "Ann dances")
    assert memory.semantic.facts() == []


def test_softly_forgotten_records_come_back_as_they_were(memory: AgentMemory) -> None:
    turns = memory.store_turns(["one", "two", "three"])
    lone = memory.learn_fact("Ann sings", confidence=0.4)
    memory.forget(lone.id)
    memory.forget(turns[1].id)
    conversation = turns[0].conversation_id
    memory.episodic.delete_conversation(conversation)
    assert memory.episodic.conversations() == []
    assert memory.remember("one two three").turns == ()
    with pytest.raises(LookupError):
        memory.episodic.get_conversation(conversation)
    assert len(memory.restore(conversation)) == 3
    assert [turn.content for turn in memory.episodic.get_conversation(conversation)] == ["one", "three"]
    memory.restore(turns[1].id)
    assert [turn.content for turn in memory.episodic.get_conversation(conversation)] == ["one", "two", "three"]
    (back,) = memory.restore(lone.id)
    assert back.model_dump(exclude={"seq", "operation_id"}) == lone.model_dump(exclude={"seq", "operation_id"})


def test_promotion_copies_a_project_s_fact_once_and_never_a_private_one(memory: AgentMemory) -> None:
    project = memory.scoped(channel="roof")
    fact = project.learn_fact("The roof is blue")
    copy = project.semantic.promote_to_global(fact.id, "known everywhere")
    assert (copy.channel, copy.promoted_from) == ("_global", fact.id)
    assert memory.semantic.facts() == [copy]
    private = memory.scoped(agent_id="bot", channel="_self_bot")
    secret = private.learn_fact("The bot is shy")
    with pytest.raises(ValueError, match="cannot be promoted"):
        private.semantic.promote_to_global(secret.id, "no")


NEVER = datetime.max.replace(tzinfo=UTC)


def use_everything(memory: AgentMemory, city: str) -> None:
    """Store, reckon and ask with whatever takes the clock's time."""
    memory.store_turn(f"I live in {city} now. Yesterday I was ill; in two weeks I fly to Oslo.")
    memory.learn_fact(f"Tea in {city} is cheap", tier="short")
    memory.announce(f"{city} is closed", expires_in=3600)
    memory.working.set("city", city)
    memory.working.remember_output(city, source="map")
    memory.schedules.add(f"look at {city}", every=3600, prompt="look")
    assert memory.working.get("city") == city
    memory.consolidate()
    assert memory.remember("Where do I live, and where was I last week?", time_window_hours=1e6).items
    assert memory.context("Where do I live?")
    memory.episodic.recent_turns(hours=1e6)
    memory.schedules.due()
    memory.curation.queue()
    memory.curation.gc()
    memory.synopsis()


def test_a_clock_at_either_end_of_the_calendar_breaks_nothing(memory: AgentMemory, clock: ManualClock) -> None:
    for moment in (datetime(1, 1, 1, tzinfo=UTC), NEVER):
        clock.time = moment
        use_everything(memory, f"Bath {moment.year}")


def test_a_clock_that_was_in_the_year_9999_harms_nothing_later(memory: AgentMemory, clock: ManualClock) -> None:
    clock.time = NEVER
    use_everything(memory, "Rome")
    for day, city in ((1, "Kiel"), (2, "Graz")):
        clock.time = START + timedelta(days=day)
        use_everything(memory, city)
        (home,) = memory.beliefs("user", "home")
        assert [fact.value for fact in home.current] == [city]
        assert f"home {city}" in memory.context("Where do I live?").replace(":", "")
    turn = memory.store_turn("I am back in my own year.")
    assert turn.recorded_at == clock.time
    findings = run(diagnose(memory._inner.settings))
    assert [finding.level for finding in findings if finding.check == "clock"] == ["ok"]


async def test_a_worker_serves_all_after_somebodys_clock_was_in_the_year_9999(home: Path) -> None:
    clock = ManualClock(NEVER)
    async with AsyncAgentMemory("alice", home=home, embedder="hash", clock=clock) as alice:
        await alice.store_turn("I live in Rome.")
        await ConsolidationWorker(alice.engine).run_once()
        clock.time = START
        for name in ("alice", "bob"):
            await alice.scoped(user_id=name).store_turn("I work at Bosch.")
            await ConsolidationWorker(alice.engine).run_once()
            beliefs = await alice.scoped(user_id=name).beliefs("user", "employer")
            assert [fact.value for state in beliefs for fact in state.current] == ["Bosch"]
