"""A language model for tests of recall: it answers by purpose, as told, and remembers what it was asked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from agentmem.engine.engine import Engine
from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.models.protocols import LLMReply, LLMRequest
from agentmem.models.registry import LLMRegistry
from agentmem.recall.bundle import MemoryBundle
from agentmem.recall.pipeline import RecallLayer
from agentmem.recall.request import RecallRequest

TECHNIQUES = ("decompose", "expansion", "hyde", "self_query")
HYDE = {"sentence": "Ann plays the cello in an orchestra."}
EXPANSION = {"statements": ["Ann plays the cello.", "Ann makes music."]}
DECOMPOSE = {"parts": ["Which instrument does Ann play?", "Which game does Bob play?"]}
SELF_QUERY = {
    "first_day": "2023-05-03",
    "last_day": "2023-05-05",
    "kinds": ["fact"],
    "entities": ["Ann"],
    "keywords": ["cello"],
}
GOOD = dict(zip(TECHNIQUES, (DECOMPOSE, EXPANSION, HYDE, SELF_QUERY), strict=True))


class ScriptedLLM:
    """See `LLM`. A reply is text, something for JSON, or an error to raise; a purpose without one gets {}.

    A reply takes `turns` turns of the event loop; None: it never comes.
    """

    identity = "replies:test"

    def __init__(self, replies: Mapping[str, Any] | None = None, *, turns: int | None = 0) -> None:
        self.replies = GOOD if replies is None else replies
        self.turns = turns
        self.requests: list[LLMRequest] = []

    async def complete(self, request: LLMRequest) -> LLMReply:
        self.requests.append(request)
        if self.turns is None:
            await asyncio.Event().wait()
        for _ in range(self.turns or 0):
            await asyncio.sleep(0)
        reply = self.replies.get(request.purpose, {})
        if isinstance(reply, Exception):
            raise reply
        return LLMReply(reply if isinstance(reply, str) else json.dumps(reply), 100, 0, 20, self.identity)

    async def close(self) -> None:
        pass


def install_llm(resources: Engine, llm: ScriptedLLM) -> None:
    """Make this the model that the settings name, whatever they say."""
    resources.llms = LLMRegistry(resources.settings, {resources.settings.llm: llm})


def build_llm_recall_layer(
    memory: AsyncAgentMemory, llm: ScriptedLLM | None, *names: str, **settings: Any
) -> RecallLayer:
    """Recall with these techniques switched on, beside the usual ones, and this model behind them."""
    engine = memory.engine
    if llm is not None:
        install_llm(engine, llm)
    on = {name: {"enabled": True, **settings.get(name, {})} for name in names}
    return RecallLayer(engine, {**settings, **on})


async def recall_with(
    layer: RecallLayer, memory: AsyncAgentMemory, query: str, *only: str, **more: Any
) -> MemoryBundle:
    """What is remembered for a query, by these techniques alone where some are named."""
    return await layer.recall(RecallRequest(query=query, techniques=only or None, **more), memory.scope)
