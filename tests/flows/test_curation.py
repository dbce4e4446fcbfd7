"""What is about to be forgotten: the queue, a use that brings it back, and recall that shows it in time."""

from __future__ import annotations

import pytest

from agentmem import AgentMemory, Fact, InvalidRecord, NotFound
from tests.flows.given import ManualClock, context_of, engine_of, open_memory, read_head, run

WEEK = 6.0  # days after which an unused memory scores a quarter, with a half-life of 3 days


def short(memory: AgentMemory, claim: str) -> Fact:
    return memory.learn_fact(claim, tier="short")


def test_the_queue_holds_what_is_in_the_danger_zone_most_urgent_first(memory: AgentMemory, clock: ManualClock) -> None:
    facts = []
    for name in ("faint", "low", "middle", "high", "fresh"):
        facts.append(short(memory, f"The {name} one sings"))
        clock.advance(days=1)
    memory.learn_fact("The lasting one sings")
    clock.advance(days=WEEK - 3)
    found = memory.curation.queue()
    # ages 8, 7, 6, 5 and 4 days: scores .157, .198, .25, .315 and .397; the zone goes from .15 to .35
    assert [each.fact.id for each in found] == [facts[n].id for n in (2, 1, 3, 0)]
    assert [round(each.score, 3) for each in found] == [0.25, 0.198, 0.315, 0.157]
    assert [round(each.priority, 2) for each in found] == [1.0, 0.73, 0.58, 0.14]
    assert [each.fact.id for each in memory.curation.queue(1)] == [facts[2].id]
    assert memory.curation.queue(0) == []
    with pytest.raises(InvalidRecord) as caught:
        memory.curation.queue(-1)
    assert caught.value.field == "limit"


def test_the_queue_sees_the_readable_channels_and_current_facts_alone(memory: AgentMemory, clock: ManualClock) -> None:
    gone = short(memory, "Ann sings")
    short(memory.scoped(agent_id="bot", channel="_self_bot"), "The bot sings")
    short(memory.scoped(user_id="bob"), "Bob sings")
    short(memory, "Eve sings")
    over = memory.learn_fact("Dan sings", tier="short", valid_to=clock.time.replace(day=3))
    roof = short(memory.scoped(channel="roof"), "Cleo sings")
    memory.forget(gone.id)
    clock.advance(days=WEEK)
    assert [each.fact.claim for each in memory.curation.queue()] == ["Eve sings"]
    found = [each.fact.id for each in memory.scoped(channel="roof").curation.queue()]
    assert roof.id in found
    assert over.id not in found


def test_a_touch_is_a_use_now(memory: AgentMemory, clock: ManualClock) -> None:
    fact = short(memory, "Ann sings")
    clock.advance(days=WEEK)
    before = read_head(memory)
    old, new = memory.curation.touch(fact.id)
    assert (round(old, 3), round(new, 3)) == (0.25, 1.516), "(0+1)^.6 · 2^-2, and (1+1)^.6 just used"
    assert memory.curation.queue() == []
    assert read_head(memory) == before, "a use is no change of the record"
    usage = run(engine_of(memory).log.usage([fact.key], context_of(memory).scope))[fact.key]
    assert (usage.use_count, usage.last_accessed, usage.strength) == (1, clock.time, 1.0)


def test_a_boost_makes_stronger_up_to_two(memory: AgentMemory) -> None:
    fact = short(memory, "Ann sings")
    scores = [memory.curation.touch(fact.id, boost=0.6)[1] for _ in range(3)]
    assert [round(score / (n + 2) ** 0.6, 3) for n, score in enumerate(scores)] == [1.6, 2.0, 2.0]
    for wrong in (-0.1, 1.1):
        with pytest.raises(InvalidRecord) as caught:
            memory.curation.touch(fact.id, boost=wrong)
        assert caught.value.field == "boost"


def test_a_touch_counts_once_per_key_and_within_its_scope(memory: AgentMemory) -> None:
    fact = short(memory, "Ann sings")
    memory.curation.touch(fact.id, idempotency_key="k")
    old, new = memory.curation.touch(fact.id, idempotency_key="k")
    assert old == new
    for stranger in (memory.scoped(user_id="bob"), memory.scoped(channel="roof")):
        if stranger.semantic.facts():
            continue
        with pytest.raises(NotFound):
            stranger.curation.touch(fact.id)
    with pytest.raises(NotFound):
        memory.curation.touch("none")


@pytest.fixture
def talk(memory: AgentMemory, clock: ManualClock) -> AgentMemory:
    """The document's flow: preferences about TypeScript, some of them about to be forgotten."""
    for n, word in enumerate(("alpha", "beta", "gamma")):
        short(memory, f"Old TypeScript preferences of the team: {word} style {n}")
    clock.advance(days=WEEK)
    for n in range(7):
        memory.learn_fact(f"TypeScript preferences number {n}", salience=0.9)
    return memory


QUERY = "typescript preferences"


def test_recall_shows_what_is_about_to_be_forgotten_among_what_fits(talk: AgentMemory) -> None:
    tiers = [fact.tier[0] for fact in talk.remember(QUERY, reinforce=False).facts]
    assert tiers == list("llsllsllsl"), "two of the best, then one for review"
    found = talk.remember(QUERY, top_k=5, reinforce=False)
    assert [fact.tier[0] for fact in found.facts] == list("llsll")
    raised = [item.why for item in found.items if getattr(item.record, "tier", "") == "short"]
    assert all("raised for review, priority 1.00" in why for why in raised)


def test_nothing_is_raised_where_nothing_is_due_or_the_setting_says_so(
    talk: AgentMemory, clock: ManualClock, home: object
) -> None:
    for each in talk.curation.queue():
        talk.curation.touch(each.fact.id)
    fresh = [fact.id for fact in talk.remember(QUERY, reinforce=False).facts]
    assert [talk.semantic.get_fact(name).tier for name in fresh[-3:]] == ["short"] * 3
    with open_memory(home, clock=clock, recall={"ranking": {"review": 0.0}}) as off:  # type: ignore[arg-type]
        clock.advance(days=2 * WEEK)
        assert [fact.tier for fact in off.remember(QUERY, reinforce=False).facts][-3:] == ["short"] * 3


def test_what_does_not_fit_the_question_is_not_raised(memory: AgentMemory, clock: ManualClock) -> None:
    short(memory, "The plumber rings twice")
    clock.advance(days=WEEK)
    for n in range(7):
        memory.learn_fact(f"TypeScript preferences number {n}")
    facts = memory.remember(QUERY, reinforce=False).facts
    assert [fact.tier for fact in facts].index("short") == len(facts) - 1


def test_turns_and_the_ranking_over_all_kinds_stay_as_they_are(talk: AgentMemory, clock: ManualClock) -> None:
    talk.store_turns([f"We talked about TypeScript preferences, part {n}." for n in range(5)])
    found = talk.remember(QUERY, reinforce=False)
    assert [item.score for item in found.items] == sorted((item.score for item in found.items), reverse=True)
    for each in talk.curation.queue():
        talk.curation.touch(each.fact.id)
    assert [turn.id for turn in talk.remember(QUERY, reinforce=False).turns] == [turn.id for turn in found.turns]


def test_what_is_shown_is_reinforced_and_leaves_the_danger_zone(talk: AgentMemory) -> None:
    assert len(talk.curation.queue()) == 3
    shown = {fact.id for fact in talk.remember(QUERY).facts}
    assert {each.fact.id for each in talk.curation.queue()}.isdisjoint(shown)
