"""The same key again gives the first result; with another payload it is a conflict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from agentmem import AgentMemory, Conflict, InvalidRecord, NotFound
from tests.flows.given import START, ManualClock, open_memory, read_head

KEY = "the key"


@dataclass
class Ground:
    """What the verbs below work on."""

    memory: AgentMemory

    def __post_init__(self) -> None:
        memory = self.memory
        self.turn, self.second = memory.store_turns(["first turn", "second turn"])
        self.fact = memory.learn_fact("Ann sings")
        self.other = memory.learn_fact("Ben sings")
        self.roof = memory.scoped(channel="roof")
        self.project = self.roof.learn_fact("The roof is blue")
        self.ann, self.ben = (memory.upsert_entity({"name": name}).id for name in ("Ann", "Ben"))
        self.goal, self.wish = (memory.add_goal(text).id for text in ("sing together", "find a hall"))
        memory.schedules.add_heartbeat("daily", 86_400)
        self.gone = memory.learn_fact("Cleo sings").id
        memory.forget(self.gone)
        self.lost = memory.learn_fact("Dora sings").id
        memory.forget(self.lost)


Call = Callable[[Ground], Any]
VERBS: dict[str, tuple[Call, Call]] = {
    "store_turn": (
        lambda g: g.memory.store_turn("hello", idempotency_key=KEY),
        lambda g: g.memory.store_turn("goodbye", idempotency_key=KEY),
    ),
    "store_turn id": (
        lambda g: g.memory.store_turn("hello", turn_id="t"),
        lambda g: g.memory.store_turn("hello", turn_id="t", speaker="Ann"),
    ),
    "store_turns": (
        lambda g: g.memory.store_turns(["a", "b"], idempotency_key=KEY),
        lambda g: g.memory.store_turns(["a"], idempotency_key=KEY),
    ),
    "learn_fact": (
        lambda g: g.memory.learn_fact("Eve sings", tags=["a"], idempotency_key=KEY),
        lambda g: g.memory.learn_fact("Eve sings", tags=["b"], idempotency_key=KEY),
    ),
    "learn_fact known": (
        lambda g: g.memory.learn_fact("Ann sings", idempotency_key=KEY),
        lambda g: g.memory.learn_fact("Eve sings", idempotency_key=KEY),
    ),
    "update_fact": (
        lambda g: g.memory.semantic.update_fact(g.fact.id, claim="Ann hums", idempotency_key=KEY),
        lambda g: g.memory.semantic.update_fact(g.fact.id, claim="Ann yells", idempotency_key=KEY),
    ),
    "supersede_fact": (
        lambda g: g.memory.semantic.supersede_fact(g.fact.id, "Ann hums", idempotency_key=KEY),
        lambda g: g.memory.semantic.supersede_fact(g.fact.id, "Ann hums", is_correction=True, idempotency_key=KEY),
    ),
    "boost_salience": (
        lambda g: g.memory.semantic.boost_salience(g.fact.id, 0.1, idempotency_key=KEY),
        lambda g: g.memory.semantic.boost_salience(g.fact.id, 0.2, idempotency_key=KEY),
    ),
    "promote_to_global": (
        lambda g: g.roof.semantic.promote_to_global(g.project.id, "known", idempotency_key=KEY),
        lambda g: g.roof.semantic.promote_to_global(g.project.id, "wanted", idempotency_key=KEY),
    ),
    "promote": (
        lambda g: g.memory.curation.promote(g.fact.id, idempotency_key=KEY),
        lambda g: g.memory.curation.promote(g.other.id, idempotency_key=KEY),
    ),
    "merge facts": (
        lambda g: g.memory.curation.merge([g.fact.id, g.other.id], idempotency_key=KEY),
        lambda g: g.memory.curation.merge([g.other.id, g.fact.id], idempotency_key=KEY),
    ),
    "upsert_entity": (
        lambda g: g.memory.upsert_entity({"name": "Eve"}, idempotency_key=KEY),
        lambda g: g.memory.upsert_entity({"name": "Eva"}, idempotency_key=KEY),
    ),
    "upsert_entity known": (
        lambda g: g.memory.upsert_entity({"name": "Ann"}, idempotency_key=KEY),
        lambda g: g.memory.upsert_entity({"name": "Eva"}, idempotency_key=KEY),
    ),
    "relate": (
        lambda g: g.memory.semantic.relate(g.ann, "KNOWS", g.ben, idempotency_key=KEY),
        lambda g: g.memory.semantic.relate(g.ann, "KNOWS", g.ben, confidence=0.5, idempotency_key=KEY),
    ),
    "add_goal": (
        lambda g: g.memory.add_goal("dance", idempotency_key=KEY),
        lambda g: g.memory.add_goal("sleep", idempotency_key=KEY),
    ),
    "complete_goal": (
        lambda g: g.memory.complete_goal(g.goal, idempotency_key=KEY),
        lambda g: g.memory.complete_goal(g.goal, "abandoned", idempotency_key=KEY),
    ),
    "update_goal": (
        lambda g: g.memory.goals.update(g.goal, priority=5, idempotency_key=KEY),
        lambda g: g.memory.goals.update(g.goal, priority=1, idempotency_key=KEY),
    ),
    "progress_goal": (
        lambda g: g.memory.goals.record_progress(g.goal, 0.5, idempotency_key=KEY),
        lambda g: g.memory.goals.record_progress(g.goal, 0.5, "half", idempotency_key=KEY),
    ),
    "set_active_goal": (
        lambda g: g.memory.working.set_active_goal(g.goal, idempotency_key=KEY),
        lambda g: g.memory.working.set_active_goal(None, idempotency_key=KEY),
    ),
    "announce": (
        lambda g: g.memory.announce("Tea is ready", idempotency_key=KEY),
        lambda g: g.memory.announce("Tea is ready", expires_in=60, idempotency_key=KEY),
    ),
    "add_schedule": (
        lambda g: g.memory.schedules.add_heartbeat("pulse", 60, idempotency_key=KEY),
        lambda g: g.memory.schedules.add_heartbeat("pulse", 30, idempotency_key=KEY),
    ),
    "update_profile": (
        lambda g: g.memory.update_profile(preferences={"tone": "short"}, idempotency_key=KEY),
        lambda g: g.memory.update_profile(preferences={"tone": "long"}, idempotency_key=KEY),
    ),
    "forget": (
        lambda g: g.memory.forget(g.fact.id, idempotency_key=KEY),
        lambda g: g.memory.forget(g.other.id, idempotency_key=KEY),
    ),
    "forget soft then hard": (
        lambda g: g.memory.forget(g.fact.id, idempotency_key=KEY),
        lambda g: g.memory.forget(g.fact.id, hard=True, idempotency_key=KEY),
    ),
    "forget hard then soft": (
        lambda g: _without_scan(g.memory.forget(g.turn.id, hard=True, idempotency_key=KEY)),
        lambda g: g.memory.forget(g.turn.id, idempotency_key=KEY),
    ),
    "forget hard": (
        lambda g: _without_scan(g.memory.forget(g.turn.id, hard=True, idempotency_key=KEY)),
        lambda g: g.memory.forget(g.second.id, hard=True, idempotency_key=KEY),
    ),
    "delete_conversation": (
        lambda g: g.memory.episodic.delete_conversation(g.turn.conversation_id, idempotency_key=KEY),
        lambda g: g.memory.episodic.delete_conversation("other", idempotency_key=KEY),
    ),
    "restore": (
        lambda g: g.memory.restore(g.gone, idempotency_key=KEY),
        lambda g: g.memory.restore(g.lost, idempotency_key=KEY),
    ),
    "undo": (
        lambda g: g.memory.undo(g.other.operation_id, idempotency_key=KEY),
        lambda g: g.memory.undo(g.fact.operation_id, idempotency_key=KEY),
    ),
}


def _without_scan(receipt: Any) -> Any:
    assert receipt.scan.leftovers == {}
    return receipt.operation_id, receipt.ids, receipt.at


@pytest.mark.parametrize("verb", VERBS)
def test_the_same_key_gives_the_first_result_and_another_payload_a_conflict(
    memory: AgentMemory, clock: ManualClock, verb: str
) -> None:
    same, other = VERBS[verb]
    ground = Ground(memory)
    first = same(ground)
    after = read_head(memory)
    clock.advance(hours=1)
    assert same(ground) == first
    assert read_head(memory) == after, "nothing was written again"
    with pytest.raises(Conflict):
        other(ground)
    assert read_head(memory) == after


def test_a_key_outlives_the_process(home: Path) -> None:
    with open_memory(home) as memory:
        first = memory.learn_fact("Ann sings", idempotency_key=KEY)
    with open_memory(home) as memory:
        assert memory.learn_fact("Ann sings", idempotency_key=KEY) == first
        with pytest.raises(Conflict):
            memory.learn_fact("Ben sings", idempotency_key=KEY)


def test_a_turn_keeps_its_id_across_both_verbs(memory: AgentMemory, clock: ManualClock) -> None:
    first = memory.store_turn("hello", turn_id="t")
    clock.advance(hours=1)
    both = memory.store_turns([{"content": "new"}, {"content": "hello", "turn_id": "t"}])
    assert both[1] == first
    assert both[0].content == "new"
    assert memory.store_turn({"content": "hello", "turn_id": "t", "role": "user"}) == first, "a default is no payload"
    with pytest.raises(Conflict):
        memory.store_turns([{"content": "another new one"}, {"content": "changed", "turn_id": "t"}])
    assert [turn.content for turn in memory.episodic.recent_turns()] == ["hello", "new"], "all or nothing"


def test_the_payload_is_what_was_given_not_what_was_filled_in(memory: AgentMemory, clock: ManualClock) -> None:
    first = memory.store_turn("hello", turn_id="t", timestamp=START)
    with pytest.raises(Conflict):
        memory.store_turn("hello", turn_id="t", timestamp=START + timedelta(seconds=1))
    other = memory.scoped(conversation_id="elsewhere")
    assert other.store_turn("hello", turn_id="t", timestamp=START) == first


def test_one_turn_twice_in_one_list_is_stored_once(memory: AgentMemory) -> None:
    turn = {"content": "hello", "turn_id": "t"}
    one, two = memory.store_turns([turn, turn])
    assert one == two
    assert len(memory.episodic.recent_turns()) == 1
    with pytest.raises(InvalidRecord, match="twice"):
        memory.store_turns([{"content": "a", "turn_id": "u"}, {"content": "b", "turn_id": "u"}])


def test_keys_of_one_user_and_verb_are_not_those_of_another(memory: AgentMemory) -> None:
    memory.learn_fact("Ann sings", idempotency_key=KEY)
    memory.add_goal("Ann sings", idempotency_key=KEY)
    memory.scoped(user_id="bob").learn_fact("Ben sings", idempotency_key=KEY)
    assert [fact.claim for fact in memory.semantic.facts()] == ["Ann sings"]


def test_an_erased_turn_is_not_stored_again_by_a_retry(memory: AgentMemory) -> None:
    memory.store_turn("hello", turn_id="t")
    memory.forget("t", hard=True)
    with pytest.raises(NotFound, match="erased"):
        memory.store_turn("hello", turn_id="t")
    assert memory.store_turns([{"content": "hello", "turn_id": "t"}, "new"])[0].content == "new"
    with pytest.raises(NotFound):
        memory.forget("t", hard=True)


def test_a_turn_that_was_spoken_and_is_imported_is_stored_once(memory: AgentMemory) -> None:
    turn = {"content": "One.", "turn_id": "t1", "conversation_id": "x", "metadata": {"page": 3}}
    (spoken,) = memory.store_turns([turn])
    assert memory.store_turns([{**turn, "metadata": {"imported": True, "page": 3}}]) == [spoken]
    with pytest.raises(Conflict):
        memory.store_turns([{**turn, "metadata": {"imported": True, "page": 4}}])
