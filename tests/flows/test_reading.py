"""Reading does not write; what was delivered is reinforced once."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentmem import AgentMemory
from agentmem.recall.options import find_techniques
from tests.fakes.llm_replies import Replies, put_behind
from tests.flows.given import StoppedClock, head, ids, opened, resources, run, seat, tables

AUDIT = ["memory_audit_log", "receipts", "store_meta"]  # the counter of audit rows stands in store_meta


def usage_of(memory: AgentMemory) -> dict[str, int]:
    """How often each record was delivered, of those that were."""
    rows = tables(memory)["memory_usage"]
    return {row[2]: row[3] for row in rows if row[3]}


def filled(memory: AgentMemory) -> AgentMemory:
    memory.store_turns([f"The garden, day {number}." for number in range(30)])
    ann = memory.upsert_entity({"name": "Ann"})
    memory.learn_fact("Ann keeps the garden", entity_ids=[ann.id])
    memory.add_goal("Weed the garden")
    memory.flush()
    return memory


@pytest.mark.parametrize("level", ["off", "writes", "reads", "verbose"])
def test_a_recall_without_reinforcement_changes_no_row_but_an_audit_row(home: Path, level: str) -> None:
    with opened(home, audit_level=level) as memory:
        put_behind(resources(filled(memory)), Replies())
        before = tables(memory)
        for technique in (None, *find_techniques()):
            memory.remember("garden", reinforce=False, techniques=None if technique is None else [technique])
        memory.remember("garden", reinforce=False, as_of=resources(memory).clock.now(), top_k=100)
        memory.remember("garden", reinforce=False, known_at=resources(memory).clock.now())
        memory.context("garden")
        after = tables(memory)
        if level in ("off", "writes"):
            assert after == before
        else:
            assert tables(memory, AUDIT) == {name: rows for name, rows in before.items() if name not in AUDIT}
            assert len(after["memory_audit_log"]) > len(before["memory_audit_log"])


def test_reading_verbs_change_no_row(home: Path) -> None:
    with opened(home, audit_level="off") as memory:
        filled(memory)
        receipt = memory.remember("garden").receipt
        before = tables(memory)
        fact, entity = memory.semantic.facts()[0], memory.semantic.entities()[0]
        conversation = memory.episodic.conversations()[0].id
        turns = memory.episodic.get_conversation(conversation)
        memory.episodic.read_thread(conversation, turns[3].id)
        memory.episodic.recent_turns()
        memory.semantic.history(fact.id)
        memory.semantic.provenance(fact.id)
        memory.semantic.get_entity_graph([entity.id])
        memory.profile()
        memory.goals.active()
        memory.lag()
        memory.flush()
        memory.diff(turns[0].recorded_at, turns[-1].recorded_at)
        memory.audit.query()
        memory.audit.replay(receipt.id)
        memory.audit.why_not(receipt.id, turns[29].id)
        memory.working.current_markdown()
        memory.remember("nothing of the kind", reinforce=False)
        assert tables(memory) == before


def test_what_was_delivered_is_counted_once_per_recall_and_nothing_else(memory: AgentMemory) -> None:
    filled(memory)
    assert usage_of(memory) == {}
    bundle = memory.remember("garden", top_k=3)
    delivered = {name for _, name in bundle.receipt.delivered}
    assert delivered == ids(bundle)
    assert usage_of(memory) == dict.fromkeys(delivered, 1), "a record in two lists is delivered once"
    second = memory.remember("garden", top_k=1)
    assert usage_of(memory) == {name: 1 + (name in ids(second)) for name in delivered | ids(second)}
    scope, inside = seat(memory).scope, resources(memory)
    run(inside.log.touch(bundle.receipt.delivered, scope, bundle.receipt.id, at=inside.clock.now()))
    assert usage_of(memory)[bundle.turns[0].id] == 2, "a receipt sent again counts no more"


def test_a_delivery_counts_the_conversation_it_went_into(memory: AgentMemory, clock: StoppedClock) -> None:
    fact = memory.learn_fact("Ann keeps the garden")
    for name in ("c1", "c2", "c1"):
        view = memory.scoped(conversation_id=name)
        view.remember("garden")
    memory.store_turn("begins a conversation of its own")
    memory.remember("garden")
    usage = run(resources(memory).log.usage([fact.key], seat(memory).scope))[fact.key]
    assert (usage.access_count, usage.conversations, usage.last_accessed) == (4, 3, clock.at)


def test_a_recall_moves_no_journal(memory: AgentMemory) -> None:
    filled(memory)
    before = head(memory)
    memory.remember("garden")
    memory.context("garden")
    assert head(memory) == before
    assert memory.context("garden").text == memory.context("garden").text
