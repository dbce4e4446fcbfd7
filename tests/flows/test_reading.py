"""Reading does not write; what was delivered is reinforced once."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentmem import AgentMemory
from agentmem.recall.options import discover_techniques
from tests.fakes.llm_replies import ScriptedLLM, install_llm
from tests.flows.given import ManualClock, bundle_ids, context_of, engine_of, open_memory, read_head, read_tables, run

AUDIT = ["memory_audit_log", "receipts", "store_meta"]  # the counter of audit rows stands in store_meta


def usage_of(memory: AgentMemory) -> dict[str, int]:
    """How often each record was delivered, of those that were."""
    rows = read_tables(memory)["memory_usage"]
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
    with open_memory(home, audit_level=level) as memory:
        install_llm(engine_of(filled(memory)), ScriptedLLM())
        before = read_tables(memory)
        for technique in (None, *discover_techniques()):
            memory.remember("garden", reinforce=False, techniques=None if technique is None else [technique])
        memory.remember("garden", reinforce=False, as_of=engine_of(memory).clock.now(), top_k=100)
        memory.remember("garden", reinforce=False, known_at=engine_of(memory).clock.now())
        memory.context("garden", reinforce=False)
        after = read_tables(memory)
        if level in ("off", "writes"):
            assert after == before
        else:
            assert read_tables(memory, AUDIT) == {name: rows for name, rows in before.items() if name not in AUDIT}
            assert len(after["memory_audit_log"]) > len(before["memory_audit_log"])


def test_reading_verbs_change_no_row(home: Path) -> None:
    with open_memory(home, audit_level="off") as memory:
        filled(memory)
        receipt = memory.remember("garden").receipt
        before = read_tables(memory)
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
        assert read_tables(memory) == before


def test_what_was_delivered_and_fits_is_counted_once_and_nothing_else(memory: AgentMemory) -> None:
    filled(memory)
    assert usage_of(memory) == {}
    bundle = memory.remember("garden", top_k=3)
    delivered = {name for _, name in bundle.receipt.delivered}
    assert delivered == bundle_ids(bundle)
    fitting = {name for _, name in bundle.receipt.fitting}
    assert fitting <= delivered
    assert usage_of(memory) == dict.fromkeys(fitting, 1), "a record in two lists is counted once"
    second = {name for _, name in memory.remember("garden", top_k=1).receipt.fitting}
    assert usage_of(memory) == dict.fromkeys(fitting | second, 1), "and once in a conversation and day"


def test_a_delivery_counts_the_conversation_it_went_into(memory: AgentMemory, clock: ManualClock) -> None:
    fact = memory.learn_fact("Ann keeps the garden")
    for name in ("c1", "c2", "c1"):
        view = memory.scoped(conversation_id=name)
        view.remember("garden")
    memory.store_turn("begins a conversation of its own")
    memory.remember("garden")
    usage = run(engine_of(memory).log.usage([fact.key], context_of(memory).scope))[fact.key]
    assert (usage.access_count, usage.conversations, usage.last_accessed) == (3, 3, clock.time)


def test_a_recall_moves_no_journal(memory: AgentMemory) -> None:
    filled(memory)
    before = read_head(memory)
    memory.remember("garden")
    memory.context("garden")
    assert read_head(memory) == before
    assert memory.context("garden").text == memory.context("garden").text
