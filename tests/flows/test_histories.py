"""Random histories give what a simple model in memory gives: what is current, what was known, what was true."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentmem import AgentMemError, AgentMemory
from tests.flows.given import ManualClock, bundle_texts, open_memory
from tests.scale import scaled

CLAIMS = [f"Claim number {name}" for name in ("one", "two", "three", "four")]


@dataclass(frozen=True)
class Held:
    """A fact in the model: `end` in the world, `gone` from the record, `forgotten` over both."""

    claim: str
    begin: datetime | None = None
    end: datetime | None = None
    gone: bool = False
    forgotten: bool = False
    heir: str = ""

    def true_at(self, moment: datetime) -> bool:
        begun = self.begin is None or self.begin <= moment
        return not self.gone and not self.forgotten and begun and (self.end is None or self.end > moment)


@dataclass
class Said:
    """A turn in the model."""

    text: str
    at: datetime
    forgotten: bool = False


@dataclass
class Model:
    """Facts by id, turns by conversation; every step says what should be seen after it."""

    facts: dict[str, Held] = field(default_factory=dict)
    turns: dict[str, list[Said]] = field(default_factory=dict)

    def current(self, moment: datetime) -> dict[str, str]:
        return {name: fact.claim for name, fact in self.facts.items() if fact.true_at(moment)}

    def holder(self, claim: str) -> str | None:
        """The one fact that states a claim without an end."""
        open_ended = [
            name for name, f in self.facts.items() if f.claim == claim and not (f.gone or f.forgotten or f.end)
        ]
        assert len(open_ended) <= 1
        return open_ended[0] if open_ended else None

    def last(self, name: str, *, corrected: bool = False) -> str:
        while (fact := self.facts[name]).heir and (fact.gone or not corrected):
            name = fact.heir
        return name

    def seen(self, moment: datetime) -> list[str]:
        said = [t.text for turns in self.turns.values() for t in turns if not t.forgotten and t.at <= moment]
        return sorted([*self.current(moment).values(), *said])


class Both:
    """Does every step to the memory and to the model."""

    def __init__(self, memory: AgentMemory, clock: ManualClock) -> None:
        self.memory, self.clock, self.model = memory, clock, Model()
        self.told: list[tuple[datetime, list[str]]] = []
        self.count = 0

    def learn(self, which: int) -> None:
        claim = CLAIMS[which % 4]
        stored = self.memory.learn_fact(claim)
        known = self.model.holder(claim)
        assert known in (None, stored.id)
        self.model.facts.setdefault(stored.id, Held(claim))

    def supersede(self, which: int, wrong: bool) -> None:
        name, claim, now = self._chosen(which), CLAIMS[(which // 3) % 4], self.clock.time
        last = self.model.last(name)
        if self.model.facts[last].forgotten:
            with pytest.raises(ValueError, match="restore"):
                self.memory.semantic.supersede_fact(name, claim, is_correction=wrong)
            return
        stored = self.memory.semantic.supersede_fact(name, claim, is_correction=wrong)
        known, old = self.model.holder(claim), self.model.facts[last]
        assert stored.id == known if known else stored.id not in self.model.facts
        if known is None:
            self.model.facts[stored.id] = Held(claim, None if wrong else now)
        if known != last:
            self._end(last, old, stored.id, wrong or (old.begin is not None and min(old.end or now, now) <= old.begin))

    def _end(self, name: str, old: Held, heir: str, wrong: bool) -> None:
        ended = replace(old, gone=True) if wrong else replace(old, end=min(old.end or self.clock.time, self.clock.time))
        self.model.facts[name] = replace(ended, heir=heir)

    def correct(self, which: int) -> None:
        name, claim = self._chosen(which), CLAIMS[(which // 3) % 4]
        last = self.model.last(name, corrected=True)
        old = self.model.facts[last]
        clash = not old.end and self.model.holder(claim) not in (None, last)
        try:
            stored = self.memory.semantic.update_fact(name, claim=claim)
        except AgentMemError:
            assert old.forgotten or clash
            return
        assert not old.forgotten
        if old.claim == claim:
            assert stored.id == last
            return
        self.model.facts[stored.id] = Held(claim, old.begin, old.end, heir=old.heir if old.end else "")
        self.model.facts[last] = replace(old, gone=True, heir=stored.id)

    def forget(self, which: int) -> None:
        name = self._chosen(which)
        if self.model.facts[name].forgotten:
            with pytest.raises(LookupError):
                self.memory.forget(name)
            return
        self.memory.forget(name)
        self.model.facts[name] = replace(self.model.facts[name], forgotten=True)

    def restore(self, which: int) -> None:
        name = self._chosen(which)
        fact = self.model.facts[name]
        back = replace(fact, forgotten=False)
        taken = not (back.gone or back.end) and self.model.holder(fact.claim) is not None
        try:
            self.memory.restore(name)
        except AgentMemError:
            assert not fact.forgotten or taken
            return
        assert fact.forgotten
        assert not taken
        self.model.facts[name] = back

    def say(self, which: int) -> None:
        self.count += 1
        text, conversation = f"Turn {self.count}", f"c{which % 2}"
        self.memory.store_turn({"content": text, "conversation_id": conversation, "turn_id": f"t{self.count}"})
        self.model.turns.setdefault(conversation, []).append(Said(text, self.clock.time))

    def unsay(self, which: int) -> None:
        turns = [turn for each in self.model.turns.values() for turn in each if not turn.forgotten]
        if turns:
            turn = turns[which % len(turns)]
            self.memory.forget(f"t{turn.text.split()[1]}")
            turn.forgotten = True

    def delete(self, which: int) -> None:
        name = f"c{which % 2}"
        live = [turn for turn in self.model.turns.get(name, []) if not turn.forgotten]
        if live:
            self.memory.episodic.delete_conversation(name)
            for turn in live:
                turn.forgotten = True

    def _chosen(self, which: int) -> str:
        return sorted(self.model.facts)[which % len(self.model.facts)]

    def step(self, what: int, which: int) -> None:
        self.clock.advance(hours=1)
        if what == 0 or not self.model.facts:
            self.learn(which)
        elif what in (1, 2):
            self.supersede(which, wrong=what == 2)
        else:
            [self.correct, self.forget, self.restore, self.say, self.unsay, self.delete][(what - 3) % 6](which)
        self.told.append((self.clock.time, self.model.seen(self.clock.time)))
        self.compare()

    def compare(self) -> None:
        """What is current now, by every way of asking."""
        now, memory = self.clock.time, self.memory
        assert {fact.id: fact.claim for fact in memory.semantic.facts()} == self.model.current(now)
        for name, fact in self.model.facts.items():
            held = memory.semantic.get_fact(name)
            assert (held.claim, held.valid_to, held.superseded_by or "") == (fact.claim, fact.end, fact.heir)
        for name, turns in self.model.turns.items():
            live = [turn.text for turn in turns if not turn.forgotten]
            if live:
                assert [turn.content for turn in memory.episodic.get_conversation(name)] == live

    def look_back(self) -> None:
        """What was known at every step, and what was true then by what is known now."""
        assert bundle_texts(self.memory.remember("claim turn", top_k=100)) == self.model.seen(self.clock.time)
        for moment, seen in self.told:
            assert bundle_texts(self.memory.remember("claim turn", top_k=100, known_at=moment)) == seen
            assert bundle_texts(self.memory.remember("claim turn", top_k=100, as_of=moment)) == self.model.seen(moment)
            assert sorted(fact.claim for fact in self.memory.semantic.facts({"as_of": moment})) == sorted(
                self.model.current(moment).values()
            )


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[AgentMemory, ManualClock]]:
    clock = ManualClock()
    with open_memory(tmp_path_factory.mktemp("histories") / "home", clock=clock, seed=5, audit_level="off") as memory:
        yield memory, clock


USERS = iter(range(100_000))


@pytest.mark.long
@settings(max_examples=scaled(60))
@given(steps=st.lists(st.tuples(st.integers(0, 8), st.integers(0, 40)), min_size=4, max_size=20))
def test_random_histories_give_what_a_simple_model_gives(
    shared: tuple[AgentMemory, ManualClock], steps: list[tuple[int, int]]
) -> None:
    memory, clock = shared
    both = Both(memory.scoped(user_id=f"user {next(USERS)}"), clock)
    for what, which in steps:
        both.step(what, which)
    both.look_back()
