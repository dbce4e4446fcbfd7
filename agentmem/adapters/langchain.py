"""LangChain's agents: middleware that puts memory before the model, and stores what was said after it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.config import get_config
from langgraph.runtime import Runtime

from agentmem.adapters.bridge import MemoryBridge
from agentmem.core.clock import derive_id
from agentmem.facade.async_memory import AsyncAgentMemory
from agentmem.facade.memory import AgentMemory


class AgentMemMiddleware(AgentMiddleware):
    """Middleware for `create_agent(model, middleware=[AgentMemMiddleware(memory)])`.

    Before each call of the model, `context()` for the user's last message stands before that message, as data in a
    message of its own that no state keeps. After a run, the user's message and the answers to it are stored as turns of
    the conversation that the thread names; a run that is repeated stores nothing twice.
    """

    def __init__(self, memory: AgentMemory | AsyncAgentMemory, *, max_tokens: int = 1_500) -> None:
        super().__init__()
        self._bridge, self._max_tokens = MemoryBridge(memory), max_tokens

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Call the model with what memory holds."""
        return handler(self._bridge.run(self._add_context(request)))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """The same, awaited."""
        return await handler(await self._bridge.run_async(self._add_context(request)))

    def after_agent(self, state: AgentState[Any], runtime: Runtime[Any]) -> None:
        """Store what was said last."""
        self._bridge.run(self._store(state["messages"], _thread_id()))

    async def aafter_agent(self, state: AgentState[Any], runtime: Runtime[Any]) -> None:
        """The same, awaited."""
        await self._bridge.finish(self._store(state["messages"], _thread_id()))

    async def _add_context(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        place = _find_question(request.messages)
        question = str(request.messages[place].text) if place >= 0 else ""
        if not question.strip():
            return request
        found = await self._bridge.memory.context(question, max_tokens=self._max_tokens)
        if not found.text:
            return request
        messages = list(request.messages)
        messages.insert(place, HumanMessage(found.text))
        return request.override(messages=messages)

    async def _store(self, messages: Sequence[BaseMessage], thread_id: str) -> None:
        memory, asked = self._bridge.memory, max(_find_question(messages), 0)
        conversation = {"conversation_id": thread_id} if thread_id else {}
        turns = [
            {
                "role": "assistant" if isinstance(message, AIMessage) else "user",
                "content": str(message.text),
                **({"turn_id": derive_id("langchain", thread_id, message.id)} if message.id else {}),
                **conversation,
            }
            for message in messages[asked:]
            if isinstance(message, HumanMessage | AIMessage) and str(message.text).strip()
        ]
        if turns:
            await memory.store_turns(turns)


def _find_question(messages: Sequence[BaseMessage]) -> int:
    """Where the last message of the user stands; -1 for none."""
    return max((place for place, message in enumerate(messages) if isinstance(message, HumanMessage)), default=-1)


def _thread_id() -> str:
    """The thread of the run, which is memory's conversation; "" for none."""
    return str(get_config().get("configurable", {}).get("thread_id") or "")
