"""Receipts outlive the process at audit levels reads and verbose: another one explains and repeats the recall."""

from __future__ import annotations

import dataclasses
import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentmem import AgentMemory, CorruptStore, NotFound, StoreUnavailable
from agentmem.recall.bundle import MemoryBundle
from agentmem.recall.receipt import Receipt, from_json, to_json
from tests.flows.given import ManualClock, context_of, engine_of, open_memory, run

QUERY = "What of Ann's garden on day 7?"
LEVELS = ["reads", "verbose"]


def filled(memory: AgentMemory) -> None:
    memory.store_turns(
        [
            {"content": f"The garden, day {number}.", "turn_id": f"t{number}", "conversation_id": f"c{number // 20}"}
            for number in range(40)
        ]
    )
    ground = memory.learn_fact("Ann owns a garden")
    memory.learn_fact("Ann's garden needs water", depends_on=[ground.id])
    memory.forget(ground.id)
    memory.upsert_entity({"name": "Ann", "description": "a gardener"})
    memory.add_goal("Weed the garden")


def asked(memory: AgentMemory) -> MemoryBundle:
    now = engine_of(memory).clock.now()
    bundle = memory.remember(QUERY, top_k=5, as_of=now, channels=["_global"], include=["episodic", "semantic"])
    assert any("unknown since" in notice for notice in bundle.notices)
    return bundle


def kept(memory: AgentMemory, receipt_id: str) -> str | None:
    return run(engine_of(memory).log.find_receipt(receipt_id, context_of(memory).scope))


def plain(bundle: MemoryBundle) -> dict[str, Any]:
    """All of a bundle but its receipt, which is equal to itself alone."""
    return {field.name: getattr(bundle, field.name) for field in dataclasses.fields(bundle) if field.name != "receipt"}


@pytest.mark.parametrize("level", LEVELS)
def test_another_process_tells_and_repeats_a_recall(home: Path, clock: ManualClock, level: str) -> None:
    with open_memory(home, clock=clock, audit_level=level) as memory:
        filled(memory)
        bundle = asked(memory)
        near = memory.audit.why_not(bundle.receipt.id, bundle.turns[0].id)
        far = memory.audit.why_not(bundle.receipt.id, "t39")
    clock.advance(days=1)
    with open_memory(home, clock=clock, audit_level="writes") as later:
        again = later.audit.receipt(bundle.receipt.id)
        assert again.as_dict() == bundle.receipt.as_dict()
        assert (again.leads, again.scope) == (bundle.receipt.leads, bundle.receipt.scope)
        assert later.audit.why_not(bundle.receipt.id, bundle.turns[0].id) == near
        assert later.audit.why_not(bundle.receipt.id, "t39") == far
        later.forget(bundle.turns[0].id)
        assert plain(later.audit.replay(bundle.receipt.id)) == plain(bundle)
        assert later.audit.query(operation="retrieve")[0]["metadata"]["receipt"] == again.id


def test_below_those_levels_receipts_end_with_the_process(home: Path) -> None:
    with open_memory(home, audit_level="writes") as memory:
        memory.store_turn("The garden.")
        bundle = memory.remember("garden")
        assert memory.audit.receipt(bundle.receipt.id) is bundle.receipt
        assert kept(memory, bundle.receipt.id) is None
    with open_memory(home) as later, pytest.raises(NotFound, match="audit levels reads and verbose"):
        later.audit.receipt(bundle.receipt.id)


@pytest.mark.parametrize("level", LEVELS)
def test_the_query_is_the_only_text_in_a_kept_receipt(home: Path, level: str) -> None:
    with open_memory(home, audit_level=level) as memory:
        filled(memory)
        written = kept(memory, asked(memory).receipt.id) or ""
    assert written.count("garden") == 1
    assert "day 3" not in written
    assert "needs water" not in written
    assert len(written) < 40_000


def test_erasure_reaches_kept_receipts(home: Path) -> None:
    with open_memory(home, audit_level="reads") as memory, open_memory(home, "bob", audit_level="reads") as bob:
        filled(memory)
        first, other = memory.remember("day 7", top_k=3).receipt, memory.remember("weed the roof", top_k=1).receipt
        bobs = bob.remember("garden").receipt
        memory.forget(first.delivered[0][1], hard=True)
        assert kept(memory, first.id) is None
        memory.erase()
        assert kept(memory, other.id) is None
        assert kept(bob, bobs.id) is not None
        with pytest.raises(NotFound):
            memory.audit.receipt(other.id)


def test_a_receipt_is_told_to_its_user_and_to_no_other_agent(home: Path) -> None:
    with open_memory(home, audit_level="reads", agent_id="bot") as bot:
        bot.scoped(channel="_self_bot").learn_fact("The bot promised a joke")
        own = bot.remember("joke").receipt
        shared = bot.remember("joke", channels=["_global"]).receipt
    with open_memory(home, agent_id="clerk") as clerk, open_memory(home, "bob") as bob:
        assert clerk.audit.receipt(shared.id).id == shared.id
        for memory, receipt in ((clerk, own), (bob, own), (bob, shared)):
            with pytest.raises(NotFound):
                memory.audit.replay(receipt.id)
    with open_memory(home, agent_id="bot") as again:
        assert [fact.claim for fact in again.audit.replay(own.id).facts] == ["The bot promised a joke"]


def test_a_receipt_that_cannot_be_kept_costs_no_recall(
    home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def full(*_: object) -> None:
        raise StoreUnavailable("no room")

    with open_memory(home, audit_level="reads") as memory:
        memory.store_turn("The garden.")
        monkeypatch.setattr(engine_of(memory).log, "write_receipt", full)
        with caplog.at_level(logging.WARNING, "agentmem"):
            bundle = memory.remember("garden")
        assert [turn.content for turn in bundle.turns] == ["The garden."]
        assert memory.audit.receipt(bundle.receipt.id) is bundle.receipt
        assert "receipt not kept" in caplog.text
        assert memory.audit.query(operation="retrieve")[0]["metadata"]["receipt"] == bundle.receipt.id


def test_what_a_later_version_adds_is_left_out_and_damage_is_named(memory: AgentMemory) -> None:
    filled(memory)
    receipt = asked(memory).receipt
    value = json.loads(to_json(receipt))
    assert set(value) == {field.name for field in dataclasses.fields(Receipt)}
    for place in (value, value["scope"], value["request"], value["trace"][0], value["pool"], value["leads"][0]):
        place["later"] = {"anything": 1}
    read = from_json(json.dumps(value))
    assert read.as_dict() == receipt.as_dict()
    assert to_json(read) == to_json(receipt)
    assert read.pool.values.dtype == np.float32
    for text in ("", "[]", "null", "{}", to_json(receipt)[:-5], json.dumps({**value, "pool": {"keys": [["Turn"]]}})):
        with pytest.raises(CorruptStore, match="cannot be read"):
            from_json(text)


def test_an_empty_recall_is_kept_too(memory: AgentMemory) -> None:
    receipt = memory.remember("nothing there").receipt
    read: Receipt = from_json(to_json(receipt))
    assert read.as_dict() == receipt.as_dict()
    assert read.pool.values.shape == receipt.pool.values.shape
