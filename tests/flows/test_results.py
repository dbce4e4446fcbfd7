"""What verbs give back: a bundle is a sequence, a context is text, records and tables are short to read."""

from __future__ import annotations

import copy
import json
import pickle
import re
from pathlib import Path

import agentmem
from agentmem import AsyncAgentMemory, Context, Fact, Turn
from tests.flows.given import open_memory

MARKUP = "<script>alert(1)</script> & peanuts"


def test_a_bundle_has_a_length_an_order_and_a_dictionary(home: Path) -> None:
    with open_memory(home, embedder="hash") as memory:
        assert not memory.remember("peanuts")
        turn = memory.store_turn("Peanuts are out.")
        bundle = memory.remember("peanuts")
        assert len(bundle) == 1
        assert [item.record.id for item in bundle] == [turn.id]
        found = json.loads(json.dumps(bundle.to_dict()))
        assert found["items"][0]["record"]["id"] == turn.id
        assert found["receipt"] == bundle.receipt.id


def test_a_context_is_text_that_knows_its_records(home: Path) -> None:
    with open_memory(home, embedder="hash") as memory:
        turn = memory.store_turn("Peanuts are out.")
        context = memory.context("peanuts")
    assert isinstance(context, str)
    assert context == context.text == str(context)
    assert json.loads(json.dumps(context.to_dict()))["records"] == [{"kind": "Turn", "id": turn.id}]
    for twin in (copy.deepcopy(context), pickle.loads(pickle.dumps(context))):
        assert isinstance(twin, Context)
        assert (twin, twin.to_dict()) == (context, context.to_dict())


def test_a_goal_that_ended_does_not_stand_among_the_open_ones(home: Path) -> None:
    with open_memory(home, embedder="hash") as memory:
        done = memory.add_goal("Visit the peanut museum")
        memory.complete_goal(done.id)
        memory.add_goal("Visit the peanut factory")
        text = memory.context("visit the peanut museum")
    ended, going = text.index("## Goals that ended"), text.index("## Goals\n")
    assert going < text.index("factory") < ended < text.index("museum")


def test_a_record_shows_what_was_said_of_it() -> None:
    assert repr(Turn(id="t1", content="Hello.")) == "Turn(id='t1', content='Hello.')"
    assert repr(Fact(id="f1", claim="It rains.", tags=("weather",))) == (
        "Fact(id='f1', claim='It rains.', tags=('weather',))"
    )


def test_notebooks_get_tables_in_which_stored_text_is_text(home: Path) -> None:
    with open_memory(home, embedder="hash") as memory:
        memory.store_turn(MARKUP)
        bundle, context = memory.remember("peanuts"), memory.context("peanuts")
    for table in (bundle._repr_html_(), context._repr_html_(), bundle.receipt._repr_html_()):
        assert table.startswith("<table>")
        assert "<script>" not in table
    assert "&lt;script&gt;" in bundle._repr_html_()


def test_every_public_name_can_be_imported() -> None:
    for name in agentmem.__all__:
        assert getattr(agentmem, name) is not None
    needed = {"ConsolidationWorker", "Receipt", "WhyNot", "Diff", "ForgetReceipt", "ErasureReceipt", "EntityGraph"}
    assert needed <= set(agentmem.__all__)


def test_what_a_memory_returns_is_public() -> None:
    hints = [each.__annotations__["return"] for name, each in vars(AsyncAgentMemory).items() if _returns(name, each)]
    returned = {name for hint in hints for name in re.findall(r"\b[A-Z]\w+", hint)} - {"None", "Self", "Engine", "Any"}
    assert returned <= set(agentmem.__all__)


def _returns(name: str, member: object) -> bool:
    return not name.startswith("_") and "return" in getattr(member, "__annotations__", {})


def test_an_emoji_finds_the_turn_that_holds_it(home: Path) -> None:
    with open_memory(home, embedder="hash") as memory:
        for text in ("I cook on Mondays.", "Thursday 🎸 with Teo", "Rain."):
            memory.store_turn(text)
        assert memory.remember("🎸").turns[0].content == "Thursday 🎸 with Teo"
