"""A language model that lies, breaks the form or says anything at all: through the whole pipeline, 2,000 replies."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from agentmem import AsyncAgentMemory
from agentmem.core.records import Fact, Turn
from agentmem.models.protocols import LLMReply, LLMRequest
from agentmem.models.registry import LLMRegistry
from agentmem.stores.values import Where
from tests.fakes.scribe import SPEC
from tests.flows.given import run
from tests.scale import scaled
from tests.unit.test_extraction_hostile import ANYTHING, TEXTS, Hostile

PARTS, REPLIES = scaled(10, least=1), scaled(200, least=50)  # so many replies to each part, so that none is a long test
TOGETHER = scaled(20, least=5)  # replies to one example
LONG = json.dumps({"turns": [], "facts": ["x" * 100] * 100_000})  # 10 MB


class Liar:
    """Answers whatever it likes: of the right shape and wrong, of any shape, too long, or the prompt itself."""

    identity = SPEC

    def __init__(self) -> None:
        self.hostile = Hostile(0)
        self.odd: list[Any] = []
        self.replies = 0

    async def complete(self, request: LLMRequest) -> LLMReply:
        self.replies += 1
        dice = self.hostile.dice.random()
        text = json.dumps(self.hostile.reply())
        if request.purpose == "verdict":
            told = {
                "new": self.hostile.one(["N1", "N2", "N9"]),
                "known": self.hostile.one(["K1", "K2", "bobs-fact", "K9"]),
                "verdict": self.hostile.one(["prefer_new", "prefer_old", "erase"]),
                "wrong": True,
            }
            text = json.dumps({"verdicts": [told]})
        if dice < 0.25 and self.odd:
            text = json.dumps(self.odd.pop())
        elif dice < 0.3:
            text = request.system if dice < 0.28 else request.content
        elif dice < 0.305:
            text = LONG
        return LLMReply(text, 1, 0, 1, "liar")

    async def close(self) -> None:
        return None


async def everything(memory: AsyncAgentMemory) -> list[Any]:
    return await memory.engine.log.find(memory.scope, Where(), limit=1000)


async def check(memory: AsyncAgentMemory, given_facts: set[str]) -> None:
    """What is current rests on words of its own turns, and on nothing of anybody else."""
    records = await everything(memory)
    turns = {record.id: record for record in records if isinstance(record, Turn)}
    facts = {record.id: record for record in records if isinstance(record, Fact)}
    for fact in facts.values():
        assert fact.user_id == memory.scope.user_id
        if fact.id in given_facts:
            continue
        assert fact.source_turn_ids
        assert {*fact.source_turn_ids} <= {*turns}
        for turn_id, start, end in fact.source_spans:
            assert turns[turn_id].content[start:end].strip()
        assert fact.source_spans, f"{fact.claim!r} rests on no words"
        assert {*fact.depends_on} <= {*facts}
        assert fact.claim not in ("The user eats meat.", "The user has 4 cats.", "The user lives in Rome.")
    bundle = await memory.remember("what is known of the user?", top_k=50, reinforce=False)
    assert {fact.id for fact in bundle.facts} <= {*facts}


@pytest.fixture
def opened(tmp_path: Path) -> Any:
    """A memory whose model lies, and the liar."""
    stack, liar = AsyncExitStack(), Liar()
    memory = run(stack.enter_async_context(AsyncAgentMemory("bob", home=tmp_path, embedder="hash", llm=SPEC)))
    memory.engine.llms = LLMRegistry(memory.engine.settings, {SPEC: liar})
    yield memory, liar
    run(stack.aclose())


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
def test_nothing_escapes_and_nothing_ungrounded_reaches_recall(opened: Any, part: int) -> None:
    memory, liar = opened
    run(memory.learn_fact("Bob keeps bees."))
    before = run(everything(memory))
    users = iter(range(10_000))

    async def play(dice: int, odd: list[Any]) -> None:
        liar.hostile, liar.odd = Hostile(dice), odd
        alice = memory.scoped(user_id=f"alice {next(users)}", agent_id="helper")
        known = {(await alice.learn_fact("The user keeps bees.")).id}
        for number in range(TOGETHER):
            said = [
                {"role": role, "content": text, "conversation_id": f"chat {number}", "turn_id": f"{number} {name}"}
                for name, (role, text) in TEXTS.items()
            ]
            await alice.store_turns(said)
            (report,) = await alice.consolidate("consolidate")
            assert not report.stop_reason
        await check(alice, known)

    @seed(part)
    @settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(st.integers(0, 2**32), st.lists(ANYTHING, min_size=10, max_size=10))
    def examples(dice: int, odd: list[Any]) -> None:
        run(play(dice, odd))

    examples()
    assert liar.replies >= REPLIES, liar.replies
    assert run(everything(memory)) == before, "another user's records were touched"
