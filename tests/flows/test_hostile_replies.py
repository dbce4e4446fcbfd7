"""Replies that lie, mix up turns and hold junk, all the way into a memory: none becomes a belief or a line."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tests.fakes.scribe import FakeExtractionLLM
from tests.flows.read_turns import open_memory_with_llm
from tests.flows.test_hostile_text import check
from tests.unit.test_extraction_hostile import TEXTS, Hostile

# What the four turns say; each other pair of a slot and a value that the replies hold is a lie.
SAID = {("home", "Oslo"), ("pets", "cats"), ("pets", "3 cats"), ("the:list", ""), ("pets", "3")}
LIES = ("eats meat", "4 cats", "keeps bees", "Gustav", "Rome", "evil", "other-user")


class HostileLLM(FakeExtractionLLM):
    """A model whose every reply about turns is another hostile one."""

    def __init__(self) -> None:
        super().__init__()
        self.seeds = itertools.count()

    def _read(self, data: object) -> dict[str, object]:
        reply = Hostile(next(self.seeds)).reply()
        return reply if isinstance(reply, dict) else {"turns": reply}


@pytest.mark.parametrize("replies", [24, pytest.param(2_000, marks=pytest.mark.nightly)])
async def test_no_hostile_reply_becomes_a_belief(tmp_path: Path, replies: int) -> None:
    llm = HostileLLM()
    async with open_memory_with_llm(tmp_path, llm, agent_id="helper") as memory:
        for number in range(replies // 2):  # a window asks twice: about people and about the assistant
            view = memory.scoped(conversation_id=f"c{number}")
            await view.store_turns([{"role": role, "content": text} for role, text in TEXTS.values()])
        while (await memory.consolidate("consolidate"))[0].pending:
            pass
        asked = [request for request in llm.requests if request.purpose.startswith("extract")]
        assert len(asked) >= replies
        held = {(state.slot, fact.value) for state in await memory.beliefs() for fact in state.current}
        assert held <= SAID
        claims = [fact.claim for fact in await memory.semantic.facts()]
        assert claims, "what the turns do say is kept"
        assert not [claim for claim in claims if any(lie in claim for lie in LIES)]
        for query in ("Where does the user live?", "bees", "What should I do?"):
            context = (await memory.context(query)).text
            check(context)
            assert context.count("<memory") == context.count("</memory") == 1
